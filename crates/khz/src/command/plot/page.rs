//! A chart over time as one HTML file: its numbers, and the scripts and styles of the page that draw, zoom and read them. The file
//! fetches nothing. It does not read recordings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use khz_view::{Chart, Curve, Point, Scale};
use serde_json::{Value, json};

use crate::show::outcome::Failure;

/// Where the page of a plot begins.
const ENTRY: &str = "plot-page.js";
/// Points of a line in a page: a day at a row every four seconds, so that there is something to zoom into.
pub const POINTS: usize = 20_000;
/// Points of all lines: a page of about 50 MB.
pub const POINTS_ALL: usize = 1_500_000;
/// Digits of a number: what a screen can show, and a little more.
const DIGITS: i32 = 7;

/// The points of each of `lines` lines.
pub fn points(lines: usize) -> usize {
    (POINTS_ALL / lines.max(1)).clamp(1_000, POINTS)
}

/// The page.
pub fn page(chart: &Chart, remarks: &[String]) -> Result<String, Failure> {
    let mut imports = serde_json::Map::new();
    for name in modules()? {
        let address = format!("data:text/javascript;charset=utf-8,{}", percent_encoded(&bare(file(&name)?)));
        imports.insert(format!("khz/{name}"), Value::String(address));
    }
    let (style, theme) = (file("style.css")?, file("theme.js")?);
    let title = escaped(&chart.title);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n<script>\n{theme}</script>\n\
         <script type=\"importmap\">{}</script>\n</head>\n<body>\n\
         <noscript><p class=\"notice\">This plot draws with JavaScript, which is switched off.</p></noscript>\n\
         <script type=\"application/json\" id=\"plot-data\">{}</script>\n\
         <script type=\"module\">import \"khz/{ENTRY}\";</script>\n</body>\n</html>\n",
        script_safe(&json!({ "imports": imports })),
        script_safe(&numbers(chart, remarks)),
    ))
}

/// What the chart shows, as `plot-page.js` takes it: a panel for each node and axis.
fn numbers(chart: &Chart, remarks: &[String]) -> Value {
    let panels = chart.panels.iter().flat_map(|panel| {
        chart.axes.iter().enumerate().filter_map(move |(number, axis)| {
            let curves: Vec<&Curve> = panel.curves.iter().filter(|curve| curve.axis == number).collect();
            let series: Vec<Value> = curves.iter().map(|curve| series(chart, curve)).collect();
            let title = if panel.name.is_empty() {
                axis.title.clone()
            } else {
                format!("{}: {}", panel.name, axis.title)
            };
            (!series.is_empty()).then(
                || json!({ "title": title, "axis": number, "scale": scale(axis.scale), "series": series }),
            )
        })
    });
    json!({
        "title": chart.title, "subtitle": chart.subtitle, "from": chart.begins, "seconds": chart.seconds,
        "remarks": remarks, "panels": panels.collect::<Vec<_>>(),
    })
}

fn scale(scale: Scale) -> &'static str {
    match scale {
        Scale::Plain => "plain",
        Scale::Bytes => "bytes",
        Scale::Percent => "percent",
    }
}

/// One line. Where no point sums up several values, there are neither lowest nor highest ones.
fn series(chart: &Chart, curve: &Curve) -> Value {
    let label = chart.legend.get(curve.legend).map_or(curve.name.as_str(), |(name, _)| name.as_str());
    let each =
        |of: fn(&Point) -> f64| curve.points.iter().map(|point| rounded(of(point))).collect::<Vec<_>>();
    let broken: Vec<usize> =
        curve.points.iter().enumerate().filter(|(_, point)| point.is_behind_gap).map(|(at, _)| at).collect();
    let at: Vec<f64> = curve.points.iter().map(|point| (point.at * 1e6).round() / 1e6).collect();
    let mut series = json!({ "label": label, "at": at, "mean": each(|point| point.mean), "broken": broken });
    if curve.points.iter().any(|point| point.low != point.high) {
        series["low"] = json!(each(|point| point.low));
        series["high"] = json!(each(|point| point.high));
    }
    series
}

