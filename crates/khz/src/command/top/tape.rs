//! Rows that were seen or fetched from the past, in the order of time, and the picture of a moment, made from the rows before it.
//! It keeps a fixed number of readings, and drops the oldest rows first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use khz_ask::{Column, Piece, Row};
use khz_model::Nanos;

use super::node::{FEEDS, Keep};
use super::odd_times::OddTimes;
use super::past::RecordedSpan;
use super::world::World;

/// Readings that are kept: two minutes of a node at 10 Hz with 200 series. They take about 12 MiB.
pub const READINGS_MAX: usize = 262_144;

/// The number of rows from which the usual distance is computed.
const SAMPLE: usize = 32;

/// A node without a row for this long before a past moment was down then. Rows of a list come once a second.
const SILENCE: Nanos = Nanos::from_secs(6);

/// After a gap, all nodes have sent a row within this time.
const AFTER_HOLE: Nanos = Nanos::from_millis(1_500);

/// The number of missing rows after which a node counts as down.
const ROWS_MISSING: u64 = 3;

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
    /// Nodes with rows before the kept ones, and the time of their last such row.
    seen: HashMap<String, Nanos>,
    /// The time span that was asked for: no other rows exist in it.
    asked: Option<(Nanos, Nanos)>,
    /// A node that has no rows here, and was not seen before, did not exist yet.
    knows_all: bool,
    /// For each subscription of a node, the span of its rows at the time of a restart: rows of these times come a second time.
    known: HashMap<(usize, String), (Nanos, Nanos)>,
    /// Spans in which no source sent rows.
    holes: VecDeque<(Nanos, Nanos)>,
    /// A hole has begun.
    hole: Option<Nanos>,
    /// The moment whose nearest rows are kept; `None`: the newest rows are kept.
    nearest: Option<Nanos>,
    /// Readings after that moment.
    later: usize,
    /// The time of the recording whose rows these are.
    pub recorded: Option<RecordedSpan>,
    /// Rows up to the first moment, and from the second one on, were left out because there were too many.
    left_out: (Option<Nanos>, Option<Nanos>),
}

impl Default for Tape {
    fn default() -> Self {
        Tape::of(READINGS_MAX)
    }
}

impl Tape {
    /// An empty tape that keeps this many readings.
    pub fn of(readings_max: usize) -> Self {
        Tape {
            frames: VecDeque::new(),
            readings: 0,
            readings_max,
            columns: HashMap::new(),
            seen: HashMap::new(),
            asked: None,
            knows_all: false,
            known: HashMap::new(),
            holes: VecDeque::new(),
            hole: None,
            nearest: None,
            later: 0,
            recorded: None,
            left_out: (None, None),
        }
    }

    /// An empty tape that keeps this many readings, the nearest to this moment: at most half of them after it.
    pub fn near(readings_max: usize, moment: Nanos) -> Self {
        Tape { nearest: Some(moment), ..Tape::of(readings_max) }
    }

    /// No source sends rows until the next row comes, so missing rows do not mean that nodes are down.
    pub fn note_break(&mut self) {
        self.hole = self.hole.or(self.span().map(|(_, last)| last));
    }

    /// True if rows came all the time from one moment to a later one.
    pub fn is_whole(&self, from: Nanos, to: Nanos) -> bool {
        !self.holes.iter().any(|(begin, end)| from < *end && *begin < to)
    }

    /// The tape has all rows of this span, except those that were left out because there were too many.
    pub fn asked(&mut self, from: Nanos, to: Nanos) {
        let (before, after) = self.left_out;
        let from = before.map_or(from, |before| from.max(Nanos(before.0.saturating_add(1))));
        self.asked = Some((from, after.map_or(to, |after| to.min(after))));
    }

    /// All nodes that existed before are on the tape, or were noted by [`Tape::note_seen`].
    pub fn know_all(&mut self) {
        self.knows_all = true;
    }

    /// True if an unknown node did not exist yet.
    pub fn knows_all(&self) -> bool {
        self.knows_all
    }

    /// The subscriptions start again, perhaps at another rate. New rows for a time that already has rows are left out, since they
    /// would add steps between these.
    pub fn begin_again(&mut self) {
        self.known.clear();
        for frame in &self.frames {
            let time = frame.row.time;
            let span = self.known.entry((frame.feed, frame.node.to_string())).or_insert((time, time));
            span.1 = time;
        }
    }

