//! The metrics that nodes of the cluster have, each once.

use std::collections::HashSet;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use khz_model::{Metric, Series};

use crate::rule_rows::is_of_rules;

/// Metrics of different names that the cluster may have. A name is the node's word, so their number needs a limit.
const METRICS_MAX: usize = 16_384;

/// Holders of a metric that no node has: this list, and the schemas' own.
const HOLDERS_OF_UNUSED: usize = 2;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    names: HashSet<String>,
    all: Vec<Arc<Metric>>,
}

impl Metrics {
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes in the metrics of new series.
    pub fn note(&self, series: &[Series]) {
        if self.read().has_all(series) {
            return;
        }
        let mut known = self.write();
        for series in series {
            // What nodes say of rules is for the hub itself.
            if is_of_rules(&series.metric.name) {
                continue;
            }
            if known.all.len() < METRICS_MAX && !known.names.contains(&*series.metric.name) {
                known.names.insert(series.metric.name.to_string());
                known.all.push(series.metric.clone());
            }
        }
    }

    /// Every metric.
    pub fn all(&self) -> Vec<Arc<Metric>> {
        self.read().all.clone()
    }

    /// Drops the metrics that no node has any more.
    pub fn tidy(&self) {
        let mut known = self.write();
        let Known { names, all } = &mut *known;
        all.retain(|metric| {
            let is_used = Arc::strong_count(metric) > HOLDERS_OF_UNUSED;
            if !is_used {
                names.remove(&*metric.name);
            }
            is_used
        });
    }
}

impl Known {
    fn has_all(&self, series: &[Series]) -> bool {
        let mut last: Option<&Arc<Metric>> = None;
        series.iter().all(|series| {
            let is_same = last.is_some_and(|metric| Arc::ptr_eq(metric, &series.metric));
            last = Some(&series.metric);
            is_same || self.names.contains(&*series.metric.name)
        })
    }
}
