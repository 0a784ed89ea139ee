//! The archive that is filled, for one source: computes the value of each row from the known rows, and changes nothing.

use std::ops::Range;

use super::past::{History, Kept, Past};
use super::points::Points;
use crate::cdp::{self, Fall};
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, CDP_VALUE};
use crate::layout::{self, CDP_PREP};
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function, PAR_XFF};

/// One source of the archive to be filled.
pub struct Target<'a> {
    archive: &'a Archive,
    step: u64,
    history: &'a History<'a>,
    pasts: Vec<Fitting<'a>>,
}

/// The parts of a file that an archive can be filled from.
struct Fitting<'a> {
    past: &'a Past<'a>,
    twin: Option<&'a Kept<'a>>,
    /// Archives of the same function whose rows fill a row exactly.
    finer: Vec<&'a Kept<'a>>,
}

impl<'a> Target<'a> {
    pub fn new(archive: &'a Archive, step: u64, history: &'a History<'a>) -> Self {
        let seconds = (archive.points * step) as i64;
        let fitting = |past: &'a Past<'a>| {
            let fits = |kept: &&Kept<'_>| {
                kept.serves(archive.function) && seconds % kept.seconds == 0 && kept.seconds < seconds
            };
            Fitting {
                past,
                twin: past.twin(archive, step),
                finer: past.archives.iter().filter(fits).collect(),
            }
        };
        Self { archive, step, history, pasts: history.pasts.iter().map(fitting).collect() }
    }

    /// Seconds a row.
    pub fn seconds(&self) -> i64 {
        (self.archive.points * self.step) as i64
    }

    /// Which rows may be known, counted back from the newest one, which ends at `newest`.
    pub fn rows_with_history(&self, newest: i64) -> Range<usize> {
        let Some(span) = self.history.span() else { return 0..0 };
        let back = |time: i64| newest.saturating_sub(time).div_euclid(self.seconds());
        let row = |back: i64| back.clamp(0, self.archive.rows as i64) as usize;
        row(back(span.end))..row(back(span.start).saturating_add(1))
    }

    /// The row that ends at `end`.
    pub fn row(&self, end: i64) -> f64 {
        let twin = |of: &Fitting<'_>| of.twin?.value(end);
        let known = |value: &f64| !value.is_nan();
        let plain = self.archive.function.is_plain();
        if plain && (self.archive.function == Function::Average || self.archive.points == 1) {
            // File by file, as in rrdtool: coarse averages of one come before fine ones of the next.
            let row = |of: &Fitting<'_>| {
                twin(of).filter(known).or_else(|| self.out_of_points(&of.past.points, end))
            };
            return self.pasts.iter().find_map(row).unwrap_or(UNKNOWN);
        }
        if let Some(value) = self.pasts.iter().filter_map(twin).find(known) {
            return value;
        }
        if !plain {
            return UNKNOWN;
        }
        let finer = self.pasts.iter().map(|of| self.out_of_finer(of, end)).find(known);
        finer.or_else(|| self.out_of_points(self.history.points(), end)).unwrap_or(UNKNOWN)
    }

    /// The row from the finest archive of the same function whose rows fill it exactly.
    fn out_of_finer(&self, of: &Fitting<'_>, end: i64) -> f64 {
        let begin = end.saturating_sub(self.seconds());
        for kept in of.finer.iter().filter(|kept| kept.knows(begin, end)) {
            let numbers = kept.numbers(begin, end);
            let (first, values) = kept.rows(&numbers);
            // Rows that the archive does not have are unknown.
            let before = (UNKNOWN, first.abs_diff(numbers.start));
            let pieces = [before].into_iter().chain(values.map(|value| (value, 1)));
            let value = self.consolidated(pieces, (self.seconds() / kept.seconds) as u64);
            if !value.is_nan() {
                return value;
            }
        }
        UNKNOWN
    }

    /// The row made of points; `None` where they leave it unknown.
    fn out_of_points(&self, points: &Points, end: i64) -> Option<f64> {
        let begin = end.saturating_sub(self.seconds());
        let mut pieces = self.pieces(points, begin..end).peekable();
        pieces.peek()?;
        Some(self.consolidated(pieces, self.archive.points)).filter(|value| !value.is_nan())
    }

    /// The points within `time` as values and how often each comes; what is unknown at the end is left out.
    fn pieces(&self, points: &Points, time: Range<i64>) -> impl Iterator<Item = (f64, u64)> {
        let step = self.step;
        let mut from = time.start;
        points.within(time).flat_map(move |run| {
            let gap = run.begin.abs_diff(from) / step;
            from = run.end;
            [(UNKNOWN, gap), (run.value, run.end.abs_diff(run.begin) / step)]
        })
    }

    /// A row of `count` values as an update would make it: values and how often each comes, then unknown ones.
    fn consolidated(&self, pieces: impl Iterator<Item = (f64, u64)>, count: u64) -> f64 {
        let (function, xff) = (self.archive.function, self.archive.f64(PAR_XFF));
        let mut row = cdp::Row::empty(function);
        let mut left = count;
        for (value, times) in pieces.chain([(UNKNOWN, count)]).filter(|(_, times)| *times > 0) {
            if times >= left {
                // The last piece completes the row.
                let fall = Fall { steps: left, missing: left, rows: 1, left: 0 };
                return row.complete(function, value, fall, count, xff).0;
            }
            row.gather(function, value, times);
            left -= times;
        }
        UNKNOWN
    }

    /// The state of the row that is open at `now`, the newest complete one ending at `newest`.
    pub fn open_row(&self, newest: i64, now: i64, mut state: [u8; CDP_PREP]) -> [u8; CDP_PREP] {
        let step = self.step as i64;
        let end = newest.saturating_add((now - newest).div_euclid(step).saturating_mul(step));
        let points = self.history.points();
        layout::put_f64(&mut state, 8 * CDP_PRIMARY, self.row(newest));
        if self.archive.points > 1 {
            let mut row = cdp::Row::empty(self.archive.function);
            let mut unknown = end.abs_diff(newest) / self.step;
            for (value, times) in self.pieces(points, newest..end) {
                row.gather(self.archive.function, value, times);
                unknown -= times;
            }
            row.gather(self.archive.function, UNKNOWN, unknown);
            let before = points.within(newest.saturating_sub(step)..newest).next();
            layout::put_f64(&mut state, 8 * CDP_SECONDARY, before.map_or(UNKNOWN, |run| run.value));
            layout::put_f64(&mut state, 8 * CDP_VALUE, row.value);
            layout::put_u64(&mut state, 8 * CDP_UNKNOWN, row.unknown);
        }
        state
    }
}
