//! One metric of all nodes: the tables below `.by`, with one line for each node that is up. Answers of the nodes are kept
//! after their table is unsubscribed: while the hub is away there is nothing newer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use khz_model::{Instance, Pattern, Reading, Series, ValueFormat};

use crate::answer::Answer;
use crate::cluster::roster::Roster;
use crate::cluster::table::Table;
use crate::effects::Effects;
use crate::inode::{NodeId, PathId};
use crate::limits::{BY_NAMES_MAX, LEASE, METRIC_SUBSCRIPTIONS_MAX};
use crate::names::Names;

/// The tables, by metric.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Tables that are subscribed to.
    wanted: BTreeMap<String, Wanted>,
    /// What the nodes have answered.
    answers: BTreeMap<String, HashMap<NodeId, Line>>,
    /// Open files of each table.
    open: BTreeMap<String, usize>,
    lanes: HashMap<u64, Lane>,
    /// Names that somebody has looked up, and names for which there was no room.
    names: usize,
    names_left_out: u64,
}

#[derive(Debug)]
struct Wanted {
    /// Since when readers wait for the nodes.
    since: Instant,
    until: Instant,
}

/// A lane that serves a table.
#[derive(Debug)]
struct Lane {
    metric: Arc<str>,
    node: NodeId,
    subscription: u32,
}

/// What a node has of one metric.
#[derive(Debug)]
struct Line {
    lane: u64,
    /// Rows come in its lane.
    is_open: bool,
    columns: Vec<(Option<Instance>, ValueFormat)>,
    readings: Vec<Option<Reading>>,
}

impl Line {
    /// The node has answered, even if it has nothing.
    fn has_answered(&self) -> bool {
        self.is_open && (self.columns.is_empty() || self.readings.iter().any(Option::is_some))
    }
}

