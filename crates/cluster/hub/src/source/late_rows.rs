//! Rows of a hub below that are older than rows which are already here: makes closed blocks of the rows that a lane lacks. Rows that the
//! store had before this hub's start get their own blocks, which are not stored again. It puts the blocks nowhere.

use khz_block::{Decoder, Encoder, HEADER_BYTES, Step};

use crate::lane::Lane;

/// Blocks of the rows of a closed block that the lane lacks: the block itself, if it lacks all of them.
pub(super) fn lacking(lane: &Lane, block: &[u8]) -> Vec<Vec<u8>> {
    let (mut decoder, mut rest) = (Decoder::new(), block);
    let (mut parts, mut is_whole) = (Parts::default(), true);
    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
        rest = &rest[length..];
        if let Step::Header(_) = step {
            continue;
        }
        let number = decoder.next_row() - 1;
        if lane.has(number) {
            is_whole = false;
        } else {
            parts.add(number, &decoder, lane.had_logged(number));
        }
    }
    parts.close();
    if is_whole && parts.closed.len() == 1 { vec![block.to_vec()] } else { parts.closed }
}

/// A block of one row, if the lane lacks it.
pub(super) fn of_row(lane: &Lane, number: u64, row: &Decoder) -> Vec<Vec<u8>> {
    let mut parts = Parts::default();
    if !lane.has(number) {
        parts.add(number, row, lane.had_logged(number));
    }
    parts.close();
    parts.closed
}

/// Rows that follow each other, as closed blocks.
#[derive(Default)]
struct Parts {
    closed: Vec<Vec<u8>>,
    open: Option<(Encoder, usize, Vec<u8>)>,
    /// The store has the rows of the open block.
    is_logged: bool,
}

impl Parts {
    fn add(&mut self, number: u64, row: &Decoder, is_logged: bool) {
        let slots = row.slots();
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        let is_alike = std::mem::replace(&mut self.is_logged, is_logged) == is_logged;
        if let Some((encoder, width, bytes)) = &mut self.open
            && is_alike
            && encoder.rows() == number
            && *width == slots
        {
            return encoder.delta_row(row.stamp(), 0..slots, reading, bytes);
        }
        self.close();
        let Some(header) = row.header() else { return };
        let (mut encoder, mut bytes) = (Encoder::new(0, header.generation, header.period), Vec::new());
        encoder.resume(number, header.generation);
        encoder.key_row(row.stamp(), slots, reading, &mut bytes);
        self.open = Some((encoder, slots, bytes));
    }

    fn close(&mut self) {
        let Some((mut encoder, _, mut bytes)) = self.open.take() else { return };
        if let Some(header) = encoder.close() {
            bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
            self.closed.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_block::Header;
    use khz_model::{Nanos, Stamp};

    use super::*;
    use crate::lane::tests::{gets_rows, lane};

    /// A closed block of these rows, whose one value is the number.
    fn block(first: u64, rows: u64) -> Vec<u8> {
        let mut parts = Parts::default();
        for number in first..first + rows {
            let (mut bytes, mut row) = (Vec::new(), Decoder::new());
            let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
            encoder.resume(number, 1);
            let stamp = Stamp { boot: Nanos::from_secs(number), real_offset: 0 };
            encoder.key_row(stamp, 1, |_| (0, number), &mut bytes);
            row.catch_up(&bytes).expect("a row");
            parts.add(number, &row, false);
        }
        parts.close();
        parts.closed.remove(0)
    }

    /// The first row and the values of each block.
    fn read(blocks: &[Vec<u8>]) -> Vec<(u64, Vec<u64>)> {
        let each = |bytes: &Vec<u8>| {
            let (mut decoder, mut rest, mut values) = (Decoder::new(), &bytes[..], Vec::new());
            while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
                rest = &rest[length..];
                if matches!(step, Step::Row(_)) {
                    values.push(decoder.values()[0]);
                }
            }
            let header = Header::from_bytes(bytes.first_chunk().expect("a header"), 0).expect("a block");
            assert_eq!(header.closed.map(|(rows, ..)| rows as usize), Some(values.len()));
            (header.first_row, values)
        };
        blocks.iter().map(each).collect()
    }

    #[test]
    fn of_a_late_block_only_the_rows_remain_that_are_not_here() {
        let mut lane = lane();
        let whole = block(10, 8);
        assert_eq!(lacking(&lane, &whole), std::slice::from_ref(&whole));
        gets_rows(&mut lane, 12, 2);
        gets_rows(&mut lane, 17, 3);
        assert_eq!(read(&lacking(&lane, &whole)), [(10, vec![10, 11]), (14, vec![14, 15, 16])]);
        gets_rows(&mut lane, 10, 2);
        gets_rows(&mut lane, 14, 3);
        assert!(lacking(&lane, &whole).is_empty());
    }
}
