//! Rows for a store, a map in memory of what was handed over, and what a store says of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use khz_block::{Decoder, Encoder, Header, Step};
use khz_model::{Absence, ByteSize, Columns, Fault, Nanos, Reading, Series, Stamp, ValueType};
use khz_store::log::{Intake, LogView, LoggedBlock};
use khz_store::shelf::Shelf;
use khz_store::{Keep, Key, Store, StoreError, StoreReader};

use super::{all_series, labels, metric, node};

pub const SECOND: u64 = 1_000_000_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
/// 2026-11-23T14:00:00 UTC.
pub const BEGIN: u64 = 1_795_442_400 * SECOND;
/// All nodes booted then.
const BOOT: u64 = BEGIN - 100 * DAY;
pub const NODES: usize = 3;
pub const SCHEMAS: usize = 4;
/// The schema whose rows are those of a channel.
pub const OF_CHANNEL: usize = 3;

/// Everything, for longer than any test.
pub fn everything() -> Keep {
    let long = Nanos(4_000 * DAY);
    Keep { size: ByteSize(1 << 40), raw: long, minute: long, hour: long }
}

/// The series of a schema, each with its place among the keys. The third schema has a metric of another type.
pub fn schema(number: usize) -> Vec<(usize, Series)> {
    if number == OF_CHANNEL {
        return vec![(8, Series { metric: metric("channel.hot", ValueType::Float, 0), instance: None })];
    }
    let all = all_series();
    let count = if number == 1 { 5 } else { all.len() };
    let mut series: Vec<(usize, Series)> = all.into_iter().enumerate().take(count).collect();
    if number == 2 {
        series[3] = (7, Series { metric: metric("test.gauge", ValueType::Signed, 1), instance: None });
    }
    series
}

/// The keys of all series.
pub fn all_keys() -> Vec<Key> {
    let mut keys: Vec<Key> = schema(0).iter().map(|(_, series)| Key::of(series)).collect();
    keys.push(Key::of(&schema(2)[3].1));
    keys.push(Key::of(&schema(OF_CHANNEL)[0].1));
    keys
}

/// The reading of a series in the row with this number.
pub fn reading(place: usize, row: u64) -> Reading {
    let seed = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(place as u32 * 9);
    match (place, seed % 17) {
        (1, _) => Reading::Present(7),
        (_, 0) => Reading::Absent(Absence::InstanceGone),
        (_, 1) => Reading::Failed(Fault::Stuck),
        (0, _) => Reading::Present(row * 1_000 + seed % 600),
        (5 | 8, _) => Reading::Present(((seed % 1_000) as f64 / 8.0 - 20.0).to_bits()),
        (6, _) => labels(seed % 4),
        _ => Reading::Present((seed % 200).wrapping_sub(100)),
    }
}

/// A reading as text: the numbers of labels are this process's own.
pub fn told(reading: Reading) -> String {
    reading.labels().map_or_else(|| format!("{reading:?}"), |labels| labels.to_string())
}

/// The readings of each series of each node, by time.
pub type Readings = BTreeMap<(usize, usize), BTreeMap<u64, String>>;

/// Makes blocks of made-up rows, and remembers what is in them.
#[derive(Debug, Default)]
pub struct Nodes {
    next_row: [u64; NODES],
    /// Each row has another number, and its time ends with it, so that no two have the same.
    rows: u64,
    salt: u64,
    pub known: Readings,
}

impl Nodes {
    /// From now on the same times come again, with other readings.
    pub fn again(&mut self) {
        self.rows = 0;
        self.salt += 1_000;
    }

    /// A block of a node with rows from this time on, which is corrected by `shift` already.
    pub fn block(
        &mut self,
        number: usize,
        time: u64,
        count: u64,
        gap: u64,
        (schema_number, shift): (usize, i64),
    ) -> LoggedBlock {
        let series = schema(schema_number);
        let mut encoder = Encoder::new(0, 1 + schema_number as u32, Nanos(gap));
        encoder.resume(self.next_row[number], 1 + schema_number as u32);
        let (mut bytes, mut last) = (Vec::new(), Nanos(0));
        for row in 0..count {
            self.rows += 1;
            let (seed, salt) = (self.rows, self.salt);
            let at = time + row * gap + seed;
            let stamp =
                Stamp { boot: Nanos((at - BOOT).strict_add_signed(-shift)), real_offset: BOOT as i64 };
            last = stamp.real();
            let of_slot = |slot: usize| {
                let reading = reading(series[slot].0, seed + salt);
                (reading.state(), reading.bits())
            };
            match row {
                0 => encoder.key_row(stamp, series.len(), of_slot, &mut bytes),
                _ => encoder.delta_row(stamp, 0..series.len(), of_slot, &mut bytes),
            }
            for (place, _) in &series {
                self.known
                    .entry((number, *place))
                    .or_default()
                    .insert(at, told(reading(*place, seed + salt)));
            }
        }
        encoder.close();
        self.next_row[number] += count;
        let columns: Vec<Series> = series.into_iter().map(|(_, series)| series).collect();
        LoggedBlock {
            header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
            rows: count as u32,
            schema: Arc::new(columns) as Arc<dyn Columns>,
            schema_hash: [schema_number as u8; 16],
            bytes: Arc::new(bytes),
            last,
            shift,
        }
    }