impl Tables {
    /// The path of a table. Every name that a metric may have is a path: only when somebody opens the table do the nodes say
    /// whether there is such a metric.
    pub fn path(&mut self, by: PathId, name: &str, names: &mut Names) -> Answer<PathId> {
        if let Some(path) = names.find(by, name) {
            return Answer::Ready(path);
        }
        if !may_be_metric(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let path = (self.names < BY_NAMES_MAX).then(|| names.intern(by, name)).flatten();
        match path {
            Some(_) => self.names += 1,
            None => self.names_left_out += 1,
        }
        Answer::or_fail(path, libc::ENOSPC)
    }

    /// Names that somebody has looked up, and those for which there was no room.
    pub fn names(&self) -> (usize, u64) {
        (self.names, self.names_left_out)
    }

    /// The metrics that are subscribed to.
    pub fn wanted(&self) -> impl Iterator<Item = &str> {
        self.wanted.keys().map(String::as_str)
    }

    /// Wants a table for a while. Returns since when it is wanted; `None`: too many are.
    pub fn want(&mut self, metric: &str, now: Instant, effects: &mut Effects) -> Option<Instant> {
        if let Some(wanted) = self.wanted.get_mut(metric) {
            wanted.until = now + LEASE;
            return Some(wanted.since);
        }
        if self.wanted.len() >= METRIC_SUBSCRIPTIONS_MAX {
            return None;
        }
        if self.answers.len() >= METRIC_SUBSCRIPTIONS_MAX && !self.answers.contains_key(metric) {
            let idle = self.answers.keys().find(|known| !self.wanted.contains_key(*known)).cloned();
            idle.and_then(|idle| self.answers.remove(&idle));
        }
        self.answers.entry(metric.to_owned()).or_default();
        self.wanted.insert(metric.to_owned(), Wanted { since: now, until: now + LEASE });
        effects.change_demand();
        Some(now)
    }

    /// A table's file was opened: it stays wanted.
    pub fn open(&mut self, metric: &str) {
        *self.open.entry(metric.to_owned()).or_default() += 1;
    }

    /// It was closed.
    pub fn close_file(&mut self, metric: &str, now: Instant) {
        if let Some(wanted) = self.wanted.get_mut(metric) {
            wanted.until = now + LEASE;
        }
        if let Some(open) = self.open.get_mut(metric) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(metric);
            }
        }
    }

    /// Tables that nobody has read for a while are not wanted any more.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        let before = self.wanted.len();
        self.wanted.retain(|metric, wanted| now < wanted.until || self.open.contains_key(metric));
        if self.wanted.len() < before {
            effects.change_demand();
        }
    }

    /// The hub has come or gone: readers wait for the nodes as at the first read.
    pub fn restart_waits(&mut self, now: Instant) {
        self.wanted.values_mut().for_each(|wanted| wanted.since = now);
    }

    /// A lane that serves a table has these columns from here on.
    pub fn columns(&mut self, lane: u64, metric: &str, subscription: u32, node: NodeId, columns: &[Series]) {
        self.lanes.insert(lane, Lane { metric: metric.into(), node, subscription });
        let columns =
            columns.iter().map(|one| (one.instance.clone(), one.metric.format())).collect::<Vec<_>>();
        let readings = vec![None; columns.len()];
        if let Some(lines) = self.answers.get_mut(metric) {
            lines.insert(node, Line { lane, is_open: true, columns, readings });
        }
    }

    /// A row of a lane; `None`: the lane serves no table. Returns its node.
    pub fn row(&mut self, lane: u64, cells: &mut dyn Iterator<Item = (usize, Reading)>) -> Option<NodeId> {
        let node = self.lanes.get(&lane)?.node;
        if let Some(line) = self.line(lane) {
            line.is_open = true;
            for (column, reading) in cells {
                if let Some(place) = line.readings.get_mut(column) {
                    *place = Some(reading);
                }
            }
        }
        Some(node)
    }

    /// Nothing more comes in a lane.
    pub fn close_lane(&mut self, lane: u64) {
        if let Some(line) = self.line(lane) {
            line.is_open = false;
        }
        self.lanes.remove(&lane);
    }

    /// Subscriptions have ended: their lines are stale.
    pub fn unsubscribed(&mut self, gone: &[u32]) {
        let lanes = self.lanes.iter().filter(|(_, lane)| gone.contains(&lane.subscription));
        let lanes: Vec<u64> = lanes.map(|(&lane, _)| lane).collect();
        for lane in lanes {
            if let Some(line) = self.line(lane) {
                line.is_open = false;
            }
        }
    }

    /// The connection is over: every line is stale.
    pub fn disconnected(&mut self) {
        self.answers.values_mut().flat_map(HashMap::values_mut).for_each(|line| line.is_open = false);
    }

    fn line(&mut self, lane: u64) -> Option<&mut Line> {
        let Lane { metric, node, .. } = self.lanes.get(&lane)?;
        self.answers.get_mut(&**metric)?.get_mut(node).filter(|line| line.lane == lane)
    }

    /// The lines of a table; waits until every node that is up has answered, or `is_late`. `None`: the hub is away and no
    /// node has ever answered.
    pub fn text(&self, metric: &str, roster: &Roster, is_late: bool) -> Option<Answer<Vec<u8>>> {
        let lines = self.answers.get(metric);
        let line = |id: NodeId| lines.and_then(|lines| lines.get(&id));
        let has_answered = |id: NodeId| line(id).is_some_and(Line::has_answered);
        let mut table = Table::new(metric, roster, has_answered);
        if !is_late && table.may_improve() {
            return Some(Answer::Wait);
        }
        if !roster.is_hub_up() && lines.is_none_or(HashMap::is_empty) {
            return None;
        }
        let is_shown = |line: &&Line| line.is_open || !roster.is_hub_up();
        for (name, line) in roster.up().filter_map(|(name, id)| Some((name, line(id).filter(is_shown)?))) {
            for ((instance, format), &reading) in line.columns.iter().zip(&line.readings) {
                table.put(name, instance.as_ref(), reading, *format);
            }
        }
        Some(table.answer())
    }

    /// Metrics without instances that some node has answered to.
    pub fn plain_metrics(&self) -> impl Iterator<Item = &str> {
        let has_plain = |line: &Line| line.columns.iter().any(|(instance, _)| instance.is_none());
        let known = self.answers.iter().filter(move |(_, lines)| lines.values().any(has_plain));
        known.map(|(metric, _)| metric.as_str())
    }
}

/// True for a name that a metric can have: `load.1m`, `net.rx_bytes[eth0]`.
fn may_be_metric(name: &str) -> bool {
    !name.contains(['*', '?', ':'])
        && Pattern::new(name).is_ok()
        && name.split('[').next().is_some_and(khz_model::name::is_metric_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_wanted_while_its_file_is_open_and_a_lease_longer() {
        let (mut tables, mut effects, now) = (Tables::default(), Effects::default(), Instant::now());
        assert_eq!(tables.want("load.1m", now, &mut effects), Some(now));
        tables.open("load.1m");
        tables.expire(now + LEASE, &mut effects);
        assert_eq!(tables.wanted().count(), 1);
        tables.close_file("load.1m", now + LEASE);
        tables.expire(now + LEASE * 2, &mut effects);
        assert_eq!(tables.wanted().count(), 0);
    }

    #[test]
    fn more_tables_than_a_hub_serves_are_refused_and_old_answers_make_room() {
        let (mut tables, mut effects, now) = (Tables::default(), Effects::default(), Instant::now());
        for number in 0..METRIC_SUBSCRIPTIONS_MAX {
            assert!(tables.want(&format!("job.n{number}"), now, &mut effects).is_some());
        }
        assert_eq!(tables.want("job.more", now, &mut effects), None);
        tables.expire(now + LEASE, &mut effects);
        assert!(tables.want("job.more", now + LEASE, &mut effects).is_some());
        assert_eq!(tables.answers.len(), METRIC_SUBSCRIPTIONS_MAX);
    }
}
