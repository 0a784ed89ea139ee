//! A channel of rules: the nodes that execute it, and whether the node or the hub judges for each. It follows no rows and evaluates
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_hub::RuleNews;
use khz_model::{Nanos, NodeName};
use khz_promql::VectorSample;
use khz_rules::{NodeRules, RuleChannel, Share, SourceRow};

use super::clock::Now;
use super::groups::Groups;
use super::node_time::NodeTime;

/// A node that is silent on a channel for longer does not judge: a judging node says something every minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// For this long the hub does not replace a node that has just come, or any node on a new channel. Each node opens only some
/// channels a second, and thousands of nodes must get all rules first. A node that cannot judge says so at once. Only an older node
/// says nothing.
const SETTLING: Duration = Duration::from_secs(75);

/// For this long the hub does not judge for a node that has just gone. Its rules have no samples, and its alerts should not end if
/// it comes back at once. Thousands of nodes that connect together often need two tries.
const GONE_SETTLING: Duration = Duration::from_secs(10);

/// When a node was up.
pub(super) struct Seen {
    pub last: Instant,
    /// Since when the node is up or down; `None`: this hub has not seen it up.
    since: Option<Instant>,
    is_up: bool,
}

impl Seen {
    pub fn new(now: Instant) -> Self {
        Seen { last: now, since: None, is_up: false }
    }

    /// Returns whether it has come or gone.
    pub fn note(&mut self, is_up: bool, now: Instant) -> bool {
        let has_changed = std::mem::replace(&mut self.is_up, is_up) != is_up;
        self.since = if has_changed { Some(now) } else { self.since };
        self.last = if is_up { now } else { self.last };
        has_changed
    }

    /// Until when the node counts as just gone; `None`: it is up, or was never seen up.
    pub fn gone_until(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_up).map(|since| since + GONE_SETTLING)
    }
}

/// What a node said about the rules of one group.
pub(super) struct Said {
    pub group: usize,
    pub node: NodeName,
    pub time: i64,
    pub given: Vec<(usize, Vec<VectorSample>)>,
}

/// A channel, and the nodes that execute it.
pub(super) struct Judging {
    channel: RuleChannel,
    since: Instant,
    nodes: HashMap<NodeName, NodeState>,
    share: Arc<Share>,
    /// When the first settling node counts as one that does not judge.
    settles: Option<Instant>,
    /// The share is older than the state of the nodes.
    is_stale: bool,
}

/// What is known of a node.
struct NodeState {
    rules: NodeRules,
    /// Its word counts.
    is_judging: bool,
    /// The node has answered, even if only that it does not judge.
    has_answered: bool,
    /// The node judges without some of its series, since a rule of the channel cannot be bound to all of them. So its word does not
    /// count.
    leaves_out: bool,
    heard: Instant,
    /// The time at which its rows were gathered, independent of its wall clock.
    time: NodeTime,
}

impl Judging {
    pub fn new(channel: RuleChannel, since: Instant) -> Self {
        let (nodes, share) = Default::default();
        Judging { channel, since, nodes, share, settles: None, is_stale: true }
    }

    /// The rules of the channel have other numbers now. Known alerts may belong to another rule of the same name.
    pub fn renumber(&mut self, channel: RuleChannel) {
        self.channel = channel;
        self.nodes.values_mut().for_each(|state| state.rules = NodeRules::default());
    }

    /// The part that is left to the hub.
    pub fn share(&self) -> Arc<Share> {
        self.share.clone()
    }

    /// Another hub judges these nodes.
    pub fn leave(&mut self, away: &BTreeSet<Arc<str>>) {
        for (node, state) in &mut self.nodes {
            if away.contains(node.as_str()) {
                state.be_left();
            }
        }
        self.is_stale = true;
    }

    /// Stops relying on nodes that are down or silent. `nodes`: all nodes, and whether each is up.
    pub fn tend(&mut self, nodes: &HashMap<NodeName, bool>, now: Instant) {
        self.is_stale |= self.settles.is_some_and(|settles| now >= settles);
        for (node, state) in &mut self.nodes {
            let is_up = nodes.get(node).is_some_and(|is_up| *is_up);
            if state.is_judging && (!is_up || now.saturating_duration_since(state.heard) > SILENCE_MAX) {
                self.is_stale |= state.be_left();
            }
            // When it comes back, it opens the channel again.
            state.has_answered &= is_up;
        }
        self.nodes.retain(|node, _| nodes.contains_key(node));
    }

