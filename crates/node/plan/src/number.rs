//! Readings as doubles, in the unit of `/metrics` or of khz; and a value that is not there.

use std::sync::Arc;

use khz_model::decimal::PLACES_MAX;
use khz_model::exposed;
use khz_model::{Metric, ValueType};

use crate::plan::Form;

/// The value of a missing series: a NaN that no computation gives, and PromQL's stale marker.
pub const ABSENT: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// True for that value, and for no other NaN.
#[inline]
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT.to_bits()
}

/// The doubles of one metric's readings.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    form: Form,
    metric: Arc<Metric>,
    /// The units of 1, where this division is all that a reading needs.
    step: Option<f64>,
    /// The units of 1, for sums.
    steps_of_one: f64,
    /// The divisor of those sums.
    divisor: f64,
}

impl Scale {
    pub fn of(form: Form, metric: &Arc<Metric>) -> Self {
        let divisor = if form == Form::Exposed { metric.exposition.divisor } else { 1 };
        let is_plain =
            metric.value_type == ValueType::Unsigned && divisor <= 1 && metric.places <= PLACES_MAX;
        let step = is_plain.then(|| 10f64.powi(i32::from(metric.places)));
        let steps_of_one = 10f64.powi(i32::from(metric.places.min(PLACES_MAX)));
        Scale { form, metric: metric.clone(), step, steps_of_one, divisor: divisor.max(1) as f64 }
    }

    /// The number of a present reading; [`ABSENT`]: it is none that this version can read.
    #[inline]
    pub fn number(&self, bits: u64) -> f64 {
        match self.step {
            // Both are exact as doubles, so the quotient is the nearest one.
            Some(1.0) if bits >> f64::MANTISSA_DIGITS == 0 => bits as f64,
            Some(step) if bits >> f64::MANTISSA_DIGITS == 0 => bits as f64 / step,
            _ => self.rare(bits),
        }
    }

    fn rare(&self, bits: u64) -> f64 {
        let number = match self.form {
            Form::Exposed => exposed::number(&self.metric, bits),
            Form::Own => self.metric.format().number(bits),
        };
        number.map_or(ABSENT, khz_model::Number::to_f64)
    }
}

impl Scale {
    /// The units of the metric's decimal places in 1.
    pub fn steps(&self) -> f64 {
        self.steps_of_one * self.divisor
    }

    /// A sum of readings, given in units of the metric's decimal places.
    #[inline]
    pub fn total(&self, steps: i128) -> f64 {
        // Nearly all sums have 64 bits, and these are cheaper to convert.
        let steps = i64::try_from(steps).map_or_else(|_| steps as f64, |steps| steps as f64);
        let total = if self.steps_of_one == 1.0 { steps } else { steps / self.steps_of_one };
        if self.divisor == 1.0 { total } else { total / self.divisor }
    }
}
