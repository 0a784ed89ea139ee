//! Names of nodes in settings: this node's, and those that a hub expects.

use khz_model::NodeName;
use khz_model::hostlist::{EXPAND_MAX, Hostlist};

/// A node name from a host name: characters that a node name cannot have become `-`.
pub fn valid_node_name(host_name: &str) -> NodeName {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = host_name.trim().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = &name[..name.len().min(khz_model::name::NODE_NAME_MAX)];
    NodeName::new(name)
        .or_else(|_| NodeName::new("localhost"))
        .expect("BUG: 'localhost' is a valid node name")
}

/// The name that is set, else one from the host name.
pub(super) fn node_name(text: &str, host_name: &str) -> Result<NodeName, String> {
    if text.is_empty() {
        return Ok(valid_node_name(host_name));
    }
    NodeName::new(text).map_err(|error| format!("'{text}': {}", error.problem))
}

/// Nodes named one by one. A glob is refused: before nodes come, nobody knows which it means.
pub(super) fn expected(text: &str) -> Result<Vec<NodeName>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let hosts = Hostlist::new(text).map_err(|error| format!("'{text}': {}", error.problem))?;
    let names = hosts.expand().ok_or_else(|| {
        format!("'{text}' does not name its nodes one by one, or more than {EXPAND_MAX}: write node[001-500]")
    })?;
    names.iter().map(|name| NodeName::new(name).map_err(|e| format!("'{name}': {}", e.problem))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_host_name_becomes_a_valid_node_name() {
        for (host, node) in
            [("web-1\n", "web-1"), ("-x", "x"), ("a b/c", "a-b-c"), ("", "localhost"), ("ä", "localhost")]
        {
            assert_eq!(valid_node_name(host).as_str(), node);
        }
        assert_eq!(valid_node_name(&"n".repeat(300)).as_str().len(), 253);
    }
}
