//! The limits of the store, each with its reason. docs/limits.md lists them.

use khz_model::{ByteSize, Nanos};

/// The most rows of a section: an hour at 250 Hz. Whatever a file claims, no more is decoded at a time.
pub const ROWS_MAX: usize = 1 << 20;
/// The most bytes of a column: each row as eight bytes, a state for each, and the labels.
pub const COLUMN_BYTES_MAX: usize = 24 << 20;
/// The most bytes of different labels in a column; a reading beyond that is Failed(OutOfRange). A thousand sets of the
/// longest fit.
pub const COLUMN_LABELS_MAX: usize = 4 << 20;
/// The most bytes of a packed layout, index or directory page: the largest schema, not packed at all.
pub const PART_BYTES_MAX: usize = khz_block::schema::SCHEMA_BYTES_MAX + (1 << 10);
/// Bytes at the end of a column file in which its end is searched, if somebody has appended some. Beyond that the file is refused.
pub const APPENDED_BYTES_MAX: u64 = 1 << 20;
/// Nodes in one page of the directory: a page is some three kilobytes, one read.
pub const PAGE_NODES: usize = 64;
/// The most sections of a column file whose columns lie side by side, series by series: those of one page of the directory.
pub const GROUP_SECTIONS: usize = PAGE_NODES;
/// The most bytes of columns in such a group. A reader of all series of one node reads the whole group from the disk.
pub const GROUP_BYTES: usize = 2 << 20;
/// Pages of a directory: a million nodes, far more than a hub has.
pub const PAGES_MAX: usize = 1 << 14;
/// Bytes of layouts that a writer remembers, to write each once. When it has more, it forgets them all, and writes
/// those that come again a second time.
pub const LAYOUTS_REMEMBERED_BYTES: usize = 16 << 20;
/// Layouts that a reader keeps decoded. Nodes of a cluster have few; a layout of 300 series is 60 kB.
pub const LAYOUTS_DECODED: usize = 16;
/// Buckets in one answer: a second each for twelve days. A screen has some thousand pixels.
pub const BUCKETS_MAX: usize = 1 << 20;

/// Bytes that all range queries together may hold: the largest column as readings four times, or an hour of a thousand
/// series that is still in the log ten times. Beyond it, another query is refused.
pub const RANGE_BYTES: ByteSize = ByteSize(256 << 20);
/// The memory of each range query beside its rows and buckets: the file part that it reads, and lists of series. Two thousand
/// queries of few rows fit at a time.
pub const RANGE_QUERY_BYTES: u64 = 128 << 10;
/// The most metrics in a list of a store's content: as many as a hub knows.
pub const METRICS_LISTED_MAX: usize = 16_384;
/// Readings in one answer to a range query: two days of a node with 300 series at 1 Hz, two gigabytes of text.
pub const RANGE_READINGS_MAX: u64 = 1 << 26;

/// Bytes of times and columns that stay unpacked between questions, at least: one series of 1,000 nodes at 1 Hz over an hour, or of
/// one node over six weeks of minutes and two weeks of rows.
pub const UNPACKED_BYTES: usize = 64 << 20;
/// On a machine with more memory, this part of it: a 64th. A hub of 4,096 nodes needs 300 MiB for an hour of one series of all.
pub const UNPACKED_SHARE: usize = 64;
/// And at most this much.
pub const UNPACKED_BYTES_MAX: usize = 512 << 20;
/// The least memory that each of them takes, including its place.
pub const UNPACKED_LEAST: usize = 128;
/// Parts of that memory, each with its own lock and an equal share: a column of an hour at 100 Hz fits into one.
pub const UNPACKED_SHARDS: usize = 4;

/// Hours with rows, the last of a question, in which the newest readings are searched; before them roll-ups are asked. A day,
/// wherever it begins.
pub const NEWEST_HOURS: usize = 25;

