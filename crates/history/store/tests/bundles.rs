//! Bundles: one series of all nodes is read without the blocks, as soon as the blocks were turned into columns; and whatever happens
//! to their file, every answer is what it was.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::folder;
use common::stored::{BEGIN, MINUTE, SECOND, copy, everything, open_store, settle};
use khz_block::{Encoder, HEADER_BYTES, Header};
use khz_model::{
    Absence, ByteSize, Columns, Nanos, NodeName, Pattern, RangeContent, RangeRequest, RangeShape, Ranges,
    Reading, Series, Stamp, ValueType,
};
use khz_store::compact::Step;
use khz_store::limits::{BUNDLE_BLOCKS_LEAST, BUNDLE_BYTES, BUNDLES_SHARE};
use khz_store::log::{Intake, Log, LogView, LoggedBlock};
use khz_store::range::RangeReader;
use khz_store::{Keep, Store, StoreReader};

/// As many nodes as make a bundle.
const NODES: usize = BUNDLE_BLOCKS_LEAST;
const ROWS: u64 = 30;
/// A counter, a number that stays, one that is absent, one that comes, and doubles, whose bits change much.
const SERIES: [(&str, ValueType); 5] = [
    ("test.counter", ValueType::Unsigned),
    ("test.constant", ValueType::Unsigned),
    ("test.absent", ValueType::Unsigned),
    ("test.comes", ValueType::Unsigned),
    ("test.double", ValueType::Float),
];

fn node(number: usize) -> NodeName {
    NodeName::new(&format!("node{number:03}")).unwrap()
}

fn series() -> Vec<Series> {
    let of = |(name, value_type)| Series { metric: common::metric(name, value_type, 0), instance: None };
    SERIES.map(of).to_vec()
}

fn reading(number: usize, slot: usize, row: u64) -> Reading {
    let number = number as u64;
    match slot {
        0 => Reading::Present(number * 1_000 + row * 170 + row * row % 23),
        1 => Reading::Present(4_096 * number),
        2 => Reading::Absent(Absence::InstanceGone),
        3 if (row + number).is_multiple_of(7) => Reading::Absent(Absence::InstanceGone),
        3 => Reading::Present(row),
        _ => Reading::Present(((row as f64 * 0.7 - number as f64) / 3.0).to_bits()),
    }
}

/// A little after each second.
fn time(number: usize, row: u64) -> u64 {
    BEGIN + row * SECOND + number as u64 * 1_000 + row * 7_919 % 500
}

fn block(number: usize, first: u64) -> LoggedBlock {
    let columns: Arc<dyn Columns> = Arc::new(series());
    let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
    encoder.resume(first, 1);
    let (mut bytes, mut last) = (Vec::new(), Nanos(0));
    for row in first..first + ROWS {
        let stamp =
            Stamp { boot: Nanos(time(number, row) - BEGIN + MINUTE), real_offset: (BEGIN - MINUTE) as i64 };
        last = stamp.real();
        let cell = |slot: usize| (reading(number, slot, row).state(), reading(number, slot, row).bits());
        match row - first {
            0 => encoder.key_row(stamp, SERIES.len(), cell, &mut bytes),
            _ => encoder.delta_row(stamp, 0..SERIES.len(), cell, &mut bytes),
        }
    }
    encoder.close();
    LoggedBlock {
        header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
        rows: ROWS as u32,
        schema: columns,
        schema_hash: [1; 16],
        bytes: Arc::new(bytes),
        last,
        shift: 0,
    }
}

/// Each node sends this many blocks.
fn send(store: &Store, intake: &Intake, blocks: std::ops::Range<u64>) {
    for number in blocks.clone() {
        for it in 0..NODES {
            intake.block(&intake.lane(&node(it), 1), block(it, number * ROWS));
        }
        store.commit(Nanos(BEGIN + SECOND)).unwrap();
    }
    // The last commit of a log is looked at closely, and is no affair of these tests.
    let other = NodeName::new("other").unwrap();
    let block = LoggedBlock { schema_hash: [2; 16], ..block(0, blocks.end * ROWS) };
    intake.block(&intake.lane(&other, 1), block);
    store.commit(Nanos(BEGIN + SECOND)).unwrap();
}

/// A store with bundles.
fn bundled(folder: &Path, blocks: u64) {
    let (store, intake) = open_store(folder, everything(), BEGIN);
    send(&store, &intake, 0..blocks);
    let steps = settle(&store, BEGIN + SECOND);
    let looked = steps.iter().map(|step| match step {
        Step::Bundled { blocks } => *blocks,
        step => panic!("{step:?}"),
    });
    assert_eq!(looked.sum::<usize>(), NODES * blocks as usize);
}

fn bundles(folder: &Path) -> PathBuf {
    folder.join("log/0000000001.bundles")
}

type Answer = BTreeMap<(String, String), Vec<(u64, u64, Reading)>>;

