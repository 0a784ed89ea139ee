//! The limits of both protocols, each with its reason. docs/limits.md lists them.

/// Bytes of a request or answer as it travels. Prometheus reads 32 MiB at most.
pub const PACKED_BYTES_MAX: usize = 32 << 20;
/// Bytes of a message when it is unpacked: snappy makes repeated bytes some twenty times smaller.
pub const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Series in a message. With its labels each takes more than a hundred bytes of the 64 MiB.
pub const SERIES_MAX: usize = 1 << 19;
/// Samples in a message: each takes eleven bytes or more.
pub const SAMPLES_MAX: usize = 1 << 23;
/// Labels in a message.
pub const MESSAGE_LABELS_MAX: usize = 1 << 23;

/// Queries in a request to read. Prometheus sends one.
pub const QUERIES_MAX: usize = 16;
/// Conditions of a query. Each may be a regular expression.
pub const MATCHERS_MAX: usize = 64;
/// Bytes of the name or the value of a condition.
pub const MATCHER_BYTES_MAX: usize = 64 << 10;
/// The last time that is looked at, in ms: the end of the year 9999. Readers that want everything ask for more.
pub const READ_TIME_MAX: i64 = 253_402_300_799_999;
/// Bytes of an answer before it is packed: three million samples. Both sides hold several copies of it.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A write request is sent when it reaches this size in bytes before packing. Receivers accept several times as much.
pub const REQUEST_BYTES: usize = 4 << 20;
/// Nodes whose cursors are kept. Each takes some hundred bytes in memory and thirty in its file.
pub const CURSORS_MAX: usize = 1 << 20;