/// With as many digits as can be seen.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let factor = 10f64.powi(DIGITS - 1 - value.abs().log10().floor() as i32);
    let rounded = (value * factor).round() / factor;
    if rounded.is_finite() { rounded } else { value }
}

/// The modules that the page of a plot needs.
fn modules() -> Result<BTreeSet<String>, Failure> {
    let (mut found, mut open) = (BTreeSet::new(), vec![ENTRY.to_owned()]);
    while let Some(name) = open.pop() {
        let text = file(&name)?;
        if found.insert(name) {
            let names = text.split("from \"./").skip(1).filter_map(|rest| rest.split_once('"'));
            open.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    Ok(found)
}

/// A module within a page: it names the others as the page's map does, since it has no address of its own.
fn bare(text: &str) -> String {
    text.replace("from \"./", "from \"khz/")
}

fn file(name: &str) -> Result<&'static str, Failure> {
    khz_http::page_file(name).ok_or_else(|| Failure::work(format!("BUG: the page has no file {name}")))
}

/// JSON within a script: no end of a script is in it.
fn script_safe(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As an address has it: letters and digits as they are, all other bytes as numbers.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'('
            | b')'
            | b'*'
            | b'\''
            | b'!'
            | b','
            | b';'
            | b':'
            | b'='
            | b'/'
            | b'+'
            | b'$' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_view::{Axis, Panel};

    fn chart() -> Chart {
        let point = |at, low, mean, high, is_behind_gap| Point { at, low, mean, high, is_behind_gap };
        let curve = |axis, points| Curve { name: String::new(), legend: axis, axis, points };
        let left =
            curve(0, vec![point(0.0, 1.0, 1.0, 1.0, false), point(2.5, 1.0, 123_456.789_123, 7.0, true)]);
        let right = curve(1, vec![point(1.0, 2.0, 2.0, 2.0, false)]);
        Chart {
            title: "</script><b>".into(),
            begins: Some(100.0),
            seconds: 10.0,
            axes: vec![
                Axis { title: "number".into(), scale: Scale::Plain },
                Axis { title: "bytes".into(), scale: Scale::Bytes },
            ],
            legend: vec![("load.1m".into(), 0), ("mem.free".into(), 1)],
            panels: vec![Panel { name: "n1".into(), curves: vec![left, right], gaps: vec![] }],
            ..Chart::default()
        }
    }

    #[test]
    fn each_axis_of_a_node_is_a_panel_with_its_numbers() {
        let expected = json!({
            "title": "</script><b>", "subtitle": "", "from": 100.0, "seconds": 10.0, "remarks": [],
            "panels": [
                { "title": "n1: number", "axis": 0, "scale": "plain", "series": [{ "label": "load.1m", "at": [0.0, 2.5],
                  "mean": [1.0, 123456.8], "low": [1.0, 1.0], "high": [1.0, 7.0], "broken": [1] }] },
                { "title": "n1: bytes", "axis": 1, "scale": "bytes", "series": [{ "label": "mem.free", "at": [1.0],
                  "mean": [2.0], "broken": [] }] },
            ],
        });
        assert_eq!(numbers(&chart(), &[]), expected);
    }

    #[test]
    fn the_page_has_all_its_modules_and_fetches_nothing() {
        let page = page(&chart(), &[]).unwrap();
        let body = page.split_once("id=\"plot-data\"").unwrap().1;
        assert_eq!(body.matches("</script>").count(), 2, "no text ends a script");
        for name in modules().unwrap() {
            assert!(page.contains(&format!("\"khz/{name}\":\"data:text/javascript")), "{name}");
        }
        for outside in ["src=\"", "href=\"", "from \"./", "from%20%22./", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn numbers_keep_seven_digits() {
        assert_eq!(rounded(0.000_123_456_789), 0.000_123_456_8);
        assert_eq!(rounded(-98_765_432.1), -98_765_430.0);
        assert_eq!([rounded(0.0), rounded(1e-320)], [0.0, 1e-320]);
    }
}