/// What a reader says of a pattern, and of damage.
fn ask(reader: &RangeReader, pattern: &str) -> (Answer, Vec<String>) {
    let patterns = vec![Pattern::new(pattern).unwrap()];
    let request = RangeRequest { patterns, from: Nanos(0), to: Nanos(u64::MAX), shape: RangeShape::Rows };
    let mut answer = reader.range(request).unwrap();
    let mut found = Answer::new();
    while let Some(part) = answer.next().unwrap() {
        let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
        let readings = readings.into_iter().map(|(stamp, it)| (stamp.boot.0, stamp.real().0, it));
        found.entry((part.node.to_string(), part.series.to_string())).or_default().extend(readings);
    }
    (found, answer.damage())
}

fn of_log(view: LogView) -> RangeReader {
    RangeReader::new(Arc::new(()), Some(view), Arc::new(()))
}

/// What must be said.
fn truth(slot: usize, blocks: u64) -> Answer {
    let of_node = |number: usize| {
        let row = |row: u64| {
            let real = time(number, row);
            (real - BEGIN + MINUTE, real, reading(number, slot, row))
        };
        ((node(number).to_string(), SERIES[slot].0.to_owned()), (0..ROWS * blocks).map(row).collect())
    };
    (0..NODES).map(of_node).collect()
}

/// Every series is as it was sent, and nothing is damaged.
fn check(reader: &RangeReader, blocks: u64) {
    for (slot, (name, _)) in SERIES.iter().enumerate() {
        let (found, damage) = ask(reader, &format!("node*:{name}"));
        assert_eq!(damage, [""; 0], "{name}");
        assert!(found == truth(slot, blocks), "{name}");
    }
}

fn check_folder(folder: &Path, blocks: u64) {
    let reader = StoreReader::open(folder).unwrap();
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    check(&of_log(reader.log()), blocks);
}

#[test]
fn one_series_of_all_nodes_is_read_without_the_blocks() {
    let folder = folder("bundles-read");
    bundled(&folder, 3);
    check_folder(&folder, 3);
    // No block can be read any more.
    let log = folder.join("log/0000000001.log");
    let mut bytes = fs::read(&log).unwrap();
    let blocks: Vec<usize> = (8..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"khzB")).collect();
    assert_eq!(blocks.len(), 3 * NODES + 1);
    blocks[..3 * NODES].iter().for_each(|at| bytes[at + HEADER_BYTES + 3] ^= 0xff);
    fs::write(&log, bytes).unwrap();
    let beside = StoreReader::open(&folder).unwrap();
    let (again, _) = open_store(&folder, everything(), BEGIN);
    for reader in [of_log(beside.log()), of_log(again.log())] {
        for slot in [0, 1, 2, 4] {
            let (found, damage) = ask(&reader, &format!("node*:{}", SERIES[slot].0));
            assert_eq!(damage, [""; 0], "{}", SERIES[slot].0);
            assert!(found == truth(slot, 3), "{}", SERIES[slot].0);
        }
        // What changes its state, and all series of one node, are in the blocks.
        for pattern in ["node*:test.comes", "node003:*"] {
            assert!(!ask(&reader, pattern).1.is_empty(), "{pattern}");
        }
    }
}

#[test]
fn whatever_byte_of_a_bundle_is_flipped_every_answer_stays_and_the_check_names_it() {
    let folder = folder("bundles-flipped");
    bundled(&folder, 1);
    let whole = fs::read(bundles(&folder)).unwrap();
    for at in (0..whole.len()).step_by(131).chain(0..24) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        fs::write(bundles(&folder), &bytes).unwrap();
        check_folder(&folder, 1);
        let damage = StoreReader::open(&folder).unwrap().check().unwrap();
        // With another length it seems to be cut off.
        let is_length = (8..16).contains(&at);
        assert!(
            is_length || damage.iter().any(|it| it.to_string().contains(".bundles, byte ")),
            "byte {at}: {damage:?}"
        );
    }
    fs::write(bundles(&folder), whole).unwrap();
    assert!(StoreReader::open(&folder).unwrap().check().unwrap().is_empty());
}

#[test]
fn of_bundles_that_were_cut_off_the_next_start_leaves_what_is_whole() {
    let folder = folder("bundles-cut");
    bundled(&folder, 2);
    let whole = fs::read(bundles(&folder)).unwrap();
    for length in (0..whole.len()).step_by(1_997).chain([7, 8, 9, 30, whole.len() - 1]) {
        fs::write(bundles(&folder), &whole[..length]).unwrap();
        check_folder(&folder, 2);
        let (store, _) = open_store(&folder, everything(), BEGIN);
        check(&of_log(store.log()), 2);
        let left = fs::read(bundles(&folder)).unwrap_or_default();
        assert!(whole.starts_with(&left) && left.len() <= length, "{length} bytes");
        assert!(StoreReader::open(&folder).unwrap().check().unwrap().is_empty());
    }
    // Zeros, as after lost power.
    let mut bytes = whole.clone();
    bytes[whole.len() / 2..].fill(0);
    fs::write(bundles(&folder), &bytes).unwrap();
    check_folder(&folder, 2);
    let (store, _) = open_store(&folder, everything(), BEGIN);
    settle(&store, BEGIN + SECOND);
    assert!(!bundles(&folder).exists());
    check(&RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(())), 2);
}

