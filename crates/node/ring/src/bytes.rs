//! The bytes of a ring, for a reader: either in memory that it shares with the writer, or in a file that it
//! does not trust. It reads a file with `pread`: if somebody cuts the file short, `pread` returns an error,
//! while a mapping would end the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::memory::Memory;

/// A `pread` is not atomic, so a word is read until two reads agree, but at most this often.
const TRIES: usize = 8;

#[derive(Clone, Debug)]
pub(crate) enum RingBytes {
    /// The writer's own mapping.
    Mapped(Arc<Memory>),
    /// A file.
    File(Arc<OwnedFd>),
}

impl RingBytes {
    /// The word at this offset. 0 if the file was cut short, as in a ring without data.
    pub fn load(&self, at: u64) -> u64 {
        match self {
            RingBytes::Mapped(memory) => memory.load(at, Ordering::Acquire),
            RingBytes::File(file) => {
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

    /// Appends `length` bytes from `at` on to `out`. `false`, and nothing appended, if the file does not have
    /// them.
    pub fn copy(&self, at: u64, length: usize, out: &mut Vec<u8>) -> bool {
        match self {
            RingBytes::Mapped(memory) => {
                out.reserve(length);
                memory.copy_out(at, length, out);
                true
            }
            RingBytes::File(file) => {
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
