//! One metric of all nodes: what stands in `.by/METRIC`, one line a node that is up.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::time::Instant;

use khz_model::{Decimal, Instance, NodeName, Pattern, Reading, Series};

use super::{Answer, Tree};
use crate::inode::NodeId;
use crate::limits::{LEASE, METRIC_WISHES_MAX};

/// The metrics that are asked of all nodes.
#[derive(Debug, Default)]
pub struct By {
    wanted: BTreeMap<String, Wanted>,
    /// What the nodes have said. It is kept when a metric is not wanted any more: while the hub is away there is nothing
    /// newer.
    tables: BTreeMap<String, HashMap<NodeId, Line>>,
    /// Descriptors of the files that are open.
    open: BTreeMap<String, usize>,
    /// Names that were asked for.
    pub(super) names: usize,
}

/// A metric that is asked of all nodes.
#[derive(Debug)]
struct Wanted {
    since: Instant,
    until: Instant,
}

/// What a node says to one metric.
#[derive(Debug)]
struct Line {
    lane: u64,
    /// Rows come in its lane.
    is_open: bool,
    columns: Vec<(Option<Instance>, u8)>,
    readings: Vec<Option<Reading>>,
}

impl Line {
    /// The node has said what there is, be it nothing.
    fn has_answered(&self) -> bool {
        self.is_open && (self.columns.is_empty() || self.readings.iter().any(Option::is_some))
    }
}

impl By {
    /// The metrics that are wanted.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &str> {
        self.wanted.keys().map(String::as_str)
    }

    pub(super) fn columns(&mut self, metric: &str, lane: u64, node: NodeId, columns: &[Series]) {
        let columns = columns.iter().map(|one| (one.instance.clone(), one.metric.places)).collect::<Vec<_>>();
        let readings = vec![None; columns.len()];
        if let Some(table) = self.tables.get_mut(metric) {
            table.insert(node, Line { lane, is_open: true, columns, readings });
        }
    }

    pub(super) fn row(
        &mut self,
        metric: &str,
        lane: u64,
        node: NodeId,
        cells: &mut dyn Iterator<Item = (usize, Reading)>,
    ) {
        let Some(line) = self.line(metric, lane, node) else { return };
        line.is_open = true;
        for (column, reading) in cells {
            if let Some(place) = line.readings.get_mut(column) {
                *place = Some(reading);
            }
        }
    }

    /// Nothing more comes in a lane.
    pub(super) fn silence(&mut self, metric: &str, lane: u64, node: NodeId) {
        if let Some(line) = self.line(metric, lane, node) {
            line.is_open = false;
        }
    }

    /// Nothing comes in any lane.
    pub(super) fn silence_all(&mut self) {
        self.tables.values_mut().flat_map(HashMap::values_mut).for_each(|line| line.is_open = false);
    }

    /// Whoever asks now waits as if nobody had asked before.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.wanted.values_mut().for_each(|wanted| wanted.since = now);
    }

    fn line(&mut self, metric: &str, lane: u64, node: NodeId) -> Option<&mut Line> {
        self.tables.get_mut(metric)?.get_mut(&node).filter(|line| line.lane == lane)
    }

    /// Wants a metric of all nodes, since when; `None`: too many are wanted already.
    fn want(&mut self, metric: &str, now: Instant) -> Option<Instant> {
        if let Some(wanted) = self.wanted.get_mut(metric) {
            wanted.until = now + LEASE;
            return Some(wanted.since);
        }
        if self.wanted.len() >= METRIC_WISHES_MAX {
            return None;
        }
        if self.tables.len() >= METRIC_WISHES_MAX && !self.tables.contains_key(metric) {
            let idle = self.tables.keys().find(|known| !self.wanted.contains_key(*known)).cloned();
            idle.and_then(|idle| self.tables.remove(&idle));
        }
        self.tables.entry(metric.to_owned()).or_default();
        self.wanted.insert(metric.to_owned(), Wanted { since: now, until: now + LEASE });
        Some(now)
    }

    /// Metrics that nobody has looked at for a while are not wanted any more; `true`: there were some.
    pub(super) fn rest(&mut self, now: Instant) -> bool {
        let before = self.wanted.len();
        self.wanted.retain(|metric, wanted| now < wanted.until || self.open.contains_key(metric));
        self.wanted.len() < before
    }

    /// A file is open: its metric stays wanted.
    pub(super) fn opened(&mut self, metric: &str) {
        *self.open.entry(metric.to_owned()).or_default() += 1;
    }

    /// It is closed.
    pub(super) fn closed(&mut self, metric: &str, now: Instant) {
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
}

