//! One table below `.by` while it is written: a line for each node and instance, or the reason why there is none.

use std::fmt::Write;

use khz_model::{Instance, NodeName, Pattern, Reading, ValueFormat};

use crate::answer::Answer;
use crate::cluster::roster::Roster;
use crate::cluster::values::Values;
use crate::inode::NodeId;

/// A table that is being written.
pub(crate) struct Table<'a> {
    metric: &'a str,
    roster: &'a Roster,
    /// Nodes that are up and have not answered.
    missing: usize,
    /// Some node has the metric.
    is_known: bool,
    text: String,
}

impl<'a> Table<'a> {
    /// A table without lines. `has_answered`: the node has said what it has of the metric.
    pub fn new(metric: &'a str, roster: &'a Roster, has_answered: impl Fn(NodeId) -> bool) -> Self {
        let missing = roster.up().filter(|&(_, id)| !has_answered(id)).count();
        Table { metric, roster, missing, is_known: false, text: String::new() }
    }

    /// True while a node may still answer.
    pub fn may_improve(&self) -> bool {
        self.roster.may_improve() && (!self.roster.is_complete() || self.missing > 0)
    }

    /// A node has a series of the metric; only what is present gets a line.
    pub fn put(
        &mut self,
        name: &NodeName,
        instance: Option<&Instance>,
        reading: Option<Reading>,
        format: ValueFormat,
    ) {
        self.is_known = true;
        let Some(value) = reading.and_then(|reading| format.value(reading)) else { return };
        // Writing to a string cannot fail.
        let _ = match instance.filter(|_| !self.metric.ends_with(']')) {
            Some(instance) => writeln!(self.text, "{name} {instance} {value}"),
            None => writeln!(self.text, "{name} {value}"),
        };
    }

    /// The text, where some node has the metric or none is up; else why there is none.
    pub fn answer(self) -> Answer<Vec<u8>> {
        let has_nodes = self.roster.is_complete() || self.roster.count() > 0;
        match (self.is_known, self.missing) {
            (true, _) => Answer::Ready(self.text.into_bytes()),
            (false, 0) if has_nodes && self.roster.up().next().is_none() => Answer::Ready(Vec::new()),
            (false, 0) if has_nodes => Answer::Fail(libc::ENOENT),
            (false, _) => Answer::Fail(libc::ETIMEDOUT),
        }
    }
}

/// The table of a metric, made of the nodes' values. It is for when too many tables are wanted.
pub(crate) fn of_values(metric: &str, values: &Values, roster: &Roster, is_late: bool) -> Answer<Vec<u8>> {
    let Ok(pattern) = Pattern::new(metric) else { return Answer::Fail(libc::ENOENT) };
    let is_shown = |id: NodeId| values.is_current(id) || !roster.is_hub_up() && values.layout(id).is_some();
    let mut table = Table::new(metric, roster, is_shown);
    if !is_late && table.may_improve() {
        return Answer::Wait;
    }
    for (name, id) in roster.up().filter(|&(_, id)| is_shown(id)) {
        for (series, reading) in values.all(id) {
            let instance = series.instance.as_ref();
            if pattern.matches_series(&series.metric.name, instance) {
                table.put(name, instance, Some(reading), series.metric.format());
            }
        }
    }
    table.answer()
}
