//! Bytes to rows. The decoder keeps the current row and applies one row after the other. It takes bytes as
//! they come, whole rows at a time, and refuses bytes that contradict themselves.

use khz_model::reading::LABELS_STATE;
use khz_model::{Reading, Stamp};

use crate::encode::KEY;
use crate::header::Header;
use crate::label_cells::LabelCells;
use crate::walk::Walk;
use crate::{BlockError, varint};

/// What [`Decoder::step`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A header of this many bytes begins a new block.
    Header(usize),
    /// A row of this many bytes: [`Decoder::reading`] and [`Decoder::stamp`] show it.
    Row(usize),
    /// The bytes end before the next header or row is complete.
    Incomplete,
}

/// The current row of one lane.
#[derive(Debug, Default)]
pub struct Decoder {
    walk: Walk,
    row: Row,
}

/// The readings of all slots.
#[derive(Debug, Default)]
struct Row {
    values: Vec<u64>,
    states: Vec<u8>,
    changed: Vec<u32>,
    /// The labels of the slots whose readings are labels.
    labels: LabelCells,
}

impl Decoder {
    /// A decoder before its first byte; the first bytes must be a header.
    pub fn new() -> Self {
        Self::default()
    }

    /// The header of the current block.
    pub fn header(&self) -> Option<&Header> {
        self.walk.header.as_ref()
    }

    /// The number of slots of the current block.
    pub fn slots(&self) -> usize {
        self.row.values.len()
    }

    /// The current reading of a slot, if the block has the slot.
    pub fn reading(&self, slot: usize) -> Option<Reading> {
        Some(Reading::from_parts(*self.row.states.get(slot)?, *self.row.values.get(slot)?))
    }

    /// [`Reading::bits`] of every slot of the current row.
    pub fn values(&self) -> &[u64] {
        &self.row.values
    }

    /// [`Reading::state`] of every slot of the current row.
    pub fn states(&self) -> &[u8] {
        &self.row.states
    }

    /// The slots that the last row changed (all slots after a key row).
    pub fn changed(&self) -> &[u32] {
        &self.row.changed
    }

    /// When the current row was gathered.
    pub fn stamp(&self) -> Stamp {
        self.walk.stamp
    }

    /// The number, in the lane, of the row that comes next.
    pub fn next_row(&self) -> u64 {
        self.walk.next_row
    }

    /// Takes the next header or row from the start of `bytes`. After an error it needs a header.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, BlockError> {
        let Decoder { walk, row } = self;
        walk.step(bytes, |kind, slots, entries| row.take(kind, slots, entries))
    }

    /// Decodes every whole header and row in `bytes` and returns their length: the short way to the newest
    /// row. Afterwards [`Decoder::changed`] names only the changes of the last row.
    pub fn catch_up(&mut self, bytes: &[u8]) -> Result<usize, BlockError> {
        let mut at = 0;
        while let Step::Header(length) | Step::Row(length) = self.step(&bytes[at..])? {
            at += length;
        }
        Ok(at)
    }
}

impl Row {
    fn take(&mut self, kind: u8, slots: usize, entries: &[u8]) -> Option<()> {
        self.changed.clear();
        match kind {
            KEY => self.key(slots, entries),
            _ => self.delta(entries),
        }
    }

    fn key(&mut self, slots: usize, mut entries: &[u8]) -> Option<()> {
        // Every slot takes at least one byte. More slots than bytes are damage; this check comes before any
        // memory is taken.
        if slots > entries.len() {
            return None;
        }
        self.values.resize(slots, 0);
        self.states.resize(slots, 0);
        // Labels of slots that have others now, or none, are kept no longer than their block.
        self.labels.retain(|slot| self.states.get(slot) == Some(&LABELS_STATE));
        for slot in 0..slots {
            entries = self.restate(slot, entries)?;
        }
        entries.is_empty().then_some(())
    }

    fn delta(&mut self, entries: &[u8]) -> Option<()> {
        let (count, mut entries) = varint::get(entries)?;
        let mut next = 0usize;
        for _ in 0..count {
            let (tag, rest) = varint::get(entries)?;
            let slot = usize::try_from(tag / 2).ok()?.checked_add(next)?;
            if slot >= self.values.len() {
                return None;
            }
            if tag % 2 == 0 {
                let (folded, rest) = varint::get(rest)?;
                self.values[slot] = self.values[slot].wrapping_add(varint::unzigzag(folded));
                self.changed.push(slot as u32);
                entries = rest;
            } else {
                entries = self.restate(slot, rest)?;
            }
            next = slot + 1;
        }
        entries.is_empty().then_some(())
    }

