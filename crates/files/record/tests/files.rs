//! Recordings written and read again: whole, cut off anywhere, damaged anywhere, rotated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use khz_block::trace::{self, Chunk, LaneHead, Sealed};
use khz_block::{Encoder, HEADER_BYTES, Header, SchemaEncoder};
use khz_model::{Exposition, Kind, Metric, Nanos, Origin, Refresh, Series, Stamp, Unit};
use khz_record::{Event, Missing, Recorder, Recording, Rotation, Survey};

/// A directory that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("khz-record-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn series(name: &'static str) -> Series {
    let metric = Metric {
        name: name.into(),
        kind: Kind::Counter,
        unit: Unit::Count,
        value_type: khz_model::ValueType::Unsigned,
        labels_from: None,
        places: 0,
        max: None,
        refresh: Refresh::Event,
        help: "Something that grows.".into(),
        origin: Origin { file: "a/file".into(), field: "a field".into() },
        instances: None,
        exposition: Exposition {
            name: "khz_test".into(),
            help: None,
            labels: Vec::new().into(),
            instance_label: None,
            divisor: 1,
            untyped: false,
        },
        flat: "test".into(),
    };
    Series { metric: Arc::new(metric), instance: None }
}

const PERIOD: u64 = 1_000_000;
const ROWS_A_BLOCK: u64 = 10;

/// The value of a slot of a node in a row; no other slot has the same.
fn value(node: u64, row: u64, slot: usize) -> u64 {
    node * 1_000_000 + row * 7 * (slot as u64 + 1)
}

fn block(node: u64, first: u64) -> Vec<u8> {
    block_of(1, node, first)
}

fn block_of(generation: u32, node: u64, first: u64) -> Vec<u8> {
    let mut encoder = Encoder::new(node as u16, generation, Nanos(PERIOD));
    encoder.resume(first, generation);
    let mut bytes = Vec::new();
    for row in first..first + ROWS_A_BLOCK {
        let stamp = Stamp { boot: Nanos(1_000_000_000 + row * PERIOD), real_offset: 5_000_000_000 };
        let reading = |slot: usize| (0, value(node, row, slot));
        if row == first {
            encoder.key_row(stamp, 2, reading, &mut bytes);
        } else {
            encoder.delta_row(stamp, 0..2, reading, &mut bytes);
        }
    }
    let header = encoder.close().unwrap();
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes
}

/// Records three nodes: this many blocks of each, in turn.
fn record(path: &Path, rotation: Rotation, blocks: u64) -> khz_record::Counts {
    let mut recorder = begin(path, rotation, 3);
    for number in 0..blocks {
        for node in 0..3u32 {
            recorder.block(node + 1, &block(node.into(), number * ROWS_A_BLOCK)).unwrap();
        }
        recorder.tick(Nanos(number * 10 * PERIOD)).unwrap();
    }
    recorder.finish("{\"end\":true}").unwrap()
}

/// Counts all rows that can be read, and checks each against what was written.
fn rows_of(paths: &[PathBuf]) -> (u64, Vec<String>) {
    let recording = Recording::of(paths);
    let mut rows = 0;
    let mut nodes = Vec::new();
    recording
        .read(|event| match event {
            Event::Lane(place, lane, _) if place == nodes.len() => {
                nodes.push(lane.node[1..].parse::<u64>().unwrap());
            }
            Event::Columns(_, columns) => assert_eq!(columns[1].to_string(), "a.two"),
            Event::Block(block) => {
                let node = nodes[block.lane];
                block.rows(|number, row| {
                    for slot in 0..2 {
                        let expected = value(node, number, slot);
                        assert_eq!(
                            row.reading(slot).unwrap().value(),
                            Some(expected),
                            "n{node} row {number}"
                        );
                    }
                    rows += 1;
                });
            }
            _ => {}
        })
        .unwrap();
    (rows, Survey::of(&recording).unwrap().problems())
}

#[test]
fn a_recording_reads_back_what_was_written() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let counts = record(&path, Rotation::default(), 20);
    assert_eq!(
        (counts.nodes, counts.rows, counts.values, counts.missing),
        (3, 600, 1_200, Missing::default())
    );
    assert_eq!(counts.jitter.most(), 0);
    assert_eq!(counts.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(rows_of(std::slice::from_ref(&path)), (600, Vec::new()));
    let survey = Survey::of(&Recording::of(&[path])).unwrap();
    assert_eq!(survey.notes, ["{}", "{\"end\":true}"]);
    assert_eq!(survey.lanes.len(), 3);
    let lane = &survey.lanes[1];
    assert_eq!(
        (&*lane.lane.node, lane.rows, lane.missing().rows, lane.period),
        ("n1", 200, 0, Nanos(PERIOD))
    );
    assert_eq!(survey.span(), Some((Nanos(6_000_000_000), Nanos(6_000_000_000 + 199 * PERIOD))));
}

