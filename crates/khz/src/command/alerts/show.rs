//! `khz alerts show`: one alert with all that is known of it, and the rows around its beginning. It asks the khz what to draw, and
//! draws as `khz query` does.

use std::io::Write;

use clap::Args;
use khz_ask::{AlertAnswer, PromqlData, PromqlSeries, RuleAnswer, RulePicture, Server};
use khz_model::{Nanos, moment};
use serde_json::{Map, Value, json};

use super::{NAME_CHARS_MAX, since};
use crate::command::past::now;
use crate::command::query::{POINTS, print, seconds};
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::of_span;
use crate::show::table::{cut, json_line, printable, remark, wrapped};
use crate::show::terminal;

/// Examples for `khz alerts show --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz alerts show NodeDown          the alerts of this name
  khz alerts show NodeDown node7    that of one node
  khz alerts show NodeDown node7 --json
                                    with its series, for programs

The plot begins 15 minutes before the alert. For a rule such as `load > 5` it
shows the load, and its title has the number 5.";

/// Alerts of one name that are shown, the oldest firing ones first: each costs a query, and a screen.
const SHOWN_MAX: usize = 5;
/// Letters and lines of one text of an alert: a page. `--json` has the whole.
const TEXT_CHARS_MAX: usize = 2_000;
const TEXT_LINES_MAX: usize = 40;
/// Letters of the first line.
const TITLE_CHARS_MAX: usize = 200;
/// Letters of a value that is printed without an exponent: a whole number of 64 bits.
const VALUE_CHARS_MAX: usize = 20;
/// A text is not broken into shorter lines, however narrow the terminal is.
const LINE_CHARS_MIN: usize = 20;
/// The plot begins this long before the alert.
const BEFORE: Nanos = Nanos::from_secs(15 * 60);

/// `khz alerts show`.
#[derive(Debug, Args)]
pub struct AlertsShowFlags {
    /// The name of the alert.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Only that of this node.
    #[arg(value_name = "NODE")]
    pub of_node: Option<String>,
    /// One JSON object a line, with the series.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Shows the alerts of a name.
pub fn run(flags: AlertsShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let server = flags.target.running(&plan)?;
    let rules = server.alert_rules(&flags.name)?;
    if rules.is_empty() {
        return Err(Failure::work(format!("no alerting rule has the name {:?}", flags.name)));
    }
    for rule in &rules {
        if let Some(error) = &rule.last_error {
            remark!("the rule {} of the group {} fails: {error}", rule.name, rule.group);
        }
    }
    let is_of_node = |alert: &AlertAnswer| {
        flags.of_node.is_none() || alert.labels.get("instance") == flags.of_node.as_ref()
    };
    let mut alerts: Vec<(&RuleAnswer, &AlertAnswer)> = rules
        .iter()
        .flat_map(|rule| rule.alerts.iter().map(move |alert| (rule, alert)))
        .filter(|(_, alert)| is_of_node(alert))
        .collect();
    alerts
        .sort_by(|(_, one), (_, other)| (&one.state, &one.active_at).cmp(&(&other.state, &other.active_at)));
    if alerts.is_empty() {
        let of_node = flags.of_node.map(|node| format!(" of {node}")).unwrap_or_default();
        return Err(Failure::work(format!("no alert {}{of_node} fires or is pending", flags.name)));
    }
    for (number, &(rule, alert)) in alerts.iter().take(SHOWN_MAX).enumerate() {
        let around = Around::of(&server, rule, alert, now())?;
        match flags.json {
            true => writeln!(out, "{}", json_line(&object(rule, alert, &around)))?,
            false => {
                if number > 0 {
                    writeln!(out)?;
                }
                out.write_all(lines(rule, alert, around.end, terminal::width()).as_bytes())?;
                writeln!(out)?;
                around.draw(&rule.query, out)?;
            }
        }
        out.flush()?;
    }
    if alerts.len() > SHOWN_MAX {
        remark!("{} more alerts of this name are not shown: name a node", alerts.len() - SHOWN_MAX);
    }
    Ok(Done::Wholly)
}

/// The rows around the beginning of an alert.
struct Around {
    picture: RulePicture,
    start: Nanos,
    end: Nanos,
    series: Vec<PromqlSeries>,
}

impl Around {
    fn of(server: &Server, rule: &RuleAnswer, alert: &AlertAnswer, end: Nanos) -> Result<Self, Failure> {
        let instance = alert.labels.get("instance").map(String::as_str);
        let picture = server.rule_picture(&rule.query, instance)?;
        let begun = moment::read(&alert.active_at, end, None).unwrap_or(end);
        let start = Nanos(begun.0.min(end.0).saturating_sub(BEFORE.0));
        let step = Nanos::from_secs(((end.0 - start.0) / 1_000_000_000).div_ceil(POINTS).max(1));
        let answer = server.promql_range(&picture.query, &seconds(start), &seconds(end), &seconds(step))?;
        for note in answer.warnings.iter().chain(&answer.infos) {
            remark!("{note}");
        }
        let series = match answer.data {
            PromqlData::Matrix(series) => series,
            _ => Vec::new(),
        };
        Ok(Around { picture, start, end, series: of_alert(series, alert) })
    }

