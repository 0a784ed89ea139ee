//! A source's knowledge before it reads: metrics, the job, the present time, nodes. It turns a condition on `instance` into
//! hostlists. A hostlist may select more nodes than the condition, never fewer.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::{Metric, Nanos, NodeName, NodeStatus, Presence, Query};
use khz_promql::{Expression, Matcher, Operator};

use crate::limits::HOSTLIST_BYTES;

/// The knowledge at the moment of a question.
#[derive(Clone)]
pub struct Known {
    /// The metrics: those of nodes, each name once.
    pub metrics: Vec<Arc<Metric>>,
    /// The label `job` of all series.
    pub job: Arc<str>,
    /// The present time (since 1970): no series ends after it.
    pub now: Nanos,
    /// The nodes.
    pub roster: Roster,
    /// The owners of recorded series.
    pub owners: Vec<NodeName>,
}

/// The nodes that are known; of those that are not there, since when (since 1970).
#[derive(Clone)]
pub enum Roster {
    /// These.
    Listed(Vec<(NodeName, Option<Nanos>)>),
    /// The nodes of a running khz. It is asked only if needed, since thousands of nodes take a while.
    Of(Arc<dyn Query>),
}

impl Roster {
    /// The nodes.
    pub(crate) fn nodes(&self, now: Nanos) -> Vec<(NodeName, Option<Nanos>)> {
        match self {
            Roster::Listed(nodes) => nodes.clone(),
            Roster::Of(query) => {
                let since = |status: &NodeStatus| now.since(status.since.unwrap_or(now));
                let is_down = |status: &NodeStatus| status.presence() != Presence::Up;
                let node = |status: NodeStatus| (is_down(&status).then(|| since(&status)), status.node);
                query.status().into_iter().map(node).map(|(since, node)| (node, since)).collect()
            }
        }
    }
}

impl Known {
    /// The knowledge of a running khz.
    pub fn of(query: Arc<dyn Query>, job: Arc<str>, now: Nanos) -> Self {
        let mut metrics = query.metrics();
        let known: HashSet<&str> = metrics.iter().map(|metric| &*metric.name).collect();
        // Nodes that had them may be gone.
        let mut others = query.past_metrics();
        others.retain(|metric| !known.contains(&*metric.name));
        metrics.extend(others);
        Known { metrics, job, now, owners: query.owners(), roster: Roster::Of(query) }
    }
}

/// Which nodes can be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// All.
    All,
    /// Those of these hostlists; of none if there is none.
    Listed(Vec<String>),
}

impl Nodes {
    /// These.
    pub fn these(nodes: &[NodeName]) -> Self {
        Nodes::Listed(hostlists(nodes.iter().map(ToString::to_string).collect()))
    }

    /// The nodes that conditions on `instance` can mean.
    pub fn of<'a>(conditions: impl Iterator<Item = &'a Matcher>) -> Self {
        let mut chosen = Nodes::All;
        for matcher in conditions {
            let listed = match &matcher.operator {
                Operator::Equal => Some(vec![matcher.value.clone()]),
                Operator::Fits(expression) => named(expression).or_else(|| globs(&matcher.value)),
                Operator::NotEqual | Operator::FitsNot(_) => None,
            };
            let Some(mut listed) = listed else { continue };
            listed.retain(|glob| is_of_a_node(glob));
            // All conditions must hold: the first that lists some is narrow enough, and each series is checked again.
            if chosen == Nodes::All {
                chosen = Nodes::Listed(hostlists(listed));
            }
        }
        chosen
    }
}

/// All names that the expression fits, in their order; `None`: it may fit others.
fn named(expression: &Expression) -> Option<Vec<String>> {
    let mut names: Vec<String> = expression.names()?.map(str::to_owned).collect();
    names.sort_unstable();
    Some(names)
}

fn is_of_a_node(glob: &str) -> bool {
    !glob.is_empty() && glob.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._*?".contains(&b))
}

/// Names joined with commas. Each list has as many as fit into a pattern.
fn hostlists(names: Vec<String>) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        match lists.last_mut().filter(|list| list.len() + name.len() < HOSTLIST_BYTES) {
            Some(list) => {
                list.push(',');
                list.push_str(&name);
            }
            None => lists.push(name),
        }
    }
    lists
}

