//! The rules that nodes judge by themselves: which ones these are, on which nodes, and what the nodes say. All others are left to the
//! hub: every rule is judged on every node by exactly one of the two. It evaluates nothing and tells nobody.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_hub::{Cluster, RULES_PREFIX, RuleNews, RuleRows};
use khz_model::{ChannelName, Interest, NodeName, Pattern, Rate};
use khz_promql::VectorSample;
use khz_rules::{NodeRules, Placement, RuleChannel, RuleId, Share, SourceRow, pack, place};

use super::gathered::Gathered;
use super::groups::Groups;

/// How often nodes are counted, and those that are not heard of at once are read.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// A node that is silent on a channel for longer does not judge: it says something every minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// A node that was away for longer has no samples any more that a rule of nodes could use: these reach back five minutes at most, and
/// so does the look-back.
const AWAY_MAX: Duration = Duration::from_secs(15 * 60);

/// The rules that nodes judge.
pub(super) struct AtSource {
    rows: RuleRows,
    job: Arc<str>,
    rate: Rate,
    channels: HashMap<ChannelName, Judging>,
    of_rules: HashMap<RuleId, ChannelName>,
    /// When each node was up last.
    seen: HashMap<NodeName, Instant>,
    /// The nodes that the shares are of, and those that another hub judges.
    near: BTreeSet<Arc<str>>,
    rest: Arc<Share>,
    tended: Option<Instant>,
    /// Other nodes judge than somebody has taken note of.
    has_changed: bool,
}

/// A channel, and the nodes that execute it.
struct Judging {
    channel: RuleChannel,
    nodes: HashMap<NodeName, NodeState>,
    share: Arc<Share>,
    /// The share is not that of these nodes any more.
    is_stale: bool,
}

/// What is known of a node.
struct NodeState {
    rules: NodeRules,
    /// Its word counts.
    is_judging: bool,
    heard: Instant,
    /// The time of its last row (ms since 1970).
    last: i64,
}

/// What a node has said of rules of one group.
pub(super) struct Said {
    pub group: usize,
    pub node: NodeName,
    pub time: i64,
    pub given: Vec<(usize, Vec<VectorSample>)>,
}

impl AtSource {
    /// No rules so far; this thread judges.
    pub fn new(cluster: Arc<Cluster>, job: Arc<str>, rate: Rate) -> Self {
        let rows = RuleRows::new(cluster, std::thread::current());
        let (channels, of_rules, seen, near, rest) = Default::default();
        AtSource { rows, job, rate, channels, of_rules, seen, near, rest, tended: None, has_changed: false }
    }

    /// Every node, and whether it is up.
    pub fn nodes(&self) -> Vec<(NodeName, bool)> {
        self.rows.nodes()
    }

    /// From now on this is the share of a rule that no node judges: other hubs judge other nodes.
    pub fn leave(&mut self, rest: &Arc<Share>) {
        if Arc::ptr_eq(&self.rest, rest) {
            return;
        }
        self.rest = rest.clone();
        for judging in self.channels.values_mut() {
            for (node, state) in &mut judging.nodes {
                if rest.away.contains(node.as_str()) {
                    state.be_left();
                }
            }
            judging.is_stale = true;
        }
        self.make_shares();
    }

    /// From now on these are the rules. Nodes go on with what they have of those that stay.
    pub fn change(&mut self, groups: &Groups) {
        let gathered = Gathered::new();
        let gathers = |name: &str| gathered.has(name);
        let mut placed = Vec::new();
        for (number, (group, interval)) in groups.groups().enumerate() {
            for (rule, one) in group.rules.iter().enumerate() {
                if let (Some(alerting), Placement::AtNodes(compiled)) =
                    (one.alerting(), place(group, one, &gathers))
                {
                    placed.push((RuleId { group: number, rule }, interval, alerting.clone(), compiled));
                }
            }
        }
        let rules =
            placed.iter().map(|(id, interval, alerting, compiled)| (*id, *interval, &**alerting, compiled));
        let packed = pack(RULES_PREFIX, rules);
        let mut before = std::mem::take(&mut self.channels);
        self.of_rules.clear();
        let mut wanted = Vec::new();
        for channel in packed {
            let name = channel.terms.name.clone();
            self.of_rules.extend(channel.rules.iter().map(|rule| (rule.id, name.clone())));
            let everything = Interest::new(vec![Pattern::everything()], self.rate, false);
            wanted.push(Interest { channel: Some(channel.terms.clone()), ..everything });
            let mut judging = match before.remove(&name) {
                Some(judging) => Judging { channel, ..judging },
                None => Judging { channel, nodes: HashMap::new(), share: Arc::default(), is_stale: true },
            };
            // Alerts may be those of another rule of the same name.
            judging.nodes.values_mut().for_each(|state| state.rules = NodeRules::default());
            self.channels.insert(name, judging);
        }
        let (rules, channels) = (self.of_rules.len(), self.channels.len());
        if rules > 0 || !before.is_empty() {
            tracing::info!("nodes judge {rules} rules by themselves, in {channels} channels");
        }
        self.rows.follow(wanted);
        (self.tended, self.has_changed) = (None, true);
    }

