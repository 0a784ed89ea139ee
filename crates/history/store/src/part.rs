//! A part of a file: where it is, how long, and the checksum of its bytes. It is read whole or not at all.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use khz_block::varint;

use crate::StoreError;
use crate::bytes::{Bytes, Read};

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub offset: u64,
    pub length: usize,
    pub checksum: u32,
}

impl Part {
    /// The part that these bytes become at `offset`.
    pub fn of(bytes: &[u8], offset: u64) -> Self {
        Part { offset, length: bytes.len(), checksum: crc32fast::hash(bytes) }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.offset);
        varint::put(out, self.length as u64);
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub fn take(bytes: &mut Bytes<'_>, length_max: usize) -> Read<Self> {
        Ok(Part { offset: bytes.number()?, length: bytes.count(length_max)?, checksum: bytes.u32()? })
    }

    /// The offset of the first byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length as u64)
    }
}

/// A number for a file that was opened; no two files of this process get the same.
pub(crate) fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Where the bytes of a file come from.
#[derive(Debug)]
enum Origin {
    File(File),
    Memory(Vec<u8>),
}

/// The bytes of one file, read part by part.
#[derive(Debug)]
pub(crate) struct Source {
    pub path: PathBuf,
    pub length: u64,
    /// The number of the file on its disk; 0: memory.
    pub inode: u64,
    origin: Origin,
    /// How many reads have waited for the disk.
    waits: AtomicU64,
}

/// A read that takes longer has waited for the disk: out of memory a part comes in a tenth of this.
const WAIT: Duration = Duration::from_micros(30);

impl Source {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |what| move |source| StoreError::File { what, path: path.to_owned(), source };
        let file = File::open(path).map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("read the length of"))?;
        let (length, inode) = (metadata.len(), metadata.ino());
        Ok(Source {
            path: path.to_owned(),
            length,
            inode,
            origin: Origin::File(file),
            waits: AtomicU64::new(0),
        })
    }

    pub fn memory(bytes: Vec<u8>) -> Self {
        let (length, origin, waits) = (bytes.len() as u64, Origin::Memory(bytes), AtomicU64::new(0));
        Source { path: "memory".into(), length, inode: 0, origin, waits }
    }

    /// The bytes of a part, if they are those that were written.
    pub fn part(&self, part: Part) -> Result<Vec<u8>, StoreError> {
        let bytes = self.bytes(part.offset, part.length)?;
        // A fuzzer finds no checksums, and what they guard must stand foreign bytes too.
        if !cfg!(feature = "fuzz") && crc32fast::hash(&bytes) != part.checksum {
            return Err(self.damaged(part, "its checksum differs"));
        }
        Ok(bytes)
    }

    /// Some bytes, without a checksum.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let part = Part { offset, length, checksum: 0 };
        if part.end() > self.length {
            return Err(self.damaged(part, "it lies beyond the end of the file"));
        }
        match &self.origin {
            Origin::Memory(bytes) => Ok(bytes[offset as usize..][..length].to_vec()),
            Origin::File(file) => {
                let (mut bytes, begin) = (vec![0; length], Instant::now());
                let read = file.read_exact_at(&mut bytes, offset);
                if begin.elapsed() > WAIT {
                    self.waits.fetch_add(1, Ordering::Relaxed);
                }
                let failed = |source| StoreError::File { what: "read", path: self.path.clone(), source };
                read.map(|()| bytes).map_err(failed)
            }
        }
    }

    /// How many reads have waited for the disk.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// These bytes will be read soon: the disk may fetch them meanwhile.
    pub fn expect(&self, offset: u64, length: u64) {
        if let (Origin::File(file), Some(length)) = (&self.origin, NonZeroU64::new(length)) {
            // A system that does not take the hint reads later.
            let _ = rustix::fs::fadvise(file, offset, Some(length), rustix::fs::Advice::WillNeed);
        }
    }

    pub fn damaged(&self, part: Part, problem: &'static str) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            offset: part.offset,
            bytes: part.length as u64,
            problem,
        }
    }
}
