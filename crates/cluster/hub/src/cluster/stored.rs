//! What the cluster gives to a store: the rows of base lanes, the rows of kept channels, and the results of rules. It knows no file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::metric::{Kind, Unit};
use khz_model::{Metric, Nanos, NodeName};
use khz_store::log::{Intake, LoggedBlock, OpenBlocks, Take};
use khz_store::range::OpenRows;

use super::Cluster;
use crate::clock;
use crate::counts::own_metric;
use crate::lane::Lane;
use crate::node::SharedNode;

impl Cluster {
    /// From now on the rows of base lanes, and of channels that are kept, go into this log. The first call counts; it comes before the first node.
    pub fn log_to(self: &Arc<Self>, intake: Intake) {
        intake.ask(self);
        let _ = self.intake.set(intake);
    }

    /// Where rows go, if there is a store.
    pub(crate) fn intake(&self) -> Option<&Intake> {
        self.intake.get()
    }

    /// The newest rows of a node's base lane, which are in no block of the log yet; `None`: there are no such rows, or there
    /// is no store.
    #[cfg(test)]
    pub fn open_blocks(&self, node: &NodeName) -> Option<LoggedBlock> {
        self.node(node)?.lock().lanes().base()?.open_for_log()
    }

    /// The counts of the log, if there is one.
    pub(crate) fn log_counts(&self) -> Vec<(Arc<Metric>, u64)> {
        let Some(counts) = self.intake().map(Intake::counts) else { return Vec::new() };
        use Unit::{Bytes, Count};
        let counts = [
            (
                &counts.rows,
                Count,
                "khz.store.rows",
                "khz_store_rows_total",
                "Rows of base lanes, and of channels that are kept, that are on the disk.",
            ),
            (
                &counts.rows_lost,
                Count,
                "khz.store.rows_lost",
                "khz_store_rows_lost_total",
                "Rows that the store does not have: its disk was full, failed, or was too slow, or somebody has removed its files.",
            ),
            (
                &counts.bytes,
                Bytes,
                "khz.store.written",
                "khz_store_written_bytes_total",
                "Bytes written to the log.",
            ),
            (
                &counts.failures,
                Count,
                "khz.store.failures",
                "khz_store_failures_total",
                "Times that the log could not be written.",
            ),
            (
                &counts.left_out,
                Bytes,
                "khz.store.left_out",
                "khz_store_left_out_bytes_total",
                "Bytes at the ends of the log's files that the start has left out: commits that were not finished, or damage.",
            ),
        ];
        let metric = |(count, unit, name, exposition, help): (&std::sync::atomic::AtomicU64, _, _, _, _)| {
            let metric = own_metric(name, exposition, help, Kind::Counter, unit, None);
            (Arc::new(metric), count.load(Ordering::Relaxed))
        };
        counts.map(metric).into()
    }

    /// Hands open blocks of this age to the log: blocks of silent nodes, which may never end, and of nodes with a slow base
    /// lane. With an age of 0, as at the end of the program, it hands over all open blocks.
    pub fn hand_over(&self, age: Nanos) {
        let now = clock::boot();
        for node in self.nodes() {
            node.lock().lanes_mut().logged_mut().for_each(|lane| lane.hand_over(age, now));
        }
        self.recorded.each_lane(|lane| lane.hand_over(age, now));
    }
}

/// Each commit of the log takes what has come since the last commit.
impl OpenBlocks for Cluster {
    fn grown(&self, take: &mut Take<'_>) {
        for node in self.nodes() {
            node.lock().lanes_mut().logged_mut().for_each(|lane| lane.give_log(take));
        }
        self.recorded.grown(take);
    }
}

/// The hub's own part of answers about the past: rows that have just come.
impl OpenRows for Cluster {
    fn nodes(&self) -> Vec<NodeName> {
        let nodes = self.nodes();
        nodes.iter().map(|node| node.name.clone()).chain(self.recorded.owners()).collect()
    }

    fn of(&self, node: &NodeName, from: Nanos, to: Nanos) -> Vec<LoggedBlock> {
        if node.is_owner() {
            return self.recorded.open(node, from, to);
        }
        let Some(node) = self.node(node) else { return Vec::new() };
        let node = node.lock();
        // A block is copied only if it is needed.
        let is_within =
            |lane: &&Lane| lane.open_span().is_some_and(|(first, last)| first < to && last >= from);
        node.lanes().logged().filter(is_within).filter_map(Lane::open_for_log).collect()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        let nodes = self.nodes();
        let span =
            |node: &Arc<SharedNode>| node.lock().lanes().logged().filter_map(Lane::open_span).reduce(wider);
        let mut recorded = Vec::new();
        self.recorded.each_lane(|lane| recorded.extend(lane.open_span()));
        nodes.iter().filter_map(span).chain(recorded).reduce(wider)
    }
}

/// The time of both.
fn wider(all: (Nanos, Nanos), one: (Nanos, Nanos)) -> (Nanos, Nanos) {
    (all.0.min(one.0), all.1.max(one.1))
}
