//! The log beside lists in memory: whatever is handed over, committed, sealed and removed, and wherever the process ends,
//! every row that was committed is there afterwards, with its values, and no other row.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use common::{all_series, folder, node};
use khz_block::{Decoder, Encoder, HEADER_BYTES, Step};
use khz_model::{Columns, Nanos, Reading, Series, Stamp};
use khz_store::StoreError;
use khz_store::log::{
    Intake, Log, LogView, LoggedBlock, LoggedLane, OpenBlock, OpenBlocks, SchemaHash, Take,
};
use proptest::prelude::*;

const BEGIN: u64 = 1_763_000_000_000_000_000;
const ALWAYS: (Nanos, Nanos) = (Nanos(0), Nanos(u64::MAX));

/// Two schemas: every other lane has the shorter one.
fn schema(number: usize) -> (SchemaHash, Arc<dyn Columns>) {
    let series: Vec<Series> = all_series().into_iter().take(6 - number % 2 * 2).collect();
    ([number as u8 % 2; 16], Arc::new(series))
}

fn stamp(row: u64) -> Stamp {
    Stamp { boot: Nanos(1_000_000_000 * (row + 1)), real_offset: BEGIN as i64 }
}

fn value(lane: usize, epoch: u64, row: u64, slot: usize) -> u64 {
    (row * (slot as u64 + 1) * 37 + lane as u64 * 1_000 + epoch * 7) % (5 + slot as u64 * 911)
}

/// A node: makes the blocks of its base lane, as an agent does.
struct Sender {
    number: usize,
    epoch: u64,
    encoder: Encoder,
    lane: Arc<LoggedLane>,
    bytes: Vec<u8>,
    /// How many of the bytes the hub has.
    sent: usize,
    /// How many of these the log has taken.
    taken: usize,
    /// Whole blocks that the node still has.
    past: Vec<LoggedBlock>,
    /// What the hub has of a block whose end did not come. It hands it over when the next block begins.
    cut_off: Option<LoggedBlock>,
}

impl Sender {
    fn new(number: usize, epoch: u64, intake: &Intake) -> Self {
        let lane = intake.lane(&node(number), epoch);
        let encoder = Encoder::new(0, 1, Nanos::SECOND);
        let (bytes, past) = (Vec::new(), Vec::new());
        Sender { number, epoch, encoder, lane, bytes, sent: 0, taken: 0, past, cut_off: None }
    }

    fn first_row(&self) -> u64 {
        self.encoder.rows() - u64::from(self.encoder.rows_open())
    }

    fn row(&mut self) {
        let (row, slots) = (self.encoder.rows(), schema(self.number).1.series().len());
        let (number, epoch) = (self.number, self.epoch);
        let reading = |slot: usize| {
            let reading = Reading::Present(value(number, epoch, row, slot));
            (reading.state(), reading.bits())
        };
        match self.encoder.rows_open() {
            0 => self.encoder.key_row(stamp(row), slots, reading, &mut self.bytes),
            _ => self.encoder.delta_row(stamp(row), 0..slots, reading, &mut self.bytes),
        }
    }

    /// Sends the hub what is new of the open block, all but the last `cut` bytes.
    fn send(&mut self, intake: &Intake, cut: usize) {
        let until = self.bytes.len().saturating_sub(cut);
        if self.encoder.rows_open() == 0 || until <= self.sent.max(HEADER_BYTES) {
            return;
        }
        if let Some(block) = self.cut_off.take() {
            intake.block(&self.lane, block);
        }
        self.sent = until;
        intake.grown();
    }

    /// The numbers of the rows of the open block that the hub has.
    fn rows_sent(&self) -> std::ops::Range<u64> {
        let whole = if self.sent == 0 { 0 } else { whole_rows(&self.bytes[..self.sent]) };
        self.first_row()..self.first_row() + whole
    }

    /// Gives the log what it has not taken of the open block.
    fn give(&mut self, take: &mut Take<'_>) {
        if self.sent <= self.taken {
            return;
        }
        let (schema_hash, schema) = schema(self.number);
        let header = khz_block::Header::from_bytes(self.bytes.first_chunk().unwrap(), 0).unwrap();
        let open = OpenBlock {
            header: &header,
            begins: (self.taken == 0).then_some((schema, schema_hash)),
            offset: self.taken,
            bytes: &self.bytes[self.taken..self.sent],
            end: self.rows_sent().end,
            shift: 0,
        };
        if take(&self.lane, open) {
            self.taken = self.sent;
        }
    }

