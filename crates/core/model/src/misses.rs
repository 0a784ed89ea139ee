//! Misses: names in patterns that nobody has, such as unknown nodes, metrics and instances. Each
//! comes with the known name that was probably meant. A known node that does not answer is not among them.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::fold::fold;
use crate::hostlist::{EXPAND_MAX, Hostlist};
use crate::look::Columns;
use crate::metric::Metric;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::query::Query;
use crate::suggest;

/// At most this many misses are listed: a reader with more has misspelt a whole list.
pub const MISSES_MAX: usize = 64;

/// The most effort for one request, in compared names and checked nodes: four patterns on the largest cluster.
/// Misses that cost more to find are not listed.
pub const EFFORT_MAX: usize = 1 << 18;

/// A longer hint cannot be taken in at a glance.
const HINT_MAX: usize = 60;

/// What is known to exist.
pub trait Known {
    /// Every node, in name order.
    fn nodes(&self) -> Vec<NodeName>;
    /// Every metric that some node may have.
    fn metrics(&self) -> Vec<Arc<Metric>>;
    /// The series of a node; nodes that are alike may share them. `None`: not known.
    fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>>;
    /// Whether the node's metrics are known.
    fn is_described(&self, node: &NodeName) -> bool {
        let _ = node;
        true
    }
}

impl<Q: Query + ?Sized> Known for &Q {
    fn nodes(&self) -> Vec<NodeName> {
        Query::nodes(*self)
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        Query::metrics(*self)
    }

    fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>> {
        Query::series(*self, node)
    }

    fn is_described(&self, node: &NodeName) -> bool {
        Query::is_described(*self, node)
    }
}

/// Something that was asked for and that nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// A node's name, a hostlist without nodes, or a pattern, as it was written.
    pub asked: String,
    /// What was probably meant.
    pub near: Option<String>,
}

/// All misses of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Nodes that nobody knows.
    pub nodes: Vec<Miss>,
    /// Patterns that select no series of the nodes they name.
    pub patterns: Vec<Miss>,
    /// Further misses, beyond [`MISSES_MAX`].
    pub more: usize,
}

/// The effort that is left for finding misses.
#[derive(Debug)]
struct Effort(Cell<usize>);

impl Effort {
    fn of(operations: usize) -> Self {
        Effort(Cell::new(operations))
    }

    /// Spends this effort; `false`: it is used up, and the result is unknown.
    fn spend(&self, operations: usize) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(operations));
        left > 0
    }
}

impl Misses {
    /// The misses of these patterns.
    pub fn of(known: &impl Known, patterns: &[Pattern]) -> Self {
        Misses::within(known, patterns, &mut { EFFORT_MAX })
    }

    /// The same within `effort`, from which it subtracts the effort used.
    pub fn within(known: &impl Known, patterns: &[Pattern], effort: &mut usize) -> Self {
        let nodes = known.nodes();
        let left = Effort::of(*effort);
        // Copying a name costs much less than comparing it.
        left.spend(nodes.len() / 16);
        let mut metrics = None;
        let mut misses = Misses::default();
        let mut asked = HashSet::new();
        // One room for all patterns together: a list of names costs as much however it is cut into patterns.
        let (mut near, mut room) = (Near::new(&nodes), EXPAND_MAX);
        for pattern in patterns {
            if let Some(hosts) = pattern.nodes() {
                for host in absent(hosts, &nodes, &mut room, &left, &mut misses.more) {
                    if asked.insert(host.clone()) {
                        misses.node(host, &mut near, &left);
                    }
                }
            }
            let meant = meant(pattern, &nodes, &left);
            let mut described = meant.filter(|node| known.is_described(node)).peekable();
            if described.peek().is_some() && asked.insert(pattern.to_string()) {
                let metrics = metrics.get_or_insert_with(|| known.metrics());
                misses.series(pattern, known, &nodes, described, metrics, &left);
            }
        }
        *effort = left.0.get();
        misses
    }

    /// The hosts of a list that are not among these nodes, which are in name order.
    pub fn of_nodes(hosts: &Hostlist, nodes: &[NodeName]) -> Self {
        let mut misses = Misses::default();
        let mut near = Near::new(nodes);
        let effort = Effort::of(EFFORT_MAX);
        for host in absent(hosts, nodes, &mut { EXPAND_MAX }, &effort, &mut misses.more) {
            misses.node(host, &mut near, &effort);
        }
        misses
    }

