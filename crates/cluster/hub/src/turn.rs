//! What the link's thread does for readers in one turn of its loop, counted in operations: a name that is compared, a node
//! that is looked at, a series that is held against a pattern. When they are used up it serves everybody else before it goes on.

/// What may still be done.
#[derive(Debug)]
pub(crate) struct Turn {
    left: usize,
    /// What was done.
    made: u64,
}

impl Turn {
    /// A turn of this number of operations.
    pub fn of(operations: usize) -> Self {
        Turn { left: operations, made: 0 }
    }

    /// One without an end, for a door that has a thread of its own.
    pub fn whole() -> Self {
        Turn::of(usize::MAX)
    }

    /// This number of operations is done. The last of a turn may be more than are left.
    pub fn spend(&mut self, operations: usize) {
        self.left = self.left.saturating_sub(operations);
        self.made += operations as u64;
    }

    /// It is somebody else's turn.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// What is left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Operations so far.
    #[cfg(test)]
    pub fn made(&self) -> u64 {
        self.made
    }
}
