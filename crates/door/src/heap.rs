//! Memory that is free goes back to the system: what one burst of readers has taken is not kept for the next. The only
//! unsafe code of this crate: two calls of glibc that no safe library offers. Other C libraries are left as they are.

#![allow(unsafe_code, reason = "the standard library has neither mallopt(3) nor malloc_trim(3)")]

/// Blocks from this size on come from the system one by one and go back at once. glibc begins with 128 KiB, and raises
/// that to 32 MiB with the first large block that is freed; then it also keeps 64 MiB at the end of each heap.
#[cfg(target_env = "gnu")]
const OWN_BYTES: i32 = 1 << 20;

/// What the end of a heap may keep: a few answers' pages, so that pages do not come and go with every answer.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: i32 = 4 << 20;

/// To be called once, before there is much: large blocks go back when they are freed, whatever was freed before.
pub fn settle() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and may be called at any time; numbers that it does not like change nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

/// Gives back every free page, also those between blocks that are in use. It goes through all that is free: once after a
/// burst, not after every answer.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim locks what it touches, and touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
