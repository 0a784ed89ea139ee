//! Which writes are in progress, and whether another may begin; writes nothing itself.
//!
//! A checkpoint and a rebuild of the log need a moment without a write. Their thread pauses the writes, waits until those
//! in progress are done, and resumes them.

/// How the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When all that waits is written.
    Written,
    /// As soon as the writes in progress are done.
    Now,
}

/// The writes in progress.
pub struct Writes {
    in_progress: usize,
    is_paused: bool,
    is_checkpoint_running: bool,
    /// Counts the checkpoints: an image from before the newest does not count.
    epoch: u64,
    end: Option<End>,
}

impl Default for Writes {
    fn default() -> Self {
        // Epoch 0 stands for "never imaged".
        Self { in_progress: 0, is_paused: false, is_checkpoint_running: false, epoch: 1, end: None }
    }
}

impl Writes {
    /// A write begins.
    pub fn begin(&mut self) {
        self.in_progress += 1;
    }

    /// A write is done, or has failed.
    pub fn finish(&mut self) {
        self.in_progress -= 1;
    }

    /// Whether a write is in progress.
    pub fn is_any_in_progress(&self) -> bool {
        self.in_progress > 0
    }

    /// No write may begin.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Writes may begin again.
    pub fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Whether no write may begin.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Which checkpoint interval this is.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The log has numbers up to `sequence`; the next interval is another one.
    pub fn continue_after(&mut self, sequence: u64) {
        self.epoch = sequence + 1;
    }

    /// A checkpoint begins.
    pub fn begin_checkpoint(&mut self) {
        self.is_checkpoint_running = true;
    }

    /// Begins the next checkpoint interval; returns its number. Later writes belong to the next checkpoint.
    pub fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// The checkpoint is done.
    pub fn end_checkpoint(&mut self) {
        self.is_checkpoint_running = false;
    }

    /// Whether a checkpoint is running.
    pub fn is_checkpoint_running(&self) -> bool {
        self.is_checkpoint_running
    }

    /// The daemon is to end.
    pub fn end(&mut self, end: End) {
        self.end = Some(end);
    }

    /// How the daemon is to end, if it is.
    pub fn ending(&self) -> Option<End> {
        self.end
    }
}
