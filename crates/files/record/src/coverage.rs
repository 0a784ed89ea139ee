//! Which rows of a lane a recording has, in any order of arrival, and what is missing: missing rows, by their numbers; and
//! ticks without a row, by the times of the rows around them.

use khz_model::{Nanos, Stamp};

/// Runs of rows that are remembered. With more, the oldest hole is only counted.
const RUNS_MAX: usize = 65_536;
/// Silences that are reported one by one; all are counted.
const SILENCES_MAX: usize = 10_000;
/// Missed ticks that take this long together are a silence: a machine that is only busy misses fewer.
const SILENCE: Nanos = Nanos::SECOND;
/// A silence may be shorter by this part: the row before it may have been late.
const LATE_PART: u64 = 32;
/// Rows of a year at 1,000 Hz. Row numbers that are further apart do not belong together.
const LEAP_MAX: u64 = 1 << 35;

/// When a row was gathered, and the period of its block.
#[derive(Clone, Copy, Debug)]
struct Moment {
    stamp: Stamp,
    period: Nanos,
}

/// Rows that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: u64,
    first: Moment,
    last: Moment,
}

/// What is missing of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Rows that the node made, as the numbers show, and that are not here.
    pub rows: u64,
    /// Places where rows are missing.
    pub gaps: u64,
    /// Ticks at which the node made no row: it did not run, or was busy.
    pub ticks: u64,
    /// Times of a second and more without a row.
    pub silences: u64,
}

impl std::ops::AddAssign for Missing {
    fn add_assign(&mut self, other: Missing) {
        self.rows = self.rows.saturating_add(other.rows);
        self.gaps += other.gaps;
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.silences += other.silences;
    }
}

/// A place where something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first row after it.
    pub before: u64,
    /// Rows that are missing; see [`Missing::rows`].
    pub rows: u64,
    /// Ticks without a row; see [`Missing::ticks`].
    pub ticks: u64,
    /// When the last row before it was gathered.
    pub from: Stamp,
    /// When the first row after it was gathered.
    pub to: Stamp,
    /// Time between two rows.
    pub period: Nanos,
}

/// The rows of one lane that a recording has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// In the order of their numbers; none touches the next.
    runs: Vec<Run>,
    /// The run that grew last.
    present: usize,
    /// Ticks without a row within runs. Signed: a late row counts as a missed tick until the next row corrects it.
    ticks: i64,
    silences: Vec<Gap>,
    silences_counted: u64,
    /// The first and the last row number that were reported lost.
    reported: Option<(u64, u64)>,
    /// Rows before this one are from before the recording.
    since: u64,
    /// What is missing in holes that were too many to remember.
    forgotten: Missing,
}

impl Coverage {
    /// A row came; `false`: the row was already here.
    pub fn row(&mut self, number: u64, stamp: Stamp, period: Nanos) -> bool {
        let moment = Moment { stamp, period };
        let is_next = self.runs.get(self.present).is_some_and(|run| run.to == number);
        let at = if is_next { self.present } else { self.runs.partition_point(|run| run.to < number) };
        match self.runs.get(at).copied() {
            Some(run) if run.to == number => {
                self.pass(run.last, moment, number);
                (self.runs[at].to, self.runs[at].last) = (number + 1, moment);
            }
            Some(run) if run.from <= number => return false,
            Some(run) if run.from == number + 1 => {
                self.pass(moment, run.first, run.from);
                (self.runs[at].from, self.runs[at].first) = (number, moment);
            }
            _ => self.runs.insert(at, Run { from: number, to: number + 1, first: moment, last: moment }),
        }
        self.present = at;
        self.join(at);
        self.forget();
        true
    }

    /// These rows (`to` not included) are lost, unless they are here.
    pub fn lost(&mut self, from: u64, to: u64) {
        let reported = self.reported.get_or_insert((from, to));
        *reported = (reported.0.min(from), reported.1.max(to));
    }

    /// Rows before this one are from before the recording: none of them is missing.
    pub fn begins(&mut self, row: u64) {
        self.since = row;
    }

