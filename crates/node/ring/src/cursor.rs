//! A reader's position in a ring. It follows the rows of a lane one after the other. When the writer
//! overtakes it, it continues at the newest block and counts the rows that it missed.

use khz_block::{Decoder, Step};

use crate::reader::{Overtaken, Reader};

/// One copy out of the ring takes at most this many bytes (more if a single row is longer).
const CHUNK: usize = 64 << 10;
/// And a cursor without bytes keeps at most this much room for them.
const ROOM_KEPT: usize = CHUNK / 4;

/// The result of [`Cursor::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new block began; the schema may have grown.
    Block,
    /// The next row; [`Cursor::decoder`] has it.
    Row,
    /// Nothing new yet.
    UpToDate,
}

/// Follows one lane.
#[derive(Debug)]
pub struct Cursor {
    reader: Reader,
    /// The stream position of `bytes[0]`.
    at: u64,
    bytes: Vec<u8>,
    /// How many of `bytes` are already decoded.
    done: usize,
    decoder: Decoder,
    /// The number of the row that should come next, after the first row.
    expected: Option<u64>,
    lost: u64,
    /// The block at which it last began again: it tries a damaged block only once.
    began_anew: Option<u64>,
}

impl Cursor {
    /// A cursor at stream position `at`, where a block must begin (`oldest`, `newest` or `next_block`).
    pub fn new(reader: Reader, at: u64) -> Self {
        Cursor {
            reader,
            at,
            bytes: Vec::new(),
            done: 0,
            decoder: Decoder::new(),
            expected: None,
            lost: 0,
            began_anew: None,
        }
    }

    /// The current row.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Returns the number of missed rows, and resets it.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Takes one step forward.
    pub fn advance(&mut self) -> Event {
        // `bytes` may end in the middle of a row, and a row may be longer than a chunk.
        loop {
            match self.decoder.step(&self.bytes[self.done..]) {
                Ok(Step::Header(length)) => {
                    self.done += length;
                    self.count_lost();
                    return Event::Block;
                }
                Ok(Step::Row(length)) => {
                    self.done += length;
                    self.expected = Some(self.decoder.next_row());
                    return Event::Row;
                }
                Ok(Step::Incomplete) => match self.fetch() {
                    Ok(0) => {
                        self.give_room_back();
                        return Event::UpToDate;
                    }
                    Ok(_) => {}
                    Err(Overtaken) if self.begin_anew() => {}
                    Err(Overtaken) => return Event::UpToDate,
                },
                // The writer overwrote the bytes during the copy, or the file is foreign and damaged.
                Err(_) if self.begin_anew() => {}
                Err(_) => return Event::UpToDate,
            }
        }
    }

    /// A cursor that waits for rows keeps no room for a large one: there may be many.
    fn give_room_back(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > ROOM_KEPT {
            self.bytes = Vec::new();
        }
    }

    fn count_lost(&mut self) {
        if let (Some(expected), Some(header)) = (self.expected, self.decoder.header()) {
            self.lost += header.first_row.saturating_sub(expected);
        }
        self.expected = self.decoder.header().map(|h| h.first_row);
    }

    /// Copies the new bytes; returns how many.
    fn fetch(&mut self) -> Result<usize, Overtaken> {
        self.bytes.drain(..self.done);
        self.at += self.done as u64;
        self.done = 0;
        let end = self.at + self.bytes.len() as u64;
        // A single row may be longer than a chunk: copy at least as many bytes as are already here.
        self.reader.copy(end, CHUNK.max(self.bytes.len()), &mut self.bytes)
    }

    /// Begins again at the newest block; `false` when it already did so for this block.
    fn begin_anew(&mut self) -> bool {
        let newest = self.reader.newest();
        if self.began_anew.replace(newest) == Some(newest) {
            return false;
        }
        self.at = newest;
        self.bytes.clear();
        self.done = 0;
        self.decoder = Decoder::new();
        true
    }

    /// Skips to the last row that is complete now; `false` if there is none.
    pub fn seek_newest(&mut self) -> bool {
        let mut found = false;
        loop {
            match self.advance() {
                Event::Row => found = true,
                Event::Block => {}
                Event::UpToDate => return found,
            }
        }
    }

    /// The stream position of the next header or row.
    pub fn position(&self) -> u64 {
        self.at + self.done as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ring;
    use crate::layout::tests::label;
    use khz_block::Encoder;
    use khz_model::{Nanos, Stamp};

    fn ring(bytes: u64) -> (crate::Writer, Reader) {
        let ring = Ring::anonymous(bytes, label()).unwrap();
        (ring.writer, ring.reader)
    }

    /// Writes `rows` rows, ten to a block; slot 0 has the row's number.
    fn write(writer: &mut crate::Writer, encoder: &mut Encoder, rows: u64) {
        let mut out = Vec::new();
        for _ in 0..rows {
            out.clear();
            let n = encoder.rows();
            let stamp = Stamp { boot: Nanos(n * 1_000), real_offset: 0 };
            if encoder.rows_open() == 10
                && let Some(header) = encoder.close()
            {
                writer.close(&header);
            }
            if encoder.rows_open() == 0 {
                encoder.key_row(stamp, 300, |slot| (0, n + slot as u64), &mut out);
                assert!(writer.begin(&out));
            } else {
                encoder.delta_row(stamp, 0..300, |slot| (0, n + slot as u64), &mut out);
                assert!(writer.append(&out));
            }
        }
    }

    #[test]
    fn every_row_arrives_once_and_in_order() {
        let (mut writer, reader) = ring(1 << 16);
        let mut encoder = Encoder::new(1, 1, Nanos(1_000));
        let mut cursor = Cursor::new(reader, 0);
        let mut seen = 0;
        for _ in 0..200 {
            write(&mut writer, &mut encoder, 7);
            loop {
                match cursor.advance() {
                    Event::Row => {
                        assert_eq!(cursor.decoder().reading(0).and_then(|r| r.value()), Some(seen));
                        seen += 1;
                    }
                    Event::Block => {}
                    Event::UpToDate => break,
                }
            }
        }
        assert_eq!((seen, cursor.take_lost()), (1_400, 0));
    }

    #[test]
    fn a_row_longer_than_many_pieces_arrives_at_once() {
        let (mut writer, reader) = ring(1 << 22);
        let mut encoder = Encoder::new(1, 1, Nanos(1_000));
        let mut out = Vec::new();
        let slots = 60_000;
        encoder.key_row(Stamp::default(), slots, |slot| (0, u64::MAX - slot as u64), &mut out);
        assert!(out.len() > 8 * CHUNK && writer.begin(&out));
        let mut cursor = Cursor::new(reader, 0);
        assert_eq!(
            (cursor.advance(), cursor.advance(), cursor.advance()),
            (Event::Block, Event::Row, Event::UpToDate)
        );
        assert_eq!(cursor.decoder().slots(), slots);
    }

    #[test]
    fn an_overtaken_cursor_counts_what_it_lost_and_goes_on() {
        let (mut writer, reader) = ring(1 << 16);
        let mut encoder = Encoder::new(1, 1, Nanos(1_000));
        let mut cursor = Cursor::new(reader, 0);
        write(&mut writer, &mut encoder, 5);
        let (mut rows, mut lost) = (0, 0);
        for burst in [0, 2_000, 3] {
            write(&mut writer, &mut encoder, burst);
            loop {
                match cursor.advance() {
                    Event::Row => rows += 1,
                    Event::Block => lost += cursor.take_lost(),
                    Event::UpToDate => break,
                }
            }
        }
        assert!(lost > 0);
        assert_eq!(rows + lost, encoder.rows());
    }
}
