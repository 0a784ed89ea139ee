//! What the mount subscribes to, for everything that is open or was used a moment ago. The subscriptions are few, however
//! many files that is:
//!
//! - one for each node, or one for all nodes;
//! - one for each table below `.by`;
//! - one for all patterns that want the same rate.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use khz_model::{Nanos, Rate};

use crate::cluster::roster::Roster;
use crate::effects::{Command, Effects};
use crate::inode::NodeId;
use crate::limits::{NODE_SUBSCRIPTIONS_MAX, PATTERNS_MAX, RATE_SUBSCRIPTIONS_MAX};
use crate::upstream::Subscription;

/// Bytes of the nodes in one pattern: the longest pattern that the link takes, less a metric and an instance.
const HOSTLIST_MAX: usize = khz_model::pattern::PATTERN_MAX - 1_024;

/// What readers need now.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// Nodes whose rows are needed at the base rate.
    pub nodes: Vec<NodeId>,
    /// Metrics that are needed of all nodes.
    pub metrics: Vec<String>,
    /// Series that are needed at a rate of their own.
    pub rates: Rates,
}

/// Series that are needed at a rate of their own, and the nodes of which they are.
pub(crate) type Rates = BTreeMap<RatedSeries, BTreeSet<String>>;

/// A pattern without nodes, and its period.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RatedSeries {
    pub period: Nanos,
    pub series: String,
}

/// What a subscription is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Everything of one node.
    Node(NodeId),
    /// Everything of all nodes.
    Everything,
    /// One metric of all nodes.
    Metric(String),
    /// These patterns at this period.
    Rate(Nanos, Vec<String>),
}

/// The subscriptions that the upstream knows.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_purpose: BTreeMap<Purpose, u32>,
    by_number: HashMap<u32, Purpose>,
    made: u32,
    /// Subscriptions for rates for which there was no room.
    left_out: u64,
}

impl Subscriptions {
    /// The metric whose table a subscription is for.
    pub fn metric_of(&self, number: u32) -> Option<&str> {
        match self.by_number.get(&number)? {
            Purpose::Metric(metric) => Some(metric),
            _ => None,
        }
    }

    /// True when the lanes of a subscription have all series of their nodes.
    pub fn has_all_series(&self, number: u32) -> bool {
        matches!(self.by_number.get(&number), Some(Purpose::Node(_) | Purpose::Everything))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_purpose.len()
    }

    /// Subscriptions for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Subscribes to what is needed now, and ends the other subscriptions. Returns the numbers of those that ended.
    pub fn update(&mut self, demand: Demand, roster: &mut Roster, effects: &mut Effects) -> Vec<u32> {
        let wanted = self.purposes(demand);
        let is_gone = |known: &&Purpose| !wanted.contains(known);
        let gone: Vec<Purpose> = self.by_purpose.keys().filter(is_gone).cloned().collect();
        for purpose in wanted {
            self.subscribe(purpose, roster, effects);
        }
        let gone: Vec<u32> = gone.iter().filter_map(|purpose| self.by_purpose.remove(purpose)).collect();
        for &number in &gone {
            self.by_number.remove(&number);
            effects.command(Command::Unsubscribe(number));
        }
        gone
    }

    fn subscribe(&mut self, purpose: Purpose, roster: &mut Roster, effects: &mut Effects) {
        if self.by_purpose.contains_key(&purpose) {
            return;
        }
        self.made += 1;
        let number = self.made;
        let (patterns, rate) = match &purpose {
            Purpose::Node(id) => {
                roster.asked_for(*id);
                (roster.name(*id).map(|name| format!("{name}:*")).into_iter().collect(), None)
            }
            Purpose::Everything => {
                roster.asked_for_all();
                (vec!["*".to_owned()], None)
            }
            Purpose::Metric(metric) => (vec![metric.clone()], None),
            Purpose::Rate(period, patterns) => (patterns.clone(), Rate::from_period(*period)),
        };
        self.by_purpose.insert(purpose.clone(), number);
        self.by_number.insert(number, purpose);
        effects.command(Command::Subscribe(Subscription { number, patterns, rate }));
    }

