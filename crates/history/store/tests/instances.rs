//! Ten thousand instances come and go on one node, a hundred each minute: each is found with all its rows and no others, in
//! the log, in column files and in roll-ups, and what was remembered of them is forgotten.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use common::stored::*;
use common::{folder, metric, node};
use khz_block::{Encoder, Header};
use khz_model::{
    Columns, Instance, Metric, Nanos, Pattern, RangeContent, RangeRequest, RangeShape, Ranges, Reading,
    Series, Stamp, ValueType,
};
use khz_store::log::LoggedBlock;
use khz_store::range::RangeReader;
use khz_store::{Store, StoreReader};

const INSTANCES: u64 = 10_000;
/// This many come with each block, ...
const COME: u64 = 100;
/// ... and each stays for this many blocks, so that there are always three hundred.
const STAY: u64 = 3;
/// Blocks of a minute, with a row each ten seconds.
const ROWS: u64 = 6;
const GAP: u64 = 10 * SECOND;
const BLOCKS: u64 = INSTANCES / COME + STAY - 1;
/// Files may take this for each instance: its name, its place and its eighteen values in a merged file, twice while an hour
/// is not merged.
const BYTES_MAX: u64 = 160;

fn series(instance: u64) -> Series {
    static METRIC: LazyLock<Arc<Metric>> = LazyLock::new(|| metric("test.counter", ValueType::Unsigned, 0));
    let name = format!("container-{instance:05}");
    Series { metric: METRIC.clone(), instance: Some(Instance::from_kernel(name.as_bytes())) }
}

fn value(instance: u64, row: u64) -> u64 {
    instance * 1_000 + row * (instance % 7)
}

/// The instances that a block has.
fn there(block: u64) -> std::ops::Range<u64> {
    let first = (block + 1).saturating_sub(STAY) * COME;
    first..((block + 1) * COME).min(INSTANCES)
}

fn time(row: u64) -> u64 {
    BEGIN + row * GAP
}

fn block(number: u64) -> LoggedBlock {
    let (instances, first) = (there(number), number * ROWS);
    let all: Vec<Series> = instances.clone().map(series).collect();
    let mut encoder = Encoder::new(0, number as u32 + 1, Nanos(GAP));
    encoder.resume(first, number as u32 + 1);
    let (mut bytes, mut last) = (Vec::new(), Stamp::default());
    for row in first..first + ROWS {
        last = Stamp { boot: Nanos(row * GAP), real_offset: BEGIN as i64 };
        let reading = |slot: usize| {
            let reading = Reading::Present(value(instances.start + slot as u64, row));
            (reading.state(), reading.bits())
        };
        match row - first {
            0 => encoder.key_row(last, all.len(), reading, &mut bytes),
            _ => encoder.delta_row(last, 0..all.len(), reading, &mut bytes),
        }
    }
    encoder.close();
    let mut schema_hash = [0; 16];
    schema_hash[..8].copy_from_slice(&number.to_le_bytes());
    LoggedBlock {
        header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
        rows: ROWS as u32,
        schema: Arc::new(all) as Arc<dyn Columns>,
        schema_hash,
        bytes: Arc::new(bytes),
        last: last.real(),
        shift: 0,
    }
}

/// The rows of each instance.
fn rows(instance: u64) -> std::ops::Range<u64> {
    let first = instance / COME;
    first * ROWS..(first + STAY) * ROWS
}

fn ask(reader: &dyn Ranges, shape: RangeShape) -> BTreeMap<u64, Vec<RangeContent>> {
    let (patterns, from, to) = (vec![Pattern::everything()], Nanos(BEGIN), Nanos(time(BLOCKS * ROWS)));
    let mut answer = reader.range(RangeRequest { patterns, from, to, shape }).unwrap();
    let mut found: BTreeMap<u64, Vec<RangeContent>> = BTreeMap::new();
    while let Some(part) = answer.next().unwrap() {
        assert_eq!(part.node, node(0));
        let name = part.series.instance.unwrap().name().to_owned();
        let instance = name.strip_prefix("container-").unwrap().parse().unwrap();
        found.entry(instance).or_default().push(part.content);
    }
    assert_eq!(answer.damage(), [""; 0]);
    found
}

fn check(reader: &dyn Ranges) {
    let found = ask(reader, RangeShape::Rows);
    assert_eq!(found.len() as u64, INSTANCES);
    for (instance, parts) in found {
        let mut next = rows(instance);
        for part in parts {
            let RangeContent::Readings(readings) = part else { panic!("rows were asked for") };
            // Where another instance has a row, this one has none.
            for (stamp, reading) in readings {
                let row = next.next().unwrap_or_else(|| panic!("{instance} has rows when it was gone"));
                assert_eq!(stamp.real().0, time(row), "{instance}");
                assert_eq!(reading, Reading::Present(value(instance, row)), "{instance}, row {row}");
            }
        }
        assert!(next.is_empty(), "{instance} lacks rows from {next:?} on");
    }
    let found = ask(reader, RangeShape::Points(20));
    assert_eq!(found.len() as u64, INSTANCES);
    for (instance, parts) in found {
        let of_part = |part: &RangeContent| match part {
            RangeContent::Points(points) => points.iter().map(|point| point.count).sum::<u64>(),
            _ => panic!("points were asked for"),
        };
        assert_eq!(parts.iter().map(of_part).sum::<u64>(), STAY * ROWS, "{instance}");
    }
}

#[test]
fn ten_thousand_instances_that_come_and_go_are_found_with_their_rows_and_no_others() {
    let folder = folder("instances");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let reader = |store: &Store| RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    for number in 0..BLOCKS {
        hand_over(&intake, 0, block(number));
        let now = time((number + 1) * ROWS);
        store.commit(Nanos(now)).unwrap();
        // Half of them stay in the log for now.
        if number < BLOCKS / 2 && number % 5 == 4 {
            settle(&store, now);
        }
    }
    check(&reader(&store));
    let end = time(BLOCKS * ROWS);
    store.seal();
    settle(&store, end);
    check(&reader(&store));
    (1..4).for_each(|hours| _ = settle(&store, end + hours * HOUR));
    check(&reader(&store));
    let raw = store.shelf().facts().into_iter().map(|facts| facts.bytes).next().unwrap();
    assert!(raw < INSTANCES * BYTES_MAX, "{raw} bytes");
    drop((store, intake));
    // Another start knows nothing of them but what is in the files.
    let beside = StoreReader::open(&folder).unwrap();
    assert!(beside.damage().is_empty());
    check(&RangeReader::new(beside.shelf().clone(), Some(beside.log()), Arc::new(())));
    std::fs::remove_dir_all(folder).unwrap();
}
