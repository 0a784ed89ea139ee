//! Series that every node has just by sending rows, made from the times of its rows: `up` and `node_time_seconds`.

use std::collections::HashMap;

use khz_model::exposed::{TIME, UP};
use khz_model::{Decimal, NodeName};
use khz_promql::{QueryError, SeriesId, Sink};

use crate::history::History;
use crate::limits::{
    PERIODS_LATE, PERIODS_MISSED, SILENCE_SAMPLES_AT_ONCE, SILENCE_UNKNOWN, UP_EARLY, UP_STEP_MIN,
    UP_STEP_OF_BUCKETS, UP_STEP_UNKNOWN,
};
use crate::strand::{self, Pace, Samples};

/// Metrics that every node has in every row, so their times are the times of all rows.
pub(crate) const METRICS: [&str; 2] = ["khz.gather.cpu", "load.1m"];

/// Such a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// 1 while the node sends rows. 0, at the same pace, while it is silent.
    Up,
    /// The node's wall clock at each row.
    Time,
}

impl Derived {
    /// All of them.
    pub const ALL: [Derived; 2] = [Derived::Up, Derived::Time];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Derived::Up => UP,
            Derived::Time => TIME,
        }
    }

    /// The value at a row.
    fn value(self, time: u64) -> f64 {
        match self {
            Derived::Up => 1.0,
            Derived::Time => seconds(time),
        }
    }
}

/// A time as `/metrics` prints it: seconds with nine places.
pub(crate) fn seconds(time: u64) -> f64 {
    Decimal::new(time, 9).to_f64()
}

/// The derived series of one node.
#[derive(Debug)]
struct NodeClock {
    pace: Pace,
    beat: Beat,
    /// The last rows were stand-ins for buckets.
    are_buckets: bool,
    series: Vec<(Derived, SeriesId, Samples)>,
}

/// The rows at which `up` has a sample, and the pace of its samples while the node is silent.
#[derive(Debug)]
struct Beat {
    /// The shortest time between two samples of `up` (ms).
    step: i64,
    /// The last row (ms).
    last: Option<i64>,
}

impl Beat {
    fn new(step: i64) -> Self {
        Beat { step, last: None }
    }

    /// True if `up` has a sample at this row. This depends only on the row before it, and not on the start of a query.
    fn row(&mut self, time: i64, after_silence: bool) -> bool {
        let last = self.last.replace(time);
        let Some(last) = last.filter(|_| !after_silence) else { return true };
        !self.is_fast(time - last) || last.div_euclid(self.step) < time.div_euclid(self.step)
    }

    /// True if a row before the selection, which begins after this time, may have counted instead of the first row.
    fn may_have_counted(&self, first: &FirstRows, after: i64) -> bool {
        let begin = first.at - first.at.rem_euclid(self.step);
        first.period.is_none_or(|period| self.is_fast(period)) && begin <= after && begin < first.at
    }

    /// True if rows at this distance are too frequent.
    fn is_fast(&self, distance: i64) -> bool {
        distance < self.step - self.step / UP_EARLY
    }

    /// The time between two zeros for a node that sends with this period.
    fn of_silence(&self, period: Option<i64>) -> i64 {
        match period {
            Some(period) if !self.is_fast(period) => period,
            Some(_) => self.step,
            None => UP_STEP_UNKNOWN.max(self.step),
        }
    }
}

/// The derived series of all nodes.
#[derive(Debug)]
pub(crate) struct Clocks {
    nodes: HashMap<NodeName, NodeClock>,
    /// Nothing up to this time (ms)...
    after: i64,
    /// ...and nothing after this one.
    end: i64,
    /// The shortest time between two samples of `up` (ms).
    step: i64,
}

impl Clocks {
    /// Clocks for the time after the first moment and up to the second one. `has_buckets`: a part of this time has only roll-ups,
    /// which show a node once a minute. Then rows count only as often, since an average must not depend on what is left.
    pub fn between(after: i64, end: i64, has_buckets: bool) -> Self {
        let step = if has_buckets { UP_STEP_OF_BUCKETS } else { UP_STEP_MIN };
        Clocks { nodes: HashMap::new(), after, end, step }
    }