    fn purposes(&mut self, demand: Demand) -> Vec<Purpose> {
        let mut purposes: Vec<Purpose> = demand.metrics.into_iter().map(Purpose::Metric).collect();
        // A subscription to everything stays until far fewer nodes are needed, so that lanes do not come and go.
        let had_everything = self.by_purpose.contains_key(&Purpose::Everything);
        let few = if had_everything { NODE_SUBSCRIPTIONS_MAX / 2 } else { NODE_SUBSCRIPTIONS_MAX };
        match demand.nodes.len() > few {
            true => purposes.push(Purpose::Everything),
            false => purposes.extend(demand.nodes.into_iter().map(Purpose::Node)),
        }
        let mut rates = rates(demand.rates);
        self.left_out += rates.len().saturating_sub(RATE_SUBSCRIPTIONS_MAX) as u64;
        rates.truncate(RATE_SUBSCRIPTIONS_MAX);
        purposes.extend(rates);
        purposes
    }
}

/// Nodes that want the same series at the same rate share a pattern, patterns of the same rate a subscription.
fn rates(wanted: Rates) -> Vec<Purpose> {
    let mut patterns: BTreeMap<Nanos, Vec<String>> = BTreeMap::new();
    for (RatedSeries { period, series }, nodes) in wanted {
        let hostlists = hostlists(nodes.iter().map(String::as_str));
        let of_rate = patterns.entry(period).or_default();
        of_rate.extend(hostlists.into_iter().map(|nodes| format!("{nodes}:{series}")));
    }
    let mut purposes = Vec::new();
    for (period, patterns) in patterns {
        purposes.extend(patterns.chunks(PATTERNS_MAX).map(|some| Purpose::Rate(period, some.to_vec())));
    }
    purposes
}

/// Names joined with commas, in as many lists as their lengths need.
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

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::NodeName;

    fn roster(nodes: usize) -> Roster {
        let mut roster = Roster::new(false);
        for number in 1..=nodes {
            roster.id_or_new(&NodeName::new(&format!("n{number}")).unwrap());
        }
        roster
    }

    fn nodes(count: usize) -> Demand {
        Demand { nodes: (1..=count as u32).map(NodeId).collect(), ..Demand::default() }
    }

    #[test]
    fn many_nodes_share_one_subscription_until_far_fewer_are_needed() {
        let (mut subscriptions, mut roster) = (Subscriptions::default(), roster(40));
        let mut effects = Effects::default();
        let mut count = |nodes_needed: usize| {
            subscriptions.update(nodes(nodes_needed), &mut roster, &mut effects);
            subscriptions.count()
        };
        assert_eq!(count(NODE_SUBSCRIPTIONS_MAX), NODE_SUBSCRIPTIONS_MAX);
        assert_eq!(count(NODE_SUBSCRIPTIONS_MAX + 1), 1);
        assert_eq!(count(NODE_SUBSCRIPTIONS_MAX), 1);
        assert_eq!(count(NODE_SUBSCRIPTIONS_MAX / 2), NODE_SUBSCRIPTIONS_MAX / 2);
    }

    #[test]
    fn what_is_needed_still_keeps_its_number_and_a_number_is_used_once() {
        let (mut subscriptions, mut roster) = (Subscriptions::default(), roster(2));
        let mut effects = Effects::default();
        assert!(subscriptions.update(nodes(2), &mut roster, &mut effects).is_empty());
        assert_eq!(subscriptions.update(nodes(1), &mut roster, &mut effects), [2]);
        assert!(subscriptions.has_all_series(1) && !subscriptions.has_all_series(2));
        subscriptions.update(nodes(2), &mut roster, &mut effects);
        assert!(subscriptions.has_all_series(3));
    }

    #[test]
    fn nodes_that_want_the_same_at_the_same_rate_share_a_pattern() {
        let rated = |period, series: &str| RatedSeries { period, series: series.to_owned() };
        let (period, other) = (Nanos(10_000_000), Nanos(20_000_000));
        let both: BTreeSet<String> = ["n1", "n2"].map(str::to_owned).into();
        let one: BTreeSet<String> = ["n1".to_owned()].into();
        let wanted = BTreeMap::from([
            (rated(period, "mem.free"), both),
            (rated(period, "load.1m"), one.clone()),
            (rated(other, "load.1m"), one),
        ]);
        let fast = ["n1:load.1m", "n1,n2:mem.free"].map(str::to_owned).to_vec();
        let slow = vec!["n1:load.1m".to_owned()];
        assert_eq!(rates(wanted), [Purpose::Rate(period, fast), Purpose::Rate(other, slow)]);
    }
}