    /// The patterns that match none of these metric names.
    pub fn of_metric_names(names: &[&str], patterns: &[Pattern]) -> Self {
        let mut misses = Misses::default();
        for pattern in patterns {
            if !names.iter().any(|name| pattern.matches_metric(name)) && misses.has_room() {
                let near = near_metric(pattern, names);
                misses.patterns.push(Miss { asked: pattern.to_string(), near });
            }
        }
        misses
    }

    /// True when everything is there.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.patterns.is_empty() && self.more == 0
    }

    /// The misses as sentences for people.
    pub fn sentences(&self) -> Vec<String> {
        // Nodes with the same suggestion share a sentence.
        let mut alike: Vec<(&Option<String>, Vec<&str>)> = Vec::new();
        for Miss { asked, near } in &self.nodes {
            match alike.iter_mut().find(|(known, _)| *known == near) {
                Some((_, names)) => names.push(asked),
                None => alike.push((near, vec![asked])),
            }
        }
        let unnamed = |(near, names): (&Option<String>, Vec<&str>)| {
            format!("no node is called {}", Miss { asked: fold(names), near: near.clone() })
        };
        let mut sentences: Vec<String> = alike.into_iter().map(unnamed).collect();
        sentences.extend(self.patterns.iter().map(|miss| format!("nothing matches {miss}")));
        match (self.more, sentences.is_empty()) {
            (0, _) => {}
            (more, true) => sentences.push(format!("{more} of the nodes that are named are not there")),
            (more, false) => sentences.push(format!("{more} more are not there either")),
        }
        sentences
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.nodes.len() + self.patterns.len() < MISSES_MAX;
        self.more += usize::from(!has_room);
        has_room
    }

    fn node(&mut self, asked: String, near: &mut Near<'_>, effort: &Effort) {
        if self.has_room() {
            let near = near.node(&asked, effort);
            self.nodes.push(Miss { asked, near });
        }
    }

    fn series<'a>(
        &mut self,
        pattern: &Pattern,
        known: &impl Known,
        nodes: &[NodeName],
        chosen: impl Iterator<Item = &'a NodeName>,
        metrics: &[Arc<Metric>],
        effort: &Effort,
    ) {
        if !effort.spend(metrics.len()) {
            return;
        }
        let near = if metrics.iter().any(|metric| pattern.matches_metric(&metric.name)) {
            // A metric without instances at this moment is still known: a disk may be plugged in.
            if pattern.instance().is_none() {
                return;
            }
            match near_series(pattern, known, chosen, effort) {
                Found::Series => return,
                Found::Nothing { near } => near,
            }
        } else {
            let names: Vec<&str> = metrics.iter().map(|metric| &*metric.name).collect();
            let near_name = || {
                let may = effort.spend(names.len().min(suggest::KNOWN_MAX));
                if may { near_metric(pattern, &names) } else { None }
            };
            series_of_nodes(pattern, nodes, effort).or_else(near_name)
        };
        if self.has_room() {
            self.patterns.push(Miss { asked: pattern.to_string(), near });
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.asked)?;
        match &self.near {
            Some(near) if near.contains('[') && !near.contains(['.', ':']) => {
                write!(f, " (there are {near})")
            }
            Some(near) => write!(f, " (did you mean {near}?)"),
            None => Ok(()),
        }
    }
}

/// For a user who wrote nodes in place of series: all series of these nodes.
fn series_of_nodes(pattern: &Pattern, nodes: &[NodeName], effort: &Effort) -> Option<String> {
    if pattern.nodes().is_some() {
        return None;
    }
    let text = pattern.to_string();
    let hosts = Hostlist::new(&text).ok()?;
    let is_node = |node: &NodeName| effort.spend(1) && hosts.matches(node.as_str());
    nodes.iter().any(is_node).then(|| format!("{text}:*"))
}

/// The nodes that a pattern selects, as far as the effort goes. If the pattern spells out fewer names than there
/// are nodes, looks up each name.
fn meant<'a>(
    pattern: &'a Pattern,
    nodes: &'a [NodeName],
    effort: &'a Effort,
) -> Box<dyn Iterator<Item = &'a NodeName> + 'a> {
    let Some(hosts) = pattern.nodes() else { return Box::new(nodes.iter()) };
    let few = nodes.len().min(effort.0.get()) as u64;
    if hosts.names().is_some_and(|names| names <= few) {
        let names = hosts.named();
        effort.spend(names.len());
        return Box::new(names.into_iter().filter_map(|name| find(nodes, &name)));
    }
    let is_meant = |node: &&NodeName| effort.spend(hosts.hosts()) && pattern.matches_node(node.as_str());
    Box::new(nodes.iter().filter(is_meant))
}