    /// Renews the share if it has changed: each node judges, settles, or is left to the hub. `near`: the current nodes. `others`:
    /// they differ from those of the last call. Returns whether it has changed.
    pub fn share_among(
        &mut self,
        near: &BTreeMap<Arc<str>, &Seen>,
        others: bool,
        rest: &Share,
        now: Instant,
    ) -> bool {
        if !std::mem::take(&mut self.is_stale) && !others {
            return false;
        }
        let of_node = self.nodes.iter().filter(|(_, state)| state.is_judging);
        let judging: BTreeSet<Arc<str>> = of_node.map(|(node, _)| Arc::from(node.as_str())).collect();
        let answered = self.nodes.iter().filter(|(_, state)| state.has_answered);
        let answered: HashSet<&str> = answered.map(|(node, _)| node.as_str()).collect();
        let (mut left, mut settling) = (BTreeSet::new(), (*rest.settling).clone());
        self.settles = None;
        let is_ours = |name: &&Arc<str>| !judging.contains(*name) && !rest.away.contains(*name);
        for (name, seen) in near.iter().filter(|(name, _)| is_ours(name)) {
            let settles = match seen.is_up {
                true => seen.since.map(|since| since.max(self.since) + SETTLING),
                false => seen.gone_until(),
            };
            match settles.filter(|&settles| now < settles && !answered.contains(&**name)) {
                Some(settles) => {
                    settling.insert(name.clone());
                    self.settles = Some(self.settles.map_or(settles, |first| first.min(settles)));
                }
                None => {
                    left.insert(name.clone());
                }
            }
        }
        let (left, settling) = (Some(left), Arc::new(settling));
        self.share = Arc::new(Share { judging, left, settling, ..rest.clone() });
        true
    }

    /// Passes on, row by row, what a node has said by now. `job`: the label `job` of all nodes.
    pub fn take(
        &mut self,
        news: &RuleNews,
        now: Now,
        job: &str,
        groups: &mut Groups,
        take: &mut impl FnMut(&mut Groups, Said),
    ) {
        if let Some(leaves_out) = news.leaves_out {
            self.state(&news.node).leaves_out = leaves_out;
        }
        if news.is_broken {
            self.broken(&news.node, news.refusal.is_some());
        }
        let Some((_, newest)) = news.rows.last() else { return };
        self.state(&news.node).time.hear(newest.stamp.boot, now);
        for (columns, row) in &news.rows {
            if let Some(time) = self.state(&news.node).time_of(row.stamp.boot, now) {
                let names = (news.node.as_str(), job);
                let row = SourceRow::read(&self.channel, names, time, columns.iter().zip(&row.readings));
                self.take_row((&news.node, time), row, groups, take);
            }
        }
    }

    /// The earlier words of the node do not count any more.
    fn broken(&mut self, node: &NodeName, is_refusal: bool) {
        let state = self.state(node);
        let is_answer = is_refusal && !std::mem::replace(&mut state.has_answered, true);
        self.is_stale |= state.be_left() || is_answer;
    }

    fn state(&mut self, node: &NodeName) -> &mut NodeState {
        self.nodes.entry(node.clone()).or_insert_with(NodeState::new)
    }

    fn take_row(
        &mut self,
        (node, time): (&NodeName, i64),
        row: SourceRow,
        groups: &mut Groups,
        take: &mut impl FnMut(&mut Groups, Said),
    ) {
        let Judging { channel, nodes, share, is_stale, .. } = self;
        let Some(state) = nodes.get_mut(node) else { return };
        *is_stale |= !std::mem::replace(&mut state.has_answered, true);
        if !row.is_ready || state.leaves_out {
            *is_stale |= state.be_left();
            return;
        }
        *is_stale |= !std::mem::replace(&mut state.is_judging, true);
        let given = state.rules.given(channel, row, |id| groups.has_active(id, node.as_str()));
        if *is_stale && !given.is_empty() {
            // The hub must not judge what the node judges from now on.
            let (mut now, name) = ((**share).clone(), Arc::<str>::from(node.as_str()));
            if let Some(left) = &mut now.left {
                left.remove(&name);
            }
            now.judging.insert(name);
            *share = Arc::new(now);
        }
        let mut of_groups: Vec<Said> = Vec::new();
        for (id, series) in given {
            match of_groups.iter_mut().find(|said| said.group == id.group) {
                Some(said) => said.given.push((id.rule, series)),
                None => {
                    let given = vec![(id.rule, series)];
                    of_groups.push(Said { group: id.group, node: node.clone(), time, given });
                }
            }
        }
        of_groups.into_iter().for_each(|said| take(groups, said));
    }
}