    /// Joins a run with the next one if they touch.
    fn join(&mut self, at: usize) {
        let (Some(&run), Some(&next)) = (self.runs.get(at), self.runs.get(at + 1)) else { return };
        if run.to == next.from {
            self.pass(run.last, next.first, next.from);
            (self.runs[at].to, self.runs[at].last) = (next.to, next.last);
            self.runs.remove(at + 1);
        }
    }

    /// Counts the ticks between two rows whose numbers follow each other.
    fn pass(&mut self, from: Moment, to: Moment, before: u64) {
        let ticks = ticks_between(from, to);
        self.ticks += ticks;
        if is_silence_between(from, to, 0, ticks) {
            self.silences_counted += 1;
            if self.silences.len() < SILENCES_MAX {
                let (ticks, from, period) = (ticks as u64, from.stamp, to.period);
                self.silences.push(Gap { before, rows: 0, ticks, from, to: to.stamp, period });
            }
        }
    }

    /// Joins the two oldest runs when there are too many.
    fn forget(&mut self) {
        if self.runs.len() <= RUNS_MAX {
            return;
        }
        let (first, second) = (self.runs[0], self.runs[1]);
        self.forgotten += of_hole(&first, &second).1;
        self.runs[1] = Run { from: first.from, first: first.first, ..second };
        self.runs.remove(0);
        self.present = self.present.saturating_sub(1);
    }

    /// What is missing.
    pub fn missing(&self) -> Missing {
        let mut missing = self.forgotten;
        let mut ticks = self.ticks;
        missing.silences += self.silences_counted;
        for pair in self.runs.windows(2) {
            let (of_hole_ticks, hole) = of_hole(&pair[0], &pair[1]);
            ticks += of_hole_ticks;
            missing += Missing { ticks: 0, ..hole };
        }
        missing.ticks += u64::try_from(ticks).unwrap_or(0);
        let (before, after) = self.lost_at_ends();
        for rows in [before, after].into_iter().filter(|&rows| rows > 0) {
            missing += Missing { rows, gaps: 1, ..Missing::default() };
        }
        missing
    }

    /// How many rows were reported lost before the first row that is here, and after the last one.
    fn lost_at_ends(&self) -> (u64, u64) {
        let (Some((from, to)), Some(first), Some(last)) =
            (self.reported, self.runs.first(), self.runs.last())
        else {
            return (0, 0);
        };
        let sound = |rows: u64| if rows <= LEAP_MAX { rows } else { 0 };
        (sound(first.from.saturating_sub(from.max(self.since))), sound(to.saturating_sub(last.to)))
    }

    /// The ranges of numbers that are missing between the first row and the last.
    pub fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.windows(2).map(|pair| (pair[0].to, pair[1].from)).filter(|(from, to)| to - from <= LEAP_MAX)
    }

    /// The number after the newest row's.
    pub fn end(&self) -> Option<u64> {
        self.runs.last().map(|run| run.to)
    }

    /// The places where something is missing, in the order of the rows.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.silences.clone();
        for pair in self.runs.windows(2) {
            let (_, missing) = of_hole(&pair[0], &pair[1]);
            gaps.push(Gap {
                before: pair[1].from,
                rows: missing.rows,
                ticks: missing.ticks,
                from: pair[0].last.stamp,
                to: pair[1].first.stamp,
                period: pair[1].first.period,
            });
        }
        gaps.sort_unstable_by_key(|gap| gap.before);
        gaps
    }

    /// The time from the first row to the last.
    pub fn span(&self) -> Option<Span> {
        let (first, last) = (self.runs.first()?, self.runs.last()?);
        let (row, first, lost) = (first.from, first.first.stamp, self.lost_at_ends());
        Some(Span { row, first, last: last.last.stamp, period: last.last.period, lost })
    }
}

/// What is missing between two runs; first the ticks, with their sign.
fn of_hole(before: &Run, after: &Run) -> (i64, Missing) {
    let rows = after.from - before.to;
    if rows > LEAP_MAX {
        return (0, Missing { gaps: 1, ..Missing::default() });
    }
    let ticks = ticks_between(before.last, after.first) - rows as i64;
    let silences = is_silence_between(before.last, after.first, rows, ticks).into();
    (ticks, Missing { rows, gaps: 1, ticks: u64::try_from(ticks).unwrap_or(0), silences })
}