/// Globs that together select all that the regular expression fits; `None`: that may be anything.
fn globs(regex: &str) -> Option<Vec<String>> {
    if regex.contains("(?") {
        return None;
    }
    let whole = regex.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    // `(a|b)` and `a|b`, but not `(a)|(b)`.
    let inner = whole.filter(|inner| alternatives(inner).is_some_and(|found| !found.is_empty()));
    let globs: Vec<String> = alternatives(inner.unwrap_or(regex))?.into_iter().map(glob).collect();
    (!globs.iter().any(|glob| glob == "*")).then_some(globs)
}

/// The alternatives between the `|` outside brackets; `None`: brackets do not fit together.
fn alternatives(regex: &str) -> Option<Vec<&str>> {
    let (mut found, mut from, mut depth, mut is_escaped, mut is_class) =
        (Vec::new(), 0, 0usize, false, false);
    for (at, c) in regex.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' => is_class = false,
            _ if is_class => {}
            '[' => is_class = true,
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '|' if depth == 0 => {
                found.push(&regex[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&regex[from..]);
    (depth == 0 && !is_class).then_some(found)
}

/// A glob that selects at least what the expression matches. From the first part that it does not understand, it has a star.
fn glob(regex: &str) -> String {
    let mut glob = String::new();
    let mut rest = regex.chars().peekable();
    while let Some(c) = rest.next() {
        let one = match c {
            '.' => '?',
            '\\' => match rest.next() {
                Some(c) if !c.is_ascii_alphanumeric() => c,
                _ => return glob + "*",
            },
            c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => c,
            _ => return glob + "*",
        };
        match rest.peek() {
            // Any number of it, perhaps none.
            Some('*' | '?' | '{' | '+') if one != '?' => return glob + "*",
            Some('*' | '+' | '?') => {
                rest.next();
                // Lazy or not, it fits the same texts.
                if rest.peek() == Some(&'?') {
                    rest.next();
                }
                glob.push('*');
            }
            Some('{') => return glob + "*",
            _ => glob.push(one),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(operator: &str, value: &str) -> Nodes {
        let matcher = Matcher::new("instance", operator, value).unwrap().unwrap();
        Nodes::of([&matcher].into_iter())
    }

    #[test]
    fn conditions_on_the_instance_become_hostlists_that_select_no_fewer_nodes() {
        for (operator, value, expected) in [
            ("=", "n1", Some("n1")),
            ("=~", "n1|n2", Some("n1,n2")),
            ("=~", "(n1|n2)", Some("n1,n2")),
            ("=~", r"n1\.example|n-2", Some("n-2,n1.example")),
            ("=~", "n1.example|n-2", Some("n1?example,n-2")),
            ("=~", "n1.example", Some("n1?example")),
            ("=~", "n1.*", Some("n1*")),
            ("=~", "n1.+?x", Some("n1*x")),
            ("=~", "n[12]", Some("n1,n2")),
            ("=~", "n12?", Some("n1,n12")),
            ("=~", "n[0-9]{4}", Some("n*")),
            ("=~", "n12*", Some("n1*")),
            ("=~", "rack(1|2).*", Some("rack*")),
            ("=~", "(a)|(b)", Some("a,b")),
            ("=~", "(a.)|(b.)", None),
            ("=~", ".*", None),
            ("=~", "(?i)n1", Some("N1,n1")),
            ("=~", "(?i)n1.*", None),
            ("!=", "n1", None),
            ("!~", "n1", None),
        ] {
            let expected = expected.map_or(Nodes::All, |listed| Nodes::Listed(vec![listed.to_owned()]));
            assert_eq!(listed(operator, value), expected, "{operator}{value}");
        }
        for nobody in ["", "a b", "ü", "n1:9100"] {
            assert_eq!(listed("=", nobody), Nodes::Listed(Vec::new()), "{nobody}");
        }
        let many: Vec<String> = (1_000..3_000).map(|n| format!("node{n}")).collect();
        let Nodes::Listed(lists) = listed("=~", &many.join("|")) else { panic!() };
        assert!(lists.len() > 1 && lists.iter().all(|list| list.len() <= HOSTLIST_BYTES));
        assert_eq!(lists.join(","), many.join(","));
    }
}
