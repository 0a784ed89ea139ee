//! The limits of actions. docs/limits.md says what happens beyond each limit.

/// Actions of one configuration: each has a thread.
pub const ACTIONS_MAX: usize = 32;
/// Names in the annotation of one alert.
pub const NAMES_MAX: usize = 8;
/// Alerts that wait for one action. An alert that finds no room is retried in the next pass of its rule.
pub const WAITING_MAX: usize = 256;
/// Alerts with their actions that are remembered because they fire: four for each of 4,096 nodes.
pub const KEYS_MAX: usize = 16_384;
/// Runs that the HTTP interface shows; the log has more.
pub const RUNS_MAX: usize = 1_024;
/// Lines in the hub's log about alerts for which an action is held back, in a minute; the next one counts the others. The audit log has
/// all.
pub const HELD_LINES_A_MINUTE_MAX: usize = 6;
/// Bytes of the audit log; there are two files of this size, the newer and the older one.
pub const LOG_BYTES_MAX: u64 = 8 << 20;
/// Bytes of an alert's labels in one line of the log. For longer labels, the line has only the alert's name and its node.
pub const LABELS_BYTES_MAX: usize = 4 << 10;
/// Bytes of a program's output that are kept as a file, the last ones.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Outputs that are kept; the oldest goes first.
pub const OUTPUTS_MAX: usize = 256;
/// Bytes of what Slurm's commands print that are read.
pub const SLURM_BYTES_MAX: usize = 64 << 10;
/// Jobs of one node that one run requeues: more than run on a node that somebody watches.
pub const JOBS_MAX: usize = 64;
/// Bytes of a reason for Slurm: `sinfo -R` shows no more.
pub const REASON_BYTES_MAX: usize = 160;
/// Bytes of a host's name, as DNS has them.
pub const HOST_BYTES_MAX: usize = 253;
