//! The series of a listing whose newest reading is no value. It asks whether they had a value before, for as many as a listing may
//! ask for, first for series that few nodes lack: these probably existed there before, while a series that all nodes lack is
//! printed by no kernel. For the others, the reason for the missing value decides.

use std::collections::BTreeMap;

use khz_model::metric::Text;
use khz_model::{
    Absence, Instance, Metric, Nanos, NodeName, Pattern, RangeShape, Reading, Series, ValueType,
};
use khz_promql::{LabelSet, QueryError, Sink};

use crate::chosen::Chosen;
use crate::feed::Feed;
use crate::limits::{LISTED_UNCLEAR_MAX, LISTED_UNCLEAR_NAMES_MAX, METRICS_NAMED_MAX};
use crate::source::PastSource;

/// The series, by name and instance.
#[derive(Debug, Default)]
pub(crate) struct Unclear(BTreeMap<(Text, Option<Instance>), Alike>);

/// Series of one name and instance.
#[derive(Debug, Default)]
struct Alike {
    /// What describes them.
    labels_from: Option<Text>,
    nodes: Vec<NodeName>,
    /// Labels of those that had a value, as their newest reading tells.
    guessed: Vec<LabelSet>,
}

impl Unclear {
    /// Notes a series with its newest reading, which is no value, and its labels as far as they are known.
    pub fn note(&mut self, node: &NodeName, series: &Series, newest: Reading, labels: LabelSet) {
        let name = (series.metric.name.clone(), series.instance.clone());
        let alike = self.0.entry(name).or_default();
        alike.labels_from.clone_from(&series.metric.labels_from);
        alike.nodes.push(node.clone());
        if had_value(newest) && series.metric.value_type != ValueType::Labels {
            alike.guessed.push(labels);
        }
    }

    /// Lists those that had a value in this time.
    pub fn list(
        self,
        source: &PastSource,
        chosen: &Chosen,
        span: (Nanos, Nanos),
        is_wanted: impl Fn(&Metric) -> bool,
        feed: &mut Feed<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut groups: Vec<_> = self.0.into_iter().collect();
        // Those of one size stay in the order of their names.
        groups.sort_by_key(|(_, alike)| alike.nodes.len());
        let sums = groups.iter().scan(0, |series, (_, alike)| {
            *series += alike.nodes.len();
            Some(*series)
        });
        let asked = sums.take(LISTED_UNCLEAR_NAMES_MAX).take_while(|series| *series <= LISTED_UNCLEAR_MAX);
        let asked = asked.count();
        // A series and what describes it are asked for together.
        for groups in groups[..asked].chunks(METRICS_NAMED_MAX / 2) {
            let patterns = groups.iter().flat_map(|((name, instance), alike)| {
                let of = |metric: &Text| chosen.of_series(&alike.nodes, metric, instance.as_ref());
                std::iter::once(name).chain(&alike.labels_from).flat_map(of).collect::<Vec<Pattern>>()
            });
            source.read(patterns.collect(), span, RangeShape::Points(1), |group| {
                // All of the time is one bucket.
                feed.had(group, Nanos(u64::MAX), &is_wanted, sink)
            })?;
        }
        let mut guessed = groups.drain(asked..).flat_map(|(_, alike)| alike.guessed);
        guessed.try_for_each(|labels| feed.list(labels, sink))
    }
}

/// False for a reading of a series that never had a value, as a rule.
fn had_value(newest: Reading) -> bool {
    !matches!(newest, Reading::Absent(Absence::NoField | Absence::NoSource | Absence::NotYet))
}
