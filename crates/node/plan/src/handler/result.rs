//! The series of rows that a handler computes, and how their values become readings. Results of a plan are doubles. A function that
//! keeps the unit of its series, such as the mean, gives whole numbers with the series' decimal places and some more. They are as
//! exact as the samples, and take a third of a double's bytes on their way.

use khz_model::decimal::PLACES_MAX;
use khz_model::{Kind, Metric, Series, Unit, ValueFormat, ValueType};

use super::bucket::Bucket;
use crate::labels::LabelSet;
use crate::number::is_absent;
use crate::plan::Over;

/// Decimal places that the mean of a gauge has beyond those of the gauge.
const FURTHER_PLACES: u8 = 3;

/// What a series of the rows of rules is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// 1 once the node's rows span its longest window. From then on, its results are the same as
    /// the hub's.
    Ready,
    /// A result of the rule with this number.
    Rule(u16),
}

/// A series of the rows that a handler computes.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultSeries {
    /// Its labels. A number has none.
    pub labels: LabelSet,
    /// The reading of which it is a function; `None`: it is the result of a plan.
    pub of: Option<u32>,
    /// Which bucket of a histogram of that reading it counts.
    pub bucket: Option<Bucket>,
    /// What it is among the results of rules.
    pub judged: Option<Judged>,
    /// How its readings are read.
    pub format: ValueFormat,
}

impl ResultSeries {
    /// A result of a plan.
    pub(crate) fn planned(labels: LabelSet) -> Self {
        let format = ValueFormat { value_type: ValueType::Float, places: 0 };
        ResultSeries { labels, of: None, bucket: None, judged: None, format }
    }

    /// A function of the series with this number.
    pub(crate) fn of_series(over: Over, number: u32, series: &Series, labels: LabelSet) -> Self {
        let format = format(over, &series.metric);
        ResultSeries { labels, of: Some(number), bucket: None, judged: None, format }
    }

    /// How many samples of the series with this number are in a bucket.
    pub(crate) fn of_bucket(number: u32, bucket: Bucket) -> Self {
        let format = ValueFormat { value_type: ValueType::Unsigned, places: 0 };
        let labels = LabelSet::default();
        ResultSeries { labels, of: Some(number), bucket: Some(bucket), judged: None, format }
    }

    /// A result of rules.
    pub(crate) fn judged(judged: Judged, labels: LabelSet) -> Self {
        ResultSeries { judged: Some(judged), ..ResultSeries::planned(labels) }
    }
}

fn format(over: Over, metric: &Metric) -> ValueFormat {
    let stays_in_unit = matches!(
        over,
        Over::Avg | Over::Min | Over::Max | Over::First | Over::Last | Over::Sum | Over::Quantile(_)
    );
    let ValueFormat { value_type, places } = metric.format();
    if !stays_in_unit || !matches!(value_type, ValueType::Unsigned | ValueType::Signed) {
        return ValueFormat { value_type: ValueType::Float, places: 0 };
    }
    // A counter may have as many digits as fit already, and nobody needs parts of a byte.
    let is_coarse = metric.kind == Kind::Counter || metric.unit == Unit::Bytes;
    let further = if is_coarse { 0 } else { FURTHER_PLACES };
    ValueFormat { value_type, places: places.saturating_add(further).min(PLACES_MAX) }
}

/// How a value becomes the bits of a reading.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Double,
    /// As many steps as this are 1.
    Unsigned(f64),
    Signed(f64),
}

impl Form {
    pub fn of(format: ValueFormat) -> Self {
        let steps = 10f64.powi(i32::from(format.places));
        match format.value_type {
            ValueType::Unsigned => Form::Unsigned(steps),
            ValueType::Signed => Form::Signed(steps),
            _ => Form::Double,
        }
    }

    /// The bits of a value; `None`: there is none, or none that fits.
    #[inline]
    pub fn bits(self, value: f64) -> Option<u64> {
        if is_absent(value) {
            return None;
        }
        match self {
            Form::Double => Some(value.to_bits()),
            Form::Unsigned(steps) => {
                let whole = (value * steps).round();
                (0.0..u64::MAX as f64).contains(&whole).then_some(whole as u64)
            }
            Form::Signed(steps) => {
                let whole = (value * steps).round();
                (i64::MIN as f64..i64::MAX as f64).contains(&whole).then_some((whole as i64).cast_unsigned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::ABSENT;

    #[test]
    fn means_have_the_digits_that_are_known_and_what_is_no_number_of_the_series_is_a_double() {
        let metric = |kind, value_type, places| Metric {
            value_type,
            places,
            ..Metric::plain("m", "m", kind, Unit::Count)
        };
        let gauge = metric(Kind::Gauge, ValueType::Unsigned, 2);
        let of = |over, metric: &Metric| (format(over, metric).value_type, format(over, metric).places);
        assert_eq!(of(Over::Avg, &gauge), (ValueType::Unsigned, 5));
        assert_eq!(of(Over::Rate, &gauge), (ValueType::Float, 0));
        assert_eq!(of(Over::Max, &metric(Kind::Counter, ValueType::Signed, 2)), (ValueType::Signed, 2));
        assert_eq!(of(Over::Max, &metric(Kind::Gauge, ValueType::Float, 0)), (ValueType::Float, 0));
    }

    #[test]
    fn a_value_that_does_not_fit_is_not_there() {
        let form = |value_type, places| Form::of(ValueFormat { value_type, places });
        let unsigned = form(ValueType::Unsigned, 3);
        assert_eq!(unsigned.bits(1.2346), Some(1_235));
        assert_eq!(
            [unsigned.bits(-1.0), unsigned.bits(2e16), unsigned.bits(f64::NAN), unsigned.bits(ABSENT)],
            [None; 4]
        );
        let signed = form(ValueType::Signed, 0);
        assert_eq!(signed.bits(-2.0), Some((-2i64).cast_unsigned()));
        assert_eq!([signed.bits(1e19), signed.bits(f64::INFINITY), signed.bits(-1e19)], [None; 3]);
        assert_eq!(form(ValueType::Float, 0).bits(f64::INFINITY), Some(f64::INFINITY.to_bits()));
    }
}
