//! Recent rows that a channel may send later: only a later event shows that they are worth sending. A queue of fixed size; it
//! neither judges nor writes.

use khz_model::{Nanos, Stamp};

use crate::readings::{Cell, NOT_YET};

/// A row of many that wait is written with others of its tick: a tick must not take long.
const ROWS_A_TICK: usize = 64;

/// The rows, oldest first.
#[derive(Debug)]
pub(crate) struct Past {
    /// How far back rows are kept.
    before: Nanos,
    /// How long after an event rows are sent.
    after: Nanos,
    /// Half the time between two rows: a row that comes a little early or late belongs to the same times.
    half_period: Nanos,
    /// Rows up to this time (boot clock) are sent.
    sent_until: Option<Nanos>,
    width: usize,
    stamps: Box<[Stamp]>,
    cells: Box<[Cell]>,
    first: usize,
    count: usize,
}

impl Past {
    /// Room for the rows of this time and some that wait, with this many slots.
    pub fn new(before: Nanos, after: Nanos, period: Nanos, width: usize) -> Self {
        let rows = Past::rows(before, period);
        let none = Stamp { boot: Nanos(0), real_offset: 0 };
        Past {
            before,
            after,
            half_period: Nanos(period.0 / 2),
            sent_until: None,
            width,
            stamps: vec![none; rows].into(),
            cells: vec![NOT_YET; rows * width].into(),
            first: 0,
            count: 0,
        }
    }

    fn rows(before: Nanos, period: Nanos) -> usize {
        // One more than fit at most, one for a row that comes early.
        usize::try_from(before.0.div_ceil(period.0.max(1))).unwrap_or(usize::MAX).saturating_add(2)
    }

    /// The bytes that rows of this time take, with this many slots.
    pub fn bytes(before: Nanos, period: Nanos, width: usize) -> usize {
        let row = width.saturating_mul(size_of::<Cell>()).saturating_add(size_of::<Stamp>());
        Past::rows(before, period).saturating_mul(row)
    }

    /// Takes the present row; `is_on`: an event is on. If there is no room, the oldest row goes.
    pub fn take(&mut self, stamp: Stamp, is_on: bool, cell: impl Fn(usize) -> Cell) {
        if self.count == self.stamps.len() {
            self.drop_oldest();
        }
        let at = self.place(self.count);
        self.stamps[at] = stamp;
        let cells = &mut self.cells[at * self.width..(at + 1) * self.width];
        cells.iter_mut().enumerate().for_each(|(slot, kept)| *kept = cell(slot));
        self.count += 1;
        while self.count > 1
            && !self.is_sent(self.first)
            && stamp.boot.since(self.stamps[self.first].boot).0
                > self.before.0.saturating_add(self.half_period.0)
        {
            self.drop_oldest();
        }
        if is_on {
            self.sent_until =
                Some(Nanos(stamp.boot.0.saturating_add(self.after.0).saturating_add(self.half_period.0)));
        }
    }

    /// Gives the rows that are to be sent now, oldest first, to `send`, and forgets them.
    pub fn send(&mut self, mut send: impl FnMut(Stamp, &[Cell])) {
        for _ in 0..ROWS_A_TICK {
            if self.count == 0 || !self.is_sent(self.first) {
                return;
            }
            send(self.stamps[self.first], &self.cells[self.first * self.width..][..self.width]);
            self.drop_oldest();
        }
    }

    /// The same rows with other slots: `slot` gives the old slot of a new one.
    pub fn with_slots(self, width: usize, slot: impl Fn(usize) -> Option<usize>) -> Self {
        let rows = self.stamps.len();
        let mut cells = vec![NOT_YET; rows * width];
        for row in 0..rows {
            for new in 0..width {
                if let Some(old) = slot(new).filter(|&old| old < self.width) {
                    cells[row * width + new] = self.cells[row * self.width + old];
                }
            }
        }
        Past { width, cells: cells.into(), ..self }
    }