#[test]
fn a_file_of_bundles_goes_with_its_segment_and_never_answers_for_another_one() {
    let folder = folder("bundles-go");
    bundled(&folder, 2);
    // Another store, whose first segment has other blocks at other places.
    let other = folder.with_file_name("store-bundles-other");
    let _ = fs::remove_dir_all(&other);
    copy(&folder, &other);
    let stale = fs::read(bundles(&folder)).unwrap();
    {
        let (store, intake) = open_store(&folder, everything(), BEGIN);
        fs::write(folder.join("log/0000000077.bundles"), &stale).unwrap();
        store.seal();
        settle(&store, BEGIN + 10 * MINUTE);
        assert!(!bundles(&folder).exists() && !folder.join("log/0000000001.log").exists());
        send(&store, &intake, 2..3);
        store.seal();
    }
    let (store, _) = open_store(&folder, everything(), BEGIN);
    assert!(!folder.join("log/0000000077.bundles").exists(), "it belongs to no segment");
    drop(store);
    let log = fs::read_dir(folder.join("log")).unwrap().map(|it| it.unwrap().path());
    let log = log.into_iter().find(|it| it.extension().is_some_and(|it| it == "log")).unwrap();
    fs::copy(log, other.join("log/0000000001.log")).unwrap();
    let reader = StoreReader::open(&other).unwrap();
    let mut expected = truth(0, 3);
    expected.values_mut().for_each(|rows| _ = rows.drain(..2 * ROWS as usize));
    assert!(ask(&of_log(reader.log()), "node*:test.counter") == (expected, Vec::new()));
}

#[test]
fn a_bundle_that_cannot_be_written_keeps_nothing_else_waiting() {
    let folder = folder("bundles-fail");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    fs::create_dir(bundles(&folder)).unwrap();
    send(&store, &intake, 0..2);
    assert!(store.tick_compaction(Nanos(BEGIN)).unwrap().is_idle());
    let failure = store.counts().last_failure.lock().unwrap().clone().unwrap();
    assert!(failure.starts_with("cannot create") && failure.contains(".bundles"), "{failure}");
    check(&of_log(store.log()), 2);
    fs::remove_dir(bundles(&folder)).unwrap();
    assert!(store.tick_compaction(Nanos(BEGIN + SECOND)).unwrap().is_idle(), "it rests for a minute");
    assert!(!settle(&store, BEGIN + MINUTE).is_empty());
    check(&of_log(store.log()), 2);
}

#[test]
fn bundles_count_as_bytes_of_the_store_and_a_small_store_has_none() {
    let folder = folder("bundles-size");
    bundled(&folder, 1);
    let (store, _) = open_store(&folder, everything(), BEGIN);
    let file = |name: &str| fs::metadata(folder.join("log").join(name)).unwrap().len();
    assert_eq!(store.bytes(), file("0000000001.log") + file("0000000001.bundles"));
    let small = folder.with_file_name("store-bundles-small");
    let _ = fs::remove_dir_all(&small);
    let size = ByteSize(BUNDLES_SHARE * BUNDLE_BYTES as u64 - 1);
    let (store, intake) = open_store(&small, Keep { size, ..everything() }, BEGIN);
    send(&store, &intake, 0..1);
    assert!(settle(&store, BEGIN + SECOND).is_empty() && !bundles(&small).exists());
}

#[test]
fn the_bytes_of_bundles_do_not_change() {
    let folder = folder("bundles-golden");
    bundled(&folder, 1);
    let written = fs::read(bundles(&folder)).unwrap();
    let kept = include_bytes!("golden.bundles");
    assert_eq!(&written[..8], b"khzU\x01\0\0\0");
    assert!(written == kept, "{} bytes, {} were kept", written.len(), kept.len());
}

/// Writes the file that is kept, and bundles of a log that is kept, which a fuzzer changes.
#[test]
#[ignore = "it writes into the repository"]
fn bundles_to_keep() {
    let seeds = folder("bundles-seed");
    fs::write(seeds.join("0000000001.log"), include_bytes!("golden2.log")).unwrap();
    let mut bundler = Log::open(&seeds).unwrap().0.bundler();
    bundler.least(1);
    while bundler.make().unwrap() > 0 {}
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/log_bundles/golden");
    fs::create_dir_all(seed.parent().unwrap()).unwrap();
    fs::copy(seeds.join("0000000001.bundles"), seed).unwrap();
    let folder = folder("bundles-keep");
    bundled(&folder, 1);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.bundles");
    fs::copy(bundles(&folder), kept).unwrap();
}
