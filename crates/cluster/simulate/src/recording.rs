//! A recorded workload: the readings of one real machine, row by row, as numbers. Refuses traces that are
//! damaged, too large, or empty. The reel turns rows into bytes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use khz_block::trace::{Chunk, Chunks};
use khz_block::{BlockError, Decoder, SchemaDecoder, Step};
use khz_model::metric::Unit;
use khz_model::reading::LABELS_STATE;
use khz_model::{ChannelName, Kind, Labels, Metric, Nanos, Reading, Series, ValueType};

use crate::error::SimulateError;

/// Largest trace file; a busy minute at 100 Hz has two megabytes.
const TRACE_BYTES_MAX: u64 = 256 << 20;
/// Most numbers in memory: ten minutes of a thousand slots at 100 Hz.
pub const NUMBERS_MAX: usize = 60 << 20;
/// The state of slots that are not present in every row: they are played as gone.
const GONE: u8 = Reading::Absent(khz_model::Absence::InstanceGone).state();

/// How often a node says of rules that give nothing that it judges them.
pub const QUIET: Nanos = Nanos::from_secs(60);

/// One workload.
#[derive(Debug)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// The series of the slots.
    pub series: Vec<Series>,
    /// Time between two rows.
    pub period: Nanos,
    /// The value of every slot, row by row.
    values: Vec<u64>,
    /// Each slot's state; it is the same in all rows.
    pub states: Vec<u8>,
    /// For each row the slots that differ from the row before, in order; for the first row, from the last
    /// row.
    changed: Vec<Vec<u32>>,
    /// The labels that are readings: held, so that their numbers among the values mean them.
    labels: Arc<HashSet<Labels>>,
}

impl Recording {
    /// Reads a trace file.
    pub fn read(name: &str, path: &Path) -> Result<Self, SimulateError> {
        let failed = |source| SimulateError::Read { path: path.to_owned(), source };
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > TRACE_BYTES_MAX {
            return Err(failed(std::io::Error::other(format!(
                "it has {length} bytes, more than {TRACE_BYTES_MAX}"
            ))));
        }
        Self::decode(name, path, &std::fs::read(path).map_err(failed)?)
    }

    /// Reads the bytes of a trace from this path.
    pub(crate) fn decode(name: &str, path: &Path, trace: &[u8]) -> Result<Self, SimulateError> {
        let rows =
            Rows::decode(trace).map_err(|source| SimulateError::Trace { path: path.to_owned(), source })?;
        rows.recording(name).map_err(|problem| SimulateError::Unplayable { path: path.to_owned(), problem })
    }

    /// The rows of a channel of rules of which none gives anything: the node is ready to judge.
    pub fn of_rules(channel: &ChannelName) -> Recording {
        let name = format!("{}.ready", channel.metric());
        let plain = Metric::plain(name, "khz_channel_ready", Kind::Gauge, Unit::Count);
        let metric = Arc::new(Metric { value_type: ValueType::Float, ..plain });
        let mut recording = Recording {
            name: channel.as_str().to_owned(),
            series: vec![Series { metric, instance: None }],
            period: QUIET,
            values: vec![1f64.to_bits(); 2],
            states: vec![0],
            changed: vec![Vec::new(); 2],
            labels: Arc::default(),
        };
        recording.note_changes();
        recording
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.changed.len()
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.series.len()
    }

    /// The value of a slot in a row.
    pub fn value(&self, row: usize, slot: usize) -> u64 {
        self.values[row * self.slots() + slot]
    }

    /// The slots in which a row differs from the row before.
    pub fn changed(&self, row: usize) -> &[u32] {
        &self.changed[row]
    }

    /// Whether the slot is a counter.
    pub fn is_counter(&self, slot: usize) -> bool {
        self.series[slot].metric.kind == Kind::Counter
    }

    /// How many times each slot changes.
    pub fn changes(&self) -> Vec<usize> {
        let mut changes = vec![0; self.slots()];
        for &slot in self.changed.iter().flatten() {
            changes[slot as usize] += 1;
        }
        changes
    }

    /// The recording with only these slots, in this order.
    pub fn only(&self, slots: &[usize]) -> Recording {
        let columns = |row: usize| slots.iter().map(move |&slot| self.value(row, slot));
        let mut recording = Recording {
            name: self.name.clone(),
            series: slots.iter().map(|&slot| self.series[slot].clone()).collect(),
            period: self.period,
            values: (0..self.rows()).flat_map(columns).collect(),
            states: slots.iter().map(|&slot| self.states[slot]).collect(),
            changed: Vec::new(),
            labels: self.labels.clone(),
        };
        recording.note_changes();
        recording
    }

