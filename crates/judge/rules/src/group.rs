//! Evaluates the rules of a group, one after another, at the caller's time, over the caller's samples. It returns the results to
//! the caller, and stores or sends nothing.

mod gone;
mod moved;
mod passing;
mod record;
mod room;
mod saved;
mod share;
mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, METRIC_NAME, Source, Value, VectorSample, stale};

pub use gone::{Gone, GoneAlert, SavedGone};
pub use moved::Handover;
pub use passing::{Answered, Asking, Passing};
pub use room::Room;
pub use saved::{LeftOut, Saved, SavedAlert, SavedGroup, SavedOwn, SavedRule};
pub use share::Share;
pub use taken::Unmade;

use crate::alert::{ALERT_NAME, Alert, Change};
use crate::alerts::{Alerts, Found, Most};
use crate::limits::{HUB_TEXTS_BYTES_MAX, RULE_TEXTS_BYTES_MAX};
use crate::rule::{Alerting, Group, Rule, RuleKind};
use crate::template::TemplateData;

/// What all groups have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interval of groups that name none (ms): a minute, as in Prometheus.
    pub interval: i64,
    /// The query offset of groups that set none (ms).
    pub query_offset: i64,
    /// Labels of this whole system, for templates.
    pub external_labels: BTreeMap<String, String>,
    /// The address of this system for people, for templates.
    pub external_url: String,
    /// The longest pause after which alerts go on (ms): an hour, as in Prometheus.
    pub outage_tolerance: i64,
    /// The shortest wait of a pending alert after a pause (ms): ten minutes, as in Prometheus.
    pub grace: i64,
    /// How much earlier `for` and `keep_firing_for` end (ms), at most half of the group's interval, since rows may come a little
    /// early or late. It is half of the time between two rows that nodes judge.
    pub tolerance: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            interval: 60_000,
            query_offset: 0,
            external_labels: BTreeMap::new(),
            external_url: String::new(),
            outage_tolerance: 3_600_000,
            grace: 600_000,
            tolerance: 0,
        }
    }
}

/// A sample that a rule gives. The value [`stale()`] ends the series.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The series.
    pub labels: LabelSet,
    /// When (ms since 1970).
    pub time: i64,
    /// The value.
    pub value: f64,
}

/// An alert after a pass.
#[derive(Clone, Debug)]
pub struct PassedAlert {
    /// The number of its rule in the group.
    pub rule: usize,
    /// The alert as it is now.
    pub alert: Arc<Alert>,
    /// What the pass did to the alert; `None`: only its value and its annotations may have changed.
    pub change: Option<Change>,
}

/// The report of a pass about one rule.
#[derive(Clone, Debug, Default)]
pub struct RuleReport {
    /// Why it failed.
    pub error: Option<String>,
    /// Warnings for the reader, in the words of PromQL.
    pub warnings: Vec<String>,
    /// Samples that it gave.
    pub samples: usize,
    /// Alerts without annotations, since these have too many bytes in all.
    pub bare: usize,
    /// Why no node can judge the rule, according to one of its series, and the node of that series.
    pub unfit: Option<(String, String)>,
    /// How long it took.
    pub duration: Duration,
}

/// The results of an evaluation of all rules of a group.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// When (ms since 1970).
    pub time: i64,
    /// The time of its queries and of its samples: `time`, less the group's `query_offset`. A pass without samples has this time,
    /// too.
    pub queried: i64,
    /// Recorded series, `ALERTS` and `ALERTS_FOR_STATE`, in the order of the rules.
    pub samples: Vec<Recorded>,
    /// Active alerts, and those that were resolved at most 15 minutes ago.
    pub alerts: Vec<PassedAlert>,
    /// A report for each rule.
    pub rules: Vec<RuleReport>,
}

/// The state of a rule between two passes.
#[derive(Clone, Debug, Default)]
struct Progress {
    alerts: Alerts,
    /// The series that it gave last.
    series: BTreeSet<LabelSet>,
}

