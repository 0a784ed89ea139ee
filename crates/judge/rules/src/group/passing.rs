//! A pass of a group, rule by rule: between two rules the caller may do something else, take what a node says of the same group
//! among it. Each rule has the time of one query for its query and all its templates.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, QueryError, Source, stale};

use super::{Evaluator, Pass, PassedAlert, Recorded, RuleReport, Share, Work};
use crate::alert::Alert;
use crate::memory::{Memory, Overlay};

/// A pass that has begun.
#[derive(Debug)]
pub struct Passing {
    pass: Pass,
    /// What its rules have recorded so far.
    above: Memory,
    /// How many rules there are.
    rules: usize,
    /// What nodes had said of the group when the pass began.
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

    /// What is there of a pass that is given up: its alerts have changed already, and nothing is recorded of it.
    pub fn given_up(self) -> Pass {
        Pass { samples: Vec::new(), ..self.pass }
    }
}

impl Evaluator {
    /// Begins a pass at a time (ms since 1970).
    pub fn begin(&self, time: i64) -> Passing {
        let pass = Pass { time, ..Pass::default() };
        Passing { pass, above: Memory::default(), rules: self.group.rules.len(), takes: self.takes }
    }

    /// Evaluates the next rule of a pass of this group. Returns false if the engine was cancelled: then nothing has happened, and the
    /// rule is still the next.
    pub fn step(
        &mut self,
        passing: &mut Passing,
        engine: &Engine,
        source: &dyn Source,
        clock: &mut dyn FnMut() -> Duration,
        share: &Arc<Share>,
    ) -> bool {
        let Some(number) = passing.next_rule() else { return true };
        let group = self.group.clone();
        let rule = &group.rules[number];
        let (begin, engine) = (clock(), engine.clone().together());
        let Passing { pass, above, .. } = passing;
        let at = self.queried(pass.time);
        let overlay = Overlay::new(source, above);
        let mut report = RuleReport::default();
        let mut work = Work {
            engine: &engine,
            source: &overlay,
            settings: &self.settings,
            group: &group,
            time: pass.time,
            at,
        };
        match work.rule(rule, share, &mut self.rules[number].alerts, &mut report) {
            Ok((samples, alerts)) => {
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
                    // A series of the same time that an earlier rule gave stays as it is.
                    if above.add(&sample.labels, sample.time, sample.value) {
                        pass.samples.push(sample);
                    }
                }
                self.rules[number].series = series;
            }
            Err(_) if engine.check() == Err(QueryError::Cancelled) => return false,
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
        report.duration = clock().saturating_sub(begin);
        pass.rules.push(report);
        true
    }

    /// Ends a pass: series of rules that are not there any more end, too.
    pub fn finish(&mut self, passing: Passing) -> Pass {
        let Passing { mut pass, mut above, takes, .. } = passing;
        let at = self.queried(pass.time);
        for labels in std::mem::take(&mut self.ended) {
            if above.add(&labels, at, stale()) {
                pass.samples.push(Recorded { labels, time: at, value: stale() });
            }
        }
        self.last = Some(pass.time);
        if self.takes != takes {
            self.renew(&mut pass.alerts);
        }
        pass
    }

    /// What a node has said since a rule was evaluated was told then: the alerts are as they are now.
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

    /// The time of the queries of a pass.
    fn queried(&self, time: i64) -> i64 {
        time.saturating_sub(self.group.query_offset.unwrap_or(self.settings.query_offset))
    }
}
