//! The latest readings, node by node, without copies: for doors that print much and keep nothing. A reader
//! that keeps samples calls [`Query::latest`].

use std::collections::HashSet;
use std::sync::Arc;

use crate::metric::Metric;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::quantity::{Nanos, Stamp};
use crate::query::{Query, QueryError, Sample, Snapshot, WaitFor};
use crate::schema::{Schema, Series};

/// Which readings to show.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only these nodes; the rest of the pattern does not count. `None`: all nodes.
    pub nodes: Option<Pattern>,
    /// Only these metrics, of any instance; `None`: all. [`Look`] may show more.
    pub metrics: Option<Vec<Arc<Metric>>>,
}

impl Wanted {
    /// True when this node is among the wanted.
    pub fn has_node(&self, node: &NodeName) -> bool {
        self.nodes.as_ref().is_none_or(|pattern| pattern.matches_node(node.as_str()))
    }

    /// The same choice as patterns.
    fn patterns(&self) -> Vec<Pattern> {
        let nodes =
            self.nodes.as_ref().and_then(Pattern::nodes).map_or_else(String::new, |n| format!("{n}:"));
        let names: HashSet<&str> = match &self.metrics {
            Some(metrics) => metrics.iter().map(|metric| &*metric.name).collect(),
            None => HashSet::from(["*"]),
        };
        names.into_iter().filter_map(|name| Pattern::new(&format!("{nodes}{name}")).ok()).collect()
    }
}

/// The series of each slot of a row; the same `Arc` until they change.
pub trait Columns: Send + Sync {
    /// One series for each slot.
    fn series(&self) -> &[Series];
}

impl Columns for Schema {
    fn series(&self) -> &[Series] {
        Schema::series(self)
    }
}

impl Columns for Vec<Series> {
    fn series(&self) -> &[Series] {
        self
    }
}

/// Some slots of a node at one instant. It may have fewer slots than columns: later slots did not exist yet.
pub struct Part<'a> {
    /// What the slots hold.
    pub columns: Arc<dyn Columns>,
    /// When they were gathered.
    pub stamp: Stamp,
    /// [`crate::Reading::bits`] of each slot.
    pub values: &'a [u64],
    /// [`crate::Reading::state`] of each slot.
    pub states: &'a [u8],
}

/// What [`Look::next`] calls with a node and its parts. If two parts have the same series, the first one
/// counts.
pub type Show<'s> = dyn FnMut(&NodeName, &[Part<'_>]) + 's;

/// One pass over the latest readings.
pub trait Look: Send {
    /// Ready when every node that was asked for newer rows has answered. To wait no longer, drop the future:
    /// nodes that have not answered are left out.
    fn ready(&mut self) -> WaitFor<'_, Result<(), QueryError>>;

    /// Shows the next node, in name order; `false` when there is none. Skips nodes without readings.
    fn next(&mut self, show: &mut Show<'_>) -> bool;

    /// Nodes left out until now because they did not answer in time.
    fn left_out(&self) -> u64 {
        0
    }

    /// Named nodes that were not shown, in name order; call it after the last node.
    fn missing(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Roughly how many bytes this pass holds for itself until it is dropped.
    fn held(&self) -> u64 {
        0
    }
}

/// Samples that were gathered at one instant.
struct Instant {
    columns: Arc<Vec<Series>>,
    stamp: Stamp,
    values: Vec<u64>,
    states: Vec<u8>,
}

impl Instant {
    fn of(samples: &[Sample]) -> Self {
        let readings = samples.iter().map(|sample| sample.reading);
        let (values, states) = readings.map(|reading| (reading.bits(), reading.state())).unzip();
        let columns = samples.iter().map(|sample| sample.series.clone()).collect();
        let stamp = samples.first().map(|sample| sample.stamp).unwrap_or_default();
        Instant { columns: Arc::new(columns), stamp, values, states }
    }

    fn part(&self) -> Part<'_> {
        Part { columns: self.columns.clone(), stamp: self.stamp, values: &self.values, states: &self.states }
    }
}

/// A pass through [`Query::latest`], for queries that have no shorter way.
pub(crate) struct SnapshotLook<'a, Q: ?Sized> {
    query: &'a Q,
    patterns: Vec<Pattern>,
    age_max: Nanos,
    nodes: std::vec::IntoIter<(NodeName, Vec<Sample>)>,
    missing: Vec<String>,
}

impl<'a, Q: Query + ?Sized> SnapshotLook<'a, Q> {
    pub fn new(query: &'a Q, wanted: &Wanted, age_max: Nanos) -> Self {
        SnapshotLook::at(query, wanted.patterns(), age_max)
    }

    pub fn at(query: &'a Q, patterns: Vec<Pattern>, age_max: Nanos) -> Self {
        SnapshotLook { query, patterns, age_max, nodes: Vec::new().into_iter(), missing: Vec::new() }
    }
}

impl<Q: Query + ?Sized> Look for SnapshotLook<'_, Q> {
    fn ready(&mut self) -> WaitFor<'_, Result<(), QueryError>> {
        Box::pin(async move {
            let Snapshot { nodes, missing } = self.query.latest(&self.patterns, self.age_max).await?;
            (self.nodes, self.missing) = (nodes.into_iter(), missing);
            Ok(())
        })
    }

    fn next(&mut self, show: &mut Show<'_>) -> bool {
        let Some((node, samples)) = self.nodes.next() else { return false };
        let together: Vec<Instant> = samples.chunk_by(|a, b| a.stamp == b.stamp).map(Instant::of).collect();
        show(&node, &together.iter().map(Instant::part).collect::<Vec<_>>());
        true
    }

    fn missing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing)
    }

    fn held(&self) -> u64 {
        let samples: usize = self.nodes.as_slice().iter().map(|(_, samples)| samples.capacity()).sum();
        (samples * size_of::<Sample>()) as u64
    }
}
