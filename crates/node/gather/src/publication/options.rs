//! The options after a published value: the meaning of the number, and when it was measured. Nothing is copied,
//! since every line for a known number passes here.

use khz_model::{Kind, Metric, Nanos, Unit, ValueFormat, ValueType};

use super::number::{Number, PLACES_MAX};
use super::{PublicationError, shown};

/// A value that was measured longer ago is refused: readers would take it for news.
pub const AGE_MAX: Nanos = Nanos::from_secs(600);
/// A value that was measured this much later than now is refused: until that time, it would make all other
/// values look outdated.
pub const AHEAD_MAX: Nanos = Nanos::from_secs(5);

/// The options of a line, as far as it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// `unit=`.
    pub unit: Option<Unit>,
    /// `kind=`.
    pub kind: Option<Kind>,
    /// `type=`.
    pub value_type: Option<ValueType>,
    /// `places=`.
    pub places: Option<u8>,
    /// `time=`: when the value was measured, since 1970.
    pub time: Option<Nanos>,
    /// `help=`.
    pub help: &'a str,
}

/// The units that a line may declare, for the error about another one.
const UNITS: &str =
    "count, bytes, seconds, percent, pages, packets, hertz, celsius, volts, amperes, watts or joules";

impl<'a> Options<'a> {
    pub(super) fn read(mut text: &'a str) -> Result<Self, PublicationError> {
        let mut said = Options::default();
        while !text.is_empty() {
            if let Some(help) = text.strip_prefix("help=") {
                said.help = help;
                break;
            }
            let (option, rest) = text.split_once(' ').unwrap_or((text, ""));
            said.option(option)?;
            text = rest.trim_start();
        }
        Ok(said)
    }

    fn option(&mut self, option: &str) -> Result<(), PublicationError> {
        let unknown = || PublicationError::Option(shown(option));
        let (name, word) = option.split_once('=').ok_or_else(unknown)?;
        let wrong = |expected| PublicationError::Word { option: shown(option), expected };
        match name {
            "unit" => {
                self.unit = Some(Unit::named(word).ok_or_else(|| wrong(UNITS))?);
            }
            "kind" => self.kind = Some(Kind::named(word).ok_or_else(|| wrong("gauge or counter"))?),
            "type" => {
                const TYPES: &str = "float; without it a gauge is signed and a counter unsigned";
                self.value_type = Some(number_type(word).ok_or_else(|| wrong(TYPES))?);
            }
            "places" => {
                let places = word.parse().ok().filter(|&places| places <= PLACES_MAX);
                self.places = Some(places.ok_or_else(|| wrong("a number from 0 to 9"))?);
            }
            "time" => {
                const SECONDS: &str = "seconds since 1970, as 1763690000.25";
                let time = Number::read(word).ok().and_then(|number| number.seconds());
                self.time = Some(time.ok_or_else(|| wrong(SECONDS))?);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// True if the line declares nothing that differs from the known metric. `places=` and `help=` are not
    /// compared: they change how a number is shown, not what it means.
    pub fn agree_with(&self, metric: &Metric) -> bool {
        self.kind.is_none_or(|kind| kind == metric.kind)
            && self.unit.is_none_or(|unit| unit == metric.unit)
            && self.value_type.is_none_or(|value_type| value_type == metric.value_type)
    }

    /// Kind and format of a new name with this value.
    pub(super) fn declared(&self, number: &Number<'_>) -> Result<(Kind, ValueFormat), PublicationError> {
        let kind = self.kind.unwrap_or(Kind::Gauge);
        let value_type = match kind {
            Kind::Counter => ValueType::Unsigned,
            Kind::Gauge => ValueType::Signed,
        };
        match self.value_type {
            Some(ValueType::Float) if self.places.is_some() => Err(PublicationError::PlacesOfFloat),
            Some(ValueType::Float) => Ok((kind, ValueFormat { value_type: ValueType::Float, places: 0 })),
            Some(other) if other != value_type => {
                Err(PublicationError::TypeOfKind { kind: kind.as_str(), value_type: value_type.as_str() })
            }
            _ => {
                let places = self.places.unwrap_or(number.places());
                Ok((kind, ValueFormat { value_type, places }))
            }
        }
    }
}

/// Checks when a value was measured.
///
/// # Errors
/// It is too long ago, or too far ahead.
pub fn timely(time: Nanos, now: Nanos) -> Result<(), PublicationError> {
    let (age, ahead) = (now.since(time), time.since(now));
    if age > AGE_MAX {
        return Err(PublicationError::TooOld { age: age.0 / Nanos::SECOND.0 });
    }
    if ahead > AHEAD_MAX {
        return Err(PublicationError::TooNew { ahead: ahead.0 / Nanos::SECOND.0 });
    }
    Ok(())
}

/// The type of a number: labels are none.
fn number_type(word: &str) -> Option<ValueType> {
    ValueType::named(word).filter(|value_type| *value_type != ValueType::Labels)
}
