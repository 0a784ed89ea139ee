//! Which nodes and metrics a store has, for somebody who knows neither. Reads lists, and no values.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use khz_model::{Metric, Nanos, NodeName};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::lane_of::channel_of;
use crate::limits::METRICS_LISTED_MAX;
use crate::range::chosen::List;
use crate::range::{HOUR, RangeReader};

/// Lists that are held, so that each is taken in once: nodes with the same series share one.
const LISTS_HELD: usize = 64;

/// What there is.
#[derive(Debug, Default)]
pub struct Inventory {
    /// The nodes.
    pub nodes: BTreeSet<NodeName>,
    /// The owners of recorded series: groups of rules.
    pub owners: BTreeSet<NodeName>,
    /// The metrics of nodes, each name once; of several with one name, one of them.
    pub metrics: Vec<Arc<Metric>>,
    /// What could not be read.
    pub damage: Vec<StoreError>,
}

impl Inventory {
    /// The names of the channels that there is something of.
    pub fn channels(&self) -> BTreeSet<&str> {
        self.metrics.iter().filter_map(|metric| channel_of(&metric.name)).collect()
    }
}

impl RangeReader {
    /// Which nodes and metrics there are.
    pub fn inventory(&self) -> Inventory {
        self.files.list_again();
        let (mut found, mut metrics) = (Inventory::default(), Metrics::default());
        // Read the log first: data that leaves it meanwhile is then found in files.
        self.log_lists(&mut found, &mut metrics);
        for file in self.listed_files(&mut found.damage) {
            let (nodes, damage) = file.nodes();
            found.damage.extend(damage);
            for node in nodes {
                if node.is_owner() {
                    found.owners.insert(node);
                    continue;
                }
                match file.layouts_of(&node) {
                    Ok(layouts) => layouts.into_iter().for_each(|list| metrics.take(List::Columns(list))),
                    Err(error) => found.damage.push(error),
                }
                found.nodes.insert(node);
            }
        }
        found.metrics = metrics.all.into_values().collect();
        found
    }

    fn log_lists(&self, found: &mut Inventory, metrics: &mut Metrics) {
        let Some(log) = &self.log else { return };
        for node in log.nodes(None) {
            if node.is_owner() {
                found.owners.insert(node);
                continue;
            }
            let lists = log.lists(&node, Nanos(0), Nanos(u64::MAX));
            lists.into_iter().for_each(|(_, list)| metrics.take(List::Slots(list)));
            found.nodes.insert(node);
        }
    }

    /// Files that together have all nodes and series: the coarsest roll-ups, and the hours that are not in them.
    fn listed_files(&self, damage: &mut Vec<StoreError>) -> Vec<Arc<ColumnFile>> {
        let (from, to) = (Nanos(0), Nanos(u64::MAX));
        let coarsest = self.files.resolutions().into_iter().max();
        let mut files: Vec<Arc<ColumnFile>> =
            coarsest.map_or_else(Vec::new, |coarsest| self.files.files(coarsest, from, to, damage));
        for hour in self.files.hours(from, to).into_iter().filter(|hour| !hour.is_settled) {
            let end = Nanos(hour.begin.0.saturating_add(HOUR));
            files.extend(self.files.files(Nanos(0), hour.begin, end, damage));
        }
        files
    }
}

/// The metrics so far.
#[derive(Default)]
struct Metrics {
    all: BTreeMap<String, Arc<Metric>>,
    /// Lists that were taken in, by where they are.
    lists: HashMap<usize, List>,
}

impl Metrics {
    fn take(&mut self, list: List) {
        if self.lists.contains_key(&list.address()) {
            return;
        }
        for metric in list.series().iter().map(|series| &series.metric) {
            if !self.all.contains_key(&*metric.name) && self.all.len() < METRICS_LISTED_MAX {
                self.all.insert(metric.name.to_string(), metric.clone());
            }
        }
        if self.lists.len() >= LISTS_HELD {
            self.lists.clear();
        }
        self.lists.insert(list.address(), list);
    }
}
