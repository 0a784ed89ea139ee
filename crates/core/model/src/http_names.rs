//! The names of the HTTP interface that both of its ends use: the door, and the reader in `khz get` and its siblings.

/// Path of the latest readings.
pub const QUERY_PATH: &str = "/khz/v1/query";
/// Path of rows as they come.
pub const STREAM_PATH: &str = "/khz/v1/stream";
/// Path of the past, out of the store.
pub const RANGE_PATH: &str = "/khz/v1/range";
/// Recent rows, out of the memory.
pub const HISTORY_PATH: &str = "/khz/v1/history";
/// Path of the list of metrics.
pub const CATALOG_PATH: &str = "/khz/v1/catalog";
/// Path of the channels; a channel is below it, and its rows at `/stream` below that.
pub const CHANNELS_PATH: &str = "/khz/v1/channels";
/// Path of the jobs of a batch system; a job is below it, and PUT starts and ends it.
pub const JOBS_PATH: &str = "/khz/v1/jobs";
/// Path of the rules in use; PUT loads their files again.
pub const RULES_PATH: &str = "/khz/v1/rules";
/// Path of the freezes of a hub; a freeze is below it, and its recording at `/recording` below that.
pub const BLACK_BOX_PATH: &str = "/khz/v1/blackbox";
/// Path of the nodes and the status of each.
pub const NODES_PATH: &str = "/khz/v1/nodes";
/// Header of an answer that another engine gave: the address of that engine.
pub const ENGINE_HEADER: &str = "khz-engine";
/// Header of a stream: at most this many seconds pass between two events or heartbeats. Older doors do not send it.
pub const HEARTBEAT_HEADER: &str = "khz-heartbeat";
