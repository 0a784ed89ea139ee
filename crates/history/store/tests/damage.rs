//! Files that are damaged, cut off, empty, not ours, or of a newer khz: each is named and left, and the rest answers.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::stored::*;
use common::{folder, node};
use khz_model::{Nanos, Pattern, RangeContent, RangeRequest, RangeShape, Ranges, Stamp, ValueType};
use khz_store::compact::Step;
use khz_store::range::RangeReader;
use khz_store::shelf::{Shelf, Tier};
use khz_store::{Keep, Store, StoreError, StoreReader};

/// An hour of three pieces, each with rows of all nodes, and nothing else.
fn three_pieces(folder: &Path) -> Nodes {
    let (store, intake) = open_store(folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    for piece in 0..3 {
        (0..NODES).for_each(|number| nodes.send(&intake, number, BEGIN + piece * 10 * MINUTE, 40));
        store.commit(Nanos(BEGIN)).unwrap();
        store.seal();
    }
    settle(&store, BEGIN + 40 * MINUTE);
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    nodes
}

fn piece(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("raw/2026-11-23T14.{number}.col"))
}

/// The rows that a shelf has in spite of damage, and the damage.
fn rest(shelf: &Shelf) -> (Readings, Vec<String>) {
    let answer = shelf.history(Nanos(0), Nanos(0), Nanos(u64::MAX)).unwrap();
    let (mut found, mut damage) = (Readings::new(), answer.damage);
    for number in 0..NODES {
        for (place, key) in all_keys().iter().enumerate() {
            let mut times = std::collections::BTreeMap::new();
            let each = |stamp: Stamp, reading| _ = times.insert(stamp.real().0, told(reading));
            let from_to = (Nanos(0), Nanos(u64::MAX));
            damage.extend(answer.found.range(&node(number), key, from_to.0, from_to.1, each).unwrap());
            if !times.is_empty() {
                found.insert((number, place), times);
            }
        }
    }
    (found, damage.iter().map(ToString::to_string).collect())
}

/// What is known of the rows without those of the second piece.
fn without_second(known: &Readings) -> Readings {
    let mut known = known.clone();
    known.values_mut().for_each(|times| {
        times.retain(|time, _| !(BEGIN + 10 * MINUTE..BEGIN + 20 * MINUTE).contains(time));
    });
    known
}

fn open(folder: &Path) -> Store {
    open_store(folder, everything(), BEGIN).0
}

/// Steps until nothing is left to do; what they say of damage.
fn compact(store: &Store, now: u64) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut damage) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let tick = store.tick_compaction(Nanos(now)).unwrap();
        if tick.is_idle() {
            return (steps, damage);
        }
        steps.push(tick.step);
        damage.extend(tick.damage.iter().map(ToString::to_string));
    }
    panic!("compaction never ends: {steps:?} {damage:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_kept_and_the_others_answer() {
    let folder = folder("damage-whole");
    let nodes = three_pieces(&folder);
    let whole = fs::read(piece(&folder, 2)).unwrap();
    let cut = whole[..whole.len() - 9].to_vec();
    let text = b"not a column file, but more than a few bytes of some text".to_vec();
    for (number, bytes) in [Vec::new(), vec![0; 4_096], text, cut].into_iter().enumerate() {
        let copy_of = folder.with_file_name(format!("store-damage-whole-{number}"));
        let _ = fs::remove_dir_all(&copy_of);
        copy(&folder, &copy_of);
        let path = piece(&copy_of, 2);
        fs::write(&path, &bytes).unwrap();
        let store = open(&copy_of);
        let expected = without_second(&nodes.known);
        let (found, damage) = rest(store.shelf());
        assert_eq!(found, expected, "case {number}");
        assert!(damage.len() == 1 && damage[0].starts_with(path.to_str().unwrap()), "{damage:?}");
        assert_eq!(store.shelf().check().len(), 1);
        // Compaction says so once, keeps the file, and goes on.
        let (steps, damage) = compact(&store, BEGIN + 2 * HOUR);
        assert!(matches!(steps.last(), Some(Step::Merged { pieces: 3, .. })), "{steps:?}");
        assert!(damage.len() == 1 && damage[0].starts_with(path.to_str().unwrap()), "{damage:?}");
        let aside = path.with_extension("col.damaged");
        assert_eq!(fs::read(&aside).unwrap(), bytes, "case {number}");
        assert_eq!(of_shelf(store.shelf()), expected);
        check_roll_ups(store.shelf(), BEGIN, BEGIN + HOUR);
        let checked: Vec<String> = store.shelf().check().iter().map(ToString::to_string).collect();
        assert!(checked.len() == 1 && checked[0].contains("2.col.damaged was damaged"), "{checked:?}");
        assert!(compact(&store, BEGIN + 9 * HOUR).0.is_empty());
        drop(store);
        fs::remove_dir_all(copy_of).unwrap();
    }
}

