//! A simple condition in khz's own names and units, `node3:mem.available < 1GiB and load.1m > 4`, as an expression in PromQL and the
//! nodes that judge it. Knows no metric: the caller says what each is.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use khz_model::{Kind, Nanos, Pattern, Rate, RateUnit, Unit};
use khz_plan::limits::WINDOW_MAX;

use crate::amount::amount;
use crate::slips;

/// What there is to know of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its unit.
    pub unit: Unit,
    /// Whether it only grows.
    pub kind: Kind,
    /// What an instance of it is (`device`), if it has some.
    pub instances: Option<String>,
    /// It says in labels what a node is, and has no number.
    pub is_labels: bool,
}

/// A condition that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Which nodes judge it; `None`: all of them.
    pub nodes: Option<String>,
    /// The condition in PromQL.
    pub expr: String,
    /// What it compares, in the order of its parts.
    pub compared: Vec<Compared>,
}

/// The left side of one comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The metric.
    pub metric: String,
    /// Which series, and of which nodes.
    pub pattern: Pattern,
    /// Its rate, not itself.
    pub is_rate: bool,
}

/// Comparisons, the longer ones first.
const COMPARISONS: [&str; 6] = ["<=", ">=", "==", "!=", "<", ">"];

/// A rate is taken over at least this time.
const RATE_SPAN_MIN: Nanos = Nanos::from_secs(5);

/// Rows that a rate is taken over, at least.
const RATE_ROWS: u64 = 5;

/// Rows before these that a node keeps besides, at least: one of them says that the window is full.
const ROWS_BEFORE: u64 = 2;

/// The share of a window's samples that may be in its later half, and how many more: where rows come regularly it is half of them, of
/// five samples three.
const LATER_HALF: (&str, &str) = ("0.55", "0.5");

/// The share of the samples of a window, and of as long a time before it, that must be in the window, and how many fewer.
const WINDOW_OF_BACK: (&str, &str) = ("0.45", "0.5");

/// Parts of a condition whose values the row has: a plan has few steps, and a line has room for few values.
const SHOWN_MAX: usize = 8;

/// The label of an instance whose metric nobody knows.
const UNKNOWN_INSTANCE: &str = "exported_instance";

impl Waited {
    /// Reads a condition that is judged at this rate: `SERIES OP VALUE`, several with `and`. A value with `/s` is compared with the
    /// rate of a counter.
    ///
    /// # Errors
    /// Returns what is wrong, and what to write instead.
    pub fn read(text: &str, rate: Rate, about: impl Fn(&str) -> Option<About>) -> Result<Self, String> {
        let (mut nodes, mut parts): (Option<Option<String>>, Vec<String>) = (None, Vec::new());
        let (mut compared, mut labels) = (Vec::new(), BTreeSet::new());
        if let Some(slip) = slips::of_condition(text) {
            return Err(slip);
        }
        for part in text.split(" and ") {
            let at = |piece: &str| slips::column(text, piece);
            let (series, comparison, value) =
                split(part).map_err(|problem| format!("{problem} ({})", at(part.trim_start())))?;
            let pattern = Pattern::new(series).map_err(|error| error.to_string())?;
            let of_part = pattern.nodes().map(|nodes| nodes.as_str().to_owned());
            match &nodes {
                None => nodes = Some(of_part),
                Some(first) if of_part.is_none() || *first == of_part => {}
                Some(_) => {
                    return Err(format!(
                        "'{}' names other nodes than the first part: each node judges the whole condition by itself, with its own numbers",
                        part.trim()
                    ));
                }
            }
            let about = about(pattern.metric());
            check_number(&pattern, about.as_ref())
                .map_err(|problem| format!("{problem} ({})", at(series)))?;
            let metric = pattern.metric().to_owned();
            let is_rate = is_rate(value, about.as_ref());
            compared.push(Compared { metric, pattern: pattern.clone(), is_rate });
            let selector = selector(&pattern, about.as_ref())?;
            let window = match is_rate {
                true => Some(RateWindow::of(&pattern, &selector, rate, about.as_ref())?),
                false => None,
            };
            labels.extend(labels_of(&pattern, about.as_ref()).map(|(label, _)| label.to_owned()));
            let number = number(&pattern, value, about.as_ref());
            let number = number.map_err(|problem| format!("{problem} ({})", at(value)))?;
            parts.push(match window {
                Some(window) => format!("{} {comparison} {number} and {}", window.rate(), window.is_full()),
                None => format!("{selector} {comparison} {number}"),
            });
        }
        Ok(Waited { nodes: nodes.flatten(), expr: joined(&parts, &compared, &labels), compared })
    }