    fn is_sent(&self, at: usize) -> bool {
        self.sent_until.is_some_and(|until| self.stamps[at].boot <= until)
    }

    fn drop_oldest(&mut self) {
        (self.first, self.count) = (self.place(1), self.count - 1);
    }

    fn place(&self, number: usize) -> usize {
        let at = self.first + number;
        if at >= self.stamps.len() { at - self.stamps.len() } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rows, by their tenths of a second, that are sent of 100 rows a second, an event being on in these rows.
    fn sent(before_ms: u64, after_ms: u64, rows: u64, events: &[u64]) -> Vec<u64> {
        sent_with_jitter(before_ms, after_ms, rows, events, &[])
    }

    /// The same, with rows that come this much (us) late.
    fn sent_with_jitter(before_ms: u64, after_ms: u64, rows: u64, events: &[u64], late: &[u64]) -> Vec<u64> {
        let (before, after) = (Nanos::from_millis(before_ms), Nanos::from_millis(after_ms));
        let mut past = Past::new(before, after, Nanos::from_millis(10), 1);
        let mut sent = Vec::new();
        for row in 0..rows {
            let boot = |row: u64| {
                let late = late.get(row as usize).map_or(0, |us| us * 1_000);
                Nanos(Nanos::from_millis(1_000 + row * 10).0 + late)
            };
            past.take(Stamp { boot: boot(row), real_offset: 0 }, events.contains(&row), |_| (0, row));
            past.send(|stamp, cells| {
                assert_eq!(stamp.boot, boot(cells[0].1));
                sent.push(cells[0].1);
            });
        }
        sent
    }

    #[test]
    fn an_event_sends_what_was_before_it_and_what_comes_after_it_once_and_in_order() {
        assert_eq!(sent(50, 30, 40, &[]), Vec::<u64>::new());
        assert_eq!(sent(50, 30, 40, &[20]), (15..=23).collect::<Vec<u64>>());
        assert_eq!(sent(0, 0, 40, &[20]), [20]);
        // At the start there is less before it; and events that follow each other share their rows.
        assert_eq!(sent(50, 30, 40, &[2, 4, 9]), (0..=12).collect::<Vec<u64>>());
        assert_eq!(sent(50, 30, 60, &[10, 40]), (5..=13).chain(35..=43).collect::<Vec<u64>>());
    }

    #[test]
    fn many_rows_are_sent_over_several_ticks_and_none_is_left_out() {
        assert_eq!(sent(5_000, 1_000, 1_200, &[900]), (400..=1_000).collect::<Vec<u64>>());
    }

    #[test]
    fn rows_keep_their_cells_when_slots_change() {
        let second = Nanos::SECOND;
        let mut past = Past::new(second, second, second, 2);
        let stamp = |n: u64| Stamp { boot: Nanos::from_secs(n), real_offset: 0 };
        past.take(stamp(1), false, |slot| (0, slot as u64 + 10));
        let mut past = past.with_slots(3, |slot| [Some(1), None, Some(0)][slot]);
        past.take(stamp(2), true, |slot| (0, slot as u64));
        let mut rows = Vec::new();
        past.send(|_, cells| rows.push(cells.iter().map(|cell| cell.1).collect::<Vec<_>>()));
        assert_eq!(rows, [[11, 0, 10], [0, 1, 2]]);
    }

    proptest! {
        /// At 100 Hz, delays of up to 4 ms make no difference: the same rows are sent as without jitter.
        #[test]
        fn jitter_decides_nothing(
            (before, after) in (0u64..8, 0u64..8),
            events in prop::collection::btree_set(0u64..60, 0..6),
            late in prop::collection::vec(0u64..4_000, 60),
        ) {
            let events: Vec<u64> = events.into_iter().collect();
            let found = sent_with_jitter(before * 10, after * 10, 60, &events, &late);
            prop_assert_eq!(found, sent(before * 10, after * 10, 60, &events));
        }
    }
}
