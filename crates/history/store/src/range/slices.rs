//! Which resolution answers for which time: roll-ups where they are complete and their buckets fit into the wanted ones, else the
//! rows. If a time has only a roll-up, the roll-up answers, and its buckets count where they begin.

use std::collections::BTreeSet;

use crate::range::HOUR;

/// Some time, and what answers for it: 0 the rows, 1 and more a roll-up, finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub from: u64,
    pub to: u64,
    pub source: usize,
}

/// The roll-ups of a node at one resolution.
#[derive(Clone)]
pub(crate) struct Rolled {
    pub resolution: u64,
    /// The hours in which it has buckets.
    pub hours: BTreeSet<u64>,
    /// Its buckets fit into those that are asked for.
    pub fits: bool,
}

/// What there is of a node.
#[derive(Clone)]
pub(crate) struct Available {
    /// Finest first.
    pub rolled: Vec<Rolled>,
    /// Hours with files of rows; true: the roll-ups have all of them.
    pub filed: Vec<(u64, bool)>,
    /// Hours with rows that are no columns yet.
    pub live: BTreeSet<u64>,
}

impl Available {
    /// The same without the rows of these hours that a roll-up has: they are damaged.
    pub fn without(mut self, damaged: &BTreeSet<u64>) -> Self {
        let has = |hour: &u64| self.rolled.iter().any(|rolled| rolled.hours.contains(hour));
        self.filed.retain(|(hour, _)| !(damaged.contains(hour) && has(hour)));
        self
    }

    /// The slices that answer for the time from `from` on and before `to`, in the order of time. `may_fit`: roll-ups may replace
    /// existing rows.
    pub fn slices(&self, from: u64, to: u64, may_fit: bool) -> Vec<Slice> {
        let mut hours: BTreeSet<u64> = self.live.clone();
        hours.extend(self.filed.iter().map(|(hour, _)| *hour));
        self.rolled.iter().for_each(|rolled| hours.extend(&rolled.hours));
        let mut slices = Slices::default();
        let first = from - from % HOUR;
        for &hour in hours.range(first..to) {
            let end = hour.saturating_add(HOUR);
            self.hour(hour, (hour.max(from), end.min(to)), may_fit, &mut slices);
        }
        slices.0
    }

    /// The slices of one hour. The time from `from` to `to` is wanted.
    fn hour(&self, hour: u64, (from, to): (u64, u64), may_fit: bool, slices: &mut Slices) {
        let filed = self.filed.binary_search_by_key(&hour, |(hour, _)| *hour).ok();
        let has_files = filed.is_some();
        let is_live = self.live.contains(&hour);
        let is_settled = filed.is_none_or(|at| self.filed[at].1) && !is_live;
        let has = |rolled: &Rolled| rolled.hours.contains(&hour);
        // The coarsest whose buckets fit, and whose first and last one lie within the time.
        let fitting = self.rolled.iter().enumerate().rev().find_map(|(number, rolled)| {
            let first = from.next_multiple_of(rolled.resolution);
            let last = to - to % rolled.resolution;
            let is_it = may_fit && rolled.fits && has(rolled) && (is_settled || !has_files) && first < last;
            is_it.then_some((number + 1, first, last))
        });
        // Rows, where there are any; else the finest roll-up that there is.
        let rest = match has_files || (is_live && !self.rolled.iter().any(has)) {
            true => Some(0),
            false => self.rolled.iter().position(has).map(|number| number + 1),
        };
        let Some(rest) = rest else { return };
        match fitting {
            Some((source, first, last)) => {
                slices.add(from, first, rest);
                slices.add(first, last, source);
                slices.add(last, to, rest);
            }
            None => slices.add(from, to, rest),
        }
    }
}

#[derive(Default)]
struct Slices(Vec<Slice>);

impl Slices {
    fn add(&mut self, from: u64, to: u64, source: usize) {
        if from >= to {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.to == from && last.source == source => last.to = to,
            _ => self.0.push(Slice { from, to, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = HOUR / 60;

    fn rolled(resolution: u64, hours: &[u64], fits: bool) -> Rolled {
        Rolled { resolution, hours: hours.iter().map(|hour| hour * HOUR).collect(), fits }
    }

    fn shown(available: &Available, from: u64, to: u64) -> Vec<(u64, u64, usize)> {
        let slices = available.slices(from, to, true).into_iter();
        slices.map(|it| (it.from / MINUTE, it.to / MINUTE, it.source)).collect()
    }

    #[test]
    fn roll_ups_answer_for_whole_buckets_and_rows_for_the_edges() {
        let available = Available {
            rolled: vec![rolled(MINUTE, &[1, 2, 3], true), rolled(HOUR, &[2, 3], true)],
            filed: [1, 2, 3, 4].map(|hour| (hour * HOUR, hour != 3)).into(),
            live: BTreeSet::from([4 * HOUR]),
        };
        let half = MINUTE / 2;
        assert_eq!(
            available.slices(HOUR + half, 5 * HOUR, true),
            [
                Slice { from: HOUR + half, to: HOUR + MINUTE, source: 0 },
                Slice { from: HOUR + MINUTE, to: 2 * HOUR, source: 1 },
                Slice { from: 2 * HOUR, to: 3 * HOUR, source: 2 },
                Slice { from: 3 * HOUR, to: 5 * HOUR, source: 0 },
            ],
            "hour 3 has rows that no roll-up has"
        );
        // Nothing finer than the roll-up's hour fits into a part of it but minutes.
        assert_eq!(shown(&available, 2 * HOUR + 10 * MINUTE, 3 * HOUR), [(130, 180, 1)]);
    }

    #[test]
    fn damaged_rows_do_not_count_where_a_roll_up_has_their_hour() {
        let available = Available {
            rolled: vec![rolled(MINUTE, &[1, 2], true)],
            filed: [1, 2, 3].map(|hour| (hour * HOUR, true)).into(),
            live: BTreeSet::new(),
        };
        let damaged = available.without(&BTreeSet::from([2 * HOUR, 3 * HOUR]));
        let slices = damaged.slices(HOUR, 4 * HOUR, false).into_iter();
        let shown: Vec<_> = slices.map(|it| (it.from / MINUTE, it.to / MINUTE, it.source)).collect();
        assert_eq!(shown, [(60, 120, 0), (120, 180, 1), (180, 240, 0)]);
    }

    #[test]
    fn what_has_only_a_roll_up_is_answered_by_it_whatever_is_asked_for() {
        let available = Available {
            rolled: vec![rolled(MINUTE, &[2], false), rolled(HOUR, &[1, 2], false)],
            filed: Vec::new(),
            live: BTreeSet::from([2 * HOUR, 3 * HOUR]),
        };
        assert_eq!(shown(&available, 0, 9 * HOUR), [(60, 120, 2), (120, 180, 1), (180, 240, 0)]);
    }
}
