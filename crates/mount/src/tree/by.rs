//! One metric of all nodes: what stands in `.by/METRIC`, one line a node.

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
    /// The wish of each, and until when it is wanted.
    pub(super) wanted: BTreeMap<String, (Option<u32>, Instant)>,
    tables: HashMap<u32, HashMap<NodeId, Line>>,
}

/// What a node says to one metric.
#[derive(Debug, Default)]
struct Line {
    columns: Vec<(Option<Instance>, u8)>,
    readings: Vec<Option<Reading>>,
}

impl By {
    pub fn columns(&mut self, wish: u32, node: NodeId, columns: &[Series]) {
        let columns = columns.iter().map(|one| (one.instance.clone(), one.metric.places)).collect::<Vec<_>>();
        let readings = vec![None; columns.len()];
        self.tables.entry(wish).or_default().insert(node, Line { columns, readings });
    }

    pub fn row(&mut self, wish: u32, node: NodeId, cells: &mut dyn Iterator<Item = (usize, Reading)>) {
        let Some(line) = self.tables.get_mut(&wish).and_then(|table| table.get_mut(&node)) else { return };
        for (column, reading) in cells {
            if let Some(place) = line.readings.get_mut(column) {
                *place = Some(reading);
            }
        }
    }

    /// A wish was taken back: its table goes.
    pub fn forget(&mut self, wish: u32) {
        self.tables.remove(&wish);
    }
}

impl Tree {
    /// The lines of a metric; waits until every node that is up has said something, or until time is up.
    pub(super) fn by_text(&mut self, metric: &str, now: Instant, late: bool) -> Answer<Vec<u8>> {
        self.want_roster(now);
        if !self.want_metric(metric, now) {
            return self.by_values(metric, now, late);
        }
        let wish = self.by.wanted.get(metric).and_then(|(wish, _)| *wish);
        let table = wish.and_then(|wish| self.by.tables.get(&wish));
        let has = |id: &NodeId| {
            table
                .and_then(|table| table.get(id))
                .is_some_and(|line| line.readings.iter().any(Option::is_some))
        };
        let is_up = |id: &NodeId| {
            self.node(*id).and_then(|node| node.status.as_ref()).is_some_and(|(status, _)| status.up)
        };
        let missing = self.by_name.values().filter(|id| is_up(id) && !has(id)).count();
        if !late && (!self.roster_complete || missing > 0) {
            return Answer::Wait;
        }
        let Some(table) = table.filter(|table| !table.is_empty()) else {
            return Answer::Fail(libc::ETIMEDOUT);
        };
        let mut text = String::new();
        for (name, id) in &self.by_name {
            let Some(line) = table.get(id) else { continue };
            for ((instance, places), reading) in line.columns.iter().zip(&line.readings) {
                let Some(Reading::Present(value)) = reading else { continue };
                put(&mut text, name, instance.as_ref().filter(|_| !metric.ends_with(']')), *value, *places);
            }
        }
        Answer::Ready(text.into_bytes())
    }

    /// The same when many metrics are wanted of all nodes: everything is, and the values say it.
    fn by_values(&mut self, metric: &str, now: Instant, late: bool) -> Answer<Vec<u8>> {
        let Ok(pattern) = Pattern::new(metric) else { return Answer::Fail(libc::ENOENT) };
        let nodes: Vec<NodeId> = self.by_name.values().copied().collect();
        nodes.iter().for_each(|&id| self.want_node(id, now));
        let is_up = |node: &super::Node| node.status.as_ref().is_some_and(|(status, _)| status.up);
        let known = nodes.iter().filter_map(|&id| self.node(id));
        let is_missing = known.clone().any(|node| is_up(node) && node.layout.is_none());
        if !late && (!self.roster_complete || is_missing) {
            return Answer::Wait;
        }
        let mut text = String::new();
        for (name, node) in self.by_name.iter().filter_map(|(name, &id)| Some((name, self.node(id)?))) {
            let series = node.layout.iter().flat_map(|layout| layout.series.iter());
            for (one, value) in series.zip(&node.values) {
                let instance = one.instance.as_ref().map(Instance::as_str);
                if let Reading::Present(units) = value.reading
                    && pattern.matches_series(&one.metric.name, instance)
                {
                    put(
                        &mut text,
                        name,
                        one.instance.as_ref().filter(|_| !metric.ends_with(']')),
                        units,
                        one.metric.places,
                    );
                }
            }
        }
        Answer::Ready(text.into_bytes())
    }

    /// `false`: too many metrics are wanted of all nodes already.
    fn want_metric(&mut self, metric: &str, now: Instant) -> bool {
        let until = now + LEASE;
        if let Some((_, lease)) = self.by.wanted.get_mut(metric) {
            *lease = until;
            return true;
        }
        if self.by.wanted.len() >= METRIC_WISHES_MAX {
            return false;
        }
        self.by.wanted.insert(metric.to_owned(), (None, until));
        self.wishes.stale = true;
        true
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
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn put(text: &mut String, name: &NodeName, instance: Option<&Instance>, units: u64, places: u8) {
    let value = Decimal::new(units, places);
    // Writing to a string cannot fail.
    let _ = match instance {
        Some(instance) => writeln!(text, "{name} {instance} {value}"),
        None => writeln!(text, "{name} {value}"),
    };
}
