//! A pattern selects series: `node[001-128]:cpu.*[*]`. Nodes by hostlist and glob, metrics, instances and
//! labels by glob. No brackets: all instances. No node part: all nodes. A label that is not named may have any
//! value: `[port=1]` selects that port of every device.

use std::fmt;
use std::str::FromStr;

use crate::glob::Glob;
use crate::hostlist::Hostlist;
use crate::instance_pattern::InstancePattern;
use crate::name::{Instance, NameError, Parts, is_owner};

/// A longer pattern is refused: it would cost more to match than two requests.
pub const PATTERN_MAX: usize = 4_096;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Box<str>,
    nodes: Option<Hostlist>,
    metric: Glob,
    instance: Option<InstancePattern>,
}

/// After a hostlist: all series of its nodes.
const EVERYTHING_ON_THEM: &str = ":*";

impl Pattern {
    /// Compiles `text`; the error points at the column.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.len() > PATTERN_MAX {
            return Err(NameError::new(
                &text[..text.floor_char_boundary(64)],
                64,
                format!("a pattern has at most {PATTERN_MAX} bytes"),
            ));
        }
        let parts = Parts::split(text)?;
        let nodes = match parts.node {
            None => None,
            Some(nodes) => Some(node_pattern(text, nodes)?),
        };
        check_metric_glob(text, &parts)?;
        let instance = match parts.instance {
            None => None,
            Some(written) => Some(InstancePattern::parse(written, parts.instance_at, text)?),
        };
        Ok(Pattern { text: text.into(), nodes, metric: Glob::new(parts.metric), instance })
    }

    /// Everything on the nodes of this hostlist. An error shows the hostlist as it was written.
    pub fn of_nodes(hosts: &str) -> Result<Self, NameError> {
        Pattern::new(&format!("{hosts}{EVERYTHING_ON_THEM}")).map_err(|error| {
            let written = error.text.strip_suffix(EVERYTHING_ON_THEM).unwrap_or(&error.text);
            NameError::new(written, error.at, error.problem.as_str())
        })
    }

    /// The pattern that selects every series.
    pub fn everything() -> Self {
        Pattern { text: "*".into(), nodes: None, metric: Glob::new("*"), instance: None }
    }

    /// The node part, if one was written.
    pub fn nodes(&self) -> Option<&Hostlist> {
        self.nodes.as_ref()
    }

    /// The metric part, as it was written.
    pub fn metric(&self) -> &str {
        self.metric.as_str()
    }

    /// The instance part, as it was written: escaped. `None`: all.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_ref()?;
        let open = self.text.rfind('[')?;
        self.text[open..].strip_prefix('[')?.strip_suffix(']')
    }

    /// The pattern without its node part: the series that it selects on each node.
    pub fn series(&self) -> &str {
        match &self.nodes {
            Some(nodes) => &self.text[nodes.as_str().len() + 1..],
            None => &self.text,
        }
    }

    /// The same pattern for all nodes.
    pub fn of_any_node(&self) -> Pattern {
        let text = self.series().into();
        Pattern { text, nodes: None, metric: self.metric.clone(), instance: self.instance.clone() }
    }

    /// The text of the same pattern for another metric.
    pub(crate) fn with_metric(&self, metric: &str) -> String {
        let nodes = &self.text[..self.text.len() - self.series().len()];
        format!("{nodes}{metric}{}", &self.series()[self.metric().len()..])
    }

    /// The text of the same pattern for another instance, which is escaped.
    pub(crate) fn with_instance(&self, instance: &str) -> String {
        let nodes = &self.text[..self.text.len() - self.series().len()];
        format!("{nodes}{}[{instance}]", self.metric())
    }

    /// Several patterns in one text, such as a setting. `;` and line ends separate patterns. So does a comma
    /// outside brackets, unless the word before it can only be a host: a word without dots and globs, which
    /// no metric is.
    pub fn list(text: &str) -> Result<Vec<Pattern>, NameError> {
        let pieces = text.split([';', '\n']).flat_map(pieces).map(str::trim);
        pieces.filter(|piece| !piece.is_empty()).map(Pattern::new).collect()
    }

    /// True when the node of that name is selected. An owner of recorded series is no node: only a pattern that spells out all its
    /// names selects it.
    pub fn matches_node(&self, node: &str) -> bool {
        match &self.nodes {
            None => !is_owner(node),
            Some(nodes) => nodes.matches(node) && (!is_owner(node) || nodes.is_countable()),
        }
    }

    /// True when the metric of that name is selected, for some instance.
    pub fn matches_metric(&self, metric: &str) -> bool {
        self.metric.matches(metric)
    }

    /// True when the series without its node is selected.
    pub fn matches_series(&self, metric: &str, instance: Option<&Instance>) -> bool {
        self.metric.matches(metric)
            && match (&self.instance, instance) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(pattern), Some(instance)) => pattern.matches(instance),
            }
    }
}

