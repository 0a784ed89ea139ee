//! The daemon's counters, and their part in STATS.

/// Events counted since the start.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counters {
    /// UPDATE commands.
    pub received: u64,
    /// FLUSH commands.
    pub flushes: u64,
    /// Writes of a file.
    pub writes: u64,
    /// Samples written.
    pub samples_written: u64,
    /// Writes that failed; their samples are kept.
    pub failures: u64,
    /// Samples that a file refused for good.
    pub refused: u64,
}

/// What STATS shows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Files waiting to be written.
    pub queue: u64,
    /// UPDATE commands.
    pub received: u64,
    /// FLUSH commands.
    pub flushes: u64,
    /// Writes of a file.
    pub updates_written: u64,
    /// Samples written.
    pub sets_written: u64,
    /// Files known.
    pub files: u64,
    /// Samples waiting.
    pub waiting: u64,
    /// Seconds that the oldest of them has waited.
    pub age: u64,
    /// Bytes of memory that they and their files take.
    pub memory: u64,
    /// Writes that failed; their samples are kept.
    pub failures: u64,
    /// Files whose last write failed.
    pub failed_now: u64,
    /// Samples that a file refused for good.
    pub refused: u64,
    /// Bytes of log not yet in files.
    pub log: u64,
    /// Whether the log of an earlier run is still read.
    pub replaying: u64,
    /// Bytes written to the log since the start.
    pub log_written: u64,
    /// Log segments begun since the start.
    pub log_rotations: u64,
    /// Whether the log takes nothing, or lets no segment go.
    pub is_log_in_trouble: bool,
}
