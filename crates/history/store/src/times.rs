//! The times of a section's rows, which all its series share. Rows are in order of time, and no two have the same.

use std::sync::Arc;

use khz_block::varint;
use khz_model::{Nanos, RangeTimes, Stamp};

use crate::bytes::{Bytes, Read};
use crate::limits::ROWS_MAX;
use crate::stream;

/// The times of rows, with two numbers beside each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub kind: Kind,
    /// Nanoseconds since 1970; of a bucket its begin. Answers share them.
    pub at: Arc<RangeTimes>,
    pub beside: [Beside; 2],
}

/// A number for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// All have this one, as is usual.
    Same(u64),
    Each(Vec<u64>),
}

impl Beside {
    /// These numbers.
    pub fn of(numbers: Vec<u64>) -> Self {
        let first = numbers.first().copied().unwrap_or(0);
        if numbers.iter().all(|number| *number == first) {
            Beside::Same(first)
        } else {
            Beside::Each(numbers)
        }
    }

    /// The numbers of pieces that come one after the other, each with its rows.
    pub fn chained<'a>(pieces: impl Iterator<Item = (&'a Beside, usize)> + Clone) -> Self {
        let mut firsts = pieces.clone().map(|(beside, _)| match beside {
            Beside::Same(number) => Some(*number),
            Beside::Each(_) => None,
        });
        if let Some(Some(first)) = firsts.next()
            && firsts.all(|number| number == Some(first))
        {
            return Beside::Same(first);
        }
        let mut all = Vec::new();
        for (beside, rows) in pieces {
            match beside {
                Beside::Same(number) => all.resize(all.len() + rows, *number),
                Beside::Each(numbers) => all.extend_from_slice(numbers),
            }
        }
        Beside::Each(all)
    }

    pub fn of_row(&self, row: usize) -> u64 {
        match self {
            Beside::Same(number) => *number,
            Beside::Each(numbers) => numbers[row],
        }
    }

    fn put(&self, rows: usize, out: &mut Vec<u8>) {
        match self {
            Beside::Same(number) => stream::put_constant(*number, rows, out),
            Beside::Each(numbers) => stream::put(numbers, out),
        }
    }

    fn take(bytes: &mut Bytes<'_>, rows: usize) -> Read<Self> {
        match stream::take_constant(bytes) {
            Some(number) if rows > 0 => Ok(Beside::Same(number)),
            _ => Ok(Beside::of(stream::take(bytes, rows)?)),
        }
    }

    fn held(&self) -> usize {
        match self {
            Beside::Same(_) => 0,
            Beside::Each(numbers) => numbers.capacity() * size_of::<u64>(),
        }
    }
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
    /// These times, in order.
    pub fn of(kind: Kind, at: Vec<u64>, beside: [Beside; 2]) -> Self {
        Times { kind, at: Arc::new(at.into()), beside }
    }

    pub fn rows(&self) -> usize {
        self.at.len()
    }

    /// The times of the first and last row.
    pub fn span(&self) -> (u64, u64) {
        (self.at.first().copied().unwrap_or(0), self.at.last().copied().unwrap_or(0))
    }

    /// Roughly how many bytes they take.
    pub fn held(&self) -> usize {
        let beside: usize = self.beside.iter().map(Beside::held).sum();
        size_of::<Self>() + self.at.held() + beside
    }

    /// The stamp of a row. A bucket of a roll-up has only its begin.
    pub fn stamp(&self, row: usize) -> Stamp {
        let real_offset = match self.kind {
            Kind::Rows => self.beside[0].of_row(row).cast_signed(),
            Kind::Buckets => 0,
        };
        Stamp { boot: Nanos(self.at[row].saturating_add_signed(real_offset.saturating_neg())), real_offset }
    }

    /// The largest correction, up or down, of the times of these rows, because the node's clock was wrong (ns).
    pub fn largest_shift(&self, rows: std::ops::Range<usize>) -> i64 {
        match (self.kind, &self.beside[1]) {
            (Kind::Rows, Beside::Same(shift)) if !rows.is_empty() => shift.cast_signed(),
            (Kind::Rows, Beside::Each(shifts)) => {
                let all = shifts[rows].iter().map(|shift| shift.cast_signed());
                all.max_by_key(|shift| shift.unsigned_abs()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.rows() as u64);
        stream::put(&self.at, out);
        for beside in &self.beside {
            beside.put(self.rows(), out);
        }
    }

    pub fn take(bytes: &mut Bytes<'_>, resolution: Nanos) -> Read<Self> {
        let rows = bytes.count(ROWS_MAX)?;
        let at = stream::take(bytes, rows)?;
        if !at.is_sorted_by(|one, two| one < two) {
            return Err("rows are not in the order of their times");
        }
        let beside = [Beside::take(bytes, rows)?, Beside::take(bytes, rows)?];
        bytes.end()?;
        Ok(Times::of(Kind::of(resolution), at, beside))
    }
}

impl Kind {
    /// The kind of a file's rows.
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
        let times = Times::of(Kind::Rows, at, [Beside::Same(5), Beside::Same(0)]);
        let mut bytes = Vec::new();
        times.put(&mut bytes);
        assert!(bytes.len() < 60, "{}", bytes.len());
        assert_eq!(Times::take(&mut Bytes(&bytes), Nanos(0)).as_ref(), Ok(&times));
        assert_eq!(times.stamp(0), Stamp { boot: Nanos(1_762_999_999_999_999_995), real_offset: 5 });
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        let mut bytes = Vec::new();
        Times::of(Kind::Rows, vec![5, 5], [Beside::Same(0), Beside::Same(0)]).put(&mut bytes);
        assert!(Times::take(&mut Bytes(&bytes), Nanos(0)).is_err());
    }
}
