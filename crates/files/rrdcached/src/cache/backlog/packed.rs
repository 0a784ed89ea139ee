//! Samples packed into few bytes: a text in, the same text out; checks none.
//!
//! ```text
//! sample: tag u8 [count u16] [time] content        tag: kind in the upper two bits, count in the lower six
//! kind 0  time is a zigzag varint, seconds since the sample before; content is `count` half bytes
//! kind 1  the same, seconds since zero: the first of a chain
//! kind 2  no time; content is `count` bytes of text as it came
//! ```
//!
//! A count of 63 or more is in the two bytes that follow. Half bytes encode digits and `.:-+eU`, which is all that
//! rrdtool's clients send; other text is kept as it is.

use crate::cache::sample::DIGITS;

const DELTA: u8 = 0;
const FIRST: u8 = 1;
const TEXT: u8 = 2;
/// From this count on it has two bytes of its own.
const COUNTED: usize = 63;
const LETTERS: &[u8; 16] = b"0123456789.:-+eU";
/// Marks a character without a half byte.
const FOREIGN: u8 = 16;

const HALVES: [u8; 256] = {
    let (mut halves, mut index) = ([FOREIGN; 256], 0);
    while index < 16 {
        halves[LETTERS[index] as usize] = index as u8;
        index += 1;
    }
    halves
};

/// Appends `sample` to `out`; `before` is the result for the sample before it in its chain: its seconds, or `None`
/// if it is kept as text.
pub fn pack(sample: &str, before: Option<i64>, out: &mut Vec<u8>) -> Option<i64> {
    let start = out.len();
    let Some((time, content)) =
        sample.split_once(':').and_then(|(time, rest)| Some((canonical(time)?, rest)))
    else {
        return text(sample, out);
    };
    if content.len() > usize::from(u16::MAX) {
        return text(sample, out);
    }
    tag(if before.is_some() { DELTA } else { FIRST }, content.len(), out);
    varint(time.wrapping_sub(before.unwrap_or(0)), out);
    let mut pairs = content.as_bytes().chunks_exact(2);
    let mut foreign = 0;
    for pair in &mut pairs {
        let (low, high) = (HALVES[usize::from(pair[0])], HALVES[usize::from(pair[1])]);
        foreign |= low | high;
        out.push(low | high << 4);
    }
    if let [last] = pairs.remainder() {
        foreign |= HALVES[usize::from(*last)];
        out.push(HALVES[usize::from(*last)]);
    }
    if foreign & FOREIGN != 0 {
        out.truncate(start);
        return text(sample, out);
    }
    Some(time)
}

fn text(sample: &str, out: &mut Vec<u8>) -> Option<i64> {
    // A protocol line is shorter than 64 KiB, so nothing is cut.
    let bytes = &sample.as_bytes()[..sample.len().min(usize::from(u16::MAX))];
    tag(TEXT, bytes.len(), out);
    out.extend_from_slice(bytes);
    None
}

fn tag(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind << 6 | count.min(COUNTED) as u8);
    if count >= COUNTED {
        out.extend((count as u16).to_le_bytes());
    }
}

/// The seconds, if printing them again gives the same text, and if a stamp in microseconds has room for them.
fn canonical(time: &str) -> Option<i64> {
    let plain = time.len() <= DIGITS && !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (time.starts_with('0') && time.len() > 1) {
        return None;
    }
    time.parse().ok()
}

fn varint(value: i64, out: &mut Vec<u8>) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// The samples in `bytes`, one by one; ends at bytes that are not a sample.
pub struct Unpacked<'a> {
    bytes: &'a [u8],
    before: i64,
}

/// The samples packed in `bytes`.
pub fn unpack(bytes: &[u8]) -> Unpacked<'_> {
    Unpacked { bytes, before: 0 }
}

impl Unpacked<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                return Some((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
    }
}

impl Iterator for Unpacked<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let tag = self.take(1)?[0];
        let count = match usize::from(tag & 63) {
            COUNTED => usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)),
            count => count,
        };
        if tag >> 6 == TEXT {
            return Some(String::from_utf8_lossy(self.take(count)?).into_owned());
        }
        let delta = self.varint()?;
        self.before = if tag >> 6 == FIRST { delta } else { self.before.wrapping_add(delta) };
        let mut sample = self.before.to_string();
        sample.reserve(count + 1);
        sample.push(':');
        let packed = self.take(count.div_ceil(2))?;
        sample.extend((0..count).map(|index| {
            let half = packed[index / 2] >> (4 * (index % 2)) & 15;
            char::from(LETTERS[usize::from(half)])
        }));
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(samples: &[&str]) -> usize {
        let (mut out, mut before) = (vec![], None);
        for sample in samples {
            before = pack(sample, before, &mut out);
        }
        assert_eq!(unpack(&out).collect::<Vec<_>>(), samples);
        out.len()
    }

    #[test]
    fn a_time_whose_microseconds_are_not_exact_is_kept_as_text() {
        // The next sample is a difference from the stamp, which may be a second off for a time in milliseconds.
        for (time, packed) in [("999999999999", true), ("1700000000903", false)] {
            assert_eq!(pack(&format!("{time}:5"), None, &mut vec![]).is_some(), packed, "{time}");
        }
    }

    #[test]
    fn samples_come_back_as_they_were_and_small() {
        assert_eq!(round(&["1000000300:1234567:7654321"]), 1 + 5 + 8);
        assert_eq!(round(&["1000000300:1234567:7654321", "1000000600:1234999:7654999"]), 14 + 1 + 2 + 8);
        round(&["1000000300:U:-1.5e+10", "1000000200:", "0:1", "007:1", "1.5:2", "x", ":", "", "5:nan:E"]);
        round(&["99999999999999999999:1", "-5:1", "+5:1", "9@1:2"]);
        let wide = format!("1000000300{}", ":123".repeat(500));
        round(&[&wide, "1000000301:5", &wide.replace('1', "x")]);
    }

    #[test]
    fn damaged_bytes_end_early() {
        let mut out = vec![];
        pack("1000000300:1234567:7654321", None, &mut out);
        for cut in 0..out.len() {
            assert_eq!(unpack(&out[..cut]).count(), 0);
        }
        assert_eq!(unpack(&[0xff; 40]).count(), 0);
        assert_eq!(
            unpack(&[0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).count(),
            0
        );
    }
}
