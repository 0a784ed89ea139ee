//! A section: the columns of one node in one file, and the index that finds them. The columns are in the order of the layout, and
//! between them may be those of other sections (`group.rs`).

use std::sync::Arc;

use khz_block::schema::SLOTS_MAX;
use khz_block::varint;
use khz_model::{NodeName, Series};

use crate::bytes::{BEYOND_LIMIT, Bytes, Read, TOO_SHORT};
use crate::column::Span;
use crate::layout::{Key, Layout};
use crate::limits::{COLUMN_BYTES_MAX, PART_BYTES_MAX, ROWS_MAX};
use crate::part::Part;
use crate::times::Times;

/// The content of a section's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub layout: Part,
    pub span: Span,
    pub times: Part,
    pub columns: Columns,
}

/// Where the columns of a section are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Where the columns of the section's group begin.
    begin: u64,
    columns: Vec<Column>,
}

/// Where a column is: a part in two thirds of its memory, because an open store knows some millions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    offset: u64,
    length: u32,
    checksum: u32,
}

impl Columns {
    /// An empty list for a group that begins here.
    pub fn from(begin: u64) -> Self {
        Columns { begin, columns: Vec::new() }
    }

    /// Adds the next column. It begins at the end of the previous one, or later.
    pub fn push(&mut self, part: Part) {
        let Part { offset, length, checksum } = part;
        debug_assert!(offset >= self.end() && length <= COLUMN_BYTES_MAX, "BUG: a column out of its order");
        self.columns.push(Column { offset, length: length as u32, checksum });
    }

    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Where a column is.
    pub fn get(&self, place: usize) -> Option<Part> {
        let Column { offset, length, checksum } = *self.columns.get(place)?;
        Some(Part { offset, length: length as usize, checksum })
    }

    /// Where the last one ends.
    fn end(&self) -> u64 {
        let end = |last: &Column| last.offset.saturating_add(u64::from(last.length));
        self.columns.last().map_or(self.begin, end)
    }

    /// Bytes in memory.
    fn held(&self) -> usize {
        self.columns.capacity() * size_of::<Column>()
    }
}

impl Index {
    /// The bytes of the index. Each column has the gap between the one before and itself.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.layout.put(out);
        varint::put(out, self.span.rows as u64);
        varint::put(out, self.span.first);
        varint::put(out, self.span.last - self.span.first);
        self.times.put(out);
        varint::put(out, self.columns.begin);
        varint::put(out, self.columns.len() as u64);
        let mut end = self.columns.begin;
        for column in &self.columns.columns {
            varint::put(out, column.offset - end);
            varint::put(out, u64::from(column.length));
            out.extend_from_slice(&column.checksum.to_le_bytes());
            end = column.offset + u64::from(column.length);
        }
    }

    /// Reads what a file of this version has.
    pub fn take(mut bytes: Bytes<'_>, version: u8) -> Read<Self> {
        let layout = Part::take(&mut bytes, PART_BYTES_MAX)?;
        let (rows, first, after) = (bytes.count(ROWS_MAX)?, bytes.number()?, bytes.number()?);
        let last = first.checked_add(after).ok_or("its last row is after the end of time")?;
        let times = Part::take(&mut bytes, COLUMN_BYTES_MAX)?;
        // In version 1 the columns of a section followed its times and each other.
        let (begin, has_gaps) = if version == 1 { (times.end(), false) } else { (bytes.number()?, true) };
        let count = bytes.count(SLOTS_MAX)?;
        let mut columns = Columns::from(begin);
        // A damaged count must not take memory that its bytes cannot fill.
        columns.columns.reserve_exact(count.min(bytes.0.len() / 5));
        // A question about one series of many nodes reads little else than indexes, so this is a loop without calls.
        let (mut rest, mut end) = (bytes.0, begin);
        for _ in 0..count {
            let (gap, after) = if has_gaps { varint::get(rest).ok_or(TOO_SHORT)? } else { (0, rest) };
            let (length, after) = varint::get(after).ok_or(TOO_SHORT)?;
            let (checksum, after) = after.split_first_chunk().ok_or(TOO_SHORT)?;
            if length > COLUMN_BYTES_MAX as u64 {
                return Err(BEYOND_LIMIT);
            }
            let offset = end.checked_add(gap).ok_or("a column beyond the end of any file")?;
            let checksum = u32::from_le_bytes(*checksum);
            columns.columns.push(Column { offset, length: length as u32, checksum });
            (rest, end) = (after, offset.saturating_add(length));
        }
        Bytes(rest).end()?;
        Ok(Index { layout, span: Span { rows, first, last }, times, columns })
    }
}

/// A section of an open file.
#[derive(Clone, Debug)]
pub struct Section {
    /// The node.
    pub node: NodeName,
    pub(crate) at: Part,
    pub(crate) layout: Arc<Layout>,
    pub(crate) index: Index,
    /// The times of its rows, if they were unpacked with it.
    pub(crate) times: Option<Arc<Times>>,
}

impl Section {
    /// The series of its columns.
    pub fn series(&self) -> &[Series] {
        self.layout.series()
    }

    /// The column of a series, if it has one.
    pub fn place(&self, key: &Key) -> Option<usize> {
        self.layout.place(key)
    }

    /// Roughly how many bytes it takes; series lists are shared.
    pub(crate) fn held(&self) -> usize {
        let times = self.times.as_ref().map_or(0, |times| times.held());
        size_of::<Self>() + self.index.columns.held() + times
    }

    /// All bytes from the first column of its group to its index. A reader of all its columns wants them in memory.
    pub(crate) fn extent(&self) -> Part {
        let offset = self.index.columns.begin.min(self.index.times.offset);
        let length = self.at.end().saturating_sub(offset) as usize;
        Part { offset, length, checksum: 0 }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.index.span.rows
    }
}
