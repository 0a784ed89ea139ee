//! Numbers and texts in frames: little-endian, LEB128, a length before a text. It knows no frame; an error has an offset and a
//! reason.

use khz_model::{Nanos, Rate};

/// Where a body stops making sense, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub at: usize,
    pub problem: &'static str,
}

/// Reads a body from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Body<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Body<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Body { bytes, at: 0 }
    }

    fn misfit<T>(&self, problem: &'static str) -> Result<T, Misfit> {
        Err(Misfit { at: self.at, problem })
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Misfit> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..length)) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => self.misfit("the body ends too early"),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, Misfit> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Misfit> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Misfit> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Misfit> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The number of a row.
    pub fn row(&mut self) -> Result<u64, Misfit> {
        let at = self.at;
        match self.u64()? {
            row if row <= khz_block::ROW_MAX => Ok(row),
            _ => Err(Misfit { at, problem: "no lane has a row of this number" }),
        }
    }

    /// The time between two rows of a lane.
    pub fn period(&mut self) -> Result<Nanos, Misfit> {
        let at = self.at;
        match Nanos(self.u64()?) {
            period if period <= Rate::PERIOD_MAX => Ok(period),
            _ => Err(Misfit { at, problem: "no lane has a period this long" }),
        }
    }

    pub fn i64(&mut self) -> Result<i64, Misfit> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn varint(&mut self) -> Result<u64, Misfit> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.at = start;
        self.misfit("a number beyond 64 bits")
    }

    /// A varint that numbers lanes and interests.
    pub fn number(&mut self) -> Result<u32, Misfit> {
        let at = self.at;
        u32::try_from(self.varint()?).map_err(|_| Misfit { at, problem: "a number beyond 32 bits" })
    }

    pub fn text(&mut self, longest: usize) -> Result<&'a str, Misfit> {
        let at = self.at;
        let length = self.varint()?;
        if length > longest as u64 {
            return Err(Misfit { at, problem: "a text longer than its kind may be" });
        }
        let bytes = self.bytes(length as usize)?;
        std::str::from_utf8(bytes).map_err(|_| Misfit { at, problem: "a text that is not UTF-8" })
    }

    /// The bytes after the known fields.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// The bytes from `start`, an earlier [`Body::at`], up to here.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub fn at(&self) -> usize {
        self.at
    }
}

/// Appends a LEB128 number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text, cut at a character when it is longer than its reader allows.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, longest: usize) {
    let text = &text[..text.floor_char_boundary(longest)];
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_way_there_and_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Body::new(&out).varint(), Ok(value));
        }
        assert_eq!(Body::new(&[0xff; 10]).varint().unwrap_err().problem, "a number beyond 64 bits");
        assert_eq!(Body::new(&[0x80, 0x80]).varint().unwrap_err().problem, "the body ends too early");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut out = Vec::new();
        put_text(&mut out, "knöten", 3);
        assert_eq!(Body::new(&out).text(3), Ok("kn"));
        assert!(Body::new(&out).text(1).is_err());
        assert_eq!(Body::new(&[2, 0xc3, 0x28]).text(9).unwrap_err().problem, "a text that is not UTF-8");
    }
}
