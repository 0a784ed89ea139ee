//! The groups of rules of a hub: the state of each, and what users see of it. It never waits, and does not know where results go.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use khz_hub::RecordedSeries;
use khz_notify::Labels;
use khz_promql::{Engine, LabelSet, Limits, VectorSample};
use khz_rules::{
    Alert, AlertState, Board, Evaluator, GoneAlert, Group, GroupStanding, Handover, NODE_LABEL, Pass,
    PassedAlert, Room, RuleId, RuleSet, Saved, SavedAlert, SavedGroup, SavedRule, Settings, Share, Standing,
    Unmade,
};

use super::asked::Asked;
use super::numbers::Numbers;
use super::passed::{Complaint, Passed, bounded, name_of, texts};
use super::peers::{PeerWord, is_same};
use super::same_labels::SameLabels;
use super::schedule::Schedule;
use super::turns::{Means, Turn, time_max};
use super::without_rule::WithoutRule;

/// How long a hub waits after a restart before it judges (ms). Its nodes reconnect meanwhile.
pub(super) const SETTLING: i64 = 10_000;

/// How long after a node's row its samples reach the hub (ms).
const SAMPLES_LATE: i64 = 2_000;

/// A rule that nodes cannot judge, as the series of one node shows.
#[derive(Debug)]
pub(super) struct Unfit {
    pub id: RuleId,
    pub node: String,
    pub why: String,
}

/// All groups, with what is known of them.
pub(super) struct Groups {
    settings: Arc<Settings>,
    pub all: Vec<Judged>,
    /// When the waiting groups are due.
    pub schedule: Schedule,
    /// The numbers of the groups whose pass is running.
    pub running: Vec<usize>,
    /// The firing and the pending alerts of all groups, and the room that all alerts take.
    counts: (u64, u64),
    size: Room,
    /// An alert has changed since the last call of `has_changed`.
    pub has_changed: bool,
    /// Alerts whose rule was removed.
    pub without_rule: WithoutRule,
    /// Alerts that several rules give.
    pub same_labels: SameLabels,
}

pub(super) struct Judged {
    pub evaluator: Evaluator,
    /// When it is evaluated next (ms since 1970).
    pub due: i64,
    /// It is not evaluated before this time.
    not_before: i64,
    /// The latest time of the next evaluation after the running pass.
    pub wanted: Option<i64>,
    /// Its pass that runs.
    pub turn: Option<Turn>,
    /// The time that its rules have used. The order of turns depends on it.
    pub used: Duration,
    /// It takes too long.
    pub late: Complaint,
    /// It cannot be recorded.
    unrecorded: Complaint,
    /// A node's word about this group is unusable.
    unmade: Complaint,
    /// Its firing and its pending alerts, and the room that all its alerts take.
    counts: (u64, u64),
    size: Room,
    standing: Arc<GroupStanding>,
    /// The published standing is older than the alerts.
    pub is_stale: bool,
    /// The rule errors of the last evaluation, which are already logged.
    errors: Vec<Option<String>>,
}

impl Judged {
    fn new(evaluator: Evaluator, now: i64) -> Self {
        let standing = GroupStanding::of(&evaluator, None, &|_| None);
        let mut judged = Judged {
            due: evaluator.next(now),
            not_before: now,
            wanted: None,
            evaluator,
            turn: None,
            used: Duration::ZERO,
            late: Complaint::default(),
            unrecorded: Complaint::default(),
            unmade: Complaint::default(),
            counts: (0, 0),
            size: Room::default(),
            standing: Arc::new(standing.clone()),
            is_stale: false,
            errors: Vec::new(),
        };
        judged.put(standing);
        judged
    }

    /// The rules that no node can judge, according to this node. A rule that fails only on this node is logged, at most once a
    /// minute.
    fn unfit(&mut self, (number, node): (usize, &str), all: Vec<Unmade>) -> Vec<Unfit> {
        let (of_rule, others): (Vec<Unmade>, Vec<Unmade>) = all.into_iter().partition(|one| one.is_of_rule);
        if let Some(Unmade { rule, error, .. }) = others.first()
            && self.unmade.is_due()
        {
            let group = self.evaluator.group();
            let (name, error) = (&group.rules[*rule].name, bounded(error));
            tracing::warn!("rule {name} of group {} fails with what {node} says: {error}", group.name);
        }
        let unfit = |Unmade { rule, error, .. }| {
            let (id, node) = (RuleId { group: number, rule }, node.to_owned());
            Unfit { id, node, why: error }
        };
        of_rule.into_iter().map(unfit).collect()
    }

