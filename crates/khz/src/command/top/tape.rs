//! Rows that were seen, or that came out of the past, in the order of their times; and the picture of a moment, made of the rows
//! before it. A fixed number of readings is kept: the oldest rows go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use khz_ask::{Column, Piece, Row};
use khz_model::Nanos;

use super::node::{FEEDS, Keep};
use super::world::World;

/// Readings that are kept: two minutes of a node at 10 Hz with 200 series. They take about 12 MiB.
pub const READINGS_MAX: usize = 262_144;

/// Rows of which the usual distance is found.
const SAMPLE: usize = 32;

/// The granted rate, and the columns.
type Columns = Arc<(String, Vec<Column>)>;

/// A row, with what its cells are.
#[derive(Clone, Debug)]
struct Frame {
    feed: usize,
    node: Arc<str>,
    columns: Columns,
    row: Row,
}

/// Rows, oldest first.
pub struct Tape {
    frames: VecDeque<Frame>,
    readings: usize,
    readings_max: usize,
    /// The present columns of each node and subscription.
    columns: HashMap<(usize, String), (Arc<str>, Columns)>,
}

impl Default for Tape {
    fn default() -> Self {
        Tape::of(READINGS_MAX)
    }
}

impl Tape {
    /// An empty tape that keeps this many readings.
    pub fn of(readings_max: usize) -> Self {
        Tape { frames: VecDeque::new(), readings: 0, readings_max, columns: HashMap::new() }
    }

    /// Takes a piece of a subscription.
    pub fn take(&mut self, feed: usize, piece: &Piece) {
        match piece {
            Piece::Columns { node, rate, columns } => {
                let known = (Arc::from(node.as_str()), Arc::new((rate.clone(), columns.clone())));
                self.columns.insert((feed, node.clone()), known);
            }
            Piece::Rows { node, rows, .. } => {
                let Some((name, columns)) = self.columns.get(&(feed, node.clone())).cloned() else { return };
                for row in rows {
                    let (node, columns, row) = (name.clone(), columns.clone(), row.clone());
                    self.put(Frame { feed, node, columns, row });
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, frame: Frame) {
        self.readings += frame.row.cells.len().max(1);
        // Rows of several nodes come nearly in the order of their times.
        let place = self.frames.partition_point(|before| before.row.time <= frame.row.time);
        self.frames.insert(place, frame);
        while self.readings > self.readings_max {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.readings -= oldest.row.cells.len().max(1);
        }
    }

    /// The times of the oldest and the newest row.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        Some((self.frames.front()?.row.time, self.frames.back()?.row.time))
    }

    /// The time from one row of a node to the next, as it usually is; `None` where there are too few rows.
    pub fn usual_distance(&self) -> Option<Nanos> {
        let node = &self.frames.back()?.node;
        let rows = self.frames.iter().rev().filter(|frame| frame.feed == 0 && frame.node == *node);
        let times: Vec<Nanos> = rows.take(SAMPLE).map(|frame| frame.row.time).collect();
        let mut distances: Vec<u64> =
            times.windows(2).map(|two| two[0].since(two[1]).0).filter(|d| *d > 0).collect();
        distances.sort_unstable();
        distances.get(distances.len() / 2).map(|distance| Nanos(*distance))
    }

    /// The present columns of each node and subscription.
    pub fn present(&self) -> Vec<(usize, Piece)> {
        let mut all = Vec::new();
        for ((feed, node), (_, columns)) in &self.columns {
            let (rate, columns) = (**columns).clone();
            all.push((*feed, Piece::Columns { node: node.clone(), rate, columns }));
        }
        all
    }

    /// The time of the last row before this moment.
    pub fn before(&self, moment: Nanos) -> Option<Nanos> {
        let place = self.frames.partition_point(|frame| frame.row.time < moment);
        Some(self.frames.get(place.checked_sub(1)?)?.row.time)
    }

    /// The time of the first row after this moment.
    pub fn after(&self, moment: Nanos) -> Option<Nanos> {
        let place = self.frames.partition_point(|frame| frame.row.time <= moment);
        Some(self.frames.get(place)?.row.time)
    }

    /// The cluster as it was at a moment: all rows up to it, `span` back.
    pub fn picture(&self, at: Nanos, span: Nanos, keep: Keep) -> World {
        let mut world = World::new(keep);
        let first = self.frames.partition_point(|frame| frame.row.time < at.since(span));
        let end = self.frames.partition_point(|frame| frame.row.time <= at);
        let mut known: HashMap<(Arc<str>, usize), Columns> = HashMap::new();
        for frame in self.frames.range(first..end.max(first)) {
            let key = (frame.node.clone(), frame.feed.min(FEEDS));
            if !known.get(&key).is_some_and(|columns| Arc::ptr_eq(columns, &frame.columns)) {
                let (rate, columns) = (*frame.columns).clone();
                let node = frame.node.to_string();
                world.take(frame.feed, &Piece::Columns { node, rate, columns });
                known.insert(key, frame.columns.clone());
            }
            world.row(frame.feed, &frame.node, &frame.row);
        }
        world
    }
}

#[cfg(test)]
mod tests {
    use khz_ask::Cell;

    use super::*;

    fn columns(count: usize) -> Piece {
        let column = |at: usize| Column {
            series: format!("x[{at}]"),
            counter: false,
            unit: "count".into(),
            places: 0,
        };
        Piece::Columns { node: "n1".into(), rate: "1Hz".into(), columns: (0..count).map(column).collect() }
    }

    fn row(seconds: u64, value: i128, count: usize) -> Piece {
        let time = Nanos::from_secs(seconds);
        let cells = vec![Cell::Present { units: value, places: 0 }; count];
        Piece::Rows { node: "n1".into(), lost: 0, rows: vec![Row { time, clock: time, cells }], last: None }
    }

    fn keep() -> Keep {
        Keep { step: Nanos::SECOND, columns: 10, parts: true }
    }

    #[test]
    fn a_moment_of_the_past_shows_the_last_row_before_it() {
        let mut tape = Tape::default();
        tape.take(0, &columns(1));
        for (seconds, value) in [(1, 10), (3, 30), (2, 20)] {
            tape.take(0, &row(seconds, value, 1));
        }
        let value = |at: u64| {
            let world = tape.picture(Nanos::from_secs(at), Nanos::from_secs(60), keep());
            world.node("n1").and_then(|node| node.measures().number("x[0]"))
        };
        assert_eq!((value(0), value(1), value(2), value(9)), (None, Some(10.0), Some(20.0), Some(30.0)));
        let seconds = Nanos::from_secs;
        assert_eq!((tape.before(seconds(3)), tape.after(seconds(1))), (Some(seconds(2)), Some(seconds(2))));
        assert_eq!((tape.before(seconds(1)), tape.after(seconds(3))), (None, None));
    }

    #[test]
    fn the_oldest_rows_go_first() {
        let mut tape = Tape::default();
        let wide = READINGS_MAX / 4;
        tape.take(0, &columns(wide));
        (1..10).for_each(|seconds| tape.take(0, &row(seconds, 1, wide)));
        assert_eq!(tape.span(), Some((Nanos::from_secs(6), Nanos::from_secs(9))));
    }
}
