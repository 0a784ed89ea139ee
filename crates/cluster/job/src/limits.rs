//! What jobs may take. docs/limits.md says what happens beyond each limit.

/// Runs of jobs that are kept: months of a cluster that starts a thousand a day.
pub const JOBS_MAX: usize = 131_072;
/// Bytes of all their texts.
pub const BYTES_MAX: usize = 32 << 20;
/// Bytes of an id. Those of Slurm have 20 at most.
pub const ID_BYTES_MAX: usize = 64;
/// Bytes of a job's or user's name that are kept.
pub const NAME_BYTES_MAX: usize = 128;
/// Nodes of one job: four times the largest cluster we plan for.
pub const NODES_MAX: usize = 16_384;
/// Bytes of the hostlist of one job.
pub const NODES_BYTES_MAX: usize = 64 << 10;
/// Bytes of a request that starts or ends a job.
pub const REQUEST_BYTES_MAX: usize = 96 << 10;
/// Bytes of a line of the log: a job, escaped.
pub const LINE_BYTES_MAX: usize = 512 << 10;
/// The log is written again as short as it can be when it has more bytes than this, and twice as many as it then had.
pub const LOG_BYTES_MIN: u64 = 4 << 20;
/// A control group of a job that was not seen for this time (ms) is gone: a node may send no row for some seconds.
pub const UNSEEN_MAX: i64 = 60_000;
/// For this time (ms) after a job's end its control groups may still be there: they begin no other run.
pub const LINGER_MAX: i64 = 60_000;
