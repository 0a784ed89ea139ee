//! The labels that samples have from other samples of their node: those of ranked sources
//! ([`khz_model::Metric::labels_from`]). The process at place 3 is slot 3; which process that is, another slot says.

use std::collections::{HashMap, HashSet};

use khz_model::{Instance, Labels, NodeName, Reading, Sample};

/// A series of a node: the metric's name and the instance.
type Key<'a> = (Option<&'a NodeName>, &'a str, Option<&'a Instance>);

/// The descriptions among some samples.
#[derive(Default)]
pub(crate) struct Descriptions<'a>(HashMap<Key<'a>, Reading>);

impl<'a> Descriptions<'a> {
    /// Finds those to which another sample refers.
    pub fn of(samples: impl Iterator<Item = (Option<&'a NodeName>, &'a Sample)> + Clone) -> Self {
        let wanted = samples.clone().filter_map(|(_, sample)| sample.series.metric.labels_from.as_deref());
        let wanted: HashSet<&str> = wanted.collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let described = samples.filter(|(_, sample)| wanted.contains(&*sample.series.metric.name));
        Descriptions(
            described
                .map(|(node, sample)| (key(node, &sample.series.metric.name, sample), sample.reading))
                .collect(),
        )
    }

    /// The labels that describe a sample.
    pub fn of_sample(&self, node: Option<&NodeName>, sample: &Sample) -> Option<Labels> {
        let metric = sample.series.metric.labels_from.as_deref()?;
        self.0.get(&key(node, metric, sample))?.labels()
    }

    /// Roughly the bytes that it takes.
    pub fn held(&self) -> u64 {
        (self.0.capacity() * (size_of::<Key<'_>>() + size_of::<Reading>())) as u64
    }
}

/// That metric of the sample's instance.
fn key<'a>(node: Option<&'a NodeName>, metric: &'a str, sample: &'a Sample) -> Key<'a> {
    (node, metric, sample.series.instance.as_ref())
}
