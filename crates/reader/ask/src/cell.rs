//! One reading in a row, as it came: an exact decimal, another value as text, or why there is none.

use khz_model::{Absence, Decimal, Fault, Labels, Reading, ValueFormat, ValueType};

use crate::labels::LabelsAnswer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

/// One reading as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number: `units / 10^places`.
    Present {
        /// The digits without the point, at most 64 bits of them, with their sign.
        units: i128,
        /// How many of them are after the point.
        places: u8,
    },
    /// A double that is no such decimal, as it is written: `2.5e-9`, `NaN`.
    Text(String),
    /// Labels that are the reading.
    Info(Labels),
    /// Why there is nothing to read.
    Absent(String),
    /// What went wrong.
    Failed(String),
}

impl Cell {
    /// Reads an exact decimal of at most 64 bits.
    pub fn number(text: &str) -> Option<Cell> {
        let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
        let (whole, rest) = size.split_once('.').unwrap_or((size, ""));
        if whole.is_empty() || !whole.bytes().chain(rest.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let places = u8::try_from(rest.len()).ok().filter(|p| *p <= khz_model::decimal::PLACES_MAX)?;
        let whole: u64 = whole.parse().ok()?;
        let rest: u64 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        let units = whole.checked_mul(10u64.checked_pow(places.into())?)?.checked_add(rest)?;
        Some(Cell::Present { units: sign * i128::from(units), places })
    }

    /// Reads any value: a decimal, or a double that is none.
    pub fn value(text: &str) -> Option<Cell> {
        let double = || text.parse::<f64>().is_ok().then(|| Cell::Text(text.to_owned()));
        Cell::number(text).or_else(double)
    }

    /// The reading that this was made of; the reason why there is no value is lost. Labels have their number for as long
    /// as this is kept.
    pub fn reading(&self, format: ValueFormat) -> Reading {
        let bits = match (self, format.value_type) {
            (Cell::Info(labels), _) => return Reading::Labels(labels.number()),
            (Cell::Absent(_), _) => return Reading::Absent(Absence::NotYet),
            (Cell::Failed(_), _) => return Reading::Failed(Fault::Unreadable),
            (Cell::Present { units, places }, ValueType::Unsigned | ValueType::Signed) => {
                let steps = 10i128
                    .checked_pow(u32::from(format.places.abs_diff(*places)))
                    .filter(|_| *places <= format.places)
                    .and_then(|step| units.checked_mul(step));
                match format.value_type {
                    ValueType::Unsigned => steps.and_then(|steps| u64::try_from(steps).ok()),
                    _ => steps.and_then(|steps| i64::try_from(steps).ok()).map(i64::cast_unsigned),
                }
            }
            (value, ValueType::Float) => value.text().and_then(|text| text.parse().ok()).map(f64::to_bits),
            _ => None,
        };
        bits.map_or(Reading::Failed(Fault::OutOfRange), Reading::Present)
    }

    /// The value as it came, if there is one.
    pub fn text(&self) -> Option<String> {
        match self {
            Cell::Present { units, places } => Some(Decimal::of_steps(*units, *places)?.to_string()),
            Cell::Text(text) => Some(text.clone()),
            Cell::Info(labels) => Some(labels.to_string()),
            Cell::Absent(_) | Cell::Failed(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(r#"a number as a string, {"info":{}}, {"absent":"why"} or {"failed":"why"}"#)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
        Cell::value(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
        match map.next_key::<String>()?.as_deref() {
            Some("absent") => Ok(Cell::Absent(map.next_value()?)),
            Some("failed") => Ok(Cell::Failed(map.next_value()?)),
            Some("info") => Ok(Cell::Info(map.next_value::<LabelsAnswer>()?.0)),
            _ => Err(de::Error::custom("an object that is neither info nor absent nor failed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_exact() {
        let present = |units: u64, places| Some(Cell::Present { units: units.into(), places });
        for (text, expected) in [
            ("0", present(0, 0)),
            ("18446744073709551615", present(u64::MAX, 0)),
            ("0.52", present(52, 2)),
            ("1.000000001", present(1_000_000_001, 9)),
            ("18446744073709551616", None),
            ("18446744073709551615.1", None),
            ("-1", Some(Cell::Present { units: -1, places: 0 })),
            ("-0.05", Some(Cell::Present { units: -5, places: 2 })),
            ("--1", None),
            ("-", None),
            ("+1", None),
            ("1e3", None),
            ("", None),
            (".5", None),
            ("NaN", None),
        ] {
            assert_eq!(Cell::number(text), expected, "{text}");
        }
    }

    #[test]
    fn a_cell_becomes_the_reading_again() {
        let format = |value_type, places| ValueFormat { value_type, places };
        for (text, format, bits) in [
            ("18446744073709551615", format(ValueType::Unsigned, 0), u64::MAX),
            ("0.52", format(ValueType::Unsigned, 2), 52),
            ("7", format(ValueType::Unsigned, 2), 700),
            ("-5.2", format(ValueType::Signed, 1), (-52i64).cast_unsigned()),
            ("0.1", format(ValueType::Float, 0), 0.1f64.to_bits()),
            ("2.5e-9", format(ValueType::Float, 0), 2.5e-9f64.to_bits()),
            ("-Inf", format(ValueType::Float, 0), f64::NEG_INFINITY.to_bits()),
        ] {
            assert_eq!(Cell::value(text).unwrap().reading(format), Reading::Present(bits), "{text}");
        }
        for (text, format) in [("-1", format(ValueType::Unsigned, 0)), ("0.5", format(ValueType::Signed, 0))]
        {
            assert_eq!(
                Cell::value(text).unwrap().reading(format),
                Reading::Failed(Fault::OutOfRange),
                "{text}"
            );
        }
        assert_eq!(Cell::Absent("gone".into()).reading(ValueFormat::WHOLE), Reading::Absent(Absence::NotYet));
    }

    #[test]
    fn other_values_are_texts() {
        let read = |json: &str| serde_json::from_str::<Cell>(json);
        for (json, text) in [
            (r#""2.5e-9""#, "2.5e-9"),
            (r#""NaN""#, "NaN"),
            (r#""+Inf""#, "+Inf"),
            (r#""-7.50""#, "-7.50"),
            (r#"{"info":{"release":"6.18","a":"b,c"}}"#, "a=b%2Cc,release=6.18"),
        ] {
            assert_eq!(read(json).unwrap().text().as_deref(), Some(text), "{json}");
        }
        for wrong in [r#""x""#, r#"{"info":7}"#, r#"{"why":"x"}"#, "{}", r#"{"info":{"1":"x"}}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
