//! The times of a section's rows, which all its series share. Rows are in order of time, and no two have the same.

use khz_block::varint;
use khz_model::{Nanos, Stamp};

use crate::bytes::{Bytes, Read};
use crate::limits::ROWS_MAX;
use crate::stream;

/// The times of rows, with two numbers beside each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub kind: Kind,
    /// Nanoseconds since 1970; of a bucket its begin.
    pub at: Vec<u64>,
    pub beside: [Vec<u64>; 2],
}

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows as they were gathered. Beside each: real time minus boot time, and the shift, which is the part of it that the
    /// node's own clock did not have.
    Rows,
    /// Buckets of a roll-up. Beside each: the times of its first and last row.
    Buckets,
}

impl Times {
    /// No rows yet.
    pub fn new(kind: Kind) -> Self {
        Times { kind, at: Vec::new(), beside: [Vec::new(), Vec::new()] }
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
        let real_offset = match self.kind {
            Kind::Rows => self.beside[0][row].cast_signed(),
            Kind::Buckets => 0,
        };
        Stamp { boot: Nanos(self.at[row].saturating_add_signed(real_offset.saturating_neg())), real_offset }
    }

    /// Nanoseconds that were added to the time of a row, because the node's clock was wrong.
    pub fn shift(&self, row: usize) -> i64 {
        match self.kind {
            Kind::Rows => self.beside[1][row].cast_signed(),
            Kind::Buckets => 0,
        }
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
        let beside = [stream::take(bytes, rows)?, stream::take(bytes, rows)?];
        bytes.end()?;
        Ok(Times { kind: Kind::of(resolution), at, beside })
    }
}

impl Kind {
    /// What the rows of a file are.
    pub fn of(resolution: Nanos) -> Self {
        if resolution.0 == 0 { Kind::Rows } else { Kind::Buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_on_the_tick_takes_fewer_bytes_than_a_line_of_text() {
        let at = (0..3_600).map(|n| 1_763_000_000_000_000_000 + n * 1_000_000_000).collect();
        let times = Times { kind: Kind::Rows, at, beside: [vec![5; 3_600], vec![0; 3_600]] };
        let mut bytes = Vec::new();
        times.put(&mut bytes);
        assert!(bytes.len() < 60, "{}", bytes.len());
        assert_eq!(Times::take(&mut Bytes(&bytes), Nanos(0)).as_ref(), Ok(&times));
        assert_eq!(times.stamp(0), Stamp { boot: Nanos(1_762_999_999_999_999_995), real_offset: 5 });
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        let mut bytes = Vec::new();
        Times { kind: Kind::Rows, at: vec![5, 5], beside: [vec![0; 2], vec![0; 2]] }.put(&mut bytes);
        assert!(Times::take(&mut Bytes(&bytes), Nanos(0)).is_err());
    }
}
