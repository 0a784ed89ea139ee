//! The limits of a plan on a node, in numbers. The node enforces all of them: `wire.rs` while it reads bytes, `types.rs` when a
//! plan is made, `bind.rs` when the plan meets the series of a lane. `handler.rs` and `handler/wire.rs` do so for handlers.

use khz_model::Nanos;

/// Steps of a plan: an expression that nobody can read any more has a hundred.
pub const STEPS_MAX: usize = 256;

/// Conditions of a selector; one for each label, and some more.
pub const CONDITIONS_MAX: usize = 32;

/// Alternatives of a condition.
pub const ALTERNATIVES_MAX: usize = 64;

/// Bytes of a text of a plan: a label's name, a value, a glob.
pub const TEXT_BYTES: usize = 1 << 10;

/// Labels of a grouping or a matching.
pub const GROUPING_LABELS_MAX: usize = 32;

/// Bytes of a plan.
pub const PLAN_BYTES: usize = 16 << 10;

/// How far a window reaches back. Longer windows are for the store.
pub const WINDOW_MAX: Nanos = Nanos::from_secs(300);

/// Series that one step gives: a plan of "everything" on a node with very many slots is refused.
pub const SERIES_MAX: usize = 16_384;

/// Series of all steps together: this limits the cost of a row.
pub const WORK_MAX: usize = 65_536;

/// Bytes of a handler.
pub const HANDLER_BYTES: usize = 32 << 10;

/// Rows that a condition may count back.
pub const TRUTH_ROWS_MAX: u8 = 64;

/// The longest time of a handler: how long a condition must hold, how long it is quiet, how far rows are apart.
pub const DURATION_MAX: Nanos = Nanos::from_secs(86_400);

/// How many times more slowly a node gathers for a channel while its condition is not on.
pub const SLOWER_MAX: u32 = 100_000;

/// Buckets of the histogram of one series: sixteen doublings, and with the many gaps that real series have much more.
pub const BUCKETS_MAX: usize = 64;

/// Rules of one handler: as many of the shortest plans as fit into its bytes.
pub const RULES_MAX: usize = 1_024;

/// How long a handler of rules without results is silent at most: a hub that hears nothing for longer judges itself.
pub const RULES_SILENCE: Nanos = Nanos::from_secs(60);

/// Bytes of the windows of one plan.
pub const WINDOWS_BYTES: usize = 4 << 20;
