//! Compaction ends at any operation on a file, because the process ends or the disk fails: no row is lost, none comes
//! twice, and what was not finished is done again.

#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::folder;
use common::stored::*;
use khz_model::Nanos;
use khz_store::compact::Step;
use khz_store::disk::Disk;
use khz_store::log::Intake;
use khz_store::range::ColumnFiles;
use khz_store::shelf::Tier;
use khz_store::{Keep, Store, StoreError};

/// Rows come in two rounds; after each, compaction does all it can.
const ROUNDS: usize = 2;
/// Two hours before midnight: the day is over after the first round.
const EVENING: u64 = BEGIN + 8 * HOUR;

/// The rows of a round, in segments. The second round has late rows for hours of the first.
fn send(round: usize, nodes: &mut Nodes, intake: &Intake, store: &Store) -> u64 {
    let begin = EVENING + round as u64 * HOUR;
    for segment in 0..2 + round as u64 {
        let time = begin + HOUR - 3 * MINUTE + segment * MINUTE;
        nodes.send(intake, 0, time, 4);
        hand_over(intake, 1, nodes.block(1, time, 4, 20 * SECOND, (segment as usize % SCHEMAS, 0)));
        if round == 1 {
            nodes.send(intake, 2, EVENING + segment * 7 * MINUTE, 3);
        }
        store.commit(Nanos(begin)).unwrap();
        store.seal();
    }
    begin + 2 * HOUR + 5 * MINUTE
}

/// All that a store must be able to say and do after a crash.
fn check(folder: &Path, keep: Keep, now: u64, known: &Readings) {
    assert_eq!(&read_beside(folder).unwrap(), known, "{}", folder.display());
    let (store, _intake) = open_store(folder, keep, now);
    assert_eq!(&answers(store.shelf(), &store.log()), known, "{}", folder.display());
    settle(&store, now);
    assert_eq!(&answers(store.shelf(), &store.log()), known, "{}", folder.display());
    settle(&store, now + 3 * HOUR);
    assert_eq!(&of_shelf(store.shelf()), known, "{}", folder.display());
    assert!(store.shelf().hours(Nanos(0), Nanos(u64::MAX)).iter().all(|hour| hour.is_settled));
    check_roll_ups(store.shelf(), BEGIN - HOUR, EVENING + 5 * HOUR);
    assert!(store.shelf().check().is_empty(), "nothing is left over");
}

#[test]
fn after_a_crash_at_any_operation_every_row_is_there_once() {
    let folder = folder("crashes");
    let (live, copies) = (folder.join("live"), folder.join("copies"));
    std::fs::create_dir_all(&live).unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let disk = {
        let (live, copies, taken) = (live.clone(), copies.clone(), taken.clone());
        Disk::watched(move |_, _| {
            let number = taken.fetch_add(1, Ordering::Relaxed);
            copy(&live, &copies.join(number.to_string()));
            Ok(())
        })
    };
    let (store, intake, _) = Store::open_on(disk, &live, everything(), Nanos(BEGIN)).unwrap();
    let mut nodes = Nodes::default();
    let (mut segments, mut merged) = (0, std::collections::BTreeSet::new());
    for round in 0..ROUNDS {
        let now = send(round, &mut nodes, &intake, &store);
        taken.store(0, Ordering::Relaxed);
        let _ = std::fs::remove_dir_all(&copies);
        for step in settle(&store, now) {
            match step {
                Step::Segment { .. } => segments += 1,
                Step::Merged { unit, .. } => _ = merged.insert(unit.tier),
                other => panic!("{other:?}"),
            }
        }
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken > 20, "{taken} operations in round {round}");
        for number in 0..taken {
            check(&copies.join(number.to_string()), everything(), now, &nodes.known);
        }
    }
    assert!(segments == 5 && merged.contains(&Tier::Raw) && merged.contains(&Tier::Minute), "{merged:?}");
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn of_rows_with_one_time_the_last_one_counts_after_a_crash_at_any_operation() {
    let folder = folder("crashes-same");
    let (live, copies) = (folder.join("live"), folder.join("copies"));
    std::fs::create_dir_all(&live).unwrap();
    let (store, intake) = open_store(&live, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for _ in 0..4 {
        nodes.again();
        nodes.send(&intake, 0, BEGIN, 20);
        store.commit(Nanos(BEGIN)).unwrap();
        store.seal();
        settle(&store, BEGIN + MINUTE);
    }
    drop((store, intake));
    let now = BEGIN + 2 * HOUR;
    let taken = Arc::new(AtomicUsize::new(0));
    let disk = {
        let (live, copies, taken) = (live.clone(), copies.clone(), taken.clone());
        Disk::watched(move |_, _| {
            copy(&live, &copies.join(taken.fetch_add(1, Ordering::Relaxed).to_string()));
            Ok(())
        })
    };
    let (store, _, _) = Store::open_on(disk, &live, everything(), Nanos(now)).unwrap();
    settle(&store, now);
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken > 12, "{taken}");
    for number in 0..taken {
        check(&copies.join(number.to_string()), everything(), now, &nodes.known);
    }
}

