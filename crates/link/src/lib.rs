//! What agents, hubs and readers say to each other (`docs/link.md`). State machines take bytes and the time and
//! give bytes; none of them opens a socket or looks at a clock.

#![forbid(unsafe_code)]

mod error;
pub mod frame;
mod hub_end;
mod inbound;
pub mod limits;
mod message;
pub mod put;
mod wire;

pub use error::{LinkError, Reject};
pub use frame::Frame;
pub use hub_end::{HubEnd, HubEndConfig, HubSide, Verdict};
pub use message::{
    Ack, Beat, Beaten, End, Greeting, Hello, InterestFrame, LaneOffer, Reason, Role, SchemaPiece, Told, Want,
    WantFrame, Welcome,
};
pub use put::{Acks, Ask};
