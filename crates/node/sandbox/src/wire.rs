//! The messages between the agent and the child, each a datagram. Neither end trusts the other's bytes.

use khz_model::{Nanos, Stamp};
use khz_program::limits::{LINE_BYTES_MAX, OUTPUT_NAME_BYTES_MAX, OUTPUTS_MAX};

/// Bytes of a text of these messages.
const TEXT_MAX: usize = 4_096;

/// Patterns of a program. A channel has as many at most.
const PATTERNS_MAX: usize = 256;

/// From the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Execute a program. The ring with its rows comes along as a descriptor. If the child has a program with this number, the
    /// new one gets the row after the last one of that.
    Begin(Begin),
    /// It is not wanted any more.
    End { number: u32 },
}

/// A program for the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub number: u32,
    /// Bytes of the ring's data, and whether it is anonymous memory.
    pub ring_bytes: u64,
    pub is_nameless: bool,
    pub hash: [u8; 32],
    pub patterns: Vec<String>,
    pub packed: Vec<u8>,
}

/// From the child.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// It is confined like this, and takes programs.
    Ready { how: String },
    /// It cannot be confined, and takes none.
    Unsafe { why: String },
    /// The program's rows have these values from now on.
    Names { number: u32, names: Vec<String> },
    /// A row.
    Row { number: u32, stamp: Stamp, values: Vec<f64> },
    /// The program works; whatever was wrong is over.
    Works { number: u32 },
    /// It has failed, or is refused.
    Failed { number: u32, why: String },
    /// What it has taken since the child has it.
    Counts { number: u32, counts: [u64; 8] },
    /// A line for people.
    Said { number: u32, line: String },
}

impl Order {
    pub fn put(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Order::Begin(begin) => {
                out.push(1);
                put(out, begin.number);
                out.extend(begin.ring_bytes.to_le_bytes());
                out.push(begin.is_nameless.into());
                out.extend(begin.hash);
                put(out, begin.patterns.len() as u32);
                begin.patterns.iter().for_each(|pattern| put_text(out, pattern));
                out.extend(&begin.packed);
            }
            Order::End { number } => {
                out.push(2);
                put(out, *number);
            }
        }
    }

    /// Reads one; `None`: it is damaged.
    pub fn take(bytes: &[u8]) -> Option<Self> {
        let mut left = Left(bytes);
        match left.byte()? {
            1 => {
                let number = left.number()?;
                let ring_bytes = left.long()?;
                let is_nameless = left.byte()? != 0;
                let hash = *left.bytes(32)?.first_chunk()?;
                let count = left.number()? as usize;
                let patterns = (count <= PATTERNS_MAX)
                    .then(|| (0..count).map(|_| left.text(TEXT_MAX)).collect::<Option<_>>())??;
                let packed = left.0.to_vec();
                Some(Order::Begin(Begin { number, ring_bytes, is_nameless, hash, patterns, packed }))
            }
            2 => Some(Order::End { number: left.number()? }),
            _ => None,
        }
    }
}

