//! Decides the order of work. Due groups are evaluated rule by rule, and the group that has used the least time is next. So a slow
//! group delays another one by one rule only. While a group is late, this is logged and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_model::{Nanos, Query};
use khz_past::PastSource;
use khz_promql::{Engine, Limits};
use khz_rules::limits::PASSES_MAX;
use khz_rules::{Board, Evaluator, Passing, RuleId, Share, duration_text};

use super::asker::{Done, Job};
use super::groups::{Groups, Judged, SETTLING};
use super::numbers::Numbers;
use super::passed::{Passed, name_of};

/// The least time that a rule may take.
const LEAST: Duration = Duration::from_secs(5);

/// What the evaluation of groups needs.
pub(super) struct Means {
    pub query: Arc<dyn Query>,
    pub job: Arc<str>,
    /// Tells the running evaluation of a rule to stop.
    pub interrupted: Arc<AtomicBool>,
    pub numbers: Arc<Numbers>,
    pub board: Arc<Board>,
}

/// A pass that has begun.
pub(super) struct Turn {
    pub passing: Passing,
    pub source: PastSource,
    begun: Instant,
    /// Time of its rules.
    used: Duration,
}

/// How a turn begins.
pub(super) enum Begun {
    /// No group is due.
    Idle,
    /// Evaluate this rule. The result goes to [`Groups::end_turn`].
    Rule(Box<Job>),
    /// A group without rules is done.
    Group(Passed),
}

/// What a turn has brought.
pub(super) enum Turned {
    /// The evaluation of a rule has ended, or somebody stopped it.
    Rule,
    /// A group is done.
    Group(Passed),
}

impl Groups {
    /// The rule that is next, with all that its evaluation needs.
    pub fn begin_turn(&mut self, means: &Means, now: i64, share: &dyn Fn(RuleId) -> Arc<Share>) -> Begun {
        self.begin_due(means, now);
        let turns = self.running.iter().filter(|number| self.all[**number].turn.is_some());
        let order = |number: &&usize| (self.all[**number].used, self.all[**number].due);
        let Some(number) = turns.min_by_key(order).copied() else { return Begun::Idle };
        let Some(turn) = self.all[number].turn.take() else { return Begun::Idle };
        let Some(rule) = turn.passing.next_rule() else { return Begun::Group(self.finish(number, turn)) };
        let share = share(RuleId { group: number, rule });
        let begun = self.with(number, |judged| {
            let limits = Limits { time: time_max(judged.evaluator.interval()), ..Limits::default() };
            (judged.evaluator.asking(&turn.passing, &share), limits, judged.evaluator.group().name.clone())
        });
        let Some((Some(asking), limits, name)) = begun else { return Begun::Idle };
        means.board.evaluates(Some(name));
        let engine = Engine::new(limits).cancelled_by(means.interrupted.clone());
        Begun::Rule(Box::new(Job { id: RuleId { group: number, rule }, turn, asking, engine }))
    }

    /// Takes the result of an evaluated rule. `now_share`: who judges the rule now. `shown`: what users see of that.
    pub fn end_turn(
        &mut self,
        done: Done,
        means: &Means,
        now_share: &Arc<Share>,
        shown: &dyn Fn(RuleId) -> Option<Arc<Share>>,
    ) -> Turned {
        let Done { id: RuleId { group: number, .. }, mut turn, answered, took } = done;
        means.board.evaluates(None);
        let now = super::clock::now();
        let ended = self.with(number, |judged| {
            judged.evaluator.answered(&mut turn.passing, answered, now_share);
            turn.used += took;
            judged.used += took;
            judged.be_late(&turn, now, &means.numbers);
            match turn.passing.next_rule() {
                Some(_) => judged.turn.replace(turn),
                None => Some(turn),
            }
        });
        let Some(turn) = ended.flatten() else { return Turned::Rule };
        let passed = self.finish(number, turn);
        self.part_with_forgotten(number);
        means.numbers.evaluated(&passed.pass);
        self.ended(&passed, shown);
        Turned::Group(passed)
    }

    /// Ends a pass.
    fn finish(&mut self, number: usize, turn: Turn) -> Passed {
        let judged = &mut self.all[number];
        // Other hubs wait until this hub knows by itself the state of alerts from before its start.
        self.has_changed |= judged.evaluator.is_restored() && judged.evaluator.size().alerts > 0;
        let pass = judged.evaluator.finish(turn.passing);
        let group = judged.evaluator.group().clone();
        self.wait_again(number, super::clock::now());
        Passed { number, name: name_of(&group), group, pass, is_whole: true }
    }

