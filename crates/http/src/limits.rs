//! Every limit of the door, each with its reason. It enforces none of them: that is done where the thing is
//! counted.

use std::time::Duration;

use khz_model::{ByteSize, HISTORY_READINGS_MAX, Reading};

/// Connections at once. A page needs two, a scraper one; 512 serves a room full of screens and costs some ten
/// megabytes when all of them talk.
pub const CONNECTIONS_MAX: usize = 512;
/// Streams at once: each samples on its own timer, and sixty-four screens see the same node more than enough.
pub const STREAMS_MAX: usize = 64;
/// A connection that has not sent a whole request head for this long, fresh or kept alive, is closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a client may take less than [`TAKEN_BYTES_MIN`] while bytes wait for it.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take to finish after the door was told to close.
pub const CLOSING_GRACE: Duration = Duration::from_secs(1);
/// Bytes of one request head, and of what is buffered for one connection in user space; browsers send 1-2 KiB.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header fields of one request; browsers send about fifteen.
pub const HEADERS_MAX: usize = 64;
/// Bytes of path and query: one pattern of the longest kind, escaped, or a few hundred ordinary ones.
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// `match=` parameters of one request: each is tried on every series.
pub const PATTERNS_MAX: usize = 64;
/// Readings that may wait for one stream: a second of 1,000 columns at 1,000 Hz. A reader who has fallen
/// further behind is dropped, not buffered.
pub const BACKLOG_READINGS_MAX: usize = 1 << 20;
/// Bytes that all answers together may hold, built and not yet taken: some hundred clients that read slowly. Beyond it
/// requests are answered with 503.
pub const ANSWERS_BYTES: ByteSize = ByteSize(64 << 20);
/// What answers about the server itself may hold beside those, and no more than those: two scrapes of a hub of 7,000 nodes. People
/// want to know how a hub is when it is full.
pub const OWN_ANSWERS_BYTES: ByteSize = ByteSize(16 << 20);
/// An answer leaves in pages of about this size; a page grows with the largest node, which is counted.
pub const PAGE_BYTES: usize = 64 * 1024;
/// What an answer takes out of the budget when it begins: a page that is being written and one that is being sent,
/// each with room for the piece that fills it.
pub const PAGES_BYTES: u64 = 2 * (PAGE_BYTES as u64 + 16 * 1024);
/// Less than this is not packed with gzip: the answer fits into one packet as it is.
pub const PACKED_FROM: u64 = 1_024;
/// What packing one answer takes out of the budget: the window, its tables, and what is packed and not taken. Where there is
/// no room for it, the answer is sent as it is.
pub const PACKER_BYTES: u64 = 384 * 1024;
/// Packed bytes that are handed on at once.
pub const HANDED_BYTES: usize = 16 * 1024;
/// Bytes of one event of a stream; longer ones are cut into several, between rows.
pub const EVENT_BYTES: usize = 256 * 1024;
/// What a stream takes out of the budget while nothing is due: an event that is being sent.
pub const STREAM_BYTES: u64 = 64 * 1024;
/// Kinds of nodes whose layout an answer remembers.
pub const LAYOUTS_MAX: usize = 4;
/// A client that takes less than this in [`STALL_TIMEOUT`] while bytes wait for it is dropped: 6.5 kB a second, what a
/// modem carried. The kernel tells of room in steps of about 40 kB, so less could not be told from nothing.
pub const TAKEN_BYTES_MIN: u64 = 64 * 1024;
/// Rows of one history answer: more than any screen has pixels.
pub const HISTORY_ROWS_MAX: usize = 10_000;
/// What looking back at one node may hold: as many readings as anybody sees at once.
pub const LOOKING_BACK_BYTES: u64 = (HISTORY_READINGS_MAX * size_of::<Reading>()) as u64;
/// Histories worked on at once; they run beside the streams, and further ones wait.
pub const HISTORIES_MAX: usize = 2;

/// The limits that a test or an unusual site sets differently; everything else in this module is fixed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once: [`CONNECTIONS_MAX`]. A new one takes the place of the one that has been idle
    /// longest; when none is idle it is closed at once and counted.
    pub connections: usize,
    /// Streams at once: [`STREAMS_MAX`]. One more is answered with 429.
    pub streams: usize,
    /// Longest wait for a request head: [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// Longest wait for a client that does not read: [`STALL_TIMEOUT`].
    pub stall_timeout: Duration,
    /// What it has to take in that time: [`TAKEN_BYTES_MIN`].
    pub taken_min: u64,
    /// Readings that may wait for one stream: [`BACKLOG_READINGS_MAX`].
    pub backlog_readings: usize,
    /// Bytes of all answers together: [`ANSWERS_BYTES`].
    pub answers: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: CONNECTIONS_MAX,
            streams: STREAMS_MAX,
            head_timeout: HEAD_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            taken_min: TAKEN_BYTES_MIN,
            backlog_readings: BACKLOG_READINGS_MAX,
            answers: ANSWERS_BYTES,
        }
    }
}