/// The node with this name, among nodes in name order.
fn find<'a>(nodes: &'a [NodeName], name: &str) -> Option<&'a NodeName> {
    nodes.binary_search_by(|node| node.as_str().cmp(name)).ok().map(|at| &nodes[at])
}

/// The hosts of a list that are no known node: names, as far as there is room for them, and globs that match no name. If a
/// host has more names than fit, and some of them are known, the unknown ones only count as `more`.
fn absent(
    hosts: &Hostlist,
    nodes: &[NodeName],
    room: &mut usize,
    effort: &Effort,
    more: &mut usize,
) -> Vec<String> {
    let before = *room;
    *room = before.min(effort.0.get());
    let rest = before - *room;
    let whole = hosts.beyond(*room);
    let named = hosts.named_within(room);
    *room += rest;
    effort.spend(named.len());
    let mut absent: Vec<String> = named.into_iter().filter(|name| find(nodes, name).is_none()).collect();
    for list in whole {
        if !effort.spend(nodes.len()) {
            continue;
        }
        match nodes.iter().filter(|node| list.matches(node.as_str())).count() {
            0 => absent.push(list.to_string()),
            known => {
                let names = list.names().map_or(0, |names| usize::try_from(names).unwrap_or(usize::MAX));
                *more = more.saturating_add(names.saturating_sub(known));
            }
        }
    }
    absent
}

/// Known nodes, to find the one that was meant.
struct Near<'a> {
    nodes: &'a [NodeName],
    /// Nodes whose names differ only in their digits, by the rest; made at the first search.
    by_letters: Option<HashMap<String, Alike<'a>>>,
}

#[derive(Default)]
struct Alike<'a> {
    names: Vec<&'a str>,
    by_number: HashMap<u64, &'a str>,
    /// All known nodes as one hostlist, if that is short enough.
    hint: OnceCell<Option<String>>,
}

impl<'a> Near<'a> {
    fn new(nodes: &'a [NodeName]) -> Self {
        Near { nodes, by_letters: None }
    }

    /// The known node that was meant, or those that differ only in their numbers.
    fn node(&mut self, asked: &str, effort: &Effort) -> Option<String> {
        let nodes = self.nodes;
        if self.by_letters.is_none() && !effort.spend(nodes.len()) {
            return None;
        }
        let by_letters = self.by_letters.get_or_insert_with(|| by_letters(nodes));
        let Some(alike) = by_letters.get(&letters(asked)) else {
            if !effort.spend(nodes.len().min(suggest::KNOWN_MAX)) {
                return None;
            }
            return suggest::nearest(asked, nodes.iter().map(NodeName::as_str)).map(str::to_owned);
        };
        // The user wrote Login and the node is login.
        if let Some(same) = alike.names.iter().find(|name| name.eq_ignore_ascii_case(asked)) {
            return Some((*same).to_owned());
        }
        // The user wrote node1 and the node is node001.
        if let Some(same) = number(asked).and_then(|number| alike.by_number.get(&number)) {
            return Some((*same).to_owned());
        }
        let hint = alike.hint.get_or_init(|| {
            Some(fold(alike.names.iter().copied()))
                .filter(|text| text.len() <= HINT_MAX && text.contains('['))
        });
        hint.clone()
    }
}

fn by_letters(nodes: &[NodeName]) -> HashMap<String, Alike<'_>> {
    let mut all: HashMap<String, Alike<'_>> = HashMap::new();
    for name in nodes.iter().map(NodeName::as_str) {
        let alike = all.entry(letters(name)).or_default();
        alike.names.push(name);
        if let Some(number) = number(name) {
            alike.by_number.entry(number).or_insert(name);
        }
    }
    all
}

/// A name without its digits. NODE01 is like node01.
fn letters(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).flat_map(char::to_lowercase).collect()
}

