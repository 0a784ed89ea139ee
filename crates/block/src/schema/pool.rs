//! Metrics that are equal, once: thousands of nodes have the same catalogue.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::Metric;

/// Metrics shared by the schemas that are decoded with it. Seeded with our own catalogue, nodes of our own version
/// cost no metric at all.
#[derive(Debug, Default)]
pub struct MetricPool {
    metrics: HashSet<Arc<Metric>>,
    /// Memory that they take.
    held: u64,
}

impl MetricPool {
    /// A pool without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shared metric that equals this one; from now on this one, if there was none.
    pub fn share(&mut self, metric: Metric) -> Arc<Metric> {
        if let Some(known) = self.metrics.get(&metric) {
            return known.clone();
        }
        let metric = Arc::new(metric);
        self.held += metric.held() as u64;
        self.metrics.insert(metric.clone());
        metric
    }

    /// Metrics in the pool.
    pub fn len(&self) -> usize {
        self.metrics.len()
    }

    /// True without metrics.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// About the memory that they take.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Lets go of metrics that nobody else holds any more.
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
