//! Where a reader finds a ring's bytes: in memory that it shares with the writer, or in a file that it may not
//! trust. A file is read with `pread`: one that is cut short gives an error, where a mapping would end the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::memory::Memory;

/// A word is read until it reads the same twice, because a `pread` is not atomic; this often at most.
const TRIES: usize = 8;

#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// The writer's own mapping.
    Mapped(Arc<Memory>),
    /// A file.
    File(Arc<OwnedFd>),
}

impl Store {
    /// The word at this offset; 0 where the file has been cut short, as in a ring that holds nothing.
    pub fn load(&self, at: u64) -> u64 {
        match self {
            Store::Mapped(memory) => memory.load(at, Ordering::Acquire),
            Store::File(file) => {
                let mut last = word(file, at);
                for _ in 0..TRIES {
                    match word(file, at) {
                        same if same == last => break,
                        other => last = other,
                    }
                }
                std::sync::atomic::fence(Ordering::Acquire);
                last.unwrap_or(0)
            }
        }
    }

    /// Appends `length` bytes from `at` on to `out`; `false` and nothing where they are not there.
    pub fn copy(&self, at: u64, length: usize, out: &mut Vec<u8>) -> bool {
        match self {
            Store::Mapped(memory) => {
                out.reserve(length);
                memory.copy_out(at, length, out);
                true
            }
            Store::File(file) => {
                let start = out.len();
                out.resize(start + length, 0);
                let is_whole = fill(file, at, &mut out[start..]);
                if !is_whole {
                    out.truncate(start);
                }
                is_whole
            }
        }
    }
}

fn word(file: &OwnedFd, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    fill(file, at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

fn fill(file: &OwnedFd, at: u64, room: &mut [u8]) -> bool {
    let mut done = 0;
    while done < room.len() {
        match rustix::io::pread(file, &mut room[done..], at + done as u64) {
            Ok(0) => return false,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
