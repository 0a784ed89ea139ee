//! The names of the nodes that an answer is about. The answer holds this list while it is written, and shows each node as it
//! is then. Knows nothing else of the nodes.

use khz_model::{NodeName, Pattern, Query};

/// Nodes in name order.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames(Vec<NodeName>);

impl NodeNames {
    /// The nodes that a hostlist selects; `None`: all.
    pub fn selected(query: &dyn Query, hostlist: Option<&Pattern>) -> Self {
        Self::known(query, |name| hostlist.is_none_or(|hosts| hosts.matches_node(name)))
    }

    /// The nodes that one of these patterns selects.
    pub fn of(query: &dyn Query, patterns: &[Pattern]) -> Self {
        Self::known(query, |name| patterns.iter().any(|pattern| pattern.matches_node(name)))
    }

    fn known(query: &dyn Query, is_wanted: impl Fn(&str) -> bool) -> Self {
        let mut names = query.nodes();
        names.retain(|name| is_wanted(name.as_str()));
        names.shrink_to_fit();
        NodeNames(names)
    }

    /// The names.
    pub fn all(&self) -> &[NodeName] {
        &self.0
    }

    /// Bytes that the list takes.
    pub fn held(&self) -> u64 {
        self.0.iter().map(|name| size_of::<NodeName>() + name.as_str().len()).sum::<usize>() as u64
    }
}