    /// What a value of the condition is of, by the label `metric` of its series.
    pub fn of_value(&self, metric: Option<&str>) -> Option<&Compared> {
        let first_rate = || self.compared.iter().find(|one| one.is_rate);
        match metric {
            Some(metric) => self.compared.iter().find(|one| one.metric == metric && !one.is_rate),
            // A rate has no name; nor has a result whose parts are all of one metric.
            None => first_rate().or(self.compared.first()),
        }
    }
}

/// The whole condition, with the values of its parts. Each part may be of other instances: all must hold somewhere on the node.
fn joined(parts: &[String], compared: &[Compared], labels: &BTreeSet<String>) -> String {
    if let [one] = parts {
        return one.clone();
    }
    // A rate has no name by which to tell it from another one.
    let first_rate = compared.iter().position(|one| one.is_rate);
    let is_shown = |at: &usize| !compared[*at].is_rate || Some(*at) == first_rate;
    let bracketed = |at: usize| format!("({})", parts[at]);
    let shown: Vec<String> = (0..parts.len()).filter(is_shown).take(SHOWN_MAX).map(bracketed).collect();
    let by: Vec<&str> = ["__name__"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let values = shown.join(&format!(" or on({}) ", by.join(",")));
    let all: Vec<String> = (0..parts.len()).map(bracketed).collect();
    format!("({values}) and on() {}", all.join(" and on() "))
}

/// Series, comparison and value of `mem.available < 1GiB`.
pub(crate) fn split(part: &str) -> Result<(&str, &'static str, &str), String> {
    // What stands between brackets is the name of an instance.
    let after = part.rfind(']').map_or(0, |at| at + 1);
    let found = COMPARISONS.iter().filter_map(|one| Some((after + part[after..].find(one)?, *one)));
    let Some((at, comparison)) = found.min_by_key(|(at, one)| (*at, std::cmp::Reverse(one.len()))) else {
        return Err(format!(
            "'{}' compares nothing: write SERIES < VALUE, as 'mem.available < 1GiB' (comparisons: < <= > >= == !=)",
            part.trim()
        ));
    };
    let (series, value) = (part[..at].trim(), part[at + comparison.len()..].trim());
    if series.is_empty() || value.is_empty() {
        return Err(format!("'{}' lacks a side: write SERIES {comparison} VALUE", part.trim()));
    }
    Ok((series, comparison, value))
}

/// Whether a value is compared with a rate.
pub(crate) fn is_rate(value: &str, about: Option<&About>) -> bool {
    let of_time = |about: &About| about.kind == Kind::Counter && about.unit == Unit::Seconds;
    value.ends_with("/s") || value.ends_with("CPUs") || value.ends_with('%') && about.is_some_and(of_time)
}

/// The number on the right side.
pub(crate) fn number(pattern: &Pattern, value: &str, about: Option<&About>) -> Result<f64, String> {
    let metric = pattern.metric();
    let unit = about.map(|about| about.unit);
    let read = match value {
        value if !is_rate(value, about) => amount(value, unit),
        value if value.ends_with('%') => amount(value, None).map(|percent| percent / 100.0),
        value => match value.strip_suffix("CPUs") {
            Some(cpus)
                if about.is_none_or(|about| RateUnit::of(metric, about.unit.as_str()) == RateUnit::Cpus) =>
            {
                amount(cpus, Some(Unit::Count))
            }
            Some(_) => Err(format!("'{value}' does not fit: it is not the time of processors")),
            None => amount(value.strip_suffix("/s").unwrap_or(value), unit),
        },
    };
    read.map_err(|problem| format!("{metric}: {problem}"))
}

/// The window over which the rate of some series is taken.
struct RateWindow<'a> {
    /// The series in PromQL.
    selector: &'a str,
    /// How long it is.
    span: Nanos,
    /// So far back a sample is looked for that was there before the window.
    back: Nanos,
}

