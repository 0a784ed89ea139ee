//! The limits of the door, each with its reason. The code that counts a thing enforces its limit.

use std::time::Duration;

use khz_model::{ByteSize, HISTORY_READINGS_MAX, Reading};

/// Connections at once. A page needs two, a scraper one; 512 serves a room full of screens and costs about
/// ten megabytes when all are in use.
pub const CONNECTIONS_MAX: usize = 512;
/// Streams at once: each has a timer of its own on which the door takes rows out of its subscription, and sixty-four
/// screens for the same node are more than enough.
pub const STREAMS_MAX: usize = 64;
/// Streams of all readers together: the others of [`STREAMS_MAX`] are for operators, whose `khz wait` then still gets in.
pub const STREAMS_OF_READERS_MAX: usize = 56;
/// Streams of one reader: a name, or an address without one. A screen needs two, a script that waits for each of some nodes a few more.
pub const STREAMS_OF_A_READER_MAX: usize = 32;
/// A connection without a complete request head for this long, new or kept alive, is closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a body that nobody reads which are taken nevertheless, so that the peer reads the answer: more than any path takes.
pub const DISCARDED_BYTES_MAX: usize = 1 << 20;

/// How long the next of such bytes is awaited; all of them come within [`HEAD_TIMEOUT`].
pub const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client may take less than [`TAKEN_BYTES_MIN`] while bytes wait for it.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may take to finish after the door begins to close.
pub const CLOSING_GRACE: Duration = Duration::from_secs(1);
/// Bytes of one request head, and of the buffer in user space for one connection; browsers send 1-2 KiB.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header fields of one request; browsers send about fifteen.
pub const HEADERS_MAX: usize = 64;
/// Bytes of path and query: one pattern of maximum length, escaped, or a few hundred ordinary ones.
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// `match=` parameters of one request: each is tested against every series.
pub const PATTERNS_MAX: usize = 64;
/// Readings that may wait for one stream: a second of 1,000 columns at 1,000 Hz. A reader with more waiting
/// is dropped.
pub const BACKLOG_READINGS_MAX: usize = 1 << 20;
/// The most readings of one exposition of several nodes (`/metrics?nodes=`), which takes some 90 bytes for each:
/// a thousand nodes of 400 series.
pub const SCRAPE_READINGS_MAX: u64 = 400_000;
/// Bytes of all answers that are built and not yet taken: enough for about a hundred clients that read
/// slowly. Beyond it the door answers 503.
pub const ANSWERS_BYTES: ByteSize = ByteSize(64 << 20);
/// Bytes that answers about the process itself may hold besides the others: two scrapes of a hub of 7,000 nodes.
/// So a hub whose other answers have used up their budget still reports its own state.
pub const OWN_ANSWERS_BYTES: ByteSize = ByteSize(16 << 20);
/// Bytes that scrapes of one node may hold besides the other answers: some sixty of nodes of 1,000 series. So Prometheus
/// still sees every node while clients that do not read have used up the budget of long answers.
pub const SCRAPE_ANSWERS_BYTES: ByteSize = ByteSize(16 << 20);
/// The most readings of a scrape of one node that may use [`SCRAPE_ANSWERS_BYTES`]: a node with more of them takes
/// megabytes, and so room from many others.
pub const SCRAPE_SMALL_READINGS: usize = 16_384;
/// Size of the pages in which an answer is sent; a large node makes its page larger, which is counted.
pub const PAGE_BYTES: usize = 64 * 1024;
/// Room of a page, with that for the piece that fills it.
pub const PAGE_ROOM: usize = PAGE_BYTES + 16 * 1024;
/// What an answer takes from the budget when it begins: a page that is being written and one that is being
/// sent.
pub const PAGES_BYTES: u64 = 2 * PAGE_ROOM as u64;
/// What a request that changes something takes from the budget before the change, so that none is refused that is done: a
/// definition of a channel with what nodes say of it.
pub const CHANGED_BYTES: u64 = 128 * 1024;
/// What the output of a run takes while it is read: the most that is kept of one (`OUTPUT_BYTES_MAX` of the actions).
pub const RUN_OUTPUT_BYTES: u64 = 256 * 1024;
/// Smaller answers are not packed: they fit into one packet unpacked.
pub const PACKED_FROM: u64 = 1_024;
/// What packing one answer takes from the budget: the window, its tables, and packed bytes that are not taken
/// yet. Without room for it, the answer is sent unpacked.
pub const PACKER_BYTES: u64 = 384 * 1024;
/// Packed bytes that are passed on at once.
pub const HANDED_BYTES: usize = 16 * 1024;
/// Bytes of one event of a stream; longer events are split between rows.
pub const EVENT_BYTES: usize = 256 * 1024;
/// What an idle stream takes from the budget: an event that is being sent.
pub const STREAM_BYTES: u64 = 64 * 1024;
/// Kinds of nodes whose layouts an answer remembers.
pub const LAYOUTS_MAX: usize = 4;
/// A client that takes less than this within [`STALL_TIMEOUT`], while bytes wait for it, is dropped: 6.5 kB a
/// second, the speed of a modem. The kernel reports room in steps of about 40 kB, so with a lower limit a
/// slow client would look like one that takes nothing.
pub const TAKEN_BYTES_MIN: u64 = 64 * 1024;
/// An answer that holds more than this besides its pages, as the samples of a query in PromQL, must be taken at
/// [`HELD_BYTES_RATE`]: all of the other answers together hold as much as a few of these.
pub const HELD_BYTES_FREE: u64 = 1 << 20;
/// Bytes a second that a client must take of an answer that holds much: 13 MB are gone after three minutes. A page is counted before
/// it is packed, so that a tenth of this on the wire suffices.
pub const HELD_BYTES_RATE: u64 = 64 * 1024;
/// States of nodes that an answer holds at a time, beside its pages: with their texts, some 40 kB, which is about a page of text.
pub const STATUSES_AT_ONCE: usize = 64;
/// Rows of one history answer: more than the pixels of any screen.
pub const HISTORY_ROWS_MAX: usize = 10_000;
/// What the history of one node may hold: the readings of one request at most.
pub const LOOKING_BACK_BYTES: u64 = (HISTORY_READINGS_MAX * size_of::<Reading>()) as u64;
/// Parts of a range that are read at once, on a thread of their own, before they are written: a hundred nodes with a few
/// points each are not worth a switch of threads each.
pub const RANGE_PARTS_AT_ONCE: usize = 64;
/// A batch of such parts ends after this many readings or points.
pub const RANGE_READINGS_AT_ONCE: usize = 1 << 13;
/// Bytes of a past recording that are made before they are sent: the blocks of some minutes.
pub const RECORDING_BYTES_AT_ONCE: usize = 64 << 10;
/// History requests in progress at once; they run beside the streams, and further ones wait.
pub const HISTORIES_MAX: usize = 2;
/// Queries in PromQL that are evaluated at once, each on a thread of its own; further ones wait. A dashboard asks thirty at once.
pub const QUERIES_MAX: usize = 4;
/// Those of them that one client may have, if they take longer than [`QUERY_SHORT_TIME`]: so there is always one for another
/// client.
pub const QUERIES_OF_A_CLIENT_MAX: usize = 2;
/// One of the [`QUERIES_MAX`] places is for short queries: a query may have it for the first of these times, goes back into the
/// line if it takes longer, and begins again later with the next. A dashboard's queries take milliseconds; the times grow so fast
/// that a query which needs the last loses a third of it.
pub const QUERY_TURNS: [Duration; 3] =
    [Duration::from_millis(25), Duration::from_millis(125), QUERY_SHORT_TIME];
