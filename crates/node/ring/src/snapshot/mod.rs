//! The snapshot: the latest value of every slot, in a file that other processes map (`docs/shm.md`). It has
//! one writer and any number of readers. A sequence lock protects each group of slots that are gathered
//! together.

mod file;
mod layout;
mod names;
mod reader;
pub(crate) mod sequence;
mod writer;

pub use layout::{GROUPS_MAX, SNAPSHOT_SLOTS_MAX, SnapshotLabel};
pub use names::SlotName;
pub use reader::{Latest, Snapshot, Unsettled};
pub use writer::{SnapshotFull, SnapshotWriter};

/// The file's name in a node's directory.
pub const SNAPSHOT_FILE: &str = "snapshot";