    fn restate<'a>(&mut self, slot: usize, entries: &'a [u8]) -> Option<&'a [u8]> {
        let (&state, rest) = entries.split_first()?;
        let (state, value, rest) = match state {
            0 => varint::get(rest).map(|(value, rest)| (state, value, rest))?,
            LABELS_STATE => self.labels.take(slot, rest).map(|(number, rest)| (state, number, rest))?,
            _ => (state, 0, rest),
        };
        self.states[slot] = state;
        self.values[slot] = value;
        self.changed.push(slot as u32);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, HEADER_BYTES};
    use khz_model::{Absence, Fault, Labels, Nanos};
    use proptest::prelude::*;

    type Rows = Vec<Vec<(u8, u64)>>;

    fn rows() -> impl Strategy<Value = Rows> {
        let cell = prop_oneof![
            4 => (Just(0u8), 0u64..1_000),
            1 => (Just(0u8), any::<u64>()),
            1 => ((1u8..=255).prop_filter("labels have a text", |state| *state != LABELS_STATE), Just(0u64)),
        ];
        (1usize..40).prop_flat_map(move |slots| {
            prop::collection::vec(prop::collection::vec(cell.clone(), slots), 1..12)
        })
    }

    fn encode(rows: &Rows) -> Vec<u8> {
        let mut encoder = Encoder::new(3, 1, Nanos::from_millis(1));
        let mut bytes = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let stamp = Stamp { boot: Nanos(1_000 * n as u64 + 7), real_offset: -5 };
            if n == 0 {
                encoder.key_row(stamp, row.len(), |slot| row[slot], &mut bytes);
            } else {
                encoder.delta_row(stamp, 0..row.len(), |slot| row[slot], &mut bytes);
            }
        }
        let header = encoder.close().unwrap();
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn rows_survive_the_way_to_bytes_and_back(rows in rows()) {
            let bytes = encode(&rows);
            let mut decoder = Decoder::new();
            let mut at = 0;
            let mut decoded = Vec::new();
            while at < bytes.len() {
                match decoder.step(&bytes[at..]).unwrap() {
                    Step::Header(n) => at += n,
                    Step::Row(n) => {
                        at += n;
                        prop_assert_eq!(decoder.stamp().boot.0, 1_000 * decoded.len() as u64 + 7);
                        decoded.push((0..decoder.slots()).map(|slot| (decoder.states()[slot], decoder.values()[slot])).collect::<Vec<_>>());
                    }
                    Step::Incomplete => prop_assert!(false, "cut off at {at}"),
                }
            }
            prop_assert_eq!(decoded, rows.clone());
            let (count, length, checksum) = decoder.header().unwrap().closed.unwrap();
            prop_assert_eq!((count as usize, length as usize), (rows.len(), bytes.len() - HEADER_BYTES));
            prop_assert_eq!(checksum, crc32fast::hash(&bytes[HEADER_BYTES..]));
        }

        #[test]
        fn cut_off_bytes_are_incomplete_and_nothing_more(rows in rows(), cut in 0usize..4_000) {
            let bytes = encode(&rows);
            let bytes = &bytes[..cut.min(bytes.len())];
            let mut decoder = Decoder::new();
            let mut at = 0;
            loop {
                match decoder.step(&bytes[at..]) {
                    Ok(Step::Header(n) | Step::Row(n)) => at += n,
                    Ok(Step::Incomplete) => break,
                    Err(e) => prop_assert!(false, "{e}"),
                }
            }
        }

        #[test]
        fn damaged_bytes_never_panic(rows in rows(), hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
            let mut bytes = encode(&rows);
            for (at, byte) in hits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let mut decoder = Decoder::new();
            let mut at = 0;
            while let Ok(Step::Header(n) | Step::Row(n)) = decoder.step(&bytes[at..]) {
                at += n;
            }
        }
    }

    fn labels(number: u64) -> Labels {
        let number = number.to_string();
        Labels::new([("name", "kworker/0:1=,"), ("pid", &number)]).unwrap()
    }

    /// Rows of two slots: a number, and labels or the reason why there are none.
    fn with_labels(rows: &[Option<u64>]) -> (Rows, Vec<Labels>) {
        let held: Vec<Labels> = rows.iter().map(|row| labels(row.unwrap_or(0))).collect();
        let cell = |(row, labels): (&Option<u64>, &Labels)| match row {
            None => (3, 0),
            Some(_) => (LABELS_STATE, labels.number()),
        };
        (rows.iter().zip(&held).map(|row| vec![(0, 7), cell(row)]).collect(), held)
    }

    proptest! {
        #[test]
        fn labels_survive_the_way_to_bytes_and_back_with_their_rows(
            numbers in prop::collection::vec(prop::option::of(0u64..4), 1..60),
        ) {
            let (rows, held) = with_labels(&numbers);
            let bytes = encode(&rows);
            let (mut decoder, mut at, mut decoded) = (Decoder::new(), 0, 0);
            while at < bytes.len() {
                match decoder.step(&bytes[at..]).unwrap() {
                    Step::Header(length) => at += length,
                    Step::Row(length) => {
                        at += length;
                        let reading = decoder.reading(1).unwrap();
                        prop_assert_eq!((reading.state(), reading.bits()), rows[decoded][1]);
                        prop_assert_eq!(reading.labels(), numbers[decoded].map(|_| held[decoded].clone()));
                        decoded += 1;
                    }
                    Step::Incomplete => prop_assert!(false, "cut off at {at}"),
                }
            }
            prop_assert_eq!(decoded, rows.len());
        }

        #[test]
        fn damaged_labels_never_panic(
            numbers in prop::collection::vec(prop::option::of(0u64..4), 1..40),
            hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let (rows, _held) = with_labels(&numbers);
            let mut bytes = encode(&rows);
            for (at, byte) in hits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let (mut decoder, mut at) = (Decoder::new(), 0);
            while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(&bytes[at..]) {
                at += length;
            }
        }
    }

    #[test]
    fn labels_that_do_not_change_are_written_once_a_block() {
        let [one, two] = [&[Some(1)][..], &[Some(1), Some(1)]].map(|rows| {
            let (rows, _held) = with_labels(rows);
            encode(&rows).len()
        });
        assert_eq!(two - one, 5);
    }

    #[test]
    fn labels_that_are_forgotten_are_not_gathered_yet() {
        let bytes = encode(&vec![vec![(0, 7), (LABELS_STATE, 12)]]);
        let mut decoder = Decoder::new();
        decoder.catch_up(&bytes).unwrap();
        assert_eq!(decoder.reading(1), Some(Reading::Absent(Absence::NotYet)));
    }

    #[test]
    fn the_labels_of_a_row_have_a_largest_size() {
        let large = |slot: usize| Labels::new([("a", &*format!("{slot:04000}"))]).unwrap();
        let fitting = crate::ROW_LABELS_MAX / (4_002 + 2);
        let held: Vec<Labels> = (0..fitting + 2).map(large).collect();
        let mut row: Vec<(u8, u64)> = held.iter().map(|labels| (LABELS_STATE, labels.number())).collect();
        let other = Labels::new([("b", "1")]).unwrap();
        let second: Vec<(u8, u64)> = row
            .iter()
            .enumerate()
            .map(|(slot, &cell)| if slot == 0 { (LABELS_STATE, other.number()) } else { cell })
            .collect();
        let bytes = encode(&vec![row.clone(), second.clone(), row.clone()]);
        let (mut decoder, mut at) = (Decoder::new(), HEADER_BYTES);
        decoder.step(&bytes).unwrap();
        row[fitting..].fill((Fault::OutOfRange as u8, 0));
        for expected in [
            &row,
            &[&[second[0]], &row[1..fitting], &second[fitting..=fitting], &row[fitting + 1..]].concat(),
        ] {
            let Ok(Step::Row(length)) = decoder.step(&bytes[at..]) else { panic!() };
            at += length;
            let cells: Vec<(u8, u64)> =
                (0..row.len()).map(|slot| (decoder.states()[slot], decoder.values()[slot])).collect();
            assert!(cells == **expected, "at byte {at}");
        }
        assert!(decoder.catch_up(&bytes[at..]).is_ok());
        assert_eq!(decoder.reading(0), Some(Reading::Failed(Fault::OutOfRange)), "another one took its room");
    }

    #[test]
    fn a_block_whose_first_row_time_or_period_no_lane_can_have_is_refused() {
        for at in [16, 24, 40] {
            let mut bytes = encode(&vec![vec![(0, 7)]]);
            bytes[at..at + 8].fill(0xFF);
            assert!(matches!(Decoder::new().step(&bytes), Err(BlockError::Damaged { .. })), "{at}");
        }
    }

    #[test]
    fn an_unchanged_row_costs_a_few_bytes() {
        let row: Vec<(u8, u64)> = (0..300).map(|n| (0, n * 1_000_003)).collect();
        let one = encode(&vec![row.clone()]).len();
        let two = encode(&vec![row.clone(), row]).len();
        assert_eq!(two - one, 5);
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        let rows = vec![vec![(0, 300), (2, 0)], vec![(0, 299), (0, 5)]];
        let hex: String = encode(&rows).iter().map(|b| format!("{b:02x}")).collect();
        let expected = "6b687a4201010300010000000200000000000000000000000700000000000000fbffffffffffffff\
            40420f00000000000200000011000000063d8aa700000000\
            01050000ac0202\
            0208e807020001010005";
        assert_eq!(hex, expected);
    }
}