impl<'a> RateWindow<'a> {
    fn of(pattern: &Pattern, selector: &'a str, rate: Rate, about: Option<&About>) -> Result<Self, String> {
        if about.is_some_and(|about| about.kind != Kind::Counter) {
            let metric = pattern.metric();
            return Err(format!("{metric} is no counter: compare it with a number without '/s'"));
        }
        let rows = |count| Nanos(rate.period().0.saturating_mul(count));
        if rows(RATE_ROWS + ROWS_BEFORE) > WINDOW_MAX {
            return Err("a rate needs seven rows in five minutes: ask more often (--rate 1Hz)".to_owned());
        }
        let span = rows(RATE_ROWS).max(RATE_SPAN_MIN);
        // Agents may have a ceiling, so that rows come more slowly than asked. Where there are two in the window, there is one in the
        // same time before it.
        Ok(RateWindow { selector, span, back: Nanos(span.0 * 2).min(WINDOW_MAX) })
    }

    fn over(&self, function: &str, span: Nanos) -> String {
        format!("{function}({}[{}ms])", self.selector, span.0.div_ceil(1_000_000))
    }

    fn rate(&self) -> String {
        self.over("rate", self.span)
    }

    /// Is true once samples fill the window. Until then `rate`, which divides by all of it, is too low, and a condition such as `< 8/s`
    /// would be true of any counter that has just begun. Five things must be so:
    ///
    /// - the series has a value now: it has not ended;
    /// - it had one before the window began;
    /// - the earlier half of the window has about as many samples as the later half: the series was not away when the window began;
    /// - the window has about as many samples as the same time before had: the series was not away within it;
    /// - the counter has not begun again within twice its time: what it grew by just before that nobody knows, and from 0 on `rate` does
    ///   not look further back.
    ///
    /// No number of samples is asked for: rows may come more slowly than asked.
    fn is_full(&self) -> String {
        let count = |span| self.over("count_over_time", span);
        let (all, later, back) = (count(self.span), count(Nanos(self.span.0 / 2)), count(self.back));
        let ((share, more), (of_back, fewer)) = (LATER_HALF, WINDOW_OF_BACK);
        format!(
            "{} and {back} > {all} and {later} <= {share} * {all} + {more} and {all} >= {of_back} * {back} - {fewer} unless {} > 0",
            self.selector,
            self.over("resets", self.back)
        )
    }
}

/// Whether there is a number to compare.
pub(crate) fn check_number(pattern: &Pattern, about: Option<&About>) -> Result<(), String> {
    match about.is_some_and(|about| about.is_labels) {
        true => Err(format!(
            "{} has labels and no number, so there is nothing to compare (`khz get {0}` shows them)",
            pattern.metric()
        )),
        false => Ok(()),
    }
}

/// The metric of a pattern, which must be one of khz.
pub(crate) fn check_metric(pattern: &Pattern) -> Result<&str, String> {
    let metric = pattern.metric();
    if metric.contains(['*', '?']) {
        return Err(format!(
            "'{metric}' means several metrics: write one, as mem.available (`khz catalog` lists them)"
        ));
    }
    if !metric.contains('.') {
        return Err(format!(
            "'{metric}' is no metric of khz: their names have a dot, as load.1m (`khz catalog` lists them)"
        ));
    }
    Ok(metric)
}

