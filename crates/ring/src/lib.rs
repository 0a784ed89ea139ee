//! The latest blocks of a lane in fixed-size shared memory. One writer, many readers, no locks: the writer never
//! waits, and a reader notices when it was overtaken. The one place with lock-free code.

mod cursor;
mod memory;
mod ring;

pub use cursor::{Cursor, Event};
pub use memory::RingError;
pub use ring::{Overtaken, Reader, Writer, ring};
