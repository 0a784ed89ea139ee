//! The limits of the protocol, with their reasons: every length, count and wait.

use khz_model::Nanos;

/// The protocol's version that we choose if the peer knows it.
pub const VERSION: u8 = 3;

/// The oldest version that we know.
pub const VERSION_LOWEST: u8 = 1;

/// From this version on a reader's lanes have the node's epoch and row numbers, and a node understands Again.
pub const VERSION_OF_NUMBERS: u8 = 2;

/// From this version on schemas may have metrics whose values are not unsigned (record 3 of docs/block.md). An older peer
/// gets its lanes without such slots.
pub const VERSION_OF_TYPES: u8 = 3;

/// A frame's kind and body together. Schemas and blocks may be larger: they come in pieces.
pub const FRAME_MAX: usize = 256 << 10;

/// A frame before the Welcome. The largest Hello has 500 bytes, and the peer has proved nothing yet.
pub const HELLO_MAX: usize = 1 << 10;

/// Hubs that a Greeting names as sources, of all levels together.
pub const SOURCES_MAX: usize = 32;

/// Texts for people.
pub const TEXT_MAX: usize = 512;

/// A program's version.
pub const PROGRAM_MAX: usize = 64;

/// A hub's name for people.
pub const HUB_NAME_MAX: usize = 253;

/// Patterns in one interest.
pub const PATTERNS_MAX: usize = 64;

/// A channel's handler. `khz_plan` has the same limit, and refuses handlers for many other reasons; here only the bytes count.
pub const HANDLER_BYTES_MAX: usize = 32 << 10;

/// Ranges of rows in one Want that its sender already has.
pub const HAVE_MAX: usize = 16;

/// Lanes that one Beaten acknowledges.
pub const ACKS_MAX: usize = 4_096;

/// A schema's bytes (`docs/block.md`).
pub const SCHEMA_MAX: u64 = 16 << 20;

/// A peer must have sent Hello within this time.
pub const HANDSHAKE: Nanos = Nanos::from_secs(5);

/// A peer that was silent for this long is gone: two Beats and a half.
pub const SILENCE: Nanos = Nanos::from_millis(2_500);

/// The time between two Beats.
pub const BEAT: Nanos = Nanos::SECOND;

/// A Beat must be answered within this time. Together with the second between Beats, we notice a frozen hub
/// after 2.5 s.
pub const BEATEN_LATE: Nanos = Nanos::from_millis(1_500);

/// A hub must have accepted us within this time: a restarted hub may need it for thousands of agents that come back at once.
pub const WELCOME_LATE: Nanos = SILENCE;

/// While this many bytes wait to be sent, nothing is taken out of the rings: the rings are the
/// buffer.
pub const OUT_MAX: usize = 128 << 10;

/// The thread that writes rows sends this many bytes of rows itself: a flush of a hundred rows of three hundred slots. If
/// there is more, the link's thread sends it.
pub const CARRY_MAX: u64 = 32 << 10;

/// Rows, blocks and schemas go in pieces of this size, so that a slow link still completes a frame in time.
pub const PIECE: usize = 32 << 10;

/// Lanes that an agent offers on one connection.
pub const LANES_MAX: usize = 256;

/// Interests of a hub that an agent answers at a time: 56 for readers, 48 for the hub itself, and room for
/// more.
pub const INTERESTS_MAX: usize = 160;

/// Interests of one reader's connection at a time.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// Interests that a reader may send in one burst, because an interest in all nodes is work for all of them.
pub const INTERESTS_AT_ONCE: u64 = 2 * SUBSCRIPTIONS_MAX as u64;
/// Interests that it may send each second besides. See [`INTERESTS_AT_ONCE`].
pub const INTERESTS_A_SECOND: u64 = 32;

/// A kernel text: `/proc/interrupts` of 256 CPUs and 1,000 interrupts has 3 MB.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// A path below `/proc`.
pub const TEXT_PATH_MAX: usize = 255;

/// Kernel texts that one node serves at a time.
pub const TEXTS_MAX: usize = 256;

