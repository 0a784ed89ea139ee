//! Keeps the scores of a hub's rules. It checks the nodes every ten seconds, passes on firings and drains, and writes
//! `scores.jsonl` in the state directory. `khz_rules::Scores` defines what a score is.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_model::{NodeStatus, Presence, Query};
use khz_rules::limits::SCORES_BYTES_MAX;
use khz_rules::{Board, Change, NODE_LABEL, RuleSet, Scores, Seen};
use khz_state::StateFile;

use super::groups::Groups;
use super::passed::{Complaint, Passed};
use crate::role::actions::Actions;
use crate::show::outcome::sentence;

/// How often nodes are checked (ms).
const LOOK: i64 = 10_000;
/// How old the file may be while nothing changes (ms).
const SAVED_AGE_MAX: i64 = 60_000;

/// The file of the scores; without one they begin again at each start.
pub(super) struct ScoreFile(StateFile);

impl ScoreFile {
    /// The file of this directory. A failure is only logged.
    pub fn open(directory: &Path) -> Option<Self> {
        let file = StateFile::open(directory, "scores");
        let file = file.inspect_err(|error| {
            tracing::warn!("scores of rules will begin again after a restart: {}", sentence(error));
        });
        Some(ScoreFile(file.ok()?))
    }

    /// Reads the scores that an earlier hub left. A damaged file is put aside.
    fn read(&self) -> Option<Scores> {
        let bytes = self.0.read(SCORES_BYTES_MAX as u64);
        let bytes = bytes.inspect_err(|error| tracing::warn!("scores begin again: {}", sentence(error)));
        Scores::from_bytes(&bytes.ok()??)
            .inspect_err(|error| {
                let path = self.0.path();
                tracing::warn!("scores begin again: {}: {error}; the file is put aside", path.display());
                if let Err(error) = self.0.put_aside(None) {
                    tracing::warn!("{}", sentence(&error));
                }
            })
            .ok()
    }
}

/// The nodes that this hub judges because they were here; `None`: there is no other hub, and this hub judges all.
pub(super) type Ours = Option<HashSet<String>>;

/// The scores while a hub judges.
pub(super) struct Scoring {
    scores: Scores,
    file: Option<ScoreFile>,
    query: Arc<dyn Query>,
    actions: Option<Actions>,
    board: Arc<Board>,
    /// The alerting rules in use.
    rules: Vec<Arc<str>>,
    known: HashSet<String>,
    looked: Option<i64>,
    written: i64,
    unwritten: Complaint,
}

impl Scoring {
    /// Continues the scores of the file. Alerts that already fire count if the file does not have them.
    pub fn begin(
        file: Option<ScoreFile>,
        query: Arc<dyn Query>,
        actions: Option<Actions>,
        board: Arc<Board>,
    ) -> Self {
        let scores = file.as_ref().and_then(ScoreFile::read).unwrap_or_default();
        let (rules, known) = (Vec::new(), HashSet::new());
        let (looked, written, unwritten) = Default::default();
        Scoring { scores, file, query, actions, board, rules, known, looked, written, unwritten }
    }

    /// These rules are in use from now on.
    pub fn of_rules(&mut self, set: &RuleSet) {
        let rules = set.groups().flat_map(|group| &group.rules);
        self.rules = rules.filter(|rule| rule.alerting().is_some()).map(|rule| rule.name.clone()).collect();
        self.show();
    }

    /// Takes the alerts that fire after a restart.
    pub fn restored(&mut self, groups: &Groups, ours: &Ours, now: i64) {
        self.look(ours, now);
        for judged in &groups.all {
            let group = judged.evaluator.group().clone();
            for (number, rule) in group.rules.iter().enumerate() {
                for alert in judged.evaluator.alerts(number).filter(|alert| alert.resolved_at.is_none()) {
                    let Some(since) = alert.fired_at else { continue };
                    let node = self.node(alert.labels.get(NODE_LABEL));
                    self.scores.fires_still(&rule.name, node.as_deref(), since);
                }
            }
        }
        self.keep(now);
    }

    /// Takes what passes have brought.
    pub fn take(&mut self, all: &[Passed], now: i64) {
        let fired = all.iter().flat_map(|passed| {
            let changed = passed.pass.alerts.iter().filter(|one| one.change == Some(Change::Fired));
            changed.map(move |one| (&passed.group.rules[one.rule].name, &one.alert))
        });
        let mut any = false;
        for (rule, alert) in fired {
            let node = self.node(alert.labels.get(NODE_LABEL));
            self.scores.fired(rule, node.as_deref(), alert.fired_at.unwrap_or(now));
            any = true;
        }
        if any {
            self.keep(now);
        }
    }