    fn draw(&self, expr: &str, out: &mut impl Write) -> Outcome {
        let title = heading(&self.picture, expr, print::plot_width());
        let span = (self.start, Nanos(self.end.0 - self.start.0));
        print::print(&title, &PromqlData::Matrix(self.series.clone()), Some(span), false, out)
    }
}

/// The heading of the plot, in at most `room` letters. `expr`: that of the rule, which stands above the plot as a whole. Of a long
/// query the end is left out, and never with which number it is compared.
fn heading(picture: &RulePicture, expr: &str, room: usize) -> String {
    let compared = match (&picture.operator, &picture.bound) {
        (Some(operator), Some(bound)) => format!("   (alert if {operator} {bound})"),
        _ => String::new(),
    };
    let query = printable(&picture.query);
    let (left, long) = (room.saturating_sub(compared.chars().count()), query.chars().count());
    match long <= left {
        true => format!("{query}{compared}"),
        // A part of what stands above would say less.
        false if picture.query == expr => "what the rule gives".to_owned(),
        false => format!("{}{compared}", cut(&query, left.max(LINE_CHARS_MIN))),
    }
}

/// The series with the labels of the alert, as far as they have the same ones; if none has them, a rule has changed its labels, and
/// all are shown.
fn of_alert(series: Vec<PromqlSeries>, alert: &AlertAnswer) -> Vec<PromqlSeries> {
    let is_its = |series: &PromqlSeries| {
        series.metric.iter().all(|(name, value)| {
            name == "__name__" || alert.labels.get(name).is_none_or(|of_alert| of_alert == value)
        })
    };
    match series.iter().any(is_its) {
        true => series.into_iter().filter(is_its).collect(),
        false => series,
    }
}

/// An alert in words, each of its parts on a line of its own. `width`: that of the terminal.
fn lines(rule: &RuleAnswer, alert: &AlertAnswer, now: Nanos, width: Option<usize>) -> String {
    let place = alert.labels.get("instance").map(|instance| format!(" on {instance}")).unwrap_or_default();
    let mut parts = vec![("state", since(alert, now))];
    parts.push(("there since", alert.active_at.clone()));
    parts.extend(alert.fired_at.iter().map(|time| ("fires since", time.clone())));
    parts.extend(
        alert.keep_firing_since.iter().map(|time| ("series gone", format!("{time} (keep_firing_for)"))),
    );
    parts.push(("value", value(&alert.value)));
    parts.push(("rule", format!("{} (group {})", rule.query, rule.group)));
    if rule.duration > 0.0 {
        parts.push(("for", of_span(rule.duration)));
    }
    let labels = alert.labels.iter().filter(|(name, _)| *name != "alertname");
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    if !labels.is_empty() {
        parts.push(("labels", labels.join(" ")));
    }
    parts.extend(alert.annotations.iter().map(|(name, text)| (name.as_str(), text.clone())));
    let names: Vec<String> = parts.iter().map(|(name, _)| cut(&printable(name), NAME_CHARS_MAX)).collect();
    let column = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let room = width.map(|width| width.saturating_sub(column + 4).max(LINE_CHARS_MIN));
    let mut text = cut(&printable(&format!("{}{place}", rule.name)), TITLE_CHARS_MAX) + "\n";
    for (name, (_, words)) in names.iter().zip(&parts) {
        // A text of several lines stays below its first one.
        let indent = format!("\n  {:column$}  ", "");
        text += format!("  {name:column$}  {}", page(words, room).join(&indent)).trim_end();
        text.push('\n');
    }
    text
}

/// A value with all its digits.
fn value(text: &str) -> String {
    let Ok(value) = text.parse::<f64>() else { return text.to_owned() };
    let (plain, short) = (format!("{value}"), format!("{value:e}"));
    if plain.len() <= VALUE_CHARS_MAX { plain } else { short }
}

/// The first page of a text, in lines of at most `room` letters where that is given.
fn page(text: &str, room: Option<usize>) -> Vec<String> {
    let shown = text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(end, _)| &text[..end]);
    let lines = shown.lines().map(printable).flat_map(|line| match room {
        Some(room) if line.chars().count() > room => broken(&line, room),
        _ => vec![line],
    });
    let mut lines: Vec<String> = lines.collect();
    if shown.len() < text.len() || lines.len() > TEXT_LINES_MAX {
        lines.truncate(TEXT_LINES_MAX);
        lines.push(format!("... ({} characters in all: --json has the whole)", text.chars().count()));
    }
    lines
}

