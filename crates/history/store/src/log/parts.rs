//! Bytes for the end of a segment, wherever they are in memory: heads of records, which are made here, and the bytes of
//! blocks, which are written from where they are.

use std::io::IoSlice;
use std::ops::Range;

use crate::StoreError;
use crate::log::segment::SegmentFile;

/// Bytes that wait to be written together.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    heads: Vec<u8>,
    parts: Vec<Part<'a>>,
    length: usize,
}

enum Part<'a> {
    /// Bytes of `heads`.
    Heads(Range<usize>),
    Bytes(&'a [u8]),
}

impl<'a> Parts<'a> {
    /// How many bytes wait.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds what `put` appends.
    pub fn head(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let start = self.heads.len();
        put(&mut self.heads);
        let end = self.heads.len();
        self.length += end - start;
        match self.parts.last_mut() {
            Some(Part::Heads(last)) => last.end = end,
            _ => self.parts.push(Part::Heads(start..end)),
        }
    }

    /// Adds bytes that are not copied.
    pub fn bytes(&mut self, bytes: &'a [u8]) {
        self.length += bytes.len();
        self.parts.push(Part::Bytes(bytes));
    }

    /// Writes all of them, and `rest` after them. Returns how many bytes these are.
    pub fn write(&mut self, file: &SegmentFile, at: u64, rest: &[u8]) -> Result<u64, StoreError> {
        let of = |part: &Part<'a>| match part {
            Part::Heads(range) => IoSlice::new(&self.heads[range.clone()]),
            Part::Bytes(bytes) => IoSlice::new(bytes),
        };
        let mut slices: Vec<IoSlice<'_>> = self.parts.iter().map(of).collect();
        slices.push(IoSlice::new(rest));
        file.write(at, &mut slices)?;
        let written = (self.length + rest.len()) as u64;
        self.parts.clear();
        self.heads.clear();
        self.length = 0;
        Ok(written)
    }
}