/// Begins a recording of nodes, with their lanes and schemas.
fn begin(path: &Path, rotation: Rotation, nodes: u32) -> Recorder {
    let mut recorder = Recorder::create(path, rotation, "{}".into(), Nanos(0)).unwrap();
    (0..nodes).for_each(|node| add_node(&mut recorder, node));
    recorder
}

fn add_node(recorder: &mut Recorder, node: u32) {
    let head = LaneHead { lane: node + 1, node: &format!("n{node}"), name: "fast", epoch: 7, period: PERIOD };
    recorder.lane(&head).unwrap();
    let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
    encoder.append(&series("a.one"), &mut schema).unwrap();
    encoder.append(&series("a.two"), &mut schema).unwrap();
    let (first, second) = schema.split_at(20);
    recorder.schema(node + 1, 1, 0, first).unwrap();
    recorder.schema(node + 1, 1, 20, second).unwrap();
}

/// A recording as version 1 wrote it, with unpacked schemas.
fn as_version_1(recording: &[u8]) -> Vec<u8> {
    let (mut old, mut unpacked) = (b"khzT\x01\0\0\0".to_vec(), 0);
    for chunk in trace::Chunks::of(recording).unwrap() {
        match chunk.unwrap() {
            Chunk::Sealed(Sealed::PackedSchema { lane, generation, offset, packed }) => {
                let bytes = zstd::bulk::decompress(packed, 1 << 20).unwrap();
                Sealed::Schema { lane, generation, offset, bytes: &bytes }.put(&mut old);
                unpacked += 1;
            }
            Chunk::Sealed(sealed) => sealed.put(&mut old),
            other => panic!("{other:?}"),
        }
    }
    assert!(unpacked > 0, "no schema was packed");
    old
}

#[test]
fn schemas_are_packed_and_recordings_of_version_1_are_read_as_before() {
    let folder = Folder::new();
    let (path, old) = (folder.file("run.khzt"), folder.file("old.khzt"));
    record(&path, Rotation::default(), 20);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        bytes[..5],
        *b"khzT\x02",
        "a reader that knows only version 1 refuses it, instead of finding no schema"
    );
    let before = as_version_1(&bytes);
    assert!(before.len() > bytes.len(), "{} and {} bytes", before.len(), bytes.len());
    std::fs::write(&old, before).unwrap();
    assert_eq!(rows_of(&[old]), rows_of(&[path]));
}

#[test]
fn a_damaged_packed_schema_is_reported_and_its_rows_are_left_out() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    record(&path, Rotation::default(), 2);
    let mut bytes = Vec::new();
    for chunk in trace::Chunks::of(&std::fs::read(&path).unwrap()).unwrap() {
        match chunk.unwrap() {
            Chunk::Sealed(Sealed::PackedSchema { lane: 2, generation, offset, .. }) => {
                // Sealed correctly, but not a zstd frame.
                Sealed::PackedSchema { lane: 2, generation, offset, packed: b"no frame" }.put(&mut bytes);
            }
            Chunk::Sealed(sealed) => sealed.put(&mut bytes),
            other => panic!("{other:?}"),
        }
    }
    std::fs::write(&path, [&b"khzT\x02\0\0\0"[..], &bytes].concat()).unwrap();
    let (rows, problems) = rows_of(&[path]);
    assert_eq!(rows, 40, "those of the two other nodes");
    assert!(problems.iter().any(|problem| problem.contains("a packed schema")), "{problems:?}");
}

