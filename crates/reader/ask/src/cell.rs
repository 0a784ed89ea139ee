//! One reading in a row, as it came: an exact decimal, or why there is none. Refuses numbers that are not plain
//! decimals of at most 64 bits.

use khz_model::Decimal;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

/// One reading as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number: `units / 10^places`.
    Present {
        /// The digits without the point.
        units: u64,
        /// How many of them are after the point.
        places: u8,
    },
    /// Why there is nothing to read.
    Absent(String),
    /// What went wrong.
    Failed(String),
}

impl Cell {
    /// Reads an exact decimal of at most 64 bits.
    pub fn number(text: &str) -> Option<Cell> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || !whole.bytes().chain(rest.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let places = u8::try_from(rest.len()).ok().filter(|p| *p <= khz_model::decimal::PLACES_MAX)?;
        let whole: u64 = whole.parse().ok()?;
        let rest: u64 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        let units = whole.checked_mul(10u64.checked_pow(places.into())?)?.checked_add(rest)?;
        Some(Cell::Present { units, places })
    }

    /// The number as it came, if it is one.
    pub fn decimal(&self) -> Option<Decimal> {
        match self {
            Cell::Present { units, places } => Some(Decimal::new(*units, *places)),
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
        f.write_str(r#"a decimal as a string, {"absent":"why"} or {"failed":"why"}"#)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
        Cell::number(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
        let entry = map.next_entry::<String, String>()?;
        match entry {
            Some((key, why)) if key == "absent" => Ok(Cell::Absent(why)),
            Some((key, why)) if key == "failed" => Ok(Cell::Failed(why)),
            _ => Err(de::Error::custom("an object that is neither absent nor failed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_exact() {
        let present = |units, places| Some(Cell::Present { units, places });
        for (text, expected) in [
            ("0", present(0, 0)),
            ("18446744073709551615", present(u64::MAX, 0)),
            ("0.52", present(52, 2)),
            ("1.000000001", present(1_000_000_001, 9)),
            ("18446744073709551616", None),
            ("18446744073709551615.1", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("", None),
            (".5", None),
            ("NaN", None),
        ] {
            assert_eq!(Cell::number(text), expected, "{text}");
        }
    }
}