    /// What the hub has of the open block.
    fn received(&self) -> Option<LoggedBlock> {
        let mut scanner = khz_block::RowScanner::new();
        scanner.feed(&self.bytes[..self.sent]).unwrap();
        let (rows, last) = (scanner.rows(), scanner.stamp().real());
        let bytes = Arc::new(self.bytes[..self.sent - scanner.unfinished()].to_vec());
        (rows > 0).then(|| LoggedBlock { rows, bytes, last, ..self.block() })
    }

    fn block(&self) -> LoggedBlock {
        let (schema_hash, schema) = schema(self.number);
        let header = khz_block::Header::from_bytes(self.bytes.first_chunk().unwrap(), 0).unwrap();
        let rows = self.encoder.rows_open();
        let last = stamp(self.encoder.rows() - 1).real();
        LoggedBlock { header, rows, schema, schema_hash, bytes: Arc::new(self.bytes.clone()), last, shift: 0 }
    }

    /// The block ends, and is handed over if the hub has all of it.
    fn end(&mut self, intake: &Intake, is_connected: bool) {
        if self.encoder.rows_open() == 0 {
            return;
        }
        let block = self.block();
        self.cut_off = self.received().filter(|_| !is_connected).or(self.cut_off.take());
        self.encoder.close();
        if is_connected {
            intake.block(&self.lane, block.clone());
        }
        self.past.push(block);
        self.bytes.clear();
        (self.sent, self.taken) = (0, 0);
    }
}

/// The nodes, as the hub has them.
struct Senders(Mutex<Vec<Sender>>);

impl Senders {
    fn all(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.0.lock().unwrap()
    }
}

impl OpenBlocks for Senders {
    fn grown(&self, take: &mut Take<'_>) {
        self.all().iter_mut().for_each(|sender| sender.give(take));
    }
}

fn rows_of_block(block: &LoggedBlock) -> std::ops::Range<u64> {
    block.header.first_row..block.header.first_row + u64::from(block.rows)
}

fn whole_rows(block: &[u8]) -> u64 {
    let mut scanner = khz_block::RowScanner::new();
    scanner.feed(block).unwrap()
}

/// A row by node, epoch and number.
type Row = (usize, u64, u64);

/// The numbers of the rows of this epoch: those whose values are that epoch's.
fn rows_of(blocks: &[LoggedBlock], number: usize, epoch: u64) -> BTreeSet<u64> {
    let mut rows = BTreeSet::new();
    for block in blocks {
        let (mut decoder, mut bytes) = (Decoder::new(), &block.bytes[..]);
        while let Step::Header(length) | Step::Row(length) = decoder.step(bytes).unwrap() {
            let is_row = decoder.next_row() > block.header.first_row;
            bytes = &bytes[length..];
            if !is_row {
                continue;
            }
            let row = decoder.next_row() - 1;
            if decoder.stamp() != stamp(row) {
                continue;
            }
            let expected: Vec<u64> =
                (0..decoder.slots()).map(|slot| value(number, epoch, row, slot)).collect();
            if decoder.values() == expected {
                rows.insert(row);
            }
        }
        assert_eq!(bytes.len(), 0, "a block ends with a whole row");
        assert_eq!(block.schema.series().len(), block.header.slots as usize);
    }
    rows
}

#[derive(Clone, Debug)]
enum Act {
    Rows {
        lane: usize,
        count: u64,
        cut: usize,
    },
    End {
        lane: usize,
        is_connected: bool,
    },
    Past {
        lane: usize,
        which: usize,
    },
    Epoch {
        lane: usize,
    },
    Commit,
    Seal,
    Remove,
    /// Somebody removes files of the log: this one, or all. Then rows come.
    Gone {
        which: Option<usize>,
    },
    /// The process ends; the file then has this many bytes of a commit that did not end.
    Crash {
        torn: usize,
    },
}