/// The texts between two `;`.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut word) = (Vec::new(), 0, 0);
    let mut is_inside = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => is_inside = true,
            b']' => is_inside = false,
            b',' if !is_inside => {
                if !is_host(text[word..at].trim()) {
                    pieces.push(&text[from..at]);
                    from = at + 1;
                }
                word = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

/// A word that names a host and cannot be a metric or end a pattern.
fn is_host(word: &str) -> bool {
    !word.is_empty() && !word.contains(['.', '*', '?', ':'])
}

fn node_pattern(text: &str, nodes: &str) -> Result<Hostlist, NameError> {
    if nodes.is_empty() {
        return Err(NameError::new(
            text,
            0,
            "the node before ':' is missing; leave ':' out to mean all nodes",
        ));
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._*?[],".contains(&b);
    if let Some(at) = nodes.bytes().position(|b| !fits(b)) {
        return Err(NameError::new(
            text,
            at,
            "a node name has letters, digits, '-', '.', '_'; a hostlist also [ ] , * ?",
        ));
    }
    Hostlist::new(nodes).map_err(|e| NameError::new(text, e.at, e.problem))
}

fn check_metric_glob(text: &str, parts: &Parts<'_>) -> Result<(), NameError> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.*?".contains(&b);
    match parts.metric.bytes().position(|b| !fits(b)) {
        None => Ok(()),
        Some(at) => Err(NameError::new(
            text,
            parts.metric_at + at,
            match parts.metric.as_bytes()[at] {
                b',' => {
                    "a pattern has one metric; hosts are separated by commas before ':', as n1,n[3-5]:load.1m"
                }
                _ => "a metric pattern is lower-case words with dots, and * or ?, as net.rx_*",
            },
        )),
    }
}

impl FromStr for Pattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Pattern::new(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Nodes that the patterns name one by one. All lists together may name as many as one list may
/// ([`crate::hostlist::EXPAND_MAX`]).
pub fn named_nodes(patterns: &[Pattern]) -> Vec<String> {
    let mut room = crate::hostlist::EXPAND_MAX;
    patterns.iter().filter_map(Pattern::nodes).flat_map(|nodes| nodes.named_within(&mut room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_hostlist_shows_what_was_written() {
        for written in ["n[4-", "n[4-1]", "", "n1/x"] {
            let error = Pattern::of_nodes(written).unwrap_err();
            assert_eq!(error.text, written, "{error}");
            assert!(error.at <= written.len(), "{error}");
        }
        assert_eq!(Pattern::of_nodes("n[1-3]").unwrap(), Pattern::new("n[1-3]:*").unwrap());
    }
    use proptest::prelude::*;

    fn matches(pattern: &Pattern, metric: &str, instance: Option<&str>) -> bool {
        let instance = instance.map(|name| Instance::from_kernel(name.as_bytes()));
        pattern.matches_series(metric, instance.as_ref())
    }

    #[test]
    fn the_whole_form() {
        let pattern = Pattern::new("node[001-128]:cpu.*[*]").unwrap();
        assert!(pattern.matches_node("node007") && !pattern.matches_node("node7"));
        assert!(matches(&pattern, "cpu.user", Some("3")));
        assert!(!matches(&pattern, "cpu.all.user", None), "[*] asks for an instance");
    }

    #[test]
    fn no_brackets_means_all_instances_and_none() {
        let pattern = Pattern::new("cpu.*").unwrap();
        assert!(matches(&pattern, "cpu.user", Some("3")) && matches(&pattern, "cpu.all.user", None));
        assert!(pattern.matches_node("anything"));
    }

    #[test]
    fn an_escaped_star_is_only_a_star() {
        let pattern = Pattern::new("net.rx_bytes[a%2A]").unwrap();
        assert!(
            matches(&pattern, "net.rx_bytes", Some("a*")) && !matches(&pattern, "net.rx_bytes", Some("ab"))
        );
        let glob = Pattern::new("net.rx_bytes[*%3A1]").unwrap();
        assert!(
            matches(&glob, "net.rx_bytes", Some("eth0:1")) && !matches(&glob, "net.rx_bytes", Some("eth0"))
        );
    }

    #[test]
    fn hosts_have_commas_of_their_own() {
        let pattern = Pattern::new("node[001-003,7],node005:net.rx_*[a%2Cb]").unwrap();
        for (node, expected) in [("node002", true), ("node7", true), ("node005", true), ("node004", false)] {
            assert_eq!(pattern.matches_node(node), expected, "{node}");
        }
        assert!(matches(&pattern, "net.rx_bytes", Some("a,b")));
        assert_eq!(pattern.series(), "net.rx_*[a%2Cb]");
        assert_eq!((pattern.metric(), pattern.instance()), ("net.rx_*", Some("a%2Cb")));
        let refused = Pattern::new("load.1m,mem.free").unwrap_err();
        assert!(refused.at == 7 && refused.problem.contains("hosts are separated by commas"), "{refused}");
    }

    #[test]
    fn several_patterns_in_one_text_are_told_apart_from_hosts() {
        for (text, expected) in [
            ("load.*,mem.free,net.*_bytes", &["load.*", "mem.free", "net.*_bytes"][..]),
            ("load.*, node[1,3]:mem.*[a]", &["load.*", "node[1,3]:mem.*[a]"]),
            ("n1,n[2-3]:load.1m,mem.free", &["n1,n[2-3]:load.1m", "mem.free"]),
            ("load.*,n1,n2:mem.free", &["load.*", "n1,n2:mem.free"]),
            ("n1.a,n2.a:load.1m;mem.free", &["n1.a", "n2.a:load.1m", "mem.free"]),
            ("*;\nn1,n2:cpu.*[0],cpu.all.*,", &["*", "n1,n2:cpu.*[0]", "cpu.all.*"]),
            ("", &[]),
        ] {
            let read: Vec<String> = Pattern::list(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn patterns_and_the_nodes_they_name_are_bounded() {
        let long = |length: usize| Pattern::new(&"m".repeat(length));
        assert!(long(PATTERN_MAX).is_ok());
        assert!(long(PATTERN_MAX + 1).is_err_and(|error| error.problem.contains("4096 bytes")));
        let patterns = ["a[1-2],b*:load.1m", "cpu.*", "c:mem.free", "n[1-65535]:mem.free"]
            .map(|text| Pattern::new(text).unwrap());
        assert_eq!(named_nodes(&patterns), ["a1", "a2", "c"], "for the last list there is no room");
        let everything = Pattern::everything();
        assert!(
            everything.matches_node("n")
                && matches(&everything, "a.b", Some("c"))
                && everything.to_string() == "*"
        );
    }

    #[test]
    fn the_same_pattern_for_another_metric_or_instance_keeps_its_nodes() {
        let pattern = Pattern::new("n[1-2]:cpu.*[3]").unwrap();
        assert_eq!(
            (pattern.with_metric("mem.*"), pattern.with_instance("4")),
            ("n[1-2]:mem.*[3]".into(), "n[1-2]:cpu.*[4]".into())
        );
        let pattern = Pattern::new("net.rx").unwrap();
        assert_eq!(
            (pattern.with_metric("net.tx"), pattern.with_instance("lo")),
            ("net.tx".into(), "net.rx[lo]".into())
        );
        assert_eq!((pattern.series(), pattern.instance(), pattern.nodes()), ("net.rx", None, None));
    }

    #[test]
    fn errors_point_at_the_column() {
        for (text, column) in [
            ("node[1-:mem.free", 5),
            ("node[8-1]:mem.free", 6),
            ("node 7:mem.free", 5),
            (":mem.free", 1),
            ("node7:", 7),
            ("n:Mem", 3),
            ("net.rx[eth0", 7),
            ("a/b:mem.free", 2),
        ] {
            let error = Pattern::new(text).unwrap_err();
            assert_eq!(error.at + 1, column, "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_series_is_matched_by_its_own_name(kernel in "\\PC{1,20}") {
            let instance = Instance::from_kernel(kernel.as_bytes());
            let pattern = Pattern::new(&format!("net.rx_bytes[{instance}]")).unwrap();
            prop_assert!(pattern.matches_series("net.rx_bytes", Some(&instance)));
        }

        #[test]
        fn no_text_makes_the_compiler_panic(text in "\\PC{0,60}") {
            if let Err(error) = Pattern::new(&text) {
                let _ = error.to_string();
            }
        }
    }
}
