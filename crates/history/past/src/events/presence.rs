//! When a node was away, and which rows of it are missing: out of `up`, which is 1 at its rows and 0 while it is silent.

use khz_promql::is_stale;

use crate::events::list::List;
use crate::events::{Event, EventKind, Watch};

/// Two rows that are farther apart than this many tenths of a period have rows between them.
const TENTHS_MISSED: i64 = 19;

/// `up` of one node as it comes.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// The last row (ms).
    last: Option<i64>,
    /// The last two distances between rows with none between them.
    distances: [Option<i64>; 2],
    /// The last distance, if rows were missing in it.
    gap: Option<i64>,
    /// Since when it is down, and whether it was so before.
    down: Option<(i64, bool)>,
}

impl Presence {
    fn row(&mut self, time: i64, list: &mut List) {
        if let Some((begin, is_earlier)) = self.down.take() {
            list.push(down(begin, Some(time), is_earlier));
            (self.last, self.gap) = (Some(time), None);
            return;
        }
        let Some(last) = self.last.replace(time) else { return };
        let distance = time - last;
        let period = self.distances[1].and(self.distances.iter().flatten().min().copied());
        if let Some(period) = period.filter(|period| distance * 10 > period * TENTHS_MISSED) {
            list.push(missing(last, time, (distance + period / 2) / period - 1));
            // Two gaps of one length are no gaps: the node has become slower.
            if let Some(before) = self.gap.replace(distance).filter(|before| are_alike(*before, distance)) {
                self.distances = [Some(distance), Some(before)];
                self.gap = None;
            }
        } else {
            self.distances = [Some(distance), self.distances[0]];
            self.gap = None;
        }
    }
}

fn are_alike(one: i64, other: i64) -> bool {
    let (shorter, longer) = (one.min(other), one.max(other));
    longer <= shorter.saturating_add(shorter / 10)
}

impl Watch for Presence {
    fn sample(&mut self, time: i64, value: f64, list: &mut List) {
        if is_stale(value) {
            return;
        }
        if value > 0.0 {
            self.row(time, list);
        } else if self.down.is_none() {
            // It was there until its last row.
            self.down = Some((self.last.unwrap_or(time), self.last.is_none()));
        }
    }

    fn finish(self, list: &mut List) {
        if let Some((begin, is_earlier)) = self.down {
            list.push(down(begin, None, is_earlier));
        }
    }
}

fn down(begin: i64, end: Option<i64>, is_earlier: bool) -> Event {
    Event { kind: EventKind::Down, begin, end, is_earlier, text: String::from("down") }
}

fn missing(begin: i64, end: i64, rows: i64) -> Event {
    let text = if rows == 1 { String::from("1 row is missing") } else { format!("{rows} rows are missing") };
    Event { kind: EventKind::Missing, begin, end: Some(end), is_earlier: false, text }
}
