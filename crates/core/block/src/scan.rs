//! Counts and dates rows without decoding them, as a hub does with every row that no reader follows.

use khz_model::{Nanos, Stamp};

use crate::BlockError;
use crate::header::{HEADER_BYTES, Header};
use crate::walk::{Front, Walk};

/// Walks over the rows of blocks, whose bytes may come in pieces of any size. It keeps no row, only the part
/// of a header or of a row's first fields that the end of a piece cut off.
#[derive(Debug, Default)]
pub struct RowScanner {
    walk: Walk,
    /// The beginning of a header or row that a piece cut off.
    cut: Vec<u8>,
    /// The row that has begun; its front is complete.
    open: Option<OpenRow>,
}

/// A row whose end has not come yet.
#[derive(Clone, Copy, Debug)]
struct OpenRow {
    boot: Nanos,
    /// The bytes that have come, and the bytes of the whole row.
    come: usize,
    end: usize,
}

impl RowScanner {
    /// A scanner before its first byte; the first bytes must be a header.
    pub fn new() -> Self {
        Self::default()
    }

    /// The header of the current block.
    pub fn header(&self) -> Option<&Header> {
        self.walk.header.as_ref()
    }

    /// When the last finished row was gathered.
    pub fn stamp(&self) -> Stamp {
        self.walk.stamp
    }

    /// The number of finished rows of the current block.
    pub fn rows(&self) -> u32 {
        self.walk.rows
    }

    /// The number, in the lane, of the row that ends next.
    pub fn next_row(&self) -> u64 {
        self.walk.next_row
    }

    /// The bytes of a header or row that has begun and not ended.
    pub fn unfinished(&self) -> usize {
        self.open.map_or(self.cut.len(), |row| row.come)
    }

    /// Takes the next bytes and returns how many rows ended in them. After an error it needs a header.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<u64, BlockError> {
        let result = self.try_feed(bytes);
        if result.is_err() {
            *self = Self::default();
        }
        result
    }

    fn try_feed(&mut self, bytes: &[u8]) -> Result<u64, BlockError> {
        let mut ended = 0;
        let mut at = self.take_up(bytes, &mut ended)?;
        // From here on, every header and row begins in `bytes`.
        while at < bytes.len() {
            match self.begins(&bytes[at..])? {
                Begins::Header(header) => {
                    self.walk.begin(header);
                    at += HEADER_BYTES;
                }
                Begins::Row(row) if row.end <= bytes.len() - at => {
                    self.walk.end_row(row.boot)?;
                    ended += 1;
                    at += row.end;
                }
                Begins::Row(row) => {
                    self.open = Some(OpenRow { come: bytes.len() - at, ..row });
                    break;
                }
                Begins::CutOff => {
                    self.cut.extend_from_slice(&bytes[at..]);
                    break;
                }
            }
        }
        Ok(ended)
    }

    /// Continues the header or row that earlier bytes left unfinished; returns how many of `bytes` belong to
    /// it.
    fn take_up(&mut self, bytes: &[u8], ended: &mut u64) -> Result<usize, BlockError> {
        let mut at = 0;
        while self.open.is_none() && !self.cut.is_empty() {
            let Some(&byte) = bytes.get(at) else { return Ok(at) };
            self.cut.push(byte);
            at += 1;
            let cut = std::mem::take(&mut self.cut);
            match self.begins(&cut)? {
                Begins::Header(header) => self.walk.begin(header),
                Begins::Row(row) => self.open = Some(OpenRow { come: cut.len(), ..row }),
                Begins::CutOff => self.cut = cut,
            }
        }
        if let Some(row) = &mut self.open {
            let more = (row.end - row.come).min(bytes.len() - at);
            row.come += more;
            at += more;
            if row.come == row.end {
                let boot = row.boot;
                self.open = None;
                self.walk.end_row(boot)?;
                *ended += 1;
            }
        }
        Ok(at)
    }

    /// Reads the header or the front of the row at the start of `bytes`.
    #[inline]
    fn begins(&self, bytes: &[u8]) -> Result<Begins, BlockError> {
        Ok(match self.walk.front(bytes)? {
            Front::Header(header) => Begins::Header(header),
            Front::Row(front) => {
                Begins::Row(OpenRow { boot: self.walk.time(&front)?, come: 0, end: front.end })
            }
            Front::CutOff => Begins::CutOff,
        })
    }
}

/// Calls `each` with the number and time of every row of a whole block, without decoding the rows.
pub fn stamps(block: &[u8], mut each: impl FnMut(u64, Nanos)) -> Result<(), BlockError> {
    let (mut scanner, mut at) = (RowScanner::new(), 0);
    while at < block.len() {
        match scanner.begins(&block[at..])? {
            Begins::Header(header) if at == 0 => {
                scanner.walk.begin(header);
                at += HEADER_BYTES;
            }
            Begins::Row(row) if row.end <= block.len() - at => {
                each(scanner.walk.next_row, row.boot);
                scanner.walk.end_row(row.boot)?;
                at += row.end;
            }
            _ => return Err(BlockError::Damaged { at, problem: "the block is not complete" }),
        }
    }
    Ok(())
}