    /// Replaces the published standing.
    fn put(&mut self, standing: GroupStanding) {
        let alerts = || standing.rules.iter().flat_map(|rule| &rule.alerts);
        let of = |state| alerts().filter(|alert| alert.state == state).count() as u64;
        self.counts = (of(AlertState::Firing), of(AlertState::Pending));
        (self.standing, self.is_stale) = (Arc::new(standing), false);
    }

    fn renew(&mut self) {
        if self.is_stale {
            self.put(self.standing.renewed(&self.evaluator));
        }
    }
}

impl Groups {
    /// The groups of a set; their alerts go on as they were saved. `settles`: nothing is judged for a while.
    pub fn new(
        set: &RuleSet,
        settings: Arc<Settings>,
        saved: Option<&Saved>,
        now: i64,
        settles: bool,
    ) -> Self {
        let without_rule = WithoutRule::restore(saved, set, now);
        let left: Vec<&SavedGroup> = saved.iter().flat_map(|saved| &saved.groups).collect();
        let saved: HashMap<(&str, &str), _> = saved
            .into_iter()
            .flat_map(|saved| &saved.groups)
            .map(|group| ((&*group.file, &*group.name), group))
            .collect();
        let evaluator = |group: &Arc<Group>| match saved.get(&(&*group.file, &*group.name)) {
            Some(saved) => Evaluator::restore(group.clone(), settings.clone(), saved, now),
            None => Evaluator::new(group.clone(), settings.clone()),
        };
        // Do not resolve firing alerts only because their nodes are not back yet.
        let first = if settles { now.saturating_add(SETTLING) } else { now };
        let all = set.groups().map(|group| Judged::new(evaluator(group), first)).collect();
        let (running, counts, size) = Default::default();
        let schedule = Schedule::new([], now);
        let has_changed = true;
        let same_labels = SameLabels::default();
        let mut groups =
            Groups { settings, all, schedule, running, counts, size, has_changed, without_rule, same_labels };
        let known: HashSet<_> = set.groups().map(|group| (&*group.file, &*group.name)).collect();
        let left = left.into_iter().filter(|group| !known.contains(&(&*group.file, &*group.name)));
        groups.move_alerts(left, &|group| !saved.contains_key(&(&*group.file, &*group.name)), now);
        groups.part(Vec::new());
        groups.sum(now);
        groups
    }

