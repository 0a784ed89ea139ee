//! A lane for tests: the row's number determines every value in it, and a reader checks all values.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use khz_block::{Decoder, Encoder, Step};
use khz_model::{Nanos, Stamp};
use khz_ring::{Folder, Found, Label, Reader, Ring, Writer};

/// The slots of a row.
pub const SLOTS: usize = 40;

/// The label of a lane on this machine and boot.
pub fn label(lane: &str) -> Label {
    Label {
        node: "n1".into(),
        lane: lane.into(),
        number: 3,
        machine: [1; 16],
        boot: [2; 16],
        epoch: khz_ring::random_epoch(),
        created: 5,
    }
}

/// A directory that is removed when the test ends.
pub struct TestFolder(pub PathBuf);

impl TestFolder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("khz-ring-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        TestFolder(path)
    }

    pub fn ring(&self) -> PathBuf {
        self.0.join("base.ring")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The value of a slot in a row.
pub fn value(row: u64, slot: usize) -> (u8, u64) {
    match (row / 7 + slot as u64) % 11 {
        0 => (3, 0),
        n => (0, row.wrapping_mul(0x9E37_79B9) ^ n << (slot % 50)),
    }
}

/// Writes a lane like the agent.
pub struct LaneWriter {
    pub writer: Writer,
    pub encoder: Encoder,
    bytes: Vec<u8>,
}

impl LaneWriter {
    pub fn new(ring: Ring) -> Self {
        let mut encoder = Encoder::new(3, ring.writer.generation(), Nanos::from_millis(1));
        encoder.resume(ring.next_row, ring.writer.generation());
        LaneWriter { writer: ring.writer, encoder, bytes: Vec::new() }
    }

    pub fn row(&mut self) {
        let row = self.encoder.rows();
        let stamp = Stamp { boot: Nanos(row * 1_000_000), real_offset: 0 };
        if self.encoder.wants_new_block(stamp)
            && let Some(header) = self.encoder.close()
        {
            self.writer.close(&header);
        }
        self.bytes.clear();
        let reading = |slot| value(row, slot);
        if self.encoder.rows_open() == 0 {
            self.encoder.key_row(stamp, SLOTS, reading, &mut self.bytes);
            assert!(self.writer.begin(&self.bytes));
        } else {
            self.encoder.delta_row(stamp, 0..SLOTS, reading, &mut self.bytes);
            assert!(self.writer.append(&self.bytes));
        }
    }

    pub fn rows(&mut self, count: u64) {
        (0..count).for_each(|_| self.row());
    }
}

/// Opens the lane `base` in this directory.
pub fn open(folder: &Folder, bytes: u64) -> (LaneWriter, Found) {
    let (ring, found) = folder.ring(label("base"), bytes).unwrap();
    (LaneWriter::new(ring), found)
}

/// Checks every value and every row number of a ring; returns the first row and the row after the last.
pub fn check(path: &Path) -> (u64, u64) {
    let reader = Reader::open(path).unwrap();
    let (mut first, mut next) = (None, 0);
    for at in reader.blocks() {
        let mut bytes = Vec::new();
        let header = reader.block(at, &mut bytes).unwrap();
        if let Some((_, length, checksum)) = header.closed {
            assert_eq!((length as usize, checksum), (bytes.len() - 64, crc32fast::hash(&bytes[64..])));
        }
        assert!(*first.get_or_insert(header.first_row) == header.first_row || next == header.first_row);
        next = check_block(&bytes, header.closed.map(|(rows, _, _)| rows));
    }
    (first.unwrap_or(0), next)
}

/// Returns the number of the row after the last.
fn check_block(bytes: &[u8], rows_expected: Option<u32>) -> u64 {
    let (mut decoder, mut done, mut rows) = (Decoder::new(), 0, 0);
    while done < bytes.len() {
        match decoder.step(&bytes[done..]).unwrap() {
            Step::Header(length) => done += length,
            Step::Row(length) => {
                done += length;
                rows += 1;
                let row = decoder.next_row() - 1;
                assert_eq!(decoder.stamp().boot, Nanos(row * 1_000_000));
                for slot in 0..SLOTS {
                    let reading = decoder.reading(slot).unwrap();
                    assert_eq!((reading.state(), reading.bits()), value(row, slot), "row {row} slot {slot}");
                }
            }
            Step::Incomplete => panic!("an incomplete row before head"),
        }
    }
    assert!(rows_expected.is_none_or(|expected| expected == rows));
    decoder.next_row()
}