#[test]
fn between_two_epochs_of_a_lane_the_ticks_of_the_pause_are_missing() {
    let folder = Folder::new();
    let mut recorder =
        Recorder::create(&folder.file("run.khzt"), Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    let missing = |rows, gaps, ticks| Missing { rows, gaps, ticks, silences: 0 };
    let head = |lane, epoch| LaneHead { lane, node: "n0", name: "fast", epoch, period: PERIOD };
    recorder.lane(&head(1, 7)).unwrap();
    recorder.block(1, &block(0, 0)).unwrap();
    assert_eq!(recorder.missing(), missing(0, 0, 0));
    // Under a new number, without a pause: nothing is missing.
    recorder.lane(&head(2, 8)).unwrap();
    recorder.block(2, &block(0, ROWS_A_BLOCK)).unwrap();
    assert_eq!(recorder.missing(), missing(0, 0, 0));
    // Under the same number, after a pause of 30 rows.
    recorder.lane(&head(2, 9)).unwrap();
    recorder.block(2, &block(0, 5 * ROWS_A_BLOCK)).unwrap();
    assert_eq!(recorder.missing(), missing(0, 0, 30));
    // The same lane announced again: its rows are counted by their numbers.
    recorder.lane(&head(2, 9)).unwrap();
    recorder.block(2, &block(0, 7 * ROWS_A_BLOCK)).unwrap();
    assert_eq!(recorder.missing(), missing(10, 1, 30));
}

/// A number out of a sequence that looks random, below `most`.
fn random(state: &mut u64, most: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % most
}

#[test]
fn whatever_order_the_blocks_of_a_lane_come_in_its_rows_come_out_in_their_order() {
    let folder = Folder::new();
    for seed in 0..200u64 {
        let mut state = seed;
        // A file or two; a lane of each node, some blocks of which never come, and some are reported lost.
        let files = [folder.file("a.khzt"), folder.file("b.khzt")];
        let mut blocks: Vec<(u32, u64)> =
            (0..3).flat_map(|node| (0..30).map(move |number| (node, number * ROWS_A_BLOCK))).collect();
        blocks.retain(|_| random(&mut state, 10) > 0);
        let lost: Vec<(u32, u64)> = (0..3).map(|node| (node, 10 * random(&mut state, 30) as u64)).collect();
        let reach = [1, 5, 90][random(&mut state, 3)];
        for at in 0..blocks.len() {
            let other = (at + random(&mut state, reach)).min(blocks.len() - 1);
            blocks.swap(at, other);
        }
        let cut = random(&mut state, blocks.len());
        let (first, second) = blocks.split_at(cut);
        for (path, blocks) in files.iter().zip([first, second]) {
            let mut recorder = Recorder::create(path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
            for node in 0..3u32 {
                let name = format!("n{node}");
                let head = LaneHead { lane: node + 1, node: &name, name: "fast", epoch: 7, period: PERIOD };
                recorder.lane(&head).unwrap();
                let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
                encoder.append(&series("a.one"), &mut schema).unwrap();
                encoder.append(&series("a.two"), &mut schema).unwrap();
                recorder.schema(node + 1, 1, 0, &schema).unwrap();
            }
            for &(node, row) in &lost {
                // Rows that are lost at one hub may come from another.
                recorder.lost(node + 1, row, row + ROWS_A_BLOCK).unwrap();
            }
            for &(node, row) in blocks {
                recorder.block(node + 1, &block(node.into(), row)).unwrap();
            }
            recorder.finish("{}").unwrap();
        }
        let mut came = [const { Vec::new() }; 3];
        let take = |event: Event<'_>| {
            if let Event::Block(block) = event {
                let lane = block.lane;
                block.rows(|number, _| came[lane].push(number));
            }
        };
        Recording::of(&files).read(take).unwrap();
        for (node, came) in came.iter().enumerate() {
            let mut expected: Vec<u64> =
                blocks.iter().filter(|(of, _)| *of == node as u32).map(|(_, row)| *row).collect();
            expected.sort_unstable();
            let rows = expected.into_iter().flat_map(|row| row..row + ROWS_A_BLOCK);
            assert_eq!(*came, rows.collect::<Vec<_>>(), "seed {seed}, node {node}");
        }
    }
}

#[test]
fn rows_from_long_before_the_begin_are_not_recorded_and_not_missing() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    let head = LaneHead { lane: 1, node: "n0", name: "fast", epoch: 7, period: PERIOD };
    recorder.lane(&head).unwrap();
    let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
    encoder.append(&series("a.one"), &mut schema).unwrap();
    encoder.append(&series("a.two"), &mut schema).unwrap();
    recorder.schema(1, 1, 0, &schema).unwrap();
    // Our clock is an hour ahead of the node's. It comes back with row 9,000; the recording began at its row 5,003.
    let (hour, at) = (3_600_000_000_000, |row: u64| 1_000_000_000 + row * PERIOD);
    recorder.begin_at(Nanos(hour + at(5_003) + PERIOD + 2_000_000_000));
    recorder.heard(
        1,
        Stamp { boot: Nanos(at(9_000)), real_offset: 0 },
        Nanos(PERIOD),
        Nanos(hour + at(9_000)),
    );
    recorder.block(1, &block(0, 9_000)).unwrap();
    for first in [0, 4_990, 5_000, 5_010] {
        recorder.block(1, &block(0, first)).unwrap();
    }
    recorder.lost(1, 10, 4_990).unwrap();
    let missing = Missing { rows: 3_980, gaps: 1, ..Missing::default() };
    assert_eq!(recorder.missing(), missing, "those from its begin on");
    recorder.lost(1, 5_020, 9_000).unwrap();
    let counts = recorder.finish("{}").unwrap();
    assert_eq!((counts.rows, counts.damaged), (27, 0));
    assert_eq!(rows_of(std::slice::from_ref(&path)), (27, Vec::new()));
    let survey = Survey::of(&Recording::of(&[path])).unwrap();
    assert_eq!(survey.lanes[0].missing(), missing);
    assert_eq!(survey.lanes[0].first.unwrap().boot, Nanos(at(5_003)));
}

