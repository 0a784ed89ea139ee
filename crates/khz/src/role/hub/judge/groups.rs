//! The groups of rules of a hub: what is known of each, and what is shown of it. It sleeps for nobody, and does not
//! know where results go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use khz_hub::RecordedSeries;
use khz_promql::{Engine, Limits, VectorSample};
use khz_rules::{
    AlertState, Board, Evaluator, Group, GroupStanding, Pass, RuleId, RuleSet, Saved, Settings, Share,
    Standing,
};

use super::asked::Asked;
use super::numbers::Numbers;
use super::passed::{Complaint, Passed, name_of};
use super::turns::{Means, Turn, time_max};

/// How long a hub waits after a restart before it judges (ms): its nodes connect again meanwhile.
pub(super) const SETTLING: i64 = 10_000;

/// All groups, with what is known of them.
pub(super) struct Groups {
    settings: Arc<Settings>,
    pub all: Vec<Judged>,
    /// An alert has changed since somebody asked.
    pub has_changed: bool,
}

pub(super) struct Judged {
    pub evaluator: Evaluator,
    /// When it is evaluated next (ms since 1970).
    pub due: i64,
    /// Its pass that runs.
    pub turn: Option<Turn>,
    /// Time that its rules have used, for the order of turns.
    pub used: Duration,
    /// It takes too long.
    pub late: Complaint,
    /// It cannot be recorded.
    unrecorded: Complaint,
    /// Its firing and its pending alerts.
    counts: (u64, u64),
    standing: Arc<GroupStanding>,
    /// What is shown of it is older than its alerts.
    pub is_stale: bool,
    /// The errors of its rules in the last evaluation, which are logged.
    errors: Vec<Option<String>>,
}

impl Judged {
    fn new(evaluator: Evaluator, now: i64) -> Self {
        let standing = GroupStanding::of(&evaluator, None, &|_| None);
        let mut judged = Judged {
            due: evaluator.next(now),
            evaluator,
            turn: None,
            used: Duration::ZERO,
            late: Complaint::default(),
            unrecorded: Complaint::default(),
            counts: (0, 0),
            standing: Arc::new(standing.clone()),
            is_stale: false,
            errors: Vec::new(),
        };
        judged.put(standing);
        judged
    }

    /// From now on this is what is shown of it.
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
    /// The groups of a set; their alerts go on as they were saved.
    pub fn new(set: &RuleSet, settings: Arc<Settings>, saved: Option<&Saved>, now: i64) -> Self {
        let evaluator = |group: &Arc<Group>| match saved.and_then(|saved| saved.group(group)) {
            Some(saved) => Evaluator::restore(group.clone(), settings.clone(), saved, now),
            None => Evaluator::new(group.clone(), settings.clone()),
        };
        // Alerts that fire must not be resolved because their nodes are not back yet.
        let first = if saved.is_some() { now.saturating_add(SETTLING) } else { now };
        let all = set.groups().map(|group| Judged::new(evaluator(group), first)).collect();
        Groups { settings, all, has_changed: true }
    }

    /// The groups of another set: what is known of rules that stay goes on. Series of groups that have gone end now.
    pub fn change(&mut self, set: &RuleSet, recorded: &RecordedSeries, now: i64) {
        let mut old = std::mem::take(&mut self.all);
        for group in set.groups() {
            let is_same = |judged: &Judged| {
                let known = judged.evaluator.group();
                (&known.file, &known.name) == (&group.file, &group.name)
            };
            let evaluator = match old.iter().position(is_same) {
                Some(at) => old.swap_remove(at).evaluator.changed(group.clone()),
                None => Evaluator::new(group.clone(), self.settings.clone()),
            };
            self.all.push(Judged::new(evaluator, now));
        }
        self.has_changed = true;
        for judged in old {
            // An evaluation without samples ends all series of its group.
            let time = judged.evaluator.last().unwrap_or(now).saturating_add(1).max(now);
            if let Err(error) = recorded.append(&name_of(judged.evaluator.group()), time, &[]) {
                tracing::debug!("a group of rules has gone: {error}");
            }
        }
    }

    /// A pass has ended: what is shown of its group is new.
    pub fn ended(&mut self, passed: &Passed, share: &dyn Fn(RuleId) -> Option<Arc<Share>>) {
        let Some(judged) = self.all.get_mut(passed.number) else { return };
        let share = |rule| share(RuleId { group: passed.number, rule });
        judged.put(GroupStanding::of(&judged.evaluator, Some(&passed.pass), &share));
        self.has_changed |= passed.pass.alerts.iter().any(|passed| passed.change.is_some());
    }

    /// Takes what a node says of rules of a group at a time (ms since 1970). Returns the alerts that have changed; `None`: none has.
    pub fn take(
        &mut self,
        number: usize,
        at: (&str, i64),
        given: Vec<(usize, Vec<VectorSample>)>,
        means: &Means,
    ) -> Option<Passed> {
        let judged = self.all.get_mut(number)?;
        let source = Asked::new(means.query.clone(), means.job.clone(), at.1);
        let limits = Limits { time: time_max(0), ..Limits::default() };
        let engine = Engine::new(limits);
        let (mut alerts, failed) = judged.evaluator.take(&engine, &source, at, given);
        for (rule, error) in failed {
            let (group, (node, _)) = (judged.evaluator.group(), at);
            tracing::debug!(
                "rule {} of group {} fails on {node}: {error}",
                group.rules[rule].name,
                group.name
            );
        }
        alerts.retain(|passed| passed.change.is_some());
        if alerts.is_empty() {
            return None;
        }
        self.has_changed = true;
        judged.is_stale = true;
        let group = judged.evaluator.group().clone();
        let pass = Pass { time: at.1, alerts, ..Pass::default() };
        Some(Passed { number, name: name_of(&group), group, pass, is_whole: false })
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

    /// Puts everything up on the board.
    pub fn show(&mut self, board: &Board, refused: String) {
        self.all.iter_mut().for_each(Judged::renew);
        let groups = self.all.iter().map(|judged| judged.standing.clone()).collect();
        board.put(Standing { groups, refused });
    }

    /// Puts one group up on the board.
    pub fn show_one(&mut self, number: usize, board: &Board) {
        if let Some(judged) = self.all.get_mut(number) {
            judged.renew();
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

    /// How long it is until a group is due.
    pub fn until_next(&self, now: i64) -> Duration {
        let next = self.all.iter().map(|judged| judged.due).min().unwrap_or(i64::MAX);
        Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0))
    }

    /// Whether an alert has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// What is to be kept over a restart.
    pub fn saved(&self) -> Saved {
        Saved::new(self.all.iter().filter_map(|judged| judged.evaluator.save()).collect())
    }

    /// Counts the alerts that there are.
    pub fn count(&self, numbers: &Numbers) {
        let sum = |of: fn(&Judged) -> u64| self.all.iter().map(of).sum();
        numbers.firing.store(sum(|judged| judged.counts.0), Ordering::Relaxed);
        numbers.pending.store(sum(|judged| judged.counts.1), Ordering::Relaxed);
    }

    /// Where people find this hub.
    pub fn external_url(&self) -> &str {
        &self.settings.external_url
    }
}
