//! Sends what was just written on its way to the disk, so that a checkpoint finds little left to do; waits for nothing.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Begins to write the file's changed pages back. The kernel would let them lie for half a minute, and a checkpoint then
/// bring all of them at once: the writers' own reads would wait behind them.
pub fn begin(file: &File) {
    // SAFETY: no memory is handed over, and the descriptor is open; rustix has no sync_file_range. Whether it could is
    // of no account here: the checkpoint syncs all, and tells what failed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