#[test]
fn rows_that_come_at_any_time_are_missing_by_their_numbers_and_never_by_the_clock() {
    let folder = Folder::new();
    let path = folder.file("channel.khzt");
    let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
    encoder.append(&series("channel.one"), &mut schema).unwrap();
    encoder.append(&series("channel.two"), &mut schema).unwrap();
    let announce = |recorder: &mut Recorder, epoch| {
        let head = LaneHead { lane: 1, node: "n0", name: "channel.hot", epoch, period: 0 };
        recorder.lane(&head).unwrap();
        recorder.schema(1, 1, 0, &schema).unwrap();
    };
    announce(&mut recorder, 7);
    // Blocks a day apart, and the second one comes after the third.
    let day = 86_400_000_000_000;
    let at = |first: u64, time: u64| {
        let mut bytes = block(0, first);
        let mut header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
        header.stamp.boot = Nanos(time);
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    };
    for (first, time) in [(0, day), (30, 4 * day), (10, 2 * day)] {
        recorder.block(1, &at(first, time)).unwrap();
        let stamp = Stamp { boot: Nanos(time), real_offset: 0 };
        recorder.heard(1, stamp, Nanos(PERIOD), Nanos(time));
    }
    recorder.end_at(Nanos(9 * day));
    let lacks = |rows, gaps| Missing { rows, gaps, ..Missing::default() };
    assert_eq!(recorder.missing(), lacks(10, 1), "the third block");
    recorder.lost(1, 20, 30).unwrap();
    // The channel was changed: another epoch, a week later.
    announce(&mut recorder, 8);
    recorder.block(1, &at(0, 8 * day)).unwrap();
    assert_eq!((recorder.missing(), recorder.silent_at_end().len()), (lacks(10, 1), 0));
    assert_eq!(recorder.unheard().len(), 0, "a channel that is silent is well");
    let counts = recorder.finish("{}").unwrap();
    assert_eq!((counts.rows, counts.periods, counts.jitter.quantile(0.5)), (40, None, None));
    let survey = khz_record::Survey::of(&Recording::of(&[path])).unwrap();
    let missing: Vec<Missing> = survey.lanes.iter().map(|lane| lane.missing()).collect();
    assert_eq!(missing, [lacks(10, 1), lacks(0, 0)]);
    let gaps: Vec<u64> = survey.lanes.iter().flat_map(|lane| lane.gaps()).map(|gap| gap.ticks).collect();
    assert_eq!(gaps, [0]);
}

#[test]
fn a_recording_that_is_cut_off_anywhere_is_read_to_its_last_whole_block() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    record(&path, Rotation::default(), 4);
    let whole = std::fs::read(&path).unwrap();
    let cut_path = folder.file("cut.khzt");
    let mut before = 0;
    for cut in (8..whole.len()).step_by(3) {
        std::fs::write(&cut_path, &whole[..cut]).unwrap();
        let (rows, problems) = rows_of(std::slice::from_ref(&cut_path));
        assert!(rows >= before && rows % ROWS_A_BLOCK == 0, "cut at {cut}");
        // A cut at the end of a chunk cannot be noticed.
        assert!(
            problems.len() <= 1 && problems.iter().all(|text| text.contains("is cut off")),
            "{problems:?}"
        );
        before = rows;
    }
    assert!(before >= 110, "{before}");
}

