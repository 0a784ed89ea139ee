//! The values of a template, and how they are printed: as Go prints them.

use std::collections::BTreeMap;
use std::rc::Rc;

use khz_promql::LabelSet;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// `nil`, and what is not in a map of anything.
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    /// A text that `safeHtml` made; it is no text for functions.
    Html(Rc<str>),
    /// A map of texts.
    Labels(Rc<BTreeMap<String, String>>),
    /// A map of anything (`args`).
    Map(Rc<BTreeMap<String, Value>>),
    Sample(Rc<Sample>),
    /// What a query gave.
    Samples(Rc<Vec<Rc<Sample>>>),
    /// ms since 1970
    Time(i64),
    /// ns
    Duration(i64),
    /// What a template begins with.
    Data(Rc<Data>),
}

#[derive(Debug)]
pub(super) struct Sample {
    pub labels: Rc<BTreeMap<String, String>>,
    pub value: f64,
}

#[derive(Debug)]
pub(super) struct Data {
    pub labels: Value,
    pub external_labels: Value,
    pub external_url: Value,
    pub value: Value,
}

/// Labels as a map of texts.
pub(super) fn map(labels: &LabelSet) -> Rc<BTreeMap<String, String>> {
    Rc::new(labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
}

impl Value {
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Value::Text(text.into())
    }

    /// Its type, as Go names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float64",
            Value::Text(_) => "string",
            Value::Html(_) => "template.HTML",
            Value::Labels(_) => "map[string]string",
            Value::Map(_) => "map[string]interface {}",
            Value::Sample(_) => "*template.sample",
            Value::Samples(_) => "template.queryResult",
            Value::Time(_) => "*time.Time",
            Value::Duration(_) => "*time.Duration",
            Value::Data(_) => "the data of the template",
        }
    }

    /// Whether it counts as true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(is_true) => *is_true,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) | Value::Html(text) => !text.is_empty(),
            Value::Labels(map) => !map.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Samples(all) => !all.is_empty(),
            Value::Sample(_) | Value::Time(_) | Value::Duration(_) | Value::Data(_) => true,
        }
    }

    /// As Go's `%v` prints it.
    pub fn print(&self) -> String {
        let map = |entries: Vec<(&String, String)>| {
            let entries: Vec<String> =
                entries.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
            format!("map[{}]", entries.join(" "))
        };
        let labels = |all: &BTreeMap<String, String>| {
            map(all.iter().map(|(name, value)| (name, value.clone())).collect())
        };
        match self {
            Value::Nil => String::from("<no value>"),
            Value::Bool(is_true) => is_true.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => float(*number),
            Value::Text(text) | Value::Html(text) => text.to_string(),
            Value::Labels(all) => labels(all),
            Value::Map(all) => map(all.iter().map(|(name, value)| (name, value.print_inner())).collect()),
            Value::Sample(sample) => format!("{{{} {}}}", labels(&sample.labels), float(sample.value)),
            // Go prints addresses here.
            Value::Samples(all) => {
                let all: Vec<String> =
                    all.iter().map(|sample| Value::Sample(sample.clone()).print()).collect();
                format!("[{}]", all.join(" "))
            }
            Value::Time(time) => date(*time),
            Value::Duration(ns) => duration(*ns),
            Value::Data(data) => {
                let parts = [&data.labels, &data.external_labels, &data.external_url, &data.value];
                format!("{{{}}}", parts.map(Value::print).join(" "))
            }
        }
    }

    fn print_inner(&self) -> String {
        match self {
            Value::Nil => String::from("<nil>"),
            value => value.print(),
        }
    }
}

/// A double as Go's `%v` prints it.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return String::from("NaN");
    }
    if number.is_infinite() {
        return String::from(if number > 0.0 { "+Inf" } else { "-Inf" });
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) { format!("{number}") } else { with_exponent(digits, exponent) }
}

/// Digits and an exponent of two places at least, with its sign.
pub(super) fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A double has at most this many digits after its point; further ones are zero.
pub(super) const PLACES_MAX: usize = 1_100;

/// `%.Ng`: N digits, without zeros at the end.
pub(super) fn significant(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return float(number);
    }
    let digits = digits.clamp(1, PLACES_MAX);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        return with_exponent(&trimmed(mantissa), exponent);
    }
    let places = usize::try_from(most - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.places$}"))
}

/// A time as Go prints it.
pub(super) fn date(ms: i64) -> String {
    let moment = khz_promql::Moment::of(ms.div_euclid(1_000));
    let ms = ms.rem_euclid(1_000);
    let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}").trim_end_matches('0').to_owned() };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}{fraction} +0000 UTC",
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second
    )
}

/// A duration as Go prints it.
fn duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let all = ns.unsigned_abs();
    let decimal = |whole: u64, part: u64, places: usize| match part {
        0 => whole.to_string(),
        part => format!("{whole}.{}", format!("{part:0places$}").trim_end_matches('0')),
    };
    let text = match all {
        0 => String::from("0s"),
        1..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(all / 1_000, all % 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(all / 1_000_000, all % 1_000_000, 6)),
        _ => {
            let seconds = all / 1_000_000_000;
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            let rest = decimal(seconds % 60, all % 1_000_000_000, 9);
            match (hours, seconds / 60) {
                (0, 0) => format!("{rest}s"),
                (0, _) => format!("{minutes}m{rest}s"),
                _ => format!("{hours}h{minutes}m{rest}s"),
            }
        }
    };
    format!("{sign}{text}")
}
