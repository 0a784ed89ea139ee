//! Equal metrics, stored once: thousands of nodes have the same catalogue.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::Metric;

/// Metrics shared by the schemas that are decoded with it. Seed it with this program's catalogue, and nodes
/// of the same version need no metric of their own.
#[derive(Debug, Default)]
pub struct MetricPool {
    metrics: HashSet<Arc<Metric>>,
    /// The memory of the metrics.
    held: u64,
}

impl MetricPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the pool's metric that equals this one; without such a metric, adds this one.
    pub fn share(&mut self, metric: Metric) -> Arc<Metric> {
        if let Some(known) = self.metrics.get(&metric) {
            return known.clone();
        }
        let metric = Arc::new(metric);
        self.held += metric.held() as u64;
        self.metrics.insert(metric.clone());
        metric
    }

    /// The number of metrics in the pool.
    pub fn len(&self) -> usize {
        self.metrics.len()
    }

    /// True when the pool has no metric.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The approximate memory of its metrics.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Drops metrics that only the pool still holds.
    pub fn forget_unused(&mut self) {
        self.metrics.retain(|metric| Arc::strong_count(metric) > 1);
        self.metrics.shrink_to_fit();
        self.held = self.metrics.iter().map(|metric| metric.held() as u64).sum();
    }
}

impl FromIterator<Arc<Metric>> for MetricPool {
    fn from_iter<I: IntoIterator<Item = Arc<Metric>>>(metrics: I) -> Self {
        let metrics: HashSet<Arc<Metric>> = metrics.into_iter().collect();
        let held = metrics.iter().map(|metric| metric.held() as u64).sum();
        MetricPool { metrics, held }
    }
}
