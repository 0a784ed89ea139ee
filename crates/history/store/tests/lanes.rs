//! A node with two lanes in one store: its base lane, and that of a channel that is kept. Rows of both may have one time, and
//! neither lane costs the other anything.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::stored::{BEGIN, HOUR, MINUTE, SECOND, everything, open_store, settle};
use common::{folder, metric, node, open};
use khz_block::{Encoder, Header};
use khz_model::{
    Nanos, Pattern, RangeContent, RangeRequest, RangeShape, Ranges, Reading, Series, Stamp, ValueType,
};
use khz_store::Store;
use khz_store::log::{Intake, LoggedBlock};
use khz_store::range::RangeReader;

/// All nodes booted then.
const BOOT: u64 = BEGIN - HOUR;
/// The base lane's epoch, and the channel's.
const LANES: [u64; 2] = [1, 2];

fn series(epoch: u64) -> Vec<Series> {
    let names: &[(&str, ValueType)] = match epoch {
        1 => &[("test.gauge", ValueType::Unsigned), ("test.other", ValueType::Unsigned)],
        _ => &[("channel.hot", ValueType::Unsigned)],
    };
    let series = |&(name, value_type)| Series { metric: metric(name, value_type, 0), instance: None };
    names.iter().map(series).collect()
}

/// Ten minutes of a lane in blocks of a minute: the base lane's rows are a second apart, the channel's a tenth of it, so that each
/// tenth row has the time of another lane's.
fn send(intake: &Intake, epoch: u64, begin: u64) {
    let (columns, gap) = (series(epoch), if epoch == 1 { SECOND } else { SECOND / 10 });
    let (lane, rows) = (intake.lane(&node(0), epoch), MINUTE / gap);
    let first = lane.stored_until();
    for block in 0..10 {
        let mut encoder = Encoder::new(0, 1, Nanos(gap));
        encoder.resume(first + block * rows, 1);
        let (mut bytes, mut last) = (Vec::new(), Nanos(0));
        for row in 0..rows {
            let time = begin + (block * rows + row) * gap;
            let stamp = Stamp { boot: Nanos(time - BOOT), real_offset: BOOT as i64 };
            last = stamp.real();
            let of_slot = |slot: usize| {
                let reading = Reading::Present(value(epoch, time) + slot as u64);
                (reading.state(), reading.bits())
            };
            match row {
                0 => encoder.key_row(stamp, columns.len(), of_slot, &mut bytes),
                _ => encoder.delta_row(stamp, 0..columns.len(), of_slot, &mut bytes),
            }
        }
        encoder.close();
        let block = LoggedBlock {
            header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
            rows: rows as u32,
            schema: Arc::new(columns.clone()),
            schema_hash: [epoch as u8; 16],
            bytes: Arc::new(bytes),
            last,
            shift: 0,
        };
        intake.block(&lane, block);
    }
}

fn value(epoch: u64, time: u64) -> u64 {
    time / (SECOND / 10) % 1_000 * 10 + epoch
}

/// The times and values of each series that this pattern selects.
fn rows(store: &Store, pattern: &str) -> BTreeMap<String, Vec<(u64, u64)>> {
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let patterns = vec![Pattern::new(pattern).unwrap()];
    let request =
        RangeRequest { patterns, from: Nanos(BEGIN), to: Nanos(BEGIN + HOUR), shape: RangeShape::Rows };
    let (mut answer, mut found) = (reader.range(request).unwrap(), BTreeMap::<String, Vec<_>>::new());
    while let Some(part) = answer.next().unwrap() {
        let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
        let of_series = found.entry(part.series.to_string()).or_default();
        of_series.extend(readings.iter().map(|(stamp, reading)| (stamp.real().0, reading.bits())));
    }
    assert_eq!(answer.damage(), [""; 0]);
    found
}