const LANES: usize = 3;

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..LANES, 1u64..9, prop_oneof![3 => Just(0usize), 1 => 1usize..12])
            .prop_map(|(lane, count, cut)| Act::Rows { lane, count, cut }),
        4 => (0..LANES, prop::bool::weighted(0.8))
            .prop_map(|(lane, is_connected)| Act::End { lane, is_connected }),
        2 => (0..LANES, 0usize..9).prop_map(|(lane, which)| Act::Past { lane, which }),
        1 => (0..LANES).prop_map(|lane| Act::Epoch { lane }),
        8 => Just(Act::Commit),
        2 => Just(Act::Seal),
        2 => Just(Act::Remove),
        1 => prop::option::of(0usize..3).prop_map(|which| Act::Gone { which }),
        2 => (0usize..300).prop_map(|torn| Act::Crash { torn }),
    ]
}

/// The log and what is known to be in it.
struct World {
    folder: PathBuf,
    log: Option<Log>,
    intake: Intake,
    senders: Arc<Senders>,
    /// Rows that came, and those that were committed.
    handed: BTreeSet<Row>,
    committed: BTreeSet<Row>,
    /// Rows whose segment was removed: they are columns.
    columns: BTreeSet<Row>,
    epochs: u64,
}

impl World {
    fn new(folder: PathBuf) -> Self {
        let (log, intake, damage) = Log::open(&folder).unwrap();
        assert!(damage.is_empty());
        let senders = (0..LANES).map(|number| Sender::new(number, 0, &intake)).collect();
        let senders = Arc::new(Senders(Mutex::new(senders)));
        let (handed, committed, columns) = Default::default();
        let world = World { folder, log: Some(log), intake, senders, handed, committed, columns, epochs: 0 };
        world.intake.ask(&world.senders);
        world
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().unwrap()
    }

