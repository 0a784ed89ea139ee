//! What the tree wants of the cluster, made of what readers have open and have looked at. However many files that
//! are, the wishes are few: one a node, then one for all nodes; one for all that want the same rate of the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use khz_model::Rate;

use super::Tree;
use crate::inode::{Inode, NodeId};
use crate::limits::{LEASE, NODE_WISHES_MAX, PATTERNS_MAX, RATE_WISHES_MAX};
use crate::names::Names;
use crate::source::{TextWish, Wish};

/// Bytes of one pattern: the longest that the link takes, less a metric and an instance.
const HOSTLIST_MAX: usize = khz_model::pattern::PATTERN_MAX - 1_024;

/// What is to be said to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Wants rows.
    Ask(Wish),
    /// Does not want them any more.
    Dismiss(u32),
    /// Wants to know how the nodes are, or not.
    Roster(bool),
    /// Wants a kernel file, or the same at another pace.
    Read(TextWish),
    /// Wants the file of such a wish to be read at once.
    ReadNow(u32, u32),
    /// Does not want it any more.
    Unread(u32),
}

/// What a wish is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Everything of one node.
    Node(NodeId),
    /// Everything of all nodes.
    Everything,
    /// One metric of all nodes.
    Metric(String),
    /// These patterns at a rate.
    Rate(u64, Vec<String>),
}

/// The wishes that the source knows.
#[derive(Debug, Default)]
pub struct Wishes {
    asked: BTreeMap<Purpose, u32>,
    by_number: HashMap<u32, Purpose>,
    made: u32,
    /// Something was opened, closed, set or left since they were made.
    pub stale: bool,
}

impl Wishes {
    /// The metric whose `.by` file a wish is for.
    pub fn metric_of(&self, wish: u32) -> Option<&str> {
        match self.by_number.get(&wish)? {
            Purpose::Metric(metric) => Some(metric),
            _ => None,
        }
    }

    /// True when the lanes of a wish have all series of their nodes.
    pub fn is_of_everything(&self, wish: u32) -> bool {
        matches!(self.by_number.get(&wish), Some(Purpose::Node(_) | Purpose::Everything))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.asked.len()
    }
}

impl Tree {
    /// A node was looked at: it is wanted for a while.
    pub(super) fn want_node(&mut self, id: NodeId, now: Instant) {
        let Some(node) = self.node_mut(id) else { return };
        let is_new = node.leased_until.is_none() && node.handles == 0;
        node.leased_until = Some(now + LEASE);
        self.wishes.stale |= is_new;
    }

    /// Makes the wishes anew where something has changed, and says the difference.
    pub(super) fn renew_wishes(&mut self) {
        if !std::mem::take(&mut self.wishes.stale) {
            return;
        }
        let wanted = self.purposes();
        let gone: Vec<Purpose> =
            self.wishes.asked.keys().filter(|known| !wanted.contains(known)).cloned().collect();
        for purpose in wanted {
            self.ask(purpose);
        }
        let gone: Vec<u32> = gone.iter().filter_map(|purpose| self.wishes.asked.remove(purpose)).collect();
        for &number in &gone {
            self.wishes.by_number.remove(&number);
            self.work.orders.push(Order::Dismiss(number));
        }
        if !gone.is_empty() {
            self.forget_wishes(&gone);
        }
    }

    fn ask(&mut self, purpose: Purpose) {
        if self.wishes.asked.contains_key(&purpose) {
            return;
        }
        self.wishes.made += 1;
        let number = self.wishes.made;
        let (patterns, rate) = match &purpose {
            Purpose::Node(id) => {
                let list = self.roster.list;
                let node = self.node_mut(*id).map(|node| {
                    node.asked_in = list;
                    format!("{}:*", node.name)
                });
                (node.into_iter().collect(), None)
            }
            Purpose::Everything => {
                self.nodes.iter_mut().for_each(|node| node.asked_in = self.roster.list);
                (vec!["*".to_owned()], None)
            }
            Purpose::Metric(metric) => (vec![metric.clone()], None),
            Purpose::Rate(period, patterns) => {
                (patterns.clone(), Rate::from_period(khz_model::Nanos(*period)))
            }
        };
        self.wishes.asked.insert(purpose.clone(), number);
        self.wishes.by_number.insert(number, purpose);
        self.work.orders.push(Order::Ask(Wish { number, patterns, rate }));
    }

    fn purposes(&mut self) -> Vec<Purpose> {
        let mut purposes: Vec<Purpose> =
            self.by.wanted().map(|metric| Purpose::Metric(metric.to_owned())).collect();
        let ids = (1..).map(NodeId);
        let is_wanted = |node: &super::Node| node.handles > 0 || node.leased_until.is_some();
        let nodes: Vec<NodeId> =
            self.nodes.iter().zip(ids).filter(|(node, _)| is_wanted(node)).map(|(_, id)| id).collect();
        // Once everything is wanted it stays so until much fewer nodes are: lanes do not flicker.
        let was_everything = self.wishes.asked.contains_key(&Purpose::Everything);
        let few = if was_everything { NODE_WISHES_MAX / 2 } else { NODE_WISHES_MAX };
        match nodes.len() > few {
            true => purposes.push(Purpose::Everything),
            false => purposes.extend(nodes.into_iter().map(Purpose::Node)),
        }
        purposes.extend(self.rate_purposes());
        purposes
    }

    /// Files that are open at places with a rate: nodes that want the same at the same rate share a pattern.
    fn rate_purposes(&mut self) -> Vec<Purpose> {
        let mut wanted: BTreeMap<(u64, String), BTreeSet<&str>> = BTreeMap::new();
        for (inode, file) in &self.files {
            let Some((place, rate)) = file.rate.filter(|_| file.pushed) else { continue };
            let Some(node) = self.node(inode.node) else { continue };
            let series = match place.1 == Names::TOP || place.1 == self.fixed.metrics {
                true => Some("*".to_owned()),
                false => self.series(*inode).map(ToString::to_string),
            };
            if let Some(series) = series {
                wanted.entry((rate.period().0, series)).or_default().insert(node.name.as_str());
            }
        }
        let mut patterns: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for ((period, series), nodes) in wanted {
            let hostlists = hostlists(nodes.into_iter());
            patterns
                .entry(period)
                .or_default()
                .extend(hostlists.into_iter().map(|nodes| format!("{nodes}:{series}")));
        }
        let mut purposes = Vec::new();
        for (period, patterns) in patterns {
            purposes.extend(patterns.chunks(PATTERNS_MAX).map(|some| Purpose::Rate(period, some.to_vec())));
        }
        self.counts.wishes_left_out += purposes.len().saturating_sub(RATE_WISHES_MAX) as u64;
        purposes.truncate(RATE_WISHES_MAX);
        purposes
    }

    /// The series of a value's file.
    pub(super) fn series(&self, inode: Inode) -> Option<&khz_model::Series> {
        let layout = self.node(inode.node)?.layout.as_ref()?;
        layout.series.get(layout.slot(inode.path)? as usize)
    }
}

/// Names joined with commas, as many lists as their lengths need.
fn hostlists<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        match lists.last_mut().filter(|list| list.len() + name.len() < HOSTLIST_MAX) {
            Some(list) => {
                list.push(',');
                list.push_str(name);
            }
            None => lists.push(name.to_owned()),
        }
    }
    lists
}