    fn note_changes(&mut self) {
        let slots = self.slots();
        let rows: Vec<&[u64]> = self.values.chunks_exact(slots).collect();
        let differ = |row: usize| {
            let (now, before) = (rows[row], rows[(row + rows.len() - 1) % rows.len()]);
            (0..slots as u32).filter(|&slot| now[slot as usize] != before[slot as usize]).collect()
        };
        self.changed = (0..rows.len()).map(differ).collect();
    }
}

/// True for the states of readings with a value.
pub(crate) fn has_value(state: u8) -> bool {
    matches!(state, 0 | LABELS_STATE)
}

/// The contents of a trace before they are prepared for playing.
#[derive(Default)]
struct Rows {
    series: Vec<Series>,
    period: Nanos,
    rows: Vec<Row>,
    labels: HashSet<Labels>,
}

struct Row {
    boot: Nanos,
    readings: Vec<(u8, u64)>,
}

impl Rows {
    fn decode(trace: &[u8]) -> Result<Self, BlockError> {
        let (mut schema, mut decoder, mut rows) = (SchemaDecoder::new(), Decoder::new(), Rows::default());
        for chunk in Chunks::of(trace)? {
            match chunk? {
                Chunk::Schema(bytes) => schema.feed(bytes)?,
                Chunk::Block(mut bytes) => {
                    while !bytes.is_empty() {
                        match decoder.step(bytes)? {
                            Step::Header(length) => bytes = &bytes[length..],
                            Step::Row(length) => {
                                bytes = &bytes[length..];
                                rows.take(&decoder)?;
                            }
                            Step::Incomplete => break,
                        }
                    }
                }
                // Only a trace of one lane can be played.
                Chunk::Sealed(_) => {
                    return Err(BlockError::Damaged {
                        at: 0,
                        problem: "a trace of many lanes cannot be played",
                    });
                }
            }
        }
        rows.series = schema.series().to_vec();
        Ok(rows)
    }

    fn take(&mut self, decoder: &Decoder) -> Result<(), BlockError> {
        self.labels.extend((0..decoder.slots()).filter_map(|slot| decoder.reading(slot)?.labels()));
        self.period = decoder.header().map_or(self.period, |header| header.period);
        let readings: Vec<_> = (0..decoder.slots())
            .filter_map(|slot| decoder.reading(slot))
            .map(|r| (r.state(), r.bits()))
            .collect();
        if (self.rows.len() + 1) * readings.len() > NUMBERS_MAX {
            return Err(BlockError::TooMuch { at: 0, what: "numbers in a recording", limit: NUMBERS_MAX });
        }
        self.rows.push(Row { boot: decoder.stamp().boot, readings });
        Ok(())
    }

    /// Puts the rows on an even grid; a missed tick repeats the row before.
    fn recording(self, name: &str) -> Result<Recording, String> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else {
            return Err("it has no rows".into());
        };
        if self.period == Nanos(0) || self.series.len() < last.readings.len() {
            return Err("its rows do not fit its schema".into());
        }
        let tick = |row: &Row| (row.boot.since(first.boot).0 + self.period.0 / 2) / self.period.0;
        let (count, slots) = (tick(last) as usize + 1, self.series.len());
        if count < 2 || count > 2 * self.rows.len() || count * slots > NUMBERS_MAX {
            return Err(format!("{} rows over {count} ticks", self.rows.len()));
        }
        let states = (0..slots).map(|slot| self.state(slot)).collect();
        let mut values = Vec::with_capacity(count * slots);
        let mut at = 0;
        for n in 0..count as u64 {
            while self.rows.get(at + 1).is_some_and(|next| tick(next) <= n) {
                at += 1;
            }
            let readings = &self.rows[at].readings;
            values.extend((0..slots).map(|slot| readings.get(slot).map_or(0, |&(_, value)| value)));
        }
        let (series, period, labels) = (self.series, self.period, Arc::new(self.labels));
        let (name, changed) = (name.to_owned(), Vec::new());
        let mut recording = Recording { name, series, period, values, states, changed, labels };
        recording.hush_absent();
        recording.note_changes();
        Ok(recording)
    }

    /// A slot's state, if it is the same in all rows.
    fn state(&self, slot: usize) -> u8 {
        let state = |row: &Row| row.readings.get(slot).map_or(GONE, |&(state, _)| state);
        let first = self.rows.first().map_or(GONE, state);
        if self.rows.iter().all(|row| state(row) == first) { first } else { GONE }
    }
}

