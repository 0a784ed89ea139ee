//! A reel: a recording at one rate, with its rows encoded once for all nodes that play it; nodes differ only
//! in their key rows. It plays in an endless loop: each loop adds to a counter what the counter gained in one loop (`growth`),
//! so that it goes back only where it goes back in the recording. Knows nothing of nodes.

use std::cell::RefCell;
use std::sync::Arc;

use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Nanos, Series, Stamp};

use crate::recording::{Recording, has_value};
use crate::variation::{Variation, Vary, vary};

/// A recording at one rate. Row 0 is the recording's first row, which returns every [`Reel::rows`] rows.
#[derive(Debug)]
pub struct Reel {
    /// Time between two rows.
    pub period: Nanos,
    /// The schema as bytes.
    pub schema: Vec<u8>,
    recording: Arc<Recording>,
    /// Rows of one loop.
    rows: u64,
    /// The delta rows of one loop. The last one leads from the last recorded row to the first.
    bytes: Vec<u8>,
    /// Where each delta row begins, and where the last one ends.
    starts: Vec<u32>,
    /// What each slot gains in one loop.
    growth: Vec<u64>,
    vary: Vec<Vary>,
    /// Encodes key rows; kept to reuse its memory.
    encoder: RefCell<Encoder>,
}

impl Reel {
    /// The recording with one row every `period`. At a higher rate than recorded, counters go in a straight
    /// line from row to row and gauges jump; at a lower rate, rows are left out.
    pub fn new(recording: Arc<Recording>, period: Nanos) -> Self {
        let mut reel = Reel::unencoded(recording, period);
        reel.encode();
        reel
    }

    /// The same without the bytes of rows: to ask it for readings only.
    pub fn unencoded(recording: Arc<Recording>, period: Nanos) -> Self {
        let length = recording.rows() as u64 * recording.period.0;
        Reel {
            period,
            schema: schema(&recording),
            rows: (length / period.0.max(1)).max(1),
            bytes: Vec::new(),
            starts: vec![0],
            growth: (0..recording.slots()).map(|slot| growth(&recording, slot)).collect(),
            vary: (0..recording.slots()).map(|slot| vary(&recording, slot)).collect(),
            encoder: RefCell::new(Encoder::new(0, 1, period)),
            recording,
        }
    }

    /// The meaning of its slots.
    pub fn series(&self) -> &[Series] {
        &self.recording.series
    }