#[test]
fn a_column_file_to_which_bytes_were_appended_is_read_and_the_bytes_are_named() {
    let folder = folder("damage-appended");
    let nodes = three_pieces(&folder);
    let path = piece(&folder, 2);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() as u64;
    bytes.extend([0xA5; 100]);
    fs::write(&path, &bytes).unwrap();
    let store = open(&folder);
    let (found, damage) = rest(store.shelf());
    assert_eq!((found, damage), (nodes.known.clone(), Vec::new()));
    match &store.shelf().check()[..] {
        [StoreError::Damaged { path: named, offset, bytes: 100, .. }] => {
            assert_eq!((named, *offset), (&path, end));
        }
        other => panic!("{other:?}"),
    }
    compact(&store, BEGIN + 2 * HOUR);
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    assert!(store.shelf().check().is_empty(), "what compaction writes ends where it should");
}

#[test]
fn a_check_tells_each_damage_of_a_column_file_once() {
    let folder = folder("damage-once");
    three_pieces(&folder);
    let path = piece(&folder, 2);
    let whole = fs::read(&path).unwrap();
    let store = open(&folder);
    for at in (0..whole.len()).step_by(31) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&path, &bytes).unwrap();
        let mut told: Vec<String> = store.shelf().check().iter().map(ToString::to_string).collect();
        let lines = told.len();
        told.sort();
        told.dedup();
        assert_eq!(told.len(), lines, "byte {at}");
    }
}

/// The buckets of an answer, by node and series, or the times of the newest readings; and what could not be read.
fn asked(folder: &Path, shape: RangeShape) -> (Vec<String>, Vec<String>) {
    let store = StoreReader::open(folder).unwrap();
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let (from, to) = (Nanos(BEGIN), Nanos(BEGIN + HOUR));
    let mut answer =
        reader.range(RangeRequest { patterns: vec![Pattern::everything()], from, to, shape }).unwrap();
    let (mut found, mut damage) = (Vec::new(), Vec::new());
    while let Some(part) = answer.next().unwrap() {
        // Of labels a roll-up has the last ones only.
        if part.series.metric.value_type != ValueType::Labels {
            let content = match &part.content {
                RangeContent::Readings(readings) => format!("{}", readings.last().unwrap().0.real()),
                content => format!("{content:?} of {:?}", answer.width()),
            };
            found.push(format!("{} {} {content}", part.node, part.series));
        }
        damage.extend(answer.damage());
    }
    damage.extend(answer.damage());
    (found, damage)
}