fn check(store: &Store, minutes: u64) {
    let expected = |epoch: u64, gap: u64, more: u64| -> Vec<(u64, u64)> {
        let times = (0..minutes * MINUTE / gap).map(|row| BEGIN + row * gap);
        times.map(|time| (time, value(epoch, time) + more)).collect()
    };
    let hot = BTreeMap::from([("channel.hot".to_owned(), expected(2, SECOND / 10, 0))]);
    assert!(rows(store, "channel.hot") == hot);
    let mut all = hot;
    all.insert("test.gauge".to_owned(), expected(1, SECOND, 0));
    assert!(rows(store, "test.gauge")["test.gauge"] == all["test.gauge"]);
    all.insert("test.other".to_owned(), expected(1, SECOND, 1));
    assert!(rows(store, "*") == all);
    check_followed(store, minutes);
}

/// Who follows the store, as remote write does, gets the base lane.
fn check_followed(store: &Store, minutes: u64) {
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let (mut nodes, mut damage) = (reader.nodes_reader(), Vec::new());
    let known = nodes.known(&node(0));
    assert!(known.iter().all(|block| block.lane.epoch() == LANES[0]));
    let (span, all) = ((Nanos(BEGIN), Nanos(BEGIN + HOUR)), [Pattern::everything()]);
    let rows = nodes.first(&node(0), &known, span, &all, &mut damage).unwrap().unwrap();
    let names: Vec<String> = rows.series().map(ToString::to_string).collect();
    assert_eq!((names, damage.len()), (vec!["test.gauge".to_owned(), "test.other".to_owned()], 0));
    assert_eq!(rows.times().len() as u64, minutes * 60);
}

/// How many rows each section of the node has in the files of a folder.
fn sections(folder: &Path, tier: &str) -> Vec<usize> {
    let files = std::fs::read_dir(folder.join(tier)).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "col"));
    let mut rows: Vec<usize> = files
        .flat_map(|path| open(&path).sections(&node(0)).unwrap())
        .map(|section| section.rows())
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn lanes_keep_their_rows_apart_and_rows_of_one_time_are_all_there() {
    let folder = folder("lanes");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    for half in 0..2 {
        let begin = BEGIN + half * 10 * MINUTE;
        LANES.into_iter().for_each(|epoch| send(&intake, epoch, begin));
        check(&store, 10 * (half + 1));
        store.commit(Nanos(begin + 10 * MINUTE)).unwrap();
        check(&store, 10 * (half + 1));
        store.seal();
        settle(&store, begin + 11 * MINUTE);
        check(&store, 10 * (half + 1));
    }
    assert_eq!(sections(&folder, "raw"), [600, 600, 6_000, 6_000]);
    settle(&store, BEGIN + 2 * HOUR);
    check(&store, 20);
    // Merged, and rolled up: a column of a lane has no holes where only the other one has rows.
    assert_eq!(sections(&folder, "raw"), [1_200, 12_000]);
    assert_eq!((sections(&folder, "minute"), sections(&folder, "hour")), (vec![20, 20], vec![1, 1]));
}

#[test]
fn what_was_stored_of_each_lane_is_known_after_a_restart_when_its_segments_are_gone() {
    let folder = folder("lanes-restart");
    let (store, intake) = open_store(&folder, everything(), BEGIN);
    let held = LANES.map(|epoch| intake.lane(&node(0), epoch));
    LANES.into_iter().for_each(|epoch| send(&intake, epoch, BEGIN));
    store.commit(Nanos(BEGIN)).unwrap();
    store.seal();
    settle(&store, BEGIN + 11 * MINUTE);
    // Another node begins a segment, which says what is known of all.
    let other = intake.lane(&node(1), 1);
    let (_, mut blocks) = ((), common::stored::Nodes::default());
    intake.block(&other, blocks.block(1, BEGIN + 11 * MINUTE, 3, SECOND, (0, 0)));
    store.commit(Nanos(BEGIN + 12 * MINUTE)).unwrap();
    drop((held, other, intake, store));
    for _ in 0..2 {
        let (_store, intake) = open_store(&folder, everything(), BEGIN + 13 * MINUTE);
        for (epoch, rows) in [(1, 600), (2, 6_000)] {
            assert_eq!(intake.lane(&node(0), epoch).stored(), [(0, rows)], "lane {epoch}");
        }
    }
}
