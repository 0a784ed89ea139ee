//! The catalogue of this program version: the kernel's metrics, the agent's own, and its counts of published lines.

use std::sync::Arc;

use khz_model::Metric;
use khz_parse::KnownFiles;

use crate::{job_door, own, survey};

/// Every metric that an agent of this program version knows: the kernel's, its own, and its counts of published lines.
pub fn catalogue() -> Vec<Arc<Metric>> {
    catalogue_of(&KnownFiles::default())
}

/// The same of an agent that knows these files.
pub(crate) fn catalogue_of(known: &KnownFiles) -> Vec<Arc<Metric>> {
    let mut metrics = known.metrics();
    metrics.extend(own::metrics());
    metrics.extend(survey::metrics());
    metrics.extend(job_door::metrics());
    metrics
}
