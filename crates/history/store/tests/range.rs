//! The range query beside a map in memory: wherever rows are, in files, in the log or in open blocks, in several of them or
//! late, every answer is that of the map, digit for digit.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::ranges::{bucket, points_of, shown};
use common::{add, all_series, folder, labels, metric, node, open};
use khz_block::{Encoder, HEADER_BYTES, Header};
use khz_model::{
    Absence, Budget, ByteSize, Columns, Fault, Labels, Nanos, NodeName, Pattern, QueryError, RangeAnswer,
    RangeContent, RangePoint, RangeRequest, RangeShape, Ranges, Reading, Series, Stamp, ValueType,
};
use khz_store::limits::{RANGE_BYTES, RANGE_QUERY_BYTES};
use khz_store::log::{Intake, Log, LoggedBlock};
use khz_store::range::{ColumnFiles, OpenRows, RangeReader};
use khz_store::shelf::StoredHour;
use khz_store::{ColumnFile, Key, NodeRows, StoreError, roll_up, write_rows};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 3_600 * SECOND;
/// A full hour.
const BEGIN: u64 = 489_722 * HOUR;
const HOURS: u64 = 4;
const OFFSET: i64 = 1_000_000;
const METRICS: [&str; 5] = ["test.counter", "test.gauge", "test.signed", "test.double", "test.labels"];

/// By hour: whether it is settled, and its files.
type Hours = BTreeMap<u64, (bool, Vec<Arc<ColumnFile>>)>;

/// Column files, as a shelf has them.
#[derive(Default)]
struct Files {
    rows: Mutex<Hours>,
    minutes: Mutex<Vec<Arc<ColumnFile>>>,
    hours: Mutex<Vec<Arc<ColumnFile>>>,
    version: AtomicU64,
}

impl ColumnFiles for Files {
    fn resolutions(&self) -> Vec<Nanos> {
        vec![Nanos(MINUTE), Nanos(HOUR)]
    }

    fn first(&self, resolution: Nanos) -> Option<Nanos> {
        match resolution.0 {
            0 => self.rows.lock().unwrap().keys().next().copied().map(Nanos),
            MINUTE => self.minutes.lock().unwrap().first().map(|file| file.span().0),
            _ => self.hours.lock().unwrap().first().map(|file| file.span().0),
        }
    }

    fn hours(&self, from: Nanos, to: Nanos) -> Vec<StoredHour> {
        let rows = self.rows.lock().unwrap();
        let within = rows.iter().filter(|(hour, _)| **hour < to.0 && **hour + HOUR > from.0);
        let hour = |(hour, (is_settled, _)): (&u64, &(bool, Vec<_>))| StoredHour {
            begin: Nanos(*hour),
            is_settled: *is_settled,
        };
        within.map(hour).collect()
    }

