//! Decodes only a few slots of each row, for a reader that needs one series of a block with a thousand. It reads no byte of
//! a row after the last wanted slot, so it finds less damage than a [`crate::Decoder`]: it checks only the length of skipped
//! bytes.

use khz_model::Stamp;
use khz_model::reading::LABELS_STATE;

use crate::decode::Step;
use crate::encode::KEY;
use crate::label_cells::LabelCells;
use crate::run::{RUN_WORTH, Run};
use crate::walk::Walk;
use crate::{BlockError, varint};

/// The wanted slots of the current row of one lane.
#[derive(Debug, Default)]
pub struct Picker {
    walk: Walk,
    row: Row,
}

/// The readings of the wanted slots.
#[derive(Debug, Default)]
struct Row {
    /// In their order.
    wanted: Vec<u32>,
    /// One for each wanted slot that the block has.
    values: Vec<u64>,
    states: Vec<u8>,
    labels: LabelCells,
}

impl Picker {
    /// A reader of these slots, before its first byte; the first bytes must be a header.
    pub fn new(mut wanted: Vec<u32>) -> Self {
        wanted.sort_unstable();
        wanted.dedup();
        Picker { row: Row { wanted, ..Row::default() }, ..Picker::default() }
    }

    /// [`khz_model::Reading::bits`] of the wanted slots, in their order; fewer where the block does not have the last ones.
    pub fn values(&self) -> &[u64] {
        &self.row.values
    }

    /// [`khz_model::Reading::state`] of the same slots.
    pub fn states(&self) -> &[u8] {
        &self.row.states
    }

    /// When the current row was gathered.
    pub fn stamp(&self) -> Stamp {
        self.walk.stamp
    }

    /// Takes the next header or row from the start of `bytes`. After an error it needs a header.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, BlockError> {
        let Picker { walk, row } = self;
        walk.step(bytes, |kind, slots, entries| match kind {
            KEY => row.key(slots, entries),
            _ => row.delta(entries),
        })
    }
}

impl Row {
    fn key(&mut self, slots: usize, mut entries: &[u8]) -> Option<()> {
        let there = self.wanted.partition_point(|&slot| (slot as usize) < slots);
        self.values.resize(there, 0);
        self.states.resize(there, 0);
        let (wanted, states) = (&self.wanted, &self.states);
        // Labels of slots that have others now, or none, are kept no longer than their block.
        self.labels.retain(|slot| {
            let place = wanted.binary_search_by_key(&slot, |&wanted| wanted as usize);
            place.is_ok_and(|place| states.get(place) == Some(&LABELS_STATE))
        });
        let mut slot = 0;
        for place in 0..self.values.len() {
            while slot < self.wanted[place] {
                entries = skip(entries)?;
                slot += 1;
            }
            entries = self.restate(place, entries)?;
            slot += 1;
        }
        Some(())
    }

    fn delta(&mut self, entries: &[u8]) -> Option<()> {
        let (mut left, mut entries) = varint::get(entries)?;
        let (mut next, mut place) = (0usize, 0);
        while left > 0 {
            let wanted = self.wanted.get(place).map_or(0, |&wanted| wanted as usize);
            if wanted > next + RUN_WORTH {
                let run = Run::before(wanted, next, left, entries);
                (next, left, entries) = (run.next, run.left, run.entries);
                if left == 0 {
                    break;
                }
            }
            left -= 1;
            let (tag, rest) = varint::get(entries)?;
            let slot = usize::try_from(tag / 2).ok()?.checked_add(next)?;
            while self.wanted.get(place).is_some_and(|&wanted| (wanted as usize) < slot) {
                place += 1;
            }
            if place >= self.values.len() {
                return Some(());
            }
            let is_wanted = self.wanted[place] as usize == slot;
            entries = match (tag % 2 == 0, is_wanted) {
                (true, true) => {
                    let (folded, rest) = varint::get(rest)?;
                    self.values[place] = self.values[place].wrapping_add(varint::unzigzag(folded));
                    rest
                }
                (true, false) => varint::get(rest)?.1,
                (false, true) => self.restate(place, rest)?,
                (false, false) => skip(rest)?,
            };
            next = slot + 1;
        }
        Some(())
    }