#[test]
fn a_damaged_hour_is_answered_out_of_its_roll_up_and_the_damage_is_named() {
    let folder = folder("damage-rolled");
    three_pieces(&folder);
    settle(&open(&folder), BEGIN + 2 * HOUR);
    let path = piece(&folder, 0);
    let whole = fs::read(&path).unwrap();
    let minutes = RangeShape::Buckets(Nanos(MINUTE));
    let expected = asked(&folder, minutes);
    assert!(expected.0.len() > NODES * 4 && expected.1.is_empty(), "{expected:?}");
    let newest = asked(&folder, RangeShape::Newest).0;
    let name = path.to_str().unwrap();
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    for shape in [minutes, RangeShape::Columns(1_000)] {
        let (found, damage) = asked(&folder, shape);
        assert_eq!(found, expected.0, "{shape:?}");
        assert!(damage.iter().all(|line| line.starts_with(name)) && !damage.is_empty(), "{damage:?}");
    }
    // Buckets that no roll-up fits into, too: each minute counts where it begins.
    let (halves, _) = asked(&folder, RangeShape::Buckets(Nanos(30 * SECOND)));
    assert_eq!(halves.len(), expected.0.len());
    // The last values, where the last readings are gone.
    let (found, damage) = asked(&folder, RangeShape::Newest);
    let names = |all: &[String]| -> Vec<String> {
        all.iter().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert!(names(&found).iter().all(|name| names(&newest).contains(name)), "{found:?} {newest:?}");
    assert!(found.len() + NODES >= newest.len() && !damage.is_empty(), "{found:?} {newest:?}");
    // Some column: only its series is answered so, and each has a part.
    let series = |all: &[String]| -> BTreeSet<String> {
        all.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    let mut damaged_columns = 0;
    for at in (60..whole.len() - 200).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (found, damage) = asked(&folder, RangeShape::Columns(1_000));
        assert_eq!(series(&found), series(&expected.0), "byte {at}: {damage:?}");
        let of_roll_up = found.iter().filter(|line| line.contains("Points")).count();
        damaged_columns += usize::from(of_roll_up == 1);
        assert!(!damage.is_empty() || of_roll_up == 0, "byte {at}");
    }
    assert!(damaged_columns > 3, "{damaged_columns}");
}

#[test]
fn in_short_steps_a_damaged_series_is_answered_out_of_its_roll_up_alone() {
    let folder = folder("damage-steps");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut nodes = Nodes::default();
    let mut send = |time: u64, count: u64| {
        (0..NODES).for_each(|number| nodes.send(&intake, number, time, count));
        store.commit(Nanos(BEGIN)).unwrap();
    };
    send(BEGIN + 20 * MINUTE, 40);
    store.seal();
    settle(&store, BEGIN + 2 * HOUR);
    // The first steps have rows that came late: they are in the log, where nothing is damaged.
    send(BEGIN + MINUTE, 10);
    drop((store, intake));
    let path = piece(&folder, 0);
    let whole = fs::read(&path).unwrap();
    let steps = RangeShape::Columns(16);
    let of_series = |all: &[String]| {
        let mut parts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for line in all {
            let (columns, points) =
                parts.entry(line.split(' ').take(2).collect::<Vec<_>>().join(" ")).or_default();
            *(if line.contains("Points(") { points } else { columns }) += 1;
        }
        parts
    };
    let (found, damage) = asked(&folder, steps);
    let expected = of_series(&found);
    assert!(damage.is_empty() && expected.values().all(|(_, points)| *points == 0), "{expected:?}");
    assert!(expected.values().filter(|(columns, _)| *columns > 3).count() > NODES, "{expected:?}");
    let mut damaged = 0;
    for at in (60..whole.len() - 200).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        for (series, (columns, points)) in of_series(&asked(&folder, steps).0) {
            assert!(points == 0 || (columns, points) == (0, 1), "byte {at}: {series} {columns} {points}");
            damaged += points;
        }
    }
    assert!(damaged > 3, "{damaged}");
}

