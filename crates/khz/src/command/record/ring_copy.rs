//! Copies the blocks of a ring into a recording, byte for byte. Follows the ring. Counts blocks that were overwritten, or whose
//! schema was gone, before they were copied.

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
    /// Blocks that were overwritten before they were copied, or whose schema was gone. Without a schema, their numbers mean
    /// nothing.
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
        if !self.copy_schema(header.generation, recorder)? {
            self.overtaken += 1;
            return Ok(());
        }
        if khz_record::close(&mut self.bytes) {
            recorder.block(self.lane, &self.bytes)?;
        }
        Ok(())
    }

    /// The writer has overtaken the copy, which continues with the oldest block of the ring.
    fn overtake(&mut self) {
        self.overtaken += 1;
        self.at = self.reader.oldest().max(self.at + 1);
        self.bytes.clear();
    }

    /// Copies the missing part of a generation's schema. Returns false if the ring does not have it any more.
    fn copy_schema(&mut self, generation: u32, recorder: &mut Recorder) -> Result<bool, RecordError> {
        let Some(bytes) = self.reader.schema_bytes(generation) else { return Ok(false) };
        let mut done = self.schema.filter(|(known, _)| *known == generation).map_or(0, |(_, bytes)| bytes);
        let mut piece = Vec::new();
        while bytes > done {
            piece.clear();
            let copied = self.reader.schema(generation, done, PIECE, &mut piece);
            // The ring belongs to another process, and may have become shorter than announced.
            let Some(length) = copied.filter(|&length| length > 0) else { return Ok(false) };
            recorder.schema(self.lane, generation, done, &piece)?;
            done += length as u64;
        }
        self.schema = Some((generation, done));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use khz_block::{Encoder, SchemaEncoder};
    use khz_model::{Series, Stamp};
    use khz_record::Rotation;
    use khz_ring::{Label, Ring, Writer};

    use super::*;

    /// A closed block with one row.
    fn write(writer: &mut Writer, encoder: &mut Encoder, generation: u32) {
        encoder.resume(encoder.rows(), generation);
        let (stamp, mut bytes) = (Stamp { boot: Nanos(encoder.rows() + 1), real_offset: 0 }, Vec::new());
        encoder.key_row(stamp, 1, |_| (0, 7), &mut bytes);
        assert!(writer.begin(&bytes));
        writer.close(&encoder.close().unwrap());
    }

    #[test]
    fn a_block_whose_schema_is_gone_counts_as_overtaken_and_the_others_are_copied() {
        let label = Label {
            node: "n1".into(),
            lane: "base".into(),
            number: 0,
            machine: [1; 16],
            boot: [2; 16],
            epoch: 4,
            created: 5,
        };
        let Ring { mut writer, reader, .. } = Ring::anonymous(1 << 20, label).unwrap();
        let (mut schema, mut bytes) = (SchemaEncoder::new(), Vec::new());
        let metric = khz_gather::catalogue().swap_remove(0);
        schema.append(&Series { metric, instance: None }, &mut bytes).unwrap();
        writer.extend_schema(&bytes).unwrap();
        let (present, gone) = (writer.generation(), writer.generation() + 7);
        let mut encoder = Encoder::new(0, present, Nanos(1_000));
        for generation in [present, gone, present, gone, gone, present] {
            write(&mut writer, &mut encoder, generation);
        }
        let path = std::env::temp_dir().join(format!("khz-ring-copy-{}.khzt", std::process::id()));
        let mut recorder = Recorder::create(&path, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
        let mut copy = RingCopy::new(reader, 1, 0);
        copy.begin(&mut recorder, Nanos(1_000)).unwrap();
        copy.finish(&mut recorder).unwrap();
        assert_eq!((copy.overtaken, recorder.counts().rows, recorder.missing().rows), (3, 3, 3));
        recorder.finish("{}").unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
