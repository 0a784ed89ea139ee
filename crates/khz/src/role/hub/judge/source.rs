//! The rules that nodes judge by themselves: which rules, on which nodes, and their results. The hub judges the rest: for each rule
//! and node, exactly one of the two judges. It evaluates nothing and tells nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_hub::{Cluster, RULES_PREFIX, RuleNews, RuleRows};
use khz_model::{ChannelName, Interest, Nanos, NodeName, Pattern, Rate};
use khz_rules::{Placement, Rule, RuleId, Share, pack, place};

use super::gathered::Gathered;
use super::groups::{Groups, Unfit};
use super::judging::{Judging, Said, Seen};
use super::passed::number;

/// How often nodes are counted, and lanes are read that do not wake the judge.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// A node that was away for longer has no samples that a rule of nodes could use: rules and the look-back reach back five minutes
/// at most.
const AWAY_MAX: Duration = Duration::from_secs(15 * 60);

/// For this long the hub waits for nodes that went together with the hub below that connects them, since that hub may have been
/// restarted. Own nodes get the same time after a restart (`groups.rs`, `SETTLING`).
const HUB_BELOW_AWAY: Nanos = Nanos::from_secs(10);

/// The rules that nodes judge.
pub(super) struct AtSource {
    rows: RuleRows,
    job: Arc<str>,
    rate: Rate,
    channels: HashMap<ChannelName, Judging>,
    of_rules: HashMap<RuleId, ChannelName>,
    /// Rules that nodes could judge, but that the hub has taken over.
    taken_over: HashSet<RuleId>,
    /// The text of these rules, each with the file and the name of its group.
    taken_over_as: Vec<(Arc<str>, Arc<str>, Rule)>,
    seen: HashMap<NodeName, Seen>,
    have_come_or_gone: bool,
    /// The nodes that the shares cover, and the given share of rules that no node judges.
    near: BTreeSet<Arc<str>>,
    given_rest: Arc<Share>,
    /// Nodes that have just gone with their hub, and `given_rest` with these added.
    gone_with_hub: BTreeSet<Arc<str>>,
    rest: Arc<Share>,
    /// The nodes that have just gone.
    gone: Arc<BTreeSet<Arc<str>>>,
    /// The share of a rule that no node judges, with `gone` added.
    of_hub: Arc<Share>,
    tended: Option<Instant>,
    /// Which nodes judge has changed since the last call of `has_changed`.
    has_changed: bool,
}

/// By how much a row may come early or late (ms): half of the time between two rows that nodes judge.
pub(super) fn tolerance(rate: Rate) -> i64 {
    (rate.period().0 / 2_000_000).cast_signed()
}

impl AtSource {
    /// Begins without rules. The current thread becomes the judge.
    pub fn new(cluster: Arc<Cluster>, job: Arc<str>, rate: Rate) -> Self {
        let rows = RuleRows::new(cluster, std::thread::current());
        let (channels, of_rules, seen, near, rest) = Default::default();
        let (taken_over, taken_over_as, gone, of_hub) = Default::default();
        let (given_rest, gone_with_hub) = Default::default();
        let (tended, have_come_or_gone, has_changed) = (None, false, false);
        AtSource {
            rows,
            job,
            rate,
            channels,
            of_rules,
            taken_over,
            taken_over_as,
            seen,
            have_come_or_gone,
            near,
            given_rest,
            gone_with_hub,
            rest,
            gone,
            of_hub,
            tended,
            has_changed,
        }
    }

    /// Every node, and whether it is up.
    pub fn nodes(&self) -> Vec<(NodeName, bool)> {
        self.rows.nodes()
    }

