//! The bytes of a segment after its last valid commit, which are not read: an unfinished commit, or commits at wrong places because
//! bytes were inserted or removed before them. It reads none of their rows.

use crate::StoreError;
use crate::log::record::{COMMIT_BYTES, COMMIT_MAGIC, HEAD_BYTES, Head, Kind, is_commit_at};
use crate::log::segment::SegmentFile;

/// How many bytes at a time are searched.
const SEARCHED_BYTES: usize = 1 << 20;

/// Bytes at the end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Where the last whole commit ends.
    pub at: u64,
    pub bytes: u64,
    /// There are whole commits among them.
    pub is_damage: bool,
}

impl LeftOut {
    /// The bytes after this place; `None`: the segment ends there.
    pub fn of(segment: &SegmentFile, at: u64) -> Result<Option<Self>, StoreError> {
        let length = segment.length()?;
        let Some(bytes) = length.checked_sub(at).filter(|bytes| *bytes > 0) else { return Ok(None) };
        Ok(Some(LeftOut { at, bytes, is_damage: has_moved_commit(segment, at, length)? }))
    }

    /// The same as an error.
    pub fn told(&self, segment: &SegmentFile) -> StoreError {
        let LeftOut { at, bytes, is_damage } = *self;
        match is_damage {
            true => segment.damaged(at, bytes, MOVED),
            false => StoreError::Unfinished { path: segment.path.clone(), offset: at, bytes },
        }
    }
}

const MOVED: &str = "they are left out, and have whole commits that were written elsewhere: bytes were inserted or removed before them";

/// Whether a commit that is as it was written stands elsewhere than it says.
fn has_moved_commit(segment: &SegmentFile, mut from: u64, length: u64) -> Result<bool, StoreError> {
    while from + COMMIT_BYTES as u64 <= length {
        let bytes = segment.bytes(from, SEARCHED_BYTES.min((length - from) as usize))?;
        let is_moved = |(place, record): (usize, &[u8])| is_moved_commit(record, from + place as u64);
        if bytes.windows(COMMIT_BYTES).enumerate().any(is_moved) {
            return Ok(true);
        }
        // A commit may lie across the end of what was searched.
        from += (bytes.len() - (COMMIT_BYTES - 1)) as u64;
    }
    Ok(false)
}

fn is_moved_commit(record: &[u8], at: u64) -> bool {
    let Some((head, body)) = record.split_first_chunk::<HEAD_BYTES>() else { return false };
    body.starts_with(&COMMIT_MAGIC)
        && Head::take(head).is_ok_and(|head| head.kind == Kind::Commit && head.fits(body))
        && !is_commit_at(body, at)
}