    /// The time until the next check of the nodes.
    pub fn until_next(&self, now: i64) -> Duration {
        let next = self.looked.map_or(now, |looked| looked.saturating_add(LOOK));
        Duration::from_millis(u64::try_from(next.saturating_sub(now).min(LOOK)).unwrap_or(0))
    }

    /// Checks the nodes if it is time. `ours`: the nodes that this hub judges.
    pub fn look_if_due(&mut self, ours: &dyn Fn() -> Ours, now: i64) {
        if self.until_next(now).is_zero() {
            self.look(&ours(), now);
            self.keep(now);
        }
    }

    fn look(&mut self, ours: &Ours, now: i64) {
        let drains = self.actions.as_ref().map(|actions| actions.drains_after(self.scores.drained_to()));
        let all = self.query.status();
        self.known = all.iter().map(|status| status.node.to_string()).collect();
        for (node, at, alert) in drains.unwrap_or_default() {
            self.scores.drained(&node, at, &alert);
        }
        self.scores.look(now, all.iter().map(|status| (status.node.as_str(), seen(status, ours, now))));
        self.looked = Some(now);
    }

    /// The node that an alert is about.
    fn node(&mut self, label: &str) -> Option<String> {
        let host = khz_actions::host_of(label);
        if host.is_empty() {
            return None;
        }
        if !self.known.contains(host) {
            // It may have come since.
            self.known = self.query.nodes().iter().map(ToString::to_string).collect();
        }
        self.known.contains(host).then(|| host.to_owned())
    }

    /// Writes the file and publishes the scores, if they have changed or the file is old.
    fn keep(&mut self, now: i64) {
        let has_changed = self.scores.has_changed();
        let is_due_again = self.file.as_ref().is_some_and(|ScoreFile(file)| file.is_due_again());
        if has_changed || is_due_again || self.written == 0 || (now - self.written).abs() >= SAVED_AGE_MAX {
            self.write(now);
        }
        if has_changed {
            self.show();
        }
    }

    /// Writes the file.
    pub fn write(&mut self, now: i64) {
        let Some(ScoreFile(file)) = &self.file else { return };
        if let Err(error) = file.write(&self.scores.to_text())
            && self.unwritten.is_due()
        {
            tracing::warn!("scores of rules would be older after a restart now: {}", sentence(&error));
        }
        self.written = now;
    }

    fn show(&self) {
        self.board.put_scores(self.scores.sheet(self.rules.iter().map(|rule| &**rule)));
    }
}

/// The state of a node, as the scores need it. A node that is not here may be at another hub, which then counts its failures.
fn seen(status: &NodeStatus, ours: &Ours, now: i64) -> Seen {
    let is_ours = ours.as_ref().is_none_or(|ours| ours.contains(status.node.as_str()));
    let ms = |span: khz_model::Nanos| i64::try_from(span.0 / 1_000_000).unwrap_or(i64::MAX);
    match status.presence() {
        Presence::Up => Seen::Up,
        _ if !is_ours => Seen::Elsewhere,
        Presence::Down => Seen::Down(now.saturating_sub(status.since.map_or(0, ms))),
        Presence::Left | Presence::Missing => Seen::Away,
    }
}

#[cfg(test)]
mod tests {
    use khz_model::{Nanos, NodeName};

    use super::*;

    #[test]
    fn a_node_that_is_not_here_is_down_only_if_this_hub_judges_it() {
        let status = |up: bool, left: bool| NodeStatus {
            up,
            left,
            since: Some(Nanos::from_secs(5)),
            ..NodeStatus::here(NodeName::new("n1").unwrap())
        };
        let ours = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<HashSet<_>>());
        for (status, ours, expected) in [
            (status(false, false), None, Seen::Down(95_000)),
            (status(false, false), ours(&["n1"]), Seen::Down(95_000)),
            (status(false, false), ours(&["n2"]), Seen::Elsewhere),
            (status(false, true), ours(&["n1"]), Seen::Away),
            (status(true, false), ours(&["n1"]), Seen::Up),
            // It came a moment ago.
            (status(true, false), ours(&[]), Seen::Up),
        ] {
            assert_eq!(seen(&status, &ours, 100_000), expected, "{status:?} {ours:?}");
        }
    }
}
