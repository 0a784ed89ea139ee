//! The text door: single letters over TCP, the protocol of Supermon (`docs/text-protocol.md`). It reads only
//! through [`khz_model::Query`], so it does not know what answers. It starts no threads, gathers nothing, and
//! sleeps when no request comes.

#![forbid(unsafe_code)]

mod counters;
mod decimal;
mod describe;
mod door;
mod extension;
mod gone;
mod host;
mod input;
mod items;
mod layout;
pub mod limits;
mod lines;
mod mask;
mod page;
mod session;
mod talk;

pub use counters::Counters;
pub use door::{Bound, Door};
pub use input::{Command, Input, Unusable};
pub use limits::Limits;
pub use mask::Mask;
pub use session::Origins;