    fn do_it(&mut self, act: &Act) {
        match *act {
            Act::Rows { lane, count, cut } => {
                let sender = &mut self.senders.all()[lane];
                (0..count).for_each(|_| sender.row());
                let (number, epoch) = (sender.number, sender.epoch);
                let cut_off = sender.cut_off.as_ref().map(rows_of_block);
                sender.send(&self.intake, cut);
                let handed = cut_off.filter(|_| sender.cut_off.is_none()).into_iter().flatten();
                self.handed.extend(handed.chain(sender.rows_sent()).map(|row| (number, epoch, row)));
            }
            Act::End { lane, is_connected } => {
                let sender = &mut self.senders.all()[lane];
                let (number, epoch, rows) =
                    (sender.number, sender.epoch, sender.first_row()..sender.encoder.rows());
                sender.end(&self.intake, is_connected);
                for row in rows.map(|row| (number, epoch, row)) {
                    // What no commit has taken waits until the node goes on.
                    if is_connected || self.committed.contains(&row) {
                        self.handed.insert(row);
                    } else {
                        self.handed.remove(&row);
                    }
                }
            }
            Act::Past { lane, which } => {
                let sender = &self.senders.all()[lane];
                if let Some(block) = sender.past.get(which) {
                    self.intake.block(&sender.lane, block.clone());
                    let rows = rows_of_block(block);
                    self.handed.extend(rows.map(|row| (sender.number, sender.epoch, row)));
                }
            }
            Act::Epoch { lane } => {
                self.epochs += 1;
                // What the hub has of the old one, it hands over.
                let sender = &mut self.senders.all()[lane];
                let came = sender.received().or(sender.cut_off.take());
                if let Some(block) = came {
                    let (number, epoch) = (sender.number, sender.epoch);
                    self.handed.extend(rows_of_block(&block).map(|row| (number, epoch, row)));
                    self.intake.block(&sender.lane, block);
                }
                *sender = Sender::new(lane, self.epochs, &self.intake);
            }
            Act::Commit => self.commit(),
            Act::Seal => self.log().seal(),
            Act::Remove => self.remove(),
            Act::Gone { which } => {
                for (_, path) in self
                    .files()
                    .into_iter()
                    .enumerate()
                    .filter(|(at, _)| which.is_none_or(|which| which == *at))
                {
                    fs::remove_file(path).unwrap();
                }
                self.do_it(&Act::Rows { lane: 0, count: 1, cut: 0 });
                self.commit();
            }
            Act::Crash { torn } => self.crash(torn),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    fn commit(&mut self) {
        self.log().commit().unwrap();
        self.committed.extend(&self.handed);
    }

    fn remove(&mut self) {
        let Some(&segment) = self.log().sealed().first() else { return };
        let view = self.log().view();
        let all: Vec<Row> = self.handed.iter().copied().collect();
        for (number, epoch) in all.iter().map(|row| (row.0, row.1)).collect::<BTreeSet<_>>() {
            let rows = self.rows(&view, number, epoch, Some(segment));
            self.columns.extend(rows.into_iter().map(|row| (number, epoch, row)));
        }
        assert!(self.log().remove(segment).unwrap().is_empty());
        // It commits what waits.
        self.committed.extend(&self.handed);
    }

    fn rows(&self, view: &LogView, number: usize, epoch: u64, segment: Option<u64>) -> BTreeSet<u64> {
        let mut damage = Vec::new();
        let blocks = view.blocks(&node(number), segment, ALWAYS.0, ALWAYS.1, &mut damage);
        assert!(damage.is_empty(), "{damage:?}");
        rows_of(&blocks, number, epoch)
    }

    fn crash(&mut self, torn: usize) {
        self.log = None;
        let newest = newest(&self.folder);
        if let (Some(path), true) = (&newest, torn > 0) {
            let mut bytes = fs::read(path).unwrap();
            bytes.extend((0..torn).map(|byte| (byte * 7) as u8 % 6));
            fs::write(path, bytes).unwrap();
        }
        same(&self.folder);
        let (log, intake, damage) = Log::open(&self.folder).unwrap();
        assert!(damage.is_empty(), "{damage:?}");
        (self.log, self.intake) = (Some(log), intake);
        self.intake.ask(&self.senders);
        self.handed.clone_from(&self.committed);
        let view = self.log().view();
        self.check(&view, true);
        for sender in self.senders.all().iter_mut() {
            sender.lane = self.intake.lane(&node(sender.number), sender.epoch);
            // The node sends its open block again from its start.
            (sender.sent, sender.taken, sender.cut_off) = (0, 0, None);
        }
    }

    /// Every row that was committed is there, with its values; after a restart also those of open blocks.
    fn check(&self, view: &LogView, is_restart: bool) {
        let lanes: BTreeSet<(usize, u64)> = self.handed.iter().map(|row| (row.0, row.1)).collect();
        for (number, epoch) in lanes {
            let found = self.rows(view, number, epoch, None);
            let of_lane = |rows: &BTreeSet<Row>| -> BTreeSet<u64> {
                rows.range((number, epoch, 0)..=(number, epoch, u64::MAX)).map(|row| row.2).collect()
            };
            let (committed, columns) = (of_lane(&self.committed), of_lane(&self.columns));
            let missing: Vec<&u64> =
                committed.iter().filter(|row| !found.contains(row) && !columns.contains(row)).collect();
            assert!(!is_restart || missing.is_empty(), "node {number}, epoch {epoch} lacks {missing:?}");
            let lane = self.intake.lane(&node(number), epoch);
            for (from, to) in lane.stored() {
                assert!(
                    (from..to).all(|row| committed.contains(&row)),
                    "rows are not stored: {from} to {to}"
                );
            }
        }
    }
}

/// Everything that a reader finds in a log, as text.
fn shown((view, mut damage): (LogView, Vec<StoreError>)) -> Vec<String> {
    let mut shown = vec![format!("{:?} {:?}", view.size(), view.span(None))];
    for lane in view.lanes() {
        shown.push(format!("{} {} {:?}", lane.node(), lane.epoch(), lane.stored()));
    }
    for node in view.nodes(None) {
        for block in view.blocks(&node, None, ALWAYS.0, ALWAYS.1, &mut damage) {
            let LoggedBlock { header, rows, schema, schema_hash, bytes, last, shift } = block;
            let series = schema.series().len();
            shown.push(format!("{node} {header:?} {rows} {series} {schema_hash:?} {last} {shift} {bytes:?}"));
        }
    }
    shown.sort();
    assert!(damage.is_empty(), "{damage:?}");
    shown
}

/// A log that is read by its lists is the same as one that is read record by record.
fn same(folder: &Path) {
    assert_eq!(shown(LogView::of(folder).unwrap()), shown(LogView::walked(folder).unwrap()));
}

/// The newest segment.
fn newest(folder: &Path) -> Option<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.pop()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_committed_row_is_there_after_a_restart(acts in prop::collection::vec(act(), 1..60), case in any::<u32>()) {
        let mut world = World::new(folder(&format!("log-model-{case}")));
        for act in &acts {
            world.do_it(act);
            let view = world.log().view();
            world.check(&view, false);
        }
        world.commit();
        world.crash(0);
        let _ = fs::remove_dir_all(&world.folder);
    }
}

/// A log with some commits, and where each commit ends.
fn filled(name: &str) -> (World, Vec<u64>) {
    let mut world = World::new(folder(name));
    let mut ends = Vec::new();
    for turn in 0..6u64 {
        for lane in 0..LANES {
            world.do_it(&Act::Rows { lane, count: 3, cut: 0 });
            if turn % 3 == 2 {
                world.do_it(&Act::End { lane, is_connected: true });
            }
        }
        world.commit();
        ends.push(fs::metadata(newest(&world.folder).unwrap()).unwrap().len());
    }
    (world, ends)
}

#[test]
fn a_log_that_was_cut_off_anywhere_has_all_commits_before_that_place() {
    let (world, ends) = filled("log-cut");
    let path = newest(&world.folder).unwrap();
    let whole = fs::read(&path).unwrap();
    drop(world);
    let copy = folder("log-cut-copy");
    for cut in (0..whole.len()).step_by(7).chain(ends.iter().map(|end| *end as usize)) {
        fs::write(copy.join("0000000001.log"), &whole[..cut]).unwrap();
        let (view, damage) = LogView::of(&copy).unwrap();
        assert!(damage.is_empty(), "cut at {cut}: {damage:?}");
        let commits = ends.iter().filter(|end| **end <= cut as u64).count() as u64;
        for lane in 0..LANES {
            let mut damage = Vec::new();
            let blocks = view.blocks(&node(lane), None, ALWAYS.0, ALWAYS.1, &mut damage);
            let rows = rows_of(&blocks, lane, 0);
            assert_eq!(rows, (0..commits * 3).collect(), "cut at {cut}, lane {lane}");
        }
    }
}

/// What a check of a store with this segment says.
fn checked(folder: &Path, segment: &[u8]) -> Vec<StoreError> {
    fs::create_dir_all(folder.join("log")).unwrap();
    fs::write(folder.join("log/0000000001.log"), segment).unwrap();
    khz_store::StoreReader::open(folder).unwrap().check().unwrap()
}

#[test]
fn bytes_that_were_inserted_or_removed_are_damage_and_an_unfinished_end_is_none() {
    let (world, ends) = filled("log-inserted");
    let whole = fs::read(newest(&world.folder).unwrap()).unwrap();
    drop(world);
    let copy = folder("log-inserted-copy");
    assert!(checked(&copy, &whole).is_empty());
    let commits = std::iter::once(8).chain(ends.iter().copied()).zip(ends.iter().copied());
    for (number, (begin, end)) in commits.enumerate() {
        let middle = (begin + end) as usize / 2;
        let inserted = [&whole[..middle], &[0; 100], &whole[middle..]].concat();
        let removed = [&whole[..middle], &whole[middle + 10..]].concat();
        let unfinished = [&whole[..middle], &[7; 100]].concat();
        for (bytes, is_damage) in [(inserted, true), (removed, true), (unfinished, false)] {
            let left_out = bytes.len() as u64 - begin;
            match &checked(&copy, &bytes)[..] {
                [StoreError::Damaged { offset, bytes, .. }] if is_damage => {
                    assert_eq!((*offset, *bytes), (begin, left_out));
                }
                [StoreError::Unfinished { offset, bytes, .. }] if !is_damage => {
                    assert_eq!((*offset, *bytes), (begin, left_out));
                }
                other => panic!("commit {number}: {other:?}"),
            }
            let (view, damage) = LogView::of(&copy.join("log")).unwrap();
            assert_eq!(damage.len(), usize::from(is_damage), "{damage:?}");
            assert_eq!(
                rows_of(&view.blocks(&node(1), None, ALWAYS.0, ALWAYS.1, &mut Vec::new()), 1, 0).len(),
                number * 3
            );
            let (_log, intake, damage) = Log::open(&copy.join("log")).unwrap();
            assert_eq!(damage.len(), usize::from(is_damage), "{damage:?}");
            assert_eq!(intake.counts().left_out.load(Ordering::Relaxed), left_out);
            drop(_log);
            fs::remove_dir_all(copy.join("log")).unwrap();
        }
    }
}

#[test]
fn a_damaged_schema_is_told_once_however_many_records_need_it() {
    let (world, _) = filled("log-schema");
    let mut bytes = fs::read(newest(&world.folder).unwrap()).unwrap();
    drop(world);
    let (_, schema) = records(&bytes).into_iter().find(|(kind, _)| *kind == SCHEMA).unwrap();
    bytes[schema.end - 1] ^= 1;
    let told: Vec<String> =
        checked(&folder("log-schema-copy"), &bytes).iter().map(ToString::to_string).collect();
    let [differs, unknown] = &told[..] else { panic!("{told:?}") };
    assert!(differs.contains("checksum differs") && unknown.contains("name a lane or a schema"), "{told:?}");
}

/// Where each record's body is in a segment, and the kind of the record.
fn records(segment: &[u8]) -> Vec<(u8, std::ops::Range<usize>)> {
    let (mut records, mut at) = (Vec::new(), 8);
    while at < segment.len() {
        let length = u32::from_le_bytes(*segment[at + 1..].first_chunk().unwrap()) as usize;
        records.push((segment[at], at + 9..at + 9 + length));
        at += 9 + length;
    }
    records
}

const SCHEMA: u8 = 2;
const ROWS: u8 = 3;
const BLOCK: u8 = 4;
const COMMIT: u8 = 5;
const LIST: u8 = 6;

#[test]
fn a_start_reads_neither_blocks_nor_rows_that_a_block_has() {
    let (mut world, _) = filled("log-little");
    // Of lane 0 nothing came since its last block; of the others some rows did.
    for _ in 0..5 {
        (1..LANES).for_each(|lane| world.do_it(&Act::Rows { lane, count: 2, cut: 0 }));
        world.commit();
    }
    let path = newest(&world.folder).unwrap();
    let whole = fs::read(&path).unwrap();
    drop(world);
    let copy = folder("log-little-copy");
    let expected = {
        fs::write(copy.join("0000000001.log"), &whole).unwrap();
        shown(LogView::of(&copy).unwrap())
    };
    let mut bytes = whole.clone();
    let rows: Vec<_> = records(&whole).into_iter().filter(|(kind, _)| *kind == ROWS).collect();
    assert_eq!(rows.len(), 9, "a commit has none if all blocks ended");
    rows[..4].iter().for_each(|(_, body)| bytes[body.clone()].fill(0xA5));
    fs::write(copy.join("0000000001.log"), &bytes).unwrap();
    assert_eq!(shown(LogView::of(&copy).unwrap()), expected);
    let (_, damage) = LogView::walked(&copy).unwrap();
    assert_eq!(damage.len(), 4, "who reads all records finds the damage: {damage:?}");
    for (_, body) in records(&whole).into_iter().filter(|(kind, _)| *kind == BLOCK) {
        bytes[body].fill(0xA5);
    }
    fs::write(copy.join("0000000001.log"), &bytes).unwrap();
    let (view, damage) = LogView::of(&copy).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(view.size(), (LANES as u64 * 18, LANES * 2));
    let mut damage = Vec::new();
    view.blocks(&node(0), None, ALWAYS.0, ALWAYS.1, &mut damage);
    assert_eq!(damage.len(), 2, "a block that is read is compared with its checksum: {damage:?}");
}

#[test]
fn a_damaged_list_is_named_and_the_records_are_read_instead() {
    let (world, ends) = filled("log-list");
    let path = newest(&world.folder).unwrap();
    let whole = fs::read(&path).unwrap();
    drop(world);
    let copy = folder("log-list-copy");
    fs::write(copy.join("0000000001.log"), &whole).unwrap();
    let expected = shown(LogView::walked(&copy).unwrap());
    let lists: Vec<_> = records(&whole).into_iter().filter(|(kind, _)| *kind == LIST).collect();
    assert_eq!(lists.len(), ends.len());
    for (number, (_, body)) in lists.iter().enumerate() {
        let mut bytes = whole.clone();
        bytes[body.start] ^= 1;
        fs::write(copy.join("0000000001.log"), &bytes).unwrap();
        let (view, damage) = LogView::of(&copy).unwrap();
        // The list of the sixth commit has two commits, that of the fourth has four; the others are not read.
        match number + 1 {
            6 => {
                assert!(damage.is_empty(), "nobody can tell it from a commit that was cut off: {damage:?}");
                continue;
            }
            4 => {
                let [StoreError::Damaged { offset, bytes, .. }] = damage[..] else { panic!("{damage:?}") };
                assert_eq!((offset, bytes), (body.start as u64 - 9, body.len() as u64 + 9));
            }
            _ => assert!(damage.is_empty(), "{damage:?}"),
        }
        assert_eq!(shown((view, Vec::new())), expected);
    }
}

/// Where the last commit of a segment begins.
fn last_commit(segment: &[u8]) -> usize {
    let ends: Vec<usize> =
        records(segment).into_iter().filter(|(kind, _)| *kind == COMMIT).map(|(_, body)| body.end).collect();
    ends.iter().rev().nth(1).copied().unwrap_or(8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn of_a_damaged_log_only_what_was_written_is_found_and_what_is_missing_is_told(
        acts in prop::collection::vec(act(), 20..60),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..), 1..4),
        case in any::<u32>(),
    ) {
        let mut world = World::new(folder(&format!("log-damage-{case}")));
        acts.iter().filter(|act| !matches!(act, Act::Crash { .. })).for_each(|act| world.do_it(act));
        world.commit();
        world.log = None;
        let paths: Vec<PathBuf> =
            fs::read_dir(&world.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        prop_assume!(!paths.is_empty());
        let whole: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
        let mut bytes = whole.clone();
        let mut may_be_torn = false;
        for (which, place, flip) in flips {
            let which = which.index(whole.len());
            let at = place.index(whole[which].len());
            bytes[which][at] ^= flip;
            // Nobody can tell damage of the last commit from a commit that was cut off.
            may_be_torn |= at >= last_commit(&whole[which]);
        }
        paths.iter().zip(&bytes).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        let (view, mut damage) = LogView::of(&world.folder).unwrap();
        let mut found = BTreeSet::new();
        for (number, epoch) in world.handed.iter().map(|row| (row.0, row.1)).collect::<BTreeSet<_>>() {
            let blocks = view.blocks(&node(number), None, ALWAYS.0, ALWAYS.1, &mut damage);
            found.extend(rows_of(&blocks, number, epoch).into_iter().map(|row| (number, epoch, row)));
        }
        prop_assert!(found.is_subset(&world.committed));
        let missing: Vec<&Row> =
            world.committed.iter().filter(|row| !found.contains(row) && !world.columns.contains(row)).collect();
        prop_assert!(missing.is_empty() || !damage.is_empty() || may_be_torn, "{missing:?}");
        let _ = fs::remove_dir_all(&world.folder);
    }
}

#[test]
fn a_flipped_byte_damages_what_it_is_in_and_nothing_else() {
    let (world, _) = filled("log-flip");
    let path = newest(&world.folder).unwrap();
    let whole = fs::read(&path).unwrap();
    drop(world);
    let copy = folder("log-flip-copy");
    let mut silent = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(copy.join("0000000001.log"), &bytes).unwrap();
        let Ok((view, mut damage)) = LogView::of(&copy) else { panic!("the folder can be read") };
        let mut rows = 0;
        for lane in 0..LANES {
            let blocks = view.blocks(&node(lane), None, ALWAYS.0, ALWAYS.1, &mut damage);
            rows += rows_of(&blocks, lane, 0).len();
        }
        // Rows of open blocks are read only where no block has them.
        assert!(
            rows == LANES * 18 || !damage.is_empty() || at > whole.len() * 2 / 3,
            "byte {at}: {rows} rows, no damage"
        );
        silent += usize::from(rows < LANES * 18 && damage.is_empty());
    }
    assert!(silent < whole.len() / 3);
}