    /// Takes a piece of a subscription.
    pub fn take(&mut self, feed: usize, piece: &Piece) {
        match piece {
            Piece::Columns { node, rate, columns } => {
                let known = (Arc::from(node.as_str()), Arc::new((rate.clone(), columns.clone())));
                self.columns.insert((feed, node.clone()), known);
            }
            Piece::Rows { node, rows, .. } => {
                let key = (feed, node.clone());
                let Some((name, columns)) = self.columns.get(&key).cloned() else { return };
                let known = self.known.get(&key).copied();
                let is_new =
                    |row: &&Row| !known.is_some_and(|(first, last)| first <= row.time && row.time <= last);
                for row in rows.iter().filter(is_new) {
                    let (node, columns, row) = (name.clone(), columns.clone(), row.clone());
                    self.put(Frame { feed, node, columns, row });
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, frame: Frame) {
        if self.left_out.1.is_some_and(|end| frame.row.time >= end) {
            return;
        }
        if let Some(begin) = self.hole.take_if(|_| frame.feed == 0) {
            // After the gap, the other nodes send their first rows a little later than the first node.
            let end = Nanos(frame.row.time.0.saturating_add(AFTER_HOLE.0));
            self.holes.extend((begin < frame.row.time).then_some((begin, end)));
        }
        self.readings += size(&frame);
        self.later += if self.is_later(&frame) { size(&frame) } else { 0 };
        // Rows of several nodes come nearly in the order of their times.
        let place = self.frames.partition_point(|before| before.row.time <= frame.row.time);
        self.frames.insert(place, frame);
        while self.readings > self.readings_max {
            if self.later > self.readings_max / 2 {
                self.drop_newest();
            } else {
                self.drop_oldest();
            }
        }
    }

    fn is_later(&self, frame: &Frame) -> bool {
        self.nearest.is_some_and(|moment| frame.row.time > moment)
    }

    /// Drops the rows of the newest moment.
    fn drop_newest(&mut self) {
        let Some(end) = self.frames.back().map(|frame| frame.row.time) else { return };
        while self.frames.back().is_some_and(|frame| frame.row.time >= end) {
            let of_newest = self.frames.pop_back().map_or(0, |newest| size(&newest));
            self.readings -= of_newest;
            self.later -= of_newest;
        }
        self.left_out.1 = Some(end);
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.frames.pop_front() else { return };
        self.readings -= size(&oldest);
        let time = oldest.row.time;
        self.note_seen(&oldest.node, time);
        self.holes.retain(|(_, end)| *end > time);
        self.left_out.0 = self.left_out.0.max(Some(time));
    }

    /// Notes a row of a node that is not kept.
    pub fn note_seen(&mut self, node: &str, time: Nanos) {
        match self.seen.get_mut(node) {
            Some(known) => *known = time.max(*known),
            None => _ = self.seen.insert(node.to_owned(), time),
        }
    }

    /// Nodes with rows up to this moment, and the time of the last of these.
    pub fn seen_up_to(&self, moment: Nanos) -> HashMap<&str, Nanos> {
        let mut seen: HashMap<&str, Nanos> = HashMap::new();
        let before = self.seen.iter().map(|(node, time)| (node.as_str(), *time));
        let kept = self.frames.iter().map(|frame| (&*frame.node, frame.row.time));
        for (node, time) in before.chain(kept).filter(|(_, time)| *time <= moment) {
            let last = seen.entry(node).or_insert(time);
            *last = time.max(*last);
        }
        seen
    }

    /// The times of the oldest and the newest row.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        Some((self.frames.front()?.row.time, self.frames.back()?.row.time))
    }

    /// The first moment by which each node has sent a row, if it had one. Before it, nodes that were up would seem to be down.
    /// `None` if there is no such moment.
    pub fn begin(&self) -> Option<Nanos> {
        if let Some((from, _)) = self.asked {
            // Nothing existed before time 0.
            return Some(if from == Nanos(0) {
                from
            } else {
                Nanos(from.0.saturating_add(self.silence().0))
            });
        }
        // Rows come in the order of time, but a node that is down may have a row from long ago.
        let mut known: HashSet<&str> = HashSet::new();
        let fast = self.frames.iter().filter(|frame| frame.feed == 0);
        fast.filter(|frame| known.insert(&frame.node)).map(|frame| frame.row.time).last()
    }

    /// True if it has all rows for a picture of this moment.
    pub fn covers(&self, moment: Nanos) -> bool {
        let end = match self.asked {
            Some((_, to)) => Some(Nanos(to.0.saturating_sub(1))),
            None => self.span().map(|(_, last)| last),
        };
        self.begin().zip(end).is_some_and(|(begin, end)| begin <= moment && moment <= end)
            && self.is_whole(moment, Nanos(moment.0.saturating_add(1)))
    }

    /// The silence after which a node counts as down, derived from its pace.
    pub fn silence(&self) -> Nanos {
        let some = self.usual_distance().map_or(0, |distance| distance.0.saturating_mul(ROWS_MISSING));
        SILENCE.max(Nanos(some))
    }

    /// The usual time between two rows of a node; `None`: there are too few rows.
    pub fn usual_distance(&self) -> Option<Nanos> {
        let node = &self.frames.back()?.node;
        let rows = self.frames.iter().rev().filter(|frame| frame.feed == 0 && frame.node == *node);
        let times: Vec<Nanos> = rows.take(SAMPLE).map(|frame| frame.row.time).collect();
        let mut distances: Vec<u64> =
            times.windows(2).map(|two| two[0].since(two[1]).0).filter(|d| *d > 0).collect();
        distances.sort_unstable();
        distances.get(distances.len() / 2).map(|distance| Nanos(*distance))
    }

    /// The columns of nodes and subscriptions without a row so far.
    pub fn columns_without_rows(&self) -> Vec<(usize, Piece)> {
        let mut last: HashMap<(usize, &str), &Columns> = HashMap::new();
        for frame in &self.frames {
            last.insert((frame.feed, &frame.node), &frame.columns);
        }
        let has_rows =
            |feed, node, columns| last.get(&(feed, node)).is_some_and(|last| Arc::ptr_eq(last, columns));
        let mut all = Vec::new();
        for ((feed, node), (_, columns)) in &self.columns {
            if !has_rows(*feed, node.as_str(), columns) {
                let (rate, columns) = (**columns).clone();
                all.push((*feed, Piece::Columns { node: node.clone(), rate, columns }));
            }
        }
        all
    }

    /// The present columns of one node and subscription.
    pub fn columns_of(&self, feed: usize, node: &str) -> Option<Piece> {
        let (_, columns) = self.columns.get(&(feed, node.to_owned()))?;
        let (rate, columns) = (**columns).clone();
        Some(Piece::Columns { node: node.to_owned(), rate, columns })
    }

    /// The time of the last row before this moment.
    pub fn before(&self, moment: Nanos) -> Option<Nanos> {
        let place = self.frames.partition_point(|frame| frame.row.time < moment);
        Some(self.frames.get(place.checked_sub(1)?)?.row.time)
    }

    /// The time of the last row up to this moment.
    pub fn up_to(&self, moment: Nanos) -> Option<Nanos> {
        self.before(Nanos(moment.0.saturating_add(1)))
    }

    /// The time of the first row after this moment.
    pub fn after(&self, moment: Nanos) -> Option<Nanos> {
        let place = self.frames.partition_point(|frame| frame.row.time <= moment);
        Some(self.frames.get(place)?.row.time)
    }

    /// Its rows, oldest first, each with the columns of its node and subscription if they have changed.
    fn replay(
        &self,
        world: &mut World,
        frames: std::ops::Range<usize>,
        mut each: impl FnMut(&mut World, Nanos),
    ) {
        let mut known: HashMap<(Arc<str>, usize), Columns> = HashMap::new();
        for frame in self.frames.range(frames) {
            let key = (frame.node.clone(), frame.feed.min(FEEDS));
            if !known.get(&key).is_some_and(|columns| Arc::ptr_eq(columns, &frame.columns)) {
                let (rate, columns) = (*frame.columns).clone();
                let node = frame.node.to_string();
                world.take(frame.feed, &Piece::Columns { node, rate, columns });
                known.insert(key, frame.columns.clone());
            }
            world.row(frame.feed, &frame.node, &frame.row);
            each(world, frame.row.time);
        }
    }

    /// When nodes became odd, according to its rows.
    pub fn odd_times(&self) -> OddTimes {
        let mut times = OddTimes::default();
        let mut world = World::new(Keep { step: Nanos::SECOND, columns: 1, parts: false });
        self.replay(&mut world, 0..self.frames.len(), |world, time| times.note(world, time));
        times
    }

    /// The cluster at a moment: all rows of the last `span` before it.
    pub fn picture(&self, at: Nanos, span: Nanos, keep: Keep) -> World {
        let mut world = World::new(keep);
        let first = self.frames.partition_point(|frame| frame.row.time < at.since(span));
        let end = self.frames.partition_point(|frame| frame.row.time <= at);
        self.replay(&mut world, first..end.max(first), |_, _| {});
        world
    }
}

/// The readings of a row.
fn size(frame: &Frame) -> usize {
    frame.row.cells.len().max(1)
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

    #[test]
    fn of_too_many_rows_those_nearest_to_the_moment_stay_and_the_tape_covers_no_others() {
        let seconds = Nanos::from_secs;
        // Those before and after come in any order.
        for order in [[1_u64, 50, 100], [100, 50, 1]] {
            let mut tape = Tape::near(40, seconds(60));
            tape.take(0, &columns(1));
            for first in order {
                (first..first + 50).for_each(|second| tape.take(0, &row(second, 1, 1)));
            }
            tape.asked(Nanos(0), seconds(200));
            assert_eq!(
                (tape.before(seconds(61)), tape.after(seconds(60))),
                (Some(seconds(60)), Some(seconds(61)))
            );
            let (first, last) = tape.span().unwrap_or_default();
            assert!(first > seconds(30) && first < seconds(50), "{first:?}");
            assert!(last > seconds(70) && last <= seconds(81), "{last:?}");
            assert!(tape.covers(seconds(60)) && !tape.covers(seconds(100)) && !tape.covers(seconds(20)));
        }
    }
}
