//! A mapping of shared memory, accessed as 64-bit words by several threads and processes. It owns the
//! mapping. This file and `guard.rs` have the only unsafe code of this crate.
//!
//! Why not a plain `Vec<AtomicU64>`: other processes read the same memory; it survives a crash; and the
//! kernel counts it separately (RssShmem), so that the flight recorder's memory is visible apart from the
//! agent's.

#![allow(unsafe_code, reason = "a mapping that other processes write is no Rust value")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::guard::Watched;

/// The mapping. It lives until the last `Arc` around it is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Protects against a file that is cut short; `None` if too many mappings are watched.
    watched: Option<Watched>,
}

// SAFETY: the memory is only ever reached as `&[AtomicU64]`, which any thread may use.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// An anonymous file of this many zeroed bytes. The kernel takes a page at the first write to it. Nobody can
/// cut the file short.
pub(crate) fn nameless(bytes: u64) -> Result<OwnedFd, Errno> {
    let file = memfd_create("khz-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    // Without seals (an old kernel), only its owner and root could cut it; so an error is harmless.
    let _ = fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL);
    Ok(file)
}

/// Allocates the pages of this range, so that no later store into them can fail.
pub(crate) fn allocate(file: impl AsFd, at: u64, bytes: u64) -> Result<(), Errno> {
    loop {
        match fallocate(&file, FallocateFlags::empty(), at, bytes) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Gives pages of an anonymous file back to the system; they read as zeros then. A kernel that cannot do that keeps them.
pub(crate) fn give_back(file: impl AsFd, at: u64, bytes: u64) {
    let _ = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes);
}

impl Memory {
    /// Maps the first `bytes` bytes of a file, which must be at least that long, for reading and writing. The
    /// caller allocates a page before it writes to it, unless the file is anonymous and limited only by the
    /// machine's memory.
    pub fn of(file: impl AsFd, bytes: u64) -> Result<Self, Errno> {
        Memory::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same, only for reading: a store would fail.
    pub fn to_read(file: impl AsFd, bytes: u64) -> Result<Self, Errno> {
        Memory::map(file, bytes, ProtFlags::READ)
    }

    fn map(file: impl AsFd, bytes: u64, access: ProtFlags) -> Result<Self, Errno> {
        let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let shared = MapFlags::SHARED;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory. The file
        // is at least as long as the mapping, and only its owner may write to it (0640, in a locked directory
        // of his own). If he cuts it all the same, an access to the lost part raises SIGBUS, which ends the
        // process or leaves zeros (`guard.rs`). A process that maps another user's file accepts that risk
        // (docs/shm.md).
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, shared, file, 0) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        let watched = Watched::new(start, bytes);
        Ok(Memory { start: start.cast(), words: bytes / size_of::<u64>(), watched })
    }

    /// True after an access to a part that the file no longer has. Zeros replace that part, and stores to it
    /// do not reach the file.
    pub fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }

    /// The reason why stores do not reach a process that opens the file by its name; the file should have at
    /// least `bytes` bytes.
    pub fn problem(&self, file: &OwnedFd, bytes: u64) -> Option<&'static str> {
        let about = fstat(file);
        match about {
            _ if self.is_lost() => Some("somebody has cut it short"),
            Ok(about) if (about.st_size as u64) < bytes => Some("somebody has cut it short"),
            Ok(about) if about.st_nlink == 0 => Some("somebody has removed it"),
            _ => None,
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long, any bytes are a valid AtomicU64, it lives as long as
        // `self`, and nothing accesses it in another way.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Loads the word at this offset, a multiple of 8. Words are little-endian.
    #[inline]
    pub fn load(&self, at: u64, order: Ordering) -> u64 {
        u64::from_le(self.words()[at as usize / 8].load(order))
    }

    /// Stores the word at this offset, a multiple of 8.
    #[inline]
    pub fn store(&self, at: u64, value: u64, order: Ordering) {
        self.words()[at as usize / 8].store(value.to_le(), order);
    }

    /// Appends `length` bytes from `at` on to `out`, word by word.
    pub fn copy_out(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        let (before, end) = ((at % 8) as usize, at + length as u64);
        let start = out.len();
        let words = &self.words()[at as usize / 8..end.div_ceil(8) as usize];
        out.reserve(words.len() * 8);
        for word in words {
            // Words are little-endian: their bytes have the same order in memory as in the stream.
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        out.drain(start..start + before);
        out.truncate(start + length);
    }

    /// Writes bytes from `at` on; the other bytes of the first and last word are kept. Only for the one
    /// writer.
    pub fn copy_in(&self, at: u64, bytes: &[u8]) {
        let skip = (at % 8) as usize;
        let (first, rest) = bytes.split_at(if skip == 0 { 0 } else { bytes.len().min(8 - skip) });
        let mut word = at as usize / 8;
        if !first.is_empty() {
            self.put(word, skip, first);
            word += 1;
        }
        let (whole, last) = rest.as_chunks::<8>();
        for (i, bytes) in whole.iter().enumerate() {
            self.words()[word + i].store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !last.is_empty() {
            self.put(word + whole.len(), 0, last);
        }
    }

    /// Writes some bytes of one word.
    fn put(&self, word: usize, skip: usize, bytes: &[u8]) {
        let word = &self.words()[word];
        let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
        value[skip..skip + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.watched = None;
        // SAFETY: this is exactly the mapping that `map` made; no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert!(unmapped.is_ok(), "BUG: munmap refused the ring's mapping");
    }
}
