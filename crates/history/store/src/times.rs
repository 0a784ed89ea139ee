//! The times of a section's rows, which all its series share. Rows are in order of time, and no two have the same.

use khz_block::varint;
use khz_model::{Nanos, Stamp};

use crate::bytes::{Bytes, Read};
use crate::limits::ROWS_MAX;
use crate::stream;

/// The times of rows, with what else there is for each row: one number for a row as it was gathered, the offset of its
/// stamp; two for a bucket of a roll-up, the times of its first and last row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Nanoseconds since 1970; of a bucket its begin.
    pub at: Vec<u64>,
    pub beside: Vec<Vec<u64>>,
}

impl Times {
    /// How many numbers there are beside each time.
    pub fn width(resolution: Nanos) -> usize {
        if resolution.0 == 0 { 1 } else { 2 }
    }

    /// No rows yet.
    pub fn new(width: usize) -> Self {
        Times { at: Vec::new(), beside: vec![Vec::new(); width] }
    }

    pub fn rows(&self) -> usize {
        self.at.len()
    }

    /// The times of the first and last row.
    pub fn span(&self) -> (u64, u64) {
        (self.at.first().copied().unwrap_or(0), self.at.last().copied().unwrap_or(0))
    }

    /// The stamp of a row. A bucket of a roll-up has only its begin.
    pub fn stamp(&self, row: usize) -> Stamp {
        let (real, real_offset) = match &self.beside[..] {
            [offsets] => (self.at[row], offsets[row].cast_signed()),
            _ => (self.at[row], 0),
        };
        Stamp { boot: Nanos(real.saturating_add_signed(real_offset.saturating_neg())), real_offset }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.rows() as u64);
        stream::put(&self.at, out);
        for beside in &self.beside {
            stream::put(beside, out);
        }
    }

    pub fn take(bytes: &mut Bytes<'_>, resolution: Nanos) -> Read<Self> {
        let rows = bytes.count(ROWS_MAX)?;
        let at = stream::take(bytes, rows)?;
        if !at.is_sorted_by(|one, two| one < two) {
            return Err("rows are not in the order of their times");
        }
        let beside = (0..Self::width(resolution)).map(|_| stream::take(bytes, rows));
        let beside = beside.collect::<Read<_>>()?;
        bytes.end()?;
        Ok(Times { at, beside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_on_the_tick_takes_fewer_bytes_than_a_line_of_text() {
        let at = (0..3_600).map(|n| 1_763_000_000_000_000_000 + n * 1_000_000_000).collect();
        let times = Times { at, beside: vec![vec![5; 3_600]] };
        let mut bytes = Vec::new();
        times.put(&mut bytes);
        assert!(bytes.len() < 60, "{}", bytes.len());
        assert_eq!(Times::take(&mut Bytes(&bytes), Nanos(0)).as_ref(), Ok(&times));
        assert_eq!(times.stamp(0), Stamp { boot: Nanos(1_762_999_999_999_999_995), real_offset: 5 });
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        let mut bytes = Vec::new();
        Times { at: vec![5, 5], beside: vec![vec![0; 2]] }.put(&mut bytes);
        assert!(Times::take(&mut Bytes(&bytes), Nanos(0)).is_err());
    }
}
