//! What a hub remembers of its nodes over restarts: their names, when each node was last heard, and which nodes
//! left on purpose. It keeps no rows, and no other thread waits for its disk.
//!
//! [`entry`] is one node as a line of text, [`file`] the file with its lock, [`keeper`] the thread that writes it.

mod changes;
mod entry;
mod file;
mod keeper;

pub(crate) use changes::Changes;
pub(crate) use entry::{Entry, State};
pub use file::RosterError;
pub use keeper::RosterKeeper;