#[test]
fn damage_anywhere_costs_only_the_chunk_that_is_hit_and_is_reported_with_its_place() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    record(&path, Rotation::default(), 4);
    let whole = std::fs::read(&path).unwrap();
    let hit_path = folder.file("hit.khzt");
    // Lanes and schemas come once: after them every hit costs one block.
    let first_block = whole.windows(4).position(|bytes| bytes == b"khzB").unwrap();
    for hit in (first_block..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[hit] ^= 0x5a;
        std::fs::write(&hit_path, &bytes).unwrap();
        let (rows, problems) = rows_of(std::slice::from_ref(&hit_path));
        assert!(rows >= 110, "hit at {hit}: {rows} rows");
        assert!(!problems.is_empty(), "hit at {hit}");
        let named: u64 = problems[0]
            .split("byte ")
            .nth(1)
            .unwrap()
            .split(':')
            .next()
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(named as usize <= hit && hit - (named as usize) < 400, "hit at {hit}: {problems:?}");
    }
}

#[test]
fn a_hole_of_zeros_is_skipped() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    record(&path, Rotation::default(), 40);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 700].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let (rows, problems) = rows_of(std::slice::from_ref(&path));
    assert!((1_100..1_200).contains(&rows), "{rows}");
    assert!(problems[0].contains("bytes were skipped"), "{problems:?}");
    let survey = Survey::of(&Recording::of(&[path])).unwrap();
    assert_eq!(survey.lanes.iter().map(|lane| lane.missing().rows + lane.rows).sum::<u64>(), 1_200);
}

#[test]
fn each_file_of_a_rotation_is_whole_and_together_they_are_one_recording() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let rotation = Rotation { bytes: Some(4_000), ..Rotation::default() };
    let counts = record(&path, rotation, 60);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(counts.files as usize, paths.len());
    assert!(paths.len() > 2 && paths[0].ends_with("run.0001.khzt"), "{paths:?}");
    assert_eq!(rows_of(&paths), (1_800, Vec::new()));
    let (rows, problems) = rows_of(&paths[1..2]);
    assert!(rows > 0 && problems.is_empty(), "the second alone: {rows} {problems:?}");
    let survey = Survey::of(&Recording::of(&paths)).unwrap();
    assert_eq!((survey.lanes.len(), survey.lanes[0].missing().rows), (3, 0));
}

#[test]
fn a_rotation_has_the_schema_of_a_generation_that_goes_on_while_many_others_come_and_go() {
    let folder = Folder::new();
    let rotation = Rotation { bytes: Some(6_000), ..Rotation::default() };
    let mut recorder = Recorder::create(&folder.file("run.khzt"), rotation, "{}".into(), Nanos(0)).unwrap();
    recorder.lane(&LaneHead { lane: 1, node: "n0", name: "fast", epoch: 7, period: PERIOD }).unwrap();
    let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
    encoder.append(&series("a.one"), &mut schema).unwrap();
    encoder.append(&series("a.two"), &mut schema).unwrap();
    recorder.schema(1, 1, 0, &schema).unwrap();
    for number in 0..200 {
        // Every other block is of a generation of its own.
        let generation = if number % 2 == 0 { 1 } else { 2 + number / 2 };
        if generation > 1 {
            recorder.schema(1, generation, 0, &schema).unwrap();
        }
        recorder.block(1, &block_of(generation, 0, u64::from(number) * ROWS_A_BLOCK)).unwrap();
        recorder.tick(Nanos(u64::from(number) * 10 * PERIOD)).unwrap();
    }
    recorder.finish("{}").unwrap();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 2, "{paths:?}");
    assert_eq!(rows_of(&paths), (2_000, Vec::new()));
}

#[test]
fn a_rotation_keeps_the_newest_files() {
    let folder = Folder::new();
    let rotation = Rotation { span: Some(Nanos(100 * PERIOD)), keep: Some(2), ..Rotation::default() };
    record(&folder.file("run.khzt"), rotation, 100);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn a_file_that_is_not_a_trace_is_refused_with_its_name() {
    let folder = Folder::new();
    let path = folder.file("letter.txt");
    std::fs::write(&path, "Dear Sir or Madam").unwrap();
    let error = Survey::of(&Recording::of(&[path])).unwrap_err().to_string();
    assert!(error.ends_with("letter.txt: byte 0: no trace begins here"), "{error}");
}

#[test]
fn a_trace_of_one_lane_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures/workloads/idle-100hz.khzt");
    let survey = Survey::of(&Recording::of(&[path.into()])).unwrap();
    assert_eq!(survey.problems(), Vec::<String>::new());
    assert_eq!(&*survey.lanes[0].lane.node, "idle-100hz");
    assert!(survey.lanes[0].rows > 5_000 && survey.lanes[0].series.len() > 250);
}