fn is_silence(ticks: i64, period: Nanos) -> bool {
    u64::try_from(ticks).is_ok_and(|ticks| ticks > 0 && ticks.saturating_mul(period.0) >= SILENCE.0)
}

/// True if the time between two rows is a silence. `rows` are missing between them, and `ticks` have no row. The ticks alone do not
/// tell: the rows of a thinned lane come at any time between two ticks, so a slightly late row may skip a whole tick.
fn is_silence_between(from: Moment, to: Moment, rows: u64, ticks: i64) -> bool {
    let period = from.period.max(to.period).0;
    let passed = to.stamp.boot.since(from.stamp.boot);
    is_silence(ticks, to.period) && is_long(passed, period.saturating_mul(rows.saturating_add(1)), period)
}

/// True if this time is longer than rows explain by at least a silence and a tick.
fn is_long(passed: Nanos, explained: u64, period: u64) -> bool {
    let silence = period.max(SILENCE.0);
    passed.0.saturating_sub(explained) >= silence - silence / LATE_PART
}

/// Ticks between two rows. Ticks are at multiples of the period, by the wall clock; a late row belongs to the tick before
/// it. Both rows are dated with the offset of the later one, because the clock may have been set between them.
fn ticks_between(from: Moment, to: Moment) -> i64 {
    let period = i128::from(from.period.max(to.period).0);
    if period == 0 {
        return 0;
    }
    let tick = |at: Moment| {
        let real = i128::from(at.stamp.boot.0) + i128::from(to.stamp.real_offset);
        (real + period / 8).div_euclid(period)
    };
    i64::try_from(tick(to) - tick(from) - 1).unwrap_or(0)
}

/// How many rows the node could have made between two epochs of a lane, by the wall clock.
fn ticks_apart(last: Stamp, first: Stamp, period: Nanos) -> u64 {
    let passed = first.real().since(last.real()).0.saturating_add(period.0 / 2);
    passed.checked_div(period.0).unwrap_or(0).saturating_sub(1)
}

/// The time that the rows of one epoch span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The number of the first row.
    row: u64,
    first: Stamp,
    last: Stamp,
    period: Nanos,
    /// Rows that were reported lost before the first one and after the last one.
    lost: (u64, u64),
}

impl Span {
    /// The first row, when it was gathered, and the time between two rows.
    pub fn begin(&self) -> (u64, Stamp, Nanos) {
        (self.row, self.first, self.period)
    }

    /// Rows that were reported lost after the last row.
    pub fn lost_after(&self) -> u64 {
        self.lost.1
    }

    /// When the last row was gathered, and the time between two rows.
    pub fn end(&self) -> (Stamp, Nanos) {
        (self.last, self.period)
    }
}

/// What is missing between the epochs of one lane, given the span of each: the epoch that begins after each gap, and the gap. For rows
/// that were reported lost the node did make a row, so their ticks do not count as ticks without a row.
pub(crate) fn between_epochs<T: Copy>(mut spans: Vec<(T, Span)>) -> Vec<(T, Gap)> {
    spans.sort_by_key(|(_, span)| span.first.real());
    let (mut gaps, mut last) = (Vec::<(T, Gap)>::new(), None::<(Stamp, u64)>);
    for (epoch, Span { row, first, last: end, period, lost: (before, after) }) in spans {
        if let Some((last, lost)) = last {
            let rows = lost.saturating_add(before);
            let ticks = ticks_apart(last, first, period).saturating_sub(rows);
            gaps.push((epoch, Gap { before: row, rows, ticks, from: last, to: first, period }));
        }
        if last.is_none_or(|(last, _)| last.real() < end.real()) {
            last = Some((end, after));
        }
    }
    gaps.retain(|(_, gap)| gap.ticks > 0 || gap.rows > 0);
    gaps
}

impl Gap {
    /// True for a second and more without a row.
    pub(crate) fn is_silence(&self) -> bool {
        let passed = self.to.real().since(self.from.real());
        is_silence(i64::try_from(self.ticks).unwrap_or(0), self.period)
            && is_long(passed, self.period.0.saturating_mul(self.rows.saturating_add(1)), self.period.0)
    }

