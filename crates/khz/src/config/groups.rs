//! Groups of nodes: the table `[groups]`, a name and a hostlist each. They are only for people: doors show them, and nothing else
//! depends on them.

use khz_http::NodeGroup;
use khz_model::hostlist::Hostlist;

use super::values::bad;
use super::{ConfigError, Value};

/// Groups of one file: more racks than any page has blocks for.
const GROUPS_MAX: usize = 512;
/// Bytes of a group's name: a heading of a page.
const GROUP_NAME_MAX: usize = 64;

/// Checks the table. A node may be in several groups.
pub(super) fn groups(keys: &[(String, Value)]) -> Result<Vec<NodeGroup>, ConfigError> {
    let mut groups = Vec::new();
    for (name, hosts) in keys {
        let key = format!("groups.{name}");
        let wrong = |problem: String| Err(bad(&key, hosts, problem));
        if groups.len() == GROUPS_MAX {
            return wrong(format!("there are more than {GROUPS_MAX} groups"));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if name.is_empty() || name.len() > GROUP_NAME_MAX || !name.chars().all(fits) {
            return wrong(format!(
                "a group has a name of letters, digits, '-', '.' and '_', as rack1, with at most {GROUP_NAME_MAX} characters"
            ));
        }
        if hosts.text.trim().is_empty() {
            return wrong("a group names its nodes, as node[001-032]".to_owned());
        }
        if let Err(error) = Hostlist::new(&hosts.text) {
            return wrong(format!("'{}': {}", hosts.text, error.problem));
        }
        groups.push(NodeGroup { name: name.clone(), nodes: hosts.text.clone() });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn checked(keys: &[(&str, &str)]) -> Result<Vec<NodeGroup>, String> {
        let value = |text: &str| Value { text: text.to_owned(), origin: Origin::Default };
        let keys: Vec<(String, Value)> =
            keys.iter().map(|(name, hosts)| ((*name).to_owned(), value(hosts))).collect();
        groups(&keys).map_err(|error| error.to_string())
    }

    #[test]
    fn groups_keep_their_order_and_may_share_nodes() {
        let found =
            checked(&[("rack2", "node[033-064]"), ("rack1", "node[001-032]"), ("gpu", "gpu*,node001")]);
        let names: Vec<String> = found.unwrap().into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["rack2", "rack1", "gpu"]);
    }

    #[test]
    fn wrong_names_and_hostlists_are_refused_with_their_key() {
        let long = "n".repeat(65);
        for (name, hosts, expected) in [
            ("rack 1", "node1", "a group has a name of letters"),
            (long.as_str(), "node1", "at most 64 characters"),
            ("rack1", "node[4-1]", "groups.rack1"),
            ("rack1", "", "groups.rack1"),
        ] {
            let error = checked(&[(name, hosts)]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
