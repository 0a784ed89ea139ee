//! Lists, as bytes: the records that the commits of a segment wrote, and their places, so that a start need not read each record.
//! docs/store.md describes them.

use std::collections::BTreeSet;

use khz_block::varint;
use khz_model::Nanos;

use crate::bytes::{Bytes, Read};
use crate::limits::RECORD_BYTES_MAX;
use crate::log::SchemaHash;
use crate::log::record::{self, Kind, LaneRecord, SEGMENT_HEADER};

/// Bytes at the end of a list that say how long its body is: it is read from its end.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The longest list. The next one then goes back to the commit before only.
const LIST_BYTES_MAX: usize = RECORD_BYTES_MAX / 2;
/// Bytes of a list beside what it lists: where it begins, since when, and how long it is.
const LIST_FRAME_BYTES: usize = 32;
/// The flag of a block that may go on.
const PART: u8 = 1;

/// Where a record is: the number of its segment, and its place there.
pub(crate) type RecordPlace = (u64, u64);

/// A record that a commit wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// A lane, as its record has it.
    Lane(LaneRecord),
    /// A schema, and where its record is.
    Schema { number: u32, hash: SchemaHash, at: u64 },
    /// Where bytes of open blocks are.
    Rows { at: u64 },
    /// A block.
    Block(ListedBlock),
}

/// A list's entry for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedBlock {
    pub lane: u32,
    pub schema: u32,
    /// Where its record begins.
    pub at: u64,
    /// Bytes of the record's body.
    pub length: usize,
    pub first_row: u64,
    pub rows: u32,
    /// The corrected times of its first and last row.
    pub span: (Nanos, Nanos),
    pub is_part: bool,
}

impl Listed {
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Listed::Lane(lane) => {
                let mut body = Vec::new();
                lane.put_body(&mut body);
                out.push(Kind::Lane as u8);
                varint::put(out, body.len() as u64);
                out.extend_from_slice(&body);
            }
            Listed::Schema { number, hash, at } => {
                out.push(Kind::Schema as u8);
                varint::put(out, u64::from(*number));
                out.extend_from_slice(hash);
                varint::put(out, *at);
            }
            Listed::Rows { at } => {
                out.push(Kind::Rows as u8);
                varint::put(out, *at);
            }
            Listed::Block(block) => block.put(out),
        }
    }

    pub fn take(bytes: &mut Bytes<'_>) -> Read<Self> {
        match bytes.byte()? {
            1 => {
                let length = bytes.count(RECORD_BYTES_MAX)?;
                Ok(Listed::Lane(LaneRecord::take(Bytes(bytes.take(length)?))?))
            }
            2 => {
                let number = bytes.count(u32::MAX as usize)? as u32;
                let mut hash = SchemaHash::default();
                hash.copy_from_slice(bytes.take(16)?);
                Ok(Listed::Schema { number, hash, at: bytes.number()? })
            }
            3 => Ok(Listed::Rows { at: bytes.number()? }),
            4 => Ok(Listed::Block(ListedBlock::take(bytes)?)),
            _ => Err("a list has something that no commit writes"),
        }
    }
}

impl ListedBlock {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(Kind::Block as u8);
        for number in [
            u64::from(self.lane),
            u64::from(self.schema),
            self.at,
            self.length as u64,
            self.first_row,
            u64::from(self.rows),
        ] {
            varint::put(out, number);
        }
        out.extend_from_slice(&self.span.0.0.to_le_bytes());
        // The clock may have gone back meanwhile.
        varint::put(out, varint::zigzag(self.span.1.0.wrapping_sub(self.span.0.0)));
        out.push(if self.is_part { PART } else { 0 });
    }

    fn take(bytes: &mut Bytes<'_>) -> Read<Self> {
        let number = |bytes: &mut Bytes<'_>| bytes.count(u32::MAX as usize).map(|number| number as u32);
        let (lane, schema, at) = (number(bytes)?, number(bytes)?, bytes.number()?);
        let (length, first_row, rows) = (bytes.count(RECORD_BYTES_MAX)?, bytes.number()?, number(bytes)?);
        first_row.checked_add(u64::from(rows)).ok_or("rows that cannot be counted")?;
        let first = bytes.u64()?;
        let last = first.wrapping_add(varint::unzigzag(bytes.number()?));
        let is_part = bytes.byte()? & PART != 0;
        let span = (Nanos(first), Nanos(last));
        Ok(ListedBlock { lane, schema, at, length, first_row, rows, span, is_part })
    }
}

/// A list that was read.
#[derive(Debug)]
pub(crate) struct List {
    /// Where the records of its own commit begin.
    pub begin: u64,
    /// It has what the commits after this place wrote.
    pub since: u64,
    /// Records of rows, of any segment, that have bytes of blocks that had not ended before its own commit.
    pub needed: BTreeSet<RecordPlace>,
    body: Vec<u8>,
    /// Where in the body the records begin that it lists.
    entries: usize,
}

