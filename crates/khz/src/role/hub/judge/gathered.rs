//! The names of what nodes gather, as rules use them. Which nodes gather what is not known here.

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

    /// Whether nodes may have numbers of this name. They publish those that begin with `job.`.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name) || name.starts_with("job.")
    }
}