    /// The pass of a group is over. The group waits until it is due again.
    fn wait_again(&mut self, number: usize, now: i64) {
        self.running.retain(|one| *one != number);
        let judged = &mut self.all[number];
        if let Some(wanted) = judged.wanted.take() {
            judged.due = judged.due.min(wanted);
        }
        judged.not_too_far(now);
        self.schedule.put(number, judged.due);
    }

    /// Begins the passes that are due, the longest due first.
    fn begin_due(&mut self, means: &Means, now: i64) {
        let all = &mut self.all;
        // If the clock was set back, do not wait for old due times.
        self.schedule.look(now, |number, _| {
            all[number].not_too_far(now);
            all[number].due
        });
        let least = self.running.iter().map(|number| self.all[*number].used).min().unwrap_or_default();
        while self.running.len() < PASSES_MAX
            && let Some(number) = self.schedule.next(now)
        {
            self.running.push(number);
            let judged = &mut self.all[number];
            judged.begin(means, now);
            // A group that has slept for long gets no advantage from it.
            judged.used = judged.used.max(least);
        }
    }

    /// Stops the running passes. Returns their results so far.
    pub fn give_up(&mut self) -> Vec<Passed> {
        let mut given_up = Vec::new();
        for number in std::mem::take(&mut self.running) {
            let judged = &mut self.all[number];
            let Some(turn) = judged.turn.take() else { continue };
            (judged.due, judged.is_stale) = (turn.passing.time(), true);
            self.schedule.put(number, judged.due);
            let (mut pass, group) = (turn.passing.given_up(), judged.evaluator.group().clone());
            pass.alerts.retain(|passed| passed.change.is_some());
            self.has_changed |= !pass.alerts.is_empty();
            given_up.push(Passed { number, name: name_of(&group), group, pass, is_whole: false });
        }
        given_up
    }
}

impl Judged {
    fn begin(&mut self, means: &Means, now: i64) {
        let interval = self.evaluator.interval();
        let missed = now.saturating_sub(self.due) / interval;
        let time = self.due.saturating_add(missed.saturating_mul(interval));
        self.due = self.evaluator.next(time);
        means.numbers.missed.fetch_add(missed.unsigned_abs(), Ordering::Relaxed);
        let stamp = Nanos(time.unsigned_abs().saturating_mul(1_000_000));
        let source = PastSource::of(means.query.clone(), means.job.clone(), stamp);
        let passing = self.evaluator.begin(time);
        self.turn = Some(Turn { passing, source, begun: Instant::now(), used: Duration::ZERO });
    }

    /// Moves a due time that lies too far ahead, since only a clock that was set back explains it.
    fn not_too_far(&mut self, now: i64) {
        let farthest = now.saturating_add(self.evaluator.interval()).saturating_add(SETTLING);
        if self.due > farthest {
            self.due = self.evaluator.next(now);
        }
    }

    /// Counts and logs that a pass takes longer than its interval.
    fn be_late(&mut self, turn: &Turn, now: i64, numbers: &Numbers) {
        let interval = self.evaluator.interval();
        if now < self.due {
            return;
        }
        let missed = now.saturating_sub(self.due) / interval;
        self.due = self.due.saturating_add(missed.saturating_mul(interval));
        numbers.missed.fetch_add(missed.unsigned_abs(), Ordering::Relaxed);
        if self.late.is_due() {
            tracing::warn!("{}", late(&self.evaluator, turn));
        }
    }
}

/// That a group is late, for people.
fn late(evaluator: &Evaluator, turn: &Turn) -> String {
    let group = evaluator.group();
    let slowest = group.rules.iter().zip(turn.passing.reports()).max_by_key(|(_, report)| report.duration);
    let slowest = slowest.map_or_else(String::new, |(rule, report)| {
        format!("; its slowest rule, {}, took {:.1} s", rule.name, report.duration.as_secs_f64())
    });
    format!(
        "group {} takes longer than its interval of {}: after {:.1} s {} of {} rules are evaluated, which took {:.1} s{slowest}",
        group.name,
        duration_text(evaluator.interval()),
        turn.begun.elapsed().as_secs_f64(),
        turn.passing.reports().len(),
        group.rules.len(),
        turn.used.as_secs_f64(),
    )
}

/// A rule has as long as its group's interval, and some seconds if that is short.
pub(super) fn time_max(interval: i64) -> Duration {
    Duration::from_millis(interval.unsigned_abs()).max(LEAST).min(khz_promql::limits::TIME_MAX)
}
