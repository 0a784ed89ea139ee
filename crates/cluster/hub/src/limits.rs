//! The limits of a hub, each with its reason.

use std::time::Duration;

use khz_model::Nanos;

/// Nodes that a hub remembers, connected or not, over restarts. When there are more, it forgets nodes that are
/// down and not expected, first the nodes that were down the longest.
pub const NODES_MAX: usize = 65_536;

/// Bytes of the roster's file: as many nodes with names of 250 letters.
pub const ROSTER_BYTES_MAX: u64 = 40 << 20;

/// Bytes of the roster written in a second, over a longer time: a peer that invents names must not wear out the disk.
pub const ROSTER_BYTES_A_SECOND: u64 = 512 << 10;

/// The roster is written this often while a node is up and none comes or goes, so that "last heard" is no older than this
/// after a kill -9.
pub const ROSTER_REFRESH: Duration = Duration::from_secs(15);

/// Bytes of the roster written in a second then: 2,600 nodes in 15 s.
pub const ROSTER_REFRESH_BYTES_A_SECOND: u64 = 32 << 10;

/// Up to this many nodes send their slow lanes right after they have gathered, all at the same time. More nodes take
/// turns within a second. A node that sends right after gathering wakes up once instead of twice, and its rows come
/// without delay.
pub const NODES_AT_ONCE: usize = 16;

/// Connections at once, nodes and readers together.
pub const CONNECTIONS_MAX: usize = 65_536;

/// Connections that have not said who they are. A port scan fills only this: the oldest goes first.
pub const HANDSHAKES_MAX: usize = 1_024;

/// Bytes of unfinished frames of all connections: 16,384 of the pieces that agents send. Beyond it a connection that
/// begins another frame and does not finish it is cut.
pub const UNFINISHED_BYTES_MAX: usize = 512 << 20;

/// Lanes of one node, as many as an agent offers. An agent has 128 at most (24 of readings, `khz_gather::LANES_MAX`, and 104 of
/// channels, `khz_gather::CHANNELS_MAX`); lanes that have ended keep their place until another lane needs it.
pub const LANES_MAX: usize = khz_link::limits::LANES_MAX;

/// Slots of one lane, the same for agents: a node of 10,000 interfaces has 160,000.
pub use khz_model::schema::SLOTS_MAX;

/// Bytes of one schema, the same for agents and readers.
pub use khz_block::schema::SCHEMA_BYTES_MAX;

/// Frozen rows that were requested from nodes and are not yet in a recording: the frozen rows of all nodes together may not fit
/// into memory. A single node may have more.
pub const FETCH_BYTES_MAX: u64 = 16 << 20;

/// Work that a node may cause with pieces of schemas, counted in copied slots: if blocks use a schema already, each new
/// piece makes the hub copy the earlier slots. Half a second of the hub's time.
pub const SCHEMA_WORK_MAX: u64 = 16 << 20;

/// A piece counts as at least this much work, however small it is.
pub const SCHEMA_PIECE_WORK: usize = 256;

/// Work that a node may cause again each second: a piece for each row of the largest schema.
pub const SCHEMA_WORK_A_SECOND: u64 = 4 << 20;

/// Generations of a schema that a lane remembers: one for each restart of the agent while its ring stayed
/// the same.
pub const GENERATIONS_MAX: usize = 8;

/// Bytes of one block: a key row of the largest schema, and eight times as much in deltas.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// What a decoder holds for a slot: value, state, and a place in the list of changes.
pub const BYTES_A_SLOT: usize = 8 + 1 + 4;

/// Memory of one node: its decoded schemas, its unfinished blocks, the newest rows of its lanes. Three lanes of 160,000
/// series that have nothing in common take half of it.
pub const NODE_BYTES_MAX: u64 = 128 << 20;

/// Bytes that a node may send between two counts of what it holds.
pub const NODE_BYTES_UNCOUNTED: u64 = 16 << 10;

/// Memory of all nodes' schemas; a schema of several nodes counts once. 3,000 series for each of 4,096 nodes that share
/// nothing.
pub const SCHEMAS_BYTES_MAX: u64 = 1 << 30;

