//! The rules that nodes judge by themselves: which ones these are, on which nodes, and what the nodes say. All others are left to the
//! hub: every rule is judged on every node by exactly one of the two. It evaluates nothing and tells nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_hub::{Cluster, RULES_PREFIX, RuleNews, RuleRows};
use khz_model::{ChannelName, Interest, NodeName, Pattern, Rate};
use khz_rules::{Placement, RuleId, Share, pack, place};

use super::gathered::Gathered;
use super::groups::Groups;
use super::judging::{Judging, Said, Seen};

/// How often nodes are counted, and those that are not heard of at once are read.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

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
    seen: HashMap<NodeName, Seen>,
    have_come_or_gone: bool,
    /// The nodes that the shares are of, and those that another hub judges.
    near: BTreeSet<Arc<str>>,
    rest: Arc<Share>,
    tended: Option<Instant>,
    /// Other nodes judge than somebody has taken note of.
    has_changed: bool,
}

impl AtSource {
    /// No rules so far; this thread judges.
    pub fn new(cluster: Arc<Cluster>, job: Arc<str>, rate: Rate) -> Self {
        let rows = RuleRows::new(cluster, std::thread::current());
        let (channels, of_rules, seen, near, rest) = Default::default();
        let (tended, have_come_or_gone, has_changed) = (None, false, false);
        AtSource {
            rows,
            job,
            rate,
            channels,
            of_rules,
            seen,
            have_come_or_gone,
            near,
            rest,
            tended,
            has_changed,
        }
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
        self.channels.values_mut().for_each(|judging| judging.leave(&rest.away));
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
            let judging = match before.remove(&name) {
                Some(mut judging) => {
                    judging.renumber(channel);
                    judging
                }
                None => Judging::new(channel, Instant::now()),
            };
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
        Some(self.channels.get(self.of_rules.get(&id)?)?.share())
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
        let now = Instant::now();
        for (node, is_up) in &nodes {
            let seen = self.seen.entry(node.clone()).or_insert_with(|| Seen::new(now));
            self.have_come_or_gone |= seen.note(*is_up, now);
        }
        self.channels.values_mut().for_each(|judging| judging.tend(&nodes, now));
        self.make_shares();
        news
    }

    /// Who judges on which nodes now.
    fn make_shares(&mut self) {
        let now = Instant::now();
        let is_near = |(_, seen): &(&NodeName, &Seen)| now.saturating_duration_since(seen.last) < AWAY_MAX;
        let near = self.seen.iter().filter(is_near);
        let near: BTreeMap<Arc<str>, &Seen> =
            near.map(|(node, seen)| (Arc::from(node.as_str()), seen)).collect();
        let others = std::mem::take(&mut self.have_come_or_gone) || !near.keys().eq(&self.near);
        for judging in self.channels.values_mut() {
            self.has_changed |= judging.share_among(&near, others, &self.rest, now);
        }
        self.near = near.into_keys().collect();
    }

    /// Hands on what a node has said, row by row.
    pub fn take(&mut self, news: &RuleNews, groups: &mut Groups, take: &mut impl FnMut(&mut Groups, Said)) {
        let Some(judging) = self.channels.get_mut(&news.channel) else { return };
        if let Some(refusal) = &news.refusal {
            tracing::info!("{} does not judge rules by itself: {refusal}", news.node);
        }
        judging.take(news, &self.job, groups, take);
    }
}