#[test]
fn a_replaced_segment_is_counted_and_the_log_goes_on() {
    let (mut world, _) = filled("log-replaced");
    let path = newest(&world.folder).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"something else").unwrap();
    world.do_it(&Act::Rows { lane: 0, count: 2, cut: 0 });
    world.do_it(&Act::End { lane: 0, is_connected: true });
    world.log().commit().unwrap();
    let counts = world.intake.counts();
    assert_eq!(counts.rows_lost.load(Ordering::Relaxed), LANES as u64 * 18);
    assert_eq!(counts.failures.load(Ordering::Relaxed), 1);
    let view = world.log().view();
    assert_eq!(world.rows(&view, 0, 0, None), (18..20).collect());
    let stored = |lane| world.intake.lane(&node(lane), 0).stored();
    assert_eq!((stored(0), stored(1)), (vec![(18, 20)], vec![]), "the next start asks for the others");
}

#[test]
fn removed_segments_are_written_again_and_nothing_of_them_is_missing_after_a_crash() {
    let (mut world, _) = filled("log-removed");
    // One that waits for compaction, and one that is written, with an open block.
    world.log().seal();
    world.do_it(&Act::Rows { lane: 0, count: 2, cut: 0 });
    world.commit();
    let files = world.files();
    assert_eq!(files.len(), 2);
    let whole: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    fs::remove_dir_all(&world.folder).unwrap();
    world.do_it(&Act::Rows { lane: 0, count: 2, cut: 0 });
    world.commit();
    assert_eq!(world.files(), files);
    for (path, whole) in files.iter().zip(&whole) {
        assert!(fs::read(path).unwrap().starts_with(whole), "{path:?}");
    }
    let counts = world.intake.counts();
    let counted = [&counts.rows_lost, &counts.failures, &counts.restored];
    assert_eq!(counted.map(|count| count.load(Ordering::Relaxed)), [0, 0, 2]);
    let view = world.log().view();
    assert_eq!(world.rows(&view, 1, 0, None), (0..18).collect(), "they can be read meanwhile");
    world.crash(0);
    let view = world.log().view();
    assert_eq!(world.rows(&view, 0, 0, None), (0..22).collect());
    assert_eq!(world.intake.lane(&node(0), 0).stored(), [(0, 22)]);
}