    /// Moves alerts of removed groups to a new group with a rule of the same name and labels: a user renamed the group or its file.
    fn move_alerts<'a>(
        &mut self,
        left: impl Iterator<Item = &'a SavedGroup>,
        is_new: &dyn Fn(&Group) -> bool,
        now: i64,
    ) {
        let mut places: HashMap<(String, BTreeMap<String, String>), usize> = HashMap::new();
        let groups = self.all.iter().enumerate().map(|(number, judged)| (number, judged.evaluator.group()));
        for (number, group) in groups.filter(|(_, group)| is_new(group)) {
            for rule in group.rules.iter().filter(|rule| rule.alerting().is_some()) {
                let labels = rule.label_texts().map(|(name, text)| (name.to_owned(), text.to_owned()));
                places.entry((rule.name.to_string(), labels.collect())).or_insert(number);
            }
        }
        for group in left {
            let place = |rule: &SavedRule| places.get(&(rule.name.clone(), rule.labels.clone())).copied();
            let numbers: BTreeSet<usize> = group.rules.iter().filter_map(place).collect();
            let handover = Handover { known_at: group.time, now, left_at: None };
            for number in numbers {
                let judged = &mut self.all[number];
                let is_active = |alert: &SavedAlert| alert.state != "inactive";
                judged.is_stale |= !judged.evaluator.adopt(group, handover, false, &is_active).is_empty();
            }
        }
    }

    /// Counts everything again after the groups have changed.
    fn sum(&mut self, now: i64) {
        self.running.clear();
        let rules = SameLabels::of(self.all.iter().map(|judged| judged.evaluator.group()));
        let before = std::mem::replace(&mut self.same_labels, rules);
        self.go_on_with(before);
        let due = self.all.iter().enumerate().map(|(number, judged)| (judged.due, number));
        self.schedule = Schedule::new(due, now);
        (self.counts, self.size) = Default::default();
        for judged in &mut self.all {
            judged.size = judged.evaluator.size();
            self.size = self.size.and(judged.size);
            self.counts = (self.counts.0 + judged.counts.0, self.counts.1 + judged.counts.1);
        }
    }

    /// Changes a group, and keeps the sums of all groups right.
    pub fn with<R>(&mut self, number: usize, change: impl FnOnce(&mut Judged) -> R) -> Option<R> {
        let judged = self.all.get_mut(number)?;
        let (counts, size) = (judged.counts, judged.size);
        judged.evaluator.limit(Room::OF_HUB.beside(self.size.beside(size)));
        let changed = change(judged);
        judged.size = judged.evaluator.size();
        self.size = self.size.beside(size).and(judged.size);
        let sum = |all: u64, before: u64, after: u64| (all + after).saturating_sub(before);
        self.counts =
            (sum(self.counts.0, counts.0, judged.counts.0), sum(self.counts.1, counts.1, judged.counts.1));
        Some(changed)
    }

    /// A rule gave too many alerts, so the group forgot some. They are over.
    pub(super) fn part_with_forgotten(&mut self, number: usize) {
        if self.all.get(number).is_some_and(|judged| judged.evaluator.has_gone()) {
            self.has_changed = true;
            self.part(Vec::new());
        }
    }

    /// Alerts have lost their rules: these, and those that groups have left over.
    fn part(&mut self, mut gone: Vec<GoneAlert>) {
        gone.extend(self.all.iter_mut().flat_map(|judged| judged.evaluator.take_gone()));
        self.same_labels.forget(gone.iter().map(|one| &one.alert.labels));
        let firing = self.all.iter().flat_map(|judged| judged.evaluator.firing());
        self.without_rule.add(gone, firing);
    }

    /// Replaces the set of groups. The state of rules that stay goes on. The series and alerts of removed groups end now.
    pub fn change(&mut self, set: &RuleSet, recorded: &RecordedSeries, now: i64) {
        let key = |group: &Group| (group.file.clone(), group.name.clone());
        let mut old: HashMap<(Arc<str>, Arc<str>), Judged> =
            self.all.drain(..).map(|judged| (key(judged.evaluator.group()), judged)).collect();
        let before: HashSet<(Arc<str>, Arc<str>)> = old.keys().cloned().collect();
        for group in set.groups() {
            let evaluator = match old.remove(&key(group)) {
                Some(judged) => judged.evaluator.changed(group.clone(), now),
                None => Evaluator::new(group.clone(), self.settings.clone()),
            };
            self.all.push(Judged::new(evaluator, now));
        }
        let left: Vec<SavedGroup> = old.values().filter_map(|judged| judged.evaluator.save()).collect();
        self.move_alerts(left.iter(), &|group| !before.contains(&key(group)), now);
        self.sum(now);
        self.has_changed = true;
        let mut gone = Vec::new();
        for judged in old.into_values() {
            // An evaluation without samples ends all series of its group.
            let time = judged.evaluator.last().unwrap_or(now).saturating_add(1).max(now);
            let time = judged.evaluator.queried(time);
            if let Err(error) = recorded.append(&name_of(judged.evaluator.group()), time, &[]) {
                tracing::debug!("a group of rules has gone: {error}");
            }
            gone.extend(judged.evaluator.into_gone(now));
        }
        self.part(gone);
    }

    /// A pass has ended: renews the published standing of its group.
    pub fn ended(&mut self, passed: &Passed, share: &dyn Fn(RuleId) -> Option<Arc<Share>>) {
        let share = |rule| share(RuleId { group: passed.number, rule });
        self.with(passed.number, |judged| {
            judged.put(GroupStanding::of(&judged.evaluator, Some(&passed.pass), &share));
        });
        // Other hubs need to know since when this hub has seen the alert fire.
        let is_new = |alert: &Alert| alert.fired_here_at == Some(passed.pass.time);
        let alerts = &passed.pass.alerts;
        self.has_changed |= alerts.iter().any(|one| one.change.is_some() || is_new(&one.alert));
    }

    /// Applies a node's word on rules of a group at a time (ms since 1970). Returns the alerts that have changed, or `None` if none
    /// has, and the rules that no node can judge.
    pub fn take(
        &mut self,
        number: usize,
        at: (&str, i64),
        given: Vec<(usize, Vec<VectorSample>)>,
        means: &Means,
    ) -> (Option<Passed>, Vec<Unfit>) {
        let source = Asked::new(means.query.clone(), means.job.clone(), at.1);
        let limits = Limits { time: time_max(0), ..Limits::default() };
        let engine = Engine::new(limits);
        let taken = self.with(number, |judged| {
            let (mut alerts, unmade) = judged.evaluator.take(&engine, &source, at, given);
            alerts.retain(|passed| passed.change.is_some());
            judged.is_stale |= !alerts.is_empty();
            (alerts, judged.unfit((number, at.0), unmade), judged.evaluator.group().clone())
        });
        let Some((alerts, unfit, group)) = taken else { return Default::default() };
        self.part_with_forgotten(number);
        if alerts.is_empty() {
            return (None, unfit);
        }
        self.has_changed = true;
        let pass = Pass { time: at.1, alerts, ..Pass::default() };
        (Some(Passed { number, name: name_of(&group), group, pass, is_whole: false }), unfit)
    }

    /// A node has just announced samples. The group is evaluated as soon as they are here, even if it is not due.
    pub fn evaluate_soon(&mut self, number: usize, now: i64) {
        let is_running = self.running.contains(&number);
        let Some(judged) = self.all.get_mut(number) else { return };
        let soon = now.saturating_add(SAMPLES_LATE).max(judged.not_before);
        if is_running {
            judged.wanted = Some(soon);
            return;
        }
        let due = judged.due.min(soon);
        self.schedule.change(number, judged.due, due);
        judged.due = due;
    }

    /// Another hub judges these nodes from now on. Their alerts are forgotten, and not resolved. With `only_active`, alerts that
    /// were resolved before stay, since the other hub may not know of their end.
    pub fn release(&mut self, nodes: &BTreeSet<Arc<str>>, only_active: bool) {
        self.same_labels.forget_nodes(nodes);
        for number in 0..self.all.len() {
            let is_changed = self.with(number, |judged| {
                let is_changed = judged.evaluator.release(nodes, only_active);
                judged.is_stale |= is_changed;
                is_changed
            });
            self.has_changed |= is_changed.unwrap_or_default();
        }
    }

    /// Takes over the wanted alerts of another hub, which then go on here. Returns them.
    pub fn adopt(
        &mut self,
        word: &PeerWord,
        handover: Handover,
        only_active: bool,
        is_wanted: &dyn Fn(&SavedAlert) -> bool,
    ) -> Vec<Passed> {
        self.take_word(word, handover.now, &|evaluator, saved| {
            evaluator.adopt(saved, handover, only_active, is_wanted)
        })
    }

    /// Ends the wanted alerts that came from another hub and have ended there since. Returns them.
    pub fn end_with(
        &mut self,
        word: &PeerWord,
        now: i64,
        is_wanted: &dyn Fn(&SavedAlert) -> bool,
    ) -> Vec<Passed> {
        self.take_word(word, now, &|evaluator, saved| evaluator.end_with(saved, now, is_wanted))
    }

    /// What another hub said of the group of this number.
    fn said_of<'a>(&self, number: usize, word: &'a PeerWord) -> Option<&'a SavedGroup> {
        let is_here =
            |saved: &SavedGroup| self.all.iter().any(|judged| is_same(judged.evaluator.group(), saved));
        word.group(self.all[number].evaluator.group(), &is_here)
    }

    /// Takes what another hub says of each group.
    fn take_word(
        &mut self,
        word: &PeerWord,
        now: i64,
        take: &dyn Fn(&mut Evaluator, &SavedGroup) -> Vec<PassedAlert>,
    ) -> Vec<Passed> {
        let mut all = Vec::new();
        for number in 0..self.all.len() {
            let Some(saved) = self.said_of(number, word) else { continue };
            let alerts = self.with(number, |judged| {
                let alerts = take(&mut judged.evaluator, saved);
                judged.is_stale |= !alerts.is_empty();
                alerts
            });
            let alerts = alerts.unwrap_or_default();
            if alerts.is_empty() {
                continue;
            }
            self.has_changed = true;
            let group = self.all[number].evaluator.group().clone();
            let pass = Pass { time: now, alerts, ..Pass::default() };
            all.push(Passed { number, name: name_of(&group), group, pass, is_whole: false });
        }
        all
    }

    /// Takes over the end of alerts of another hub that have no rule here.
    pub fn end_without_rule(&mut self, word: &PeerWord, now: i64, is_wanted: &dyn Fn(&Labels) -> bool) {
        let groups = self.all.iter().map(|judged| judged.evaluator.group());
        let mut gone = word.without_rule(groups, now);
        gone.retain(|one| is_wanted(&texts(&one.alert.labels)));
        self.has_changed |= !gone.is_empty();
        self.part(gone);
    }

    /// Forgets wanted alerts from before this hub was started: all if another hub has taken them over since, else those that have
    /// ended there since. `own_since`: since when this hub owns an alert. An earlier end at the other hub is not the end of this
    /// firing. Returns their labels.
    pub fn forget(
        &mut self,
        word: &PeerWord,
        taken_at: Option<i64>,
        is_wanted: &dyn Fn(&Labels) -> bool,
        own_since: &dyn Fn(&Labels) -> Option<i64>,
    ) -> BTreeSet<Labels> {
        let mut all = BTreeSet::new();
        let is_meant = |labels: &LabelSet| is_wanted(&texts(labels));
        for number in 0..self.all.len() {
            if !self.all[number].evaluator.is_restored() {
                continue;
            }
            let saved = self.said_of(number, word);
            let forgotten = self.with(number, |judged| {
                let taken = taken_at.map(|at| judged.evaluator.forget_taken(at, &is_meant));
                let is_theirs = |alert: &SavedAlert| {
                    is_wanted(&alert.labels)
                        && own_since(&alert.labels).is_none_or(|since| alert.last_end() > Some(since))
                };
                let ended = |saved| judged.evaluator.forget_ended(saved, &is_theirs);
                let ended = saved.map(ended).into_iter().flatten();
                let forgotten: Vec<LabelSet> = taken.into_iter().flatten().chain(ended).collect();
                judged.is_stale |= !forgotten.is_empty();
                forgotten
            });
            all.extend(forgotten.unwrap_or_default().iter().map(texts));
        }
        let of_no_rule = taken_at.map(|at| self.without_rule.forget_taken(at, &is_meant));
        all.extend(of_no_rule.iter().flatten().map(texts));
        self.has_changed |= !all.is_empty();
        all
    }

    /// Notes whether alerts that were resolved here at these times went on at another hub.
    pub fn went_on(&mut self, all: &[(Labels, i64, bool)]) {
        for (labels, resolved_at, went_on) in all {
            let labels = LabelSet::new(labels.clone());
            for number in 0..self.all.len() {
                let change = |judged: &mut Judged| judged.evaluator.went_on(&labels, *resolved_at, *went_on);
                let is_new = self.with(number, change);
                self.has_changed |= is_new.unwrap_or_default();
            }
        }
    }

    /// When alerts ended here the last time, by their labels (ms since 1970).
    pub fn last_ends(&self) -> HashMap<Labels, i64> {
        let alerts = self.all.iter().flat_map(|judged| {
            let rules = 0..judged.evaluator.group().rules.len();
            rules.flat_map(|rule| judged.evaluator.alerts(rule))
        });
        alerts.filter_map(|alert| Some((texts(&alert.labels), alert.last_end()?))).collect()
    }

    /// The firing and the resolved alerts of these nodes, in the form of messages to people.
    pub fn alerts_of(&mut self, nodes: &BTreeSet<Arc<str>>) -> Vec<khz_notify::Alert> {
        self.alerts_for_people(
            |_| true,
            |alert| alert.fired_at.is_some() && nodes.contains(alert.labels.get(NODE_LABEL)),
        )
    }

    /// Alerts of no node that ended before this hub was started. People may not know of the end.
    pub fn restored_ends(&mut self) -> Vec<khz_notify::Alert> {
        self.alerts_for_people(
            |judged| judged.evaluator.is_restored(),
            |alert| {
                alert.state == AlertState::Inactive
                    && alert.fired_at.is_some()
                    && alert.labels.get(NODE_LABEL).is_empty()
            },
        )
    }

    /// Alerts of some groups, in the form of messages to people.
    fn alerts_for_people(
        &mut self,
        is_of_group: impl Fn(&Judged) -> bool,
        is_meant: impl Fn(&Alert) -> bool,
    ) -> Vec<khz_notify::Alert> {
        let mut all = Vec::new();
        for judged in self.all.iter().filter(|judged| is_of_group(judged)) {
            for (number, rule) in judged.evaluator.group().rules.iter().enumerate() {
                let meant = judged.evaluator.alerts(number).filter(|alert| is_meant(alert));
                all.extend(meant.map(|alert| (alert.clone(), rule.expr.clone())));
            }
        }
        all.iter().map(|(alert, expr)| self.one_alert(alert, expr)).collect()
    }

    /// Judges nothing for a while: the rows of nodes are on their way. Skips evaluations that were due meanwhile.
    pub fn settle(&mut self, now: i64, numbers: &Numbers) {
        let first = now.saturating_add(SETTLING);
        // Other hubs must not take the old state for the current one.
        self.has_changed = true;
        for (number, judged) in self.all.iter_mut().enumerate() {
            judged.evaluator.stood_still();
            judged.not_before = judged.not_before.max(first);
            judged.wanted = judged.wanted.map(|wanted| wanted.max(first));
            if judged.due >= first {
                continue;
            }
            let (before, due) = (judged.due, judged.evaluator.next(first));
            let missed = due.saturating_sub(before) / judged.evaluator.interval();
            numbers.missed.fetch_add(missed.unsigned_abs(), Ordering::Relaxed);
            judged.due = due;
            if !self.running.contains(&number) {
                self.schedule.change(number, before, due);
            }
        }
    }

    /// The clock by which rules are judged was set by this many ms. Alerts go on, and no group is judged before nodes have sent
    /// rows of the new time. No pass may run.
    pub fn clock_set(&mut self, by: i64, now: i64) {
        self.has_changed = true;
        for judged in &mut self.all {
            judged.evaluator.clock_set(by);
            judged.not_before = now.saturating_add(SETTLING);
            judged.due = judged.evaluator.next(judged.not_before);
            judged.wanted = None;
            judged.is_stale = true;
        }
        let due = self.all.iter().enumerate().map(|(number, judged)| (judged.due, number));
        self.schedule = Schedule::new(due, now);
    }

    /// This hub stood still, and another one may have taken over. The state here is old, as after a restart. `is_pause`: time has
    /// passed meanwhile. Otherwise only the clock was set, and waiting alerts go on waiting.
    pub fn begin_again(&mut self, now: i64, is_pause: bool) {
        let first = now.saturating_add(SETTLING);
        for judged in &mut self.all {
            judged.evaluator.stood_still();
            if let Some(saved) = judged.evaluator.save().filter(|_| is_pause) {
                let group = judged.evaluator.group().clone();
                judged.evaluator = Evaluator::restore(group, self.settings.clone(), &saved, now);
            }
            (judged.due, judged.not_before) = (judged.evaluator.next(first), first);
            (judged.wanted, judged.is_stale) = (None, true);
        }
        self.part(Vec::new());
        self.sum(now);
        self.has_changed = true;
    }

    /// Shows who judges each rule.
    pub fn shared(&mut self, share: &dyn Fn(RuleId) -> Option<Arc<Share>>) {
        for (group, judged) in self.all.iter_mut().enumerate() {
            let mut standing = (*judged.standing).clone();
            for (rule, one) in standing.rules.iter_mut().enumerate() {
                one.share = share(RuleId { group, rule });
            }
            judged.standing = Arc::new(standing);
        }
    }

    /// Whether a rule has active alerts on a node.
    pub fn has_active(&self, id: RuleId, node: &str) -> bool {
        self.all.get(id.group).is_some_and(|judged| judged.evaluator.has_active(id.rule, node))
    }

    /// The groups, in their order, each with its interval (ms).
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<Group>, i64)> {
        self.all.iter().map(|judged| (judged.evaluator.group(), judged.evaluator.interval()))
    }

    /// Publishes all groups on the board.
    pub fn show(&mut self, board: &Board, refused: String) {
        for number in 0..self.all.len() {
            self.with(number, Judged::renew);
        }
        let groups = self.all.iter().map(|judged| judged.standing.clone()).collect();
        board.put(Standing { groups, refused });
    }

    /// Publishes one group on the board.
    pub fn show_one(&mut self, number: usize, board: &Board) {
        self.with(number, Judged::renew);
        if let Some(judged) = self.all.get(number) {
            board.put_group(number, judged.standing.clone());
        }
    }

    /// Logs what has changed.
    pub fn log(&mut self, passed: &Passed) {
        if let Some(judged) = self.all.get_mut(passed.number) {
            passed.log(&mut judged.errors);
        }
    }

    /// Records what has come.
    pub fn record(&mut self, passed: &Passed, recorded: &RecordedSeries, numbers: &Numbers) {
        if let Some(judged) = self.all.get_mut(passed.number) {
            passed.record(recorded, numbers, &mut judged.unrecorded);
        }
    }

    /// Whether a group is due.
    pub fn is_due(&self, now: i64) -> bool {
        self.schedule.first().is_some_and(|due| due <= now)
    }

    /// How long it is until a group is due.
    pub fn until_next(&self, now: i64) -> Duration {
        let next = self.schedule.first().unwrap_or(i64::MAX);
        Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0))
    }

    /// Whether an alert has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The state that must survive a restart.
    pub fn saved(&self) -> Saved {
        let mut saved = Saved::new(self.all.iter().filter_map(|judged| judged.evaluator.save()).collect());
        saved.gone = self.without_rule.save();
        saved.evaluates_from = self.all.iter().map(|judged| judged.not_before).max();
        saved
    }

    /// Counts the alerts that there are.
    pub fn count(&self, numbers: &Numbers) {
        numbers.firing.store(self.counts.0, Ordering::Relaxed);
        numbers.pending.store(self.counts.1, Ordering::Relaxed);
        numbers.texts.store(self.size.texts as u64, Ordering::Relaxed);
    }

    /// The due messages about alerts that have no rule any more.
    pub fn without_rule_due(&mut self, now: i64) -> Vec<khz_notify::Alert> {
        self.without_rule.due(now, &self.settings.external_url)
    }

    /// The address of this hub for people.
    pub fn external_url(&self) -> &str {
        &self.settings.external_url
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Two alerts that fire since 1 ms.
    const SAVED: &str = r#"{"khz_rules":1,"groups":[{"file":"old.yml","name":"g","time":9,"rules":[
        {"name":"A","labels":{"severity":"page"},"alerts":[{"state":"firing","labels":{"alertname":"A","severity":"page"},
         "annotations":{},"value":"1","active_at":1,"fired_at":1}]},
        {"name":"B","labels":{},"alerts":[{"state":"firing","labels":{"alertname":"B"},
         "annotations":{},"value":"1","active_at":1,"fired_at":1}]}]}]}"#;

    #[test]
    fn nothing_that_is_overdue_is_judged_before_nodes_have_had_time_to_send() {
        let rules = "groups: [{name: g, interval: 1s, rules: [{alert: A, expr: up}]}]";
        let set = RuleSet::parse(Path::new("new.yml"), rules.as_bytes()).unwrap();
        let mut groups = Groups::new(&set, Arc::default(), None, 1_000, false);
        assert_eq!(groups.until_next(9_000), Duration::ZERO, "it is overdue");
        let numbers = Numbers::default();
        groups.settle(9_000, &numbers);
        assert!(groups.until_next(9_000) > Duration::from_millis(SETTLING.unsigned_abs()));
        assert!(numbers.missed.load(Ordering::Relaxed) >= 17, "what is skipped is counted");
        groups.evaluate_soon(0, 9_000);
        assert!(
            groups.until_next(9_000) >= Duration::from_millis(SETTLING.unsigned_abs()),
            "nor if a node asks"
        );
        let due = groups.all[0].due;
        groups.settle(9_500, &numbers);
        assert!(groups.all[0].due >= due && groups.all[0].due <= due + 2_000);
    }

    #[test]
    fn alerts_go_on_when_a_file_has_another_name_and_those_of_rules_that_are_not_in_it_are_over() {
        let rules = "groups: [{name: h, rules: [{alert: A, expr: up}, {alert: A, expr: up, labels: {severity: page}}]}]";
        let set = RuleSet::parse(Path::new("new.yml"), rules.as_bytes()).unwrap();
        let saved = Saved::from_bytes(SAVED.as_bytes()).unwrap();
        let mut groups = Groups::new(&set, Arc::default(), Some(&saved), 100, true);
        let firing: Vec<usize> = [0, 1].map(|rule| groups.all[0].evaluator.alerts(rule).count()).to_vec();
        assert_eq!(firing, [0, 1], "the rule with the same labels has it");
        let alert = groups.all[0].evaluator.alerts(1).next().unwrap();
        assert_eq!((alert.state, alert.fired_at), (AlertState::Firing, Some(1)));
        let over = groups.without_rule_due(100);
        let over: Vec<_> = over.iter().map(|alert| (alert.name(), alert.ends_at)).collect();
        assert_eq!(over, [("B", Some(100))]);
    }
}
