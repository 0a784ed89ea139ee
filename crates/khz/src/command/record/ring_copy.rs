//! Copies the blocks of a ring into a recording, byte for byte. Follows the ring, and counts blocks that were overwritten
//! before they were copied.

use khz_block::trace::LaneHead;
use khz_model::Nanos;
use khz_record::{RecordError, Recorder};
use khz_ring::Reader;

/// A schema is copied in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// A place in a ring.
pub struct RingCopy {
    reader: Reader,
    /// The lane's number in the recording.
    lane: u32,
    /// Where the next block begins.
    at: u64,
    /// Generation of the schema that was copied last, and how much of it.
    schema: Option<(u32, u64)>,
    /// The block under copy, kept for its memory.
    bytes: Vec<u8>,
    /// Blocks that were overwritten before they were copied.
    pub overtaken: u64,
}

impl RingCopy {
    /// Starts with the block at `at`.
    pub fn new(reader: Reader, lane: u32, at: u64) -> Self {
        RingCopy { reader, lane, at, schema: None, bytes: Vec::new(), overtaken: 0 }
    }

    /// Writes the head of the lane.
    pub fn begin(&self, recorder: &mut Recorder, period: Nanos) -> Result<(), RecordError> {
        let label = self.reader.label();
        recorder.lane(&LaneHead {
            lane: self.lane,
            node: &label.node,
            name: &label.lane,
            epoch: label.epoch,
            period: period.0,
        })
    }

    /// True where the ring has rows that were not copied.
    pub fn has_rows(&self) -> bool {
        self.reader.head() > self.at
    }

    /// Copies every block that is closed.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        while self.has_rows() {
            let Some(header) = self.reader.header(self.at) else {
                self.overtake();
                continue;
            };
            if header.closed.is_none() {
                return Ok(());
            }
            let next = self.reader.next_block(self.at);
            self.block(recorder)?;
            match next {
                Some(next) => self.at = next,
                // The next block has not begun. It will follow this one.
                None => self.at += self.bytes.len() as u64,
            }
        }
        Ok(())
    }

    /// Copies the open block too, and closes it.
    pub fn finish(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        self.copy(recorder)?;
        if self.has_rows() { self.block(recorder) } else { Ok(()) }
    }

    fn block(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        self.bytes.clear();
        let Some(header) = self.reader.block(self.at, &mut self.bytes) else {
            self.overtake();
            return Ok(());
        };
        self.copy_schema(header.generation, recorder)?;
        if khz_record::close(&mut self.bytes) {
            recorder.block(self.lane, &self.bytes)?;
        }
        Ok(())
    }

    /// The writer was faster: continues with the oldest block of the ring.
    fn overtake(&mut self) {
        self.overtaken += 1;
        self.at = self.reader.oldest().max(self.at + 1);
        self.bytes.clear();
    }

    fn copy_schema(&mut self, generation: u32, recorder: &mut Recorder) -> Result<(), RecordError> {
        let mut done = self.schema.filter(|(known, _)| *known == generation).map_or(0, |(_, bytes)| bytes);
        let mut piece = Vec::new();
        while self.reader.schema_bytes(generation).is_some_and(|bytes| bytes > done) {
            piece.clear();
            let Some(length) = self.reader.schema(generation, done, PIECE, &mut piece) else { break };
            recorder.schema(self.lane, generation, done, &piece)?;
            done += length as u64;
        }
        self.schema = Some((generation, done));
        Ok(())
    }
}