impl Recording {
    /// Sets the value of readings without a value to 0, as blocks do.
    fn hush_absent(&mut self) {
        let states = &self.states;
        for row in self.values.chunks_exact_mut(states.len()) {
            for (value, _) in row.iter_mut().zip(states).filter(|(_, state)| !has_value(**state)) {
                *value = 0;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder, trace};
    use khz_model::Stamp;

    /// A made-up trace: for each row its tick and the slots' readings.
    pub fn trace_of(slots: usize, ticks: &[u64], reading: impl Fn(u64, usize) -> (u8, u64)) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace::begin(&mut bytes);
        let (mut schema, mut schema_bytes) = (SchemaEncoder::new(), Vec::new());
        for metric in
            khz_parse::catalogue().into_iter().filter(|metric| metric.instances.is_none()).take(slots)
        {
            schema.append(&Series { metric, instance: None }, &mut schema_bytes).unwrap();
        }
        trace::put_schema(&schema_bytes, &mut bytes);
        let mut encoder = Encoder::new(0, 1, Nanos::from_millis(10));
        let mut block = Vec::new();
        for (n, &tick) in ticks.iter().enumerate() {
            // Real ticks come a little late.
            let stamp =
                Stamp { boot: Nanos(5_000_000_000 + tick * 10_000_000 + tick % 3 * 70_000), real_offset: 0 };
            match n {
                0 => encoder.key_row(stamp, schema.len(), |slot| reading(tick, slot), &mut block),
                _ => encoder.delta_row(stamp, 0..schema.len(), |slot| reading(tick, slot), &mut block),
            }
        }
        let header = encoder.close().unwrap().to_bytes();
        block[..HEADER_BYTES].copy_from_slice(&header);
        trace::put_block(&block, &mut bytes);
        bytes
    }

    /// The recording of a made-up trace.
    pub fn recording_of(slots: usize, rows: u64, reading: impl Fn(u64, usize) -> (u8, u64)) -> Recording {
        let ticks: Vec<u64> = (0..rows).collect();
        Rows::decode(&trace_of(slots, &ticks, reading)).unwrap().recording("made-up").unwrap()
    }

    #[test]
    fn rows_are_on_their_ticks_and_a_missed_tick_repeats_the_row_before() {
        let trace = trace_of(3, &[0, 1, 2, 5, 6], |tick, slot| (0, tick * 100 + slot as u64));
        let recording = Rows::decode(&trace).unwrap().recording("x").unwrap();
        let column: Vec<u64> = (0..recording.rows()).map(|row| recording.value(row, 1)).collect();
        assert_eq!(column, [1, 101, 201, 201, 201, 501, 601]);
        assert_eq!(recording.changed(3), [] as [u32; 0]);
        assert_eq!(recording.changed(5), [0, 1, 2]);
        assert_eq!(recording.changed(0), [0, 1, 2], "against the last row");
        assert_eq!(recording.changes(), [5, 5, 5]);
    }

    #[test]
    fn a_slot_that_came_or_went_is_played_as_gone() {
        let recording = recording_of(3, 10, |tick, slot| match slot {
            1 if tick < 4 => (1, 0),
            2 => (2, 0),
            _ => (0, tick),
        });
        assert_eq!(recording.states, [0, GONE, 2]);
        assert!((0..10).all(|row| recording.value(row, 1) == 0));
    }

    #[test]
    fn some_slots_of_a_recording_are_a_recording() {
        let recording = recording_of(4, 5, |tick, slot| (0, tick * slot as u64));
        let two = recording.only(&[3, 0]);
        assert_eq!((two.slots(), two.value(4, 0), two.value(4, 1)), (2, 12, 0));
        assert_eq!(two.changed(1), [0]);
        assert_eq!(two.series[0].to_string(), recording.series[3].to_string());
    }

    #[test]
    fn damaged_and_empty_traces_are_refused() {
        let whole = trace_of(3, &[0, 1, 2], |tick, _| (0, tick));
        for cut in 0..whole.len() {
            let rows = Rows::decode(&whole[..cut]);
            assert!(rows.is_err() || rows.unwrap().recording("x").is_err(), "{cut}");
        }
        assert!(Rows::decode(&trace_of(3, &[0], |_, _| (0, 1))).unwrap().recording("x").is_err());
    }
}