/// Names in a node's list of kernel texts.
pub const LISTED_MAX: usize = 4_096;

/// Subscriptions to kernel texts that one reader may have: several for each of thousands of nodes.
pub const READS_MAX: usize = 8_192;

/// Reads that a reader may send in one burst.
pub const READS_AT_ONCE: u64 = 2_048;
/// Reads that it may send each second besides.
pub const READS_A_SECOND: u64 = 1_024;

/// The highest rate of missing blocks, bytes a second.
pub const PAST_RATE: u64 = 4 << 20;

/// The rate of missing blocks on a new connection, bytes a second: four thousand agents that come back at once must
/// not overload a hub.
pub const PAST_RATE_FIRST: u64 = 64 << 10;

/// How many ranges of received rows a receiver remembers for each lane. A lane with more holes has had more outages than a
/// ring can fill again: the oldest hole counts as lost.
pub const RANGES_MAX: usize = 64;

/// A reader remembers for this long which rows of a closed lane it has. After a shorter outage it knows exactly which rows it
/// missed.
pub const KEPT_FOR: Nanos = Nanos::from_secs(3_600);

/// Lanes that a reader accepts on one connection: four for each of many thousands of nodes.
pub const FOLLOWED_MAX: usize = 65_536;

/// The largest block at a receiver, in bytes. No writer makes a larger block: its key row is at least an
/// eighth of it.
pub const BLOCK_MAX: usize = 64 << 20;

/// Bytes of a channel's definition as JSON. A hub keeps as many.
pub const DEFINITION_BYTES_MAX: usize = 16 << 10;

/// Channels of a hub that a reader takes: four times as many as a hub keeps. Further channels are left
/// out.
pub const DEFINITIONS_MAX: usize = 1_024;

/// Freezes that a node keeps at a time. One more replaces the oldest.
pub const FREEZES_MAX: usize = 8;

/// Bytes that a node keeps for all its freezes. Half a minute of some hundred series at 10 Hz takes less than one MiB.
pub const FROZEN_BYTES_MAX: usize = 32 << 20;

/// Lanes of one freeze: the local lane, and the faster lanes that are open.
pub const FROZEN_LANES_MAX: usize = 32;

/// How far back a freeze may reach: rings of usual sizes do not reach further.
pub const FREEZE_BEFORE_MAX: Nanos = Nanos::from_secs(600);

/// How long a freeze may go on.
pub const FREEZE_AFTER_MAX: Nanos = Nanos::from_secs(60);

/// A node keeps frozen rows for this long, unless a hub has fetched them before: a hub may be away for a whole
/// night.
pub const FROZEN_KEPT_FOR: Nanos = Nanos::from_secs(24 * 3_600);

/// Why rows are frozen, for people.
pub const CAUSE_MAX: usize = 256;

/// Generations of a schema that a receiver remembers of one lane.
pub const GENERATIONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_protocols_document() {
        let text = include_str!("../../../../docs/link.md").split_whitespace().collect::<Vec<_>>().join(" ");
        for (bytes, after) in [
            (FRAME_MAX as u64, "(`FRAME_MAX`)"),
            (HELLO_MAX as u64, "(`HELLO_MAX`)"),
            (TEXT_BYTES_MAX as u64, "(`TEXT_BYTES_MAX`)"),
            (CARRY_MAX, "(`CARRY_MAX`)"),
            (OUT_MAX as u64, "(`OUT_MAX`)"),
            (PIECE as u64, "(`PIECE`)"),
            (HANDLER_BYTES_MAX as u64, "(`HANDLER_BYTES_MAX`)"),
            (PAST_RATE_FIRST, "a second at first (`PAST_RATE_FIRST`)"),
            (PAST_RATE, "a second (`PAST_RATE`)"),
        ] {
            let size =
                if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
            let line = format!("{size} {after}");
            assert!(text.contains(&line), "docs/link.md does not say: {line}");
        }
        assert_eq!(
            INTERESTS_AT_ONCE,
            2 * SUBSCRIPTIONS_MAX as u64,
            "a reader's screen is left and another one opened"
        );
    }
}
