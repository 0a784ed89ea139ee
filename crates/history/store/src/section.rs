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
    pub columns: Vec<Part>,
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
        for column in &self.columns {
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
        let (mut columns, mut offset) = (Vec::with_capacity(count.min(bytes.0.len() / 5)), times.end());
        for _ in 0..count {
            let column = Part { offset, length: bytes.count(COLUMN_BYTES_MAX)?, checksum: bytes.u32()? };
            offset = column.end();
            columns.push(column);
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

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.index.span.rows
    }
}
