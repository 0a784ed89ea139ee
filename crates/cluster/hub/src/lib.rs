//! The hub. It collects rows from nodes and serves them to readers: it keeps every node's latest rows and recent
//! blocks, knows which nodes are up, merges what readers subscribe to, and answers [`khz_model::Query`] for the whole
//! cluster. Nodes and readers come in through the link door ([`LinkServer`]); other doors see only [`HubQuery`].

#![forbid(unsafe_code)]

mod caller;
mod channel_list;
mod channels;
mod clock;
mod cluster;
mod connection;
mod counts;
mod cursor;
mod due;
mod followed;
mod freezes;
mod generations;
mod kept;
mod kept_losses;
mod known;
mod lane;
pub mod limits;
mod listener;
mod log_limit;
mod look;
mod mailbox;
mod memory;
mod node;
mod own;
mod peer;
mod proofs;
mod query;
mod reader;
mod reader_texts;
mod recorded;
mod roster;
mod round;
mod rule_rows;
mod schemas;
mod server;
#[cfg(test)]
mod simulation;
mod source;
#[cfg(test)]
mod storm;
mod subscription;
mod text_source;
mod texts;
pub mod trusted;
mod turn;
mod wire;

pub use channels::{KnownChannel, KnownChannels};
pub use cluster::{Cluster, Settings};
pub use freezes::{FreezeOrder, FrozenKey, FrozenNews, Unasked};
pub use kept::ChannelKeeper;
pub use memory::{RosterError, RosterKeeper};
pub use query::HubQuery;
pub use recorded::{Appended, RecordError, RecordedSeries};
pub use rule_rows::{RULES_PREFIX, RuleNews, RuleRows};
pub use server::{LinkDoor, LinkDoorError, LinkServer};
pub use source::Source;
pub use text_source::{TextAddress, TextSource};
