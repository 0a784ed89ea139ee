//! What a hub holds at most, each with its reason.

use khz_model::Nanos;

/// Nodes that a hub remembers, connected or not, from one start to the next. Of those that nobody expects the one that
/// was down the longest makes room; those that the configuration expects always have theirs.
pub const NODES_MAX: usize = 65_536;

/// Bytes of the roster's file: as many nodes with names of 250 letters.
pub const ROSTER_BYTES_MAX: u64 = 40 << 20;

/// Bytes of it written in a second, over a longer time: who invents names must not wear out the disk.
pub const ROSTER_BYTES_A_SECOND: u64 = 512 << 10;

/// So many nodes may send their slow lanes at the moment they have gathered, all at once; more of them take turns within a
/// second. A node that sends when it has gathered wakes up once, not twice, and its rows are here at once.
pub const NODES_AT_ONCE: usize = 16;

/// Connections at once, nodes and readers together.
pub const CONNECTIONS_MAX: usize = 65_536;

/// Connections that have not said who they are. A port scan fills this and nothing else: the oldest goes first.
pub const HANDSHAKES_MAX: usize = 1_024;

/// Bytes of frames that have begun and not ended, of all connections: 16,384 of the pieces that agents send. Beyond it who
/// leaves another unfinished is cut off.
pub const UNFINISHED_BYTES_MAX: usize = 512 << 20;

/// Lanes of one node: what an agent has at most, and as many readers' wishes again.
pub const LANES_MAX: usize = 64;

/// Slots of one lane, the same for agents: a node of 10,000 interfaces has 160,000.
pub use khz_model::schema::SLOTS_MAX;

/// Bytes of one schema, the same for agents and readers.
pub use khz_block::schema::SCHEMA_BYTES_MAX;

/// What a node may cost us with pieces of schemas, in slots that are copied: a piece of one that blocks have already copies
/// those before it. Half a second of our time.
pub const SCHEMA_WORK_MAX: u64 = 16 << 20;

/// What any piece costs.
pub const SCHEMA_PIECE_WORK: usize = 256;

/// So much of it comes back every second: a piece for each row of the largest schema.
pub const SCHEMA_WORK_A_SECOND: u64 = 4 << 20;

/// Generations of a schema that a lane remembers: one for each restart of the agent that its ring has seen.
pub const GENERATIONS_MAX: usize = 8;

/// Bytes of one block: a key row of the largest schema, and the eightfold of it in deltas, in practice.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// What a decoder holds of a slot: value, state, and a place in the list of what has changed.
pub const BYTES_A_SLOT: usize = 8 + 1 + 4;

/// Memory of one node: its schemas as they are decoded, its blocks that have not ended, the newest rows of its lanes. Three
/// lanes of 160,000 series that have nothing in common take half of it.
pub const NODE_BYTES_MAX: u64 = 128 << 20;

/// What a node may send between two counts of what it holds.
pub const NODE_BYTES_UNCOUNTED: u64 = 16 << 10;

/// Memory of all nodes' schemas, those that several nodes have once: 3,000 series for each of 4,096 nodes that share nothing.
pub const SCHEMAS_BYTES_MAX: u64 = 1 << 30;

/// Memory of all nodes but for schemas and history: blocks that have not ended, the newest rows...
pub const NODES_BYTES_MAX: u64 = 1 << 30;
/// ...and this number of bytes more for each connection: a minute of 300 series at 1 Hz twice.
pub const NODES_BYTES_EACH: u64 = 128 << 10;

/// A node that has gone gives back after this time what is neither history nor wanted by a reader: an agent that is
/// restarted is there again by then.
pub const GONE_KEPT: Nanos = Nanos::from_secs(60);

/// The newest block of a base lane that is kept for its history when its node has gone: larger ones go with it.
pub const LANE_BYTES_KEPT: u64 = 256 << 10;

/// Nodes that make room at once where there are too many: looking for the oldest means looking at all.
pub const NODES_DROPPED: usize = 256;

/// Blocks of a lane that are kept for readers that follow it, whatever the history: a second at 1,000 Hz.
pub const BLOCKS_FOR_READERS: usize = 8;

/// Bytes of blocks of a lane that came late and that readers have not fetched yet: an eighth of a second of the fastest that a node sends them.
pub const LATE_BYTES_MAX: usize = 512 << 10;

/// Readers fetch them ten times a second; those that have not done so after this time are too slow.
pub const LATE_KEPT: Nanos = Nanos::from_secs(5);

/// Blocks of one lane in the history.
pub const BLOCKS_MAX: usize = 65_536;

/// Interests of one node at once. Readers that want the same share one.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// What the link's thread does for all readers in one turn of its loop before it serves everybody else: names compared,
/// nodes looked at, series held against patterns. A millisecond or two.
pub const OPERATIONS_A_TURN: usize = 2_048;

/// What is looked up and compared to tell one interest what of it nobody has; beyond it nothing is said. Enough for an
/// instance that none of 8,192 nodes has.
pub const MISSES_EFFORT: usize = 8_192;

/// Bytes of one interest's patterns without their nodes: each node is sent them. Sixty-four of the longest ordinary ones.
pub const SUBSCRIPTION_BYTES_MAX: usize = 16 << 10;

/// Nodes that one interest may have something to be told about at once.
pub const NOTICES_MAX: usize = 256;

/// Interests that a node is told in one go, and how many more each second: each is a lane that it opens.
pub const SUBSCRIPTIONS_AT_ONCE: u64 = 2 * SUBSCRIPTIONS_MAX as u64;
/// See [`SUBSCRIPTIONS_AT_ONCE`].
pub const SUBSCRIPTIONS_A_SECOND: u64 = 16;

/// Kernel texts that a node is asked for in one go, and how many more each second: each is a file that it opens.
pub const READS_AT_ONCE: u64 = 512;
/// See [`READS_AT_ONCE`].
pub const READS_A_SECOND: u64 = 128;

/// Bytes of one node's kernel texts, those that are under way among them: three of the largest.
pub const NODE_TEXT_BYTES_MAX: u64 = 24 << 20;

/// Bytes of all nodes' kernel texts: 30 files of each of 4,096 nodes, of 2 kB each.
pub const ALL_TEXT_BYTES_MAX: u64 = 256 << 20;

/// Bytes waiting for all readers together. Each has a like share of it, within [`OUT_BYTES_MIN`] and [`OUT_BYTES_MAX`].
pub const READERS_OUT_BYTES_MAX: usize = 64 << 20;

/// What may wait for a reader however many there are: a row of a large node.
pub const OUT_BYTES_MIN: usize = 64 << 10;

/// What the places of all readers at the nodes may hold (decoded rows, columns), and for each node so much more. Beyond it
/// nobody new is taken in: a reader of everything needs some 15 kB a node of 300 slots.
pub const FOLLOW_BYTES_MAX: u64 = 512 << 20;
/// See [`FOLLOW_BYTES_MAX`].
pub const FOLLOW_BYTES_A_NODE: u64 = 64 << 10;

/// Bytes waiting for a peer that does not read. A node has no reason to be behind; a reader loses rows first.
pub const OUT_BYTES_MAX: usize = 1 << 20;

/// History that a node is asked for after the hub has started: "the last ten minutes".
pub const HISTORY_SPAN: Nanos = Nanos::from_secs(600);