    /// What nodes have said since the last call.
    pub fn heard(&mut self) -> Vec<RuleNews> {
        if self.channels.is_empty() {
            return Vec::new();
        }
        match self.tended.is_none_or(|tended| tended.elapsed() >= PERIOD) {
            true => self.tend(),
            false => self.rows.heard(),
        }
    }

    /// How long it is until somebody has to call [`AtSource::heard`]; `None`: nodes judge nothing.
    pub fn until_next(&self) -> Option<Duration> {
        let elapsed = self.tended.map_or(PERIOD, |tended| tended.elapsed());
        (!self.channels.is_empty()).then(|| PERIOD.saturating_sub(elapsed))
    }

    /// What is left of a rule for the hub; `None`: all of it.
    pub fn share(&self, id: RuleId) -> Option<Arc<Share>> {
        Some(self.channels.get(self.of_rules.get(&id)?)?.share.clone())
    }

    /// Whether other nodes judge than at the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    fn tend(&mut self) -> Vec<RuleNews> {
        self.tended = Some(Instant::now());
        let news = self.rows.tend();
        let nodes: HashMap<NodeName, bool> = self.rows.nodes().into_iter().collect();
        self.seen.retain(|node, _| nodes.contains_key(node));
        for (node, is_up) in &nodes {
            let now = Instant::now();
            let seen = self.seen.entry(node.clone()).or_insert(now);
            *seen = if *is_up { now } else { *seen };
        }
        for judging in self.channels.values_mut() {
            for (node, state) in &mut judging.nodes {
                let is_up = nodes.get(node).is_some_and(|is_up| *is_up);
                if state.is_judging && (!is_up || state.heard.elapsed() > SILENCE_MAX) {
                    judging.is_stale |= state.be_left();
                }
            }
            judging.nodes.retain(|node, _| nodes.contains_key(node));
        }
        self.make_shares();
        news
    }

    /// Who judges on which nodes now.
    fn make_shares(&mut self) {
        let is_near = |(_, seen): &(&NodeName, &Instant)| seen.elapsed() < AWAY_MAX;
        let name = |node: &NodeName| Arc::<str>::from(node.as_str());
        let near: BTreeSet<Arc<str>> = self.seen.iter().filter(is_near).map(|(node, _)| name(node)).collect();
        let others = near != self.near;
        for judging in self.channels.values_mut() {
            if !std::mem::take(&mut judging.is_stale) && !others {
                continue;
            }
            let of_node = judging.nodes.iter().filter(|(_, state)| state.is_judging);
            let at_nodes: BTreeSet<Arc<str>> = of_node.map(|(node, _)| name(node)).collect();
            let is_left = |node: &&Arc<str>| !at_nodes.contains(*node) && !self.rest.away.contains(*node);
            let left = near.iter().filter(is_left).cloned().collect();
            judging.share = Arc::new(Share { judging: at_nodes, left: Some(left), ..(*self.rest).clone() });
            self.has_changed = true;
        }
        self.near = near;
    }

    /// Hands on what a node has said, row by row.
    pub fn take(&mut self, news: &RuleNews, groups: &mut Groups, take: &mut impl FnMut(&mut Groups, Said)) {
        let Some(judging) = self.channels.get_mut(&news.channel) else { return };
        if let Some(refusal) = &news.refusal {
            tracing::info!("{} does not judge rules by itself: {refusal}", news.node);
        }
        if news.is_broken {
            judging.is_stale |= judging.state(&news.node).be_left();
        }
        for (columns, row) in &news.rows {
            let time = (row.stamp.real().0 / 1_000_000).cast_signed();
            let names = (news.node.as_str(), &*self.job);
            if judging.state(&news.node).is_new(time) {
                let row = SourceRow::read(&judging.channel, names, time, columns.iter().zip(&row.readings));
                judging.take((&news.node, time), row, groups, take);
            }
        }
    }
}

impl Judging {
    fn state(&mut self, node: &NodeName) -> &mut NodeState {
        self.nodes.entry(node.clone()).or_insert_with(NodeState::new)
    }

    fn take(
        &mut self,
        (node, time): (&NodeName, i64),
        row: SourceRow,
        groups: &mut Groups,
        take: &mut impl FnMut(&mut Groups, Said),
    ) {
        let Judging { channel, nodes, share, is_stale } = self;
        let Some(state) = nodes.get_mut(node) else { return };
        if !row.is_ready {
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
        let rules = NodeRules::default();
        NodeState { rules, is_judging: false, heard: Instant::now(), last: i64::MIN }
    }

    /// The node does not judge any more. Returns whether it did.
    fn be_left(&mut self) -> bool {
        (self.rules, self.last) = (NodeRules::default(), i64::MIN);
        std::mem::take(&mut self.is_judging)
    }

    /// Whether a row of this time comes after those before.
    fn is_new(&mut self, time: i64) -> bool {
        let is_new = time > self.last;
        if is_new {
            (self.last, self.heard) = (time, Instant::now());
        }
        is_new
    }
}
