//! Reading the log: the blocks of a node, those included that wait for a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use khz_model::{Nanos, NodeName};

use crate::StoreError;
use crate::log::batch::Batch;
use crate::log::index::{Entry, Index};
use crate::log::intake::Shared;
use crate::log::replay;
use crate::log::segment::{self, Known};
use crate::log::{LoggedBlock, LoggedLane};

/// A view of the log, from any thread. It is cheap to copy.
#[derive(Clone, Debug)]
pub struct LogView {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: Arc<RwLock<Index>>,
}

/// A block that is read, or will be.
enum Source {
    Waiting(LoggedBlock),
    Written(Entry),
}

impl LogView {
    /// The log in this folder as it is now, read by another process than the one that writes it.
    pub fn of(folder: &Path) -> Result<(Self, Vec<StoreError>), StoreError> {
        let view = LogView { shared: Arc::default(), index: Arc::default() };
        let mut damage = Vec::new();
        replay::read(folder, &view.shared, &view.index, &mut damage)?;
        Ok((view, damage))
    }

    /// Reads every byte of the log in this folder, and says what is damaged.
    pub(crate) fn check(folder: &Path) -> Result<Vec<StoreError>, StoreError> {
        let mut damage = Vec::new();
        for Known { segment, contents } in segment::all(folder, &mut damage)? {
            damage.extend(contents.records.iter().filter_map(|found| segment.body(found).err()));
        }
        Ok(damage)
    }

    /// The nodes with blocks in a segment, or in any. Waiting blocks are in no segment yet.
    pub fn nodes(&self, segment: Option<u64>) -> Vec<NodeName> {
        let mut nodes: BTreeSet<NodeName> = BTreeSet::new();
        if segment.is_none() {
            for batch in self.batches() {
                nodes.extend(batch.iter().map(|(lane, _)| lane.node().clone()));
            }
        }
        let is_in = |entry: &Entry| segment.is_none_or(|segment| entry.segment.number == segment);
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        nodes.extend(
            index.nodes().filter(|(_, entries)| entries.iter().any(is_in)).map(|(node, _)| node.clone()),
        );
        nodes.into_iter().collect()
    }

    /// The blocks of a node that have rows from `from` on and before `to`: older epochs first, and of an epoch lower rows
    /// first. A block of which there are several versions comes once, the longest.
    pub fn blocks(
        &self,
        node: &NodeName,
        segment: Option<u64>,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<LoggedBlock> {
        let is_within = |span: (Nanos, Nanos)| span.0 < to && span.1 >= from;
        // Those that wait come first: a block must not move into the index in between.
        let mut found: BTreeMap<(u32, u64), (u32, Source)> = BTreeMap::new();
        let mut add = |lane: u32, first_row: u64, rows: u32, source: Source| {
            let known = found.get(&(lane, first_row)).map_or(0, |(rows, _)| *rows);
            if rows > known {
                found.insert((lane, first_row), (rows, source));
            }
        };
        if segment.is_none() {
            for (lane, block) in self.batches().into_iter().flatten() {
                if lane.node() == node && is_within(block.span()) {
                    add(lane.number, block.header.first_row, block.rows, Source::Waiting(block));
                }
            }
        }
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let is_in = |entry: &&Entry| segment.is_none_or(|segment| entry.segment.number == segment);
        for entry in index.of(node).iter().filter(is_in).filter(|entry| is_within(entry.span)) {
            add(entry.lane.number, entry.first_row, entry.rows, Source::Written(entry.clone()));
        }
        drop(index);
        let mut read = |source| match source {
            Source::Waiting(block) => Some(block),
            Source::Written(entry) => entry.read().map_err(|error| damage.push(error)).ok(),
        };
        found.into_values().filter_map(|(_, source)| read(source)).collect()
    }

    /// The times of the first and last row in a segment, or in all.
    pub fn span(&self, segment: Option<u64>) -> Option<(Nanos, Nanos)> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.nodes().flat_map(|(_, entries)| entries);
        let within = entries.filter(|entry| segment.is_none_or(|segment| entry.segment.number == segment));
        within.map(|entry| entry.span).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// How many rows and blocks the segments have.
    pub fn size(&self) -> (u64, usize) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.nodes().flat_map(|(_, entries)| entries);
        entries.fold((0, 0), |(rows, blocks), entry| (rows + u64::from(entry.rows), blocks + 1))
    }

    /// The times of the blocks that wait.
    pub(crate) fn waiting_spans(&self) -> Vec<(Nanos, Nanos)> {
        self.batches().iter().flatten().map(|(_, block)| block.span()).collect()
    }

    /// The blocks that wait, each with its lane.
    fn batches(&self) -> [Vec<(Arc<LoggedLane>, LoggedBlock)>; 2] {
        let state = self.shared.state();
        let blocks = |batch: &Batch| {
            let blocks = batch.blocks.iter().map(|waiting| (waiting.lane.clone(), waiting.block.clone()));
            blocks.collect()
        };
        [blocks(&state.batch), blocks(&state.writing)]
    }
}