/// The most bytes of a record of the log. A commit with more rows has several records.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Bytes of open blocks that a commit takes before it writes them: those of 4,096 nodes at 1 Hz in some five seconds. One
/// piece of more is written alone.
pub const ROWS_RECORD_BYTES: usize = 8 << 20;
/// How many times a commit asks for new bytes of open blocks. Later bytes go to the next commit.
pub const TAKES_MAX: usize = 64;
/// Blocks that wait for the next commit, for example because the disk is slow or full. When there are more, the oldest are
/// dropped, and their rows are counted.
pub const BLOCKS_WAITING_BYTES: usize = 256 << 20;
/// Ranges of stored rows that a lane remembers. Each hole is an outage in which the node's ring was overwritten.
pub const STORED_RANGES_MAX: usize = 64;
/// A segment of this size is sealed before its ten minutes are over, in a small store one of less (`SEGMENT_SHARE`).
pub const SEGMENT_BYTES: u64 = 2 << 30;
/// A segment is also full with this many blocks, since its index takes some hundred bytes of memory for each.
pub const SEGMENT_BLOCKS: usize = 1 << 19;
/// Lanes that the log remembers: sixteen epochs of 4,096 nodes. Beyond it, lanes that the hub does not have are forgotten.
pub const LANES_REMEMBERED: usize = 1 << 16;

/// The most blocks of a bundle of the log: those that 4,096 nodes end in eight seconds. One slot of all of them is some 26 kB, a
/// read.
pub const BUNDLE_BLOCKS: usize = 512;
/// Fewer blocks of a segment and a schema make no bundle: to read them is quick.
pub const BUNDLE_BLOCKS_LEAST: usize = 64;
/// A bundle that is this large gets no further block.
pub const BUNDLE_BYTES: usize = 8 << 20;
/// The most bytes of a bundle: one that is almost full, and the largest block.
pub const BUNDLE_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;
/// Slots times rows of a block that may be in a bundle: while it is turned into columns, each takes eight bytes.
pub const BUNDLE_CELLS: usize = 1 << 20;
/// A store of less than this many bundles has none.
pub const BUNDLES_SHARE: u64 = 64;

/// The most hours whose pieces one pass over a segment writes. Each needs a writer and the rows of one node; segments of ten
/// minutes have rows of one hour or two. Rows of further hours take further passes.
pub const HOURS_AT_ONCE: usize = 2;
/// Bytes of rows of one node and hour that wait for their section. A node with more gets several sections.
pub const NODE_ROWS_BYTES: usize = 12 << 20;
/// Pieces that a unit may have beyond the merged one, before they are merged into it. A query reads all of them.
pub const PIECES_MAX: usize = 4;
/// Pieces that an hour may have which is not over yet: more than its ten-minute segments, so that it is merged once.
pub const PIECES_MAX_BEFORE_END: usize = 16;
/// The part of a store's size that a merged file of a roll-up may take. Before it is full, another one begins, so that the oldest
/// summaries can go without the others, and there is room to merge.
pub const PIECE_SHARE: u64 = 16;
/// The part of a store's size that a segment of the log may take before it is sealed. While its blocks end, others are written.
pub const SEGMENT_SHARE: u64 = 8;
/// Files that are merged at a time; each is open while that happens.
pub const FILES_MERGED: usize = 32;
/// Files that stay open between questions: three weeks of hours, and roll-ups.
pub const FILES_KEPT_OPEN: usize = 640;
/// Column files whose rows compaction counts at a time: the index of each node in a file is read, some ten megabytes for
/// 4,096 nodes.
pub const FILES_COUNTED: usize = 16;
/// Files that one answer may have open.
pub const FILES_IN_ANSWER: usize = 1024;
/// Times that a reader lists the files again because a merge has just removed one of them.
pub const LISTING_TRIES: usize = 8;
/// How far in the future a row may be. Later ones are dropped, so that a false date makes no file.
pub const FUTURE_MAX: Nanos = Nanos(3_600_000_000_000);
/// How often the log begins another segment, ...
pub const SEGMENT_TIME: Nanos = Nanos(600_000_000_000);
/// ... and how long after a full hour: blocks of a minute end before that, so few rows come after their hour was merged.
pub const SEGMENT_DELAY: Nanos = Nanos(90_000_000_000);
/// How long after its end a unit is merged: later than the segment that has its last rows.
pub const MERGE_DELAY: Nanos = Nanos(300_000_000_000);
/// How long a sealed segment waits at most for blocks that began in it. At 1 Hz a block ends within a minute.
pub const SETTLE_WAIT: Nanos = Nanos(120_000_000_000);
/// How long further rows of a merged hour wait for others before it is merged and rolled up again.
pub const LATE_WAIT: Nanos = Nanos(3_600_000_000_000);
/// How long a unit or segment that could not be read is left alone. Meanwhile the others get their turn.
pub const LEFT_ALONE_TIME: Nanos = LATE_WAIT;
/// How long compaction rests after a failure, for example because the disk is full.
pub const RETRY_WAIT: Nanos = Nanos(60_000_000_000);