fn number(name: &str) -> Option<u64> {
    name.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// The pattern with the metric that was probably meant; for a glob, with a prefix that some metrics have.
fn near_metric(pattern: &Pattern, names: &[&str]) -> Option<String> {
    let metric = pattern.metric();
    let words = metric.split('.').count();
    let is_glob = metric.contains(['*', '?']);
    let shape = |name: &str| match is_glob {
        // Compares `mme.*` with `mem.*`.
        true => format!("{}.*", name.split('.').take(words - 1).collect::<Vec<_>>().join(".")),
        false => name.to_owned(),
    };
    if is_glob && (words < 2 || !metric.ends_with(".*")) {
        return None;
    }
    let shapes: HashSet<String> = names.iter().map(|name| shape(name)).collect();
    let mut shapes: Vec<&str> = shapes.iter().map(String::as_str).collect();
    shapes.sort_unstable();
    suggest::nearest(metric, shapes).map(|near| pattern.with_metric(near))
}

/// Whether some node has a series that the pattern selects.
enum Found {
    /// Some node has, or some node's series are not known.
    Series,
    /// None has.
    Nothing {
        /// What was meant.
        near: Option<String>,
    },
}

fn near_series<'a>(
    pattern: &Pattern,
    known: &impl Known,
    chosen: impl Iterator<Item = &'a NodeName>,
    effort: &Effort,
) -> Found {
    let (mut seen, mut instances) = (HashSet::new(), HashSet::new());
    for node in chosen {
        if !effort.spend(1) {
            return Found::Series;
        }
        let Some(columns) = known.series(node) else { return Found::Series };
        if !seen.insert(Arc::as_ptr(&columns).cast::<()>()) {
            continue;
        }
        effort.spend(columns.series().len());
        for series in columns.series() {
            if pattern.matches_series(&series.metric.name, series.instance.as_ref()) {
                return Found::Series;
            }
            if pattern.matches_metric(&series.metric.name) && instances.len() < suggest::KNOWN_MAX {
                instances.extend(series.instance.as_ref().map(ToString::to_string));
            }
        }
    }
    let mut instances: Vec<&str> = instances.iter().map(String::as_str).collect();
    instances.sort_unstable();
    let near = pattern.instance().and_then(|asked| suggest::nearest(asked, instances));
    Found::Nothing { near: near.map(|near| pattern.with_instance(near)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Exposition, Kind, Origin, Refresh, Unit};
    use crate::schema::Series;
    use crate::value_type::ValueType;
    use std::borrow::Cow;

    struct Cluster;

    fn metric(name: &'static str) -> Arc<Metric> {
        let text = Cow::Borrowed;
        Arc::new(Metric {
            name: text(name),
            kind: Kind::Gauge,
            unit: Unit::Count,
            value_type: ValueType::Unsigned,
            labels_from: None,
            places: 0,
            max: None,
            refresh: Refresh::Event,
            help: text(""),
            origin: Origin { file: text("x"), field: text(name) },
            instances: None,
            exposition: Exposition {
                name: text(name),
                help: None,
                labels: Cow::Borrowed(&[]),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: text(name),
        })
    }

    impl Known for Cluster {
        fn nodes(&self) -> Vec<NodeName> {
            let names = ["gpu01", "gpu02", "login", "node001", "node002", "node003"];
            names.map(|name| NodeName::new(name).unwrap()).to_vec()
        }

        fn metrics(&self) -> Vec<Arc<Metric>> {
            ["mem.free", "mem.total", "net.rx_bytes", "load.1m", "disk.reads"].map(metric).to_vec()
        }

        fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>> {
            let series = |name, instance: Option<&str>| Series {
                metric: metric(name),
                instance: instance.map(|name| crate::Instance::from_kernel(name.as_bytes())),
            };
            let columns = vec![
                series("mem.free", None),
                series("mem.total", None),
                series("load.1m", None),
                series("net.rx_bytes", Some("eth0")),
                series("net.rx_bytes", Some("lo")),
            ];
            (node.as_str() != "login").then(|| Arc::new(columns) as Arc<dyn Columns>)
        }
    }

    #[test]
    fn misses_are_told_apart_and_name_the_word_that_was_meant() {
        for (patterns, expected) in [
            (&["mem.*", "node[001-003]:load.1m", "gpu*:net.rx_bytes[eth0]"][..], &[][..]),
            (&["mem.fre"], &["nothing matches mem.fre (did you mean mem.free?)"]),
            (&["node001:mme.*"], &["nothing matches node001:mme.* (did you mean node001:mem.*?)"]),
            (
                &["node*:net.rx_bytes[eht0]"],
                &["nothing matches node*:net.rx_bytes[eht0] (did you mean node*:net.rx_bytes[eth0]?)"],
            ),
            (&["zebra.stripes"], &["nothing matches zebra.stripes"]),
            (&["node001:disk.reads"], &[]),
            (&["node001:disk.reads[sda]"], &["nothing matches node001:disk.reads[sda]"]),
            (&["logn:load.1m"], &["no node is called logn (did you mean login?)"]),
            (&["gpu1:load.1m"], &["no node is called gpu1 (did you mean gpu01?)"]),
            (
                &["GPU01,Login:load.1m"],
                &[
                    "no node is called GPU01 (did you mean gpu01?)",
                    "no node is called Login (did you mean login?)",
                ],
            ),
            (&["node009:load.1m"], &["no node is called node009 (there are node[001-003])"]),
            (&["node001,storage[1-3]:load.1m"], &["no node is called storage[1-3]"]),
            (&["x*,gpu01:load.1m"], &["no node is called x*"]),
            (&["login:disk.reads[sda]"], &[]),
        ] {
            let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
            assert_eq!(Misses::of(&Cluster, &patterns).sentences(), expected, "{patterns:?}");
        }
    }

    #[test]
    fn a_list_of_unknown_nodes_is_bounded() {
        let pattern = Pattern::new("x[1-5000]:load.1m").unwrap();
        let misses = Misses::of(&Cluster, &[pattern]);
        assert_eq!((misses.nodes.len(), misses.more), (MISSES_MAX, 5000 - MISSES_MAX));
    }

    #[test]
    fn lists_that_name_the_same_nodes_again_and_again_cost_no_more_than_one() {
        let text = format!("{}x:load.1m", "n[0-65535],".repeat(300));
        let patterns = vec![Pattern::new(&text).unwrap(); 60];
        let misses = Misses::of(&Cluster, &patterns);
        assert_eq!(misses.nodes.len(), MISSES_MAX);
        // At most one list's worth of names, into however many lists they are cut, and the lists themselves.
        assert!(misses.nodes.len() + misses.more <= EXPAND_MAX + 2, "{}", misses.more);
    }

    #[test]
    fn a_list_for_whose_names_there_is_no_room_is_a_miss_as_a_whole() {
        let sentences = |text: &str| {
            let pattern = Pattern::new(text).unwrap();
            let misses = Misses::of(&Cluster, &[pattern]);
            misses.nodes.into_iter().map(|miss| miss.asked).collect::<Vec<_>>()
        };
        assert_eq!(sentences("gpu01,x[1-70000]:load.1m"), ["x[1-70000]"]);
        let hosts = Hostlist::new("gpu[01-02],x[1-2],node[001-003]").unwrap();
        assert_eq!(absent(&hosts, &Cluster.nodes(), &mut 2, &Effort::of(1_000), &mut 0), ["x[1-2]"]);
    }

    #[test]
    fn of_a_list_for_whose_names_there_is_no_room_those_that_nobody_has_are_counted_though_some_are_there() {
        let hosts = Hostlist::new("node[001-99999]").unwrap();
        let misses = Misses::of_nodes(&hosts, &Cluster.nodes());
        assert!(!misses.is_empty() && misses.nodes.is_empty());
        assert_eq!(misses.sentences(), ["99996 of the nodes that are named are not there"]);
        let patterns = ["node[001-99999],x:load.1m"].map(|text| Pattern::new(text).unwrap());
        let misses = Misses::of(&Cluster, &patterns);
        assert_eq!(misses.sentences(), ["no node is called x", "99996 more are not there either"]);
    }

    #[test]
    fn nodes_where_series_belong_are_taken_for_all_series_of_these_nodes() {
        for (text, expected) in [
            ("gpu01", "nothing matches gpu01 (did you mean gpu01:*?)"),
            ("gpu[01-02]", "nothing matches gpu[01-02] (did you mean gpu[01-02]:*?)"),
            ("gpu*", "nothing matches gpu* (did you mean gpu*:*?)"),
            ("gpu03", "nothing matches gpu03"),
            ("login:gpu01", "nothing matches login:gpu01"),
        ] {
            let pattern = Pattern::new(text).unwrap();
            assert_eq!(Misses::of(&Cluster, &[pattern]).sentences(), [expected]);
        }
    }
}
