//! A store beside a map in memory: whatever rows came, however late, whatever clocks did, and wherever compaction or the
//! process ended, every answer is the map's, digit for digit, and every roll-up is that of the rows.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::open::Open;
use common::ranges::check_ranges;
use common::stored::*;
use common::{folder, node};
use khz_model::{Nanos, Pattern, RangeAnswer, RangeContent, RangeRequest, RangeShape, Ranges};
use khz_store::compact::Step;
use khz_store::limits::ROWS_RECORD_BYTES;
use khz_store::log::{Intake, LoggedBlock};
use khz_store::range::ColumnFiles;
use khz_store::range::RangeReader;
use khz_store::shelf::Tier;
use khz_store::{Keep, Store, StoreError, StoreReader};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    /// A block that begins `before` seconds ago, from a clock that is wrong by `shift` seconds.
    Rows {
        node: usize,
        before: u64,
        count: u64,
        gap: u64,
        schema: usize,
        shift: i64,
    },
    /// A block that the hub has had before.
    Again(usize),
    /// Time passes, in minutes.
    Wait(u64),
    Commit,
    Seal,
    Compact(usize),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let before = prop_oneof![6 => 0u64..200, 2 => 0u64..20_000, 1 => 0u64..260_000];
    let shift = prop_oneof![8 => Just(0i64), 1 => -9_000i64..-5, 1 => 6i64..9_000];
    let schema = prop_oneof![6 => Just(0), 1 => 0..SCHEMAS];
    let rows = (0..NODES, before, 1u64..70, prop_oneof![1u64..5, 30u64..400], schema, shift);
    prop_oneof![
        9 => rows.prop_map(|(node, before, count, gap, schema, shift)|
            Act::Rows { node, before, count, gap, schema, shift }),
        1 => any::<prop::sample::Index>().prop_map(|which| Act::Again(which.index(1 << 16))),
        4 => prop_oneof![1u64..20, 20u64..200].prop_map(Act::Wait),
        3 => Just(Act::Commit),
        2 => Just(Act::Seal),
        5 => (1usize..6).prop_map(Act::Compact),
        1 => Just(Act::Reopen),
    ]
}

struct World {
    folder: PathBuf,
    open: Option<(Store, Intake)>,
    /// Answers since the store was opened, so it remembers what it has unpacked.
    reader: Option<RangeReader>,
    nodes: Nodes,
    sent: Vec<(usize, LoggedBlock)>,
    now: u64,
}

impl World {
    fn new(folder: PathBuf) -> Self {
        let open = Some(open_store(&folder, everything(), BEGIN));
        let (nodes, sent) = (Nodes::default(), Vec::new());
        let mut world = World { folder, open, reader: None, nodes, sent, now: BEGIN };
        world.reader = Some(world.reader());
        world
    }

    fn reader(&self) -> RangeReader {
        RangeReader::new(self.store().shelf().clone(), Some(self.store().log()), Arc::new(()))
    }

    fn store(&self) -> &Store {
        &self.open.as_ref().unwrap().0
    }

