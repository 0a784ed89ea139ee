//! The latest blocks of a lane in shared memory of fixed size, either in a file that survives its writer or
//! in anonymous memory. One writer, many readers, no locks: the writer never waits, and a reader notices when
//! the writer has overtaken it. Only this crate has lock-free code; `docs/ring.md` describes every byte of
//! the file.

#![deny(unsafe_code)]

mod bytes;
mod cursor;
mod directory;
mod error;
mod folder;
mod guard;
mod layout;
mod memory;
mod reader;
mod recover;
mod schema_area;
mod snapshot;
mod writer;

pub use cursor::{Cursor, Event};
pub use error::RingError;
pub use folder::{Folder, Found, is_of_agents, is_written, rings};
pub use guard::survive_truncation;
pub use layout::{Label, MEMORY_PAGE_BYTES};
pub use reader::{Overtaken, Reader, Shared};
pub use schema_area::SchemaFull;
pub use snapshot::{
    GROUPS_MAX, Latest, SNAPSHOT_FILE, SNAPSHOT_SLOTS_MAX, SlotName, Snapshot, SnapshotFull, SnapshotLabel,
    SnapshotWriter, Unsettled,
};
pub use writer::{Ring, Writer};

/// A unique number: the epoch of a new ring or snapshot.
pub fn random_epoch() -> u64 {
    let mut bytes = [0; 8];
    // Once the kernel's generator is seeded, it returns eight bytes without waiting; before that, the clock
    // must do.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_le_bytes(bytes),
        _ => {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            now.tv_sec as u64 ^ (now.tv_nsec as u64) << 32
        }
    }
}
