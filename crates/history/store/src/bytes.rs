//! Bytes that somebody else wrote, read from the front. It knows no format; every read may fail, none panics.

use khz_block::varint;

/// The result of reading a part of a file: the part, or its error.
pub(crate) type Read<T> = Result<T, &'static str>;

/// The error for bytes that end too early...
pub(crate) const TOO_SHORT: &str = "it ends in the middle of a field";
/// ...and with a number that is larger than it may be.
pub(crate) const BEYOND_LIMIT: &str = "a count is beyond its limit";

/// The rest of some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Read<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn number(&mut self) -> Read<u64> {
        let (number, rest) = varint::get(self.0).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(number)
    }

    /// A number or a length, at most `limit`.
    pub fn count(&mut self, limit: usize) -> Read<usize> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > limit { Err(BEYOND_LIMIT) } else { Ok(count) }
    }

    pub fn text(&mut self, limit: usize) -> Read<&'a str> {
        let length = self.count(limit)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")
    }

    /// Nothing may follow.
    pub fn end(&self) -> Read<()> {
        if self.0.is_empty() { Ok(()) } else { Err("bytes follow its end") }
    }
}

/// Appends a text and its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a signed number of any size: its low half, then its high half, which is mostly 0 or -1.
pub(crate) fn put_wide(out: &mut Vec<u8>, wide: i128) {
    varint::put(out, wide as u64);
    varint::put(out, varint::zigzag((wide >> 64) as u64));
}

/// Reads what [`put_wide`] wrote.
pub(crate) fn wide(bytes: &mut Bytes<'_>) -> Read<i128> {
    let low = bytes.number()?;
    Ok(join(low, varint::unzigzag(bytes.number()?)))
}

/// A wide number out of its halves.
pub(crate) fn join(low: u64, high: u64) -> i128 {
    (i128::from(high.cast_signed()) << 64) | i128::from(low)
}
