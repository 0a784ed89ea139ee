//! Blocks of the past to be sent, from a ring made of bytes.

use khz_block::{Encoder, HEADER_BYTES};
use khz_model::Stamp;

use super::*;
use crate::source::Overtaken;

/// A ring without a writer: closed blocks of ten rows, a row a second, of which the oldest may be given up. The last block is
/// open.
struct Blocks {
    bytes: Vec<u8>,
    starts: Vec<u64>,
    given_up: usize,
}

const ROWS: u64 = 10;

type RowRanges = Vec<(u64, u64)>;

impl Blocks {
    /// Rows 0 to 10 begin at second 100, and so on.
    fn new(count: u64) -> Self {
        let (mut encoder, mut bytes, mut starts) =
            (Encoder::new(1, 1, Nanos::SECOND), Vec::new(), Vec::new());
        for _ in 0..count {
            let start = bytes.len();
            starts.push(start as u64);
            for n in 0..ROWS {
                let stamp = Stamp { boot: Nanos::from_secs(100 + encoder.rows()), real_offset: 0 };
                match n {
                    0 => encoder.key_row(stamp, 1, |_| (0, n), &mut bytes),
                    _ => encoder.delta_row(stamp, 0..1, |_| (0, n), &mut bytes),
                }
            }
            let header = encoder.close().unwrap().to_bytes();
            if starts.len() < count as usize {
                bytes[start..start + HEADER_BYTES].copy_from_slice(&header);
            }
        }
        Blocks { bytes, starts, given_up: 0 }
    }

    /// What is to be sent of these rows, newest first, and what is lost.
    fn send(&self, backfill: &mut Backfill) -> (RowRanges, RowRanges) {
        let mut sent = Vec::new();
        while let Some(block) = backfill.newest() {
            assert_eq!(
                (self.starts[(block.from / ROWS) as usize], block.to <= (block.from / ROWS + 1) * ROWS),
                (block.at, true)
            );
            assert_eq!(block.began, Nanos::from_secs(100 + block.from / ROWS * ROWS));
            sent.push((block.from, block.to));
            backfill.sent();
        }
        (sent, backfill.take_lost())
    }
}

impl Lane for Blocks {
    fn id(&self) -> u64 {
        1
    }
    fn name(&self) -> &str {
        "base"
    }
    fn epoch(&self) -> u64 {
        1
    }
    fn generation(&self) -> u32 {
        1
    }
    fn period(&self) -> Nanos {
        Nanos::SECOND
    }
    fn head(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn oldest(&self) -> u64 {
        self.starts[self.given_up]
    }
    fn newest(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        if from < self.oldest() {
            return Err(Overtaken);
        }
        let bytes = self.bytes.get(from as usize..).unwrap_or_default();
        out.extend_from_slice(&bytes[..bytes.len().min(most)]);
        Ok(bytes.len().min(most))
    }
    fn schema_bytes(&self, _: u32) -> Option<u64> {
        Some(0)
    }
    fn schema(&self, _: u32, _: u64, _: usize, _: &mut Vec<u8>) -> Option<usize> {
        None
    }
}

fn wanted(blocks: &Blocks, rows: (u64, u64), have: &[(u64, u64)], since: u64) -> Backfill {
    let mut backfill = Backfill::default();
    backfill.want(blocks, rows, have.iter().copied(), Nanos::from_secs(since), &mut Vec::new());
    backfill
}

#[test]
fn what_is_lacking_is_sent_newest_first_and_what_is_there_is_not() {
    let blocks = Blocks::new(6);
    let mut backfill = wanted(&blocks, (3, 50), &[(12, 20), (24, 31)], 0);
    let sent = vec![(40, 50), (31, 40), (20, 24), (10, 12), (3, 10)];
    assert_eq!(blocks.send(&mut backfill), (sent, vec![]));
}

#[test]
fn blocks_that_ended_before_the_span_are_neither_sent_nor_lost() {
    let blocks = Blocks::new(6);
    // The rows of the second block were gathered before second 120, those of the third from then on.
    for (since, first) in [(0, 0), (110, 0), (111, 10), (119, 10), (120, 10), (121, 20), (1_000, 50)] {
        let mut backfill = wanted(&blocks, (0, 50), &[], since);
        let (mut sent, lost) = blocks.send(&mut backfill);
        sent.reverse();
        let expected: RowRanges = (first..50).step_by(10).map(|row| (row, row + 10)).collect();
        assert_eq!((sent, lost), (expected, vec![]), "since {since}");
    }
}

#[test]
fn rows_that_are_in_no_block_any_more_are_lost_and_said_once() {
    let mut blocks = Blocks::new(6);
    blocks.given_up = 2;
    let mut backfill = wanted(&blocks, (5, 50), &[(12, 14)], 0);
    let lost = vec![(5, 12), (14, 20)];
    assert_eq!(blocks.send(&mut backfill), (vec![(40, 50), (30, 40), (20, 30)], lost));
    assert_eq!(backfill.take_lost(), vec![]);
}

#[test]
fn rows_that_are_wanted_twice_are_sent_once() {
    let blocks = Blocks::new(6);
    let mut backfill = wanted(&blocks, (0, 25), &[], 0);
    backfill.want(&blocks, (20, 28), std::iter::empty(), Nanos(0), &mut Vec::new());
    backfill.want(&blocks, (4, 8), std::iter::empty(), Nanos(0), &mut Vec::new());
    assert_eq!(blocks.send(&mut backfill), (vec![(20, 28), (10, 20), (0, 10)], vec![]));
}

#[test]
fn a_damaged_block_is_lost_alone_and_one_that_was_overwritten_with_all_before_it() {
    let blocks = Blocks::new(6);
    let mut backfill = wanted(&blocks, (0, 50), &[], 0);
    backfill.damaged();
    assert_eq!(backfill.take_lost(), [(40, 50)]);
    backfill.sent();
    backfill.overtaken();
    assert_eq!((backfill.newest(), backfill.take_lost()), (None, vec![(0, 30)]));
}
