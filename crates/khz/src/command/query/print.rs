//! Prints the answer to a query: a table, a plot in characters, or JSON. Values are as the engine prints them.

use std::io::Write;

use khz_ask::{PromqlData, PromqlLabels, PromqlPoint, PromqlSeries};
use khz_model::Nanos;
use khz_model::calendar::utc;
use khz_view::{Axis, Chart, Curve, Panel, Point};
use serde_json::json;

use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Side, Table, json_line, printable, remark};
use crate::show::terminal;

/// Lines of one plot: what fits on two screens.
const CURVES_MAX: usize = 32;
/// Columns of a plot, where the width of the terminal is unknown.
const COLUMNS: usize = 80;
/// A plot is not wider than this.
const WIDTH_MAX: usize = 200;
/// Points that are more than this many steps apart have a gap between them.
const GAP_STEPS: f64 = 1.5;

/// Prints an answer; `span` is the time of a range.
pub fn print(
    query: &str,
    data: &PromqlData,
    span: Option<(Nanos, Nanos)>,
    as_json: bool,
    out: &mut impl Write,
) -> Outcome {
    if as_json {
        return json_lines(data, out);
    }
    match data {
        PromqlData::Scalar((_, value)) | PromqlData::String((_, value)) => {
            writeln!(out, "{}", printable(value))?
        }
        PromqlData::Vector(samples) => {
            let mut table = Table::new(&[("SERIES", Side::Left), ("VALUE", Side::Right)], 0);
            for sample in samples {
                table.row([name(&sample.metric), sample.value.1.clone()]);
            }
            if samples.is_empty() {
                remark!("no series has a sample at that time");
            } else {
                out.write_all(table.render(terminal::width()).as_bytes())?;
            }
        }
        PromqlData::Matrix(series) if series.is_empty() => remark!("no series has a sample in that time"),
        PromqlData::Matrix(series) => match span {
            Some(span) => {
                out.write_all(khz_view::strips(&chart(query, series, span), plot_width()).as_bytes())?;
            }
            None => {
                let mut table =
                    Table::new(&[("SERIES", Side::Left), ("TIME", Side::Right), ("VALUE", Side::Right)], 0);
                for series in series {
                    for (time, value) in &series.values {
                        table.row([name(&series.metric), format!("{time:.3}"), value.clone()]);
                    }
                }
                out.write_all(table.render(terminal::width()).as_bytes())?;
            }
        },
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// The width of a plot.
pub fn plot_width() -> usize {
    terminal::width().unwrap_or(COLUMNS).min(WIDTH_MAX)
}

fn json_lines(data: &PromqlData, out: &mut impl Write) -> Outcome {
    let point = |(time, value): &PromqlPoint| json!([format!("{time:.3}"), value]);
    match data {
        PromqlData::Scalar((time, value)) | PromqlData::String((time, value)) => {
            writeln!(out, "{}", json_line(&json!({"time": format!("{time:.3}"), "value": value})))?;
        }
        PromqlData::Vector(samples) => {
            for sample in samples {
                let (time, value) = &sample.value;
                let line = json!({"metric": sample.metric, "time": format!("{time:.3}"), "value": value});
                writeln!(out, "{}", json_line(&line))?;
            }
        }
        PromqlData::Matrix(all) => {
            for series in all {
                let values: Vec<_> = series.values.iter().map(point).collect();
                writeln!(out, "{}", json_line(&json!({"metric": series.metric, "values": values})))?;
            }
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// A name as PromQL writes it: in quotes, if it has other letters than it may have without.
fn quoted(name: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    match name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// `name{label="value"}`
fn name(labels: &PromqlLabels) -> String {
    let name = labels.get("__name__").map_or("", String::as_str);
    let others: Vec<String> = labels
        .iter()
        .filter(|(label, _)| *label != "__name__")
        .map(|(label, value)| format!("{}={value:?}", quoted(label)))
        .collect();
    let is_plain = quoted(&name.replace(':', "_")) == name.replace(':', "_");
    match (name, others.is_empty()) {
        (name, true) if !name.is_empty() && !is_plain => format!("{{{name:?}}}"),
        (name, false) if !name.is_empty() && !is_plain => format!("{{{name:?},{}}}", others.join(",")),
        ("", _) => format!("{{{}}}", others.join(",")),
        (name, true) => name.to_owned(),
        (name, false) => format!("{name}{{{}}}", others.join(",")),
    }
}

/// The series below each other, on one axis.
fn chart(query: &str, all: &[PromqlSeries], (from, range): (Nanos, Nanos)) -> Chart {
    if all.len() > CURVES_MAX {
        remark!("{} series are not drawn; --json prints all", all.len() - CURVES_MAX);
    }
    let shown = &all[..all.len().min(CURVES_MAX)];
    let left_out = left_out(shown.iter().flat_map(|series| &series.values).map(|(_, value)| value.as_str()));
    let begin = from.0 as f64 / 1e9;
    let step = shown.iter().flat_map(|series| series.values.windows(2)).map(|two| two[1].0 - two[0].0);
    let step = step.fold(f64::INFINITY, f64::min);
    let curves = shown.iter().enumerate().map(|(legend, series)| {
        let mut before = None;
        let points = series.values.iter().filter_map(|(time, value)| {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite())?;
            let is_behind_gap = before.replace(*time).is_some_and(|before| time - before > GAP_STEPS * step);
            Some(Point { at: time - begin, low: number, mean: number, high: number, is_behind_gap })
        });
        Curve { name: name(&series.metric), legend, axis: 0, points: points.collect() }
    });
    let curves: Vec<Curve> = curves.collect();
    Chart {
        title: printable(query),
        subtitle: format!("{:.0} s, from {}{left_out}", range.as_secs_f64(), utc(from)),
        across: khz_view::Across::Time,
        time_title: format!("time since {}", utc(from)),
        begins: Some(from.as_secs_f64()),
        seconds: range.as_secs_f64(),
        axes: vec![Axis::default()],
        legend: shown.iter().map(|series| (printable(&name(&series.metric)), 0)).collect(),
        panels: vec![Panel { name: format!("{} series", shown.len()), curves, gaps: Vec::new() }],
    }
}

/// How many of these values no plot can show, as the end of a sentence.
fn left_out<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let (mut infinite, mut nan) = (0, 0);
    for number in values.filter_map(|value| value.parse::<f64>().ok()) {
        infinite += usize::from(number.is_infinite());
        nan += usize::from(number.is_nan());
    }
    let infinite = match infinite {
        0 => None,
        1 => Some("1 infinite value".to_owned()),
        more => Some(format!("{more} infinite values")),
    };
    let nan = (nan > 0).then(|| format!("{nan} NaN"));
    let all: Vec<String> = infinite.into_iter().chain(nan).collect();
    match &all[..] {
        [] => String::new(),
        [one] if one.starts_with("1 ") => format!("; {one} is not drawn"),
        _ => format!("; {} are not drawn", all.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> PromqlLabels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn printed(data: &PromqlData, span: Option<(Nanos, Nanos)>, as_json: bool) -> String {
        let mut out = Vec::new();
        print("x", data, span, as_json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_vector_is_a_table_or_one_object_a_line() {
        let sample = |metric, value: &str| khz_ask::PromqlSample {
            metric,
            value: (1_763_690_000.5, value.to_owned()),
        };
        let data = PromqlData::Vector(vec![
            sample(labels(&[("__name__", "up"), ("instance", "n1")]), "1"),
            sample(labels(&[]), "0.25"),
        ]);
        assert_eq!(
            printed(&data, None, false),
            "SERIES             VALUE\nup{instance=\"n1\"}      1\n{}                  0.25\n"
        );
        assert_eq!(
            printed(&data, None, true).lines().next().unwrap(),
            r#"{"metric":{"__name__":"up","instance":"n1"},"time":"1763690000.500","value":"1"}"#
        );
        assert_eq!(printed(&PromqlData::Scalar((5.0, "7".into())), None, false), "7\n");
    }

    #[test]
    fn a_series_is_written_as_a_query_names_it() {
        for (pairs, expected) in [
            (&[("__name__", "up"), ("a b", "1")][..], "up{\"a b\"=\"1\"}"),
            (&[("__name__", "net.rx_bytes"), ("instance", "n1")], "{\"net.rx_bytes\",instance=\"n1\"}"),
            (&[("__name__", "load.1m")], "{\"load.1m\"}"),
            (&[("__name__", "a:b"), ("1x", "\"")], "a:b{\"1x\"=\"\\\"\"}"),
        ] {
            assert_eq!(name(&labels(pairs)), expected);
        }
    }

    #[test]
    fn a_range_is_drawn_with_gaps_where_points_are_missing() {
        let values = [0.0, 15.0, 30.0, 75.0, 90.0].map(|at| (1_000.0 + at, format!("{at}"))).to_vec();
        let data = PromqlData::Matrix(vec![PromqlSeries { metric: labels(&[("instance", "n1")]), values }]);
        let text = printed(&data, Some((Nanos::from_secs(1_000), Nanos::from_secs(90))), false);
        assert!(text.contains("{instance=\"n1\"}") && text.contains('·') && text.contains('█'), "{text}");
        let json = printed(&data, Some((Nanos::from_secs(1_000), Nanos::from_secs(90))), true);
        assert!(json.starts_with(r#"{"metric":{"instance":"n1"},"values":[["1000.000","0"],"#), "{json}");
    }

    #[test]
    fn a_plot_says_how_many_values_it_cannot_draw_and_has_short_labels_for_the_largest() {
        let values = ["1e300", "+Inf", "NaN", "5e299", "-Inf"].iter().zip(0..);
        let values =
            values.map(|(value, at)| (1_763_690_000.0 + f64::from(at), (*value).to_owned())).collect();
        let data = PromqlData::Matrix(vec![PromqlSeries { metric: labels(&[("instance", "n1")]), values }]);
        let from = Nanos::from_secs(1_763_690_000);
        let shown = printed(&data, Some((from, Nanos::from_secs(4))), false);
        assert!(shown.contains("; 2 infinite values and 1 NaN are not drawn"), "{shown}");
        let said = |values: &[&str]| left_out(values.iter().copied());
        assert_eq!(said(&["1", "-2"]), "");
        assert_eq!(said(&["+Inf", "1"]), "; 1 infinite value is not drawn");
        assert_eq!(said(&["NaN"]), "; 1 NaN is not drawn");
        assert_eq!(said(&["NaN", "NaN"]), "; 2 NaN are not drawn");
        assert!(shown.contains("1e300") && !shown.contains("000000"), "{shown}");
    }
}
