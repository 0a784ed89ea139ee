//! Reading the log: the blocks of a node, those included that wait for a commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use khz_model::{Columns, Nanos, NodeName};

use crate::StoreError;
use crate::log::bundles;
use crate::log::index::{Entry, Index};
use crate::log::intake::{LogCounts, Shared};
use crate::log::replay::{self, Known, Replayed, Way};
use crate::log::{LoggedBlock, LoggedLane};

/// A view of the log, from any thread. It is cheap to copy.
#[derive(Clone, Debug)]
pub struct LogView {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: Arc<RwLock<Index>>,
}

/// The times of a block's first and last row.
pub(crate) type Span = (Nanos, Nanos);

/// A block that can be read.
pub(crate) enum BlockSource {
    /// It waits for a commit.
    Waiting(LoggedBlock),
    /// It is in a segment.
    Written(Entry),
}

impl BlockSource {
    /// What its slots mean.
    pub fn schema(&self) -> &Arc<dyn Columns> {
        match self {
            BlockSource::Waiting(block) => &block.schema,
            BlockSource::Written(entry) => &entry.schema,
        }
    }
}

impl LogView {
    /// The log in this folder as it is now, read by another process than the one that writes it.
    pub fn of(folder: &Path) -> Result<(Self, Vec<StoreError>), StoreError> {
        Self::read(folder, Way::Lists)
    }

    /// The same, read record by record.
    pub fn walked(folder: &Path) -> Result<(Self, Vec<StoreError>), StoreError> {
        Self::read(folder, Way::Records)
    }

    fn read(folder: &Path, way: Way) -> Result<(Self, Vec<StoreError>), StoreError> {
        let (shared, mut damage) = (Arc::<Shared>::default(), Vec::new());
        let Replayed { mut index, segments } = replay::read(folder, way, &shared, &mut damage)?;
        let segments: Vec<u64> = segments.iter().map(|known| known.segment.number).collect();
        bundles::find(folder, &segments, &mut index);
        Ok((LogView { shared, index: Arc::new(RwLock::new(index)) }, damage))
    }

    /// The store does not have these rows any more.
    pub(crate) fn count_lost(&self, rows: u64) {
        LogCounts::add(&self.shared.counts.rows_lost, rows);
    }

    /// Reads every byte of the log in this folder, and says what is damaged.
    pub(crate) fn check(folder: &Path) -> Result<Vec<StoreError>, StoreError> {
        let mut understood = Vec::new();
        let replayed = replay::read(folder, Way::Records, &Shared::default(), &mut understood)?;
        let mut damage = Vec::new();
        for Known { segment, records, left_out, .. } in replayed.segments {
            damage.extend(records.iter().filter_map(|found| segment.body(found).err()));
            damage.extend(left_out.map(|left| left.told(&segment)));
        }
        // Records that cannot be understood are damaged, even if each byte is as it was written.
        let known: HashSet<String> = damage.iter().map(ToString::to_string).collect();
        damage.extend(understood.into_iter().filter(|one| !known.contains(&one.to_string())));
        damage.extend(bundles::check(folder));
        Ok(damage)
    }

    /// The nodes with blocks in a segment, or in any. Waiting blocks are in no segment yet.
    pub fn nodes(&self, segment: Option<u64>) -> Vec<NodeName> {
        let mut nodes: BTreeSet<NodeName> = BTreeSet::new();
        if segment.is_none() {
            self.waiting(|lane, _| _ = nodes.insert(lane.node().clone()));
        }
        let is_in = |entry: &Entry| segment.is_none_or(|segment| entry.segment.number == segment);
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        nodes.extend(
            index.nodes().filter(|(_, entries)| entries.iter().any(is_in)).map(|(node, _)| node.clone()),
        );
        nodes.into_iter().collect()
    }

