//! Returns free memory to the system, so that a burst of readers leaves nothing behind. This crate's only
//! unsafe code: two calls of glibc that no safe library offers. Does nothing with other C libraries.

#![allow(unsafe_code, reason = "the standard library has neither mallopt(3) nor malloc_trim(3)")]

use std::sync::atomic::{AtomicU64, Ordering};

/// How often memory was returned.
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// Blocks of this size and more come from the system one by one and return at once. glibc begins with 128 KiB
/// and raises that to 32 MiB when the first large block is freed; then it also keeps 64 MiB at the end of
/// each heap.
#[cfg(target_env = "gnu")]
const OWN_BYTES: i32 = 1 << 20;

/// What the end of a heap may keep: the pages of a few answers, so that not every answer allocates pages
/// again.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: i32 = 4 << 20;

/// Call it once, early: from then on large blocks return to the system when they are freed.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and may be called at any time; numbers out of range change nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

/// How often this process has called [`give_back`].
pub fn given_back() -> u64 {
    RETURNED.load(Ordering::Relaxed)
}

/// Returns every free page, also those between blocks in use. It walks through all free memory: call it once
/// after a burst, not after every answer.
pub fn give_back() {
    RETURNED.fetch_add(1, Ordering::Relaxed);
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim locks the heaps it touches, and touches only free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
