//! The hub's end of the log: takes blocks from any thread, hears that rows have come, and waits for no disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use khz_model::{Columns, NodeName};

use crate::limits::LANES_REMEMBERED;
use crate::log::batch::{Batch, Waiting};
use crate::log::{LoggedBlock, LoggedLane, OpenBlocks, SchemaHash};

/// Hands blocks of lanes to the log, and wakes it when rows have come.
#[derive(Clone, Debug)]
pub struct Intake(pub(crate) Arc<Shared>);

/// The shared state of hub, commits and readers.
#[derive(Default)]
pub(crate) struct Shared {
    pub state: Mutex<State>,
    /// Something has come of open blocks since a commit asked for it.
    pub has_grown: AtomicBool,
    /// Notified when something waits again.
    pub came: Condvar,
    /// Who has the open blocks.
    pub open: OnceLock<Weak<dyn OpenBlocks>>,
    pub counts: Arc<LogCounts>,
}

/// The log's counters since the start.
#[derive(Debug, Default)]
pub struct LogCounts {
    /// Rows that are safe on the disk.
    pub rows: AtomicU64,
    /// Rows that are not in the log, because the disk was too slow or full, or a segment was removed.
    pub rows_lost: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Commits that failed.
    pub failures: AtomicU64,
    /// Bytes after the last whole commit of a segment, which the start has left out.
    pub left_out: AtomicU64,
    /// Segments that somebody had removed, and that were written again.
    pub restored: AtomicU64,
}

impl LogCounts {
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// The waiting blocks, and the numbers of lanes and schemas.
#[derive(Default)]
pub(crate) struct State {
    pub batch: Batch,
    /// The blocks that are being written. A block stays here until the index has it.
    pub writing: Arc<Batch>,
    lanes: HashMap<(NodeName, u64), Arc<LoggedLane>>,
    by_number: HashMap<u32, Arc<LoggedLane>>,
    lanes_made: u32,
    schemas: HashMap<SchemaHash, u32>,
    by_schema: BTreeMap<u32, KnownSchema>,
    schemas_made: u32,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

/// A schema with a number.
#[derive(Clone)]
pub(crate) struct KnownSchema {
    pub hash: SchemaHash,
    pub columns: Arc<dyn Columns>,
}

impl std::fmt::Debug for KnownSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSchema").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake {
    /// A lane of a node in this epoch. A lane that was in the log before the start knows which rows are there.
    pub fn lane(&self, node: &NodeName, epoch: u64) -> Arc<LoggedLane> {
        self.0.state().lane(node, epoch)
    }

    /// The row after the last one of a lane in the log; `None`: the log has none of its rows.
    pub fn end_of(&self, node: &NodeName, epoch: u64) -> Option<u64> {
        let lane = self.0.state().lanes.get(&(node.clone(), epoch)).cloned()?;
        lane.stored().last().map(|&(_, end)| end)
    }

    /// The rows of a lane that are in the log.
    pub fn stored(&self, node: &NodeName, epoch: u64) -> Vec<(u64, u64)> {
        let lane = self.0.state().lanes.get(&(node.clone(), epoch)).cloned();
        lane.map_or_else(Vec::new, |lane| lane.stored())
    }

    /// From now on, each commit asks this source for new bytes of open blocks. This does not keep the source alive. Only the first
    /// call counts.
    pub fn ask<O: OpenBlocks + 'static>(&self, open: &Arc<O>) {
        let open: Weak<O> = Arc::downgrade(open);
        let _ = self.0.open.set(open);
    }

    /// Something has come of an open block: the next commit asks for it.
    #[inline]
    pub fn grown(&self) {
        // As a rule this is known.
        if !self.0.has_grown.load(Ordering::Relaxed) && !self.0.has_grown.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// A block has ended, or has come again, or will not go on.
    pub fn block(&self, lane: &Arc<LoggedLane>, block: LoggedBlock) {
        if block.rows == 0 {
            return;
        }
        lane.has(block.schema.series());
        let mut state = self.0.state();
        let schema = state.schema(&block.schema_hash, &block.schema);
        if state.batch.is_empty() {
            self.0.came.notify_all();
        }
        let dropped = state.batch.push_block(Waiting { lane: lane.clone(), block, schema, is_part: false });
        drop(state);
        LogCounts::add(&self.0.counts.rows_lost, dropped);
    }

    /// Returns when something waits for a commit, or when [`Intake::wake`] was called after `is_over` was set.
    pub fn wait(&self, is_over: &AtomicBool) {
        let state = self.0.state();
        let is_idle = |state: &mut State| {
            let has_grown = self.0.has_grown.load(Ordering::Acquire);
            state.batch.is_empty() && !has_grown && !is_over.load(Ordering::Acquire)
        };
        drop(self.0.came.wait_while(state, is_idle));
    }

    /// Ends [`Intake::wait`].
    pub fn wake(&self) {
        // A thread that has just looked waits by now.
        drop(self.0.state());
        self.0.came.notify_all();
    }

    /// The log's counters.
    pub fn counts(&self) -> &Arc<LogCounts> {
        &self.0.counts
    }
}

impl State {
    pub fn lane(&mut self, node: &NodeName, epoch: u64) -> Arc<LoggedLane> {
        if let Some(lane) = self.lanes.get(&(node.clone(), epoch)) {
            return lane.clone();
        }
        if self.lanes.len() >= LANES_REMEMBERED {
            self.forget_lanes();
        }
        let lane = Arc::new(LoggedLane::new(self.lanes_made, node.clone(), epoch));
        self.lanes_made += 1;
        self.lanes.insert((node.clone(), epoch), lane.clone());
        self.by_number.insert(lane.number, lane.clone());
        lane
    }

    /// Forgets the lanes that only this list holds: the hub and the index do not have them, and no data of them waits.
    fn forget_lanes(&mut self) {
        self.by_number.clear();
        self.lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        self.by_number = self.lanes.values().map(|lane| (lane.number, lane.clone())).collect();
    }

    pub fn numbered(&self, lane: u32) -> Option<&Arc<LoggedLane>> {
        self.by_number.get(&lane)
    }

    /// All lanes, in the order in which they came.
    pub fn lanes(&self) -> Vec<Arc<LoggedLane>> {
        let mut lanes: Vec<Arc<LoggedLane>> = self.lanes.values().cloned().collect();
        lanes.sort_unstable_by_key(|lane| lane.number);
        lanes
    }

    /// The number of a schema.
    pub fn schema(&mut self, hash: &SchemaHash, columns: &Arc<dyn Columns>) -> u32 {
        if let Some(&number) = self.schemas.get(hash) {
            return number;
        }
        let number = self.schemas_made;
        self.schemas_made += 1;
        self.schemas.insert(*hash, number);
        self.by_schema.insert(number, KnownSchema { hash: *hash, columns: columns.clone() });
        number
    }

    /// The schema with this hash, if it is known.
    pub fn schema_of(&self, hash: &SchemaHash) -> Option<Arc<dyn Columns>> {
        let known = self.schemas.get(hash).and_then(|number| self.by_schema.get(number));
        known.map(|known| known.columns.clone())
    }

    /// The schema with this number.
    pub fn schema_numbered(&self, number: u32) -> Option<&KnownSchema> {
        self.by_schema.get(&number)
    }

    /// Drops the schemas that nobody holds but this list: no block has them, and no lane's open block.
    pub fn forget_schemas(&mut self) {
        self.by_schema.retain(|_, known| Arc::strong_count(&known.columns) > 1);
        let State { schemas, by_schema, .. } = self;
        schemas.retain(|_, number| by_schema.contains_key(number));
    }
}
