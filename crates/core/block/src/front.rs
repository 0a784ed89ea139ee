//! The first fields of a row, which suffice to count it, to date it and to skip it.

use crate::encode::{DELTA, KEY, row_bytes_max};
use crate::{BlockError, Header, varint};

/// Kind and length of a row, and the time when it was gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowFront {
    pub kind: u8,
    /// Nanoseconds since the row before.
    pub elapsed: u64,
    /// The offset of the entries from the row's first byte.
    pub entries: usize,
    /// The offset of the row's end.
    pub end: usize,
}

impl RowFront {
    /// Reads the front of the row at the start of `bytes`; the block already has `rows` rows. `None`: the
    /// bytes end inside the front.
    #[inline]
    pub fn read(bytes: &[u8], header: Option<&Header>, rows: u32) -> Result<Option<Self>, BlockError> {
        let damaged = |at, problem| BlockError::Damaged { at, problem };
        let Some(&kind) = bytes.first() else { return Ok(None) };
        match (kind, rows) {
            (KEY, 0) | (DELTA, 1..) => {}
            (KEY, _) => return Err(damaged(0, "a second key row in the block")),
            (DELTA, _) => return Err(damaged(0, "the block does not begin with a key row")),
            (found, _) => return Err(BlockError::UnknownKind { at: 0, found }),
        }
        let Some(header) = header else { return Err(damaged(0, "a row before any header")) };
        let Some((length, rest)) = varint::get(&bytes[1..]) else {
            return cut_off(&bytes[1..], "the row's length does not fit 64 bits");
        };
        if length > row_bytes_max(header.slots as usize) as u64 {
            return Err(damaged(1, "a row longer than its schema allows"));
        }
        let body = bytes.len() - rest.len();
        let end = body + length as usize;
        // The time must end inside the row.
        let here = &rest[..rest.len().min(length as usize)];
        let Some((elapsed, entries)) = varint::get(here) else {
            if here.len() == length as usize {
                return Err(damaged(body, "no time in the row"));
            }
            return cut_off(here, "the row's time does not fit 64 bits");
        };
        Ok(Some(RowFront { kind, elapsed, entries: body + here.len() - entries.len(), end }))
    }
}

/// A number that does not end: either more bytes will come, or it is longer than any number may be.
#[cold]
fn cut_off(bytes: &[u8], problem: &'static str) -> Result<Option<RowFront>, BlockError> {
    if bytes.len() >= varint::BYTES_MAX { Err(BlockError::Damaged { at: 1, problem }) } else { Ok(None) }
}