    /// Hands over a block of rows, one each second.
    pub fn send(&mut self, intake: &Intake, number: usize, time: u64, count: u64) {
        let block = self.block(number, time, count, SECOND, (0, 0));
        hand_over(intake, number, block);
    }
}

pub fn hand_over(intake: &Intake, number: usize, block: LoggedBlock) {
    // A channel has a lane of its own.
    let epoch = if block.schema_hash[0] == OF_CHANNEL as u8 { 2 } else { 1 };
    let lane = intake.lane(&node(number), epoch);
    intake.block(&lane, block);
}

/// What log and column files say, together.
pub fn answers(shelf: &Shelf, log: &LogView) -> Readings {
    let mut found = Readings::new();
    let mut damage = Vec::new();
    // The log first: what leaves it is in column files.
    for number in 0..NODES {
        for block in log.blocks(&node(number), None, Nanos(0), Nanos(u64::MAX), &mut damage) {
            of_block(number, &block, &mut found);
        }
    }
    assert!(damage.is_empty(), "{damage:?}");
    for (series, times) in of_shelf(shelf) {
        for (time, reading) in times {
            let before = found.entry(series).or_default().insert(time, reading.clone());
            assert!(before.is_none_or(|before| before == reading));
        }
    }
    found
}

/// What column files of rows say.
pub fn of_shelf(shelf: &Shelf) -> Readings {
    let history = shelf.history(Nanos(0), Nanos(0), Nanos(u64::MAX)).unwrap();
    assert!(history.damage.is_empty(), "{:?}", history.damage);
    let mut found = Readings::new();
    for number in 0..NODES {
        for (place, key) in all_keys().iter().enumerate() {
            let mut times = BTreeMap::new();
            let each = |stamp: Stamp, reading| {
                assert!(times.insert(stamp.real().0, told(reading)).is_none(), "a row comes twice");
            };
            let (from, to) = (Nanos(0), Nanos(u64::MAX));
            let damage = history.found.range(&node(number), key, from, to, each).unwrap();
            assert!(damage.is_empty(), "{damage:?}");
            if !times.is_empty() {
                found.insert((number, place), times);
            }
        }
    }
    found
}

fn of_block(number: usize, block: &LoggedBlock, found: &mut Readings) {
    let keys = all_keys();
    let places: Vec<usize> = block
        .schema
        .series()
        .iter()
        .map(|series| keys.iter().position(|key| *key == Key::of(series)).unwrap())
        .collect();
    let (mut decoder, mut bytes) = (Decoder::new(), &block.bytes[..]);
    while let Step::Header(length) | Step::Row(length) = decoder.step(bytes).unwrap() {
        bytes = &bytes[length..];
        if decoder.next_row() == block.header.first_row {
            continue;
        }
        let time = decoder.stamp().real().0.strict_add_signed(block.shift);
        for (slot, place) in places.iter().enumerate() {
            let reading = told(decoder.reading(slot).unwrap());
            found.entry((number, *place)).or_default().insert(time, reading);
        }
    }
}

/// Does steps until nothing is left to do.
pub fn settle(store: &Store, now: u64) -> Vec<khz_store::compact::Step> {
    let mut steps = Vec::new();
    for _ in 0..10_000 {
        let tick = store.tick_compaction(Nanos(now)).unwrap();
        assert!(tick.damage.is_empty(), "{:?}", tick.damage);
        if tick.is_idle() {
            return steps;
        }
        steps.push(tick.step);
    }
    panic!("compaction never ends");
}

/// Every roll-up says what the rows say.
pub fn check_roll_ups(shelf: &Shelf, from: u64, to: u64) {
    let history = |resolution| shelf.history(Nanos(resolution), Nanos(0), Nanos(u64::MAX)).unwrap().found;
    let raw = history(0);
    for resolution in [MINUTE, HOUR] {
        let rolled = history(resolution);
        for number in 0..NODES {
            for key in all_keys() {
                // An hour adds up sums of doubles, the rows doubles. Of labels a roll-up has the last.
                let is_float = key.format.value_type == ValueType::Float;
                if key.format.value_type == ValueType::Labels || (is_float && resolution == HOUR) {
                    continue;
                }
                let buckets = |history: &khz_store::History| {
                    let (from, to, width) = (Nanos(from), Nanos(to), Nanos(resolution));
                    let answer = history.buckets(&node(number), &key, from, to, width).unwrap();
                    assert!(answer.damage.is_empty(), "{:?}", answer.damage);
                    answer.found.into_iter().map(|it| format!("{it:?}")).collect::<Vec<_>>()
                };
                assert_eq!(buckets(&rolled), buckets(&raw), "node {number} {key:?} by {resolution} ns");
            }
        }
    }
}

/// Copies a folder and what is in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = fs::copy(entry.path(), &target).unwrap(),
        }
    }
}

/// Opens a store that must be whole.
pub fn open_store(folder: &Path, keep: Keep, now: u64) -> (Store, Intake) {
    let (store, intake, damage) = Store::open(folder, keep, Nanos(now)).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    (store, intake)
}

/// What another process reads.
pub fn read_beside(folder: &Path) -> Result<Readings, StoreError> {
    let reader = StoreReader::open(folder)?;
    Ok(answers(reader.shelf(), &reader.log()))
}
