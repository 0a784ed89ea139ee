//! Channels: named subscriptions with a condition and a handler, as people define them.
//!
//! Start with two types:
//!
//! - [`Definition`] is what somebody writes: texts with units, PromQL. [`Definition::interest`] checks it and compiles what
//!   nodes are to do.
//! - [`Registry`] is the list of a hub's channels, with its budgets. It is kept in a file, and survives restarts.
//!
//! [`Waited`] turns a simple condition in khz's own names (`node3:mem.available < 1GiB`) into an expression.
//!
//! The crate follows no rows and opens no sockets: who reads a channel subscribes with what [`Definition::interest`] returns.

#![forbid(unsafe_code)]

mod amount;
mod comparison;
mod deadband;
mod definition;
mod each;
mod error;
mod file;
mod interest;
pub mod limits;
mod notices;
mod program;
mod registry;
mod remarks;
mod slips;
mod units;
mod waited;

pub use amount::amount;
pub use comparison::Comparison;
pub use definition::Definition;
pub use error::ChannelError;
pub use notices::NodeNotices;
pub use program::{program_module, program_text};
pub use registry::{Kept, Registry};
pub use waited::{About, Compared, Waited};