    fn files(
        &self,
        resolution: Nanos,
        from: Nanos,
        to: Nanos,
        _: &mut Vec<StoreError>,
    ) -> Vec<Arc<ColumnFile>> {
        let within = |file: &&Arc<ColumnFile>| file.span().0 < to && file.span().1 >= from;
        match resolution.0 {
            0 => self
                .rows
                .lock()
                .unwrap()
                .values()
                .flat_map(|(_, files)| files)
                .filter(within)
                .cloned()
                .collect(),
            MINUTE => self.minutes.lock().unwrap().iter().filter(within).cloned().collect(),
            _ => self.hours.lock().unwrap().iter().filter(within).cloned().collect(),
        }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

/// Open blocks, as a hub has them.
#[derive(Default)]
struct Open(HashMap<NodeName, LoggedBlock>);

impl OpenRows for Open {
    fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }

    fn of(&self, node: &NodeName, _: Nanos, _: Nanos) -> Vec<LoggedBlock> {
        self.0.get(node).cloned().into_iter().collect()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        self.0.values().map(LoggedBlock::span).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }
}

/// The series of a node before and after an update of a program: a gauge has other decimal places then, and one is gone.
fn columns(generation: usize) -> Vec<Series> {
    let mut all = all_series();
    if generation == 1 {
        all[3] = Series { metric: metric("test.gauge", ValueType::Unsigned, 0), instance: None };
        all.remove(0);
    }
    all
}

/// A row, and where it is.
#[derive(Clone, Debug)]
struct Row {
    time: u64,
    generation: usize,
    seed: u64,
    place: Place,
    /// It is in the log too.
    is_twice: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A file of its hour.
    File(usize),
    /// A block of this epoch.
    Log(u64),
    Open,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Mostly any second; often just where a minute or an hour begins, and a nanosecond before.
    let time = prop_oneof![
        6 => (0..HOURS * 3_600).prop_map(|second| second * SECOND + second % 7 * 1_000),
        1 => (0..HOURS * 60).prop_map(|minute| minute * MINUTE),
        1 => (1..HOURS * 60).prop_map(|minute| minute * MINUTE - 1),
        1 => (0..HOURS).prop_map(|hour| hour * HOUR),
        1 => (1..=HOURS).prop_map(|hour| hour * HOUR - 1),
    ];
    let place = prop_oneof![
        8 => Just(Place::File(0)),
        2 => (1usize..3).prop_map(Place::File),
        3 => (1u64..3).prop_map(Place::Log),
        1 => Just(Place::Open),
    ];
    let row = (time, prop_oneof![6 => Just(0usize), 1 => Just(1)], any::<u64>(), place, any::<bool>());
    let row = row.prop_map(|(time, generation, seed, place, is_twice)| Row {
        time: BEGIN + time,
        generation,
        seed,
        place,
        is_twice: is_twice && seed % 3 == 0,
    });
    prop::collection::vec(row, 0..90)
}

fn reading(series: &Series, place: usize, row: &Row) -> Reading {
    let seed = row.seed.rotate_left(place as u32 * 9);
    match seed % 19 {
        0 => Reading::Absent(Absence::InstanceGone),
        1 => Reading::Failed(Fault::Stuck),
        _ if series.metric.value_type == ValueType::Labels => labels(seed % 4),
        // Eighths: their sums are exact in whatever order.
        _ if series.metric.value_type == ValueType::Float => {
            Reading::Present(((seed % 1_000) as f64 / 8.0 - 20.0).to_bits())
        }
        3 => Reading::Present(seed),
        _ if place == 0 => Reading::Present((row.time - BEGIN) / SECOND * 100 + seed % 50),
        _ => Reading::Present((seed % 200).wrapping_sub(100)),
    }
}

fn readings(row: &Row) -> Vec<Reading> {
    let columns = columns(row.generation);
    columns.iter().enumerate().map(|(place, series)| reading(series, place, row)).collect()
}

/// Readings by node and series, in the order of their times.
type Model = HashMap<(usize, Key), BTreeMap<u64, Reading>>;

/// Everything of one test.
struct World {
    files: Arc<Files>,
    reader: RangeReader,
    model: Model,
    log: Log,
    /// Labels keep their numbers while somebody holds them.
    _labels: Vec<Labels>,
    /// The metric that questions are about; `None`: all.
    metric: Option<&'static str>,
}

/// Rows as a block; `shift` is how wrong the node's clock was.
fn block(rows: &[&Row], encoder: &mut Encoder, shift: i64) -> LoggedBlock {
    let schema: Arc<dyn Columns> = Arc::new(columns(rows[0].generation));
    let mut bytes = Vec::new();
    let stamp =
        |row: &Row| Stamp { boot: Nanos(row.time.strict_add_signed(-OFFSET)), real_offset: OFFSET - shift };
    for (number, row) in rows.iter().enumerate() {
        let readings = readings(row);
        let cell = |slot: usize| (readings[slot].state(), readings[slot].bits());
        match number {
            0 => encoder.key_row(stamp(row), readings.len(), cell, &mut bytes),
            _ => encoder.delta_row(stamp(row), 0..readings.len(), cell, &mut bytes),
        }
    }
    let count = rows.len() as u32;
    encoder.close();
    assert!(bytes.len() > HEADER_BYTES);
    let header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
    let last = stamp(rows.last().unwrap()).real();
    let schema_hash = [rows[0].generation as u8; 16];
    LoggedBlock { header, rows: count, schema, schema_hash, bytes: Arc::new(bytes), last, shift }
}

/// Rows that a block can have: in the order of their times, with one meaning of the slots.
fn blocks_of(rows: &[Row], is_there: impl Fn(&Row) -> bool) -> Vec<Vec<&Row>> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| is_there(row)).collect();
    rows.sort_by_key(|row| row.time);
    rows.dedup_by_key(|row| row.time);
    let mut blocks: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match blocks.last_mut() {
            Some(block) if block[0].generation == row.generation && block.len() < 9 => block.push(row),
            _ => blocks.push(vec![row]),
        }
    }
    blocks
}