    /// The nodes among these that are connected here directly, and not through a hub below.
    pub fn connected_here<'a>(&self, nodes: &'a [Arc<str>]) -> Vec<&'a str> {
        nodes.iter().map(|node| &**node).filter(|node| self.rows.is_direct(node)).collect()
    }

    /// The times of the newest rows of some nodes that are up (ms since 1970).
    pub fn newest(&self) -> Vec<i64> {
        let stamps = self.rows.newest().into_iter();
        stamps.map(|stamp| (stamp.real().0 / 1_000_000).cast_signed()).collect()
    }

    /// Sets the share of a rule that no node judges, since other hubs judge other nodes.
    pub fn leave(&mut self, rest: &Arc<Share>) {
        if !Arc::ptr_eq(&self.given_rest, rest) {
            self.given_rest = rest.clone();
            self.make_rest();
        }
    }

    /// Notes which nodes have just gone with the hub below that connects them: their alerts stay as they are. Call it before rules
    /// are evaluated, and afterwards.
    pub fn note_lost_hubs(&mut self) {
        let gone = self.rows.gone_with_their_hub(HUB_BELOW_AWAY);
        let gone: BTreeSet<Arc<str>> = gone.iter().map(|node| Arc::from(node.as_str())).collect();
        if gone != self.gone_with_hub {
            self.gone_with_hub = gone;
            self.make_rest();
        }
    }

    fn make_rest(&mut self) {
        let settling = self.given_rest.settling.union(&self.gone_with_hub).cloned().collect();
        self.rest = Arc::new(Share { settling: Arc::new(settling), ..(*self.given_rest).clone() });
        self.make_share_of_hub();
        let away = self.rest.away.clone();
        self.channels.values_mut().for_each(|judging| judging.leave(&away));
        self.make_shares();
    }

    /// Replaces the rules. Nodes keep their state for rules that stay.
    pub fn change(&mut self, groups: &Groups) {
        let gathered = Gathered::new();
        let gathers = |name: &str| gathered.has(name);
        let (mut placed, taken_over_before) = (Vec::new(), std::mem::take(&mut self.taken_over_as));
        self.taken_over.clear();
        for (number, (group, interval)) in groups.groups().enumerate() {
            for (rule, one) in group.rules.iter().enumerate() {
                let is_same = |(file, name, known): &&(Arc<str>, Arc<str>, Rule)| {
                    (file, name, known) == (&group.file, &group.name, one)
                };
                // The rule stays in its channel, so that nodes go on with the others there.
                if let Some(known) = taken_over_before.iter().find(is_same) {
                    self.taken_over.insert(RuleId { group: number, rule });
                    self.taken_over_as.push(known.clone());
                }
                if let (Some(alerting), Placement::AtNodes(compiled)) =
                    (one.alerting(), place(group, one, &gathers))
                {
                    placed.push((RuleId { group: number, rule }, interval, alerting.clone(), compiled));
                }
            }
        }
        let rules =
            placed.iter().map(|(id, interval, alerting, compiled)| (*id, *interval, &**alerting, compiled));
        let packed = pack(RULES_PREFIX, tolerance(self.rate), rules);
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
        let is_at_nodes = |id: &&RuleId| !self.taken_over.contains(id);
        let (rules, channels) = (self.of_rules.keys().filter(is_at_nodes).count(), self.channels.len());
        if rules > 0 || !before.is_empty() {
            tracing::info!(
                "nodes judge {} by themselves, in {}",
                number(rules, "rule"),
                number(channels, "channel")
            );
        }
        self.rows.follow(wanted);
        (self.tended, self.has_changed) = (None, true);
    }

    /// What nodes have said since the last call.
    pub fn heard(&mut self) -> Vec<RuleNews> {
        match self.tended.is_none_or(|tended| tended.elapsed() >= PERIOD) {
            true => self.tend(),
            false => self.rows.heard(),
        }
    }

    /// The time until the next call of [`AtSource::heard`].
    pub fn until_next(&self) -> Duration {
        let elapsed = self.tended.map_or(PERIOD, |tended| tended.elapsed());
        PERIOD.saturating_sub(elapsed)
    }

    /// The share of a rule that no node judges.
    pub fn of_hub(&self) -> &Arc<Share> {
        &self.of_hub
    }

    /// The part of a rule that is left to the hub; `None`: all of it.
    pub fn share(&self, id: RuleId) -> Option<Arc<Share>> {
        if self.taken_over.contains(&id) {
            return None;
        }
        Some(self.channels.get(self.of_rules.get(&id)?)?.share())
    }

    /// Whether the set of judging nodes has changed since the last call.
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
        self.note_gone(now);
        self.note_lost_hubs();
        self.channels.values_mut().for_each(|judging| judging.tend(&nodes, now));
        self.make_shares();
        news
    }

    /// Notes which nodes have just gone: their alerts do not end at once.
    fn note_gone(&mut self, now: Instant) {
        let gone = self.seen.iter().filter(|(_, seen)| seen.gone_until().is_some_and(|until| now < until));
        let gone: BTreeSet<Arc<str>> = gone.map(|(node, _)| Arc::from(node.as_str())).collect();
        if gone != *self.gone {
            self.gone = Arc::new(gone);
            self.make_share_of_hub();
        }
    }

    fn make_share_of_hub(&mut self) {
        self.of_hub = Arc::new(Share { gone: self.gone.clone(), ..(*self.rest).clone() });
    }

    /// Decides who judges on which nodes now.
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

    /// The hub judges this rule on all nodes until the rule is changed or the hub restarts. Rules that no node judges stay as they
    /// are.
    pub fn take_over(&mut self, unfit: &Unfit, groups: &mut Groups) {
        let Unfit { id, node, why } = unfit;
        if !self.of_rules.contains_key(id) {
            return;
        }
        let group = groups.groups().nth(id.group).map(|(group, _)| group.clone());
        let Some((group, rule)) =
            group.and_then(|group| Some((group.clone(), group.rules.get(id.rule)?.clone())))
        else {
            return;
        };
        if !self.taken_over.insert(*id) {
            return;
        }
        let name = &rule.name;
        tracing::warn!(
            "rule {name} of group {}: the hub judges it on all nodes from now on, as {node} shows: {why}",
            group.name
        );
        self.taken_over_as.push((group.file.clone(), group.name.clone(), rule));
        self.has_changed = true;
        groups.evaluate_soon(id.group, super::clock::now());
    }

    /// Passes on, row by row, what a node has said.
    pub fn take(&mut self, news: &RuleNews, groups: &mut Groups, take: &mut impl FnMut(&mut Groups, Said)) {
        let Some(judging) = self.channels.get_mut(&news.channel) else { return };
        if let Some(refusal) = &news.refusal {
            tracing::info!("{} does not judge rules by itself: {refusal}", news.node);
        }
        let taken_over = &self.taken_over;
        judging.take(news, super::clock::both_now(), &self.job, groups, &mut |groups, mut said: Said| {
            said.given.retain(|(rule, _)| !taken_over.contains(&RuleId { group: said.group, rule: *rule }));
            if !said.given.is_empty() {
                take(groups, said);
            }
        });
    }
}
