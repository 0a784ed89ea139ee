//! A reading as a number to draw or compare: a gauge as it is, a counter as its growth. Unknown stays unknown: there is no
//! growth across a gap, over a reset, or from a reading that is absent.

use khz_model::{Decimal, Kind, Nanos, Reading, Series};

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
        if series.metric.kind == Kind::Gauge {
            return units.map(|units| Decimal::new(units, series.metric.places).to_f64());
        }
        let last = std::mem::replace(&mut self.last, units.map(|units| (number, boot, units)));
        let (before, then, from) = last?;
        let grown = units?.checked_sub(from)?;
        let passed = boot.since(then);
        if number != before.checked_add(1)? || passed.0 == 0 {
            return None;
        }
        Some(match measure {
            Measure::PerSecond => Decimal::new(grown, series.metric.places).to_f64() / passed.as_secs_f64(),
            Measure::PerSample => grown as f64 / kernel_steps(series),
        })
    }
}

/// How many of a series' smallest units are one step: a tick of 10 ms for times that the kernel counts more finely, else the
/// unit itself.
fn kernel_steps(series: &Series) -> f64 {
    match (series.metric.unit, series.metric.places) {
        (khz_model::Unit::Seconds, places) if places > 2 => 10f64.powi(i32::from(places) - 2),
        (khz_model::Unit::Seconds, _) => 1.0,
        (_, places) => 10f64.powi(i32::from(places)),
    }
}