fn enter(model: &mut Model, number: usize, row: &Row) {
    for (series, reading) in columns(row.generation).iter().zip(readings(row)) {
        model.entry((number, Key::of(series))).or_default().insert(row.time, reading);
    }
}

impl World {
    /// Puts the rows of each node where they belong. `settled` are hours that the roll-ups have.
    fn of(folder: &Path, nodes: &[Vec<Row>], settled: u8, shift: i64) -> World {
        let held = (0..4).map(|number| Labels::new([("number", &*number.to_string())]).unwrap()).collect();
        let (files, mut model) = (Arc::new(Files::default()), Model::new());
        // Earlier files first, then the log, then open blocks: later ones win.
        for hour in (0..HOURS).map(|hour| BEGIN + hour * HOUR) {
            let mut pieces: Vec<Arc<ColumnFile>> = Vec::new();
            for piece in 0..3 {
                let is_in =
                    |row: &&Row| row.place == Place::File(piece) && row.time - row.time % HOUR == hour;
                if !nodes.iter().flatten().any(|row| is_in(&row)) {
                    continue;
                }
                let path = folder.join(format!("{hour}.{piece}.col"));
                let mut sections = Vec::new();
                for (number, rows) in nodes.iter().enumerate() {
                    for generation in 0..2 {
                        let mut section = NodeRows::new();
                        for row in rows.iter().filter(is_in).filter(|row| row.generation == generation) {
                            section.columns(&Arc::new(columns(generation))).unwrap();
                            add(&mut section, row.time, OFFSET, &readings(row));
                            enter(&mut model, number, row);
                        }
                        sections.push((node(number), section));
                    }
                }
                write_rows(&path, sections).unwrap();
                pieces.push(Arc::new(open(&path)));
            }
            let has_one = pieces.len() == 1 && pieces[0].path().to_string_lossy().ends_with(".0.col");
            let is_settled = has_one && settled >> ((hour - BEGIN) / HOUR) & 1 == 1;
            if is_settled {
                files.roll_up(folder, hour, &pieces[0]);
            }
            if !pieces.is_empty() {
                files.rows.lock().unwrap().insert(hour, (is_settled, pieces));
            }
        }
        let (mut log, intake, damage) = Log::open(&folder.join("log")).unwrap();
        assert!(damage.is_empty());
        let mut open = Open::default();
        for (number, rows) in nodes.iter().enumerate() {
            for epoch in 1..3 {
                let is_there = |row: &Row| row.place == Place::Log(epoch) || epoch == 1 && row.is_twice;
                hand_over(&intake, number, epoch, &blocks_of(rows, is_there), shift);
                for row in blocks_of(rows, is_there).into_iter().flatten() {
                    enter(&mut model, number, row);
                }
                if number % 2 == 0 {
                    log.commit().unwrap();
                }
            }
            if let Some(rows) = blocks_of(rows, |row| row.place == Place::Open).first() {
                rows.iter().for_each(|row| enter(&mut model, number, row));
                let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
                open.0.insert(node(number), block(rows, &mut encoder, 0));
            }
        }
        let reader = RangeReader::new(files.clone(), Some(log.view()), Arc::new(open));
        World { files, reader, model, log, _labels: held, metric: None }
    }

