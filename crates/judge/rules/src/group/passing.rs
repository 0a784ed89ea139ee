//! A pass of a group, rule by rule. Between two rules, the caller may do something else, even take a node's word about the same
//! group. Another thread can run a rule's queries, which may take minutes: it gets [`Asking`], and returns [`Answered`]. The query
//! of a rule and all its templates together have the time of one query.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, QueryError, Source, stale};

use super::record::states;
use super::share::Without;
use super::{Evaluator, Gave, Pass, PassedAlert, Recorded, Room, RuleReport, Settings, Share, Work};
use crate::alert::{Alert, AlertState};
use crate::alerts::Scope;
use crate::memory::{Memory, Overlay};
use crate::rule::Group;

/// A pass that has begun.
#[derive(Debug)]
pub struct Passing {
    pass: Pass,
    /// What its rules have recorded so far.
    above: Memory,
    /// How many rules there are.
    rules: usize,
    /// The number of node words about the group when the pass began.
    takes: u64,
}

impl Passing {
    /// The number of the rule that is evaluated next; `None`: all were.
    pub fn next_rule(&self) -> Option<usize> {
        Some(self.pass.rules.len()).filter(|next| *next < self.rules)
    }

    /// Its time (ms since 1970).
    pub fn time(&self) -> i64 {
        self.pass.time
    }

    /// How the rules went that were evaluated so far.
    pub fn reports(&self) -> &[RuleReport] {
        &self.pass.rules
    }

    /// The result of a pass that is given up. Its alerts have already changed; its samples are not recorded.
    pub fn given_up(self) -> Pass {
        Pass { samples: Vec::new(), ..self.pass }
    }
}

impl Evaluator {
    /// Begins a pass at a time (ms since 1970).
    pub fn begin(&self, time: i64) -> Passing {
        let pass = Pass { time, queried: self.queried(time), ..Pass::default() };
        Passing { pass, above: Memory::default(), rules: self.group.rules.len(), takes: self.takes }
    }

    /// Evaluates the next rule of a pass of this group. Returns false if the engine was cancelled: then nothing has changed, and
    /// the rule is still the next one.
    pub fn step(
        &mut self,
        passing: &mut Passing,
        engine: &Engine,
        source: &dyn Source,
        clock: &mut dyn FnMut() -> Duration,
        share: &Arc<Share>,
    ) -> bool {
        let Some(asking) = self.asking(passing, share) else { return true };
        let answered = asking.ask(passing, engine, source, clock);
        self.answered(passing, answered, share)
    }

    /// The next rule of a pass, for any thread to run; `None`: all were evaluated.
    pub fn asking(&self, passing: &Passing, share: &Arc<Share>) -> Option<Asking> {
        let number = passing.next_rule()?;
        let (group, settings, share) = (self.group.clone(), self.settings.clone(), share.clone());
        let (time, at) = (passing.pass.time, passing.pass.queried);
        Some(Asking { group, settings, number, time, at, share, room: self.room_of(number) })
    }

    /// Takes the answer of the next rule of a pass. `now` says who judges the rule now. If a node began or stopped judging
    /// meanwhile, its alerts stay as they are. Returns false if the engine was cancelled: then nothing has changed, and the rule is
    /// still the next one.
    pub fn answered(&mut self, passing: &mut Passing, answered: Answered, now: &Arc<Share>) -> bool {
        let Answered { number, share, gave, mut report, is_cancelled } = answered;
        if is_cancelled || passing.next_rule() != Some(number) {
            return false;
        }
        let group = self.group.clone();
        let rule = &group.rules[number];
        let at = passing.pass.queried;
        let given = gave.and_then(|gave| match (gave, rule.alerting()) {
            (Gave::Alerts(found), Some(alerting)) => {
                let untouched = [share.untouched(), now.untouched()].concat();
                let (time, most) = (passing.pass.time, self.most(number));
                let kept = now.kept(time, self.interval());
                let (times, scope) = (self.times(alerting), Scope::Except(&untouched, kept));
                let all = self.change(number, |alerts| alerts.step(found, time, times, most, scope));
                self.part_with_forgotten(number, time);
                let all = all.map_err(|error| error.to_string())?;
                let active = all.iter().filter(|(alert, _)| alert.state != AlertState::Inactive);
                let samples = active.flat_map(|(alert, _)| states(&rule.name, alert, at));
                Ok((samples.collect(), all))
            }
            (Gave::Samples(samples), _) => Ok((samples, Vec::new())),
            (Gave::Alerts(_), None) => Ok((Vec::new(), Vec::new())),
        });
        let Passing { pass, above, .. } = passing;
        match given {
            Ok((samples, alerts)) => {
                let samples: Vec<Recorded> = samples;
                report.samples = samples.len();
                pass.alerts.extend(alerts.into_iter().map(|(alert, change)| PassedAlert {
                    rule: number,
                    alert,
                    change,
                }));
                let series: BTreeSet<LabelSet> = samples.iter().map(|sample| sample.labels.clone()).collect();
                let gone = self.rules[number].series.difference(&series).cloned();
                let ends = gone.map(|labels| Recorded { labels, time: at, value: stale() });
                let samples: Vec<Recorded> = samples.into_iter().chain(ends).collect();
                for sample in samples {
                    // A series of an earlier rule with the same time stays as it is.
                    if above.add(&sample.labels, sample.time, sample.value) {
                        pass.samples.push(sample);
                    }
                }
                self.rules[number].series = series;
            }
            Err(error) => {
                report.error = Some(error);
                let known = self.rules[number].alerts.iter();
                pass.alerts.extend(known.map(|alert| PassedAlert {
                    rule: number,
                    alert: alert.clone(),
                    change: None,
                }));
            }
        }
        pass.rules.push(report);
        true
    }

