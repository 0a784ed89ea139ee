//! The word of a node that judges rules of a group by itself: its alerts go on with it, at the node's time. It evaluates nothing.

use khz_model::exposed;
use khz_promql::{Engine, METRIC_NAME, Source, VectorSample};

use super::{Evaluator, PassedAlert, RuleReport, Work};
use crate::alerts::{AlertsError, Found, NODE_LABEL, Scope};

/// A rule whose alerts cannot be made on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmade {
    /// The number of the rule in its group.
    pub rule: usize,
    /// Why, in Prometheus' words where it has some.
    pub error: String,
    /// True if series that a node keeps apart could be one alert, or two alerts with the same labels, which fail the whole rule.
    /// Then the rule must be judged where all series are seen together.
    pub is_of_rule: bool,
}

/// Finds a series whose node label was replaced by a label of the rule. Returns its node, and why that node cannot judge the rule.
/// `None`: it can.
pub(super) fn replaced(vector: &[VectorSample], found: &[Found]) -> Option<(String, String)> {
    let lost = vector.iter().zip(found).find_map(|(sample, alert)| {
        let is_lost = |name: &str, value: &str| {
            // A node has one job.
            name != METRIC_NAME && name != exposed::JOB && alert.labels.get(name) != value
        };
        let mut labels = sample.labels.iter();
        labels.find(|(name, value)| is_lost(name, value)).map(|(name, _)| (sample, name))
    });
    let (sample, name) = lost?;
    let why = format!("its label {name} replaces that of its series, by which a node tells its alerts apart");
    Some((sample.labels.get(NODE_LABEL).to_owned(), why))
}

impl Evaluator {
    /// Takes a node's word on some alerting rules, at the node's own time (ms since 1970): for each rule all its series there, with
    /// the labels of the hub. Returns their alerts on this node, and which rules fail.
    pub fn take(
        &mut self,
        engine: &Engine,
        source: &dyn Source,
        (node, time): (&str, i64),
        given: Vec<(usize, Vec<VectorSample>)>,
    ) -> (Vec<PassedAlert>, Vec<Unmade>) {
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
            let (times, most) = (self.times(alerting), self.most(number));
            let found = work.texts(rule, alerting, &vector, &mut RuleReport::default());
            let unmade = |error, is_of_rule| Unmade { rule: number, error, is_of_rule };
            let step = |found| {
                let stepped =
                    self.change(number, |alerts| alerts.step(found, time, times, most, Scope::One(node)));
                stepped.map_err(|error| unmade(error.to_string(), error == AlertsError::Same))
            };
            let found = found.map_err(|error| unmade(error, false)).and_then(|found| {
                match replaced(&vector, &found) {
                    Some((_, why)) => Err(unmade(why, true)),
                    None => Ok(found),
                }
            });
            match found.and_then(step) {
                Ok(all) => passed.extend(all.into_iter().map(|(alert, change)| PassedAlert {
                    rule: number,
                    alert,
                    change,
                })),
                Err(unmade) => failed.push(unmade),
            }
            self.part_with_forgotten(number, time);
        }
        (passed, failed)
    }

    /// Whether a rule has active alerts on a node.
    pub fn has_active(&self, rule: usize, node: &str) -> bool {
        self.rules.get(rule).is_some_and(|progress| progress.alerts.has_active(node))
    }
}
