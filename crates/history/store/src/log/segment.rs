//! One file of the log: its bytes and its records. It knows the format of a record, but not the meaning of rows.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::StoreError;
use crate::disk::is_in_place;
use crate::log::record::{BLOCK_META_BYTES, HEAD_BYTES, Head, SEGMENT_HEADER};
use crate::part::next_identity;

/// The kernel takes this many parts in one call (IOV_MAX).
const PARTS_MAX: usize = 1_024;
/// How many bytes at a time are copied when a segment is written again.
const COPIED_BYTES: usize = 1 << 20;

/// An open segment. It can be read as long as somebody holds it, even if it was removed.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub number: u64,
    /// Another one for each file that this process opens.
    pub identity: u64,
    pub path: PathBuf,
    file: File,
}

/// The segments in a folder, oldest first. Files that cannot be opened are reported.
pub(crate) fn all(folder: &Path, damage: &mut Vec<StoreError>) -> Result<Vec<Arc<SegmentFile>>, StoreError> {
    let mut all = Vec::new();
    for number in numbers(folder)? {
        match SegmentFile::open(folder, number) {
            Ok(segment) => all.push(Arc::new(segment)),
            // A second process may find that a segment has just been removed.
            Err(error) if error.is_missing() => {}
            Err(error) => damage.push(error),
        }
    }
    Ok(all)
}

/// A record that a segment has. Its checksum is not compared yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub at: u64,
    pub head: Head,
}

impl Found {
    /// Where the next record begins.
    pub fn end(&self) -> u64 {
        self.at + (HEAD_BYTES + self.head.length) as u64
    }
}

/// The path of a segment.
pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The numbers of the segments in a folder, oldest first.
pub(crate) fn numbers(folder: &Path) -> Result<Vec<u64>, StoreError> {
    let failed = |source| StoreError::File { what: "list", path: folder.to_owned(), source };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")).filter(|name| name.len() == 10);
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl SegmentFile {
    /// Makes a new segment, on the disk with its name.
    pub fn create(folder: &Path, number: u64) -> Result<Self, StoreError> {
        let path = path(folder, number);
        let failed = |what| {
            let path = path.clone();
            move |source| StoreError::File { what, path, source }
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).map_err(failed("create"))?;
        file.write_all_at(&SEGMENT_HEADER, 0).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder of"))?;
        Ok(SegmentFile { number, identity: next_identity(), path, file })
    }

    /// Opens a segment to read it.
    pub fn open(folder: &Path, number: u64) -> Result<Self, StoreError> {
        let path = path(folder, number);
        let opened = File::open(&path);
        match opened {
            Ok(file) => Ok(SegmentFile { number, identity: next_identity(), path, file }),
            Err(source) => Err(StoreError::File { what: "open", path, source }),
        }
    }

    pub fn failed(&self, what: &'static str, source: std::io::Error) -> StoreError {
        StoreError::File { what, path: self.path.clone(), source }
    }

    pub fn damaged(&self, offset: u64, bytes: u64, problem: &'static str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), offset, bytes, problem }
    }

    /// Appends bytes; `at` is the file's end.
    pub fn write(&self, mut at: u64, mut parts: &mut [IoSlice<'_>]) -> Result<(), StoreError> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match rustix::io::pwritev(&self.file, &parts[..parts.len().min(PARTS_MAX)], at) {
                Ok(0) => return Err(self.failed("write", ErrorKind::WriteZero.into())),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut parts, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", error.into())),
            }
        }
        Ok(())
    }

    /// Everything that was written is on the disk afterwards.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| self.failed("sync", error))
    }

    /// Takes back what a failed commit has written.
    pub fn cut(&self, end: u64) -> Result<(), StoreError> {
        self.file.set_len(end).map_err(|error| self.failed("shorten", error))
    }

    /// False if somebody has removed the file, or put another one into its place.
    pub fn is_in_place(&self) -> bool {
        is_in_place(&self.file, &self.path)
    }

    /// True if somebody has removed the file, and nothing has its name now.
    pub fn is_missing(&self) -> bool {
        matches!(fs::symlink_metadata(&self.path), Err(error) if error.kind() == ErrorKind::NotFound)
    }

    /// The file was removed: makes another one with its name and its first bytes, on the disk.
    pub fn written_again(&self, folder: &Path, end: u64) -> Result<Self, StoreError> {
        let again = SegmentFile::create(folder, self.number)?;
        match self.copy_to(&again, end).and_then(|()| again.sync()) {
            Ok(()) => Ok(again),
            Err(error) => {
                // If that fails too, a part of the segment is left: it is true as far as it goes.
                let _ = fs::remove_file(&again.path);
                Err(error)
            }
        }
    }

    fn copy_to(&self, again: &SegmentFile, end: u64) -> Result<(), StoreError> {
        let mut at = 0;
        while at < end {
            let length = COPIED_BYTES.min((end - at) as usize);
            let bytes = self.bytes(at, length)?;
            again.write(at, &mut [IoSlice::new(&bytes)])?;
            at += length as u64;
        }
        Ok(())
    }

    pub fn length(&self) -> Result<u64, StoreError> {
        self.file
            .metadata()
            .map(|metadata| metadata.len())
            .map_err(|error| self.failed("read the length of", error))
    }

    /// Some bytes of the file.
    pub fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        // A damaged length must not take memory that the file cannot fill.
        if at.saturating_add(length as u64) > self.length()? {
            return Err(self.damaged(at, length as u64, "it lies beyond the end of the file"));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| self.failed("read", error))?;
        Ok(bytes)
    }

    /// The record that begins here.
    pub fn found(&self, at: u64) -> Result<Found, StoreError> {
        let head = self.bytes(at, HEAD_BYTES)?;
        let head = head.first_chunk().ok_or("it has no head").and_then(Head::take);
        let head = head.map_err(|problem| self.damaged(at, HEAD_BYTES as u64, problem))?;
        Ok(Found { at, head })
    }

    /// The body of a record, if it is as it was written.
    pub fn body(&self, found: &Found) -> Result<Vec<u8>, StoreError> {
        let body = self.bytes(found.at + HEAD_BYTES as u64, found.head.length)?;
        match found.head.fits(&body) {
            true => Ok(body),
            false => {
                Err(self.damaged(found.at, HEAD_BYTES as u64 + body.len() as u64, "its checksum differs"))
            }
        }
    }

    /// The first bytes of a record's body, without a checksum.
    pub fn front(&self, found: &Found, length: usize) -> Result<Vec<u8>, StoreError> {
        self.bytes(found.at + HEAD_BYTES as u64, length.min(found.head.length))
    }

    /// The bytes before the block in the body of its record, and the block's header.
    pub fn block_front(&self, found: &Found) -> Result<Vec<u8>, StoreError> {
        self.front(found, BLOCK_META_BYTES + khz_block::HEADER_BYTES)
    }
}