    /// Turns the blocks of the log that are in none into bundles.
    fn bundle(&self) {
        let mut bundler = self.log.bundler();
        bundler.least(1);
        while bundler.make().unwrap() > 0 {}
    }

    fn patterns(&self) -> Vec<Pattern> {
        vec![self.metric.map_or_else(Pattern::everything, |metric| Pattern::new(metric).unwrap())]
    }

    fn ask(&self, from: u64, to: u64, shape: RangeShape) -> (Vec<(usize, Key, RangeContent)>, Option<Nanos>) {
        let patterns = self.patterns();
        let request = RangeRequest { patterns, from: Nanos(from), to: Nanos(to), shape };
        let mut answer = self.reader.range(request).unwrap();
        let mut parts = Vec::new();
        while let Some(part) = answer.next().unwrap() {
            let number = part.node.as_str().trim_start_matches("node").parse().unwrap();
            parts.push((part.step, number, Key::of(&part.series), part.content));
        }
        assert_eq!(answer.damage(), [""; 0]);
        // Steps of one hour come node after node.
        let order = |(step, number, key, _): &(Nanos, usize, Key, RangeContent)| {
            (step.0 / HOUR, *number, *step, key.metric.clone())
        };
        let order: Vec<_> = parts.iter().map(order).collect();
        assert!(order.is_sorted(), "{order:?}");
        (parts.into_iter().map(|(_, number, key, content)| (number, key, content)).collect(), answer.width())
    }

    fn check(&self, from: u64, to: u64, points: u32) {
        self.check_rows(from, to, RangeShape::Rows);
        self.check_rows(from, to, RangeShape::Steps(points as usize));
        self.check_columns(from, to, points as usize);
        self.check_steps(from, to, points as usize);
        self.check_newest(from, to);
        self.check_points(from, to, points);
    }

    /// What the map has from `from` on and before `to`, by series.
    fn within(&self, from: u64, to: u64) -> HashMap<(usize, Key), Vec<(u64, Reading)>> {
        let is_asked = |key: &Key| self.metric.is_none_or(|metric| *key.metric == *metric);
        let asked = self.model.iter().filter(|((_, key), _)| is_asked(key));
        let series = asked.map(|(key, times)| {
            (key.clone(), times.range(from..to).map(|(time, reading)| (*time, *reading)).collect::<Vec<_>>())
        });
        series.filter(|(_, readings)| !readings.is_empty()).collect()
    }

    fn check_rows(&self, from: u64, to: u64, shape: RangeShape) {
        let mut found: HashMap<(usize, Key), Vec<(u64, Reading)>> = HashMap::new();
        for (number, key, content) in self.ask(from, to, shape).0 {
            let RangeContent::Readings(readings) = content else { panic!("rows were asked for") };
            for (stamp, reading) in readings {
                assert_eq!(stamp.real_offset, OFFSET);
                found.entry((number, key.clone())).or_default().push((stamp.real().0, reading));
            }
        }
        assert_eq!(found, self.within(from, to));
    }

    /// Columns have the same readings, and all of one step share their times.
    fn check_columns(&self, from: u64, to: u64, readings_max: usize) {
        let mut found: HashMap<(usize, Key), Vec<(u64, Reading)>> = HashMap::new();
        for (number, key, content) in self.ask(from, to, RangeShape::Columns(readings_max)).0 {
            let RangeContent::Column(column) = content else { panic!("columns were asked for") };
            assert_eq!(column.readings().count(), column.count());
            let readings = column.readings().map(|(time, reading)| (time.0, reading));
            found.entry((number, key)).or_default().extend(readings);
        }
        assert_eq!(found, self.within(from, to));
    }