    /// True if a node has had rows.
    pub fn has(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    /// Takes rows of a node, or their stand-ins if only roll-ups are left (`are_buckets`). `begin` begins its series. `earlier`
    /// gives the last row before the selection, if the first rows come late, or if `up` may have no sample at the first one.
    /// `history` gives earlier rows, if these do not show how often the node sends.
    pub fn rows(
        &mut self,
        (node, times, are_buckets): (&NodeName, &[u64], bool),
        earlier: impl FnOnce() -> Result<Option<i64>, QueryError>,
        history: &mut History<'_>,
        sink: &mut dyn Sink,
        begin: impl FnOnce(&mut dyn Sink) -> Result<Vec<(Derived, SeriesId)>, QueryError>,
    ) -> Result<(), QueryError> {
        if !self.nodes.contains_key(node) {
            let mut clock = NodeClock::of(begin(sink)?, self.step);
            if let Some(first) = FirstRows::of(times)
                && clock.has(Derived::Up)
                && (first.are_late(self.after) || clock.beat.may_have_counted(&first, self.after))
                && let Some(last) = earlier()?
            {
                match first.are_late(self.after) {
                    true => {
                        let period = match first.period {
                            None if are_buckets => Some(UP_STEP_OF_BUCKETS),
                            None => shortest_distance(&history.of_node(node, first.at)?),
                            period => period,
                        };
                        let first = FirstRows { period, ..first };
                        clock.away_before(&first, first.silent_after(last).max(self.after + 1), sink)?;
                    }
                    false => clock.beat.last = Some(last).filter(|last| first.at - last < self.step),
                }
            }
            self.nodes.insert(node.clone(), clock);
        }
        let Some(clock) = self.nodes.get_mut(node) else { return Ok(()) };
        clock.are_buckets = are_buckets;
        for (row, &nanos) in times.iter().enumerate() {
            let time = milliseconds(nanos);
            let next = times.get(row + 1).map(|next| milliseconds(*next));
            if let Some(first) = clock.pace.doubts(time, next) {
                clock.pace.learn(&history.of_node(node, first)?);
                clock.assume_pace(time, next);
            }
            let silent = clock.pace.row(time);
            if let Some(end) = silent {
                clock.silent(end, time, sink)?;
            }
            let is_beat = clock.beat.row(time, silent.is_some());
            for (derived, _, samples) in &mut clock.series {
                if is_beat || *derived != Derived::Up {
                    samples.push(time, derived.value(nanos));
                }
            }
        }
        clock.pass(sink, false)
    }

    /// Notes that a node with this period is down from this time on (ms), if its rows cannot show it: there are none, or only one.
    pub fn down(
        &mut self,
        node: &NodeName,
        (since, period): (i64, Option<i64>),
        sink: &mut dyn Sink,
        begin: impl FnOnce(&mut dyn Sink) -> Result<Vec<(Derived, SeriesId)>, QueryError>,
    ) -> Result<(), QueryError> {
        if since > self.end {
            return Ok(());
        }
        if let Some(clock) = self.nodes.get_mut(node) {
            return match clock.pace.silent_by(i64::MAX) {
                None => {
                    let since = clock.beat.last.map_or(since, |last| since.max(last + UP_STEP_UNKNOWN));
                    clock.silent(since, self.end + 1, sink)?;
                    clock.pass(sink, true)
                }
                Some(_) => Ok(()),
            };
        }
        let mut clock = NodeClock::of(begin(sink)?, self.step);
        clock.silent_with((since, self.end + 1), period, sink)?;
        clock.pass(sink, true)
    }

    /// Ends the series of nodes that are silent. A forgotten node is not down, and has no samples after its last rows.
    pub fn finish(
        &mut self,
        history: &mut History<'_>,
        is_known: impl Fn(&NodeName) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        for (node, clock) in &mut self.nodes {
            if let Some(first) = clock.pace.doubts(self.end.saturating_add(1), None) {
                clock.pace.learn(&history.of_node(node, first)?);
                clock.assume_pace(self.end.saturating_add(1), None);
            }
            match clock.pace.silent_by(self.end.saturating_add(1)) {
                Some(end) if is_known(node) => clock.silent(end, self.end + 1, sink)?,
                Some(end) => clock.series.iter_mut().for_each(|(_, _, samples)| samples.end(end)),
                None => {}
            }
            clock.pass(sink, true)?;
        }
        Ok(())
    }
}

/// The first rows of a node in a selection.
#[derive(Clone, Copy, Debug)]
struct FirstRows {
    /// When the first one is (ms).
    at: i64,
    /// The time between two of them (ms), if there are two.
    period: Option<i64>,
}

impl FirstRows {
    /// The first rows among these; `None`: there are none.
    fn of(times: &[u64]) -> Option<Self> {
        let at = milliseconds(*times.first()?);
        let distances = times.windows(2).take(2).map(|two| milliseconds(two[1]) - milliseconds(two[0]));
        Some(FirstRows { at, period: distances.min().map(|period| period.max(1)) })
    }

