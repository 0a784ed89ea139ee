//! The known points of one source as runs of equal values, so that a coarse row is one run and not a million points.

use std::ops::Range;

use super::past::Kept;
use super::work;

/// Points in a row with one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// The begin of its first point.
    pub begin: i64,
    /// The end of its last point.
    pub end: i64,
    pub value: f64,
}

/// Known points, in their order.
#[derive(Debug, Default, PartialEq)]
pub struct Points {
    runs: Vec<Run>,
}

impl Points {
    /// The points of `step` seconds that an archive of averages knows: each the mean of the rows it has a part in, by the seconds
    /// of these parts.
    pub fn of(kept: &Kept<'_>, step: i64) -> Self {
        let mut points = Self::default();
        let down = |time: i64| time.div_euclid(step).saturating_mul(step);
        for (number, value) in kept.known_rows() {
            let (begin, end) = (kept.end(number - 1), kept.end(number));
            let whole = down(begin.saturating_add(step - 1))..down(end);
            // The point that other rows before this one have a part in, the points in this row alone, and the one
            // that later rows have a part in.
            if whole.is_empty() || down(begin) < whole.start {
                points.add_mean(down(begin), step, kept);
            }
            if !whole.is_empty() {
                points.add(Run { begin: whole.start, end: whole.end, value });
            }
            if down(end) < end {
                points.add_mean(down(end), step, kept);
            }
        }
        points
    }

    /// Adds the point that begins at `begin`, the mean of all known rows that have a part in it, unless it is there already.
    fn add_mean(&mut self, begin: i64, step: i64, kept: &Kept<'_>) {
        if self.runs.last().is_some_and(|run| run.end > begin) {
            return;
        }
        let end = begin.saturating_add(step);
        let numbers = kept.numbers(begin, end);
        let (first, values) = kept.rows(&numbers);
        let share = |number: i64| kept.end(number).min(end) - kept.end(number - 1).max(begin);
        let known = values.zip(first..).filter(|(value, _)| !value.is_nan());
        let shares = known.map(|(value, number)| (value, share(number) as f64));
        let parts: Vec<(f64, f64)> = shares.filter(|(_, seconds)| *seconds > 0.0).collect();
        let value = match parts[..] {
            // A single value stays as it is.
            [(value, _)] => value,
            _ => {
                let (sum, seconds) = parts
                    .iter()
                    .fold((0.0, 0.0), |(sum, all), (value, seconds)| (sum + value * seconds, all + seconds));
                sum / seconds
            }
        };
        self.add(Run { begin, end, value });
    }

    fn add(&mut self, run: Run) {
        work::visit();
        self.runs.push(run);
    }

    /// These points and, where there are none, those of `other`.
    pub fn completed_by(self, other: &Self) -> Self {
        if self.runs.is_empty() || other.runs.is_empty() {
            return if self.runs.is_empty() { Self { runs: other.runs.clone() } } else { self };
        }
        let mut both = Self { runs: Vec::with_capacity(self.runs.len() + other.runs.len()) };
        let mut first = self.runs.iter().peekable();
        for run in &other.runs {
            let covered = both.runs.last().map_or(i64::MIN, |last| last.end);
            let mut rest = Run { begin: run.begin.max(covered), ..*run };
            while let Some(over) = first.next_if(|over| over.begin < rest.end) {
                if rest.begin < over.begin {
                    both.add(Run { end: over.begin, ..rest });
                }
                both.add(*over);
                rest.begin = rest.begin.max(over.end);
            }
            if rest.begin < rest.end {
                both.add(rest);
            }
        }
        first.for_each(|run| both.add(*run));
        both
    }

    /// The runs within `time`, cut to it.
    pub fn within(&self, time: Range<i64>) -> impl Iterator<Item = Run> {
        let from = self.runs.partition_point(|run| run.end <= time.start);
        let runs = self.runs[from..].iter().take_while(move |run| run.begin < time.end);
        runs.map(move |run| {
            work::visit();
            Run { begin: run.begin.max(time.start), end: run.end.min(time.end), value: run.value }
        })
    }
}