    /// Ends a pass. The series of removed rules end, too.
    pub fn finish(&mut self, passing: Passing) -> Pass {
        let Passing { mut pass, mut above, takes, .. } = passing;
        let at = pass.queried;
        for labels in std::mem::take(&mut self.ended) {
            if above.add(&labels, at, stale()) {
                pass.samples.push(Recorded { labels, time: at, value: stale() });
            }
        }
        (self.last, self.restored_from) = (Some(pass.time), None);
        if self.takes != takes {
            self.renew(&mut pass.alerts);
        }
        pass
    }

    /// Updates the alerts to their current state. Changes by nodes since the evaluation of their rule were already reported.
    fn renew(&self, alerts: &mut Vec<PassedAlert>) {
        let now: Vec<HashMap<&LabelSet, &Arc<Alert>>> = (0..self.rules.len())
            .map(|rule| self.alerts(rule).map(|alert| (&alert.labels, alert)).collect())
            .collect();
        alerts.retain_mut(|passed| match now[passed.rule].get(&passed.alert.labels) {
            Some(alert) if Arc::ptr_eq(alert, &passed.alert) => true,
            Some(alert) => {
                (passed.alert, passed.change) = ((*alert).clone(), None);
                true
            }
            None => false,
        });
    }

    /// The time of the queries and of the samples of a pass (ms since 1970).
    pub fn queried(&self, time: i64) -> i64 {
        time.saturating_sub(self.group.query_offset.unwrap_or(self.settings.query_offset))
    }
}

/// A rule that is to be evaluated, with all that this takes.
#[derive(Debug)]
pub struct Asking {
    group: Arc<Group>,
    settings: Arc<Settings>,
    number: usize,
    /// The time of the pass.
    time: i64,
    /// The time of its queries.
    at: i64,
    share: Arc<Share>,
    room: Room,
}

/// The results of the evaluation of a rule. They have changed nothing yet.
#[derive(Debug)]
pub struct Answered {
    number: usize,
    share: Arc<Share>,
    gave: Result<Gave, String>,
    report: RuleReport,
    is_cancelled: bool,
}

impl Asking {
    /// Evaluates the rule, its query and its templates.
    pub fn ask(
        self,
        passing: &Passing,
        engine: &Engine,
        source: &dyn Source,
        clock: &mut dyn FnMut() -> Duration,
    ) -> Answered {
        let Asking { group, settings, number, time, at, share, room } = self;
        let (begin, engine) = (clock(), engine.clone().together());
        let without = Without::new(source, &share.away);
        let overlay = Overlay::new(&without, &passing.above);
        let mut report = RuleReport::default();
        let mut work =
            Work { engine: &engine, source: &overlay, settings: &settings, group: &group, time, at, room };
        let gave = work.rule(&group.rules[number], &share, &mut report);
        let is_cancelled = gave.is_err() && engine.check() == Err(QueryError::Cancelled);
        report.duration = clock().saturating_sub(begin);
        Answered { number, share, gave, report, is_cancelled }
    }
}
