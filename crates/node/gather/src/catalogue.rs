//! The catalogue of this program version: the kernel's metrics and the agent's own.

use std::sync::Arc;

use khz_model::Metric;

use crate::own;

/// Every metric that an agent of this program version knows: the kernel's and its own.
pub fn catalogue() -> Vec<Arc<Metric>> {
    let mut metrics = khz_parse::catalogue();
    metrics.extend(own::metrics());
    metrics
}
