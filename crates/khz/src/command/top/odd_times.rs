//! Since when nodes are odd, in each way: a node that has too much memory in use for a minute, and now too little load, has two times.

use std::collections::BTreeMap;

use khz_model::Nanos;

use super::node::Node;
use super::odd::{Odd, Way, all_odd};
use super::world::World;

/// A shorter pause does not end the time in which a node is odd.
const ODD_PAUSE: Nanos = Nanos::from_secs(5);

/// A node that is odd this soon after its first row may have been odd before, since its first rates need two rows.
const FIRST_ROWS: Nanos = Nanos::from_secs(2);

/// Older times are useless, since the list keeps rows of a shorter time.
const ODD_TIMES_KEPT: Nanos = Nanos::from_secs(600);

/// The most kept times of oddness of a node. One that is odd now and then keeps those that ended last.
const ODD_TIMES_MAX: usize = 32;

/// Since when a node is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OddSince {
    /// Since this moment.
    pub time: Nanos,
    /// It may have been odd for longer, since earlier rows are unknown.
    pub is_least: bool,
}

/// A time in which a node was odd in one way.
struct OddTime {
    way: Way,
    since: OddSince,
    last: Nanos,
}

/// What is known of a node.
struct OddNode {
    /// The first and the last comparison of a time without a pause.
    first: Nanos,
    last: Nanos,
    /// In the order of their begins. Times of different ways overlap.
    times: Vec<OddTime>,
}

/// When nodes were odd. It outlives the list, which is opened repeatedly.
#[derive(Default)]
pub struct OddTimes {
    nodes: BTreeMap<String, OddNode>,
    /// The time of the last comparison, and the seconds since then.
    noted: Nanos,
    ago: u64,
}

/// After this time (s) without a newer row, the clock of all nodes counts as set back.
const OLD_ROWS_MAX: u64 = 10;

impl OddTimes {
    /// Compares the nodes at most once a second: a row of this time has come.
    pub fn note(&mut self, world: &mut World, row: Nanos) {
        if row.since(self.noted) < Nanos::SECOND {
            // While other nodes send newer rows, an older row is the last one of a node that is down.
            if self.ago <= OLD_ROWS_MAX {
                return;
            }
            *self = OddTimes::default();
        }
        (self.noted, self.ago) = (row, 0);
        self.compare(world, row);
    }

    /// A second has passed.
    pub fn tick(&mut self) {
        self.ago += 1;
    }

    /// In which ways a node was odd at this moment, and since when, as far as is known.
    pub fn since(&self, node: &str, moment: Nanos) -> Vec<(Way, OddSince)> {
        // The row of this node may be a little later than the row that set this time.
        let until = Nanos(moment.0.saturating_add(Nanos::SECOND.0));
        let was_odd = |time: &&OddTime| time.since.time <= until && moment.since(time.last) <= ODD_PAUSE;
        let times = self.nodes.get(node).into_iter().flat_map(|node| &node.times);
        let mut ways: Vec<(Way, OddSince)> = Vec::new();
        for time in times.filter(was_odd) {
            // A later time of the same way counts.
            ways.retain(|(way, _)| *way != time.way);
            ways.push((time.way, time.since));
        }
        ways
    }

    fn compare(&mut self, world: &mut World, now: Nanos) {
        let nodes: Vec<&Node> = world.nodes().map(|(_, node)| node).collect();
        let odd = all_odd(&nodes);
        for ((name, node), odd) in world.nodes_mut().zip(odd) {
            let Some(row) = node.time().filter(|_| !node.is_away()) else {
                node.odd_since.clear();
                continue;
            };
            if !self.nodes.contains_key(name) {
                let none = OddNode { first: row, last: now, times: Vec::new() };
                self.nodes.insert(name.to_owned(), none);
            }
            if let Some(known) = self.nodes.get_mut(name) {
                known.compared(&odd, row, now);
            }
            node.odd_since = self.since(name, now);
        }
        self.nodes.retain(|_, node| now.since(node.last) <= ODD_TIMES_KEPT);
    }
}

impl OddNode {
    /// Notes in what its row of this time was odd. That row may be older than the one that triggered the comparison.
    fn compared(&mut self, odd: &[Odd], row: Nanos, now: Nanos) {
        if now.since(self.last) > ODD_PAUSE {
            self.first = row;
        }
        self.last = now;
        odd.iter().for_each(|odd| self.was_odd(odd.way(), row, now));
    }

    fn was_odd(&mut self, way: Way, row: Nanos, now: Nanos) {
        let goes_on = |time: &&mut OddTime| time.way == way && now.since(time.last) <= ODD_PAUSE;
        if let Some(time) = self.times.iter_mut().rev().find(goes_on) {
            time.since.time = time.since.time.min(row);
            time.last = now;
            return;
        }
        let is_least = row.since(self.first) <= FIRST_ROWS;
        self.times.push(OddTime { way, since: OddSince { time: row, is_least }, last: now });
        if self.times.len() > ODD_TIMES_MAX {
            let oldest = (0..self.times.len()).min_by_key(|at| self.times[*at].last);
            oldest.map(|at| self.times.remove(at));
        }
    }
}
