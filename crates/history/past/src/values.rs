//! The forms of a series: as `/metrics` shows it, as khz itself does, under its own name and in its own unit, and as a rule has recorded
//! it. Turns readings into doubles, and series into labels.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::decimal::PLACES_MAX;
use khz_model::exposed::{self, Identity};
use khz_model::{
    Instance, Labels, Metric, Nanos, NodeName, RangePoint, RangeTotal, Series, ValueType, recorded,
};
use khz_promql::{LabelSet, METRIC_NAME, Summary};

use crate::clock::milliseconds;

/// How series are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As in `/metrics`.
    Exposed,
    /// As in khz: `net.rx_bytes`.
    Own,
    /// Series that rules have recorded, with the name and labels that the rules gave them.
    Recorded,
}

impl Form {
    /// The metric's name.
    pub fn name(self, metric: &Metric) -> &str {
        match self {
            Form::Exposed => &metric.exposition.name,
            Form::Own | Form::Recorded => &metric.name,
        }
    }

    /// False for series whose silence says nothing: they end when their group's next evaluation lacks them, and otherwise with the
    /// look-back of the query.
    pub fn has_pace(self) -> bool {
        self != Form::Recorded
    }

    /// The label that carries an instance's primary name, as it stands beside the label `instance` of the node.
    pub fn instance_label(self, metric: &Metric) -> &str {
        let label = match self {
            Form::Exposed => exposed::instance_label(metric),
            Form::Own | Form::Recorded => metric.instances.as_deref().unwrap_or(exposed::INSTANCE),
        };
        exposed::exported(label, true)
    }

    /// The doubles of a metric's readings, prepared for many of them.
    pub fn scale(self, metric: &Metric) -> Scale<'_> {
        let divisor = if self == Form::Exposed { metric.exposition.divisor } else { 1 };
        let is_plain =
            metric.value_type == ValueType::Unsigned && divisor <= 1 && metric.places <= PLACES_MAX;
        let step = is_plain.then(|| 10f64.powi(i32::from(metric.places)));
        Scale { form: self, metric, step }
    }

    fn number(self, metric: &Metric, bits: u64) -> Option<f64> {
        let number = match self {
            Form::Exposed => exposed::number(metric, bits),
            Form::Own | Form::Recorded => metric.format().number(bits),
        };
        number.map(khz_model::Number::to_f64)
    }
}

/// The doubles of one metric's readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale<'a> {
    form: Form,
    metric: &'a Metric,
    /// The units of 1, where a reading needs no more than this division.
    step: Option<f64>,
}

impl Scale<'_> {
    /// The number of a present reading; `None`: it is none that this version can read.
    pub fn number(&self, bits: u64) -> Option<f64> {
        match self.step {
            // Both are exact as doubles: the quotient is that of `Decimal::to_f64`.
            Some(step) if bits >> f64::MANTISSA_DIGITS == 0 => Some(bits as f64 / step),
            _ => self.form.number(self.metric, bits),
        }
    }

    /// The summary of a bucket of this length; `None`: this version cannot read its values.
    pub fn summary(&self, point: &RangePoint, length: Nanos) -> Option<Summary> {
        if self.metric.value_type == ValueType::Labels {
            return Some(described(point, length));
        }
        let divisor = if self.form == Form::Exposed { self.metric.exposition.divisor.max(1) } else { 1 };
        let total = |total: RangeTotal| total.to_f64(self.metric.format()) / divisor as f64;
        let sample = |(time, bits): (Nanos, u64)| Some((milliseconds(time.0), self.number(bits)?));
        Some(Summary {
            first: sample(point.first)?,
            last: sample(point.last)?,
            count: point.count,
            lowest: self.number(point.lowest)?,
            highest: self.number(point.highest)?,
            sum: total(point.sum),
            correction: total(point.correction),
            resets: point.resets,
            changes: point.changes,
        })
    }

    /// The divisor of all these whole numbers; `None`: they need more than a division. `rises`: no number is lower than the
    /// previous one.
    pub fn divisor(&self, bits: &[u64], rises: bool) -> Option<f64> {
        let all = match bits {
            [.., last] if rises => *last,
            _ => bits.iter().fold(0, |all, one| all | one),
        };
        self.step.filter(|_| all >> f64::MANTISSA_DIGITS == 0)
    }

    /// The numbers of present readings. Returns false if one of them cannot be read.
    pub fn numbers(&self, bits: &[u64], out: &mut Vec<f64>) -> bool {
        out.clear();
        out.extend(bits.iter().map_while(|bits| self.number(*bits)));
        out.len() == bits.len()
    }
}

