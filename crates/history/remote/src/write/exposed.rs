//! The name of a series and its values in Prometheus' form: as `/metrics` prints them.

use khz_model::exposed::{self, Identity};
use khz_model::{Labels, NodeName, Series};
use khz_promql::METRIC_NAME;

/// The labels of a series of a node, its name among them, in no order. `info` are labels from the reading itself, or from one
/// that describes it.
pub(crate) fn labels<'a>(
    series: &'a Series,
    node: &'a NodeName,
    job: &'a str,
    info: Option<&'a Labels>,
    out: &mut Vec<(&'a str, &'a str)>,
) {
    out.clear();
    out.push((METRIC_NAME, &*series.metric.exposition.name));
    out.extend(exposed::labels(series, Some(Identity { node, job }), info));
}

/// The double that `/metrics` prints for these bits; `None`: they are no number.
pub(crate) fn value(series: &Series, bits: u64) -> Option<f64> {
    let value = exposed::number(&series.metric, bits)?.to_f64();
    // Any NaN of a program is one NaN: a certain other one would end the series.
    Some(if value.is_nan() { f64::NAN } else { value })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_model::metric::{Kind, Unit};
    use khz_model::{Metric, ValueType};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_the_doubles_that_the_printed_text_is(bits: u64, places in 0u8..10, divisor in 0u64..5000, signed: bool) {
            let mut metric = Metric::plain("a", "a", Kind::Gauge, Unit::Count);
            metric.places = places;
            metric.value_type = if signed { ValueType::Signed } else { ValueType::Unsigned };
            metric.exposition.divisor = divisor;
            let printed = metric.format().number(bits).unwrap().divided_by(divisor).to_string();
            let series = Series { metric: Arc::new(metric), instance: None };
            prop_assert_eq!(value(&series, bits).unwrap().to_bits(), printed.parse::<f64>().unwrap().to_bits());
        }
    }
}