#[test]
fn late_blocks_fill_their_gap() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    recorder.lane(&LaneHead { lane: 1, node: "n0", name: "fast", epoch: 7, period: PERIOD }).unwrap();
    let mut encoder = SchemaEncoder::new();
    let mut schema = Vec::new();
    encoder.append(&series("a.one"), &mut schema).unwrap();
    encoder.append(&series("a.two"), &mut schema).unwrap();
    recorder.schema(1, 1, 0, &schema).unwrap();
    for first in [0, 3, 2, 5] {
        recorder.block(1, &block(0, first * ROWS_A_BLOCK)).unwrap();
    }
    assert_eq!((recorder.missing().rows, recorder.missing().gaps), (2 * ROWS_A_BLOCK, 2));
    assert_eq!(recorder.awaited(&HashMap::new()), [("n0", 2 * ROWS_A_BLOCK)].into());
    recorder.block(1, &block(0, ROWS_A_BLOCK)).unwrap();
    recorder.lost(1, 4 * ROWS_A_BLOCK, 5 * ROWS_A_BLOCK).unwrap();
    assert!(recorder.awaited(&HashMap::new()).is_empty(), "what is lost is not awaited");
    assert!(recorder.awaited(&[(1, 6 * ROWS_A_BLOCK)].into()).is_empty());
    let under_way = recorder.awaited(&[(1, 6 * ROWS_A_BLOCK + 1)].into());
    assert_eq!(under_way, [("n0", 1)].into(), "the block that is under way leaves a hole");
    assert_eq!(recorder.missing_by_node(), [("n0".to_owned(), recorder.missing())]);
    let counts = recorder.finish("{}").unwrap();
    assert_eq!((counts.rows, counts.repeated, counts.missing.rows), (5 * ROWS_A_BLOCK, 0, ROWS_A_BLOCK));
    let recording = Recording::of(&[path]);
    let mut numbers = Vec::new();
    let take = |event: Event<'_>| {
        if let Event::Block(block) = event {
            block.rows(|number, _| numbers.push(number));
        }
    };
    recording.read(take).unwrap();
    let there = (0..6 * ROWS_A_BLOCK).filter(|row| row / ROWS_A_BLOCK != 4);
    assert_eq!(numbers, there.collect::<Vec<_>>(), "they are read in their order");
    let survey = Survey::of(&recording).unwrap();
    assert_eq!(survey.lanes[0].missing(), counts.missing);
    let gaps = survey.lanes[0].gaps();
    assert_eq!((gaps.len(), gaps[0].before, gaps[0].rows), (1, 5 * ROWS_A_BLOCK, ROWS_A_BLOCK));
}

/// A lane of a node, with its schema.
fn announce(recorder: &mut Recorder, lane: u32, node: &str, epoch: u64) {
    recorder.lane(&LaneHead { lane, node, name: "fast", epoch, period: PERIOD }).unwrap();
    let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
    encoder.append(&series("a.one"), &mut schema).unwrap();
    encoder.append(&series("a.two"), &mut schema).unwrap();
    recorder.schema(lane, 1, 0, &schema).unwrap();
}

/// When a row of [`block`] was gathered.
fn stamp(row: u64) -> Stamp {
    Stamp { boot: Nanos(1_000_000_000 + row * PERIOD), real_offset: 5_000_000_000 }
}

#[test]
fn a_node_that_is_silent_up_to_the_end_is_counted_whatever_its_clock_says() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    // Our clock is hours ahead of the nodes'.
    let ours = |row: u64| Nanos(stamp(row).boot.0 + 20_000_000_000_000);
    for (lane, node, blocks) in [(1, "n0", 300), (2, "n1", 1), (3, "n2", 1), (4, "n3", 1)] {
        announce(&mut recorder, lane, node, 7);
        for number in 0..blocks {
            recorder.block(lane, &block(lane.into(), number * ROWS_A_BLOCK)).unwrap();
            let newest = (number + 1) * ROWS_A_BLOCK - 1;
            if node != "n3" {
                recorder.heard(lane, stamp(newest), Nanos(PERIOD), ours(newest));
            }
        }
    }
    // A row that is on its way, in a block that is not here yet.
    recorder.heard(3, stamp(2_999), Nanos(PERIOD), ours(3_004));
    assert_eq!(recorder.missing(), Missing::default(), "it has not ended");
    recorder.end_at(ours(3_009));
    let passed = Nanos(3_000 * PERIOD);
    assert_eq!(recorder.unheard(), [("n1", passed)].into());
    // Of n3 only past rows came: nobody knows its clock.
    assert_eq!(recorder.silent_at_end(), [("n1", passed), ("n2", passed)].into());
    let silent = Missing { rows: 0, gaps: 0, ticks: 3_000, silences: 1 };
    assert_eq!(recorder.missing_by_node(), [("n1".to_owned(), silent), ("n2".to_owned(), silent)]);
    assert_eq!(recorder.finish("{}").unwrap().missing.ticks, 6_000);
}

