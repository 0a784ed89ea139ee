//! Every limit of the door, each with its reason. It enforces none of them: that is done where the thing is counted.

use std::time::Duration;

use khz_model::ByteSize;

/// Connections at once. A new one takes the place of the one that has been idle longest.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Items at once, of all nodes together: a mask of them has 4,096 digits. A node of 256 CPUs and 500 interfaces has
/// 11,000. Further ones are left out, and counted.
pub const ITEMS_MAX: usize = 16_384;
/// Digits of a mask, leading zeros included.
pub const MASK_DIGITS_MAX: usize = ITEMS_MAX / 4;
/// Bytes of a line that begins with a colon: the longest pattern, and a word before it.
pub const LINE_BYTES_MAX: usize = khz_model::pattern::PATTERN_MAX + 64;
/// An answer leaves in pages of about this size: what one connection holds, however long its answer.
pub const PAGE_BYTES: usize = 64 << 10;
/// Bytes that pages and layouts of all connections together may take; whoever would need more is dropped.
pub const ANSWERS_BYTES: ByteSize = ByteSize(64 << 20);
/// A page that one large node has made larger is given back beyond this.
pub const PAGE_BYTES_KEPT: usize = 256 << 10;
/// Layouts that a connection keeps: one for each kind of node that it was told of last.
pub const LAYOUTS_MAX: usize = 8;
/// A client that takes less than this in [`STALL_TIMEOUT`] while bytes wait for it is dropped.
pub const TAKEN_BYTES_MIN: u64 = 64 << 10;
/// So long a client may take less than [`TAKEN_BYTES_MIN`] while bytes wait for it.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// A status waits so long for nodes that are asked anew; who has not answered by then is left out.
pub const ANSWER_DEADLINE: Duration = Duration::from_millis(50);
/// How long answers under way may take after the door was told to close.
pub const CLOSING_GRACE: Duration = Duration::from_secs(1);

/// The limits that a test sets differently; everything else in this module is fixed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once: [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Longest wait for a client that does not read: [`STALL_TIMEOUT`].
    pub stall_timeout: Duration,
    /// What it has to take in that time: [`TAKEN_BYTES_MIN`].
    pub taken_min: u64,
    /// Bytes of all connections together: [`ANSWERS_BYTES`].
    pub answers: ByteSize,
    /// Longest wait for nodes: [`ANSWER_DEADLINE`].
    pub answer_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: CONNECTIONS_MAX,
            stall_timeout: STALL_TIMEOUT,
            taken_min: TAKEN_BYTES_MIN,
            answers: ANSWERS_BYTES,
            answer_deadline: ANSWER_DEADLINE,
        }
    }
}
