//! Which part of a selection rows answer, and which one buckets: rows, where there are some; the buckets of a roll-up where only
//! these are left, and where they give the same result for less work.

use khz_model::{Nanos, Reach};
use khz_promql::{Selection, Summaries};

use crate::clock::milliseconds;
use crate::limits::{BUCKETS_AT_ONCE, STEP_OF_SUMS_MIN};

/// The bucket that spares most: an hour, as long as a file of rows.
const HOUR: Nanos = Nanos(3_600_000_000_000);

/// A part of the time of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub from: Nanos,
    pub to: Nanos,
    /// How long its buckets are; `None`: it is answered by rows.
    pub bucket: Option<Nanos>,
}

/// The parts of a selection's time in their order. Buckets lie whole in their part, which may so begin too early.
/// `is_exact`: sums of the selected series are exact.
pub(crate) fn intervals(
    wanted: &Selection,
    (from, to): (Nanos, Nanos),
    reach: &Reach,
    is_exact: bool,
) -> Vec<Interval> {
    let is_worth_it = wanted.step == 0 || wanted.step >= STEP_OF_SUMS_MIN;
    let may_sum = is_exact && is_worth_it && wanted.summaries == Summaries::WhereWhole;
    if !(may_sum && reach.rolled.contains(&HOUR)) {
        return plain((from, to), reach);
    }
    let mut all = Vec::new();
    without_rows(from, to.min(reach.rows), reach, &mut all);
    with_sums(wanted, from.max(reach.rows), to, &mut all);
    all
}

/// The parts of a time in their order: rows, where there are some, and before them the buckets that are left.
pub(crate) fn plain((from, to): (Nanos, Nanos), reach: &Reach) -> Vec<Interval> {
    let mut all = Vec::new();
    without_rows(from, to.min(reach.rows), reach, &mut all);
    let from = from.max(reach.rows);
    if from < to {
        all.push(Interval { from, to, bucket: None });
    }
    all
}

/// The buckets within which a time begins or ends, where only buckets are left of it.
pub(crate) fn divided((from, to): (Nanos, Nanos), reach: &Reach) -> Vec<Interval> {
    let mut gone = Vec::new();
    without_rows(from, to.min(reach.rows), reach, &mut gone);
    let at = |time: u64, length: Nanos| {
        let begin = Nanos(time - time % length.0);
        Interval { from: begin, to: Nanos(begin.0.saturating_add(length.0)), bucket: Some(length) }
    };
    let first = gone.first().filter(|first| first.from < from);
    let first = first.and_then(|first| Some(at(from.0, first.bucket?)));
    let last = gone.last().and_then(|last| Some(at(to.min(reach.rows).0.saturating_sub(1), last.bucket?)));
    let last = last.filter(|last| last.to > to.min(reach.rows) && first != Some(*last));
    first.into_iter().chain(last).collect()
}

/// Handles a time without rows, with the shortest buckets that exist.
fn without_rows(from: Nanos, to: Nanos, reach: &Reach, all: &mut Vec<Interval>) {
    let mut at = from;
    while at < to {
        let Some(&(bucket, _)) = reach.buckets.iter().find(|(_, first)| *first <= at) else {
            // Nothing is left of it.
            match reach.buckets.iter().map(|(_, first)| *first).min().filter(|first| *first < to) {
                Some(first) => at = first,
                None => return,
            }
            continue;
        };
        let shorter = reach.buckets.iter().take_while(|(length, _)| *length < bucket);
        let end = shorter.map(|(_, first)| *first).fold(to, Nanos::min);
        let begin = at.0 - at.0 % bucket.0;
        let end = end.0.min(begin.saturating_add(bucket.0 * BUCKETS_AT_ONCE));
        all.push(Interval { from: Nanos(begin), to: Nanos(end), bucket: Some(bucket) });
        at = Nanos(end);
    }
}