    /// The times of the first and last row of each of a node's blocks that have rows from `from` on and before `to`, and what
    /// its slots mean. It reads no block.
    pub(crate) fn lists(&self, node: &NodeName, from: Nanos, to: Nanos) -> Vec<(Span, Arc<dyn Columns>)> {
        let is_within = |span: Span| span.0 < to && span.1 >= from;
        // Those that wait come first: a block must not move into the index in between.
        let mut lists = Vec::new();
        self.waiting(|lane, block| {
            if lane.node() == node && is_within(block.span()) {
                lists.push((block.span(), block.schema.clone()));
            }
        });
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let within = index.of(node).iter().filter(|entry| is_within(entry.span));
        lists.extend(within.map(|entry| (entry.span, entry.schema.clone())));
        lists
    }

    /// The blocks of a node with rows from `from` on and before `to`: older epochs first, and within an epoch lower rows first. If
    /// a block has several versions, only the longest one comes.
    pub fn blocks(
        &self,
        node: &NodeName,
        segment: Option<u64>,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<LoggedBlock> {
        let mut read = |source| match source {
            BlockSource::Waiting(block) => Some(block),
            BlockSource::Written(entry) => entry.read().map_err(|error| damage.push(error)).ok(),
        };
        self.sources(node, segment, from, to).into_iter().filter_map(&mut read).collect()
    }

    /// The same blocks. Those in segments are not read yet.
    pub(crate) fn sources(
        &self,
        node: &NodeName,
        segment: Option<u64>,
        from: Nanos,
        to: Nanos,
    ) -> Vec<BlockSource> {
        let is_within = |span: Span| span.0 < to && span.1 >= from;
        // Those that wait come first: a block must not move into the index in between.
        let mut found: BTreeMap<(u32, u64), (u32, BlockSource)> = BTreeMap::new();
        let mut add = |lane: u32, first_row: u64, rows: u32, source: BlockSource| {
            let known = found.get(&(lane, first_row)).map_or(0, |(rows, _)| *rows);
            if rows > known {
                found.insert((lane, first_row), (rows, source));
            }
        };
        if segment.is_none() {
            self.waiting(|lane, block| {
                if lane.node() == node && is_within(block.span()) {
                    add(lane.number, block.header.first_row, block.rows, BlockSource::Waiting(block.clone()));
                }
            });
        }
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let is_in = |entry: &&Entry| segment.is_none_or(|segment| entry.segment.number == segment);
        for entry in index.of(node).iter().filter(is_in).filter(|entry| is_within(entry.span)) {
            add(entry.lane.number, entry.first_row, entry.rows, BlockSource::Written(entry.clone()));
        }
        found.into_values().map(|(_, source)| source).collect()
    }

    /// The lanes that the log knows, in the order in which they came.
    pub fn lanes(&self) -> Vec<Arc<LoggedLane>> {
        self.shared.state().lanes()
    }

    /// The times of the first and last row in a segment, or in all and among what waits.
    pub fn span(&self, segment: Option<u64>) -> Option<(Nanos, Nanos)> {
        let waiting = if segment.is_none() { self.waiting_spans() } else { Vec::new() };
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.nodes().flat_map(|(_, entries)| entries);
        let within = entries.filter(|entry| segment.is_none_or(|segment| entry.segment.number == segment));
        within.map(|entry| entry.span).chain(waiting).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// How many rows and blocks the segments have.
    pub fn size(&self) -> (u64, usize) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.nodes().flat_map(|(_, entries)| entries);
        entries.fold((0, 0), |(rows, blocks), entry| (rows + u64::from(entry.rows), blocks + 1))
    }

    /// The times of the blocks that wait.
    pub(crate) fn waiting_spans(&self) -> Vec<(Nanos, Nanos)> {
        let mut spans = Vec::new();
        self.waiting(|_, block| spans.push(block.span()));
        spans
    }

    /// Calls `each` with every block that waits.
    fn waiting(&self, mut each: impl FnMut(&LoggedLane, &LoggedBlock)) {
        let state = self.shared.state();
        let blocks = [&state.batch, &*state.writing].into_iter().flat_map(|batch| &batch.blocks);
        blocks.for_each(|waiting| each(&waiting.lane, &waiting.block));
    }
}
