//! Every limit of the door, each with its reason. It enforces none of them: that is done where the thing is
//! counted.

use std::time::Duration;

/// Connections at once. A page needs two, a scraper one; 512 serves a room full of screens and costs some ten
/// megabytes when all of them talk.
pub const CONNECTIONS_MAX: usize = 512;
/// Streams at once: each samples on its own timer, and sixty-four screens see the same node more than enough.
pub const STREAMS_MAX: usize = 64;
/// A connection that has not sent a whole request head for this long, fresh or kept alive, is closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that takes no byte for this long while bytes wait for it is dropped.
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
/// Rows of one history answer: more than any screen has pixels.
pub const HISTORY_ROWS_MAX: usize = 10_000;
/// Readings of one history answer, about 40 MB of text.
pub const HISTORY_READINGS_MAX: usize = 4 << 20;
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
    /// Readings that may wait for one stream: [`BACKLOG_READINGS_MAX`].
    pub backlog_readings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: CONNECTIONS_MAX,
            streams: STREAMS_MAX,
            head_timeout: HEAD_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            backlog_readings: BACKLOG_READINGS_MAX,
        }
    }
}