/// Time with rows: hours that no bound of a window divides are buckets, the others are rows.
fn with_sums(wanted: &Selection, from: Nanos, to: Nanos, all: &mut Vec<Interval>) {
    let mut at = from;
    while at < to {
        let hour = at.0 - at.0 % HOUR.0;
        let end = hour.saturating_add(HOUR.0);
        let is_whole = hour == at.0 && wanted.is_whole(milliseconds(hour), milliseconds(end - 1));
        let (end, bucket) = (Nanos(end.min(to.0)), is_whole.then_some(HOUR));
        let longest = HOUR.0 * BUCKETS_AT_ONCE;
        match all.last_mut() {
            Some(last) if last.to == at && last.bucket == bucket && end.0 - last.from.0 <= longest => {
                last.to = end
            }
            _ => all.push(Interval { from: at, to: end, bucket }),
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: u64 = 3_600_000_000_000;

    fn selection(after: i64, to: i64, step: i64, window: i64) -> Selection {
        let summaries = Summaries::WhereWhole;
        Selection { matchers: Vec::new(), after, to, step, window, last_only: false, summaries }
    }

    fn shown(all: &[Interval]) -> Vec<(u64, u64, u64)> {
        let minutes = |time: Nanos| time.0 / 60_000_000_000;
        all.iter().map(|one| (minutes(one.from), minutes(one.to), one.bucket.map_or(0, minutes))).collect()
    }

    fn reach() -> Reach {
        let minute = Nanos(60_000_000_000);
        Reach {
            rows: Nanos(100 * H),
            buckets: vec![(minute, Nanos(48 * H)), (HOUR, Nanos(24 * H))],
            rolled: vec![minute, HOUR],
        }
    }

    #[test]
    fn what_has_no_rows_is_answered_by_the_shortest_buckets_that_are_left() {
        let span = (Nanos(30 * H + 60_000_000_001), Nanos(102 * H));
        let wanted = selection(0, 0, 60_000, 60_000);
        let all = intervals(&wanted, span, &reach(), true);
        assert_eq!(
            shown(&all),
            [(1_800, 2_880, 60), (2_880, 4_320, 1), (4_320, 5_760, 1), (5_760, 6_000, 1), (6_000, 6_120, 0)]
        );
        let all = intervals(&wanted, (Nanos(0), Nanos(25 * H)), &reach(), true);
        assert_eq!(shown(&all), [(1_440, 1_500, 60)], "nothing is left of the first day");
        assert_eq!(intervals(&wanted, (Nanos(0), Nanos(5 * H)), &reach(), true), []);
    }

    #[test]
    fn the_buckets_that_a_time_divides_are_those_at_its_bounds_where_no_rows_are_left() {
        let minute = H / 60;
        let divided = |from, to| shown(&divided((Nanos(from), Nanos(to)), &reach()));
        assert_eq!(divided(30 * H + 7 * minute, 30 * H + 9 * minute), [(1_800, 1_860, 60)]);
        assert_eq!(divided(30 * H, 40 * H), []);
        assert_eq!(divided(30 * H, 40 * H + 1), [(2_400, 2_460, 60)]);
        assert_eq!(divided(30 * H + 1, 50 * H + 1), [(1_800, 1_860, 60), (3_000, 3_001, 1)]);
        assert_eq!(divided(99 * H + 1, 101 * H + 1), [(5_940, 5_941, 1)], "then there are rows");
        assert_eq!(divided(101 * H + 1, 102 * H + 1), []);
        assert_eq!(divided(1, 2), [], "nothing is left of it");
    }

    #[test]
    fn whole_hours_of_a_long_window_are_buckets_if_their_sums_are_exact() {
        let ms = |hours: i64, minutes: i64| (hours * 60 + minutes) * 60_000;
        let wanted = selection(ms(101, 20), ms(105, 20), 0, ms(4, 0));
        let span = (Nanos(101 * H + H / 3), Nanos(105 * H + H / 3));
        let all = intervals(&wanted, span, &reach(), true);
        assert_eq!(shown(&all), [(6_080, 6_120, 0), (6_120, 6_300, 60), (6_300, 6_320, 0)]);
        assert_eq!(shown(&intervals(&wanted, span, &reach(), false)), [(6_080, 6_320, 0)]);
        // A day's window each day: the hours of midnight are divided, since a row of midnight is of the day before.
        let wanted = selection(ms(120, 0), ms(168, 0), ms(24, 0), ms(24, 0));
        let all = intervals(&wanted, (Nanos(120 * H), Nanos(168 * H + 1_000_000)), &reach(), true);
        assert_eq!(
            shown(&all),
            [
                (7_200, 7_260, 0),
                (7_260, 8_640, 60),
                (8_640, 8_700, 0),
                (8_700, 10_080, 60),
                (10_080, 10_080, 0)
            ]
        );
        let often = selection(ms(120, 0), ms(168, 0), ms(0, 1), ms(24, 0));
        assert_eq!(intervals(&often, (Nanos(120 * H), Nanos(168 * H)), &reach(), true).len(), 1);
    }
}