#[test]
fn blocks_wait_while_the_folder_cannot_be_written() {
    let (mut world, _) = filled("log-full");
    let moved = world.folder.with_extension("moved");
    let _ = fs::remove_dir_all(&moved);
    fs::rename(&world.folder, &moved).unwrap();
    fs::write(&world.folder, b"a file where the folder was").unwrap();
    world.do_it(&Act::Rows { lane: 1, count: 4, cut: 0 });
    world.do_it(&Act::End { lane: 1, is_connected: true });
    for _ in 0..3 {
        assert!(matches!(world.log().commit(), Err(StoreError::File { .. })));
    }
    let view = world.log().view();
    assert_eq!(world.rows(&view, 1, 0, None), (18..22).collect(), "what waits can be read");
    fs::remove_file(&world.folder).unwrap();
    world.log().commit().unwrap();
    assert_eq!(world.rows(&view, 1, 0, None), (18..22).collect());
    assert_eq!(world.intake.counts().failures.load(Ordering::Relaxed), 4);
    let (reopened, damage) = LogView::of(&world.folder).unwrap();
    assert!(damage.is_empty());
    assert_eq!(world.rows(&reopened, 1, 0, None), (18..22).collect());
}

#[test]
fn what_the_log_knows_of_a_lane_survives_its_segments() {
    let (mut world, _) = filled("log-known");
    for _ in 0..3 {
        world.log().seal();
        world.do_it(&Act::Rows { lane: 0, count: 1, cut: 0 });
        world.do_it(&Act::End { lane: 0, is_connected: true });
        world.commit();
        world.remove();
    }
    let folder = world.folder.clone();
    drop(world);
    let (_log, intake, _) = Log::open(&folder).unwrap();
    assert_eq!(intake.lane(&node(2), 0).stored(), [(0, 18)], "it sent nothing since");
    assert_eq!(intake.lane(&node(0), 0).stored(), [(0, 21)]);
    assert_eq!(intake.lane(&node(0), 1).stored(), [], "another epoch");
}

/// Writes the segment from which fuzzing starts; run it after the format has changed.
#[test]
#[ignore = "it writes into the repository"]
fn seeds_for_fuzzing() {
    let (world, _) = filled("log-seed");
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/log_segment");
    fs::create_dir_all(&seeds).unwrap();
    fs::copy(newest(&world.folder).unwrap(), seeds.join("six-commits")).unwrap();
}
