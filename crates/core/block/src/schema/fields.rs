//! The fields of a record: texts, numbers and bytes, written one after the other and read with their limits.

use crate::{BlockError, varint};

/// Appends a text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The rest of a record that is being read.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The record's offset in the schema, for errors.
    at: usize,
}

impl<'a> Fields<'a> {
    pub fn new(body: &'a [u8], at: usize) -> Self {
        Fields { rest: body, at }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn damaged(&self, problem: &'static str) -> BlockError {
        BlockError::Damaged { at: self.at, problem }
    }

    /// Returns `found` if it is at most `limit`, or else the error that names `what`.
    pub fn within(&self, found: u64, limit: usize, what: &'static str) -> Result<usize, BlockError> {
        match usize::try_from(found) {
            Ok(found) if found <= limit => Ok(found),
            _ => Err(BlockError::TooMuch { at: self.at, what, limit }),
        }
    }

    pub fn byte(&mut self) -> Result<u8, BlockError> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(byte)
    }

    pub fn number(&mut self) -> Result<u64, BlockError> {
        let (number, rest) = varint::get(self.rest).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(number)
    }

    pub fn text(&mut self, limit: usize, what: &'static str) -> Result<&'a str, BlockError> {
        let length = self.number()?;
        let length = self.within(length, limit, what)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.short())?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| self.damaged("a text of the schema is not UTF-8"))
    }

    fn short(&self) -> BlockError {
        self.damaged("a record of the schema ends before its fields do")
    }
}
