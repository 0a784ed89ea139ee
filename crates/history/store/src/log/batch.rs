//! The blocks that were handed over since the last commit. They are bounded in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::BLOCKS_WAITING_BYTES;
use crate::log::{LoggedBlock, LoggedLane};

/// Bytes of a block beyond its rows while it waits.
const BLOCK_MEMORY: usize = 256;

/// What waits for a commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub blocks: VecDeque<Waiting>,
    bytes: usize,
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
        self.blocks.is_empty()
    }

    /// Adds a block. Returns how many rows were dropped to make room.
    pub fn push_block(&mut self, waiting: Waiting) -> u64 {
        self.bytes += waiting.memory();
        self.blocks.push_back(waiting);
        self.make_room()
    }

    /// Blocks of a commit that failed wait again, before those that came since. Returns how many rows were dropped.
    pub fn put_back(&mut self, mut blocks: VecDeque<Waiting>) -> u64 {
        blocks.append(&mut self.blocks);
        self.bytes = blocks.iter().map(Waiting::memory).sum();
        self.blocks = blocks;
        self.make_room()
    }

    fn make_room(&mut self) -> u64 {
        let mut dropped = 0;
        while self.bytes > BLOCKS_WAITING_BYTES
            && let Some(oldest) = self.blocks.pop_front()
        {
            self.bytes -= oldest.memory();
            dropped += u64::from(oldest.block.rows);
        }
        dropped
    }
}