    /// A step has at most this many readings of a node, or one row.
    fn check_steps(&self, from: u64, to: u64, readings_max: usize) {
        let (patterns, shape) = (self.patterns(), RangeShape::Steps(readings_max));
        let request = RangeRequest { patterns, from: Nanos(from), to: Nanos(to), shape };
        let mut answer = self.reader.range(request).unwrap();
        let mut steps: HashMap<(String, Nanos), Vec<Vec<u64>>> = HashMap::new();
        while let Some(part) = answer.next().unwrap() {
            let RangeContent::Readings(readings) = part.content else { panic!("readings were asked for") };
            let times = readings.iter().map(|(stamp, _)| stamp.real().0).collect();
            steps.entry((part.node.to_string(), part.step)).or_default().push(times);
        }
        for (step, parts) in steps {
            let readings: usize = parts.iter().map(Vec::len).sum();
            let rows: BTreeSet<u64> = parts.into_iter().flatten().collect();
            assert!(
                readings <= readings_max || rows.len() == 1,
                "{step:?}: {readings} readings, {} rows",
                rows.len()
            );
        }
    }

    fn check_newest(&self, from: u64, to: u64) {
        let mut found = HashMap::new();
        for (number, key, content) in self.ask(from, to, RangeShape::Newest).0 {
            let RangeContent::Readings(readings) = content else { panic!("readings were asked for") };
            let [(stamp, reading)] = &readings[..] else { panic!("{readings:?}") };
            assert!(found.insert((number, key), (stamp.real().0, *reading)).is_none(), "twice");
        }
        let newest: HashMap<_, _> = self
            .within(from, to)
            .into_iter()
            .map(|(key, readings)| (key, *readings.last().unwrap()))
            .collect();
        assert_eq!(found, newest);
    }

    fn check_points(&self, from: u64, to: u64, points: u32) {
        let (parts, width) = self.ask(from, to, RangeShape::Points(points));
        let width = width.unwrap().0;
        let begins: BTreeSet<u64> =
            parts.iter().flat_map(|(_, _, content)| points_of(content)).map(|it| it.begin.0).collect();
        let first = begins.first().copied().unwrap_or(from);
        // The bucket in which the question begins.
        let origin = first - (first - from.min(first)).div_ceil(width) * width;
        assert!(
            origin <= from && to <= origin + width * u64::from(points),
            "{points} of {width} from {origin}"
        );
        let found: HashMap<(usize, Key), Vec<String>> = parts
            .iter()
            .map(|(number, key, content)| {
                ((*number, key.clone()), points_of(content).iter().map(shown).collect())
            })
            .collect();
        let mut expected: HashMap<(usize, Key), Vec<String>> = HashMap::new();
        for ((number, key), readings) in self.within(from, to) {
            let valued: Vec<(u64, u64)> = readings
                .iter()
                .filter(|(_, reading)| matches!(reading, Reading::Present(_) | Reading::Labels(_)))
                .map(|(time, reading)| (*time, reading.bits()))
                .collect();
            let buckets = valued.chunk_by(|one, two| (one.0 - origin) / width == (two.0 - origin) / width);
            let points: Vec<String> =
                buckets.map(|values| shown(&bucket(key.format, origin, width, values))).collect();
            if !points.is_empty() {
                expected.insert((number, key), points);
            }
        }
        assert_eq!(found.keys().collect::<HashSet<_>>(), expected.keys().collect::<HashSet<_>>());
        for (key, expected) in &expected {
            assert_eq!(&found[key], expected, "{key:?} {from}..{to} in {width} from {origin}");
        }
    }
}

fn hand_over(intake: &Intake, number: usize, epoch: u64, blocks: &[Vec<&Row>], shift: i64) {
    let lane = intake.lane(&node(number), epoch);
    let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
    blocks.iter().for_each(|rows| intake.block(&lane, block(rows, &mut encoder, shift)));
}

