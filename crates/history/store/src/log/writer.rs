//! Writes the log: a commit a second, a segment every ten minutes. If the disk fails, blocks wait, and what does not fit is
//! counted; the hub never notices.

mod removed;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard, Weak};

use khz_block::SchemaEncoder;
use khz_model::NodeName;

use crate::StoreError;
use crate::limits::{SEGMENT_BLOCKS, TAKES_MAX};
use crate::log::batch::{Batch, Waiting};
use crate::log::bundles::Bundles;
use crate::log::index::{Entry, InBundle, Index};
use crate::log::intake::{KnownSchema, LogCounts, Shared};
use crate::log::list::{Listed, ListedBlock, Lists, RecordPlace};
use crate::log::parts::Parts;
use crate::log::pieces::{Left, Pieces};
use crate::log::record::{self, BlockMeta, HEAD_BYTES, LaneRecord, Piece, SEGMENT_HEADER};
use crate::log::replay::{self, OpenBytes, Replayed, Way};
use crate::log::segment::{self, SegmentFile};
use crate::log::taken::Taken;
use crate::log::{Bundler, Intake, LogView, LoggedLane};

/// Bytes that are gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;
/// How many times the rows of an idle open block are written again: as many as a day has segments, since the slowest lane has a
/// row a day.
const IDLE_MOVES_MAX: u32 = 144;
/// The number of holders of a lane that neither the hub nor the index uses: the intake's two lists, and the copy for this check.
const HOLDERS_OF_UNUSED: usize = 3;

/// The log of a hub: the only writer of its folder.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    shared: Arc<Shared>,
    index: Arc<RwLock<Index>>,
    bundles: Arc<Bundles>,
    /// Sealed segments, oldest first, and their bytes.
    sealed: BTreeMap<u64, (Arc<SegmentFile>, u64)>,
    /// Where the log has pieces of blocks that have not ended.
    pieces: Pieces,
    /// The bytes that a commit takes from open blocks; kept to reuse its memory.
    taken: Taken,
    /// The segment that is written; `None`: the last one failed, and the next commit begins another.
    open: Option<OpenSegment>,
    next: u64,
}

