//! The file descriptors of this process: raises their limit, and says when so few are left that connections must leave the rest to
//! everything else. It closes nothing.

use std::os::fd::{AsFd, AsRawFd};

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

/// True if this file has one of the last descriptors: the kernel gives the lowest number that is free.
pub(crate) fn is_scarce(file: &impl AsFd) -> bool {
    let number = u64::try_from(file.as_fd().as_raw_fd()).unwrap_or(0);
    getrlimit(Resource::Nofile).current.is_some_and(|limit| number >= first_reserved(limit))
}

fn first_reserved(limit: u64) -> u64 {
    limit - DESCRIPTORS_RESERVED.min(limit / RESERVED_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_descriptors_are_reserved_and_of_a_small_limit_a_part() {
        assert_eq!([1_024, 512, 64, 3, 0].map(first_reserved), [896, 384, 48, 3, 0]);
        assert_eq!(first_reserved(u64::MAX), u64::MAX - DESCRIPTORS_RESERVED);
    }
}