/// A disk on which the operation with this number and some that follow fail.
fn failing(fails: Arc<Mutex<std::ops::Range<usize>>>) -> Disk {
    let number = AtomicUsize::new(0);
    Disk::watched(move |_, _| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        match fails.lock().unwrap().contains(&number) {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    })
}

#[test]
fn a_disk_that_fails_at_any_operation_is_told_and_tried_again() {
    let folder = folder("failures");
    let mut failures = 0;
    for number in (0..).step_by(3) {
        let live = folder.join(number.to_string());
        let fails = Arc::new(Mutex::new(0..0));
        let disk = failing(fails.clone());
        let (store, intake, _) = Store::open_on(disk, &live, everything(), Nanos(BEGIN)).unwrap();
        let mut nodes = Nodes::default();
        let mut now = send(0, &mut nodes, &intake, &store);
        // Removing what was not finished fails too.
        *fails.lock().unwrap() = number + 1..number + 3;
        let mut failed = 0;
        while store
            .tick_compaction(Nanos(now))
            .map_or_else(|error| told(&store, &error), |tick| !tick.is_idle())
        {
            let now_failed = store.counts().failures.load(Ordering::Relaxed);
            if now_failed > failed {
                failed = now_failed;
                assert!(store.tick_compaction(Nanos(now + 59 * SECOND)).unwrap().is_idle(), "it rests");
                now += MINUTE;
            }
        }
        *fails.lock().unwrap() = 0..0;
        settle(&store, now + 3 * HOUR);
        assert_eq!(of_shelf(store.shelf()), nodes.known, "operation {number}");
        check_roll_ups(store.shelf(), BEGIN - HOUR, EVENING + 5 * HOUR);
        assert!(store.shelf().check().is_empty());
        drop((store, intake));
        let (store, _) = open_store(&live, everything(), now);
        assert_eq!(of_shelf(store.shelf()), nodes.known, "operation {number}");
        if failed == 0 {
            break;
        }
        failures += 1;
    }
    assert!(failures > 8, "{failures}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The failure names the file, and the counts have it.
fn told(store: &Store, error: &StoreError) -> bool {
    assert!(matches!(error, StoreError::File { path, .. } if path.exists() || path.parent().is_some()));
    let last = store.counts().last_failure.lock().unwrap().clone();
    assert_eq!(last, Some(error.to_string()));
    true
}

#[test]
fn rows_that_cannot_become_columns_are_dropped_only_when_the_log_has_half_of_the_room() {
    let folder = folder("log-half");
    let is_full = Arc::new(Mutex::new(0..usize::MAX));
    let (mut nodes, keep) = (Nodes::default(), Keep { size: khz_model::ByteSize(60_000), ..everything() });
    std::fs::create_dir_all(&folder).unwrap();
    let (store, intake, _) = Store::open_on(failing(is_full.clone()), &folder, keep, Nanos(BEGIN)).unwrap();
    let (mut now, mut dropped) = (BEGIN, 0);
    while dropped == 0 {
        nodes.send(&intake, 0, now, 60);
        store.commit(Nanos(now)).unwrap();
        store.seal();
        let before = store.bytes();
        now += 2 * MINUTE;
        match store.tick_compaction(Nanos(now)) {
            Err(StoreError::File { .. }) => {}
            other => panic!("{other:?}"),
        }
        match store.tick_compaction(Nanos(now)).unwrap().step {
            Step::Nothing => assert!(before <= keep.size.0 / 2),
            Step::Dropped { rows } => {
                assert!(before > keep.size.0 / 2);
                dropped = rows;
            }
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(dropped, 60);
    *is_full.lock().unwrap() = 0..0;
    settle(&store, now + MINUTE);
    let found = of_shelf(store.shelf());
    for (series, times) in &nodes.known {
        let kept: Vec<_> = times.iter().skip(60).collect();
        assert_eq!(found[series].iter().collect::<Vec<_>>(), kept, "all but the oldest segment");
    }
}

#[test]
fn a_folder_that_is_removed_under_the_store_comes_again() {
    let folder = folder("removed");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for tier in Tier::ALL {
        nodes.send(&intake, 0, BEGIN, 30);
        store.commit(Nanos(BEGIN)).unwrap();
        store.seal();
        settle(&store, BEGIN + 2 * HOUR);
        let path: PathBuf = folder.join(tier.folder());
        assert!(path.is_dir());
        std::fs::remove_dir_all(path).unwrap();
        store.tick_compaction(Nanos(BEGIN + 2 * HOUR)).unwrap();
        if tier == Tier::Raw {
            assert!(of_shelf(store.shelf()).is_empty(), "it does not answer out of files that are gone");
        }
    }
    let mut nodes = Nodes::default();
    nodes.send(&intake, 0, BEGIN + 20 * MINUTE, 30);
    store.commit(Nanos(BEGIN)).unwrap();
    store.seal();
    settle(&store, BEGIN + 4 * HOUR);
    let found = of_shelf(store.shelf());
    for (series, times) in &nodes.known {
        assert!(times.iter().all(|(time, reading)| found[series].get(time) == Some(reading)));
    }
}
