//! A stretch of shared memory, seen as 64-bit words that several threads and processes may touch. It owns the
//! mapping, and the only unsafe code of this crate.
//!
//! Why not a plain `Vec<AtomicU64>`: other processes read the same memory, it is there after a crash, and the
//! kernel accounts it apart (RssShmem), so that what the flight recorder takes can be told from what the agent
//! takes.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

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

/// A file without a name, of so many zeroed bytes; pages are taken as they are first written.
pub(crate) fn nameless(bytes: u64) -> Result<OwnedFd, Errno> {
    let file = memfd_create("khz-ring", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, bytes)?;
    Ok(file)
}

/// Takes the pages of this range now, so that no store into them can fail later.
pub(crate) fn allocate(file: impl AsFd, at: u64, bytes: u64) -> Result<(), Errno> {
    loop {
        match fallocate(&file, FallocateFlags::empty(), at, bytes) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

impl Memory {
    /// The first `bytes` bytes of a file that is at least as long, for reading and writing. Whoever writes to a
    /// word has allocated its page before, or the file has no name and no limit but the machine's memory.
    pub fn of(file: impl AsFd, bytes: u64) -> Result<Self, Errno> {
        Memory::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same for reading alone: nothing may be stored into it.
    pub fn to_read(file: impl AsFd, bytes: u64) -> Result<Self, Errno> {
        Memory::map(file, bytes, ProtFlags::READ)
    }

    fn map(file: impl AsFd, bytes: u64, access: ProtFlags) -> Result<Self, Errno> {
        let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let shared = MapFlags::SHARED;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists. The file is
        // as long as the mapping, and only its owner may write it (0640, in a directory that belongs to him and is
        // locked), who never cuts it; who maps a file of somebody else's trusts him so far (docs/shm.md).
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, shared, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Memory { start, words: bytes / size_of::<u64>() })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long, any bytes are a valid AtomicU64, it lives as long as
        // `self`, and is never reached in any other way.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The word at this offset, a multiple of 8. Numbers in it are little-endian.
    #[inline]
    pub fn load(&self, at: u64, order: Ordering) -> u64 {
        u64::from_le(self.words()[at as usize / 8].load(order))
    }

    /// Writes the word at this offset, a multiple of 8.
    #[inline]
    pub fn store(&self, at: u64, value: u64, order: Ordering) {
        self.words()[at as usize / 8].store(value.to_le(), order);
    }

    /// Appends `length` bytes from `at` on to `out`, a word at a time.
    pub fn copy_out(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        let (before, end) = ((at % 8) as usize, at + length as u64);
        let start = out.len();
        let words = &self.words()[at as usize / 8..end.div_ceil(8) as usize];
        out.reserve(words.len() * 8);
        for word in words {
            // Words are little-endian: their bytes stand in memory as in the stream.
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        out.drain(start..start + before);
        out.truncate(start + length);
    }

    /// Writes bytes from `at` on; what else stands in the first and last word stays. One writer only.
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

    /// Some bytes of one word.
    fn put(&self, word: usize, skip: usize, bytes: &[u8]) {
        let word = &self.words()[word];
        let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
        value[skip..skip + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `of` made; no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert!(unmapped.is_ok(), "BUG: the ring's mapping was not one");
    }
}
