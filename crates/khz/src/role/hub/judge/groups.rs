//! The groups of rules of a hub: which one is due, its evaluation, and what is new after it. It sleeps for nobody, and does not
//! know where results go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_hub::RecordedSeries;
use khz_model::{Nanos, Query};
use khz_past::PastSource;
use khz_promql::{Engine, LabelSet, Limits, VectorSample};
use khz_rules::{
    AlertState, Board, Change, Evaluator, Group, GroupStanding, Pass, RuleId, RuleSet, Saved, Settings,
    Share, Standing,
};

use super::asked::Asked;
use super::numbers::Numbers;

/// Changes of alerts that are logged for each evaluation; the others are counted in one line.
const LOGGED_MAX: usize = 20;

/// How long a hub waits after a restart before it judges (ms): its nodes connect again meanwhile.
const SETTLING: i64 = 10_000;

/// All groups, with what is known of them.
pub(super) struct Groups {
    settings: Arc<Settings>,
    all: Vec<Judged>,
    /// An alert has changed since somebody asked.
    has_changed: bool,
}

struct Judged {
    evaluator: Evaluator,
    /// When it is evaluated next (ms since 1970).
    due: i64,
    standing: Arc<GroupStanding>,
    /// What is shown of it is older than its alerts.
    is_stale: bool,
    /// The errors of its rules in the last evaluation, which are logged.
    errors: Vec<Option<String>>,
}

impl Judged {
    fn new(evaluator: Evaluator, now: i64) -> Self {
        let standing = Arc::new(GroupStanding::of(&evaluator, None, &|_| None));
        Judged { due: evaluator.next(now), evaluator, standing, is_stale: false, errors: Vec::new() }
    }
}

/// An evaluation, with the group's name for those who record it.
pub(super) struct Passed {
    name: String,
    group: Arc<Group>,
    pass: Pass,
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

    /// Evaluates the group that is due, the longest due one first; `None`: none is.
    pub fn evaluate_next(
        &mut self,
        query: &Arc<dyn Query>,
        job: &Arc<str>,
        now: i64,
        is_over: &Arc<AtomicBool>,
        numbers: &Numbers,
        share: &dyn Fn(RuleId) -> Option<Arc<Share>>,
    ) -> Option<Passed> {
        let (group, next) = self.all.iter_mut().enumerate().min_by_key(|(_, judged)| judged.due)?;
        if next.due > now {
            // Somebody has set the clock back by far: what was due in the future is not waited for.
            let farthest = now.saturating_add(next.evaluator.interval()).saturating_add(SETTLING);
            next.due = if next.due > farthest { next.evaluator.next(now) } else { next.due };
            return None;
        }
        let interval = next.evaluator.interval();
        let missed = now.saturating_sub(next.due) / interval;
        let time = next.due.saturating_add(missed.saturating_mul(interval));
        next.due = next.evaluator.next(time);
        numbers.missed.fetch_add(missed.unsigned_abs(), Ordering::Relaxed);
        let stamp = Nanos(time.unsigned_abs().saturating_mul(1_000_000));
        let source = PastSource::of(query.clone(), job.clone(), stamp);
        let limits = Limits { time: time_max(interval), ..Limits::default() };
        let engine = Engine::new(limits).cancelled_by(is_over.clone());
        let begin = Instant::now();
        let whole = Arc::new(Share::default());
        let share = |rule| share(RuleId { group, rule });
        let of_rule = |rule| share(rule).unwrap_or_else(|| whole.clone());
        let pass = next.evaluator.evaluate_share(&engine, &source, time, &mut || begin.elapsed(), &of_rule);
        if is_over.load(Ordering::Relaxed) {
            // It was cut short: its errors say nothing.
            return None;
        }
        (next.standing, next.is_stale) =
            (Arc::new(GroupStanding::of(&next.evaluator, Some(&pass), &share)), false);
        self.has_changed |= pass.alerts.iter().any(|passed| passed.change.is_some());
        let group = next.evaluator.group().clone();
        let passed = Passed { name: name_of(&group), group, pass };
        passed.log(&mut next.errors);
        numbers.evaluated(&passed.pass);
        Some(passed)
    }

    /// Takes what a node says of rules of a group at a time (ms since 1970). Returns the alerts that have changed; `None`: none has.
    pub fn take(
        &mut self,
        group: usize,
        at: (&str, i64),
        given: Vec<(usize, Vec<VectorSample>)>,
        query: &Arc<dyn Query>,
        job: &Arc<str>,
    ) -> Option<Passed> {
        let judged = self.all.get_mut(group)?;
        let source = Asked::new(query.clone(), job.clone(), at.1);
        let engine = Engine::new(Limits::default());
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
        let passed =
            Passed { name: name_of(&group), group, pass: Pass { time: at.1, alerts, ..Pass::default() } };
        passed.log_alerts();
        Some(passed)
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
        for judged in self.all.iter_mut().filter(|judged| judged.is_stale) {
            judged.standing = Arc::new(judged.standing.renewed(&judged.evaluator));
            judged.is_stale = false;
        }
        let groups = self.all.iter().map(|judged| judged.standing.clone()).collect();
        board.put(Standing { groups, refused });
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
        let alerts =
            || self.all.iter().flat_map(|judged| &judged.standing.rules).flat_map(|rule| &rule.alerts);
        let of = |state| alerts().filter(|alert| alert.state == state).count() as u64;
        numbers.firing.store(of(AlertState::Firing), Ordering::Relaxed);
        numbers.pending.store(of(AlertState::Pending), Ordering::Relaxed);
    }