impl Files {
    /// Adds an hour to the roll-ups.
    fn roll_up(&self, folder: &Path, hour: u64, rows: &Arc<ColumnFile>) {
        let path = |name: &str| -> PathBuf { folder.join(format!("{hour}.{name}.col")) };
        roll_up(&path("minute"), &[open(rows.path())], Nanos(MINUTE)).unwrap();
        roll_up(&path("hour"), &[open(&path("minute"))], Nanos(HOUR)).unwrap();
        self.minutes.lock().unwrap().push(Arc::new(open(&path("minute"))));
        self.hours.lock().unwrap().push(Arc::new(open(&path("hour"))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_answer_is_that_of_a_map_in_memory(
        nodes in prop::collection::vec(rows(), 1..4),
        settled in any::<u8>(),
        shift in prop_oneof![Just(0i64), Just(7_000_000_000), Just(-90_000_000_000)],
        questions in prop::collection::vec((0..HOURS * 3_600, 1..HOURS * 3_600, 1u32..300), 1..4),
        metric in prop::option::of(prop::sample::select(METRICS.to_vec())),
        (is_bundled, is_looking) in any::<(bool, bool)>(),
        case in any::<u32>(),
    ) {
        let folder = folder(&format!("range-{case}"));
        let mut world = World::of(&folder, &nodes, settled, shift);
        world.metric = metric;
        if is_bundled {
            world.bundle();
        }
        if is_looking {
            world.reader = world.reader.clone().looking_ahead();
        }
        let end = BEGIN + HOURS * HOUR;
        for (from, span, points) in questions {
            let from = BEGIN + from * SECOND;
            world.check(from, from + span * SECOND, points);
            // From a row on, and to a row.
            if let Some(row) = nodes[0].first() {
                world.check(row.time, row.time + span * SECOND, points);
                world.check(BEGIN - 5, row.time.max(BEGIN), points);
            }
        }
        for points in [1, 3, 4, 240, 777] {
            world.check_points(BEGIN, end, points);
            world.check_points(BEGIN + MINUTE, end - MINUTE, points);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// A row of node 0 in an hour's file.
fn filed(time: u64) -> Row {
    Row { time: BEGIN + time, generation: 0, seed: 5, place: Place::File(0), is_twice: false }
}

fn request(shape: RangeShape) -> RangeRequest {
    let patterns = vec![Pattern::new("test.gauge").unwrap()];
    RangeRequest { patterns, from: Nanos(BEGIN), to: Nanos(BEGIN + HOURS * HOUR), shape }
}

/// All that is left of an answer: the number of readings or points of each part.
fn rest(answer: &mut dyn RangeAnswer) -> Result<Vec<usize>, QueryError> {
    let mut lengths = Vec::new();
    while let Some(part) = answer.next()? {
        lengths.push(part.content.count());
    }
    Ok(lengths)
}

#[test]
fn time_of_which_only_a_roll_up_is_left_is_answered_by_that() {
    let folder = folder("range-expired");
    let rows: Vec<Row> = [0, 30, 61, 150, 3_599].map(|second| filed(second * SECOND)).into();
    let world = World::of(&folder, &[rows], 0xff, 0);
    world.files.rows.lock().unwrap().clear();
    assert_eq!(rest(&mut *world.reader.range(request(RangeShape::Rows)).unwrap()), Ok(vec![]));
    // However short the points are that are asked for, each minute is one.
    for points in [600, 240] {
        let mut answer = world.reader.range(request(RangeShape::Points(points))).unwrap();
        assert_eq!(rest(&mut *answer), Ok(vec![4]), "{points}");
    }
    let RangeRequest { patterns, .. } = request(RangeShape::Newest);
    let (from, to) = (Nanos(BEGIN), Nanos(BEGIN + 140 * SECOND));
    let newest = RangeRequest { patterns, from, to, shape: RangeShape::Newest };
    let part = world.reader.range(newest).unwrap().next().unwrap().unwrap();
    let RangeContent::Readings(readings) = part.content else { panic!() };
    assert_eq!(readings[0].0.real(), Nanos(BEGIN + 61 * SECOND), "the minute that ends before it");
}

#[test]
fn a_newest_reading_that_is_days_old_comes_out_of_roll_ups_and_of_the_hours_that_these_lack() {
    let folder = folder("range-newest-old");
    // Roll-ups have the first hour; the third one has late rows, which they do not have.
    let late = Row { place: Place::File(1), ..filed(2 * HOUR + 5 * SECOND) };
    let rows = vec![filed(10 * SECOND), filed(100 * SECOND), late];
    let world = World::of(&folder, &[rows], 0xff, 0);
    let newest = || {
        let request = RangeRequest { to: Nanos(BEGIN + 40 * HOUR), ..request(RangeShape::Newest) };
        let part = world.reader.range(request).unwrap().next().unwrap().unwrap();
        let RangeContent::Readings(readings) = part.content else { panic!() };
        readings[0].0.real().0 - BEGIN
    };
    {
        let mut rows = world.files.rows.lock().unwrap();
        // The last hours have nothing of it, and nobody opens the first one.
        rows.extend((3..40).map(|hour| (BEGIN + hour * HOUR, (true, Vec::new()))));
        rows.get_mut(&BEGIN).unwrap().1.clear();
    }
    assert_eq!(newest(), 2 * HOUR + 5 * SECOND);
    world.files.rows.lock().unwrap().remove(&(BEGIN + 2 * HOUR));
    assert_eq!(newest(), 100 * SECOND);
}

#[test]
fn the_newest_readings_are_found_without_reading_what_is_older() {
    let folder = folder("range-newest-last");
    let rows: Vec<Row> =
        (0..40).map(|second| Row { place: Place::Log(1), ..filed(second * SECOND) }).collect();
    let files = (0..3).map(|hour| Row { place: Place::File(0), ..filed(hour * HOUR) });
    let world = World::of(&folder, &[rows.into_iter().chain(files).collect()], 0xff, 0);
    let log = folder.join("log/0000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    // The blocks of rows 0 to 8, 9 to 17 and so on: all but the last are damaged.
    let blocks: Vec<usize> = (8..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"khzB")).collect();
    assert_eq!(blocks.len(), 5);
    blocks[..4].iter().for_each(|at| bytes[at + HEADER_BYTES] ^= 0xff);
    std::fs::write(&log, bytes).unwrap();
    let newest = |patterns: &str| {
        let patterns = vec![Pattern::new(patterns).unwrap()];
        let to = Nanos(BEGIN + HOUR);
        let request = RangeRequest { patterns, from: Nanos(BEGIN), to, shape: RangeShape::Newest };
        let mut answer = world.reader.range(request).unwrap();
        let part = answer.next().unwrap().unwrap();
        let RangeContent::Readings(readings) = part.content else { panic!() };
        assert_eq!(answer.damage(), [""; 0]);
        readings[0].0.real().0 - BEGIN
    };
    assert_eq!(newest("test.gauge"), 39 * SECOND);
}

#[test]
fn a_bucket_in_which_a_metric_changed_its_type_has_all_values_of_the_others() {
    let folder = folder("range-types");
    let rows = [(30, 0), (90, 1), (150, 0), (3_000, 1)];
    let rows = rows.map(|(second, generation)| Row { generation, ..filed(second * SECOND) }).into();
    let world = World::of(&folder, &[rows], 0xff, 0);
    world.check_points(BEGIN, BEGIN + HOUR, 1);
    world.files.rows.lock().unwrap().clear();
    let mut request = request(RangeShape::Points(1));
    request.patterns = vec![Pattern::new("test.signed").unwrap()];
    let RangeContent::Points(points) = world.reader.range(request).unwrap().next().unwrap().unwrap().content
    else {
        panic!()
    };
    assert_eq!(points[0].count, 4);
}

#[test]
fn rows_that_go_from_the_log_into_a_file_meanwhile_are_not_missed() {
    let folder = folder("range-moving");
    let rows = |place| [10, 20].map(|second| Row { place, ..filed(second * SECOND) }).to_vec();
    // Node 1 has its rows in the log when the answer begins, and in a file when it gets there.
    let later = World::of(&folder, &[rows(Place::File(0)), rows(Place::File(0))], 0, 0);
    let now = World::of(&folder.join("log"), &[rows(Place::File(0)), Vec::new()], 0, 0);
    for shape in [RangeShape::Rows, RangeShape::Points(4), RangeShape::Newest] {
        now.files.version.store(0, Ordering::Relaxed);
        let mut request = request(shape);
        request.patterns = vec![Pattern::new("node[0-1]:test.gauge").unwrap()];
        let mut answer = now.reader.range(request).unwrap();
        let first = answer.next().unwrap().unwrap();
        assert_eq!(first.node, node(0));
        let before =
            std::mem::replace(&mut *now.files.rows.lock().unwrap(), later.files.rows.lock().unwrap().clone());
        now.files.version.store(1, Ordering::Relaxed);
        let second = answer.next().unwrap().unwrap();
        assert_eq!((second.node, second.content), (node(1), first.content), "{shape:?}");
        *now.files.rows.lock().unwrap() = before;
    }
}

#[test]
fn a_thousand_small_queries_fit_at_a_time() {
    let folder = folder("range-many");
    let world = World::of(&folder, &[vec![filed(SECOND)]], 0, 0);
    let reader = world.reader.clone().with_limits(Budget::new(RANGE_BYTES, Arc::default()), 150);
    let shapes = [RangeShape::Rows, RangeShape::Points(1), RangeShape::Newest];
    let mut answers: Vec<_> =
        shapes.iter().cycle().take(1_000).map(|it| reader.range(request(*it)).unwrap()).collect();
    assert!(answers.iter_mut().all(|answer| rest(&mut **answer) == Ok(vec![1])));
    let many = RangeShape::Points(1 << 20);
    assert!(matches!(reader.range(request(many)).err(), Some(QueryError::Full { .. })), "buckets count");
}

#[test]
fn beyond_the_limits_a_query_is_refused_and_says_what_to_do() {
    let folder = folder("range-limits");
    let rows: Vec<Row> = (0..100).map(|second| filed(second * SECOND)).collect();
    let world = World::of(&folder, &[rows], 0, 0);
    let held = Arc::new(AtomicU64::new(0));
    // Three fit, and no row.
    let points = 9 * size_of::<RangePoint>() as u64;
    let budget = Budget::new(ByteSize(3 * RANGE_QUERY_BYTES + points), held.clone());
    let reader = world.reader.clone().with_limits(budget, 150);
    let (mut one, two) = (
        reader.range(request(RangeShape::Rows)).unwrap(),
        reader.range(request(RangeShape::Newest)).unwrap(),
    );
    let three = reader.range(request(RangeShape::Points(9))).unwrap();
    let refused = reader.range(request(RangeShape::Rows)).err();
    assert!(matches!(refused, Some(QueryError::Full { .. })), "{refused:?}");
    let refused = one.next().err();
    assert!(matches!(refused, Some(QueryError::Full { .. })), "there is room for no row: {refused:?}");
    drop((one, two, three));
    assert_eq!(held.load(Ordering::Relaxed), 0);
    let mut request = request(RangeShape::Rows);
    request.patterns = vec![Pattern::new("test.*").unwrap()];
    let refused = rest(&mut *reader.range(request).unwrap()).unwrap_err();
    assert_eq!(refused, QueryError::RangeTooLarge { limit: 150 });
    assert!(refused.to_string().contains("150 readings; ask for fewer"), "{refused}");
    let fine = RangeRequest { from: Nanos(0), ..self::request(RangeShape::Points(u32::MAX)) };
    let refused = rest(&mut *reader.range(fine).unwrap()).unwrap_err();
    assert_eq!(refused, QueryError::RangeTooFine { limit: 1 << 20 });
    assert!(refused.to_string().contains("1048576 points of a series; ask for fewer"), "{refused}");
    let backwards = RangeRequest { from: Nanos(7), to: Nanos(7), ..self::request(RangeShape::Rows) };
    assert_eq!(reader.range(backwards).err(), Some(QueryError::RangeBackwards));
}