/// A group, and the state of its rules between two passes.
#[derive(Clone, Debug)]
pub struct Evaluator {
    group: Arc<Group>,
    settings: Arc<Settings>,
    rules: Vec<Progress>,
    /// Series of removed rules, which end at the next pass.
    ended: BTreeSet<LabelSet>,
    /// Alerts of removed rules, until the caller takes them.
    gone: Vec<GoneAlert>,
    /// The time of the last pass.
    last: Option<i64>,
    /// The time of the newest information on its alerts from outside a pass: from a node, a saved state or another hub.
    known: Option<i64>,
    /// The group was not evaluated since it was restored. Its alerts have the state of this time.
    restored_from: Option<i64>,
    /// How often nodes did.
    takes: u64,
    /// The room that its alerts may take, and the room that they take.
    room: Room,
    size: Room,
}

impl Evaluator {
    /// A group that was never evaluated.
    pub fn new(group: Arc<Group>, settings: Arc<Settings>) -> Self {
        let rules = vec![Progress::default(); group.rules.len()];
        let (ended, gone, room, size) = (BTreeSet::new(), Vec::new(), Room::OF_HUB, Room::default());
        let (last, known, restored_from, takes) = (None, None, None, 0);
        Evaluator { group, settings, rules, ended, gone, last, known, restored_from, takes, room, size }
    }

    /// Whether its alerts are from before this process was started, and not evaluated since.
    pub fn is_restored(&self) -> bool {
        self.restored_from.is_some()
    }

    /// The process stood still. Until the next evaluation, the alerts have an old state.
    pub fn stood_still(&mut self) {
        self.restored_from = self.restored_from.or(self.last.max(self.known));
    }

    /// The clock of the evaluations was set by this many ms. No alert waits shorter or longer because of that.
    pub fn clock_set(&mut self, by: i64) {
        self.rules.iter_mut().for_each(|progress| progress.alerts.clock_set(by));
    }

    /// What its alerts take.
    pub fn size(&self) -> Room {
        self.size
    }

    /// Counts again what its alerts take.
    fn measure(&mut self) {
        self.size = self.rules.iter().fold(Room::default(), |sum, progress| sum.and(progress.alerts.size()));
    }

    /// Changes the alerts of a rule.
    fn change<R>(&mut self, rule: usize, change: impl FnOnce(&mut Alerts) -> R) -> R {
        let alerts = &mut self.rules[rule].alerts;
        let before = alerts.size();
        let changed = change(alerts);
        self.size = self.size.beside(before).and(alerts.size());
        changed
    }

    /// Alerts that a rule forgot at this time, because it gave too many, are over. People hear of their end.
    fn part_with_forgotten(&mut self, rule: usize, now: i64) {
        let forgotten = self.rules[rule].alerts.take_forgotten();
        let expr = &self.group.rules[rule].expr;
        self.gone.extend(forgotten.iter().filter_map(|alert| GoneAlert::of(alert, expr, now)));
    }

    /// Limits the room that its alerts may take.
    pub fn limit(&mut self, room: Room) {
        self.room = room;
    }

    /// The room that the alerts of a rule may take beside the other rules of the group.
    fn room_of(&self, rule: usize) -> Room {
        let own = self.rules.get(rule).map(|progress| progress.alerts.size()).unwrap_or_default();
        self.room.beside(self.size.beside(own))
    }

    /// The group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// How often the group is to be evaluated (ms).
    pub fn interval(&self) -> i64 {
        self.group.interval.unwrap_or(self.settings.interval).max(1)
    }

    /// How long alerts of a rule are pending, and fire on (ms), adjusted for rows that come a little early or late.
    fn times(&self, alerting: &Alerting) -> (i64, i64) {
        alerting.times(self.settings.tolerance, self.interval())
    }

    /// The first due time after this time. Due times are multiples of the interval, shifted by a part of it that depends on the
    /// group, so that not all groups are due at once.
    pub fn next(&self, after: i64) -> i64 {
        let interval = self.interval();
        let moved = (spread(&self.group) % interval.unsigned_abs()).cast_signed();
        let since = after.saturating_sub(moved);
        since.div_euclid(interval).saturating_add(1).saturating_mul(interval).saturating_add(moved)
    }

    /// The time of the last pass.
    pub fn last(&self) -> Option<i64> {
        self.last
    }

    /// The alerts of a rule: active ones, and those that were resolved at most 15 minutes ago.
    pub fn alerts(&self, rule: usize) -> impl Iterator<Item = &Arc<Alert>> {
        self.rules.get(rule).into_iter().flat_map(|progress| progress.alerts.iter())
    }

