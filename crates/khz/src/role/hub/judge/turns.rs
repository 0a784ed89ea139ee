//! Whose turn it is: groups that are due are evaluated rule by rule, and the one that has used the least time is next, so that a slow
//! group makes another wait for one rule, not for all. A group that is late is logged and counted while it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_model::{Nanos, Query};
use khz_past::PastSource;
use khz_promql::{Engine, Limits};
use khz_rules::limits::PASSES_MAX;
use khz_rules::{Board, Evaluator, Passing, RuleId, Share, duration_text};

use super::groups::{Groups, Judged, SETTLING};
use super::numbers::Numbers;
use super::passed::{Passed, name_of};

/// The least time that a rule may take.
const LEAST: Duration = Duration::from_secs(5);

/// With what groups are evaluated.
pub(super) struct Means {
    pub query: Arc<dyn Query>,
    pub job: Arc<str>,
    /// The rule that is evaluated is to stop.
    pub interrupted: Arc<AtomicBool>,
    pub numbers: Arc<Numbers>,
    pub board: Arc<Board>,
}

/// A pass that has begun.
pub(super) struct Turn {
    passing: Passing,
    source: PastSource,
    begun: Instant,
    /// Time of its rules.
    used: Duration,
}

/// What a turn has brought.
pub(super) enum Turned {
    /// No group is due.
    Idle,
    /// A rule was evaluated, or was to stop.
    Rule,
    /// A group is done.
    Group(Passed),
}

impl Groups {
    /// Evaluates one rule of the group whose turn it is.
    pub fn turn(&mut self, means: &Means, now: i64, share: &dyn Fn(RuleId) -> Option<Arc<Share>>) -> Turned {
        self.begin_due(means, now);
        let turns = self.all.iter().enumerate().filter(|(_, judged)| judged.turn.is_some());
        let Some((number, _)) = turns.min_by_key(|(_, judged)| (judged.used, judged.due)) else {
            return Turned::Idle;
        };
        let judged = &mut self.all[number];
        let Some(turn) = &mut judged.turn else { return Turned::Idle };
        if let Some(rule) = turn.passing.next_rule() {
            means.board.evaluates(Some(judged.evaluator.group().name.clone()));
            let begin = Instant::now();
            let limits = Limits { time: time_max(judged.evaluator.interval()), ..Limits::default() };
            let engine = Engine::new(limits).cancelled_by(means.interrupted.clone());
            let share = share(RuleId { group: number, rule }).unwrap_or_default();
            let (evaluator, clock) = (&mut judged.evaluator, &mut || begin.elapsed());
            evaluator.step(&mut turn.passing, &engine, &turn.source, clock, &share);
            turn.used += begin.elapsed();
            judged.used += begin.elapsed();
            means.board.evaluates(None);
            judged.be_late(super::clock::now(), &means.numbers);
        }
        match judged.turn.take() {
            Some(turn) if turn.passing.next_rule().is_none() => {
                let pass = judged.evaluator.finish(turn.passing);
                let group = judged.evaluator.group().clone();
                let passed = Passed { number, name: name_of(&group), group, pass, is_whole: true };
                means.numbers.evaluated(&passed.pass);
                self.ended(&passed, share);
                Turned::Group(passed)
            }
            turn => {
                judged.turn = turn;
                Turned::Rule
            }
        }
    }

    /// Begins the passes that are due, the longest due first.
    fn begin_due(&mut self, means: &Means, now: i64) {
        let least = self.all.iter().filter(|judged| judged.turn.is_some()).map(|judged| judged.used).min();
        let mut running = self.all.iter().filter(|judged| judged.turn.is_some()).count();
        let mut due: Vec<&mut Judged> = Vec::new();
        for judged in self.all.iter_mut().filter(|judged| judged.turn.is_none()) {
            if judged.due <= now {
                due.push(judged);
                continue;
            }
            // Somebody has set the clock back by far: what was due in the future is not waited for.
            let farthest = now.saturating_add(judged.evaluator.interval()).saturating_add(SETTLING);
            if judged.due > farthest {
                judged.due = judged.evaluator.next(now);
            }
        }
        due.sort_by_key(|judged| judged.due);
        for judged in due {
            if running >= PASSES_MAX {
                break;
            }
            judged.begin(means, now);
            // Who has slept for long has saved up nothing.
            judged.used = judged.used.max(least.unwrap_or_default());
            running += 1;
        }
    }

    /// Gives up the passes that run. Returns what has come of them.
    pub fn give_up(&mut self) -> Vec<Passed> {
        let mut given_up = Vec::new();
        for (number, judged) in self.all.iter_mut().enumerate() {
            let Some(turn) = judged.turn.take() else { continue };
            (judged.due, judged.is_stale) = (turn.passing.time(), true);
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

    /// Counts and logs that a pass takes longer than its interval.
    fn be_late(&mut self, now: i64, numbers: &Numbers) {
        let interval = self.evaluator.interval();
        let Some(turn) = self.turn.as_ref().filter(|_| now >= self.due) else { return };
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
