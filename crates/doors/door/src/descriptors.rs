//! The file descriptors of this process: raises their limit, and says when so few are left that connections must leave the rest to
//! everything else. It closes nothing.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::stat;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The last descriptors that no connection of a door takes: gathering has some 90 files open and opens others again and again, and so
/// do a store and the log.
pub const DESCRIPTORS_RESERVED: u64 = 128;

/// Of a small limit, this part is reserved.
const RESERVED_PART: u64 = 4;

/// Raises the limit of open files as far as this process may; call it once, early.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where the kernel refuses, the limit stays what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// True if this number of files can be opened now. It opens pipes, which need no folder, and closes them at once.
pub fn has_room(files: usize) -> bool {
    // They stay open until all are.
    (0..files.div_ceil(2)).map(|_| std::io::pipe().ok()).collect::<Option<Vec<_>>>().is_some()
}

/// True if only the last descriptors are free. `newest` is the file that was opened last.
pub(crate) fn is_scarce(newest: &impl AsFd) -> bool {
    getrlimit(Resource::Nofile).current.is_some_and(|limit| open_files(newest) > first_reserved(limit))
}

/// The number of open files: since Linux 6.2, the size of their folder. Before, the number of the newest one is the best guess, since
/// the kernel gives the lowest that is free.
fn open_files(newest: &impl AsFd) -> u64 {
    match stat("/proc/self/fd").map(|folder| u64::try_from(folder.st_size).unwrap_or(0)) {
        Ok(count) if count > 0 => count,
        _ => u64::try_from(newest.as_fd().as_raw_fd()).unwrap_or(0) + 1,
    }
}

fn first_reserved(limit: u64) -> u64 {
    limit - DESCRIPTORS_RESERVED.min(limit / RESERVED_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_counted() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let listed = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        // Other tests of this process open files meanwhile; an old kernel gives the number of one.
        let count = open_files(&file);
        assert!(count > 2 && count < listed + 64, "{count}, {listed} are listed");
        assert!(!is_scarce(&file));
    }

    #[test]
    fn the_last_descriptors_are_reserved_and_of_a_small_limit_a_part() {
        assert_eq!([1_024, 512, 64, 3, 0].map(first_reserved), [896, 384, 48, 3, 0]);
        assert_eq!(first_reserved(u64::MAX), u64::MAX - DESCRIPTORS_RESERVED);
    }
}