    fn encode(&mut self) {
        let mut encoder = Encoder::new(0, 1, self.period);
        let stamp = |row: u64| Stamp { boot: Nanos(row * self.period.0), real_offset: 0 };
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        encoder.key_row(stamp(0), self.slots(), |slot| self.reading(0, slot), &mut bytes);
        bytes.clear();
        for row in 1..=self.rows {
            let reading = |slot: usize| self.reading(row, slot);
            match self.changed(row) {
                Some(slots) => encoder.delta_row(stamp(row), slots.into_iter(), reading, &mut bytes),
                None => encoder.delta_row(stamp(row), 0..self.slots(), reading, &mut bytes),
            }
            starts.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        bytes.shrink_to_fit();
        (self.bytes, self.starts) = (bytes, starts);
    }

    /// The slots that may differ from the row before; `None`: any slot.
    fn changed(&self, row: u64) -> Option<Vec<usize>> {
        let time = row * self.period.0;
        let (at, part) = (time / self.recording.period.0, time % self.recording.period.0);
        let (at, last) = (at as usize, self.recording.rows() - 1);
        if self.period > self.recording.period || row == self.rows || at >= last {
            return None;
        }
        let begun = if part == 0 { &[][..] } else { self.recording.changed(at + 1) };
        let mut slots: Vec<usize> =
            self.recording.changed(at).iter().chain(begun).map(|&slot| slot as usize).collect();
        slots.sort_unstable();
        slots.dedup();
        Some(slots)
    }

    /// Slots of a row.
    pub fn slots(&self) -> usize {
        self.recording.slots()
    }

    /// Rows of one loop.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// State and value of a slot as recorded.
    fn reading(&self, row: u64, slot: usize) -> (u8, u64) {
        let value = self.within_loop(row % self.rows, slot);
        let gained = self.growth[slot].wrapping_mul(row / self.rows);
        (self.recording.states[slot], value.wrapping_add(gained))
    }

    /// State and value of a slot at a node with this variation.
    pub fn reading_at(&self, row: u64, slot: usize, variation: &Variation) -> (u8, u64) {
        let (state, value) = self.reading(row, slot);
        let more = variation.of(self.vary[slot], self.recording.value(0, slot));
        (state, if has_value(state) { value.wrapping_add(more) } else { 0 })
    }

    fn within_loop(&self, row: u64, slot: usize) -> u64 {
        let time = row * self.period.0;
        let (at, part) = ((time / self.recording.period.0) as usize, time % self.recording.period.0);
        let at = at.min(self.recording.rows() - 1);
        let value = self.recording.value(at, slot);
        if part == 0 || self.vary[slot] != Vary::Counter {
            return value;
        }
        let next = match at + 1 < self.recording.rows() {
            true => self.recording.value(at + 1, slot),
            false => self.recording.value(0, slot).wrapping_add(self.growth[slot]),
        };
        let gain =
            u128::from(next.saturating_sub(value)) * u128::from(part) / u128::from(self.recording.period.0);
        value.wrapping_add(gain as u64)
    }

    /// Appends the header and key row of a block that begins with `row`, for a node with this variation.
    /// `number` is the row's number in the lane.
    pub fn key_row(&self, (row, number): (u64, u64), stamp: Stamp, variation: &Variation, out: &mut Vec<u8>) {
        let mut encoder = self.encoder.borrow_mut();
        encoder.resume(number, 1);
        encoder.key_row(stamp, self.slots(), |slot| self.reading_at(row, slot, variation), out);
        encoder.close();
    }

    /// Bytes of the delta rows from 1 to `row`.
    pub fn bytes_until(&self, row: u64) -> u64 {
        row / self.rows * self.bytes.len() as u64 + u64::from(self.starts[(row % self.rows) as usize])
    }

    /// `length` bytes of the delta rows, beginning at byte `from` (counted as in [`Reel::bytes_until`]), in
    /// pieces.
    pub fn bytes(&self, from: u64, length: usize) -> impl Iterator<Item = &[u8]> {
        let (mut at, mut left) = ((from % self.bytes.len().max(1) as u64) as usize, length);
        std::iter::from_fn(move || {
            let piece =
                self.bytes.get(at..self.bytes.len().min(at + left)).filter(|piece| !piece.is_empty())?;
            at = (at + piece.len()) % self.bytes.len();
            left -= piece.len();
            Some(piece)
        })
    }
}

fn schema(recording: &Recording) -> Vec<u8> {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    for series in &recording.series {
        encoder.append(series, &mut bytes).expect("BUG: a schema that was decoded cannot be encoded");
    }
    bytes
}

/// What a counter gains in one loop, so that the next loop continues where this one ends.
fn growth(recording: &Recording, slot: usize) -> u64 {
    if vary(recording, slot) != Vary::Counter {
        return 0;
    }
    let (first, second) = (recording.value(0, slot), recording.value(1, slot));
    recording.value(recording.rows() - 1, slot).saturating_sub(first) + second.saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording_of;
    use khz_block::{Decoder, HEADER_BYTES, Step};

    /// Slots with the first entries of the catalogue, each with values that suit its kind.
    fn recording() -> Arc<Recording> {
        Arc::new(recording_of(60, 50, |tick, slot| (0, 1_000 + tick * slot as u64 + tick % 7)))
    }

    /// Every row of the reel, decoded from its bytes.
    fn rows(reel: &Reel, count: u64) -> Vec<Vec<u64>> {
        let mut bytes = Vec::new();
        reel.key_row((0, 0), Stamp::default(), &Variation::default(), &mut bytes);
        let length = reel.bytes_until(count - 1) as usize;
        reel.bytes(0, length).for_each(|piece| bytes.extend_from_slice(piece));
        let (mut decoder, mut at, mut rows) = (Decoder::new(), HEADER_BYTES, Vec::new());
        decoder.step(&bytes).unwrap();
        while let Step::Row(length) = decoder.step(&bytes[at..]).unwrap() {
            at += length;
            rows.push((0..decoder.slots()).map(|slot| decoder.reading(slot).unwrap().bits()).collect());
            assert_eq!(decoder.stamp().boot.0, (rows.len() as u64 - 1) * reel.period.0);
        }
        assert_eq!(at, bytes.len());
        rows
    }

    #[test]
    fn at_its_own_rate_it_plays_what_was_recorded() {
        let recording = recording();
        let reel = Reel::new(recording.clone(), recording.period);
        assert_eq!(reel.rows(), 50);
        for (row, values) in rows(&reel, 50).into_iter().enumerate() {
            assert!(values.into_iter().enumerate().all(|(slot, value)| value == recording.value(row, slot)));
        }
    }

    #[test]
    fn counters_never_go_back_in_any_loop_at_any_rate_and_gauges_repeat() {
        let recording = Arc::new(recording_of(60, 50, |tick, slot| (0, 1_000 + tick * slot as u64)));
        for period in [100, 333, 1_000, 10_000, 20_000, 130_000, 7_000_000].map(Nanos::from_micros) {
            let reel = Reel::new(recording.clone(), period);
            let rows = rows(&reel, 3 * reel.rows() + 2);
            for slot in 0..60 {
                let column: Vec<u64> = rows.iter().map(|row| row[slot]).collect();
                if reel.vary[slot] == Vary::Counter {
                    assert!(column.is_sorted(), "{period}: {column:?}");
                    assert!(slot == 0 || column.last() > column.first());
                } else {
                    let length = reel.rows() as usize;
                    assert!((length..column.len()).all(|at| column[at] == column[at - length]));
                }
            }
        }
    }

    #[test]
    fn faster_than_recorded_counters_are_even_and_meet_the_recorded_rows() {
        let recording = recording();
        let reel = Reel::new(recording.clone(), Nanos::from_millis(1));
        let slot = (0..60).rfind(|&slot| recording.is_counter(slot)).unwrap();
        let rows = rows(&reel, 500);
        for (at, row) in rows.iter().enumerate().step_by(10) {
            assert_eq!(row[slot], recording.value(at / 10, slot));
        }
        let steps: Vec<u64> = rows[..10].windows(2).map(|pair| pair[1][slot] - pair[0][slot]).collect();
        assert!(steps.iter().max().unwrap() - steps.iter().min().unwrap() <= 1, "{steps:?}");
    }

    #[test]
    fn variations_move_counters_and_memory_and_leave_their_differences() {
        let recording = recording();
        let reel = Reel::new(recording.clone(), recording.period);
        let of_seed = |seed| {
            let mut bytes = Vec::new();
            reel.key_row((7, 7), Stamp::default(), &Variation::of_seed(seed), &mut bytes);
            bytes
        };
        assert_eq!(of_seed(1), of_seed(1));
        assert!((2..20).any(|seed| of_seed(seed) != of_seed(1)));
    }
}