/// `{"net.rx_bytes",device=~"eth.*"}`
fn selector(pattern: &Pattern, about: Option<&About>) -> Result<String, String> {
    let metric = check_metric(pattern)?;
    let mut out = format!("{{\"{metric}\"");
    for (label, value) in labels_of(pattern, about) {
        if label.is_empty() {
            return Err(format!("'{value}' is no label: write [NAME,label=value]"));
        }
        let is_glob = value.contains(['*', '?']);
        let value = unescaped(value);
        let text = if is_glob { regex(&value) } else { value };
        let operator = if is_glob { "=~" } else { "=" };
        let _ = write!(out, ",{label}{operator}\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    }
    out.push('}');
    Ok(out)
}

/// The labels that a pattern wants, with their values; without a name where it is none.
fn labels_of<'a>(pattern: &'a Pattern, about: Option<&'a About>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let instances = about.and_then(|about| about.instances.as_deref()).unwrap_or(UNKNOWN_INSTANCE);
    let parts = pattern.instance().into_iter().flat_map(|instance| instance.split(',').enumerate());
    parts.map(move |(at, part)| match part.split_once('=') {
        Some(labelled) => labelled,
        None if at == 0 => (instances, part),
        None => ("", part),
    })
}

/// Undoes the `%2F` of names. A pattern has been read already, so its escapes are whole.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        match (byte, code()) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The regular expression that fits what a glob fits.
fn regex(glob: &str) -> String {
    let mut out = String::new();
    for c in glob.chars() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            c if "\\.+()|[]{}^$".contains(c) => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use khz_model::{Metric, NodeName, Series};
    use proptest::prelude::*;

    use super::*;

    fn about(metric: &str) -> Option<About> {
        let (unit, kind, instances) = match metric {
            "mem.available" => (Unit::Bytes, Kind::Gauge, None),
            "net.rx_bytes" => (Unit::Bytes, Kind::Counter, Some("device")),
            "disk.io_time" => (Unit::Seconds, Kind::Counter, Some("device")),
            "cpu.all.user" => (Unit::Seconds, Kind::Counter, None),
            "pressure.io.some.avg10" => (Unit::Percent, Kind::Gauge, None),
            "load.1m" | "host.uname" => (Unit::Count, Kind::Gauge, None),
            _ => return None,
        };
        let is_labels = metric == "host.uname";
        Some(About { unit, kind, instances: instances.map(str::to_owned), is_labels })
    }

    fn read(text: &str) -> Result<Waited, String> {
        Waited::read(text, Rate::from_hz(1).unwrap(), about)
    }

    /// The text with what says that a window of 5 s is full for each `FULL SELECTOR`.
    fn with_full(text: &str) -> String {
        let mut parts = text.split("FULL ");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (selector, rest) = part.split_at(part.find('}').unwrap() + 1);
            let count = |span: &str| format!("count_over_time({selector}[{span}])");
            let (all, half, back) = (count("5000ms"), count("2500ms"), count("10000ms"));
            out += &format!(
                "{selector} and {back} > {all} and {half} <= 0.55 * {all} + 0.5 and {all} >= 0.45 * {back} - 0.5 unless resets({selector}[10000ms]) > 0{rest}"
            );
        }
        out
    }

    #[test]
    fn conditions_become_expressions_that_nodes_can_compute() {
        for (text, nodes, expr) in [
            ("node3:mem.available < 1GiB", Some("node3"), r#"{"mem.available"} < 1073741824"#),
            ("load.1m>=4", None, r#"{"load.1m"} >= 4"#),
            (
                "n[1-4]:net.rx_bytes[eth0] > 2MB",
                Some("n[1-4]"),
                r#"{"net.rx_bytes",device="eth0"} > 2000000"#,
            ),
            (
                "net.rx_bytes[eth*] > 2MB/s",
                None,
                r#"rate({"net.rx_bytes",device=~"eth.*"}[5000ms]) > 2000000 and FULL {"net.rx_bytes",device=~"eth.*"}"#,
            ),
            (
                "disk.io_time[sda] > 90%",
                None,
                r#"rate({"disk.io_time",device="sda"}[5000ms]) > 0.9 and FULL {"disk.io_time",device="sda"}"#,
            ),
            (
                "cpu.all.user > 1.5CPUs",
                None,
                r#"rate({"cpu.all.user"}[5000ms]) > 1.5 and FULL {"cpu.all.user"}"#,
            ),
            ("cpu.all.user > 10min", None, r#"{"cpu.all.user"} > 600"#),
            ("pressure.io.some.avg10 > 5%", None, r#"{"pressure.io.some.avg10"} > 5"#),
            ("job.done == 1", None, r#"{"job.done"} == 1"#),
            ("job.done[a%3Db,rank=0] == 1", None, r#"{"job.done",exported_instance="a=b",rank="0"} == 1"#),
            (
                "n1:load.1m > 4 and mem.available < 1GiB",
                Some("n1"),
                r#"(({"load.1m"} > 4) or on(__name__) ({"mem.available"} < 1073741824)) and on() ({"load.1m"} > 4) and on() ({"mem.available"} < 1073741824)"#,
            ),
            (
                "net.rx_bytes[eth0] > 1MB/s and net.rx_bytes[eth1] > 2MB/s and net.rx_bytes[*] > 5MB",
                None,
                r#"((rate({"net.rx_bytes",device="eth0"}[5000ms]) > 1000000 and FULL {"net.rx_bytes",device="eth0"}) or on(__name__,device) ({"net.rx_bytes",device=~".*"} > 5000000)) and on() (rate({"net.rx_bytes",device="eth0"}[5000ms]) > 1000000 and FULL {"net.rx_bytes",device="eth0"}) and on() (rate({"net.rx_bytes",device="eth1"}[5000ms]) > 2000000 and FULL {"net.rx_bytes",device="eth1"}) and on() ({"net.rx_bytes",device=~".*"} > 5000000)"#,
            ),
        ] {
            let waited = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let expr = &with_full(expr);
            assert_eq!((waited.nodes.as_deref(), &waited.expr), (nodes, expr), "{text}");
            khz_promql::compile(&waited.expr).unwrap_or_else(|error| panic!("{expr}: {error}"));
        }
    }

    #[test]
    fn a_value_is_of_the_part_that_its_label_names_or_of_the_rate() {
        let waited = read("load.1m > 4 and net.rx_bytes[*] > 1MB/s and mem.available < 1GiB").unwrap();
        let of = |metric| waited.of_value(metric).map(|one| (&*one.metric, one.is_rate));
        assert_eq!(of(Some("mem.available")), Some(("mem.available", false)));
        assert_eq!(of(Some("net.rx_bytes")), None, "its rate has no name");
        assert_eq!(of(None), Some(("net.rx_bytes", true)));
        assert_eq!(read("load.1m > 4").unwrap().of_value(None).unwrap().metric, "load.1m");
    }

    #[test]
    fn forty_parts_are_one_condition() {
        let text = (0..40).map(|n| format!("load.1m > {n}")).collect::<Vec<_>>().join(" and ");
        khz_promql::compile(&read(&text).unwrap().expr).unwrap();
        let text =
            (0..10).map(|n| format!("net.rx_bytes[eth{n}] > {n}B/s")).collect::<Vec<_>>().join(" and ");
        khz_promql::compile(&read(&text).unwrap().expr).unwrap();
    }

    #[test]
    fn what_is_wrong_says_what_to_write() {
        for (text, problem) in [
            ("mem.available", "compares nothing"),
            ("mem.available <", "lacks a side"),
            ("< 5", "lacks a side"),
            ("mem.available < 5s", "mem.available: '5s' does not fit: the number is in bytes"),
            ("load.1m > 5/s", "load.1m is no counter"),
            ("mem.* < 1GiB", "means several metrics"),
            ("node_load1 > 4", "is no metric of khz"),
            ("Mem.free < 1", "lower-case words"),
            ("n1:load.1m > 4 and n2:load.1m > 4", "names other nodes than the first part"),
            ("load.1m > 4 and n2:load.1m > 4", "names other nodes than the first part"),
            ("load.1m > 4 and", "'4 and'"),
            ("load.1m > 4 and mem.available < 5s", "write 512MiB, 1GiB or 2GB (column 33)"),
            ("load.1m > 4 and mem.available", "(comparisons: < <= > >= == !=) (column 17)"),
            ("load.1m > 4 AND load.1m < 9", "write 'and' instead of 'AND' (column 13)"),
            ("load.1m > 4 && load.1m < 9", "write 'and' instead of '&&' (column 13)"),
            ("load.1m > 4 or load.1m < 2", "'or' is not for simple conditions"),
            ("load.1m > 4 or load.1m < 2", "(column 13)"),
            ("load.1m =< 4", "write '<=' instead of '=<' (column 9)"),
            ("load.1m => 4", "write '>=' instead of '=>' (column 9)"),
            ("load.1m = 4", "write '==' instead of '=' (column 9)"),
            ("net.rx_bytes > 2CPUs", "not the time of processors"),
            ("host.uname > 1", "host.uname has labels and no number"),
            ("load.1m > 4 and host.uname > 1", "shows them) (column 17)"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
        let slow = Rate::from_period(Nanos::from_secs(100)).unwrap();
        assert!(Waited::read("net.rx_bytes > 1B/s", slow, about).unwrap_err().contains("seven rows"));
    }

    /// The rows, from 0, in which a condition on `job.cnt` has a value, where rows come at these times (ms).
    fn rows_in_which(text: &str, asked: Rate, rows: &[(i64, Option<u64>)]) -> Vec<usize> {
        let waited = Waited::read(text, asked, |_| None).unwrap();
        let plan = khz_promql::compile(&waited.expr).unwrap();
        let metric = Metric::plain("job.cnt", "khz_job_cnt", Kind::Counter, Unit::Count);
        let series = [Series { metric: metric.into(), instance: None }];
        let node = NodeName::new("n1").unwrap();
        let identity = khz_plan::Identity { node: &node, job: "node" };
        let mut bound = khz_plan::Bound::new(&plan, &series, identity, asked.period()).unwrap();
        let is_true = |(time, value): &(i64, Option<u64>)| {
            let time = (1_700_000_000_000 + time) * 1_000_000;
            bound.row(time, |_| *value).iter().any(|value| !khz_plan::is_absent(*value))
        };
        let all: Vec<bool> = rows.iter().map(is_true).collect();
        (0..rows.len()).filter(|&row| all[row]).collect()
    }

    /// Rows in this distance (ms); `value` gives what the counter is in one.
    fn every(millis: i64, value: impl Fn(i64) -> Option<u64>) -> Vec<(i64, Option<u64>)> {
        (0..40).map(|row| (row * millis, value(row))).collect()
    }

    #[test]
    fn a_rate_is_judged_once_its_window_is_full_and_not_before() {
        let hz = |hz| Rate::from_hz(hz).unwrap();
        // Ten a second, from any value on: the first window that is full ends with the sixth row.
        for begin in [0, 3, 1_000_000] {
            let rows = every(1_000, |row| Some(begin + 10 * row.cast_unsigned()));
            for never in ["< 8/s", "<= 9/s", "!= 10/s", "== 8/s", "> 12/s", ">= 11/s"] {
                let text = format!("job.cnt {never}");
                assert_eq!(rows_in_which(&text, hz(1), &rows), [0; 0], "{text} from {begin}");
            }
            for always in ["> 9/s", ">= 10/s", "== 10/s", "!= 9/s", "< 12/s", "<= 10/s"] {
                let text = format!("job.cnt {always}");
                assert_eq!(
                    rows_in_which(&text, hz(1), &rows),
                    (5..40).collect::<Vec<_>>(),
                    "{text} from {begin}"
                );
            }
        }
        // It is there later than the first row, or not at all for a while, and begins again at 0 then.
        for away in [2, 3, 4, 5, 7, 9, 10, 12] {
            let back: i64 = 15 + away;
            let value = |row: i64| match row {
                0..4 => None,
                row if row < 15 => Some(10 * (row - 4).cast_unsigned()),
                row if row < back => None,
                row => Some(10 * (row - back).cast_unsigned()),
            };
            let rows = every(1_000, value);
            let low = rows_in_which("job.cnt < 8/s", hz(1), &rows);
            assert!(low.iter().all(|&row| row as i64 > back + 1), "away for {away}: {low:?}");
            let high = rows_in_which("job.cnt > 9/s", hz(1), &rows);
            assert_eq!(high[0], 9, "away for {away}");
            assert!(high.contains(&(back as usize + 11)), "away for {away}: {high:?}");
        }
    }

    #[test]
    fn a_counter_that_begins_again_is_not_judged_by_what_nobody_knows_of_it() {
        for (asked, millis) in [("1Hz", 1_000), ("2s", 2_000), ("10Hz", 100), ("100Hz", 10)] {
            for (each, fallen) in [(17, 0), (23, 7), (31, 1_000)] {
                // Twenty a second; every so many seconds it is what it was at first, or a little more.
                let value = |row: i64| {
                    let time = row * millis;
                    Some((fallen + time % (each * 1_000) * 20 / 1_000).cast_unsigned())
                };
                let rows: Vec<_> = (0..60_000 / millis).map(|row| (row * millis, value(row))).collect();
                let asked: Rate = asked.parse().unwrap();
                for never in ["< 18/s", "> 22/s"] {
                    let found = rows_in_which(&format!("job.cnt {never}"), asked, &rows);
                    assert_eq!(found, [0; 0], "{never} at {millis} ms, again after {each} s");
                }
                let judged = rows_in_which("job.cnt > 19/s", asked, &rows).len();
                // One that begins again within two windows each time is never judged.
                let is_judged = each * 1_000 > 16 * millis.max(1_000);
                assert!(!is_judged || judged * 4 > rows.len(), "{judged} of {}", rows.len());
            }
        }
    }

    #[test]
    fn rows_that_come_more_slowly_than_asked_or_late_or_early_are_judged_too() {
        for (asked, millis) in [
            (10, 100),
            (10, 300),
            (10, 1_000),
            (10, 1_300),
            (10, 2_000),
            (10, 2_400),
            (1, 1_000),
            (1, 1_700),
            (3, 333),
            (100, 10),
        ] {
            let ten_a_second = |row: i64| Some((row * millis / 100).cast_unsigned());
            let rows: Vec<_> = (0..2_000).map(|row| (row * millis, ten_a_second(row))).collect();
            let asked = Rate::from_hz(asked).unwrap();
            let found = rows_in_which("job.cnt > 8/s", asked, &rows);
            let full = 5_000 / millis;
            assert!(found[0] as i64 >= full, "{millis} ms");
            assert_eq!(found.len() as i64, 2_000 - found[0] as i64, "{millis} ms: no gaps");
            assert!(found[0] as i64 <= full + 2, "{millis} ms: {}", found[0]);
            // Up to a fifth of a period late.
            let late = |row: i64| (row * 7_919 % 13) * millis / 65;
            let rows: Vec<_> = rows
                .iter()
                .enumerate()
                .map(|(row, (time, value))| (time + late(row as i64), *value))
                .collect();
            let found = rows_in_which("job.cnt > 5/s", asked, &rows);
            assert!(found.len() as i64 * 2 > 2_000 - full, "{millis} ms: {}", found.len());
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-z.:<>=!\\[\\]%0-9A-Za-z/ ,é]{0,50}") {
            let _ = read(&text).map(|waited| khz_promql::compile(&waited.expr).is_ok());
        }

        #[test]
        fn any_instance_is_found_by_its_own_name(name in "[a-z\"\\\\ .*%,=é]{1,12}") {
            let instance = khz_model::Instance::from_kernel(name.as_bytes());
            let waited = read(&format!("net.rx_bytes[{instance}] > 1")).unwrap();
            khz_promql::compile(&waited.expr).unwrap();
        }
    }
}
