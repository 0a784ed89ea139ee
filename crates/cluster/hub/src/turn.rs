//! The work of the link's thread in one turn of its loop to find nodes and columns for readers, counted in operations: a name
//! compared, a node visited, a series matched against a pattern. A turn has a budget of operations (`OPERATIONS_A_TURN` in
//! `limits.rs`). When it is used up, the thread serves the other peers before it goes on. Decoding and sending rows is not
//! counted: the bytes that may wait for a reader limit that (`out_bytes_max` in `cluster.rs`). This file only counts;
//! `server/thread.rs` and `reader.rs` decide which reader is next.

/// One turn.
#[derive(Debug)]
pub(crate) struct Turn {
    left: usize,
    /// Operations done.
    made: u64,
}

impl Turn {
    /// A turn of this many operations.
    pub fn of(operations: usize) -> Self {
        Turn { left: operations, made: 0 }
    }

    /// A turn without an end, for a door that has its own thread.
    pub fn whole() -> Self {
        Turn::of(usize::MAX)
    }

    /// This many operations are done. The last of a turn may be more than are left.
    pub fn spend(&mut self, operations: usize) {
        self.left = self.left.saturating_sub(operations);
        self.made += operations as u64;
    }

    /// True when it is another peer's turn.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Operations left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Operations done.
    #[cfg(test)]
    pub fn made(&self) -> u64 {
        self.made
    }
}