    fn restate<'a>(&mut self, place: usize, entries: &'a [u8]) -> Option<&'a [u8]> {
        let (&state, rest) = entries.split_first()?;
        let (value, rest) = match state {
            0 => varint::get(rest)?,
            LABELS_STATE => self.labels.take(self.wanted[place] as usize, rest)?,
            _ => (0, rest),
        };
        (self.states[place], self.values[place]) = (state, value);
        Some(rest)
    }
}

/// Skips a state, and what belongs to it.
#[inline]
fn skip(entries: &[u8]) -> Option<&[u8]> {
    let (&state, rest) = entries.split_first()?;
    match state {
        0 => Some(varint::get(rest)?.1),
        LABELS_STATE => {
            let (length, rest) = varint::get(rest)?;
            rest.get(usize::try_from(length).ok()?..)
        }
        _ => Some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Encoder};
    use khz_model::{Labels, Nanos};
    use proptest::prelude::*;

    type Rows = Vec<Vec<(u8, u64)>>;

    fn cell() -> impl Strategy<Value = (u8, u64)> {
        prop_oneof![
            4 => (Just(0u8), 0u64..1_000),
            1 => (Just(0u8), any::<u64>()),
            1 => (Just(LABELS_STATE), 0u64..3),
            1 => ((1u8..=255).prop_filter("labels have a text", |state| *state != LABELS_STATE), Just(0u64)),
        ]
    }

    fn rows() -> impl Strategy<Value = Rows> {
        (1usize..30).prop_flat_map(|slots| prop::collection::vec(prop::collection::vec(cell(), slots), 1..12))
    }

    /// The rows as a block; labels are numbered from 0 to 2.
    fn encode(rows: &Rows) -> (Vec<u8>, Vec<Labels>) {
        let labels = |n: u64| Labels::new([("name", &*n.to_string())]).unwrap();
        let held: Vec<Labels> = (0..3).map(labels).collect();
        let cell = |(state, bits): (u8, u64)| match state {
            LABELS_STATE => (state, held[bits as usize].number()),
            _ => (state, bits),
        };
        let (mut encoder, mut bytes) = (Encoder::new(3, 1, Nanos::from_millis(1)), Vec::new());
        for (n, row) in rows.iter().enumerate() {
            let stamp = Stamp { boot: Nanos(1_000 * n as u64 + 7), real_offset: -5 };
            match n {
                0 => encoder.key_row(stamp, row.len(), |slot| cell(row[slot]), &mut bytes),
                _ => encoder.delta_row(stamp, 0..row.len(), |slot| cell(row[slot]), &mut bytes),
            }
        }
        encoder.close();
        (bytes, held)
    }

    proptest! {
        #[test]
        fn picked_slots_are_those_of_the_decoder(
            blocks in prop::collection::vec(rows(), 1..3),
            wanted in prop::collection::vec(0u32..32, 0..8),
        ) {
            let (mut decoder, mut picker) = (Decoder::new(), Picker::new(wanted.clone()));
            let wanted: std::collections::BTreeSet<usize> = wanted.iter().map(|&slot| slot as usize).collect();
            for rows in &blocks {
                let (bytes, _held) = encode(rows);
                let mut at = 0;
                while at < bytes.len() {
                    let step = decoder.step(&bytes[at..]);
                    prop_assert_eq!(&picker.step(&bytes[at..]), &step);
                    let Ok(Step::Header(length) | Step::Row(length)) = step else { panic!("{step:?}") };
                    if let Ok(Step::Row(_)) = step {
                        let slots = wanted.iter().filter(|slot| **slot < decoder.slots());
                        let cells: Vec<(u8, u64)> =
                            slots.map(|&slot| (decoder.states()[slot], decoder.values()[slot])).collect();
                        let picked: Vec<(u8, u64)> =
                            picker.states().iter().copied().zip(picker.values().iter().copied()).collect();
                        prop_assert_eq!(picked, cells);
                        prop_assert_eq!(picker.stamp(), decoder.stamp());
                    }
                    at += length;
                }
            }
        }

        #[test]
        fn damaged_bytes_never_panic(
            rows in rows(),
            wanted in prop::collection::vec(0u32..32, 0..8),
            hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let (mut bytes, _held) = encode(&rows);
            for (at, byte) in hits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let (mut picker, mut at) = (Picker::new(wanted), 0);
            while let Ok(Step::Header(length) | Step::Row(length)) = picker.step(&bytes[at..]) {
                at += length;
            }
        }
    }
}
