//! Starts the write-back of a file, so that a checkpoint finds little left to do; waits for nothing.

#![allow(unsafe_code, reason = "rustix has no sync_file_range(2)")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Starts to write the file's changed pages back. The kernel would keep them for half a minute; a checkpoint would then
/// write all of them at once, and the writers' own reads would wait.
pub fn begin(file: &File) {
    // SAFETY: no memory is passed, and the descriptor is open; rustix has no sync_file_range. A failure does not matter:
    // the checkpoint syncs everything, and reports what failed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