/// The segment that is written.
#[derive(Debug)]
struct OpenSegment {
    file: Arc<SegmentFile>,
    /// Its length up to the last commit.
    end: u64,
    blocks: usize,
    /// The lanes and schemas that it has.
    lanes: HashSet<u32>,
    schemas: HashSet<u32>,
    /// What it has of all.
    lists: Lists,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Bytes; 0: nothing had come.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Log {
    /// Opens the log in a folder, which is made if it is missing. Rows that an earlier process has written and not made
    /// blocks of are made blocks now. What is damaged is returned beside it.
    pub fn open(folder: &Path) -> Result<(Self, Intake, Vec<StoreError>), StoreError> {
        let failed = |what| move |source| StoreError::File { what, path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed("create"))?;
        let (shared, mut damage) = (Arc::<Shared>::default(), Vec::new());
        let Replayed { mut index, segments } = replay::read(folder, Way::Lists, &shared, &mut damage)?;
        let left_out = segments.iter().filter_map(|known| known.left_out).map(|left| left.bytes).sum();
        LogCounts::add(&shared.counts.left_out, left_out);
        let next = segment::numbers(folder)?.last().map_or(1, |last| last + 1);
        let numbers: Vec<u64> = segments.iter().map(|known| known.segment.number).collect();
        let bundles = Arc::new(Bundles::open(folder, &numbers, &mut index));
        let sealed = segments.into_iter().map(|known| (known.segment.number, (known.segment, known.end)));
        let (sealed, index) = (sealed.collect(), Arc::new(RwLock::new(index)));
        let (folder, taken, pieces) = (folder.to_owned(), Taken::default(), Pieces::default());
        let mut log = Log { folder, shared, index, bundles, sealed, pieces, taken, open: None, next };
        // The older segments need not be read again for the rows of open blocks: from now on all are in blocks.
        log.commit()?;
        let intake = Intake(log.shared.clone());
        Ok((log, intake, damage))
    }

    /// Turns blocks into bundles, in any thread.
    pub fn bundler(&self) -> Bundler {
        Bundler::new(self.index.clone(), self.bundles.clone())
    }

    /// Reads the log, from any thread.
    pub fn view(&self) -> LogView {
        LogView { shared: self.shared.clone(), index: self.index.clone() }
    }

    /// Writes what came since the last commit, and waits until it is on the disk. After an error the blocks wait for the
    /// next commit.
    pub fn commit(&mut self) -> Result<Commit, StoreError> {
        let is_idle = !self.shared.has_grown.load(Ordering::Acquire) && self.shared.state().batch.is_empty();
        if is_idle { Ok(Commit::default()) } else { self.commit_with(&[]) }
    }

    /// The same, and before it what came of these open blocks.
    fn commit_with(&mut self, moved: &[OpenBytes]) -> Result<Commit, StoreError> {
        let written = self.segment().and_then(|open| self.write(open, moved));
        let counts = &self.shared.counts;
        match &written {
            Ok(commit) => LogCounts::add(&counts.bytes, commit.bytes),
            Err(_) => LogCounts::add(&counts.failures, 1),
        }
        written
    }

    /// The open segment, or a new one.
    fn segment(&mut self) -> Result<OpenSegment, StoreError> {
        self.restore_removed();
        match self.open.take() {
            Some(open) => Ok(open),
            None => self.begin_segment(),
        }
    }

    fn write(&mut self, mut open: OpenSegment, moved: &[OpenBytes]) -> Result<Commit, StoreError> {
        let mut taken = std::mem::take(&mut self.taken);
        let mut writing = Writing::new(&mut open, &self.shared, &mut taken, &self.pieces);
        // Take the open blocks first: one that ends meanwhile also comes as a complete block. In the other order, rows of a next
        // block could be written without the end of the previous one.
        let taken_all = writing.again(moved).and_then(|()| writing.open_blocks());
        let batch = self.take_batch();
        let done = taken_all.and_then(|()| writing.end(&batch));
        taken.clear();
        self.taken = taken;
        let written = match done {
            Ok(done) => {
                let commit = Commit { bytes: done.end - open.end, blocks: done.blocks.len() as u64 };
                open.end = done.end;
                open.blocks += done.blocks.len();
                if commit.bytes > 0 {
                    open.lists.committed(open.end);
                }
                self.mark(&open, done, &batch);
                self.open = Some(open);
                Ok(commit)
            }
            Err(error) => {
                self.give_up(open);
                Err(error)
            }
        };
        self.end_batch(batch, written.is_ok());
        written
    }

    /// Moves the waiting blocks into the batch that is written.
    fn take_batch(&self) -> Arc<Batch> {
        let mut state = self.shared.state();
        state.writing = Arc::new(std::mem::take(&mut state.batch));
        state.writing.clone()
    }

    /// The blocks are in the index, or wait again.
    fn end_batch(&self, batch: Arc<Batch>, is_written: bool) {
        let mut state = self.shared.state();
        state.writing = Arc::default();
        // Readers hold copies of blocks, never the batch.
        let batch = Arc::try_unwrap(batch).unwrap_or_default();
        if !is_written {
            let dropped = state.batch.put_back(batch.blocks);
            drop(state);
            LogCounts::add(&self.shared.counts.rows_lost, dropped);
        }
    }

    /// A commit has failed. Its bytes are cut off. If even that fails, the segment is left as it is.
    fn give_up(&mut self, open: OpenSegment) {
        let is_cut = open.file.cut(open.end).and_then(|()| open.file.sync()).is_ok();
        self.leave_open(LoggedLane::forget_open);
        self.sealed.insert(open.file.number, (open.file.clone(), open.end));
        // A segment without a commit is of no use.
        if is_cut && open.end <= SEGMENT_HEADER.len() as u64 {
            // If that fails, an empty file is left, which the next start removes.
            let _ = self.unlink(open.file.number);
        }
    }

    /// No lane goes on with its open block.
    fn leave_open(&mut self, leave: impl Fn(&LoggedLane) -> Option<Left>) {
        let lanes = self.shared.state().lanes();
        lanes.iter().for_each(|lane| self.pieces.leave(lane, leave(lane)));
    }

    fn begin_segment(&mut self) -> Result<OpenSegment, StoreError> {
        let failed = |source| StoreError::File { what: "create", path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let number = self.next;
        // After a failure the number is not used again: the file may be there.
        self.next += 1;
        let file = Arc::new(SegmentFile::create(&self.folder, number)?);
        let (lanes, schemas, lists) = (HashSet::new(), HashSet::new(), Lists::new());
        let end = SEGMENT_HEADER.len() as u64;
        Ok(OpenSegment { file, end, blocks: 0, lanes, schemas, lists })
    }

    /// The rows of a commit are safe now.
    fn mark(&mut self, open: &OpenSegment, done: Done, batch: &Batch) {
        let mut rows = 0;
        for (lane, piece, at) in &done.pieces {
            rows += self.pieces.add(lane, piece, (open.file.number, *at));
        }
        let Log { index, pieces, .. } = self;
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        for (waiting, (at, length)) in batch.blocks.iter().zip(done.blocks) {
            let Waiting { lane, block, is_part, .. } = waiting;
            let (first_row, end) = (block.header.first_row, block.header.first_row + u64::from(block.rows));
            if *is_part {
                rows += lane.add(first_row, end);
            } else {
                rows += pieces.block(lane, first_row, end);
            }
            index.add(Entry {
                lane: lane.clone(),
                schema: block.schema.clone(),
                schema_hash: block.schema_hash,
                segment: open.file.clone(),
                at,
                length,
                first_row,
                rows: block.rows,
                span: block.span(),
                bundle: InBundle::Not,
            });
        }
        drop(index);
        LogCounts::add(&self.shared.counts.rows, rows);
    }

    /// True if the open segment is so large that it should be sealed before its time: it has this many bytes, or very many
    /// blocks.
    pub fn is_full(&self, bytes: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.end >= bytes || open.blocks >= SEGMENT_BLOCKS)
    }

    /// The next commit begins another segment; the present one can be made columns of.
    pub fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            self.sealed.insert(open.file.number, (open.file, open.end));
            self.shared.state().forget_schemas();
        }
    }

    /// The sealed segments, oldest first.
    pub fn sealed(&self) -> Vec<u64> {
        self.sealed.keys().copied().collect()
    }

    /// Whether all blocks that began in this segment, or before, have ended. If not, their parts are written again when the segment
    /// is removed, so it is better to wait for a while.
    pub fn is_settled(&self, number: u64) -> bool {
        let lanes = self.shared.state().lanes();
        !lanes.iter().any(|lane| lane.open().is_some_and(|open| open.segment <= number))
    }

    /// Bytes of all segments and bundles.
    pub fn bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.values().map(|(_, bytes)| bytes).sum();
        sealed + self.open.as_ref().map_or(0, |open| open.end) + self.bundles.bytes()
    }

    /// Bytes of a sealed segment.
    pub fn segment_bytes(&self, number: u64) -> u64 {
        self.sealed.get(&number).map_or(0, |(_, bytes)| *bytes)
    }

    /// Removes a sealed segment, whose blocks are columns now. Rows of blocks that have not ended are written again first,
    /// as blocks. Returns what was damaged.
    pub fn remove(&mut self, number: u64) -> Result<Vec<StoreError>, StoreError> {
        let mut damage = Vec::new();
        if self.sealed.contains_key(&number) {
            self.move_open_blocks(number, &mut damage)?;
            self.unlink(number)?;
            self.forget(number);
        }
        Ok(damage)
    }

    /// Removes the oldest sealed segment although its blocks are nowhere else. Returns how many rows they had.
    pub fn drop_oldest(&mut self) -> Result<u64, StoreError> {
        let Some(&number) = self.sealed.keys().next() else { return Ok(0) };
        self.unlink(number)?;
        let rows = self.forget(number);
        LogCounts::add(&self.shared.counts.rows_lost, rows);
        Ok(rows)
    }

    fn unlink(&mut self, number: u64) -> Result<(), StoreError> {
        let path = segment::path(&self.folder, number);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::File { what: "remove", path, source })
            }
            _ => {
                self.sealed.remove(&number);
                self.bundles.remove(number);
                Ok(())
            }
        }
    }

    fn index(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&mut self, number: u64) -> u64 {
        self.pieces.forget_segment(number);
        self.index().remove(number, |_| {})
    }

    /// Writes again what came of blocks that began in this segment, or before, and that may go on. If nothing has come of
    /// such a block for a segment, its rows become a block too, so that they become columns.
    fn move_open_blocks(&mut self, number: u64, damage: &mut Vec<StoreError>) -> Result<(), StoreError> {
        // The waiting bytes must be in the files before they are read.
        self.commit()?;
        let mut wanted = HashMap::new();
        for lane in self.shared.state().lanes() {
            let Some(open) = lane.open().filter(|open| open.segment <= number) else { continue };
            match open.idle < IDLE_MOVES_MAX {
                true => _ = wanted.insert(lane.number, (lane, open.first_row)),
                false => self.pieces.leave(&lane, lane.forget_open()),
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut moved = replay::open_bytes(&self.records_of(&wanted), &wanted, damage);
        // A block that has ended meanwhile has all its rows.
        moved.retain(|open| open.lane.has_open(open.piece.first_row));
        moved.iter().for_each(|open| self.part_of_idle(open));
        self.commit_with(&moved)?;
        let segment = self.open.as_ref().map_or(number, |open| open.file.number);
        moved.iter().for_each(|open| open.lane.moved(open.piece.first_row, open.bytes.len(), segment));
        Ok(())
    }

    /// The records that have bytes of these lanes' open blocks.
    fn records_of(
        &self,
        lanes: &HashMap<u32, (Arc<LoggedLane>, u64)>,
    ) -> BTreeMap<RecordPlace, Arc<SegmentFile>> {
        let places = lanes.values().flat_map(|(lane, _)| self.pieces.of(lane));
        let open = self.open.as_ref().map(|open| &open.file);
        let file = |number: u64| {
            let sealed = self.sealed.get(&number).map(|(file, _)| file);
            sealed.or(open.filter(|file| file.number == number)).cloned()
        };
        places.filter_map(|place| Some((place, file(place.0)?))).collect()
    }

    /// If nothing has come of an open block for a segment, its rows become a block.
    fn part_of_idle(&self, open: &OpenBytes) {
        let OpenBytes { lane, piece, bytes, schema_hash, schema } = open;
        if !lane.open().is_some_and(|known| known.moved == bytes.len() && known.idle == 0) {
            return;
        }
        if let Some(block) = replay::block_of(bytes.clone(), piece.shift, schema, *schema_hash) {
            let mut state = self.shared.state();
            let schema = state.schema(schema_hash, schema);
            let waiting = Waiting { lane: lane.clone(), block, schema, is_part: true };
            LogCounts::add(&self.shared.counts.rows_lost, state.batch.push_block(waiting));
        }
    }
}

/// The result of a commit, before it is published.
struct Done {
    /// The file's length.
    end: u64,
    /// The pieces of open blocks that a restart can use, each with the place of its record.
    pieces: Vec<(Arc<LoggedLane>, Piece, u64)>,
    /// Where the record of each block begins, and the length of its body.
    blocks: Vec<(u64, usize)>,
}

/// A commit on its way into a segment.
struct Writing<'a> {
    open: &'a mut OpenSegment,
    shared: &'a Shared,
    taken: &'a mut Taken,
    /// Where what waits begins in the file.
    at: u64,
    waits: Parts<'a>,
    /// The written bytes of open blocks, with their lanes and places.
    pieces: Vec<(Arc<LoggedLane>, Piece, u64)>,
    /// The log's pieces of open blocks before this commit.
    before: &'a Pieces,
}

