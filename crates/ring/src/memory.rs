//! A stretch of shared memory, seen as 64-bit words that several threads and processes may touch. It owns the
//! mapping, and the only unsafe code of this crate.
//!
//! Why not a plain `Vec<AtomicU64>`: other processes read the same memory, it is there after a crash, and the
//! kernel accounts it apart (RssShmem), so that what the flight recorder takes can be told from what the agent
//! takes.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::guard::Watched;

/// The mapping. It lives as long as the last `Arc` around it.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Its file may be cut short by somebody.
    watched: Option<Watched>,
}

// SAFETY: the memory is only ever reached as `&[AtomicU64]`, which any thread may use.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A file without a name, of this many zeroed bytes; pages are taken as they are first written. Nobody can cut it.
pub(crate) fn nameless(bytes: u64) -> Result<OwnedFd, Errno> {
    let file = memfd_create("khz-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    // Only its owner and root could cut it: where a kernel knows no seals, nothing is lost.
    let _ = fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL);
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
        // locked). Where he cuts it all the same, touching what is gone raises SIGBUS, which ends the process or leaves zeros
        // (`guard.rs`); who maps a file of somebody else's trusts him so far (docs/shm.md).
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, shared, file, 0) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        let watched = Watched::new(start, bytes);
        Ok(Memory { start: start.cast(), words: bytes / size_of::<u64>(), watched })
    }

    /// True when a part of the file was gone when it was touched: zeros stand in its place, and nothing that is written reaches
    /// the file.
    pub fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }

    /// Why what is written here does not reach those who open the file, of at least this length, by its name.
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
        self.watched = None;
        // SAFETY: exactly the mapping that `of` made; no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert!(unmapped.is_ok(), "BUG: the ring's mapping was not one");
    }
}
