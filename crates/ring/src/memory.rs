//! A stretch of anonymous shared memory, seen as 64-bit words that several threads may touch. It owns the
//! mapping, and the only unsafe code of this crate.
//!
//! Why not a plain `Vec<AtomicU64>`: the kernel accounts shared memory apart (RssShmem), so that what the
//! flight recorder takes can be told from what the agent takes; and the same file descriptor can later be
//! handed to readers in other processes.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refused the memory.
    #[error("cannot get {bytes} bytes of shared memory for a ring: {source}")]
    NoMemory {
        /// What was asked for.
        bytes: usize,
        /// The kernel's reason.
        source: rustix::io::Errno,
    },
}

/// The mapping. It lives as long as the last `Arc` around it.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is only ever reached as `&[AtomicU64]`, which any thread may use.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `words` zeroed words; pages are taken as they are first written.
    pub fn new(words: usize) -> Result<Self, RingError> {
        let bytes = words * size_of::<u64>();
        let no_memory = |source| RingError::NoMemory { bytes, source };
        let file = memfd_create("khz-ring", MemfdFlags::CLOEXEC).map_err(no_memory)?;
        ftruncate(&file, bytes as u64).map_err(no_memory)?;
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists; the file
        // is as long as the mapping and nobody else can shrink it, because its descriptor ends here.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, shared, &file, 0) }.map_err(no_memory)?;
        let start = NonNull::new(start.cast()).ok_or(no_memory(rustix::io::Errno::NOMEM))?;
        Ok(Memory { start, words })
    }

    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long, zeroed (a valid AtomicU64), lives as long as `self`,
        // and is never reached in any other way.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert!(unmapped.is_ok(), "BUG: the ring's mapping was not one");
    }
}
