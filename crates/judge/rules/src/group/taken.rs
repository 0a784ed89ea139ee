//! What a node that judges by itself says of the rules of a group: their alerts on this node go on, at the node's time. It evaluates
//! nothing.

use khz_promql::{Engine, Source, VectorSample};

use super::{Evaluator, PassedAlert, RuleReport, Work};
use crate::alerts::Scope;

impl Evaluator {
    /// Takes what some alerting rules give on one node, which it says at a time of its own (ms since 1970): for each rule all its
    /// series there, with the labels of the hub. Returns their alerts on this node, and why rules fail.
    pub fn take(
        &mut self,
        engine: &Engine,
        source: &dyn Source,
        (node, time): (&str, i64),
        given: Vec<(usize, Vec<VectorSample>)>,
    ) -> (Vec<PassedAlert>, Vec<(usize, String)>) {
        let (group, engine) = (self.group.clone(), &engine.clone().together());
        self.known = self.known.max(Some(time));
        self.takes += 1;
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        for (number, vector) in given {
            let Some(rule) = group.rules.get(number) else { continue };
            let Some(alerting) = rule.alerting() else { continue };
            let alerts = &self.rules[number].alerts;
            let room = self.room_of(number).beside(alerts.size().beside(alerts.size_of(node)));
            let mut work =
                Work { engine, source, settings: &self.settings, group: &group, time, at: time, room };
            let (times, most) = ((alerting.hold, alerting.keep_firing), self.most(number));
            let found = work.texts(rule, alerting, &vector, &mut RuleReport::default());
            let step = |found| {
                self.change(number, |alerts| alerts.step(found, time, times, most, Scope::One(node)))
                    .map_err(|error| error.to_string())
            };
            match found.and_then(step) {
                Ok(all) => passed.extend(all.into_iter().map(|(alert, change)| PassedAlert {
                    rule: number,
                    alert,
                    change,
                })),
                Err(error) => failed.push((number, error)),
            }
        }
        (passed, failed)
    }

    /// Whether a rule has active alerts on a node.
    pub fn has_active(&self, rule: usize, node: &str) -> bool {
        self.rules.get(rule).is_some_and(|progress| progress.alerts.has_active(node))
    }
}
