//! The protocol between agents, hubs and readers (`docs/link.md`). Its ends are state machines: [`AgentEnd`], [`HubEnd`] and
//! [`ReaderEnd`] take bytes and the time, and return bytes. None of them opens a socket or reads a clock. [`driver`] does
//! both: it has the threads of agents and readers.

#![deny(unsafe_code)]

mod agent_end;
mod allowance;
mod backfill;
mod beats;
mod block_parts;
mod channel;
pub mod definition;
mod dial;
pub mod driver;
pub mod epoch;
mod error;
pub mod failback;
mod flush;
pub mod former;
pub mod frame;
pub mod freeze;
pub mod frozen;
mod goodbye;
mod hub_end;
pub mod hub_list;
mod inbound;
mod intake;
mod lane_book;
mod lane_sender;
mod lane_sink;
mod left_lanes;
pub mod limits;
mod message;
pub mod node_status;
mod older;
mod pace;
pub mod put;
mod ranges;
mod reader_end;
mod ring_walk;
mod schemas_sent;
mod source;
mod span;
mod standing;
pub mod texts;
pub mod whereabouts;
mod wire;

pub use agent_end::{AgentCounts, AgentEnd};
pub use allowance::Allowance;
pub use beats::Pair;
pub use block_parts::without_rows;
pub use channel::ChannelFrame;
pub use definition::DefinitionFrame;
pub use dial::{HubName, Identity, Prove, Vouch};
pub use error::{LinkError, Reject};
pub use failback::Failback;
pub use frame::Frame;
pub use goodbye::{Goodbye, Leaving};
pub use hub_end::{HubEnd, HubEndConfig, HubSide, Verdict};
pub use hub_list::HubList;
pub use intake::{Intake, RowSink};
pub use lane_sink::{Accept, Held, LaneKey, LaneSink};
pub use message::{
    ABILITIES, Ack, Beat, Beaten, End, Greeting, Hello, InterestFrame, KNOWS_CHANNELS, KNOWS_DEFINITIONS,
    KNOWS_FREEZE, KNOWS_OWN, KNOWS_TEXT_NOW, KNOWS_TEXTS, LaneOffer, Reason, Role, SchemaPiece, Told, Want,
    WantFrame, Welcome, hash_of_schema, schema_hash,
};
pub use older::knows;
pub use put::{Acks, Ask};
pub use ranges::Ranges;
pub use reader_end::ReaderEnd;
pub use source::{Answer, Carrier, Lane, Lanes, Overtaken};
pub use standing::Standing;
