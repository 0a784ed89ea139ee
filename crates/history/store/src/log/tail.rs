//! A segment, read from its end: the last whole commit, and the lists that lead from there to the begin. It reads little, however
//! long the segment is.

use crate::StoreError;
use crate::log::list::{LENGTH_BYTES, List};
use crate::log::record::{COMMIT_BYTES, COMMIT_MAGIC, HEAD_BYTES, Head, Kind, SEGMENT_HEADER, is_commit_at};
use crate::log::segment::SegmentFile;

/// How many bytes at a time are searched for the last commit.
const SEARCHED_BYTES: usize = 1 << 20;
/// How many bytes are read for a commit and its list. Longer lists are read a second time.
const LIST_READ_BYTES: usize = 16 << 10;

/// The content of a segment's lists.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Oldest first. Each goes on where the one before ends.
    pub lists: Vec<List>,
    /// Where the last whole commit ends.
    pub end: u64,
}

/// A commit and its list.
struct Commit {
    list: List,
    /// Where the list begins.
    at: u64,
}

impl Tail {
    /// The lists of a segment; `None`: it has none. A damaged list is an error. The intact records can then be found one by one.
    pub fn of(segment: &SegmentFile) -> Result<Option<Self>, StoreError> {
        let length = segment.length()?;
        let first = SEGMENT_HEADER.len() as u64;
        if length < first || segment.bytes(0, SEGMENT_HEADER.len())? != SEGMENT_HEADER {
            return Ok(None);
        }
        let Some((mut commit, end)) = last_commit(segment, length)? else { return Ok(None) };
        let mut lists = Vec::new();
        loop {
            let since = commit.list.since;
            let is_first = since == first;
            // It must lead to the begin.
            if since > commit.list.begin || commit.list.begin > commit.at || since < first {
                return Err(segment.damaged(commit.at, HEAD_BYTES as u64, "its list does not end before it"));
            }
            lists.push(commit.list);
            if is_first {
                lists.reverse();
                return Ok(Some(Tail { lists, end }));
            }
            let Some(before) = self::commit(segment, since)? else {
                let at = since.saturating_sub(COMMIT_BYTES as u64);
                return Err(segment.damaged(at, since - at, "it is no commit with a list"));
            };
            commit = before;
        }
    }
}

/// The last commit that is whole, and where it ends; `None`: there is none, or it has no list. Only the commit at the end of the
/// file may be incomplete: each was synced before the next began.
fn last_commit(segment: &SegmentFile, length: u64) -> Result<Option<(Commit, u64)>, StoreError> {
    let mut end = length;
    while let Some(found) = find_commit(segment, end)? {
        match commit(segment, found) {
            Ok(Some(commit)) if found < length || are_whole(segment, &commit, found) => {
                return Ok(Some((commit, found)));
            }
            Ok(Some(_)) => end = found - 1,
            Err(error) if found < length || error.is_of_disk() => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Whether the records of the last commit are as they were written.
fn are_whole(segment: &SegmentFile, commit: &Commit, end: u64) -> bool {
    let mut at = commit.list.begin;
    while at < end {
        let Ok(found) = segment.found(at) else { return false };
        if segment.body(&found).is_err() {
            return false;
        }
        at = found.end();
    }
    at == end
}

/// The end of the last commit that ends here or before.
fn find_commit(segment: &SegmentFile, end: u64) -> Result<Option<u64>, StoreError> {
    let first = SEGMENT_HEADER.len() as u64;
    let mut until = end;
    while until >= first + COMMIT_BYTES as u64 {
        // The first try is short: as a rule the commit is there.
        let length = if until == end { COMMIT_BYTES } else { SEARCHED_BYTES };
        let from = until.saturating_sub(length as u64).max(first);
        let bytes = segment.bytes(from, (until - from) as usize)?;
        let is_commit = |record: &[u8]| record[HEAD_BYTES..].starts_with(&COMMIT_MAGIC);
        let mut rest = &bytes[..];
        while let Some(place) = rest.windows(COMMIT_BYTES).rposition(is_commit) {
            let at = from + place as u64;
            if is_commit_record(&bytes[place..place + COMMIT_BYTES], at) {
                return Ok(Some(at + COMMIT_BYTES as u64));
            }
            rest = &rest[..place + COMMIT_BYTES - 1];
        }
        if from == first {
            return Ok(None);
        }
        // A commit may lie across the begin of what was searched.
        until = from + COMMIT_BYTES as u64 - 1;
    }
    Ok(None)
}

fn is_commit_record(record: &[u8], at: u64) -> bool {
    let Some((head, body)) = record.split_first_chunk() else { return false };
    Head::take(head).is_ok_and(|head| head.kind == Kind::Commit && head.fits(body)) && is_commit_at(body, at)
}

/// The commit that ends here, and its list; `None`: there is no commit, or it has no list.
fn commit(segment: &SegmentFile, end: u64) -> Result<Option<Commit>, StoreError> {
    let first = SEGMENT_HEADER.len() as u64;
    let from = end.saturating_sub(LIST_READ_BYTES as u64).max(first);
    let Some(length) = end.checked_sub(from).filter(|length| *length > COMMIT_BYTES as u64) else {
        return Ok(None);
    };
    let bytes = segment.bytes(from, length as usize)?;
    let (before, record) = bytes.split_at(bytes.len() - COMMIT_BYTES);
    let list_end = end - COMMIT_BYTES as u64;
    if !is_commit_record(record, list_end) {
        return Ok(None);
    }
    let Some(length) = before.last_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize + HEAD_BYTES;
    let at = list_end.checked_sub(length as u64).filter(|at| *at >= first);
    let Some(at) = at else { return Ok(None) };
    let found = segment.found(at)?;
    if found.head.kind != Kind::List || found.end() != list_end {
        return Ok(None);
    }
    let read = |body: Vec<u8>| {
        let list = List::of(body).map_err(|problem| segment.damaged(at, length as u64, problem))?;
        Ok(Some(Commit { list, at }))
    };
    match before.len().checked_sub(length) {
        Some(start) if found.head.fits(&before[start + HEAD_BYTES..]) => {
            read(before[start + HEAD_BYTES..].to_vec())
        }
        _ => read(segment.body(&found)?),
    }
}
