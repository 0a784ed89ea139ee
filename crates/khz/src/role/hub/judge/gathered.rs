//! The names of all numbers that nodes can gather, as rules use them. Which node gathers which number is not known here.

use std::collections::HashSet;

use khz_model::ValueType;

/// The names under which nodes have numbers.
pub(crate) struct Gathered(HashSet<String>);

impl Gathered {
    /// khz's own names and those of node_exporter.
    pub fn new() -> Self {
        let metrics = khz_parse::catalogue();
        let numbers = metrics.iter().filter(|metric| metric.value_type != ValueType::Labels);
        let names =
            numbers.flat_map(|metric| [&metric.name, &metric.exposition.name].map(ToString::to_string));
        Gathered(names.collect())
    }

    /// Whether nodes may have numbers of this name. Nodes publish names that begin with `job.`, or with `khz_job_` in the
    /// Prometheus form.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name) || PUBLISHED.iter().any(|begin| name.starts_with(begin))
    }
}

/// How names of published numbers begin.
const PUBLISHED: [&str; 2] = ["job.", "khz_job_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_what_they_gather_and_what_is_published_by_both_of_its_names() {
        let gathered = Gathered::new();
        for name in ["node_load1", "mem.free", "job.q", "khz_job_q"] {
            assert!(gathered.has(name), "{name}");
        }
        for name in ["up", "ALERTS", "khz_jobs", "node:load:rate5m"] {
            assert!(!gathered.has(name), "{name}");
        }
    }
}