impl Tree {
    /// The lines of a metric; waits until every node that is up has said what it has of it, or until time is up: once, not
    /// at each reading.
    pub(super) fn by_text(&mut self, metric: &str, now: Instant, late: bool) -> Answer<Vec<u8>> {
        if self.options.strict && !self.hub.up {
            return Answer::Fail(libc::EIO);
        }
        self.want_roster(now);
        let before = self.by.wanted.len();
        let Some(since) = self.by.want(metric, now) else { return self.by_values(metric, now, late) };
        self.wishes.stale |= self.by.wanted.len() > before;
        let late = late || now.saturating_duration_since(since) >= self.options.wait;
        let lines = self.by.tables.get(metric);
        let line = |id: NodeId| lines.and_then(|lines| lines.get(&id));
        let has_answered = |id: NodeId| line(id).is_some_and(Line::has_answered);
        let missing = self.up_nodes().filter(|&(_, id)| !has_answered(id)).count();
        if !late && self.is_worth_waiting() && (!self.roster.is_whole() || missing > 0) {
            return Answer::Wait;
        }
        if !self.hub.up && lines.is_none_or(HashMap::is_empty) {
            return self.by_values(metric, now, true);
        }
        let (mut text, mut is_known) = (String::new(), false);
        let shown = |line: &&Line| line.is_open || !self.hub.up;
        for (name, line) in self.up_nodes().filter_map(|(name, id)| Some((name, line(id).filter(shown)?))) {
            is_known |= !line.columns.is_empty();
            for ((instance, places), reading) in line.columns.iter().zip(&line.readings) {
                let Some(Reading::Present(value)) = reading else { continue };
                put(&mut text, metric, name, instance.as_ref(), *value, *places);
            }
        }
        self.lines(text, is_known, missing)
    }

    /// The same when many metrics are wanted of all nodes: everything is, and the values say it.
    fn by_values(&mut self, metric: &str, now: Instant, late: bool) -> Answer<Vec<u8>> {
        let Ok(pattern) = Pattern::new(metric) else { return Answer::Fail(libc::ENOENT) };
        let nodes: Vec<NodeId> = self.by_name.values().copied().collect();
        nodes.iter().for_each(|&id| self.want_node(id, now));
        let up: Vec<(&NodeName, &super::Node)> =
            self.up_nodes().filter_map(|(name, id)| Some((name, self.node(id)?))).collect();
        let is_shown = |node: &super::Node| node.answered.is_some() || !self.hub.up && node.layout.is_some();
        let missing = up.iter().filter(|(_, node)| !is_shown(node)).count();
        if !late && self.is_worth_waiting() && (!self.roster.is_whole() || missing > 0) {
            return Answer::Wait;
        }
        let (mut text, mut is_known) = (String::new(), false);
        for (name, node) in up.into_iter().filter(|(_, node)| is_shown(node)) {
            let series = node.layout.iter().flat_map(|layout| layout.series.iter());
            for (one, value) in series.zip(&node.values) {
                let instance = one.instance.as_ref().map(Instance::as_str);
                if !pattern.matches_series(&one.metric.name, instance) {
                    continue;
                }
                is_known = true;
                if let Reading::Present(units) = value.reading {
                    put(&mut text, metric, name, one.instance.as_ref(), units, one.metric.places);
                }
            }
        }
        self.lines(text, is_known, missing)
    }

    /// The text, where some node has the metric or none is up; else why there is none.
    fn lines(&self, text: String, is_known: bool, missing: usize) -> Answer<Vec<u8>> {
        let has_nodes = self.roster.is_whole() || !self.by_name.is_empty();
        match (is_known, missing) {
            (true, _) => Answer::Ready(text.into_bytes()),
            (false, 0) if has_nodes && self.up_nodes().next().is_none() => Answer::Ready(Vec::new()),
            (false, 0) if has_nodes => Answer::Fail(libc::ENOENT),
            (false, _) => Answer::Fail(libc::ETIMEDOUT),
        }
    }

    /// True for what can be a metric of all nodes: `load.1m`, `net.rx_bytes[eth0]`.
    pub(super) fn may_be_metric(&self, name: &str) -> bool {
        let is_plain = !name.contains(['*', '?', ':']);
        is_plain
            && Pattern::new(name).is_ok()
            && name.split('[').next().is_some_and(khz_model::name::is_metric_name)
    }

    /// Metrics without instances that some node is known to have.
    pub(super) fn known_metrics(&self) -> Vec<String> {
        let series = self.layouts.iter().flat_map(|layout| layout.series.iter());
        let names = series.filter(|one| one.instance.is_none()).map(|one| one.metric.name.to_string());
        let has_plain = |line: &Line| line.columns.iter().any(|(instance, _)| instance.is_none());
        let read = self.by.tables.iter().filter(|(_, lines)| lines.values().any(has_plain));
        let mut names: Vec<String> = names.chain(read.map(|(metric, _)| metric.clone())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn put(
    text: &mut String,
    metric: &str,
    name: &NodeName,
    instance: Option<&Instance>,
    units: u64,
    places: u8,
) {
    let value = Decimal::new(units, places);
    // Writing to a string cannot fail.
    let _ = match instance.filter(|_| !metric.ends_with(']')) {
        Some(instance) => writeln!(text, "{name} {instance} {value}"),
        None => writeln!(text, "{name} {value}"),
    };
}
