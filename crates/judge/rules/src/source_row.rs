//! Reads a node's row about the rules in a channel: which of their series are there, with the labels of the hub. It also finds the
//! rules that the hub must handle although nothing is there now, since something was there before. It makes no alerts.

use std::collections::{BTreeMap, BTreeSet};

use khz_model::{Reading, Series, exposed};
use khz_plan::RULE_METRIC;
use khz_promql::{LabelSet, METRIC_NAME, VectorSample};

use crate::pack::{RuleChannel, RuleId};

/// A row of a channel with rules.
#[derive(Debug)]
pub struct SourceRow {
    /// The node's windows are as long as those of the hub, so its word counts.
    pub is_ready: bool,
    /// The present series of each rule, by its number in the channel.
    present: BTreeMap<usize, Vec<VectorSample>>,
}

impl SourceRow {
    /// Reads a row of a node. `time`: ms since 1970; `job`: the label of all nodes.
    pub fn read<'a>(
        channel: &RuleChannel,
        (node, job): (&str, &str),
        time: i64,
        row: impl IntoIterator<Item = (&'a Series, &'a Reading)>,
    ) -> Self {
        let prefix = format!("{}.", channel.terms.name.metric());
        let mut read = SourceRow { is_ready: false, present: BTreeMap::new() };
        for (series, reading) in row {
            let (Some(name), Reading::Present(bits)) = (series.metric.name.strip_prefix(&*prefix), reading)
            else {
                continue;
            };
            if name == "ready" {
                read.is_ready = true;
                continue;
            }
            let number = name.strip_prefix('r').and_then(|number| number.parse::<usize>().ok());
            let Some((number, rule)) = number.and_then(|number| Some((number, channel.rules.get(number)?)))
            else {
                continue;
            };
            let own = series.instance.iter().flat_map(khz_model::Instance::labels);
            let own = own.map(|(name, value)| (if name == RULE_METRIC { METRIC_NAME } else { name }, value));
            // Only the hub sets these labels: a node speaks for itself only.
            let own = own.filter(|(name, _)| *name != exposed::INSTANCE && *name != exposed::JOB);
            let of_the_hub =
                [(exposed::INSTANCE, node)].into_iter().chain(rule.has_job.then_some((exposed::JOB, job)));
            let labels = LabelSet::new(own.chain(of_the_hub));
            let sample = VectorSample { labels, time, value: f64::from_bits(*bits) };
            read.present.entry(number).or_default().push(sample);
        }
        read
    }
}

/// What is known of the rules of a channel on one node.
#[derive(Clone, Debug, Default)]
pub struct NodeRules {
    /// The rules that had a series in the last row, or may have active alerts. `None`: any rule may, since the hub has judged so
    /// far.
    going_on: Option<BTreeSet<usize>>,
}

impl NodeRules {
    /// Takes a row. Returns the rules with present series, and those whose alerts on the node may change because they have none.
    pub fn given(
        &mut self,
        channel: &RuleChannel,
        row: SourceRow,
        has_active: impl Fn(RuleId) -> bool,
    ) -> Vec<(RuleId, Vec<VectorSample>)> {
        let id = |number: usize| channel.rules.get(number).map(|rule| rule.id);
        let mut given = row.present;
        let known = self.going_on.take().unwrap_or_else(|| (0..channel.rules.len()).collect());
        for number in known {
            if !given.contains_key(&number) && id(number).is_some_and(&has_active) {
                given.insert(number, Vec::new());
            }
        }
        self.going_on = Some(given.keys().copied().collect());
        given.into_iter().filter_map(|(number, series)| Some((id(number)?, series))).collect()
    }
}
