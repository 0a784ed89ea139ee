//! What a hub remembers of its nodes from one start to the next: who they are, when each was last heard, who left by
//! itself. It keeps no rows, and nobody waits for its disk.
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