    /// Where people find this hub.
    pub fn external_url(&self) -> &str {
        &self.settings.external_url
    }
}

/// A group has as long as its interval, and some seconds if that is short: one that is too slow makes others late.
fn time_max(interval: i64) -> Duration {
    const LEAST: Duration = Duration::from_secs(5);
    Duration::from_millis(interval.unsigned_abs()).max(LEAST).min(khz_promql::limits::TIME_MAX)
}

/// The name under which a group's series are recorded: two files may have a group of the same name.
fn name_of(group: &Group) -> String {
    format!("{};{}", group.file, group.name)
}

impl Passed {
    /// Logs which alerts have changed, and which rules fail now that did not fail so before.
    fn log(&self, errors: &mut Vec<Option<String>>) {
        self.log_alerts();
        self.log_errors(errors);
    }

    fn log_alerts(&self) {
        let changed: Vec<_> = self.pass.alerts.iter().filter(|passed| passed.change.is_some()).collect();
        for passed in changed.iter().take(LOGGED_MAX) {
            let labels = khz_promql::label_text(&passed.alert.labels);
            match passed.change {
                Some(Change::Fired) => tracing::warn!("alert {labels} fires, at {}", passed.alert.value),
                Some(Change::Resolved) => tracing::info!("alert {labels} is resolved"),
                _ => tracing::debug!("alert {labels} is pending"),
            }
        }
        if changed.len() > LOGGED_MAX {
            tracing::warn!(
                "group {}: {} more alerts have changed",
                self.group.name,
                changed.len() - LOGGED_MAX
            );
        }
    }

    fn log_errors(&self, errors: &mut Vec<Option<String>>) {
        for (at, (rule, report)) in self.group.rules.iter().zip(&self.pass.rules).enumerate() {
            let known = errors.get(at).and_then(Option::as_ref);
            match &report.error {
                Some(error) if Some(error) != known => {
                    tracing::warn!("rule {} of group {} fails: {error}", rule.name, self.group.name);
                }
                None if known.is_some() => {
                    tracing::warn!("rule {} of group {} does not fail any more", rule.name, self.group.name);
                }
                _ => {}
            }
        }
        *errors = self.pass.rules.iter().map(|report| report.error.clone()).collect();
    }

    /// Records what the rules gave.
    pub fn record(&self, recorded: &RecordedSeries, numbers: &Numbers) {
        let time = self.pass.samples.first().map_or(self.pass.time, |sample| sample.time);
        let samples: Vec<(LabelSet, f64)> =
            self.pass.samples.iter().map(|sample| (sample.labels.clone(), sample.value)).collect();
        match recorded.append(&self.name, time, &samples) {
            Ok(appended) => {
                numbers.refused.fetch_add(appended.refused as u64, Ordering::Relaxed);
                if let Some(problem) = appended.problem {
                    tracing::warn!(
                        "group {}: {} samples were not recorded: {problem}",
                        self.group.name,
                        appended.refused
                    );
                }
            }
            Err(error) => {
                numbers.refused.fetch_add(samples.len() as u64, Ordering::Relaxed);
                tracing::warn!("{error}");
            }
        }
    }

    /// Firing alerts, and those that were resolved: for those who tell people, and those who act.
    pub fn alerts(&self, external_url: &str) -> Vec<khz_notify::Alert> {
        self.pass
            .alerts
            .iter()
            .filter(|passed| passed.alert.fired_at.is_some())
            .map(|passed| {
                let alert = &passed.alert;
                let expr = &self.group.rules[passed.rule].expr;
                let text = |(name, value): (&Arc<str>, &Arc<str>)| (name.to_string(), value.to_string());
                khz_notify::Alert {
                    labels: alert.labels.iter().map(text).collect(),
                    annotations: alert
                        .annotations
                        .iter()
                        .map(|(name, value)| (name.to_string(), value.clone()))
                        .collect(),
                    starts_at: alert.fired_at.unwrap_or(alert.active_at),
                    ends_at: alert.resolved_at,
                    generator_url: link(external_url, expr),
                }
            })
            .collect()
    }
}

/// The page of an expression.
fn link(external_url: &str, expr: &str) -> String {
    let mut link = format!("{external_url}/#query?expr=");
    for byte in expr.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                link.push(char::from(byte))
            }
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
    link
}