/// A line in lines of at most `room` letters, broken at blanks where that is possible.
fn broken(line: &str, room: usize) -> Vec<String> {
    let pieces = wrapped(line, room).into_iter().flat_map(|line| {
        let letters: Vec<char> = line.chars().collect();
        letters.chunks(room).map(|part| part.iter().collect()).collect::<Vec<String>>()
    });
    pieces.collect()
}

fn object(rule: &RuleAnswer, alert: &AlertAnswer, around: &Around) -> Value {
    let mut object = match json!(alert) {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    let series = around.series.iter().map(|series| {
        let values: Vec<Value> =
            series.values.iter().map(|(time, value)| json!([format!("{time:.3}"), value])).collect();
        json!({ "metric": series.metric, "values": values })
    });
    object.insert("group".to_owned(), json!(rule.group));
    object.insert("expr".to_owned(), json!(rule.query));
    object.insert("for".to_owned(), json!(rule.duration));
    object.insert("drawn".to_owned(), json!(around.picture.query));
    object.insert("operator".to_owned(), json!(around.picture.operator));
    object.insert("bound".to_owned(), json!(around.picture.bound));
    object.insert("series".to_owned(), series.collect());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::alerts::tests::alert;

    fn series(labels: &[(&str, &str)]) -> PromqlSeries {
        let metric = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PromqlSeries { metric, values: vec![(1.0, "2".to_owned())] }
    }

    #[test]
    fn the_series_of_an_alert_are_those_with_its_labels() {
        let busy = alert("Busy", "firing");
        let all = vec![
            series(&[("__name__", "node_load1"), ("instance", "n1"), ("device", "a")]),
            series(&[("__name__", "node_load1"), ("instance", "n2")]),
        ];
        assert_eq!(of_alert(all.clone(), &busy), all[..1]);
        assert_eq!(of_alert(all[1..].to_vec(), &busy), all[1..]);
    }

    #[test]
    fn the_heading_of_a_plot_fits_and_says_with_what_a_long_query_is_compared() {
        let long = "sum by (instance) (rate(node_network_receive_errs_total[5m]))".to_owned();
        let compared =
            RulePicture { query: long.clone(), operator: Some(">".to_owned()), bound: Some("5".to_owned()) };
        let of = |picture: &RulePicture, room: usize| heading(picture, &format!("{long} > 5"), room);
        assert_eq!(of(&compared, 100), format!("{long}   (alert if > 5)"));
        let short = of(&compared, 50);
        assert!(short.ends_with("…   (alert if > 5)") && short.chars().count() <= 50, "{short}");
        let whole = RulePicture { query: long.clone(), operator: None, bound: None };
        assert_eq!(heading(&whole, &long, 100), long);
        assert_eq!(heading(&whole, &long, 50), "what the rule gives");
    }

    #[test]
    fn an_alert_is_told_with_both_of_its_times_and_all_its_texts() {
        let mut busy = alert("Busy", "firing");
        busy.annotations.insert("description".to_owned(), "first\nsecond\u{1b}".to_owned());
        let rule = RuleAnswer {
            group: "load".to_owned(),
            name: "Busy".to_owned(),
            query: "node_load1 > 9".to_owned(),
            duration: 60.0,
            ..RuleAnswer::default()
        };
        let now = Nanos(1_795_257_061_000_000_000);
        let text = lines(&rule, &busy, now, Some(80));
        let expected = "\
Busy on n1
  state        firing 1m
  there since  2026-11-21T10:29:01.000Z
  fires since  2026-11-21T10:30:01.000Z
  value        9.25
  rule         node_load1 > 9 (group load)
  for          1m
  labels       instance=n1 severity=warning
  description  first
               second?
  summary      load is 9 on n1
";
        assert_eq!(text, expected);
        busy.labels.retain(|name, _| name == "alertname");
        assert!(!lines(&rule, &busy, now, None).contains("labels"), "there is none");
    }

    #[test]
    fn texts_fit_the_terminal_and_a_page_and_a_value_has_all_its_digits() {
        let mut busy = alert("Busy", "firing");
        let long = "a text with many words ".repeat(3_000) + &"x".repeat(60_000);
        for (name, text) in [("words", long), ("word", "ü".repeat(60_000)), ("lines", "a\n".repeat(30_000))]
        {
            busy.annotations.insert(name.to_owned(), text);
        }
        busy.annotations.insert("name".repeat(1_000), "short".to_owned());
        busy.labels.insert("label".to_owned(), "v".repeat(60_000));
        busy.labels.insert("instance".to_owned(), "n".repeat(60_000));
        let rule = RuleAnswer { name: "Busy".to_owned(), ..RuleAnswer::default() };
        for width in [Some(80), Some(40), Some(1), None] {
            let text = lines(&rule, &busy, Nanos(1_795_257_061_000_000_000), width);
            // Names have their own column, however narrow the terminal is.
            let most = width.map_or(TEXT_CHARS_MAX, |width| width.max(NAME_CHARS_MAX + LINE_CHARS_MIN));
            let most = (most + NAME_CHARS_MAX + 8).max(TITLE_CHARS_MAX);
            assert!(text.lines().all(|line| line.chars().count() <= most), "{width:?}: {text}");
            assert!(text.lines().count() <= 6 * (TEXT_LINES_MAX + 2), "{width:?}: {text}");
            assert!(text.contains("... (60000 characters in all: --json has the whole)"), "{text}");
        }
        busy.annotations.retain(|name, _| name.len() < 10);
        let text = lines(&rule, &busy, Nanos(1_795_257_061_000_000_000), Some(80));
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
        for (given, expected) in [
            ("2.0749999999999", "2.0749999999999"),
            ("9.25e+00", "9.25"),
            ("-1e+300", "-1e300"),
            ("NaN", "NaN"),
        ] {
            assert_eq!(value(given), expected);
        }
    }
}