    /// The alert of a rule with these labels, if it is active or was resolved at most 15 minutes ago.
    pub fn alert(&self, rule: usize, labels: &LabelSet) -> Option<&Arc<Alert>> {
        self.rules.get(rule)?.alerts.get(labels)
    }

    /// The most active alerts of a rule: the limit of its group, and the room that is left.
    fn most(&self, rule: usize) -> Most {
        Most { of_group: self.group.limit, of_hub: self.room_of(rule).alerts }
    }

    /// The group in its new form at this time (ms since 1970). The state of rules with the same name and labels goes on. The series
    /// of other rules end with the next pass, and their alerts are gone ([`Evaluator::take_gone`]).
    #[must_use]
    pub fn changed(mut self, group: Arc<Group>, now: i64) -> Self {
        let mut next = Evaluator::new(group, self.settings.clone());
        (next.last, next.known, next.ended) = (self.last, self.known, std::mem::take(&mut self.ended));
        next.restored_from = self.restored_from;
        next.gone = std::mem::take(&mut self.gone);
        let mut old: Vec<Option<Progress>> = self.rules.into_iter().map(Some).collect();
        for (at, rule) in next.group.rules.iter().enumerate() {
            let alike = |known: &Rule| known.name == rule.name && known.label_texts().eq(rule.label_texts());
            let found = (0..old.len()).find(|from| old[*from].is_some() && alike(&self.group.rules[*from]));
            let Some((from, mut progress)) = found.and_then(|from| Some((from, old[from].take()?))) else {
                continue;
            };
            let unfired = match rule.alerting() {
                Some(alerting) => progress.alerts.wait_again(next.times(alerting).0, now),
                // A recording rule has no alerts.
                None => std::mem::take(&mut progress.alerts).iter().cloned().collect(),
            };
            let expr = &self.group.rules[from].expr;
            next.gone.extend(unfired.iter().filter_map(|alert| GoneAlert::of(alert, expr, now)));
            next.rules[at] = progress;
        }
        next.room = self.room;
        next.measure();
        for (rule, progress) in self.group.rules.iter().zip(old) {
            let Some(Progress { alerts, series }) = progress else { continue };
            next.gone.extend(alerts.iter().filter_map(|alert| GoneAlert::of(alert, &rule.expr, now)));
            next.ended.extend(series);
        }
        next
    }

    /// The ends of all series of a group that is not evaluated any more.
    pub fn end(self, time: i64) -> Vec<Recorded> {
        let all: BTreeSet<LabelSet> =
            self.rules.into_iter().flat_map(|progress| progress.series).chain(self.ended).collect();
        all.into_iter().map(|labels| Recorded { labels, time, value: stale() }).collect()
    }

    /// Evaluates all rules at a time (ms since 1970). A rule sees the samples that earlier rules have recorded in this pass.
    /// `clock` gives the time since some moment, to measure each rule's duration.
    pub fn evaluate(
        &mut self,
        engine: &Engine,
        source: &dyn Source,
        time: i64,
        clock: &mut dyn FnMut() -> Duration,
    ) -> Pass {
        let all = Arc::new(Share::default());
        self.evaluate_share(engine, source, time, clock, &|_| all.clone())
    }

    /// The same if some nodes judge some rules by themselves. The share of each rule, by its number, says what is left. The pass
    /// has all alerts, including those of such nodes.
    pub fn evaluate_share(
        &mut self,
        engine: &Engine,
        source: &dyn Source,
        time: i64,
        clock: &mut dyn FnMut() -> Duration,
        share: &dyn Fn(usize) -> Arc<Share>,
    ) -> Pass {
        let mut passing = self.begin(time);
        while let Some(rule) = passing.next_rule() {
            if !self.step(&mut passing, engine, source, clock, &share(rule)) {
                break;
            }
        }
        self.finish(passing)
    }
}

