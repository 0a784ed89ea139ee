//! `fetch`: which archive serves a time range best, and its rows there; no printing.

use crate::error::{Result, refused};
use crate::file::Rrd;
use crate::header::Header;
use crate::number::UNKNOWN;
use crate::rra::Function;

/// Rows that one fetch returns; rows beyond those of an archive would be unknown anyway.
const ROWS_MAX: u64 = 100_000_000;

/// Values that [`Range::each`] reads at once: half a megabyte.
const PIECE_VALUES: u64 = 1 << 16;

/// A fetched range.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// Start: the first row ends one step later.
    pub start: i64,
    /// End of the last row.
    pub end: i64,
    /// Seconds of a row.
    pub step: u64,
    /// A value per source and row.
    pub values: Vec<f64>,
}

/// The best archive of `function`: among those that reach back to `start`, the one nearest to `resolution`; if there is none, the
/// one that covers most. An archive with one point per row serves every plain function.
pub fn choose(header: &Header, function: Function, start: i64, end: i64, resolution: u64) -> Option<usize> {
    let mut full: Option<(u64, usize)> = None;
    let mut part: Option<(i64, u64, usize)> = None;
    for (rra, archive) in header.archives().iter().enumerate() {
        let serves = archive.function == function
            || (function.is_plain() && archive.function.is_plain() && archive.points == 1);
        if !serves {
            continue;
        }
        let seconds = header.row_seconds(rra);
        let reach = seconds.wrapping_mul(archive.rows) as i64;
        let begin = header.newest_row_end(rra).wrapping_sub(reach);
        let off = resolution.abs_diff(seconds);
        if begin <= start {
            if full.is_none_or(|(best, _)| off < best) {
                full = Some((off, rra));
            }
        } else {
            let covered = end.wrapping_sub(start).wrapping_sub(begin.wrapping_sub(start));
            let better = |(best, best_off, _): (i64, u64, usize)| {
                best < covered || (best == covered && off < best_off)
            };
            if part.is_none_or(better) {
                part = Some((covered, off, rra));
            }
        }
    }
    full.map(|(_, rra)| rra).or(part.map(|(_, _, rra)| rra))
}

/// Fetches `start` to `end` (the end is always moved on to the next row's end).
///
/// # Errors
/// No archive of that function, or reading failed.
pub fn fetch(rrd: &Rrd, function: Function, start: i64, end: i64, resolution: u64) -> Result<Fetched> {
    let header = &rrd.header;
    let Some(rra) = choose(header, function, start, end, resolution) else {
        return refused("the RRD does not contain an RRA matching the chosen CF");
    };
    fetch_from(rrd, rra, start, end)
}

/// Fetches `start` to `end` of archive `rra`, as [`fetch`] does.
///
/// # Errors
/// Times that no number of seconds can be, or reading failed.
pub fn fetch_from(rrd: &Rrd, rra: usize, start: i64, end: i64) -> Result<Fetched> {
    let range = Range::of(&rrd.header, rra, start, end)?;
    let Range { start, end, step, .. } = range;
    // With an end before the start this wraps to a huge number.
    let wanted = ((i128::from(end) - i128::from(start)) / i128::from(step)) as u64;
    if wanted > ROWS_MAX {
        return refused(format!("{wanted} rows asked for; at most {ROWS_MAX} are given at once"));
    }
    let sources = rrd.header.sources().len();
    let mut values = vec![UNKNOWN; wanted as usize * sources];
    if range.count > 0 {
        let read = rrd.rows(rra, rrd.header.current_row(rra) + 1 + range.skipped, range.count)?;
        let place = ((i128::from(range.first) - i128::from(start)) / i128::from(step) - 1) as usize * sources;
        values[place..place + read.len()].copy_from_slice(&read);
    }
    Ok(Fetched { start, end, step, values })
}

/// A time in the rows of an archive, and which of these rows the archive holds.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Start: the first row ends one step later.
    pub start: i64,
    /// End of the last row.
    pub end: i64,
    /// Seconds of a row.
    pub step: u64,
    rra: usize,
    /// End of the first row that is held.
    first: i64,
    /// Rows of the archive before that one.
    skipped: u64,
    /// Rows that are held.
    count: u64,
}

impl Range {
    /// `start` to `end` in the rows of archive `rra`; the end is always moved on to the next row's end.
    ///
    /// # Errors
    /// Times that no number of seconds can be.
    pub fn of(header: &Header, rra: usize, start: i64, end: i64) -> Result<Self> {
        let step = header.row_seconds(rra);
        let seconds = step as i64;
        let aligned = start.checked_sub(start.rem_euclid(seconds));
        let (Some(start), Some(end)) = (aligned, end.checked_add(seconds - end.rem_euclid(seconds))) else {
            return refused("specified time is out of range");
        };
        // Row n before the newest ends n * seconds earlier. A damaged header may have any stamp, so the sums have room
        // for any two.
        let (newest, rows) =
            (i128::from(header.newest_row_end(rra)), i128::from(header.archives()[rra].rows));
        let (wide, from) = (i128::from(seconds), i128::from(start));
        let oldest = newest - (rows - 1) * wide;
        let first = oldest.max(from + wide);
        let last = newest.min(i128::from(end));
        let none = Self { start, end, step, rra, first: start, skipped: 0, count: 0 };
        if first > last {
            return Ok(none);
        }
        let (skipped, count) = (((first - oldest) / wide) as u64, ((last - first) / wide + 1) as u64);
        // Between two times, so it is one.
        Ok(Self { first: first as i64, skipped, count, ..none })
    }

    /// Hands over the end and the value of each row that the archive holds, the oldest first. It reads a piece at a time,
    /// however many rows there are.
    ///
    /// # Errors
    /// Reading failed.
    pub fn each(&self, rrd: &Rrd, source: usize, mut take: impl FnMut(i64, f64)) -> Result<()> {
        let sources = rrd.header.sources().len().max(1);
        let piece = (PIECE_VALUES / sources as u64).max(1);
        let begin = rrd.header.current_row(self.rra) + 1 + self.skipped;
        let mut end = self.first;
        let mut done = 0;
        while done < self.count {
            let count = piece.min(self.count - done);
            let read = rrd.rows(self.rra, begin + done, count)?;
            for row in read.chunks_exact(sources) {
                take(end, row.get(source).copied().unwrap_or(UNKNOWN));
                // Past the last one there may be no time; it is not used.
                end = end.saturating_add_unsigned(self.step);
            }
            done += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{self, Plan};
    use crate::file::{self, Access};

    #[test]
    fn times_at_the_ends_of_what_can_be_counted_are_refused() {
        let mut plan = Plan::default();
        plan.source("x:GAUGE:600:U:U").unwrap();
        plan.archive("AVERAGE:0.5:1:10", 300, 0).unwrap();
        let header = create::header(plan.definition(300).unwrap(), i64::MAX - 1, |_, _| 0).unwrap();
        let path = std::env::temp_dir().join(format!("khz-rrd-fetch-{}.rrd", std::process::id()));
        file::create(&path, &header, std::iter::empty(), true).unwrap();
        let rrd = Rrd::open(&path, Access::Read).unwrap();
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
        for (start, end) in ends.into_iter().flat_map(|start| ends.map(|end| (start, end))) {
            if let Ok(fetched) = fetch(&rrd, Function::Average, start, end, 1) {
                let span = i128::from(fetched.end) - i128::from(fetched.start);
                assert_eq!(fetched.values.len() as i128, span / 300);
            }
        }
        assert!(fetch(&rrd, Function::Average, i64::MIN, i64::MIN + 1, 1).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