    /// The ticks of a gap between two epochs: its rows are missing in one of these.
    pub(crate) fn as_missing(&self) -> Missing {
        Missing { rows: 0, gaps: 0, ticks: self.ticks, silences: self.is_silence().into() }
    }
}

/// Ticks without a row after a node's last row, which was gathered this long before the recording's end; `None`: the next
/// row may only be late. A single missing row does not tell, however long the period.
pub(crate) fn ticks_to_end(passed: Nanos, period: Nanos) -> Option<u64> {
    let ticks = passed.0.checked_div(period.0)?;
    (ticks >= 2 && is_silence(i64::try_from(ticks).unwrap_or(i64::MAX), period)).then_some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 10_000_000;

    /// The row of a tick, late by this many nanoseconds.
    fn row(coverage: &mut Coverage, number: u64, tick: u64, late: u64) -> bool {
        coverage.row(
            number,
            Stamp { boot: Nanos(tick * PERIOD + late), real_offset: 70 * PERIOD as i64 },
            Nanos(PERIOD),
        )
    }

    fn coverage(rows: impl IntoIterator<Item = (u64, u64)>) -> Coverage {
        let mut coverage = Coverage::default();
        rows.into_iter().for_each(|(number, tick)| assert!(row(&mut coverage, number, tick, 0)));
        coverage
    }

    fn missing(rows: u64, gaps: u64, ticks: u64, silences: u64) -> Missing {
        Missing { rows, gaps, ticks, silences }
    }

    #[test]
    fn missing_rows_and_missed_ticks_are_counted_apart() {
        assert_eq!(coverage((5..100).map(|n| (n, n))).missing(), missing(0, 0, 0, 0));
        // First ten rows are lost, then the node stops for four seconds, then both happen.
        let lost = (0..10).chain(20..30).map(|n| (n, n));
        assert_eq!(coverage(lost).missing(), missing(10, 1, 0, 0));
        let frozen = (0..10).map(|n| (n, n)).chain((10..20).map(|n| (n, n + 400)));
        assert_eq!(coverage(frozen).missing(), missing(0, 0, 400, 1));
        let both = (0..10).map(|n| (n, n)).chain((12..20).map(|n| (n, n + 3)));
        assert_eq!(coverage(both).missing(), missing(2, 1, 3, 0));
    }

    #[test]
    fn rows_that_come_late_in_any_order_fill_their_gap() {
        let mut coverage = coverage([0, 1, 2, 9, 10, 11].map(|n| (n, n)));
        assert_eq!(
            (coverage.missing(), coverage.holes().collect::<Vec<_>>()),
            (missing(6, 1, 0, 0), vec![(3, 9)])
        );
        for number in [5, 6, 8, 7] {
            assert!(row(&mut coverage, number, number, 0));
        }
        assert_eq!(coverage.missing(), missing(2, 1, 0, 0));
        assert!(row(&mut coverage, 3, 3, 0) && row(&mut coverage, 4, 4, 0));
        assert_eq!((coverage.missing(), coverage.runs.len()), (missing(0, 0, 0, 0), 1));
        assert!((0..12).all(|number| !row(&mut coverage, number, number, 0)), "each counts once");
    }

    #[test]
    fn a_late_row_is_not_a_missed_tick() {
        let mut coverage = Coverage::default();
        for (number, late) in [0, 6, 7, 9, 3, 0, 8, 1, 0].into_iter().enumerate() {
            row(&mut coverage, number as u64, number as u64, late * PERIOD / 10);
        }
        assert_eq!(coverage.missing(), missing(0, 0, 0, 0));
    }

    #[test]
    fn rows_that_are_reported_lost_at_the_ends_are_missing_too() {
        let mut coverage = coverage((10..20).map(|n| (n, n)));
        coverage.lost(7, 10);
        coverage.lost(12, 15);
        coverage.lost(20, 24);
        assert_eq!(coverage.missing(), missing(7, 2, 0, 0));
    }

    #[test]
    fn setting_the_clock_makes_no_gap() {
        let mut coverage = Coverage::default();
        for number in 0..20u64 {
            let offset = if number < 10 { 0 } else { 3_600_000_000_000 };
            coverage.row(
                number,
                Stamp { boot: Nanos((number + 1) * PERIOD), real_offset: offset },
                Nanos(PERIOD),
            );
        }
        assert_eq!(coverage.missing(), missing(0, 0, 0, 0));
    }

    /// What rows gathered at these times are missing, with one number after the other and a row a second.
    fn by_second(millis: impl IntoIterator<Item = u64>) -> Missing {
        let mut coverage = Coverage::default();
        for (number, at) in millis.into_iter().enumerate() {
            let stamp = Stamp { boot: Nanos(at * 1_000_000), real_offset: 0 };
            coverage.row(number as u64, stamp, Nanos::SECOND);
        }
        coverage.missing()
    }

    #[test]
    fn whichever_row_of_a_number_comes_it_is_no_silence_but_a_node_that_stands_still_is_one() {
        // One row of ten: any of the rows that share a number may be here, wherever between two ticks the numbers
        // begin.
        for begins in 0..10 {
            for (first, second) in (0..100).map(|n| (n / 10, n % 10)) {
                let row = |number: u64, which: u64| (10 * (number + 5) + begins + which) * 100;
                let missing = by_second([row(0, 0), row(1, first), row(2, second), row(3, 0)]);
                assert_eq!(missing, Missing::default(), "{begins} {first} {second}");
            }
        }
        // A node that is busy drops a row now and then; the numbers begin later from then on.
        assert_eq!(by_second([5_800, 7_100, 8_100, 9_100]).silences, 0);
        assert_eq!(by_second([5_020, 7_000, 8_000]), missing(0, 0, 1, 1), "the row before was late");
        assert_eq!(by_second([5_800, 7_800, 8_800]), missing(0, 0, 1, 1));
    }

    #[test]
    fn between_two_epochs_the_clock_gives_the_missed_ticks() {
        let at = |tick: u64| Stamp { boot: Nanos(tick * PERIOD), real_offset: 0 };
        let (period, none) = (Nanos(PERIOD), (0, 0));
        let span = |from, to| ((), Span { row: from, first: at(from), last: at(to), period, lost: none });
        let between_epochs = |spans: Vec<((), Span)>| {
            let mut sum = Missing::default();
            between_epochs(spans).into_iter().for_each(|(_, gap)| sum += gap.as_missing());
            sum
        };
        assert_eq!(between_epochs(vec![span(0, 9), span(10, 19)]), missing(0, 0, 0, 0));
        assert_eq!(between_epochs(vec![span(150, 190), span(0, 9)]), missing(0, 0, 140, 1));
        assert_eq!(between_epochs(vec![span(0, 90), span(10, 19), span(92, 99)]), missing(0, 0, 1, 0));
    }

    #[test]
    fn rows_that_are_reported_lost_between_two_epochs_are_missing_rows_and_no_ticks_without_a_row() {
        // The last three rows of the first epoch are lost, and the first two rows of the second one. Between the epochs, the node was
        // away for 100 ticks.
        let mut first = coverage((0..10).map(|n| (n, n)));
        first.lost(10, 13);
        let mut second = coverage((2..10).map(|n| (n, n + 113)));
        second.lost(0, 2);
        let spans = [&first, &second].map(|one| ((), one.span().expect("rows")));
        let gaps = between_epochs(spans.to_vec());
        assert_eq!(gaps.iter().map(|(_, gap)| (gap.rows, gap.ticks)).collect::<Vec<_>>(), [(5, 100)]);
        let mut sum = first.missing();
        sum += second.missing();
        sum += gaps[0].1.as_missing();
        assert_eq!(sum, missing(5, 2, 100, 1));
    }

    #[test]
    fn a_row_that_is_only_late_at_the_end_is_no_silence() {
        let ticks =
            |millis: u64, period: u64| ticks_to_end(Nanos(millis * 1_000_000), Nanos(period * 1_000_000));
        assert_eq!([ticks(900, 10), ticks(1_000, 10), ticks(6_030, 50)], [None, Some(100), Some(120)]);
        assert_eq!([ticks(1_900, 1_000), ticks(2_000, 1_000), ticks(5, 0)], [None, Some(2), None]);
    }
}
