//! One value by one verb of `printf`.

use super::number::{double, whole};
use super::text::{bytes, padded, quoted, shown};
use crate::template::value::Value;

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    /// By `%v`, a sharp asks for a text as a program writes it.
    pub as_source: bool,
    pub width: Option<usize>,
    pub precision: Option<usize>,
}

impl Flags {
    /// What they mean for a verb: by `%v` a plus is about fields, and a sharp about the language.
    pub fn of(self, c: char) -> Self {
        match c {
            'v' | 'w' => Flags { plus: false, sharp: false, as_source: self.sharp, ..self },
            _ => self,
        }
    }
}

/// A value by a verb.
pub(super) fn one(flags: &Flags, c: char, value: &Value) -> String {
    let wrong = || format!("%!{c}({})", typed(flags, value));
    match (value, c) {
        (_, 'T') => shown(flags, if matches!(value, Value::Nil) { "<nil>" } else { value.kind() }),
        (Value::Nil, 'v') => padded(flags, "<nil>".to_owned()),
        (Value::Float(number), 'v' | 'b' | 'g' | 'G' | 'e' | 'E' | 'f' | 'F' | 'x' | 'X') => {
            double(flags, c, *number)
        }
        (Value::Int(number), 'v' | 'd' | 'x' | 'X' | 'o' | 'O' | 'b' | 'c' | 'q' | 'U') => {
            whole(flags, c, *number)
        }
        (Value::Bool(is_true), 'v' | 't') => padded(flags, is_true.to_string()),
        (Value::Text(text) | Value::Html(text), 'v') if flags.as_source => quoted(flags, text),
        (Value::Text(text) | Value::Html(text), 'v' | 's') => shown(flags, text),
        (Value::Text(text) | Value::Html(text), 'q') => quoted(flags, text),
        (Value::Text(text) | Value::Html(text), 'x' | 'X') => bytes(flags, c, text.as_bytes()),
        (Value::Time(_) | Value::Duration(_), 'v' | 's') => shown(flags, &value.print()),
        (Value::Time(_) | Value::Duration(_), 'q') => quoted(flags, &value.print()),
        (Value::Labels(_) | Value::Map(_), 'p' | 'w') => wrong(),
        (Value::Labels(all), _) => {
            let entries = all.iter().map(|(name, value)| (name, Value::text(value.as_str())));
            map(flags, c, value.kind(), entries)
        }
        (Value::Map(all), _) => {
            map(flags, c, value.kind(), all.iter().map(|(name, value)| (name, value.clone())))
        }
        // A pointer, for Go.
        (Value::Sample(_), 'v' | 's') => padded(flags, format!("&{}", value.print())),
        (Value::Samples(_) | Value::Data(_), 'v' | 's') => padded(flags, value.print()),
        _ => wrong(),
    }
}

/// A value with its type, where it does not fit. The flags hold for it.
pub(super) fn typed(flags: &Flags, value: &Value) -> String {
    match value {
        Value::Nil => String::from("<nil>"),
        value => format!("{}={}", value.kind(), one(flags, 'v', value)),
    }
}

/// A map has its verb, its width and so on in each key and each value.
fn map<'a>(flags: &Flags, c: char, kind: &str, entries: impl Iterator<Item = (&'a String, Value)>) -> String {
    let entry = |(name, value): (&String, Value)| {
        let name = one(flags, c, &Value::text(name.as_str()));
        format!("{name}:{}", one(flags, c, &value))
    };
    let entries: Vec<String> = entries.map(entry).collect();
    match flags.as_source {
        true => format!("{kind}{{{}}}", entries.join(", ")),
        false => format!("map[{}]", entries.join(" ")),
    }
}