impl List {
    /// Reads the body of a list.
    pub fn of(body: Vec<u8>) -> Read<Self> {
        let entries = body.len().checked_sub(LENGTH_BYTES).ok_or("a list without its length")?;
        let mut bytes = Bytes(&body[..entries]);
        let (begin, since) = (bytes.number()?, bytes.number()?);
        let mut needed = BTreeSet::new();
        for _ in 0..bytes.number()? {
            needed.insert((bytes.number()?, bytes.number()?));
        }
        let entries = entries - bytes.0.len();
        while !bytes.0.is_empty() {
            Listed::take(&mut bytes)?;
        }
        Ok(List { begin, since, needed, body, entries })
    }

    /// Its entries, in the order in which they were written.
    pub fn entries(&self) -> impl Iterator<Item = Listed> {
        let mut bytes = Bytes(&self.body[self.entries..self.body.len() - LENGTH_BYTES]);
        // They were read once before.
        std::iter::from_fn(move || (!bytes.0.is_empty()).then(|| Listed::take(&mut bytes).ok())?)
    }
}

/// The records that the commits of a segment have written, for the lists of later commits. The list of commit n covers as many
/// commits as the highest power of two that divides n. So few lists lead from any commit to the start of the segment, and each
/// record is in few lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The records so far, including those of a commit that has not ended.
    entries: Vec<u8>,
    /// Where each commit ends, in the segment and in `entries`. First the segment's begin.
    commits: Vec<(u64, usize)>,
    /// A commit wrote more than fits into a list: this segment has no more of them.
    is_given_up: bool,
}

impl Lists {
    pub fn new() -> Self {
        let commits = vec![(SEGMENT_HEADER.len() as u64, 0)];
        Lists { entries: Vec::new(), commits, is_given_up: false }
    }

    /// A commit writes this.
    pub fn add(&mut self, listed: &Listed) {
        if !self.is_given_up {
            listed.put(&mut self.entries);
        }
    }

    /// Appends the list of the commit that is written.
    pub fn put(&mut self, out: &mut Vec<u8>, needed: impl ExactSizeIterator<Item = RecordPlace>) {
        if self.is_given_up {
            return;
        }
        let number = self.commits.len();
        // The highest power of two that divides it.
        let back = number & number.wrapping_neg();
        let before = self.commits[number - 1];
        let room = LIST_BYTES_MAX - LIST_FRAME_BYTES;
        let room = room.saturating_sub(needed.len() * 2 * varint::BYTES_MAX);
        let fits = |since: &(u64, usize)| self.entries.len() - since.1 <= room;
        let Some(since) = [self.commits[number - back], before].into_iter().find(fits) else {
            (self.is_given_up, self.entries) = (true, Vec::new());
            return;
        };
        record::put(out, Kind::List, |out| {
            let start = out.len();
            varint::put(out, before.0);
            varint::put(out, since.0);
            varint::put(out, needed.len() as u64);
            for (segment, at) in needed {
                varint::put(out, segment);
                varint::put(out, at);
            }
            out.extend_from_slice(&self.entries[since.1..]);
            let length = (out.len() - start + LENGTH_BYTES) as u32;
            out.extend_from_slice(&length.to_le_bytes());
        });
    }

    /// The commit is on the disk; the segment ends here now.
    pub fn committed(&mut self, end: u64) {
        self.commits.push((end, self.entries.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> ListedBlock {
        ListedBlock {
            lane: number as u32 % 5,
            schema: 2,
            at: number * 1_000,
            length: 16_000,
            first_row: number * 60,
            rows: 60,
            span: (Nanos(number << 40), Nanos((number << 40) - number % 3)),
            is_part: number % 2 == 1,
        }
    }

    #[test]
    fn from_each_commit_few_lists_lead_to_all_that_was_written() {
        let (mut lists, mut written, mut longest) = (Lists::new(), Vec::new(), 0);
        for commit in 1..=700u64 {
            lists.add(&Listed::Block(block(commit)));
            let mut out = Vec::new();
            lists.put(&mut out, [(1, commit)].into_iter());
            let list = List::of(out[record::HEAD_BYTES..].to_vec()).unwrap();
            let length = out.last_chunk().map(|length| u32::from_le_bytes(*length)).unwrap();
            assert_eq!(length as usize, out.len() - record::HEAD_BYTES);
            assert_eq!(list.needed, BTreeSet::from([(1, commit)]));
            lists.committed(8 + commit);
            written.push(list);
            let (mut found, mut at, mut reads) = (Vec::new(), 8 + commit, 0);
            while at > 8 {
                let list = &written[(at - 9) as usize];
                assert!(list.begin == at - 1 && list.since < at);
                let entries: Vec<Listed> = list.entries().collect();
                found.splice(0..0, entries);
                (at, reads) = (list.since, reads + 1);
            }
            let expected: Vec<Listed> = (1..=commit).map(|number| Listed::Block(block(number))).collect();
            assert_eq!(found, expected);
            longest = longest.max(reads);
        }
        assert_eq!(longest, 9, "the number 511 has nine ones");
    }

    #[test]
    fn what_a_list_cannot_say_is_refused() {
        for (bytes, problem) in [
            (&b"abc"[..], "a list without its length"),
            (&[8, 8, 2, 1, 1, 0, 0, 0, 0], "it ends in the middle of a field"),
        ] {
            assert_eq!(List::of(bytes.to_vec()).unwrap_err(), problem);
        }
        let mut bytes = vec![8, 8, 0, 3, 1, 9];
        bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        assert_eq!(List::of(bytes).unwrap_err(), "a list has something that no commit writes");
    }
}