impl<'a> Writing<'a> {
    fn new(open: &'a mut OpenSegment, shared: &'a Shared, taken: &'a mut Taken, before: &'a Pieces) -> Self {
        let at = open.end;
        Writing { open, shared, taken, at, waits: Parts::default(), pieces: Vec::new(), before }
    }

    /// Where the next record begins.
    fn next(&self) -> u64 {
        self.at + self.waits.length() as u64
    }

    /// Writes what came of these open blocks again.
    fn again(&mut self, moved: &[OpenBytes]) -> Result<(), StoreError> {
        for OpenBytes { lane, piece, bytes, .. } in moved {
            // An open block has a schema.
            let Some((schema, _)) = lane.schema() else { continue };
            if !self.taken.has_room(bytes.len()) {
                self.rows()?;
            }
            self.taken.push(lane, Piece { schema, ..*piece }, bytes);
        }
        self.rows()
    }

    /// Writes what has come of open blocks.
    fn open_blocks(&mut self) -> Result<(), StoreError> {
        // Bytes that come from now on go to the next commit, if this one does not see them.
        self.shared.has_grown.store(false, Ordering::Release);
        let Some(source) = self.shared.open.get().and_then(Weak::upgrade) else { return Ok(()) };
        for _ in 0..TAKES_MAX {
            let Writing { taken, shared, .. } = self;
            source.grown(&mut |lane, open| taken.take(shared, lane, open));
            let has_more = taken.is_full;
            self.rows()?;
            if !has_more {
                return Ok(());
            }
        }
        self.shared.has_grown.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes what was taken as a record of rows.
    fn rows(&mut self) -> Result<(), StoreError> {
        let pieces = std::mem::take(&mut self.taken.pieces);
        if pieces.is_empty() {
            return Ok(());
        }
        for (lane, piece) in &pieces {
            self.declare(lane, piece.schema, || lane.schema().map(|(_, schema)| schema));
        }
        let record = self.next();
        let Writing { open, taken, at, waits, .. } = self;
        open.lists.add(&Listed::Rows { at: record });
        waits.head(|out| record::put_table(out, pieces.iter().map(|(_, piece)| piece), &taken.bytes));
        *at += waits.write(&open.file, *at, &taken.bytes)?;
        taken.clear();
        self.pieces.extend(pieces.into_iter().map(|(lane, piece)| (lane, piece, record)));
        Ok(())
    }

    /// Writes the blocks, and waits until the disk has everything.
    fn end(mut self, batch: &'a Batch) -> Result<Done, StoreError> {
        let mut blocks = Vec::with_capacity(batch.blocks.len());
        for waiting in &batch.blocks {
            blocks.push(self.block(waiting)?);
        }
        // It may be that nothing has come after all.
        if self.next() > self.open.end {
            let Writing { open, waits, before, .. } = &mut self;
            waits.head(|out| open.lists.put(out, before.records().into_iter()));
            let at = self.next();
            self.waits.head(|out| record::put_commit(out, at));
            self.flush()?;
            self.open.file.sync()?;
        }
        Ok(Done { end: self.at, pieces: self.pieces, blocks })
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.at += self.waits.write(&self.open.file, self.at, &[])?;
        Ok(())
    }

    fn block(&mut self, waiting: &'a Waiting) -> Result<(u64, usize), StoreError> {
        let Waiting { lane, block, schema, is_part } = waiting;
        let known = || Some(KnownSchema { hash: block.schema_hash, columns: block.schema.clone() });
        self.declare(lane, *schema, known);
        let (at, before) = (self.next(), self.waits.length());
        let meta = BlockMeta {
            lane: lane.number,
            schema: *schema,
            rows: block.rows,
            last: block.last,
            shift: block.shift,
            is_part: *is_part,
        };
        self.waits.head(|out| meta.put(out, &block.bytes));
        self.waits.bytes(&block.bytes);
        let length = self.waits.length() - before - HEAD_BYTES;
        self.open.lists.add(&Listed::Block(ListedBlock {
            lane: lane.number,
            schema: *schema,
            at,
            length,
            first_row: block.header.first_row,
            rows: block.rows,
            span: block.span(),
            is_part: *is_part,
        }));
        if self.waits.length() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok((at, length))
    }

    /// Writes a lane and a schema, unless the segment has them.
    fn declare(&mut self, lane: &LoggedLane, number: u32, schema: impl FnOnce() -> Option<KnownSchema>) {
        if self.open.lanes.is_empty() {
            self.remember_lanes();
        }
        self.declare_lane(lane);
        if !self.open.schemas.contains(&number)
            && let Some(schema) = schema()
        {
            self.open.schemas.insert(number);
            let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
            for series in schema.columns.series() {
                // A hub has taken the series out of such bytes, so they fit.
                let _ = encoder.append(series, &mut bytes);
            }
            let at = self.next();
            self.open.lists.add(&Listed::Schema { number, hash: schema.hash, at });
            self.waits.head(|out| record::put_schema(out, number, &schema.hash, &bytes));
        }
    }

    /// Writes, at the start of a segment, which rows of each node's base lane and of the existing channels' lanes are stored. The
    /// next start needs this when older segments are gone.
    fn remember_lanes(&mut self) {
        let lanes = self.shared.state().lanes();
        let (of_channels, base): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|lane| lane.is_of_channel());
        // Channels first: a start that finds no row of such a lane takes it for a base lane, but not for the newest.
        let held = of_channels.iter().filter(|lane| Arc::strong_count(lane) > HOLDERS_OF_UNUSED);
        held.for_each(|lane| self.declare_lane(lane));
        let newest: BTreeMap<NodeName, Arc<LoggedLane>> =
            base.into_iter().map(|lane| (lane.node().clone(), lane)).collect();
        newest.values().for_each(|lane| self.declare_lane(lane));
    }

    fn declare_lane(&mut self, lane: &LoggedLane) {
        if self.open.lanes.insert(lane.number) {
            let (node, epoch) = (lane.node().clone(), lane.epoch());
            let lane = LaneRecord { number: lane.number, epoch, node, stored: lane.stored() };
            self.waits.head(|out| lane.put(out));
            self.open.lists.add(&Listed::Lane(lane));
        }
    }
}
