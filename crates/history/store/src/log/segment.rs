//! One file of the log: finding its records, and where it was cut off. It knows what a record is, not what rows mean.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::StoreError;
use crate::disk::is_in_place;
use crate::log::record::{
    BLOCK_META_BYTES, COMMIT_BYTES, COMMIT_MAGIC, HEAD_BYTES, Head, Kind, SEGMENT_HEADER,
};

/// How many bytes at a time are searched for the next commit after damage.
const SEARCHED_BYTES: usize = 1 << 16;

/// The kernel takes this many parts in one call (IOV_MAX).
const PARTS_MAX: usize = 1_024;

/// An open segment. It can be read as long as somebody holds it, even if it was removed.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub number: u64,
    pub path: PathBuf,
    file: File,
}

/// A segment that was read, and what it holds.
pub(crate) struct Known {
    pub segment: Arc<SegmentFile>,
    pub contents: Contents,
}

/// The segments in a folder, oldest first. What cannot be read is reported.
pub(crate) fn all(folder: &Path, damage: &mut Vec<StoreError>) -> Result<Vec<Known>, StoreError> {
    let mut all = Vec::new();
    for number in numbers(folder)? {
        match SegmentFile::open(folder, number).and_then(|file| Ok((file.contents()?, Arc::new(file)))) {
            Ok((mut contents, segment)) => {
                damage.append(&mut contents.damage);
                all.push(Known { segment, contents });
            }
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
    fn end(&self) -> u64 {
        self.at + (HEAD_BYTES + self.head.length) as u64
    }
}

/// What a segment holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// All records of commits that are whole.
    pub records: Vec<Found>,
    /// Where the last whole commit ends.
    pub end: u64,
    /// Bytes after that: a commit that was cut off.
    pub torn: u64,
    /// What is damaged before the end.
    pub damage: Vec<StoreError>,
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
        Ok(SegmentFile { number, path, file })
    }

    /// Opens a segment to read it.
    pub fn open(folder: &Path, number: u64) -> Result<Self, StoreError> {
        let path = path(folder, number);
        let opened = File::open(&path);
        match opened {
            Ok(file) => Ok(SegmentFile { number, path, file }),
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

    /// What stands before the block in the body of its record, and the block's header.
    pub fn block_front(&self, found: &Found) -> Result<Vec<u8>, StoreError> {
        self.front(found, BLOCK_META_BYTES + khz_block::HEADER_BYTES)
    }

    /// The records of the segment, up to its last whole commit.
    pub fn contents(&self) -> Result<Contents, StoreError> {
        let length = self.length()?;
        if length < SEGMENT_HEADER.len() as u64 {
            return Ok(Contents { torn: length, ..Contents::default() });
        }
        let header = self.bytes(0, SEGMENT_HEADER.len())?;
        if header[..4] != SEGMENT_HEADER[..4] {
            return Err(self.damaged(0, length, "it is no segment of a log"));
        }
        if header != SEGMENT_HEADER {
            return Err(StoreError::Version { path: self.path.clone(), version: header[4] });
        }
        let mut contents = Contents { end: SEGMENT_HEADER.len() as u64, ..Contents::default() };
        let mut walk = Walk { segment: self, at: contents.end, length, commit: Vec::new() };
        while walk.at < length {
            walk.step(&mut contents)?;
        }
        contents.torn = length - contents.end;
        Ok(contents)
    }
}

/// A walk over the records of a segment.
struct Walk<'a> {
    segment: &'a SegmentFile,
    at: u64,
    length: u64,
    /// The records since the last commit.
    commit: Vec<Found>,
}

impl Walk<'_> {
    fn step(&mut self, contents: &mut Contents) -> Result<(), StoreError> {
        let Some(found) = self.record()? else { return self.skip(contents) };
        if found.head.kind != Kind::Commit {
            self.at = found.end();
            self.commit.push(found);
            return Ok(());
        }
        if !self.is_commit(&found)? {
            return self.skip(contents);
        }
        self.at = found.end();
        // Only the last commit may be incomplete: each was synced before the next began.
        let records = std::mem::take(&mut self.commit);
        if self.at == self.length && !self.are_whole(&records) {
            return Ok(());
        }
        contents.records.extend(records);
        contents.end = self.at;
        Ok(())
    }

    /// The record at this place; `None`: there is no whole one.
    fn record(&self) -> Result<Option<Found>, StoreError> {
        if self.length - self.at < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let head = self.segment.bytes(self.at, HEAD_BYTES)?;
        let head = head.first_chunk().and_then(|head| Head::take(head).ok());
        Ok(head.map(|head| Found { at: self.at, head }).filter(|found| found.end() <= self.length))
    }

    fn is_commit(&self, found: &Found) -> Result<bool, StoreError> {
        let body = self.segment.front(found, COMMIT_BYTES)?;
        Ok(found.head.fits(&body) && is_commit_at(&body, found.at))
    }

    fn are_whole(&self, records: &[Found]) -> bool {
        records.iter().all(|found| self.segment.body(found).is_ok())
    }

    /// Goes on after the next commit. Without one, the rest of the file was cut off.
    fn skip(&mut self, contents: &mut Contents) -> Result<(), StoreError> {
        let from = self.at;
        let next = self.next_commit()?;
        self.at = next.unwrap_or(self.length);
        // The last commit may lack any pages: it was not synced.
        if next.is_some_and(|end| end < self.length) {
            let bytes = self.at - from;
            contents.damage.push(self.segment.damaged(from, bytes, "it is no record of a log"));
            // What stands before the damage was synced too.
            contents.records.append(&mut self.commit);
            contents.end = self.at;
        }
        Ok(())
    }

    /// The end of the next commit after this place.
    fn next_commit(&self) -> Result<Option<u64>, StoreError> {
        let mut from = self.at;
        while from < self.length {
            let length = SEARCHED_BYTES.min((self.length - from) as usize);
            let bytes = self.segment.bytes(from, length)?;
            for (place, body) in bytes.windows(16).enumerate() {
                let Some(at) = (from + place as u64).checked_sub(HEAD_BYTES as u64) else { continue };
                if body.starts_with(&COMMIT_MAGIC) && is_commit_at(body, at) && at >= self.at {
                    return Ok(Some(at + COMMIT_BYTES as u64));
                }
            }
            if length < SEARCHED_BYTES {
                return Ok(None);
            }
            // A commit may lie across the end of what was searched.
            from += (length - 15) as u64;
        }
        Ok(None)
    }
}

fn is_commit_at(body: &[u8], at: u64) -> bool {
    let place = body.get(COMMIT_MAGIC.len()..).and_then(|rest| rest.first_chunk());
    body.starts_with(&COMMIT_MAGIC) && place.map(|place| u64::from_le_bytes(*place)) == Some(at)
}
