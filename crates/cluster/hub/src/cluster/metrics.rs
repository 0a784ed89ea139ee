//! The metrics that nodes of the cluster have, each once: as the newest schema that has it says. An agent that is started again may give a
//! name another type, or another help.

use std::collections::HashMap;
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
    /// Where each name is in the list.
    names: HashMap<String, usize>,
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
            // The results of rules that nodes send are only for the hub itself.
            if is_of_rules(&series.metric.name) {
                continue;
            }
            known.note(&series.metric);
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
        all.retain(|metric| Arc::strong_count(metric) > HOLDERS_OF_UNUSED);
        names.clear();
        names.extend(all.iter().enumerate().map(|(at, metric)| (metric.name.to_string(), at)));
    }
}

impl Known {
    fn note(&mut self, metric: &Arc<Metric>) {
        match self.names.get(&*metric.name) {
            Some(&at) => {
                if let Some(known) = self.all.get_mut(at).filter(|known| *known != metric) {
                    *known = metric.clone();
                }
            }
            None if self.all.len() < METRICS_MAX => {
                self.names.insert(metric.name.to_string(), self.all.len());
                self.all.push(metric.clone());
            }
            None => {}
        }
    }

    fn has_all(&self, series: &[Series]) -> bool {
        let mut last: Option<&Arc<Metric>> = None;
        series.iter().all(|series| {
            let is_same = last.is_some_and(|metric| Arc::ptr_eq(metric, &series.metric));
            last = Some(&series.metric);
            let known = || self.names.get(&*series.metric.name).and_then(|at| self.all.get(*at));
            is_same || known().is_some_and(|known| *known == series.metric)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str, help: &'static str) -> Series {
        let metric = khz_parse::catalogue()[0].as_ref().clone();
        Series { metric: Arc::new(Metric { name: name.into(), help: help.into(), ..metric }), instance: None }
    }

    #[test]
    fn a_metric_is_as_the_newest_schema_says_and_is_dropped_with_the_last_one() {
        let metrics = Metrics::default();
        let (first, other, again) = (named("a", "one"), named("b", "two"), named("a", "three"));
        metrics.note(&[first.clone(), other.clone()]);
        metrics.note(std::slice::from_ref(&again));
        let shown = |metrics: &Metrics| -> Vec<(String, String)> {
            metrics.all().iter().map(|one| (one.name.to_string(), one.help.to_string())).collect()
        };
        assert_eq!(shown(&metrics), [("a".into(), "three".into()), ("b".into(), "two".into())]);
        // The list, and what a schema would hold.
        let held = (again.metric.clone(), other.metric.clone());
        metrics.tidy();
        assert_eq!(metrics.all().len(), 2);
        drop((held.0, again));
        metrics.tidy();
        assert_eq!(shown(&metrics), [("b".into(), "two".into())]);
        metrics.note(&[first]);
        assert_eq!(shown(&metrics), [("b".into(), "two".into()), ("a".into(), "one".into())]);
    }
}