/// The last of [`QUERY_TURNS`]: a query that takes longer is long, and waits for another place.
pub const QUERY_SHORT_TIME: Duration = Duration::from_millis(500);
/// How long a query may take, with the time that it waits for its turn: Prometheus' own limit.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes that one query may hold while it is evaluated: [`QUERIES_MAX`] of them fit into the memory of a small hub.
pub const QUERY_BYTES: usize = 256 << 20;
/// The farthest that a query may let selectors look back (ms): a year, which no node is silent for.
pub const QUERY_LOOK_BACK_MAX: i64 = 365 * 86_400_000;
/// Regular expressions in all `match[]` of one listing, as in one query: each takes a millisecond, and some take memory.
pub const LISTING_REGEXES_MAX: usize = 64;
/// Series of one listing (`/api/v1/series`, labels): those of three hundred nodes, some fifty megabytes. Beyond it the answer is cut,
/// and says so.
pub const SERIES_LISTED_MAX: usize = 100_000;
/// Ids of jobs in one listing (`/api/v1/label/job_id/values`). Beyond it the answer is cut, and says so.
pub const JOB_IDS_MAX: usize = 10_000;
/// Questions to another engine at once, each with a thread that mostly waits; further ones wait. A dashboard asks thirty at
/// once, a browser six of them.
pub const ENGINE_QUESTIONS_MAX: usize = 16;

/// Bytes of a form in the body of a request: a query with its parameters. Grafana's longest have some kilobytes.
pub const FORM_BYTES_MAX: usize = 256 << 10;
/// Bytes of a packed request to read remotely: sixteen queries with some regular expressions.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// The limits that a test or an unusual site can set; all other limits in this module are fixed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once: [`CONNECTIONS_MAX`]. A new one takes the place of the one that has been idle
    /// longest; when none is idle, the new one is closed at once and counted.
    pub connections: usize,
    /// Streams at once: [`STREAMS_MAX`]. One more is answered with 429.
    pub streams: usize,
    /// Streams of all readers: [`STREAMS_OF_READERS_MAX`].
    pub streams_of_readers: usize,
    /// Streams of one reader: [`STREAMS_OF_A_READER_MAX`].
    pub streams_of_a_reader: usize,
    /// Longest wait for a request head: [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// Longest time that a client may take too little: [`STALL_TIMEOUT`].
    pub stall_timeout: Duration,
    /// What a client must take in that time: [`TAKEN_BYTES_MIN`].
    pub taken_min: u64,
    /// What it must take each second of an answer that holds much: [`HELD_BYTES_RATE`].
    pub held_rate: u64,
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
            streams_of_readers: STREAMS_OF_READERS_MAX,
            streams_of_a_reader: STREAMS_OF_A_READER_MAX,
            head_timeout: HEAD_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            taken_min: TAKEN_BYTES_MIN,
            held_rate: HELD_BYTES_RATE,
            backlog_readings: BACKLOG_READINGS_MAX,
            answers: ANSWERS_BYTES,
        }
    }
}
