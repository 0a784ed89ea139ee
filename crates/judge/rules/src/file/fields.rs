//! The keys of a map in one of our files. Each is taken once, by its type; keys that nobody took are errors.

use std::path::Path;
use std::sync::Arc;

use khz_model::suggest;

use crate::duration::parse_duration;
use crate::finding::{Findings, Place, Severity};
use crate::yaml::{Key, Kind, Scalar, Value};

/// Where findings of a file go.
pub(crate) struct Report<'a> {
    pub path: &'a Path,
    pub findings: &'a mut Findings,
}

impl Report<'_> {
    pub fn add(&mut self, severity: Severity, place: Option<Place>, problem: String) {
        self.findings.add(severity, self.path, place, problem);
    }

    /// Adds a warning once, even if several rules share its cause.
    pub fn warn_once(&mut self, place: Place, problem: String) {
        if !self.findings.has(self.path, place, &problem) {
            self.add(Severity::Warning, Some(place), problem);
        }
    }

    pub fn error(&mut self, place: Place, problem: &str) {
        self.add(Severity::Error, Some(place), problem.to_owned());
    }

    /// An error of the whole file.
    pub fn whole(&mut self, problem: String) {
        self.add(Severity::Error, None, problem);
    }
}

/// The entries of a map that nobody has taken yet.
pub(crate) struct Fields {
    entries: Vec<(Key, Value)>,
    /// What the map is, for errors.
    noun: &'static str,
    /// Where the map begins.
    pub place: Place,
}

impl Fields {
    /// The entries of a value that must be a map.
    pub fn of(value: &Value, noun: &'static str, report: &mut Report<'_>) -> Option<Self> {
        match &value.kind {
            Kind::Map(entries) => Some(Fields { entries: entries.to_vec(), noun, place: value.place }),
            _ if value.is_null() => Some(Fields { entries: Vec::new(), noun, place: value.place }),
            _ => {
                report.error(
                    value.place,
                    &format!("{noun} is a map of keys and values, and this is {}", value.noun()),
                );
                None
            }
        }
    }

    /// Takes a value. A null value counts as missing.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(known, _)| &*known.text == key)?;
        Some(self.entries.remove(at).1).filter(|value| !value.is_null())
    }

    /// The place of a value that nobody has taken.
    pub fn place_of(&self, key: &str) -> Option<Place> {
        self.entries.iter().find(|(known, _)| &*known.text == key).map(|(_, value)| value.place)
    }

    /// Takes a single value.
    pub fn scalar(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<(Scalar, Place)> {
        let value = self.take(key)?;
        match value.kind {
            Kind::Scalar(scalar) => Some((scalar, value.place)),
            _ => {
                report.error(value.place, &format!("{key} is a single value, and this is {}", value.noun()));
                None
            }
        }
    }

    pub fn text(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<(Arc<str>, Place)> {
        self.scalar(key, report).map(|(scalar, place)| (scalar.text, place))
    }

    pub fn duration(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<i64> {
        let (text, place) = self.text(key, report)?;
        parse_duration(&text).map_err(|problem| report.error(place, &format!("{key}: {problem}"))).ok()
    }

    /// Takes a whole number; a negative one becomes 0.
    pub fn count(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<usize> {
        let (scalar, place) = self.scalar(key, report)?;
        let number = whole_number(&scalar.text).filter(|_| scalar.is_plain());
        if number.is_none() {
            report.error(
                place,
                &format!("{key} is a whole number without quotes, and '{}' is none", scalar.text),
            );
        }
        Some(usize::try_from(number?).unwrap_or(0))
    }

    pub fn flag(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<bool> {
        let (scalar, place) = self.scalar(key, report)?;
        match &*scalar.text {
            "true" | "True" | "TRUE" | "yes" | "on" => Some(true),
            "false" | "False" | "FALSE" | "no" | "off" => Some(false),
            other => {
                report.error(place, &format!("{key} is true or false, and not '{other}'"));
                None
            }
        }
    }

    pub fn list(&mut self, key: &'static str, report: &mut Report<'_>) -> Vec<Value> {
        let Some(value) = self.take(key) else { return Vec::new() };
        match &value.kind {
            Kind::List(values) => {
                let (empty, values): (Vec<Value>, _) = values.iter().cloned().partition(Value::is_null);
                for value in empty {
                    let problem = format!("an entry of {key} is empty; it is left out");
                    report.add(Severity::Warning, Some(value.place), problem);
                }
                values
            }
            _ => {
                report.error(value.place, &format!("{key} is a list, and this is {}", value.noun()));
                Vec::new()
            }
        }
    }

    /// Takes a map of names to texts.
    pub fn texts(&mut self, key: &'static str, report: &mut Report<'_>) -> Vec<(Key, Scalar, Place)> {
        texts(self.take(key), key, report)
    }

    /// All keys that nobody took are unknown.
    pub fn refuse_others(&self, known: &[&str], report: &mut Report<'_>) {
        for (key, _) in self.entries.iter().filter(|(key, _)| !known.contains(&&*key.text)) {
            let hint = suggest::hint(&key.text, known.iter().copied());
            report.error(key.place, &format!("{} has no key '{}'{hint}", self.noun, key.text));
        }
    }
}

/// A whole number as Prometheus' YAML reader has it: also in the bases 2, 8 and 16, with `_` between digits.
fn whole_number(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let (is_negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text.as_str()),
    };
    let lower = digits.to_ascii_lowercase();
    let of = |prefix: &str| lower.strip_prefix(prefix);
    let (digits, base) = match (of("0x"), of("0o"), of("0b"), of("0")) {
        (Some(digits), ..) => (digits, 16),
        (_, Some(digits), ..) => (digits, 8),
        (_, _, Some(digits), _) => (digits, 2),
        // With the digits 8 and 9, it is no octal number. Prometheus reads it as decimal.
        (.., Some(digits)) if !digits.is_empty() && !digits.contains(['8', '9']) => (digits, 8),
        _ => (lower.as_str(), 10),
    };
    // Rust's parser would accept a second sign.
    let size = i128::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with(['-', '+']))?;
    i64::try_from(if is_negative { -size } else { size }).ok()
}

/// The entries of a map of names to texts.
pub(crate) fn texts(
    value: Option<Value>,
    key: &'static str,
    report: &mut Report<'_>,
) -> Vec<(Key, Scalar, Place)> {
    let Some(value) = value else { return Vec::new() };
    let Kind::Map(entries) = &value.kind else {
        report.error(value.place, &format!("{key} is a map of names to texts, and this is {}", value.noun()));
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, value) in entries.iter() {
        match &value.kind {
            Kind::Scalar(scalar) if scalar.is_null() => {
                all.push((name.clone(), scalar.emptied(), value.place));
            }
            Kind::Scalar(scalar) => all.push((name.clone(), scalar.clone(), value.place)),
            _ => report.error(
                value.place,
                &format!("{key}: '{}' is a text, and this is {}", name.text, value.noun()),
            ),
        }
    }
    all
}
