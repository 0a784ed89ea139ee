//! The limits of the door, each with its reason. The code that counts a thing enforces its limit.

use std::time::Duration;

use khz_model::ByteSize;

/// Connections at once. A new one takes the place of the one that has been idle longest.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Items of all nodes together: a mask of them has 4,096 digits. A node of 256 CPUs and 500 interfaces has
/// 11,000. Items beyond the limit are left out, and counted.
pub const ITEMS_MAX: usize = 16_384;
/// Bytes of an item's name, which has the labels of its series too. The rest is cut off; items stay different by `_2` and so on.
pub const NAME_BYTES_MAX: usize = 1_024;
/// Digits of a mask, leading zeros included.
pub const MASK_DIGITS_MAX: usize = ITEMS_MAX / 4;
/// Bytes of a line that begins with a colon: the longest pattern, and a word before it.
pub const LINE_BYTES_MAX: usize = khz_model::pattern::PATTERN_MAX + 64;
/// Size of the pages in which an answer is sent: one connection holds one page, however long the answer.
pub const PAGE_BYTES: usize = 64 << 10;
/// Bytes that pages and layouts of all connections together may take; a connection that would exceed it is
/// dropped.
pub const ANSWERS_BYTES: ByteSize = ByteSize(64 << 20);
/// One large node can make a page larger than this; its memory is then returned.
pub const PAGE_BYTES_KEPT: usize = 256 << 10;
/// Layouts that a connection keeps: one for each kind of node that it was sent recently.
pub const LAYOUTS_MAX: usize = 8;
/// A client that takes less than this within [`STALL_TIMEOUT`], while bytes wait for it, is dropped.
pub const TAKEN_BYTES_MIN: u64 = 64 << 10;
/// How long a client may take less than [`TAKEN_BYTES_MIN`] while bytes wait for it.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a status waits for nodes that were asked for newer rows; it leaves out those that have not
/// answered by then.
pub const ANSWER_DEADLINE: Duration = Duration::from_millis(50);
/// How long the answers in progress may take after the door begins to close.
pub const CLOSING_GRACE: Duration = Duration::from_secs(1);

/// The limits that a test can set; all other limits in this module are fixed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once: [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Longest time that a client may take too little: [`STALL_TIMEOUT`].
    pub stall_timeout: Duration,
    /// What a client must take in that time: [`TAKEN_BYTES_MIN`].
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
