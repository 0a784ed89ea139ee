//! A kernel file that stays open: each gather reads it whole, from the start, into the parser's buffer.

use std::path::{Path, PathBuf};

use khz_parse::Pieces;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, pread};

/// A kernel text longer than this is not read: 10,000 interfaces make 3 MiB.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// First size of a buffer: most files fit, and the kernel formats into a page at first itself.
const FIRST_BYTES: usize = 8 << 10;

/// The kernel hands records out about a page at a time, and pages have this size at least.
const PAGE: usize = 4_096;

/// One open kernel file.
#[derive(Debug)]
pub(crate) struct KernelText {
    path: PathBuf,
    file: Option<OwnedFd>,
    pieces: Pieces,
}

impl KernelText {
    pub fn new(root: &Path, path: &str, pieces: Pieces) -> Self {
        KernelText { path: root.join(path), file: None, pieces }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Forgets the open file, so that the next read opens it anew.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Reads the whole text into `buffer`; its length. The buffer grows as needed and is never shortened.
    #[inline]
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        if self.file.is_none() {
            // Without waiting: below a captured root there might be a pipe that nobody writes to.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            self.file = Some(rustix::fs::open(&self.path, flags, Mode::empty())?);
        }
        let Some(file) = &self.file else { return Err(Errno::BADF) };
        if buffer.is_empty() {
            buffer.resize(FIRST_BYTES, 0);
        }
        let mut length = 0;
        loop {
            let room = buffer.len() - length;
            let got = match pread(file, &mut buffer[length..], length as u64) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            length += got;
            if got == 0 || self.was_last(length, got, room) {
                return Ok(length);
            }
            if buffer.len() - length < PAGE {
                if buffer.len() >= TEXT_BYTES_MAX {
                    return Err(Errno::FBIG);
                }
                let grown = buffer.len() * 2;
                buffer.resize(grown, 0);
            }
        }
    }

    /// True when a piece shows by its size that nothing follows, which saves a read that would return 0. The
    /// kernel ends a piece when the next record does not fit its page: a piece that left room for the longest
    /// record ended because there was no next one. (A single record is printed again, larger, until it fits.)
    #[inline]
    fn was_last(&self, length: usize, got: usize, room: usize) -> bool {
        match self.pieces {
            Pieces::Whole => got < room,
            Pieces::Records { longest } => length == got && got < room && got + longest <= PAGE,
        }
    }
}
