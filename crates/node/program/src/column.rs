//! What a program may learn of a series of its rows.

use khz_model::{Kind, Reading, Series, ValueFormat};

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, as khz writes it: `disk.io_time[sda]`.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// It only grows.
    pub is_counter: bool,
    format: ValueFormat,
}

/// What a cell of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// It has a value.
    Present = 0,
    /// There is nothing to read, and that is normal.
    Absent = 1,
    /// Reading it went wrong.
    Failed = 2,
}

impl Column {
    /// That of a series.
    pub fn of(series: &Series) -> Self {
        Column {
            name: series.to_string(),
            unit: series.metric.unit.to_string(),
            is_counter: series.metric.kind == Kind::Counter,
            format: series.metric.format(),
        }
    }

    /// A series for tests: a whole number.
    pub fn made_up() -> Self {
        Column { name: "made.up".into(), unit: "count".into(), is_counter: false, format: ValueFormat::WHOLE }
    }

    /// The value of a reading, and what it is. Labels are no number: they are absent.
    pub(crate) fn cell(&self, reading: Reading) -> (f64, State) {
        match reading {
            Reading::Present(bits) => match self.format.number(bits) {
                Some(number) => (number.to_f64(), State::Present),
                None => (f64::NAN, State::Absent),
            },
            Reading::Labels(_) | Reading::Absent(_) => (f64::NAN, State::Absent),
            Reading::Failed(_) => (f64::NAN, State::Failed),
        }
    }
}