/// What begins at the start of some bytes.
enum Begins {
    Header(Header),
    Row(OpenRow),
    CutOff,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Encoder, Step};
    use proptest::prelude::*;

    /// The blocks of a lane, one after the other; each row changes some slots.
    fn blocks(rows: &[u32]) -> Vec<u8> {
        let mut encoder = Encoder::new(2, 1, Nanos(1_000));
        let mut bytes = Vec::new();
        for &rows in rows {
            let start = bytes.len();
            for n in 0..u64::from(rows) {
                let stamp = Stamp { boot: Nanos(encoder.rows() * 1_000 + 7), real_offset: -5 };
                let reading = |slot: usize| (0, n * slot as u64 % 7 * 1_003);
                match n {
                    0 => encoder.key_row(stamp, 40, reading, &mut bytes),
                    _ => encoder.delta_row(stamp, 0..40, reading, &mut bytes),
                }
            }
            let header = encoder.close().unwrap().to_bytes();
            bytes[start..start + HEADER_BYTES].copy_from_slice(&header);
        }
        bytes
    }

    #[test]
    fn a_scanner_wants_a_header_first_and_again_after_an_error() {
        let bytes = blocks(&[3]);
        let mut scanner = RowScanner::new();
        assert!(scanner.feed(&bytes[HEADER_BYTES..]).is_err());
        assert_eq!(scanner.feed(&bytes), Ok(3));
        assert!(scanner.feed(&[9]).is_err());
        assert!(scanner.feed(&[2, 2, 0, 0]).is_err());
        assert_eq!(scanner.feed(&bytes), Ok(3));
        assert_eq!((scanner.next_row(), scanner.unfinished()), (3, 0));
    }

    #[test]
    fn every_row_of_a_complete_block_has_its_number_and_time_and_an_incomplete_block_is_refused() {
        let both = blocks(&[3, 5]);
        let first = blocks(&[3]).len();
        let rows = |block: &[u8]| {
            let mut rows = Vec::new();
            stamps(block, |row, boot| rows.push((row, boot.0))).map(|()| rows)
        };
        assert_eq!(rows(&both[..first]), Ok(vec![(0, 7), (1, 1_007), (2, 2_007)]));
        assert_eq!(rows(&both[first..]).map(|rows| (rows[0], rows.len())), Ok(((3, 3_007), 5)));
        assert!(rows(&both).is_err(), "two blocks are not one");
        let mut whole = 0;
        for end in 1..first {
            // A block that ends at the end of a row is complete.
            let mut scanner = RowScanner::new();
            scanner.feed(&both[..end]).unwrap();
            let is_whole = scanner.header().is_some() && scanner.unfinished() == 0;
            assert_eq!(rows(&both[..end]).is_ok(), is_whole, "cut off at {end}");
            whole += u32::from(is_whole);
        }
        assert_eq!(whole, 3, "without a row, with one, with two");
    }

    #[test]
    fn numbers_and_times_that_overflow_are_refused() {
        let mut last = blocks(&[1]);
        last[16..24].fill(0xff);
        assert!(RowScanner::new().feed(&last).is_err());
        let mut late = blocks(&[2]);
        late[24..32].fill(0xff);
        assert!(RowScanner::new().feed(&late).is_err());
    }

    proptest! {
        #[test]
        fn any_split_counts_what_the_decoder_counts(
            rows in prop::collection::vec(1u32..30, 1..5),
            cuts in prop::collection::vec(1usize..300, 1..40),
        ) {
            let bytes = blocks(&rows);
            let (mut scanner, mut counted, mut at) = (RowScanner::new(), 0, 0);
            for cut in cuts.into_iter().cycle() {
                let end = bytes.len().min(at + cut);
                counted += scanner.feed(&bytes[at..end]).unwrap();
                at = end;
                let (mut decoder, mut done, mut decoded) = (Decoder::new(), 0, 0);
                loop {
                    match decoder.step(&bytes[done..at]).unwrap() {
                        Step::Header(length) => done += length,
                        Step::Row(length) => {
                            done += length;
                            decoded += 1;
                        }
                        Step::Incomplete => break,
                    }
                }
                prop_assert_eq!(counted, decoded);
                prop_assert_eq!((scanner.next_row(), scanner.stamp()), (decoder.next_row(), decoder.stamp()));
                prop_assert_eq!(scanner.unfinished(), at - done);
                prop_assert_eq!(scanner.header(), decoder.header());
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(counted, rows.iter().map(|&n| u64::from(n)).sum::<u64>());
        }

        #[test]
        fn damaged_bytes_never_panic(
            hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
            cut in 1usize..200,
        ) {
            let mut bytes = blocks(&[20, 20]);
            for (at, byte) in hits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let mut scanner = RowScanner::new();
            for piece in bytes.chunks(cut) {
                let result = scanner.feed(piece);
                prop_assert!(scanner.cut.len() < HEADER_BYTES);
                if result.is_err() {
                    break;
                }
            }
        }
    }
}
