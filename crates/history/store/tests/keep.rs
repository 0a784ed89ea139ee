//! Fixed space: a store never has more than it may, and the oldest goes first. By time the newest of each resolution stays.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use common::folder;
use common::stored::*;
use khz_model::{ByteSize, Nanos};
use khz_store::disk::Disk;
use khz_store::log::Intake;
use khz_store::shelf::{Tier, TierFacts};
use khz_store::{Keep, Store};
use proptest::prelude::*;

/// Bytes of all files in a folder and below it.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => bytes_of(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}

fn facts(store: &Store, tier: Tier) -> TierFacts {
    store.shelf().facts().into_iter().find(|facts| facts.tier == tier).unwrap()
}

/// How many units a tier has: their names without the number of the piece.
fn units(folder: &Path, tier: Tier) -> usize {
    let Ok(entries) = fs::read_dir(folder.join(tier.folder())) else { return 0 };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let units = names.filter_map(|name| Some(name.strip_suffix(".col")?.rsplit_once('.')?.0.to_owned()));
    units.collect::<std::collections::BTreeSet<_>>().len()
}

/// An hour's rows of one node, as columns.
fn hour(store: &Store, intake: &Intake, nodes: &mut Nodes, begin: u64, gap: u64, each: &mut dyn FnMut()) {
    let count = (HOUR / gap).min(120);
    hand_over(intake, 0, nodes.block(0, begin, count, gap, (0, 0)));
    store.commit(Nanos(begin + HOUR)).unwrap();
    store.seal();
    for _ in 0..10_000 {
        let is_idle = store.tick_compaction(Nanos(begin + HOUR + 6 * MINUTE)).unwrap().is_idle();
        each();
        if is_idle {
            return;
        }
    }
    panic!("compaction never ends");
}

#[test]
fn after_every_step_the_files_are_within_the_budget_and_the_newest_stay() {
    let folder = folder("keep-size");
    let keep = Keep { size: ByteSize(100_000), ..everything() };
    let (store, intake) = open_store(&folder, keep, BEGIN);
    let (mut nodes, mut newest, mut is_full) = (Nodes::default(), 0, false);
    for number in 0..150u64 {
        let begin = BEGIN + number * HOUR;
        hour(&store, &intake, &mut nodes, begin, SECOND, &mut || {
            let bytes = bytes_of(&folder);
            // The lock and the file that says since when there are rows have a few bytes, too.
            assert!(bytes <= keep.size.0 + 64, "{bytes} bytes in hour {number}");
            assert!(store.bytes() <= keep.size.0);
            is_full |= bytes > keep.size.0 / 2;
        });
        newest = begin + HOUR;
        let raw = facts(&store, Tier::Raw);
        assert_eq!(raw.units.map(|span| span.1), Some(Nanos(newest)), "the newest hour is there");
    }
    assert!(is_full && store.counts().removed.load(Ordering::Relaxed) > 20);
    let (raw, minute, hour) =
        (facts(&store, Tier::Raw), facts(&store, Tier::Minute), facts(&store, Tier::Hour));
    let since = raw.units.unwrap().0;
    assert!(minute.units.unwrap().0 < since, "rows go before their roll-ups");
    assert!(hour.units.unwrap().0 <= minute.units.unwrap().0);
    // What is there is whole.
    let found = of_shelf(store.shelf());
    for (series, times) in &nodes.known {
        let kept: Vec<_> = times.range(since.0..).collect();
        assert_eq!(found[series].iter().collect::<Vec<_>>(), kept);
    }
    check_roll_ups(store.shelf(), since.0, newest);
}

#[test]
fn a_budget_that_holds_nothing_leaves_the_log_only() {
    let folder = folder("keep-nothing");
    let keep = Keep { size: ByteSize(1), ..everything() };
    let (store, intake) = open_store(&folder, keep, BEGIN);
    let mut nodes = Nodes::default();
    for number in 0..30 {
        hour(&store, &intake, &mut nodes, BEGIN + number * HOUR, MINUTE, &mut || {});
        assert_eq!(Tier::ALL.map(|tier| units(&folder, tier)), [0, 0, 0]);
    }
    assert_eq!(store.counts().rows.load(Ordering::Relaxed), 30 * 60, "they were columns, and were removed");
    let end = BEGIN + 30 * HOUR;
    nodes.send(&intake, 0, end, 5);
    store.commit(Nanos(end)).unwrap();
    let found = answers(store.shelf(), &store.log());
    assert!(found.values().all(|times| times.keys().all(|time| *time >= end)) && !found.is_empty());
}