#[test]
fn what_is_whole_in_a_damaged_file_is_merged_and_the_file_is_kept() {
    let folder = folder("damage-part");
    let nodes = three_pieces(&folder);
    for number in [1, 2] {
        let path = piece(&folder, number);
        let mut bytes = fs::read(&path).unwrap();
        // Some byte of a column.
        let at = (200..).step_by(8).find(|&at| {
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let checked = open(&folder).shelf().check();
            bytes[at] ^= 1;
            let is_new = |error: &&StoreError| error.to_string().contains(&format!("{number}.col"));
            checked.iter().filter(is_new).count() == 1
                && rest(open(&folder).shelf()).1.len() == number as usize
        });
        bytes[at.unwrap()] ^= 1;
        fs::write(&path, &bytes).unwrap();
    }
    let store = open(&folder);
    let (before, damage) = rest(store.shelf());
    assert_eq!(damage.len(), 2, "{damage:?}");
    let lost: usize = nodes
        .known
        .iter()
        .map(|(series, times)| times.len() - before.get(series).map_or(0, std::collections::BTreeMap::len))
        .sum();
    assert_eq!(lost, 80, "one series of one node, in two pieces");
    let (_, damage) = compact(&store, BEGIN + 2 * HOUR);
    assert_eq!(damage.len(), 2, "{damage:?}");
    assert_eq!(of_shelf(store.shelf()), before);
    check_roll_ups(store.shelf(), BEGIN, BEGIN + HOUR);
    assert!(folder.join("raw/2026-11-23T14.1.col.damaged").is_file());
    assert!(folder.join("raw/2026-11-23T14.2.col.damaged").is_file());
    assert!(folder.join("raw/2026-11-23T14.0.col").is_file());
    // The merged file is damaged too, and late rows come.
    let path = piece(&folder, 0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    drop(store);
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let mut late = Nodes::default();
    late.send(&intake, 0, BEGIN + 50 * MINUTE, 30);
    store.commit(Nanos(BEGIN + 2 * HOUR)).unwrap();
    store.seal();
    compact(&store, BEGIN + 2 * HOUR);
    let (_, damage) = compact(&store, BEGIN + 4 * HOUR);
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(of_shelf(store.shelf()), late.known);
    assert_eq!(fs::read(path.with_extension("col.damaged")).unwrap(), &whole[..whole.len() / 2]);
}

#[test]
fn files_that_are_not_ours_are_named_and_left_and_unfinished_ones_are_removed() {
    let folder = folder("damage-foreign");
    let nodes = three_pieces(&folder);
    let foreign =
        ["notes.txt", "2026-11-23T14.01.col", "2026-11-23.1.col", "x.part", "2026-11-23T14.1.col.bak"];
    for name in foreign {
        fs::write(folder.join("raw").join(name), "mine").unwrap();
    }
    fs::create_dir(folder.join("raw/2026-11-23T14.9.col")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("raw/2026-11-23T14.8.col")).unwrap();
    fs::write(folder.join("raw/2026-11-23T14.7.col.part"), "ours").unwrap();
    fs::write(folder.join("minute/2026-11-23.7.col.part"), "ours").unwrap_or_else(|_| {
        fs::create_dir_all(folder.join("minute")).unwrap();
        fs::write(folder.join("minute/2026-11-23.7.col.part"), "ours").unwrap();
    });
    let store = open(&folder);
    assert!(!folder.join("raw/2026-11-23T14.7.col.part").exists());
    assert!(!folder.join("minute/2026-11-23.7.col.part").exists());
    let named: Vec<String> = store.shelf().check().iter().map(ToString::to_string).collect();
    assert_eq!(named.len(), foreign.len() + 2, "{named:?}");
    assert!(
        named
            .iter()
            .all(|line| line.ends_with("is not a file of the store; it is left alone, and does not count"))
    );
    settle(&store, BEGIN + 2 * HOUR);
    assert_eq!(of_shelf(store.shelf()), nodes.known);
    let keep = Keep { size: khz_model::ByteSize(1), ..everything() };
    drop(store);
    let (store, _) = open_store(&folder, keep, BEGIN);
    settle(&store, BEGIN + 2 * HOUR);
    for name in foreign {
        assert_eq!(fs::read_to_string(folder.join("raw").join(name)).unwrap(), "mine");
    }
}

#[test]
fn a_file_of_a_newer_khz_or_of_another_tier_stays_as_it_is() {
    let folder = folder("damage-newer");
    let nodes = three_pieces(&folder);
    let mut bytes = fs::read(piece(&folder, 2)).unwrap();
    bytes[4] += 1;
    fs::write(piece(&folder, 2), &bytes).unwrap();
    let store = open(&folder);
    let (found, damage) = rest(store.shelf());
    assert_eq!(found, without_second(&nodes.known));
    assert!(damage.len() == 1 && damage[0].contains("version 3 of the store's files"), "{damage:?}");
    let error = store.tick_compaction(Nanos(BEGIN + 2 * HOUR)).unwrap_err();
    assert!(matches!(error, StoreError::Version { version: 3, .. }), "{error}");
    // The unit is left alone: everything else goes on.
    assert!(compact(&store, BEGIN + 2 * HOUR).0.is_empty());
    for number in [1, 3] {
        assert!(piece(&folder, number).is_file());
    }
    assert_eq!(fs::read(piece(&folder, 2)).unwrap(), bytes);
    drop(store);
    // A roll-up among the rows.
    let other = folder.with_file_name("store-damage-other");
    let _ = fs::remove_dir_all(&other);
    let nodes = three_pieces(&other);
    settle(&open(&other), BEGIN + 2 * HOUR);
    fs::copy(other.join("minute/2026-11-23.1.col"), piece(&other, 5)).unwrap();
    let store = open(&other);
    let (found, damage) = rest(store.shelf());
    assert_eq!(found, nodes.known);
    assert!(damage.len() == 1 && damage[0].contains("has buckets of"), "{damage:?}");
    assert!(compact(&store, BEGIN + 2 * HOUR).0.is_empty());
    assert!(store.tick_compaction(Nanos(BEGIN + 4 * HOUR)).is_err());
    assert!(compact(&store, BEGIN + 4 * HOUR).0.is_empty());
    assert!(piece(&other, 5).is_file());
}

#[test]
fn a_damaged_begin_is_refused_with_its_name_and_a_missing_store_too() {
    let folder = folder("damage-begin");
    three_pieces(&folder);
    fs::write(folder.join("raw/begin"), "yesterday\n").unwrap();
    let error = Store::open(&folder, everything(), Nanos(BEGIN)).unwrap_err().to_string();
    assert!(error.contains("raw/begin") && error.contains("it is not an hour like 2026-11-23T14"), "{error}");
    let missing = StoreReader::open(&folder.join("nowhere")).unwrap_err().to_string();
    assert!(missing.contains("nowhere"), "{missing}");
    let other = StoreReader::open(&folder.join("raw")).unwrap_err().to_string();
    assert!(other.contains("raw is no store: it has no folder `log`"), "{other}");
    assert_eq!(Tier::ALL.map(Tier::folder), ["raw", "minute", "hour"]);
}