impl News {
    pub fn put(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            News::Ready { how } => {
                out.push(1);
                put_text(out, how);
            }
            News::Unsafe { why } => {
                out.push(2);
                put_text(out, why);
            }
            News::Names { number, names } => {
                out.push(3);
                put(out, *number);
                put(out, names.len() as u32);
                names.iter().for_each(|name| put_text(out, name));
            }
            News::Row { number, stamp, values } => put_row(*number, *stamp, values, out),
            News::Works { number } => {
                out.push(5);
                put(out, *number);
            }
            News::Failed { number, why } => {
                out.push(6);
                put(out, *number);
                put_text(out, why);
            }
            News::Counts { number, counts } => {
                out.push(7);
                put(out, *number);
                counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
            }
            News::Said { number, line } => {
                out.push(8);
                put(out, *number);
                put_text(out, line);
            }
        }
    }

    /// Reads one; `None`: it is damaged.
    pub fn take(bytes: &[u8]) -> Option<Self> {
        let mut left = Left(bytes);
        let news = match left.byte()? {
            1 => News::Ready { how: left.text(TEXT_MAX)? },
            2 => News::Unsafe { why: left.text(TEXT_MAX)? },
            3 => {
                let (number, count) = (left.number()?, left.number()? as usize);
                let name = |_| left.text(OUTPUT_NAME_BYTES_MAX);
                News::Names {
                    number,
                    names: (count <= OUTPUTS_MAX).then(|| (0..count).map(name).collect::<Option<_>>())??,
                }
            }
            4 => {
                let number = left.number()?;
                let stamp = Stamp { boot: Nanos(left.long()?), real_offset: left.long()? as i64 };
                let (values, rest) = left.0.as_chunks::<8>();
                left.0 = rest;
                let values: Vec<f64> = values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
                (values.len() <= OUTPUTS_MAX).then_some(News::Row { number, stamp, values })?
            }
            5 => News::Works { number: left.number()? },
            6 => News::Failed { number: left.number()?, why: left.text(TEXT_MAX)? },
            7 => {
                let (number, mut counts) = (left.number()?, [0; 8]);
                for count in &mut counts {
                    *count = left.long()?;
                }
                News::Counts { number, counts }
            }
            8 => News::Said { number: left.number()?, line: left.text(4 * LINE_BYTES_MAX)? },
            _ => return None,
        };
        left.0.is_empty().then_some(news)
    }
}

/// A row, without a list of its own for the values.
pub(crate) fn put_row(number: u32, stamp: Stamp, values: &[f64], out: &mut Vec<u8>) {
    out.clear();
    out.push(4);
    put(out, number);
    out.extend(stamp.boot.0.to_le_bytes());
    out.extend(stamp.real_offset.to_le_bytes());
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

/// A text that is too long is cut at a letter.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_MAX)];
    put(out, text.len() as u32);
    out.extend(text.as_bytes());
}

struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(4)?.first_chunk()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes(8)?.first_chunk()?))
    }

    fn text(&mut self, most: usize) -> Option<String> {
        let length = self.number()? as usize;
        let bytes = (length <= most).then(|| self.bytes(length))??;
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders() -> Vec<Order> {
        let begin = Begin {
            number: 7,
            ring_bytes: 1 << 16,
            is_nameless: true,
            hash: [3; 32],
            patterns: vec!["mem.*".into(), "disk.io_time[*]".into()],
            packed: vec![1, 2, 3],
        };
        vec![
            Order::Begin(Begin { is_nameless: false, packed: vec![], ..begin.clone() }),
            Order::Begin(begin),
            Order::End { number: 9 },
        ]
    }

    fn news() -> Vec<News> {
        let stamp = Stamp { boot: Nanos(5), real_offset: -6 };
        vec![
            News::Ready { how: "seccomp".into() },
            News::Unsafe { why: "no".into() },
            News::Names { number: 1, names: vec!["a".into(), "b".into()] },
            News::Row { number: 1, stamp, values: vec![1.5, -0.0] },
            News::Row { number: 1, stamp, values: vec![] },
            News::Works { number: 1 },
            News::Failed { number: 1, why: "it divides by zero".into() },
            News::Counts { number: 1, counts: [1, 2, 3, 4, 5, 6, 7, u64::MAX] },
            News::Said { number: 1, line: "é".into() },
        ]
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_short_is_no_message() {
        let mut bytes = Vec::new();
        for order in orders() {
            order.put(&mut bytes);
            assert_eq!(Order::take(&bytes), Some(order));
        }
        for one in news() {
            one.put(&mut bytes);
            assert_eq!(News::take(&bytes), Some(one.clone()));
            // A row has as many values as it has bytes for.
            if !matches!(one, News::Row { .. }) {
                for length in 0..bytes.len() {
                    assert_eq!(News::take(&bytes[..length]), None, "{one:?} {length}");
                }
            }
        }
        News::Failed { number: 1, why: "é".repeat(TEXT_MAX) }.put(&mut bytes);
        assert!(matches!(News::take(&bytes), Some(News::Failed { why, .. }) if why.len() == TEXT_MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 0u8..10) {
            let bytes = [&[tag][..], &bytes].concat();
            let _ = (Order::take(&bytes), News::take(&bytes));
        }
    }
}