    /// True if rows are missing before them.
    fn are_late(&self, after: i64) -> bool {
        self.at - after > self.period.unwrap_or(UP_STEP_UNKNOWN) * PERIODS_LATE
    }

    /// When the node fell silent after a row.
    fn silent_after(&self, last: i64) -> i64 {
        last + silence(self.period)
    }
}

impl NodeClock {
    fn of(begun: Vec<(Derived, SeriesId)>, step: i64) -> Self {
        let series = begun.into_iter().map(|(derived, id)| (derived, id, Samples::default())).collect();
        NodeClock { pace: Pace::default(), beat: Beat::new(step), are_buckets: false, series }
    }

    fn has(&self, wanted: Derived) -> bool {
        self.series.iter().any(|(derived, ..)| *derived == wanted)
    }

    /// In a time with roll-ups only, no rows show the period. A node with a bucket has one row a minute, or the pace after the
    /// silence that ends at this time.
    fn assume_pace(&mut self, time: i64, next: Option<i64>) {
        let Some(last) = self.beat.last.filter(|_| self.are_buckets) else { return };
        let after = next.map(|next| next - time).filter(|period| period * PERIODS_MISSED < time - last);
        self.pace.assume(after.unwrap_or(UP_STEP_OF_BUCKETS));
    }

    /// The node was silent from this time on, until its first rows.
    fn away_before(&mut self, first: &FirstRows, from: i64, sink: &mut dyn Sink) -> Result<(), QueryError> {
        self.silent_with((from, first.at), first.period, sink)
    }

    /// The node is silent from this time on, and before that one.
    fn silent(&mut self, from: i64, before: i64, sink: &mut dyn Sink) -> Result<(), QueryError> {
        self.silent_with((from, before), self.pace.period(), sink)
    }

    fn silent_with(
        &mut self,
        (from, before): (i64, i64),
        period: Option<i64>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let of = |wanted| move |(derived, _, _): &&mut (Derived, SeriesId, Samples)| *derived == wanted;
        self.series.iter_mut().filter(of(Derived::Time)).for_each(|(_, _, samples)| samples.end(from));
        let step = self.beat.of_silence(period);
        let mut times = std::iter::successors(Some(from), |time| time.checked_add(step))
            .take_while(|time| *time < before)
            .peekable();
        while times.peek().is_some() {
            let Some((_, _, samples)) = self.series.iter_mut().find(|series| of(Derived::Up)(series)) else {
                break;
            };
            times.by_ref().take(SILENCE_SAMPLES_AT_ONCE).for_each(|time| samples.push(time, 0.0));
            self.pass(sink, false)?;
        }
        Ok(())
    }

    fn pass(&mut self, sink: &mut dyn Sink, is_over: bool) -> Result<(), QueryError> {
        for (_, id, samples) in &mut self.series {
            let passed = samples.passed(is_over);
            if passed > 0 {
                sink.samples(*id, &samples.times[..passed], &samples.values[..passed])?;
            }
            samples.clear(is_over);
        }
        Ok(())
    }
}

/// Milliseconds since 1970, as Prometheus counts.
pub(crate) fn milliseconds(nanos: u64) -> i64 {
    (nanos / 1_000_000).cast_signed()
}

/// How late a node with this period (ms) may be before it counts as missing, also for an unknown period.
pub(crate) fn silence(period: Option<i64>) -> i64 {
    period.map_or(SILENCE_UNKNOWN, strand::silence)
}

/// The shortest time between two of these moments.
pub(crate) fn shortest_distance(times: &[i64]) -> Option<i64> {
    times.windows(2).map(|two| two[1] - two[0]).filter(|distance| *distance > 0).min()
}
