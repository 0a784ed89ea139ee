//! The limits of the store, each with its reason. docs/limits.md lists them.

use khz_model::ByteSize;

/// The most rows of a section: an hour at 250 Hz. Whatever a file claims, no more is decoded at a time.
pub const ROWS_MAX: usize = 1 << 20;
/// The most bytes of a column: each row as eight bytes, a state for each, and the labels.
pub const COLUMN_BYTES_MAX: usize = 24 << 20;
/// The most bytes of different labels in a column; a reading beyond that is Failed(OutOfRange). A thousand sets of the
/// longest fit.
pub const COLUMN_LABELS_MAX: usize = 4 << 20;
/// The most bytes of a packed layout, index or directory page: the largest schema, not packed at all.
pub const PART_BYTES_MAX: usize = khz_block::schema::SCHEMA_BYTES_MAX + (1 << 10);
/// Nodes in one page of the directory: a page is some three kilobytes, one read.
pub const PAGE_NODES: usize = 64;
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
/// What each range query holds at least: the column that it reads, and its buckets.
pub const RANGE_QUERY_BYTES: u64 = 1 << 20;
/// Readings in one answer to a range query: two days of a node with 300 series at 1 Hz, two gigabytes of text.
pub const RANGE_READINGS_MAX: u64 = 1 << 26;

/// The most bytes of a record of the log. A commit with more rows has several records.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Rows of open blocks that wait for the next commit: two minutes of 4,096 nodes at 1 Hz, a second and a half of them at
/// 100 Hz. What does not fit is not lost: it comes again as a block.
pub const ROWS_WAITING_BYTES: usize = 64 << 20;
/// Blocks that wait for the next commit, for example because the disk is slow or full. When there are more, the oldest are
/// dropped, and their rows are counted.
pub const BLOCKS_WAITING_BYTES: usize = 256 << 20;
/// Ranges of stored rows that a lane remembers. Each hole is an outage in which the node's ring was overwritten.
pub const STORED_RANGES_MAX: usize = 64;
/// A segment of this size is sealed before its ten minutes are over.
pub const SEGMENT_BYTES: u64 = 512 << 20;
/// A segment with this many blocks, too: the index of one is some hundred bytes in memory.
pub const SEGMENT_BLOCKS: usize = 1 << 18;
/// Lanes that the log remembers: sixteen epochs of 4,096 nodes. Beyond it, lanes that the hub does not have are forgotten.
pub const LANES_REMEMBERED: usize = 1 << 16;