#[test]
fn a_silence_between_two_epochs_is_a_gap_before_the_first_row_of_the_later_one() {
    let folder = Folder::new();
    let path = folder.file("run.khzt");
    let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    for (epoch, first) in [(7, 0), (8, 2_000), (9, 2_020)] {
        announce(&mut recorder, epoch as u32, "n0", epoch);
        recorder.block(epoch as u32, &block(0, first)).unwrap();
    }
    let counts = recorder.finish("{}").unwrap();
    assert_eq!(counts.missing, Missing { rows: 0, gaps: 0, ticks: 1_990 + 10, silences: 1 });
    let survey = Survey::of(&Recording::of(&[path])).unwrap();
    assert!(survey.lanes[0].gaps().is_empty());
    let gaps = survey.lanes[1].gaps();
    assert_eq!((gaps.len(), gaps[0].before, gaps[0].rows, gaps[0].ticks), (1, 2_000, 0, 1_990));
    assert_eq!((gaps[0].from.real(), gaps[0].to.real()), (stamp(9).real(), stamp(2_000).real()));
    // Ten ticks are no silence: within an epoch they are not marked either.
    assert!(survey.lanes[2].gaps().is_empty());
}

/// Fills the disk of a folder. Returns the file to remove when there is to be room again.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("fill");
    let mut file = std::fs::File::create(&path).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[1; 512])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    path
}

