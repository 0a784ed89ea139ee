//! The size of a store is a limit: after weeks of many nodes, at every operation on a file, its folder has no more, and what
//! is left is the newest. What cannot be less is the log. `KHZ_STORE_CASES` random worlds of each kind, else a few.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::folder;
use common::stored::{BEGIN, DAY, HOUR, MINUTE, SECOND, everything};
use khz_block::{Decoder, Encoder, Header, Step};
use khz_model::{ByteSize, Columns, Nanos, NodeName, Series, Stamp, ValueType};
use khz_store::disk::Disk;
use khz_store::log::{Intake, LoggedBlock};
use khz_store::shelf::Tier;
use khz_store::{Keep, Key, Store};
use proptest::prelude::*;

/// The lock, and the file that says since when there are rows.
const SMALL_FILES: u64 = 64;
/// A node has a row each two minutes.
const GAP: u64 = 120 * SECOND;
const SERIES: usize = 3;

fn node(number: usize) -> NodeName {
    NodeName::new(&format!("node{number:03}")).unwrap()
}

fn series() -> Vec<Series> {
    let of = |number: usize| common::metric(&format!("test.number{number}"), ValueType::Unsigned, 0);
    (0..SERIES).map(|number| Series { metric: of(number), instance: None }).collect()
}

fn value(node: usize, slot: usize, time: u64) -> u64 {
    let seed = (time / SECOND + node as u64 * 7_919).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [time / SECOND * 100 + seed % 50, seed >> 48, 7][slot]
}

/// The rows of a node from one time to another.
fn block(number: usize, (from, to): (u64, u64)) -> LoggedBlock {
    let columns: Arc<dyn Columns> = Arc::new(series());
    let mut encoder = Encoder::new(0, 1, Nanos(GAP));
    encoder.resume(from / GAP, 1);
    let (mut bytes, mut last) = (Vec::new(), Nanos(0));
    for (row, time) in times(number, from, to).enumerate() {
        let stamp = Stamp { boot: Nanos(time - BEGIN + DAY), real_offset: (BEGIN - DAY) as i64 };
        last = stamp.real();
        let of_slot = |slot: usize| (0, value(number, slot, time));
        match row {
            0 => encoder.key_row(stamp, SERIES, of_slot, &mut bytes),
            _ => encoder.delta_row(stamp, 0..SERIES, of_slot, &mut bytes),
        }
    }
    encoder.close();
    LoggedBlock {
        header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
        rows: times(number, from, to).count() as u32,
        schema: columns,
        schema_hash: [1; 16],
        bytes: Arc::new(bytes),
        last,
        shift: 0,
    }
}

/// When a node has rows: not two nodes at the same time.
fn times(number: usize, from: u64, to: u64) -> impl Iterator<Item = u64> {
    (from..to).step_by(GAP as usize).map(move |time| time + number as u64)
}

/// Files below a folder, with their sizes.
fn files(folder: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push((entry.path(), entry.metadata().unwrap().len())),
        }
    }
}

/// The folder is within its size, or nothing but the log can be in it.
fn check_size(folder: &Path, keep: Keep, may: impl Fn(&Path) -> bool) {
    let mut found = Vec::new();
    files(folder, &mut found);
    let bytes: u64 = found.iter().map(|(_, bytes)| bytes).sum();
    if bytes <= keep.size.0 + SMALL_FILES {
        return;
    }
    let is_column = |path: &Path| path.to_string_lossy().contains(".col");
    let columns: Vec<_> = found.into_iter().filter(|(path, _)| is_column(path) && !may(path)).collect();
    assert!(columns.is_empty(), "{bytes} of {:?} in {columns:?}", keep.size);
}

