//! What was handed over since the last commit: bytes of open blocks, and blocks. It is bounded in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::{BLOCKS_WAITING_BYTES, ROWS_WAITING_BYTES};
use crate::log::record::Piece;
use crate::log::{LoggedBlock, LoggedLane};

/// Bytes of a block beyond its rows while it waits.
const BLOCK_MEMORY: usize = 256;

/// What waits for a commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The pieces in the order in which they came; the bytes of each are in `bytes`.
    pieces: Vec<(Piece, usize)>,
    bytes: Vec<u8>,
    pub blocks: VecDeque<Waiting>,
    blocks_bytes: usize,
}

/// A block that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub lane: Arc<LoggedLane>,
    pub block: LoggedBlock,
    pub schema: u32,
    /// It is a part of a block that may go on.
    pub is_part: bool,
}

impl Waiting {
    fn memory(&self) -> usize {
        self.block.bytes.len() + BLOCK_MEMORY
    }
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.blocks.is_empty()
    }

    /// The numbers of lanes and schemas that the bytes of open blocks name.
    pub fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.pieces.iter().map(|(piece, _)| (piece.lane, piece.schema))
    }

    /// Adds bytes of an open block; false: there is no room.
    pub fn push(&mut self, piece: Piece, bytes: &[u8]) -> bool {
        let held = self.bytes.len() + self.pieces.len() * size_of::<(Piece, usize)>();
        if held + bytes.len() > ROWS_WAITING_BYTES {
            return false;
        }
        self.pieces.push((piece, self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Adds bytes of an open block that are before all that wait; false: there is no room.
    pub fn push_first(&mut self, piece: Piece, bytes: &[u8]) -> bool {
        let has_room = self.push(piece, bytes);
        if has_room {
            self.pieces.rotate_right(1);
        }
        has_room
    }

    /// Adds a block. Returns how many rows were dropped to make room.
    pub fn push_block(&mut self, waiting: Waiting) -> u64 {
        self.blocks_bytes += waiting.memory();
        self.blocks.push_back(waiting);
        self.make_room()
    }

    /// Blocks of a commit that failed wait again, before those that came since. Returns how many rows were dropped.
    pub fn put_back(&mut self, mut blocks: VecDeque<Waiting>) -> u64 {
        blocks.append(&mut self.blocks);
        self.blocks_bytes = blocks.iter().map(Waiting::memory).sum();
        self.blocks = blocks;
        self.make_room()
    }

    fn make_room(&mut self) -> u64 {
        let mut dropped = 0;
        while self.blocks_bytes > BLOCKS_WAITING_BYTES
            && let Some(oldest) = self.blocks.pop_front()
        {
            self.blocks_bytes -= oldest.memory();
            dropped += u64::from(oldest.block.rows);
        }
        dropped
    }

    /// The pieces by lane, and of one lane in the order in which they came; those that continue each other are one.
    pub fn by_lane(&self) -> Vec<Gathered<'_>> {
        let mut order: Vec<&(Piece, usize)> = self.pieces.iter().collect();
        order.sort_by_key(|(piece, _)| piece.lane);
        let mut gathered: Vec<Gathered<'_>> = Vec::new();
        for &(piece, at) in order {
            let bytes = &self.bytes[at..at + piece.length];
            match gathered.last_mut().filter(|last| last.is_continued_by(&piece)) {
                Some(last) => {
                    last.piece.length += piece.length;
                    (last.piece.end, last.piece.shift) = (piece.end, piece.shift);
                    last.bytes.push(bytes);
                }
                None => gathered.push(Gathered { piece, bytes: vec![bytes] }),
            }
        }
        gathered
    }

    /// Takes the memory of an older batch, so that each commit need not allocate again.
    pub fn reuse(&mut self, older: Batch) {
        let Batch { mut pieces, mut bytes, .. } = older;
        if self.is_empty() {
            pieces.clear();
            bytes.clear();
            (self.pieces, self.bytes) = (pieces, bytes);
        }
    }
}

/// Bytes of one block that follow each other.
pub(crate) struct Gathered<'a> {
    pub piece: Piece,
    pub bytes: Vec<&'a [u8]>,
}

impl Gathered<'_> {
    fn is_continued_by(&self, next: &Piece) -> bool {
        let Piece { lane, schema, first_row, offset, length, .. } = self.piece;
        (lane, schema, first_row, offset + length) == (next.lane, next.schema, next.first_row, next.offset)
    }
}