#[test]
fn rows_that_come_while_the_disk_is_full_are_written_when_there_is_room_and_those_beyond_the_limit_are_lost_and_counted()
 {
    let test = "rows_that_come_while_the_disk_is_full_are_written_when_there_is_room_and_those_beyond_the_limit_are_lost_and_counted";
    let folder = Folder::new();
    let mounted = || folder.0.clone();
    let Some(disk) = khz_skip::in_mount_namespace(test, mounted, "mount -t tmpfs -o size=64m none \"$1\"")
    else {
        return;
    };
    for rotation in [Rotation::default(), Rotation { bytes: Some(1 << 30), ..Rotation::default() }] {
        let mut recorder = begin(&disk.join("run.khzt"), rotation, 1);
        let (mut row, mut now) = (0, 0);
        let mut blocks = |recorder: &mut Recorder, number: u64| {
            for _ in 0..number {
                recorder.block(1, &block(0, row)).unwrap();
                row += ROWS_A_BLOCK;
            }
            now += 1_000_000_000;
            recorder.tick(Nanos(now)).map_err(|error| error.to_string())
        };
        blocks(&mut recorder, 10).unwrap();
        let filler = fill(&disk);
        for _ in 0..3 {
            let full = blocks(&mut recorder, 1_000).unwrap_err();
            assert!(full.contains("No space left on device") && full.contains("whole and stay"), "{full}");
        }
        // A lane that comes meanwhile has its schema afterwards.
        add_node(&mut recorder, 1);
        std::fs::remove_file(filler).unwrap();
        blocks(&mut recorder, 10).unwrap();
        recorder.block(2, &block(1, 0)).unwrap();
        let path = recorder.path().to_owned();
        assert_eq!(recorder.counts().missing, Missing::default(), "nothing is lost");
        // More comes than may wait.
        let filler = fill(&disk);
        let mut full = 0;
        while recorder.counts().missing.rows == 0 {
            full += u64::from(blocks(&mut recorder, 2_000).is_err());
        }
        let _ = blocks(&mut recorder, 100);
        assert!(full > 5);
        std::fs::remove_file(filler).unwrap();
        blocks(&mut recorder, 10).unwrap();
        let counts = recorder.finish("{}").unwrap();
        assert!(counts.missing.rows > 1_000 && counts.missing.gaps == 1, "{:?}", counts.missing);
        assert_eq!(counts.rows + counts.missing.rows, row + ROWS_A_BLOCK);
        let (rows, problems) = rows_of(std::slice::from_ref(&path));
        assert_eq!((rows, problems), (counts.rows, Vec::new()), "each row once, none without its schema");
        let survey = Survey::of(&Recording::of(std::slice::from_ref(&path))).unwrap();
        assert_eq!(survey.lanes[0].missing().rows, counts.missing.rows, "the file says so, too");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_series_goes_on_in_its_next_file_when_somebody_removes_the_present_one() {
    let folder = Folder::new();
    let rotation = Rotation { bytes: Some(1 << 30), ..Rotation::default() };
    let mut recorder = begin(&folder.file("run.khzt"), rotation, 1);
    recorder.block(1, &block(0, 0)).unwrap();
    recorder.tick(Nanos(1_000_000_000)).unwrap();
    std::fs::remove_file(recorder.path()).unwrap();
    recorder.block(1, &block(0, ROWS_A_BLOCK)).unwrap();
    let removed = recorder.tick(Nanos(2_000_000_000)).unwrap_err().to_string();
    assert!(removed.contains("removed"), "{removed}");
    recorder.block(1, &block(0, 2 * ROWS_A_BLOCK)).unwrap();
    let path = recorder.path().to_owned();
    recorder.finish("{}").unwrap();
    assert_eq!(rows_of(&[path]), (ROWS_A_BLOCK, Vec::new()), "the next file has all that its rows need");
}

#[test]
fn all_rows_of_a_node_whose_clock_was_set_are_read_in_their_order_by_the_clock_as_it_was_set_last() {
    let hour = 3_600_000_000_000;
    // By how much the clock was set before the blocks from this one on.
    for settings in [
        vec![(3, -hour)],
        vec![(3, hour)],
        vec![(3, hour), (7, 0)],
        vec![(2, -hour), (5, 2 * hour), (9, 5_000)],
    ] {
        let folder = Folder::new();
        let path = folder.file("run.khzt");
        let mut recorder = begin(&path, Rotation::default(), 2);
        let set_by =
            |number| settings.iter().rev().find(|(from, _)| *from <= number).map_or(0, |(_, by)| *by);
        for number in 0..10u64 {
            for node in 0..2u32 {
                let mut bytes = block(node.into(), number * ROWS_A_BLOCK);
                let mut header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
                // Late enough that a clock which is set back shows a time after 1970.
                header.stamp.real_offset += 10 * hour + if node == 1 { set_by(number) } else { 0 };
                bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
                recorder.block(node + 1, &bytes).unwrap();
            }
        }
        assert_eq!(recorder.finish("{}").unwrap().missing, Missing::default());
        let (recording, mut rows) = (Recording::of(&[path]), [Vec::new(), Vec::new()]);
        let take = |event: Event<'_>| {
            if let Event::Block(block) = event {
                let lane = block.lane;
                block.rows(|number, row| rows[lane].push((number, row.stamp().real())));
            }
        };
        recording.read(take).unwrap();
        let end = settings.last().unwrap().1;
        for (rows, set_by) in rows.iter().zip([0, end]) {
            let time = |number: u64| {
                Nanos((6_000_000_000 + number * PERIOD).wrapping_add_signed(10 * hour + set_by))
            };
            let expected: Vec<_> = (0..10 * ROWS_A_BLOCK).map(|number| (number, time(number))).collect();
            // A clock that was adjusted by a little keeps what it showed.
            assert!(
                rows.iter()
                    .zip(&expected)
                    .all(|(one, other)| one.0 == other.0 && one.1.0.abs_diff(other.1.0) <= 5_000)
            );
            assert_eq!(rows.len(), expected.len());
        }
        let survey = Survey::of(&recording).unwrap();
        let (first, last) = survey.span().unwrap();
        assert!(rows.iter().flatten().all(|(_, time)| first <= *time && *time <= last));
        assert_eq!(
            survey.lanes.iter().map(|lane| lane.missing()).collect::<Vec<_>>(),
            [Missing::default(); 2]
        );
        // What it was adjusted to counts as what it was.
        let end = if end == 5_000 { 0 } else { end };
        let wrong = survey.clocks.iter().map(|set| (&*set.node, set.ahead));
        let mut expected: Vec<i64> = [0].into_iter().chain(settings.iter().map(|(_, by)| *by)).collect();
        expected.retain(|by| by.abs_diff(end) > 5_000);
        assert_eq!(wrong.collect::<Vec<_>>(), expected.iter().map(|by| ("n1", by - end)).collect::<Vec<_>>());
    }
}
