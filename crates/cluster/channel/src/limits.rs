//! What channels may take at a hub, in numbers.

/// Channels that a hub knows: some for each of its users, and a list that a person still reads.
pub const CHANNELS_MAX: usize = 256;

/// Those of them that readers may have made: so operators find room.
pub const CHANNELS_OF_READERS_MAX: usize = 64;

/// Bytes of a definition as JSON: an expression that somebody can read has some hundred.
pub const DEFINITION_BYTES: usize = 16 << 10;

/// Channels whose rows the store keeps: each is followed on all its nodes all the time.
pub const KEPT_MAX: usize = 16;

/// The fastest rate of such a channel, in hertz: an hour of its rows must fit into a section of a column file.
pub const KEPT_RATE_MAX_HZ: u64 = 100;

/// Nodes of a channel whose last sentence is remembered, such as why they refuse it: `khz channel show` prints them.
pub const NOTED_NODES_MAX: usize = 256;

/// Sinks of a channel: some places with other layouts.
pub const SINKS_MAX: usize = 8;

/// Patterns of a channel: each is tested against every series of a node.
pub const SERIES_MAX: usize = 64;