/// Memory of all nodes without schemas and history: unfinished blocks, the newest rows...
pub const NODES_BYTES_MAX: u64 = 1 << 30;
/// ...and this many bytes more for each connection: the rows of two minutes of 300 series at 1 Hz.
pub const NODES_BYTES_EACH: u64 = 128 << 10;

/// When a node has been down for this long, the hub frees the node's memory, except history and rows that a reader still
/// reads. A restarted agent is back before that.
pub const GONE_KEPT: Nanos = Nanos::from_secs(60);

/// The newest block of a base lane is kept for history when its node goes down, if it is not larger than this.
pub const LANE_BYTES_KEPT: u64 = 256 << 10;

/// Nodes that are forgotten together when there are too many: finding the oldest means comparing all of them.
pub const NODES_DROPPED: usize = 256;

/// Blocks of a lane that are kept for its readers, whatever the history: a second at 1,000 Hz.
pub const BLOCKS_FOR_READERS: usize = 8;

/// Bytes of a lane's late blocks that readers have not fetched yet. A node sends at most this much in an eighth of a
/// second.
pub const LATE_BYTES_MAX: usize = 512 << 10;

/// Readers fetch late blocks ten times a second. A reader that has not done so after this time is too slow.
pub const LATE_KEPT: Nanos = Nanos::from_secs(5);

/// A reader of a channel waits this long for missing rows, and newer rows wait with them. The time begins again when late
/// rows come. A node that was cut off is back by then.
pub const GAP_WAIT: Nanos = Nanos::from_secs(10);

/// Blocks of one lane in the history.
pub const BLOCKS_MAX: usize = 65_536;

/// Subscriptions of one reader's connection.
pub use khz_link::limits::SUBSCRIPTIONS_MAX;

/// Subscriptions of all readers at one node. Readers that want the same share one.
pub const NODE_SUBSCRIPTIONS_MAX: usize = 56;

/// Subscriptions of the hub itself at one node, which readers cannot take: channels that the store keeps, and rules.
pub const OWN_SUBSCRIPTIONS_MAX: usize = 48;

/// Operations that the link's thread does for all readers in one turn of its loop before it serves the other peers:
/// names compared, nodes visited, series matched against patterns. This takes one or two milliseconds.
pub const OPERATIONS_A_TURN: usize = 2_048;

/// Lookups and comparisons to find the parts of a subscription that no node has. If there are more, the reader gets no
/// notice. Enough for an instance that none of 8,192 nodes has.
pub const MISSES_EFFORT: usize = 8_192;

/// Bytes of one subscription's patterns without node names: each node gets them. Sixty-four of the longest ordinary
/// patterns.
pub const SUBSCRIPTION_BYTES_MAX: usize = 16 << 10;

/// Nodes of one subscription that may have a notice at the same time.
pub const NOTICES_MAX: usize = 256;

/// A block for a reader ends at this age. Lanes with many rows end theirs earlier.
pub const BLOCK_SPAN: Nanos = Nanos::from_secs(60);

/// Nodes go on with a channel for this long without a hub (`khz_gather::CHANNEL_LINGER`): a hub that starts fetches the rows of
/// this time from the hub below, also the rows of base lanes.
pub const AWAY_MAX: Nanos = Nanos::from_secs(60);

/// This hub requests a channel from a hub below for this long after the last reader here has gone. This is longer than the longest
/// pause before a reader reconnects, so the reader finds the rows since then.
pub const FOLLOWED_LINGER: Nanos = Nanos::from_secs(10);
/// Channels that are asked for without a reader, at a time: a connection to a hub below has room for 63.
pub const FOLLOWED_LINGERING_MAX: usize = 8;

/// New subscriptions that a node gets at once, and each second after that: for each it opens a lane.
pub const SUBSCRIPTIONS_AT_ONCE: u64 = 2 * SUBSCRIPTIONS_MAX as u64;
/// See [`SUBSCRIPTIONS_AT_ONCE`].
pub const SUBSCRIPTIONS_A_SECOND: u64 = 16;

/// Kernel texts that a node is asked for at once, and each second after that: for each it opens a file.
pub const READS_AT_ONCE: u64 = 512;
/// See [`READS_AT_ONCE`].
pub const READS_A_SECOND: u64 = 128;