/// How many random worlds.
fn cases() -> ProptestConfig {
    let cases = std::env::var("KHZ_STORE_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(4))
}

struct World {
    folder: PathBuf,
    keep: Keep,
    store: Store,
    intake: Intake,
    nodes: usize,
    now: u64,
}

impl World {
    fn new(name: &str, size: u64, nodes: usize) -> Self {
        let folder = folder(name);
        let keep = Keep { size: ByteSize(size), ..everything() };
        let disk = {
            let folder = folder.clone();
            // While the log has all the room, its oldest segment becomes files of rows all the same.
            let is_rows = |path: &Path| path.parent().unwrap().ends_with("raw");
            Disk::watched(move |_, path| {
                // A commit may have made the log larger: then the next step removes first.
                if path.extension().is_some_and(|it| it == "part") && !path.ends_with("begin.part") {
                    check_size(&folder, keep, is_rows);
                }
                Ok(())
            })
        };
        let (store, intake, damage) = Store::open_on(disk, &folder, keep, Nanos(BEGIN)).unwrap();
        assert!(damage.is_empty());
        World { folder, keep, store, intake, nodes, now: BEGIN }
    }

    /// All nodes send the rows of this time, and all that can be done is done.
    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        for number in 0..self.nodes {
            let lane = self.intake.lane(&node(number), 1);
            self.intake.block(&lane, block(number, (self.now, end)));
        }
        self.now = end;
        self.store.commit(Nanos(end)).unwrap();
        self.store.seal();
        self.settle(end);
        self.settle(end + 6 * MINUTE);
    }

    fn settle(&self, now: u64) {
        for _ in 0..10_000 {
            let tick = self.store.tick_compaction(Nanos(now)).unwrap();
            assert!(tick.damage.is_empty(), "{:?}", tick.damage);
            check_size(&self.folder, self.keep, |_| false);
            if tick.is_idle() {
                return;
            }
        }
        panic!("compaction never ends");
    }

    /// The rows that are left of each series are its newest ones, digit for digit. Returns since when there are some.
    fn check_rows(&self) -> Option<u64> {
        let history = self.store.shelf().history(Nanos(0), Nanos(0), Nanos(u64::MAX)).unwrap().found;
        let mut since = None;
        for number in 0..self.nodes {
            let known: Vec<u64> = times(number, BEGIN, self.now).collect();
            let in_log = self.logged(number);
            for (slot, series) in series().iter().enumerate() {
                let mut found: BTreeMap<u64, u64> =
                    in_log.iter().map(|(time, values)| (*time, values[slot])).collect();
                let each = |stamp: Stamp, reading: khz_model::Reading| {
                    found.insert(stamp.real().0, reading.bits());
                };
                let (from, to) = (Nanos(0), Nanos(u64::MAX));
                history.range(&node(number), &Key::of(series), from, to, each).unwrap();
                let expected = known[known.len() - found.len().min(known.len())..].iter();
                let expected: BTreeMap<u64, u64> =
                    expected.map(|time| (*time, value(number, slot, *time))).collect();
                assert!(found == expected, "node {number} slot {slot}: not the newest rows");
                since = found.first_key_value().map(|(time, _)| *time).into_iter().chain(since).min();
            }
        }
        since
    }

    fn logged(&self, number: usize) -> BTreeMap<u64, Vec<u64>> {
        let (mut rows, mut damage) = (BTreeMap::new(), Vec::new());
        for block in self.store.log().blocks(&node(number), None, Nanos(0), Nanos(u64::MAX), &mut damage) {
            let (mut decoder, mut rest) = (Decoder::new(), &block.bytes[..]);
            while let Step::Header(length) | Step::Row(length) = decoder.step(rest).unwrap() {
                rest = &rest[length..];
                if decoder.next_row() > block.header.first_row {
                    let values = (0..SERIES).map(|slot| decoder.reading(slot).unwrap().bits()).collect();
                    rows.insert(decoder.stamp().real().0, values);
                }
            }
        }
        assert!(damage.is_empty(), "{damage:?}");
        rows
    }

    /// The summaries that are left are the newest, and but for the oldest one they have all rows of their time. Returns how many
    /// there are.
    fn check_roll_ups(&self, tier: Tier, width: u64) -> usize {
        let history = self.store.shelf().history(Nanos(width), Nanos(0), Nanos(u64::MAX)).unwrap().found;
        let from = BEGIN - BEGIN % width;
        let mut count = 0;
        for number in 0..self.nodes {
            let mut known = BTreeMap::<u64, u64>::new();
            // Of an hour that is not over there is no roll-up yet.
            for time in times(number, BEGIN, self.now - self.now % HOUR) {
                *known.entry(time - time % width).or_default() += 1;
            }
            for series in series() {
                let (node, to) = (node(number), Nanos(self.now + HOUR));
                let answer =
                    history.buckets(&node, &Key::of(&series), Nanos(from), to, Nanos(width)).unwrap();
                assert!(answer.damage.is_empty(), "{:?}", answer.damage);
                let at = |bucket: usize| from + bucket as u64 * width;
                let found = answer.found.iter().enumerate();
                let mut found: BTreeMap<u64, u64> = found
                    .filter_map(|(bucket, summary)| Some((at(bucket), summary.as_ref()?.count)))
                    .collect();
                count += found.len();
                let Some((oldest, _)) = found.pop_first() else { continue };
                let expected: BTreeMap<u64, u64> = known.split_off(&(oldest + 1));
                assert!(found == expected, "{tier:?} of node {number}: not the newest");
                known.extend(expected);
            }
        }
        count
    }

    fn remove(self) {
        let folder = self.folder.clone();
        drop(self);
        fs::remove_dir_all(folder).unwrap();
    }

    fn check(&self) -> [usize; 2] {
        self.check_rows();
        [(Tier::Minute, MINUTE), (Tier::Hour, HOUR)].map(|(tier, width)| self.check_roll_ups(tier, width))
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn weeks_of_many_nodes_never_take_more_than_the_size_and_leave_the_newest(
        nodes in 1usize..24,
        size in prop_oneof![1u64..30_000, 30_000u64..100_000, 100_000u64..300_000],
        part in prop_oneof![Just(HOUR), Just(20 * MINUTE), Just(10 * MINUTE), Just(90 * MINUTE), Just(5 * HOUR)],
        days in 2u64..16,
        case in any::<u32>(),
    ) {
        let mut world = World::new(&format!("size-{case}"), size, nodes);
        // What takes many steps takes fewer days.
        let rounds = (days * DAY / part).min(200);
        for round in 0..rounds {
            world.pass(part);
            if round % 40 == 0 {
                world.check();
            }
        }
        world.check();
        world.remove();
    }

    #[test]
    fn a_store_that_has_hardly_room_for_its_newest_hours_leaves_these_without_a_gap(
        nodes in 1usize..8,
        size in 10_000u64..60_000,
        part in prop_oneof![Just(HOUR), Just(20 * MINUTE), Just(90 * MINUTE), Just(5 * HOUR)],
        case in any::<u32>(),
    ) {
        let mut world = World::new(&format!("small-{case}"), size, nodes);
        for _ in 0..30 {
            world.pass(part);
            world.check();
        }
        world.remove();
    }
}

/// The steps of this world need more room than they seem to: with what had been done by then, it looked as if nothing was left to
/// do, and the newest hour was in one roll-up and not in the other.
#[test]
fn a_step_without_room_is_not_the_last_one() {
    let mut world = World::new("size-steps", 38_490, 6);
    for _ in 0..10 {
        world.pass(5 * HOUR);
        world.check();
    }
    world.remove();
}

#[test]
fn a_store_that_is_smaller_than_a_day_of_summaries_removes_their_oldest_parts() {
    let mut world = World::new("size-hours", 150_000, 12);
    for _ in 0..6 * 24 {
        world.pass(HOUR);
    }
    let [minutes, hours] = world.check().map(|buckets| buckets / world.nodes / SERIES);
    assert!(minutes > 5 * 30 && minutes < 24 * 30, "hours of minutes, but no day: {minutes}");
    assert!(hours > 24 && hours < 6 * 24, "some days of hours, but not all: {hours}");
    let since = world.check_rows().unwrap();
    assert!(world.now - since > HOUR - GAP, "an hour of rows at least");
    let mut found = Vec::new();
    files(&world.folder, &mut found);
    assert!(found.iter().map(|(_, bytes)| bytes).sum::<u64>() > world.keep.size.0 / 2, "{found:?}");
    assert!(found.len() < 50, "few files: {found:?}");
}