#[test]
fn each_tier_is_kept_for_its_time() {
    let folder = folder("keep-time");
    let hours = |count: u64| Nanos(count * HOUR);
    let keep = Keep { raw: hours(5), minute: hours(49), hour: hours(40 * 24), ..everything() };
    let (store, intake) = open_store(&folder, keep, BEGIN);
    let mut nodes = Nodes::default();
    for number in 0..120 {
        hour(&store, &intake, &mut nodes, BEGIN + number * HOUR, 10 * MINUTE, &mut || {});
    }
    let now = BEGIN + 120 * HOUR + 6 * MINUTE;
    let begins = Tier::ALL.map(|tier| facts(&store, tier).units.unwrap().0.0);
    // Units go when all of them is older.
    assert_eq!(begins[0], (now - 5 * HOUR) / HOUR * HOUR);
    assert_eq!(begins[1], (now - 49 * HOUR) / DAY * DAY);
    assert!(begins[2] < BEGIN);
    // Long after the last row, what is newest is still there.
    settle(&store, now + 4_000 * DAY);
    assert_eq!(Tier::ALL.map(|tier| units(&folder, tier)), [1, 1, 1]);
}

#[test]
fn late_rows_of_a_removed_hour_are_dropped_and_leave_its_roll_ups_as_they_are() {
    let folder = folder("keep-late");
    let keep = Keep { size: ByteSize(80_000), ..everything() };
    let (mut store, mut intake) = open_store(&folder, keep, BEGIN);
    let mut nodes = Nodes::default();
    for number in 0..40 {
        hour(&store, &intake, &mut nodes, BEGIN + number * HOUR, 30 * SECOND, &mut || {});
    }
    let now = BEGIN + 44 * HOUR;
    let since = facts(&store, Tier::Raw).units.unwrap().0;
    assert!(since.0 > BEGIN + 2 * HOUR, "hours have been removed");
    let rolled_up = || {
        [Tier::Minute, Tier::Hour].map(|tier| {
            let path = folder.join(tier.folder());
            let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files.into_iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
        })
    };
    let before = rolled_up();
    for is_reopened in [false, true] {
        if is_reopened {
            drop((store, intake));
            (store, intake) = open_store(&folder, keep, now);
        }
        nodes.send(&intake, 0, since.0 - HOUR, 20);
        store.commit(Nanos(now)).unwrap();
        store.seal();
        settle(&store, now);
        settle(&store, now + 3 * HOUR);
        assert_eq!(store.counts().rows_too_old.load(Ordering::Relaxed), 20);
        // Their segment needs room in the log, so another hour may have gone.
        assert!(facts(&store, Tier::Raw).units.unwrap().0 >= since);
        assert!(rolled_up() == before);
    }
}

#[test]
fn on_a_full_disk_hours_are_removed_all_the_same_and_the_file_that_says_so_comes_later() {
    let folder = folder("keep-full-disk");
    let keep = Keep { raw: Nanos(2 * HOUR), ..everything() };
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = {
        let is_full = is_full.clone();
        Disk::watched(move |_, path| match is_full.load(Ordering::Relaxed) && path.ends_with("begin.part") {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        })
    };
    let (store, intake, _) = Store::open_on(disk, &folder, keep, Nanos(BEGIN)).unwrap();
    let mut nodes = Nodes::default();
    for number in 0..2 {
        hour(&store, &intake, &mut nodes, BEGIN + number * HOUR, MINUTE, &mut || {});
    }
    let (begin, now) = (folder.join("raw/begin"), BEGIN + 3 * HOUR);
    is_full.store(true, Ordering::Relaxed);
    assert!(store.tick_compaction(Nanos(now)).is_err());
    assert!(units(&folder, Tier::Raw) == 1 && !begin.exists());
    is_full.store(false, Ordering::Relaxed);
    // Late rows do not come in meanwhile.
    nodes.send(&intake, 0, BEGIN + MINUTE, 5);
    store.commit(Nanos(now)).unwrap();
    store.seal();
    settle(&store, now);
    assert_eq!(fs::read_to_string(begin).unwrap(), "2026-11-23T15\n");
    assert_eq!(store.counts().rows_too_old.load(Ordering::Relaxed), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_false_date_makes_the_store_larger_or_costs_an_honest_row(
        dates in prop::collection::vec((0u64..8_000, 1u64..30), 1..20),
        case in any::<u32>(),
    ) {
        let folder = folder(&format!("keep-dates-{case}"));
        let keep = Keep { raw: Nanos(21 * DAY), minute: Nanos(90 * DAY), size: ByteSize(200_000), ..everything() };
        let (store, intake) = open_store(&folder, keep, BEGIN);
        let mut nodes = Nodes::default();
        for number in 0..4 {
            hour(&store, &intake, &mut nodes, BEGIN + number * HOUR, 30 * SECOND, &mut || {});
        }
        let known = nodes.known.clone();
        let now = BEGIN + 4 * HOUR + 5 * MINUTE;
        // Days before now or after it, but not the days that are kept.
        for (days, count) in dates {
            let time = if days < 4_000 { now - 22 * DAY - days % 70 * DAY } else { now + (days - 3_999) * DAY };
            hand_over(&intake, 1, nodes.block(1, time, count, SECOND, (0, 0)));
            store.commit(Nanos(now)).unwrap();
            store.seal();
            settle(&store, now);
            prop_assert!(store.bytes() <= keep.size.0);
        }
        prop_assert_eq!(of_shelf(store.shelf()), known);
        prop_assert_eq!(units(&folder, Tier::Raw), 4);
        drop(store);
        fs::remove_dir_all(folder).unwrap();
    }
}
