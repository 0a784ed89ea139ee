//! Series that a node has by being there, made from the times of its rows: `up` and `node_time_seconds`.

use std::collections::HashMap;

use khz_model::exposed::{TIME, UP};
use khz_model::{Decimal, NodeName};
use khz_promql::{QueryError, SeriesId, Sink};

use crate::limits::DOWN_STEP;
use crate::strand::{Pace, Samples};

/// Metrics that every node has in every row: their rows are its rows.
pub(crate) const METRICS: [&str; 2] = ["khz.gather.cpu", "load.1m"];

/// Such a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// 1 while the node sends rows, 0 while it is silent.
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
#[derive(Debug, Default)]
struct NodeClock {
    pace: Pace,
    series: Vec<(Derived, SeriesId, Samples)>,
}

/// The derived series of all nodes.
#[derive(Debug)]
pub(crate) struct Clocks {
    nodes: HashMap<NodeName, NodeClock>,
    /// Nothing after this time (ms).
    end: i64,
}

impl Clocks {
    /// Clocks up to this time.
    pub fn until(end: i64) -> Self {
        Clocks { nodes: HashMap::new(), end }
    }

    /// Takes rows of a node; `begin` begins its series.
    pub fn rows(
        &mut self,
        node: &NodeName,
        times: &[u64],
        sink: &mut dyn Sink,
        begin: impl FnOnce(&mut dyn Sink) -> Result<Vec<(Derived, SeriesId)>, QueryError>,
    ) -> Result<(), QueryError> {
        if !self.nodes.contains_key(node) {
            let begun = begin(sink)?.into_iter().map(|(derived, id)| (derived, id, Samples::default()));
            let series = begun.collect();
            self.nodes.insert(node.clone(), NodeClock { pace: Pace::default(), series });
        }
        let Some(clock) = self.nodes.get_mut(node) else { return Ok(()) };
        for &nanos in times {
            let time = milliseconds(nanos);
            if let Some(end) = clock.pace.row(time) {
                clock.silent(end, time);
            }
            for (derived, _, samples) in &mut clock.series {
                samples.push(time, derived.value(nanos));
            }
        }
        clock.pass(sink, false)
    }

    /// Notes that a node is down from this time on (ms), if no rows of it have come.
    pub fn down(
        &mut self,
        node: &NodeName,
        since: i64,
        sink: &mut dyn Sink,
        begin: impl FnOnce(&mut dyn Sink) -> Result<Vec<(Derived, SeriesId)>, QueryError>,
    ) -> Result<(), QueryError> {
        if self.nodes.contains_key(node) || since > self.end {
            return Ok(());
        }
        let begun = begin(sink)?.into_iter().map(|(derived, id)| (derived, id, Samples::default()));
        let mut clock = NodeClock { pace: Pace::default(), series: begun.collect() };
        clock.silent(since, self.end + 1);
        clock.pass(sink, true)
    }

    /// Ends the series of nodes that are silent.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        for clock in self.nodes.values_mut() {
            if let Some(end) = clock.pace.silent_by(self.end.saturating_add(1)) {
                clock.silent(end, self.end + 1);
            }
            clock.pass(sink, true)?;
        }
        Ok(())
    }
}

impl NodeClock {
    /// The node is silent from this time on, and before that one.
    fn silent(&mut self, from: i64, before: i64) {
        for (derived, _, samples) in &mut self.series {
            match derived {
                Derived::Time => samples.end(from),
                Derived::Up => {
                    let times = std::iter::successors(Some(from), |time| time.checked_add(DOWN_STEP));
                    times.take_while(|time| *time < before).for_each(|time| samples.push(time, 0.0));
                }
            }
        }
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