/// A number that depends on the name and the file of a group (FNV-1a).
fn spread(group: &Group) -> u64 {
    let bytes = group.file.bytes().chain([0]).chain(group.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The evaluation of one rule.
struct Work<'a> {
    engine: &'a Engine,
    source: &'a dyn Source,
    settings: &'a Settings,
    group: &'a Group,
    /// The time of the pass.
    time: i64,
    /// The time of queries and of samples.
    at: i64,
    /// The room that its alerts may take.
    room: Room,
}

/// What a rule gave.
#[derive(Debug)]
enum Gave {
    /// Series that are recorded.
    Samples(Vec<Recorded>),
    /// Alerts that are there, with their texts.
    Alerts(Vec<Found>),
}

impl Work<'_> {
    fn rule(&mut self, rule: &Rule, share: &Share, report: &mut RuleReport) -> Result<Gave, String> {
        let vector = if share.is_empty() {
            Vec::new()
        } else {
            let left = share.of(self.source);
            Work { source: &left, ..*self }.query(&rule.expr, self.at, report)?
        };
        match &rule.kind {
            RuleKind::Record { labels } => {
                record::record(&rule.name, labels, vector, self.at, self.group.limit).map(Gave::Samples)
            }
            RuleKind::Alert(alerting) => {
                let found = self.texts(rule, alerting, &vector, report)?;
                report.unfit = taken::replaced(&vector, &found);
                Ok(Gave::Alerts(found))
            }
        }
    }

    fn query(&self, text: &str, time: i64, report: &mut RuleReport) -> Result<Vec<VectorSample>, String> {
        let answer = self.engine.query(self.source, text, time).map_err(|error| error.to_string())?;
        report.warnings.extend(answer.warnings);
        vector(answer.value)
    }

    /// The series of an alerting rule as alerts, with as many annotations as there is room for.
    fn texts(
        &mut self,
        rule: &Rule,
        alerting: &Alerting,
        vector: &[VectorSample],
        report: &mut RuleReport,
    ) -> Result<Vec<Found>, String> {
        let (mut found, mut texts, most) = (Vec::new(), 0, self.room.texts.min(RULE_TEXTS_BYTES_MAX));
        for sample in vector {
            // Each expansion is limited, but there may be tens of thousands.
            self.engine.check().map_err(|error| format!("its templates take too long: {error}"))?;
            let mut one = self.found(rule, alerting, sample);
            let bytes = one.texts_bytes();
            if texts + bytes > most {
                (one.annotations, report.bare) = (Arc::from([]), report.bare + 1);
            } else {
                texts += bytes;
            }
            found.push(one);
        }
        if report.bare > 0 {
            report.warnings.push(format!(
                "{} alerts have no annotations: those of all alerts of a rule have at most {RULE_TEXTS_BYTES_MAX} bytes, and \
                 those of all rules together {HUB_TEXTS_BYTES_MAX}",
                report.bare
            ));
        }
        Ok(found)
    }

    /// A series as an alert, with its texts expanded.
    fn found(&self, rule: &Rule, alerting: &Alerting, sample: &VectorSample) -> Found {
        let query = |text: &str| self.query(text, self.time, &mut RuleReport::default());
        let data = TemplateData {
            labels: &sample.labels,
            external_labels: &self.settings.external_labels,
            external_url: &self.settings.external_url,
            value: sample.value,
            now: self.time,
            query: &query,
        };
        let expand = |template: &crate::template::Template| {
            let expanded = template.expand(&format!("__alert_{}", rule.name), &data);
            expanded.unwrap_or_else(|error| format!("<error expanding template: {error}>"))
        };
        let mut labels: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (name, value) in sample.labels.iter().filter(|(name, _)| &***name != METRIC_NAME) {
            labels.push((name.clone(), value.clone()));
        }
        for (name, template) in &alerting.labels {
            labels.push((name.clone(), expand(template).into()));
        }
        labels.push((ALERT_NAME.into(), rule.name.clone()));
        let annotations =
            alerting.annotations.iter().map(|(name, template)| (name.clone(), expand(template))).collect();
        Found { labels: LabelSet::new(labels), annotations, value: sample.value }
    }
}

/// The series of a result.
pub(crate) fn vector(value: Value) -> Result<Vec<VectorSample>, String> {
    match value {
        Value::Vector(vector) => Ok(vector),
        Value::Scalar(time, value) => Ok(vec![VectorSample { labels: LabelSet::default(), time, value }]),
        Value::Text(..) | Value::Matrix(_) => Err(String::from("rule result is not a vector or scalar")),
    }
}

#[cfg(test)]
mod tests;