impl NodeState {
    fn new() -> Self {
        let (rules, heard, time) = (NodeRules::default(), Instant::now(), NodeTime::default());
        NodeState { rules, is_judging: false, has_answered: false, leaves_out: false, heard, time }
    }

    /// The node does not judge any more. Returns whether it did.
    fn be_left(&mut self) -> bool {
        self.rules = NodeRules::default();
        self.time.begin_again();
        std::mem::take(&mut self.is_judging)
    }

    /// When a row was gathered (ms since 1970); `None`: the row is not newer than the earlier ones.
    fn time_of(&mut self, boot: Nanos, now: Now) -> Option<i64> {
        if !self.time.is_new(boot) {
            return None;
        }
        self.heard = Instant::now();
        Some(self.time.of(boot, now))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use khz_model::{ChannelName, ChannelTerms};

    use super::*;

    /// A channel and its nodes, by the test's own clock.
    struct Stage {
        judging: Judging,
        seen: BTreeMap<Arc<str>, Seen>,
        now: Instant,
    }

    impl Stage {
        fn new() -> Self {
            let terms = Arc::new(ChannelTerms::named(ChannelName::new("rules").unwrap()));
            let now = Instant::now();
            let judging = Judging::new(RuleChannel { terms, rules: Vec::new() }, now);
            Stage { judging, seen: BTreeMap::new(), now }
        }

        /// After a time, with these nodes up: which are settling, and which are left to the hub.
        fn after(&mut self, time: Duration, nodes: &[(&str, bool)]) -> [String; 2] {
            self.now += time;
            let mut others = false;
            for (name, is_up) in nodes {
                let seen = self.seen.entry(Arc::from(*name)).or_insert_with(|| Seen::new(self.now));
                others |= seen.note(*is_up, self.now);
            }
            let all = nodes.iter().map(|(name, is_up)| (node(name), *is_up)).collect();
            self.judging.tend(&all, self.now);
            let near = self.seen.iter().map(|(name, seen)| (name.clone(), seen)).collect();
            self.judging.share_among(&near, others, &Share::default(), self.now);
            let share = self.judging.share();
            let shown =
                |names: &BTreeSet<Arc<str>>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(" ");
            [shown(&share.settling), shown(share.left.as_ref().unwrap())]
        }
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_that_has_just_come_belongs_to_nobody_until_it_has_had_time_to_answer() {
        let mut stage = Stage::new();
        assert_eq!(stage.after(SECOND, &[("n1", true)]), ["n1", ""]);
        assert_eq!(stage.after(SETTLING - SECOND, &[("n1", true), ("n2", true)]), ["n1 n2", ""]);
        assert_eq!(stage.after(SECOND, &[("n1", true), ("n2", true)]), ["n2", "n1"]);
        assert_eq!(stage.after(SETTLING, &[("n1", true), ("n2", true)]), ["", "n1 n2"]);
    }

    #[test]
    fn a_node_that_refuses_is_left_to_the_hub_at_once_and_one_that_is_down_after_a_moment() {
        let mut stage = Stage::new();
        let up = [("n1", true), ("n2", true)];
        assert_eq!(stage.after(SECOND, &up), ["n1 n2", ""]);
        stage.judging.broken(&node("n1"), true);
        assert_eq!(stage.after(SECOND, &up), ["n2", "n1"]);
        // To lose rows is no answer.
        stage.judging.broken(&node("n2"), false);
        assert_eq!(stage.after(SECOND, &up), ["n2", "n1"]);
        assert_eq!(stage.after(SECOND, &[("n1", true), ("n2", false)]), ["n2", "n1"]);
        assert_eq!(stage.after(GONE_SETTLING, &[("n1", true), ("n2", false)]), ["", "n1 n2"]);
    }

    #[test]
    fn a_node_that_comes_back_is_waited_for_as_long_as_a_new_one() {
        let mut stage = Stage::new();
        stage.judging.broken(&node("n1"), true);
        assert_eq!(stage.after(SECOND, &[("n1", true)]), ["", "n1"]);
        assert_eq!(stage.after(SECOND, &[("n1", false)]), ["n1", ""]);
        assert_eq!(stage.after(SETTLING, &[("n1", false)]), ["", "n1"]);
        assert_eq!(stage.after(SECOND, &[("n1", true)]), ["n1", ""]);
        assert_eq!(stage.after(SETTLING, &[("n1", true)]), ["", "n1"]);
    }
}