/// Bytes of one node's kernel texts, including texts that are arriving: three of the largest.
pub const NODE_TEXT_BYTES_MAX: u64 = 24 << 20;

/// Bytes of all nodes' kernel texts: 30 files of each of 4,096 nodes, of 2 kB each.
pub const ALL_TEXT_BYTES_MAX: u64 = 256 << 20;

/// Bytes that wait for all readers together. Each reader has an equal share, between [`OUT_BYTES_MIN`] and
/// [`OUT_BYTES_MAX`].
pub const READERS_OUT_BYTES_MAX: usize = 64 << 20;

/// Bytes that may wait for a reader however many readers there are: a row of a large node.
pub const OUT_BYTES_MIN: usize = 64 << 10;

/// Memory that the cursors of all readers may hold (decoded rows, columns), without the part for each node. When it is
/// full, new readers are refused. A reader of everything needs some 15 kB for a node of 300 slots.
pub const FOLLOW_BYTES_MAX: u64 = 512 << 20;
/// The part for each node; see [`FOLLOW_BYTES_MAX`].
pub const FOLLOW_BYTES_A_NODE: u64 = 64 << 10;

/// The largest share of a reader in [`READERS_OUT_BYTES_MAX`]. Further bytes wait in the lanes.
pub const OUT_BYTES_MAX: usize = 1 << 20;

/// A peer for which more bytes wait does not read: it is cut off. A reader loses rows long before that, at its share.
pub const DEAF_BYTES_MAX: usize = 4 * OUT_BYTES_MAX;

/// A node's clock that is further off than this is wrong: the store files its rows under our time. A smaller difference need
/// not be an error of the clock: a Beat that was held up measures one too. The node measures it and reports it in its Beats.
pub const CLOCK_OFF_MAX: Nanos = Nanos::from_secs(5);

/// The rows of a node that has just come wait this long for the store until the node's clock is measured: the first two beats measure it.
/// A row at a wrong time would look as if the node were silent.
pub const UNMEASURED_MAX: Nanos = Nanos::from_secs(3);

/// How many past blocks of one lane wait for the store until the node's clock is measured: some seconds at 64 KiB a
/// second. Further blocks are stored as if the clock were right.
pub const BLOCKS_UNMEASURED_MAX: usize = 64;

/// Rows of a channel that came through a hub below before older rows, and wait for them: twice the rows of a flush of 100 ms at
/// 1,000 Hz. If there are more, the older rows are missing.
pub const EARLY_ROWS_MAX: usize = 256;

/// History that a node is asked for after the hub has started: "the last ten minutes". With a store it is asked for all rows
/// that the store does not have, too.
pub const HISTORY_SPAN: Nanos = Nanos::from_secs(600);

/// Groups of rules whose results are kept: more than a site writes. If there are more, a group that has not been
/// evaluated for [`GROUP_SILENT_KEPT`] is dropped, or the new group is refused.
pub const GROUPS_MAX: usize = 1_024;
/// How long (ms) a group whose evaluations have stopped keeps its place: an hour.
pub const GROUP_SILENT_KEPT: i64 = 3_600_000;
/// Bytes of the name of a group of rules: the longest path of a file, or a file's and a group's name.
pub const GROUP_NAME_BYTES_MAX: usize = 4_096;
/// Series of one group of rules: 16 for each of 4,096 nodes. Its largest block is below [`BLOCK_BYTES_MAX`].
pub const GROUP_SERIES_MAX: usize = 1 << 16;
/// Series of all groups of rules together, those included that have ended a while ago: 64 for each of 4,096 nodes.
pub const RECORDED_SERIES_MAX: usize = 1 << 18;
/// Names of dropped groups, so that queries about the past find them: the names of 16 sets of rules.
pub const OWNERS_FORMER_MAX: usize = 1 << 14;
/// How long (ms) a recorded series keeps its slot without a sample: ten minutes.
pub const GONE_SERIES_KEPT: i64 = 600_000;
/// A group gives up the slots of no fewer gone series than this, nor of fewer than a quarter of all.
pub const GONE_SERIES_MIN: usize = 64;
