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

/// Lanes of one node: what an agent has at most, and as many readers' wishes again.
pub const LANES_MAX: usize = 64;

/// Slots of one lane, the same for agents: a node of 10,000 interfaces has 160,000.
pub use khz_model::schema::SLOTS_MAX;

/// Bytes of one schema: as many slots with names of 16 bytes.
pub const SCHEMA_BYTES_MAX: u64 = 6 << 20;

/// What a node may cost us with pieces of schemas, in slots that are copied: each piece copies those before it. The
/// largest schema, of short names and in pieces of 32 KiB, takes nearly all of it. Half a second of our time.
pub const SCHEMA_WORK_MAX: u64 = 16 << 20;

/// So much of it comes back every second: a piece for each row of the largest schema.
pub const SCHEMA_WORK_A_SECOND: u64 = 4 << 20;

/// Generations of a schema that a lane remembers: one for each restart of the agent that its ring has seen.
pub const GENERATIONS_MAX: usize = 8;

/// Bytes of one block: a key row of the largest schema, and the eightfold of it in deltas, in practice.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// Bytes of one node's blocks that have not ended and of its schemas, all lanes together: four of the largest blocks.
pub const NODE_BYTES_MAX: u64 = 64 << 20;

/// A lane with less than this is not looked at for that.
pub const LANE_BYTES_FREE: u64 = 256 << 10;

/// Blocks of a lane that are kept for readers that follow it, whatever the history: a second at 1,000 Hz.
pub const BLOCKS_FOR_READERS: usize = 8;

/// Bytes of blocks of a lane that came late and that readers have not fetched yet: an eighth of a second of the fastest that a node sends them.
pub const LATE_BYTES_MAX: usize = 512 << 10;

/// Readers fetch them ten times a second; those that have not done so after this time are too slow.
pub const LATE_KEPT: Nanos = Nanos::from_secs(5);

/// Blocks of one lane in the history.
pub const BLOCKS_MAX: usize = 65_536;

/// Interests of one node at once. Readers that want the same share one.
pub const INTERESTS_MAX: usize = 64;

/// Interests that a node is told in one go, and how many more each second: each is a lane that it opens.
pub const WISHES_AT_ONCE: u64 = 2 * INTERESTS_MAX as u64;
/// See [`WISHES_AT_ONCE`].
pub const WISHES_A_SECOND: u64 = 16;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A number as people write it: 65,536.
    fn count(n: u64) -> String {
        let digits = n.to_string();
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| std::str::from_utf8(group).unwrap_or(""))
            .collect();
        groups.join(",")
    }

    #[test]
    fn the_limits_are_those_that_readers_of_the_documents_are_told() {
        let text = include_str!("../../../docs/limits.md");
        let (kib, mib) = (|n: usize| format!("{} KiB", n >> 10), |n: u64| format!("{} MiB", n >> 20));
        let [nodes, connections, handshakes, blocks] =
            [NODES_MAX, CONNECTIONS_MAX, HANDSHAKES_MAX, BLOCKS_MAX].map(|n| count(n as u64));
        let (out, least) = (mib(OUT_BYTES_MAX as u64), kib(OUT_BYTES_MIN));
        let (all, each) = (READERS_OUT_BYTES_MAX, READERS_OUT_BYTES_MAX / OUT_BYTES_MAX);
        for line in [
            format!(
                "{}, shared alike: {out} for up to {each} readers, {least} for a thousand",
                mib(all as u64)
            ),
            format!("does not read | {} waiting", mib(4 * OUT_BYTES_MAX as u64)),
            format!("{} and {} for each node", mib(FOLLOW_BYTES_MAX), kib(FOLLOW_BYTES_A_NODE as usize)),
            format!("follows | {BLOCKS_FOR_READERS} a lane"),
            format!("at one node | 64; {INTERESTS_MAX} different ones"),
            format!("{} a node, {} all", mib(NODE_TEXT_BYTES_MAX), mib(ALL_TEXT_BYTES_MAX)),
            format!("who they are | {connections}; {handshakes} |"),
            format!("its lanes; interests in it | {LANES_MAX}; {INTERESTS_MAX} |"),
            format!(
                "a schema | {}, {} slots; {GENERATIONS_MAX} gen",
                mib(SCHEMA_BYTES_MAX),
                count(SLOTS_MAX as u64)
            ),
            format!("{} at once, {} more a second", count(SCHEMA_WORK_MAX), count(SCHEMA_WORK_A_SECOND)),
            format!("a block | {} |", mib(BLOCK_BYTES_MAX as u64)),
            format!(
                "together | {}; a lane with less than {} is",
                mib(NODE_BYTES_MAX),
                kib(LANE_BYTES_FREE as usize)
            ),
            format!(
                "not fetched | {} a lane, for {} s |",
                kib(LATE_BYTES_MAX),
                LATE_KEPT.0 / Nanos::SECOND.0
            ),
            format!("in the history | {blocks}, within"),
            format!(
                "file | {nodes}; {}, {} a second",
                mib(ROSTER_BYTES_MAX),
                kib(ROSTER_BYTES_A_SECOND as usize)
            ),
        ] {
            assert!(text.contains(&line), "docs/limits.md does not say: {line}");
        }
        assert_eq!(
            WISHES_AT_ONCE,
            2 * INTERESTS_MAX as u64,
            "a reader's screen is left and another one opened"
        );
    }
}
