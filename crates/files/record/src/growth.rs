//! A reading as a number to draw or compare: a gauge as it is, a counter as its growth. Unknown stays unknown: there is no
//! growth across a gap, over a reset, or from a reading that is absent.

use khz_model::{Kind, Nanos, Number, Reading, Series};

/// How a counter is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Its growth in a second.
    #[default]
    PerSecond,
    /// Its growth from one row to the next; times in the kernel's own steps (ticks).
    PerSample,
}

/// The growth of one series, row by row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    last: Option<(u64, Nanos, u64)>,
}

impl Growth {
    /// The number to show for the next row; rows have to come in order. `None`: unknown.
    pub fn next(
        &mut self,
        series: &Series,
        number: u64,
        boot: Nanos,
        reading: Option<Reading>,
        measure: Measure,
    ) -> Option<f64> {
        let units = reading.and_then(Reading::value);
        let format = series.metric.format();
        if series.metric.kind == Kind::Gauge {
            return units.and_then(|units| format.number(units)).map(Number::to_f64);
        }
        let last = std::mem::replace(&mut self.last, units.map(|units| (number, boot, units)));
        let (before, then, from) = last?;
        let grown = format.growth(from, units?)?;
        let passed = boot.since(then);
        if number != before.checked_add(1)? || passed.0 == 0 {
            return None;
        }
        Some(match measure {
            Measure::PerSecond => grown.to_f64() / passed.as_secs_f64(),
            Measure::PerSample => grown.shifted(tick_digits(series)).to_f64(),
        })
    }
}

/// The decimal places of a series that the kernel's own steps have: two of times, which it counts in ticks of 10 ms.
fn tick_digits(series: &Series) -> u8 {
    match series.metric.unit {
        khz_model::Unit::Seconds => series.metric.places.min(2),
        _ => 0,
    }
}
