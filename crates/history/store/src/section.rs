//! A section: the columns of one node in one file, and the index that finds them. Times come first, then the columns in
//! the order of the layout, then the index.

use std::sync::Arc;

use khz_block::schema::SLOTS_MAX;
use khz_block::varint;
use khz_model::{NodeName, Series};

use crate::bytes::{Bytes, Read};
use crate::column::Span;
use crate::layout::{Key, Layout};
use crate::limits::{COLUMN_BYTES_MAX, PART_BYTES_MAX, ROWS_MAX};
use crate::part::Part;

/// What the index of a section says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub layout: Part,
    pub span: Span,
    pub times: Part,
    pub columns: Columns,
}

/// Where the columns of a section are: they follow the times and each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    begin: u64,
    /// For each column, how far from there it ends.
    ends: Vec<u64>,
    checksums: Vec<u32>,
}

impl Columns {
    /// None so far; the first will be here.
    pub fn from(begin: u64) -> Self {
        Columns { begin, ..Columns::default() }
    }

    /// Adds the next column.
    pub fn push(&mut self, length: usize, checksum: u32) {
        self.ends.push(self.ends.last().map_or(0, |end| *end).saturating_add(length as u64));
        self.checksums.push(checksum);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where a column is.
    pub fn get(&self, place: usize) -> Option<Part> {
        let (end, checksum) = (*self.ends.get(place)?, *self.checksums.get(place)?);
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (offset, length) = (self.begin.saturating_add(begin), (end - begin) as usize);
        Some(Part { offset, length, checksum })
    }

    fn all(&self) -> impl Iterator<Item = Part> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Bytes in memory.
    fn held(&self) -> usize {
        self.ends.capacity() * size_of::<u64>() + self.checksums.capacity() * size_of::<u32>()
    }
}

impl Index {
    /// Columns follow the times and each other, so each has only a length and a checksum.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.layout.put(out);
        varint::put(out, self.span.rows as u64);
        varint::put(out, self.span.first);
        varint::put(out, self.span.last - self.span.first);
        self.times.put(out);
        varint::put(out, self.columns.len() as u64);
        for column in self.columns.all() {
            varint::put(out, column.length as u64);
            out.extend_from_slice(&column.checksum.to_le_bytes());
        }
    }

    pub fn take(mut bytes: Bytes<'_>) -> Read<Self> {
        let layout = Part::take(&mut bytes, PART_BYTES_MAX)?;
        let (rows, first, after) = (bytes.count(ROWS_MAX)?, bytes.number()?, bytes.number()?);
        let last = first.checked_add(after).ok_or("its last row is after the end of time")?;
        let times = Part::take(&mut bytes, COLUMN_BYTES_MAX)?;
        let count = bytes.count(SLOTS_MAX)?;
        // A damaged count must not take memory that its bytes cannot fill.
        let (room, mut columns) = (count.min(bytes.0.len() / 5), Columns::from(times.end()));
        columns.ends.reserve_exact(room);
        columns.checksums.reserve_exact(room);
        for _ in 0..count {
            columns.push(bytes.count(COLUMN_BYTES_MAX)?, bytes.u32()?);
        }
        bytes.end()?;
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
        size_of::<Self>() + self.index.columns.held()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.index.span.rows
    }
}
