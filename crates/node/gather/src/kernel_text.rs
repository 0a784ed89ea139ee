//! A kernel file that stays open: each gather reads the whole text, from the start, into the parser's buffer.

use std::path::{Path, PathBuf};

use khz_parse::Pieces;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, pread};

/// A longer kernel text is not read: 10,000 interfaces make 3 MiB.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// The first size of a buffer: most files fit, and the kernel itself first formats into one page.
const FIRST_BYTES: usize = 8 << 10;

/// The kernel hands out records about a page at a time, and a page has at least this size.
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

    /// Closes the file, so that the next read opens it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Reads the whole text into `buffer`; returns its length. The buffer grows as needed and never shrinks.
    #[inline]
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        if self.file.is_none() {
            // NONBLOCK: below a captured root the file could be a pipe without a writer, and opening it would
            // wait.
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

    /// True when the size of a piece shows that nothing follows, which saves a read that would return 0. The
    /// kernel ends a piece when the next record does not fit into its page. So a piece that leaves room for
    /// the longest record was the last one. (If a single record is too long, the kernel prints it again into
    /// a larger buffer.)
    #[inline]
    fn was_last(&self, length: usize, got: usize, room: usize) -> bool {
        match self.pieces {
            Pieces::Whole => got < room,
            Pieces::Records { longest } => length == got && got < room && got + longest <= PAGE,
        }
    }
}