    fn hand_over(&self, number: usize, block: LoggedBlock) {
        hand_over(&self.open.as_ref().unwrap().1, number, block);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Rows { node, before, count, gap, schema, shift } => {
                let time = self.now - before * SECOND;
                let gap = gap * SECOND;
                // No row may be from the future.
                let count = count.min(1 + before * SECOND / gap);
                let block = self.nodes.block(node, time, count, gap, (schema, shift * SECOND as i64));
                self.sent.push((node, block.clone()));
                self.hand_over(node, block);
            }
            Act::Again(which) => {
                if let Some((node, block)) = self.sent.get(which % self.sent.len().max(1)).cloned() {
                    self.hand_over(node, block);
                }
            }
            Act::Wait(minutes) => self.now += minutes * MINUTE,
            Act::Commit => _ = self.store().commit(Nanos(self.now)).unwrap(),
            Act::Seal => self.store().seal(),
            Act::Compact(steps) => {
                for _ in 0..steps {
                    let tick = self.store().tick_compaction(Nanos(self.now)).unwrap();
                    assert!(tick.damage.is_empty() && tick.removed.is_empty(), "{tick:?}");
                }
            }
            Act::Reopen => {
                self.store().commit(Nanos(self.now)).unwrap();
                (self.open, self.reader) = (None, None);
                self.open = Some(open_store(&self.folder, everything(), self.now));
                self.reader = Some(self.reader());
            }
        }
    }

    fn check(&self) {
        assert_eq!(answers(self.store().shelf(), &self.store().log()), self.nodes.known);
        self.check_ranges();
    }

    /// Range queries have the same rows, and buckets of them.
    fn check_ranges(&self) {
        let begin = BEGIN - 4 * DAY;
        for reader in [&self.reader(), self.reader.as_ref().unwrap()] {
            self.check_ranges_of(reader, begin);
        }
    }

    fn check_ranges_of(&self, reader: &RangeReader, begin: u64) {
        for (from, to, points) in
            [(begin, self.now + HOUR, 80), (begin + 7 * SECOND, self.now - 90 * SECOND, 3_000)]
        {
            check_ranges(reader, &self.nodes.known, from, to, points);
        }
        let hour = self.now - self.now % HOUR;
        check_ranges(reader, &self.nodes.known, hour - HOUR + 1, hour + 1, 60);
        let (inventory, keys, known) = (reader.inventory(), all_keys(), &self.nodes.known);
        let nodes: BTreeSet<_> = known.keys().map(|(number, _)| node(*number)).collect();
        let metrics: BTreeSet<&str> = known.keys().map(|(_, place)| &*keys[*place].metric).collect();
        assert_eq!(inventory.nodes, nodes);
        assert!(inventory.metrics.iter().map(|metric| &*metric.name).eq(metrics));
        assert!(inventory.damage.is_empty());
    }

    /// All rows become columns, and all that is late is merged.
    fn finish(&mut self) {
        self.store().commit(Nanos(self.now)).unwrap();
        self.store().seal();
        settle(self.store(), self.now);
        assert_eq!(of_shelf(self.store().shelf()), self.nodes.known);
        for _ in 0..2 {
            self.now += 2 * HOUR;
            settle(self.store(), self.now);
        }
        assert_eq!(of_shelf(self.store().shelf()), self.nodes.known);
        assert_eq!(self.store().counts().rows_too_old.load(Ordering::Relaxed), 0);
        let hours = self.store().shelf().hours(Nanos(0), Nanos(u64::MAX));
        assert!(hours.iter().all(|hour| hour.is_settled), "{hours:?}");
        check_roll_ups(self.store().shelf(), BEGIN - 4 * DAY, self.now);
        self.check_ranges();
        assert!(self.store().shelf().check().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_answer_is_that_of_a_map_in_memory(
        acts in prop::collection::vec(act(), 10..60),
        case in any::<u32>(),
    ) {
        let mut world = World::new(folder(&format!("store-model-{case}")));
        for (number, act) in acts.iter().enumerate() {
            world.act(act);
            if number % 8 == 7 {
                world.check();
                world.act(&Act::Commit);
                assert_eq!(&read_beside(&world.folder).unwrap(), &world.nodes.known);
            }
        }
        world.finish();
        world.act(&Act::Reopen);
        world.check();
        let folder = world.folder.clone();
        drop(world);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn an_hour_becomes_one_file_and_its_roll_ups() {
    let folder = folder("store-hour");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for minute in 0..=60 {
        let now = BEGIN + minute * MINUTE + 5 * SECOND;
        (0..NODES).for_each(|number| nodes.send(&intake, number, now - MINUTE, 60));
        store.commit(Nanos(now)).unwrap();
        settle(&store, now);
    }
    let now = BEGIN + HOUR + 6 * MINUTE;
    store.commit(Nanos(now)).unwrap();
    let steps = settle(&store, now);
    let unit = |tier: Tier| tier.unit(Nanos(BEGIN)).unwrap();
    let hour = unit(Tier::Raw);
    assert!(steps.contains(&Step::Merged { unit: hour, pieces: 7 }), "{steps:?}");
    for name in ["raw/2026-11-23T14.0.col", "minute/2026-11-23.2.col", "hour/2026-11.2.col"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    check_roll_ups(store.shelf(), BEGIN, BEGIN + HOUR);
}

#[test]
fn late_rows_reach_the_roll_ups_of_their_hour() {
    let folder = folder("store-late");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    let compact = |nodes: &mut Nodes, time: u64, now: u64| {
        nodes.send(&intake, 0, time, 60);
        store.commit(Nanos(now)).unwrap();
        store.seal();
        settle(&store, now);
    };
    compact(&mut nodes, BEGIN, BEGIN + 2 * HOUR);
    compact(&mut nodes, BEGIN + 10 * MINUTE, BEGIN + 3 * HOUR);
    assert!(
        !store.shelf().hours(Nanos(BEGIN), Nanos(BEGIN + HOUR))[0].is_settled,
        "it waits for other late rows"
    );
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    settle(&store, BEGIN + 4 * HOUR);
    assert!(store.shelf().hours(Nanos(BEGIN), Nanos(BEGIN + HOUR))[0].is_settled);
    check_roll_ups(store.shelf(), BEGIN, BEGIN + HOUR);
    // More than four further pieces do not wait.
    for piece in 2..7 {
        compact(&mut nodes, BEGIN + piece * 5 * MINUTE, BEGIN + 4 * HOUR + MINUTE);
    }
    assert!(store.shelf().hours(Nanos(BEGIN), Nanos(BEGIN + HOUR))[0].is_settled);
    check_roll_ups(store.shelf(), BEGIN, BEGIN + HOUR);
}

#[test]
fn rows_of_a_wrong_clock_are_filed_where_they_belong_and_are_marked() {
    let folder = folder("store-shift");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    let shift = -7_200_000_000_000;
    for (time, shift) in [(BEGIN, 0), (BEGIN + MINUTE, shift), (BEGIN + 2 * MINUTE, 0)] {
        hand_over(&intake, 0, nodes.block(0, time, 20, SECOND, (0, shift)));
    }
    store.commit(Nanos(BEGIN)).unwrap();
    check_shifts(&store, shift);
    for round in 0..2 {
        store.seal();
        settle(&store, BEGIN + round * 2 * HOUR + 10 * MINUTE);
        assert_eq!(of_shelf(store.shelf()), nodes.known);
        check_shifts(&store, shift);
    }
}

/// An answer says what was added to the times of its rows, out of the log and out of files.
fn check_shifts(store: &Store, shift: i64) {
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let shifts = |from: u64, to: u64| -> Vec<i64> {
        let (patterns, shape) = (vec![Pattern::everything()], RangeShape::Rows);
        let request = RangeRequest { patterns, from: Nanos(BEGIN + from), to: Nanos(BEGIN + to), shape };
        let mut answer = reader.range(request).unwrap();
        let mut all: Vec<i64> =
            std::iter::from_fn(|| answer.next().unwrap()).map(|part| part.shift).collect();
        all.dedup();
        all
    };
    assert_eq!(shifts(0, MINUTE), [0]);
    assert_eq!(shifts(MINUTE, 2 * MINUTE), [shift]);
    assert_eq!(shifts(0, HOUR), [shift]);
    assert_eq!(shifts(2 * MINUTE, HOUR), [0]);
}

#[test]
fn rows_from_the_future_make_no_file_and_are_counted() {
    let folder = folder("store-future");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    nodes.send(&intake, 0, BEGIN + HOUR - 10 * SECOND, 8);
    let known = nodes.known.clone();
    nodes.send(&intake, 0, BEGIN + HOUR + 5 * SECOND, 12);
    nodes.send(&intake, 1, BEGIN + 900 * DAY, 30);
    store.commit(Nanos(BEGIN)).unwrap();
    store.seal();
    settle(&store, BEGIN);
    assert_eq!(of_shelf(store.shelf()), known);
    assert_eq!(store.counts().rows_too_new.load(Ordering::Relaxed), 42);
    assert_eq!(store.counts().rows.load(Ordering::Relaxed), 8);
}

#[test]
fn rows_of_many_hours_in_one_segment_are_all_filed() {
    let folder = folder("store-many-hours");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for hour in 0..30 {
        for number in 0..NODES {
            // The nodes begin with other hours, so that no pass finds the same first.
            let hour = (hour + number as u64 * 7) % 30;
            hand_over(
                &intake,
                number,
                nodes.block(number, BEGIN - hour * HOUR, 3, 30 * SECOND, (hour as usize % 3, 0)),
            );
        }
    }
    store.commit(Nanos(BEGIN + HOUR)).unwrap();
    store.seal();
    let tick = store.tick_compaction(Nanos(BEGIN + HOUR)).unwrap();
    assert_eq!(tick.step, Step::Segment { number: 1, rows: 30 * 3 * NODES as u64 });
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    settle(&store, BEGIN + 3 * HOUR);
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    check_roll_ups(store.shelf(), BEGIN - 30 * HOUR, BEGIN + HOUR);
}

#[test]
fn a_second_store_in_the_folder_is_refused_with_the_process_and_a_reader_is_not() {
    let folder = folder("store-lock");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    nodes.send(&intake, 0, BEGIN, 5);
    store.commit(Nanos(BEGIN)).unwrap();
    let refused = Store::open(&folder, everything(), Nanos(BEGIN)).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }));
    let expected = format!(
        "{} is in use by process {}: only one process can write to a store",
        folder.display(),
        std::process::id()
    );
    assert_eq!(refused.to_string(), expected);
    assert_eq!(read_beside(&folder).unwrap(), nodes.known);
    drop((store, intake));
    let (_store, _) = open_store(&folder, everything(), BEGIN);
}

#[test]
fn readers_have_every_row_while_files_are_merged_under_them() {
    let folder = folder("store-readers");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for piece in 0..12u64 {
        (0..NODES).for_each(|number| nodes.send(&intake, number, BEGIN + piece * MINUTE, 5));
        store.commit(Nanos(BEGIN)).unwrap();
        store.seal();
    }
    let (store, is_done, known) = (Arc::new(store), AtomicBool::new(false), &nodes.known);
    let answered = std::thread::scope(|scope| {
        let here = scope.spawn(|| {
            let mut answered = 0;
            while !is_done.load(Ordering::Relaxed) || answered == 0 {
                assert_eq!(&answers(store.shelf(), &store.log()), known);
                answered += 1;
            }
            answered
        });
        let beside = scope.spawn(|| {
            let mut answered = 0;
            while !is_done.load(Ordering::Relaxed) || answered == 0 {
                assert_eq!(&read_beside(&folder).unwrap(), known);
                answered += 1;
            }
            answered
        });
        let mut now = BEGIN + 30 * MINUTE;
        while now < BEGIN + 5 * HOUR {
            settle(&store, now);
            now += 31 * MINUTE;
        }
        is_done.store(true, Ordering::Relaxed);
        (here.join().unwrap(), beside.join().unwrap())
    });
    assert!(answered.0 > 0 && answered.1 > 0);
    assert_eq!(&of_shelf(store.shelf()), known);
}

/// How many readings an answer gives of each node.
fn count(answer: &mut dyn RangeAnswer, counts: &mut BTreeMap<String, usize>) {
    while let Some(part) = answer.next().unwrap() {
        let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
        *counts.entry(part.node.to_string()).or_default() += readings.len();
    }
    assert_eq!(answer.damage(), [""; 0]);
}

#[test]
fn a_reader_beside_the_writer_has_the_newest_files_for_each_question_and_all_rows_while_they_are_merged() {
    let folder = folder("store-beside");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    let reader = StoreReader::open(&folder).unwrap();
    let ranges = RangeReader::new(reader.shelf().clone(), Some(reader.log()), Arc::new(()));
    let ask = || {
        let (patterns, shape) = (vec![Pattern::everything()], RangeShape::Rows);
        let request = RangeRequest { patterns, from: Nanos(0), to: Nanos(BEGIN + 24 * HOUR), shape };
        ranges.range(request).unwrap()
    };
    let known = |nodes: &Nodes| {
        let mut counts = BTreeMap::new();
        for ((number, _), readings) in &nodes.known {
            *counts.entry(node(*number).to_string()).or_default() += readings.len();
        }
        counts
    };
    for hour in 0..3u64 {
        // The log that the reader has is empty.
        for piece in 0..4u64 {
            (0..NODES)
                .for_each(|number| nodes.send(&intake, number, BEGIN + hour * HOUR + piece * MINUTE, 5));
            store.commit(Nanos(BEGIN + hour * HOUR)).unwrap();
            store.seal();
            // The hour is not over: its pieces are not merged.
            settle(&store, BEGIN + hour * HOUR + 10 * MINUTE);
        }
        let (mut answer, mut counts) = (ask(), BTreeMap::new());
        let first = answer.next().unwrap().unwrap();
        settle(&store, BEGIN + hour * HOUR + 2 * HOUR);
        let RangeContent::Readings(readings) = first.content else { panic!("rows were asked for") };
        counts.insert(first.node.to_string(), readings.len());
        count(&mut *answer, &mut counts);
        assert_eq!(counts, known(&nodes), "hour {hour}");
    }
}

#[test]
fn the_times_of_tiers_are_those_of_the_settings() {
    let keep = Keep { raw: Nanos(1), minute: Nanos(2), hour: Nanos(3), ..everything() };
    assert_eq!(Tier::ALL.map(|tier| keep.time(tier).0), [1, 2, 3]);
}

#[test]
fn a_lock_that_was_removed_is_taken_again_unless_another_process_has_the_store_now() {
    let folder = folder("store-lock-removed");
    let (store, _intake) = open_store(&folder, everything(), BEGIN);
    let second = || Store::open(&folder, everything(), Nanos(BEGIN));
    std::fs::remove_file(folder.join("lock")).unwrap();
    store.commit(Nanos(BEGIN)).unwrap();
    assert!(matches!(second(), Err(StoreError::InUse { .. })), "it holds the new lock");
    std::fs::remove_dir_all(&folder).unwrap();
    store.tick_compaction(Nanos(BEGIN)).unwrap();
    assert!(matches!(second(), Err(StoreError::InUse { .. })));
    std::fs::remove_file(folder.join("lock")).unwrap();
    let other = second().unwrap();
    assert!(matches!(store.commit(Nanos(BEGIN)), Err(StoreError::InUse { .. })), "it writes nothing more");
    assert!(matches!(store.tick_compaction(Nanos(BEGIN)), Err(StoreError::InUse { .. })));
    drop(other);
    store.commit(Nanos(BEGIN)).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_commit_writes_open_blocks_of_more_bytes_than_it_takes_at_a_time() {
    let folder = folder("store-large-blocks");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let open = Open::of(&intake);
    let mut nodes = Nodes::default();
    let lanes: Vec<_> = (0..7).map(|number| intake.lane(&node(number), 1)).collect();
    let block = nodes.block(0, BEGIN, 30, SECOND, (0, 0));
    for (number, lane) in lanes.iter().enumerate() {
        // Only a restart would read what follows the rows. One lane has more than there is room for.
        let length = if number == 3 { ROWS_RECORD_BYTES + 1 } else { ROWS_RECORD_BYTES / 3 };
        let mut bytes = block.bytes.to_vec();
        bytes.resize(length, 0);
        open.block(&intake, lane, &LoggedBlock { bytes: Arc::new(bytes), ..block.clone() });
    }
    let commit = store.commit(Nanos(BEGIN)).unwrap();
    assert!(commit.bytes as usize > 3 * ROWS_RECORD_BYTES, "{commit:?}");
    assert!(lanes.iter().all(|lane| lane.stored_until() > 0));
    assert_eq!(store.commit(Nanos(BEGIN)).unwrap().bytes, 0, "nothing has come since");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_segment_waits_for_the_blocks_that_began_in_it_but_not_for_ever() {
    let folder = folder("store-settles");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    let block = nodes.block(0, BEGIN, 30, SECOND, (0, 0));
    let open = Open::of(&intake);
    let lane = intake.lane(&node(0), 1);
    open.block(&intake, &lane, &block);
    store.commit(Nanos(BEGIN)).unwrap();
    store.seal();
    let step = |now: u64| store.tick_compaction(Nanos(now)).unwrap().step;
    assert_eq!(step(BEGIN), Step::Nothing, "the block may go on");
    assert_eq!(step(BEGIN + MINUTE), Step::Nothing);
    intake.block(&lane, block);
    store.commit(Nanos(BEGIN + MINUTE)).unwrap();
    assert!(matches!(step(BEGIN + MINUTE), Step::Segment { .. }), "it has ended");
    // Another node falls silent.
    let block = nodes.block(1, BEGIN + HOUR, 30, SECOND, (0, 0));
    let lane = intake.lane(&node(1), 1);
    open.block(&intake, &lane, &block);
    store.commit(Nanos(BEGIN + HOUR)).unwrap();
    store.seal();
    let mut waited = (0..10).map(|minute| step(BEGIN + HOUR + minute * MINUTE));
    assert!(waited.any(|step| matches!(step, Step::Segment { .. })), "a silent node keeps no segment");
}
