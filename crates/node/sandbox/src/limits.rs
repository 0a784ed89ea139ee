//! The limits of programs at a node, with their reasons.

use khz_model::Nanos;

/// Programs of a node at a time. Each has up to 4 MiB.
pub const PROGRAMS_MAX: usize = 16;

/// What the child process may allocate in all: 16 memories of 4 MiB, their modules, and the engine.
pub const CHILD_BYTES_MAX: u64 = 256 << 20;

/// A program runs on for this long without a reader: one that comes back, and a changed channel, find it at its place.
pub const LINGER: Nanos = Nanos::from_secs(60);

/// Rows that a program takes before another one has its turn.
pub const ROWS_A_TURN: u32 = 256;

/// After its first failure a program misses the rows of this time; after each further one twice as long, up to the second.
pub const REST: Nanos = Nanos::from_millis(100);
/// See [`REST`].
pub const REST_MAX: Nanos = Nanos::from_secs(60);
/// A program that has not failed for this long begins with the shortest rest again.
pub const SOUND_FOR: Nanos = Nanos::from_secs(300);

/// After the child's death it is started again after this time; after each further one twice as long, up to the second.
pub const RESTART: Nanos = Nanos::from_millis(500);
/// See [`RESTART`].
pub const RESTART_MAX: Nanos = Nanos::from_secs(60);

/// A message between the two processes: a module, its patterns, and what stands beside them.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;

/// Lines that the programs of a node may say in the agent's log, each minute. The others are counted.
pub const LINES_A_MINUTE: u32 = 20;

/// The child sends its counts this often.
pub const COUNTS_EVERY: Nanos = Nanos::SECOND;

/// The child looks for a row this much after its tick: this part of the period, within these bounds.
pub const SLACK_PART: u64 = 16;
/// See [`SLACK_PART`].
pub const SLACK_MIN: Nanos = Nanos(200_000);
/// See [`SLACK_PART`].
pub const SLACK_MAX: Nanos = Nanos::from_millis(5);
