//! Reads a segment record by record from its start: finds the intact records, the damage, and the place where it was cut off.

use crate::StoreError;
use crate::log::record::{
    COMMIT_BYTES, COMMIT_MAGIC, HEAD_BYTES, Head, Kind, SEGMENT_HEADER, SEGMENT_HEADER_1, SEGMENT_VERSION,
    is_commit_at,
};
use crate::log::segment::{Found, SegmentFile};

/// How many bytes at a time are searched for the next commit after damage.
const SEARCHED_BYTES: usize = 1 << 16;

/// What a segment holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// All records of commits that are whole.
    pub records: Vec<Found>,
    /// Where the last whole commit ends.
    pub end: u64,
    /// The damage before the end.
    pub damage: Vec<StoreError>,
}

impl Contents {
    /// The records of the segment, up to its last whole commit.
    pub fn of(segment: &SegmentFile) -> Result<Self, StoreError> {
        let length = segment.length()?;
        if length < SEGMENT_HEADER.len() as u64 {
            return Ok(Contents::default());
        }
        let header = segment.bytes(0, SEGMENT_HEADER.len())?;
        if header[..4] != SEGMENT_HEADER[..4] {
            return Err(segment.damaged(0, length, "it is no segment of a log"));
        }
        if header != SEGMENT_HEADER && header != SEGMENT_HEADER_1 {
            let (path, version) = (segment.path.clone(), header[4]);
            return Err(StoreError::Version { path, version, reads: SEGMENT_VERSION });
        }
        let mut contents = Contents { end: SEGMENT_HEADER.len() as u64, ..Contents::default() };
        let mut walk = Walk { segment, at: contents.end, length, commit: Vec::new() };
        while walk.at < length {
            walk.step(&mut contents)?;
        }
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
            // The records before the damage were also synced.
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