/// A series of labels in a bucket: only its last reading is left, without its time. It is there in all of the bucket.
fn described(point: &RangePoint, length: Nanos) -> Summary {
    let one = exposed::INFO_VALUE;
    let (begin, last) = (milliseconds(point.begin.0), milliseconds(point.begin.0 + length.0) - 1);
    // More than two, so that there are samples between them.
    let count = point.count.max(3);
    Summary {
        first: (begin, one),
        last: (last, one),
        count,
        lowest: one,
        highest: one,
        sum: count as f64 * one,
        correction: 0.0,
        resets: 0,
        changes: 0,
    }
}

/// Makes label sets; equal texts are held once.
#[derive(Debug, Default)]
pub(crate) struct Words(HashSet<Arc<str>>);

impl Words {
    /// The shared text.
    fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }

    /// The labels of a series of a node, its name among them.
    pub fn labels(
        &mut self,
        form: Form,
        node: &NodeName,
        job: &str,
        series: &Series,
        description: Option<&Labels>,
    ) -> LabelSet {
        let name = (METRIC_NAME, form.name(&series.metric));
        let labels: Vec<(Arc<str>, Arc<str>)> = match form {
            Form::Exposed => {
                let labels = exposed::labels(series, Some(Identity { node, job }), description);
                [name]
                    .into_iter()
                    .chain(labels)
                    .map(|(name, value)| (self.word(name), self.word(value)))
                    .collect()
            }
            Form::Own => {
                let instance = series.instance.as_ref();
                let primary = instance.and_then(Instance::primary);
                let primary = primary.map(|value| (form.instance_label(&series.metric), value));
                let further = instance.into_iter().flat_map(Instance::labels);
                let described = description.into_iter().flat_map(Labels::iter);
                let others =
                    further.chain(described).map(|(name, value)| (exposed::exported(name, true), value));
                // A set keeps the last of several labels with one name, but here the first one must win.
                let mut all: Vec<(&str, &str)> = [name, (exposed::INSTANCE, node.as_str())]
                    .into_iter()
                    .chain(primary)
                    .chain(others)
                    .collect();
                all.reverse();
                all.into_iter().map(|(name, value)| (self.word(name), self.word(value))).collect()
            }
            Form::Recorded => {
                let all = [(METRIC_NAME, recorded::name(series).unwrap_or_default())].into_iter();
                let all = all.chain(recorded::labels(series));
                all.map(|(name, value)| (self.word(name), self.word(value))).collect()
            }
        };
        LabelSet::new(labels)
    }

    /// The labels of a series that a node has by being there.
    pub fn plain(&mut self, name: &str, node: &NodeName, job: &str) -> LabelSet {
        let labels = [(METRIC_NAME, name), (exposed::INSTANCE, node.as_str()), (exposed::JOB, job)];
        LabelSet::new(labels.map(|(name, value)| (self.word(name), self.word(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Kind, Unit};

    #[test]
    fn the_prepared_numbers_are_those_that_are_printed() {
        for places in [0, 2, 9, PLACES_MAX, 200] {
            for divisor in [1, 1_024] {
                for value_type in
                    [ValueType::Unsigned, ValueType::Signed, ValueType::Float, ValueType::Labels]
                {
                    let mut metric = Metric::plain("a.b", "a_b", Kind::Gauge, Unit::Count);
                    (metric.places, metric.value_type, metric.exposition.divisor) =
                        (places, value_type, divisor);
                    for bits in [0, 1, 123_456_789, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, u64::MAX - 1] {
                        let printed = exposed::number(&metric, bits).map(|number| number.to_string());
                        let read = printed.map(|text| text.parse::<f64>().unwrap().to_bits());
                        let number = Form::Exposed.scale(&metric).number(bits).map(f64::to_bits);
                        let is_nan = f64::from_bits(bits).is_nan() && value_type == ValueType::Float;
                        assert!(number == read || is_nan, "{places} {divisor} {value_type:?} {bits}");
                    }
                }
            }
        }
    }
}
