//! How good each alerting rule is as a warning: how often it fired, how often the node then failed within a day, and how much
//! earlier it fired. Also which failures no rule foretold. It gets times and states as arguments, and reads no clock and no file.
//!
//! A rule that fires at a node **warns** of it for [`SCORE_WINDOW`]. Further firings there within this time belong to the same
//! warning. A warning ends with the first event at the node: it went down, it was drained, or nothing happened.

mod saved;
mod score;
mod sheet;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use score::{Score, Unforetold};
pub use sheet::{ScoreSheet, lead_text};

use crate::limits::{OPEN_WARNINGS_MAX, SCORE_WINDOW, SCORED_RULES_MAX, UNFORETOLD_MAX};

/// A node that is silent for less than this has not failed (ms): its link was cut for a moment. Only observed silence counts, since
/// the node may have been up before the hub was started.
pub const DOWN_HOLD: i64 = 60_000;

/// After a pause in the observation of at least this (ms), the result of open warnings is uncertain.
const BLIND_AFTER: i64 = 600_000;

/// How a node is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is there.
    Up,
    /// The node is silent since this time (ms since 1970), and did not announce it.
    Down(i64),
    /// It was stopped on purpose, or never came.
    Away,
    /// The node is at another hub with the same rules, which counts its failures.
    Elsewhere,
}

/// The scores of all rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// When the scores began (ms since 1970); `None`: the nodes were not checked yet.
    since: Option<i64>,
    /// When the nodes were last checked.
    looked: i64,
    /// Since when this process has checked the nodes without a pause longer than [`DOWN_HOLD`]; `None`: it has not checked. It is
    /// not saved.
    watched: Option<i64>,
    /// The end of the last drain that is counted.
    drained_to: i64,
    rules: BTreeMap<String, Score>,
    /// Warnings that have not ended, by node.
    open: BTreeMap<String, Vec<Warning>>,
    /// How many there are.
    open_count: usize,
    /// Nodes that are silent, or that have failed within the window.
    fates: BTreeMap<String, Fate>,
    failures: u64,
    foretold: u64,
    drains: u64,
    /// Firings that found no room.
    unscored: u64,
    /// The last failures that no rule foretold, oldest first.
    unforetold: VecDeque<Unforetold>,
    has_changed: bool,
}

/// A rule has fired at a node.
#[derive(Clone, Debug, PartialEq)]
struct Warning {
    rule: String,
    /// When it fired first.
    since: i64,
    /// When it fired last.
    fired: i64,
    /// Nobody checked the nodes for a part of its time.
    is_blind: bool,
    /// Since when its node is at another hub. This is not saved.
    elsewhere: Option<i64>,
}

impl Warning {
    fn new(rule: &str, at: i64) -> Self {
        Warning { rule: rule.to_owned(), since: at, fired: at, is_blind: false, elsewhere: None }
    }
}

/// What is known of a node that has failed, or may have failed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fate {
    /// Since when the node is silent.
    down: Option<i64>,
    /// The silence is counted, or began before the scores.
    is_told: bool,
    /// Nobody has seen the node fall silent: it was silent at a hub's first check, or after a pause. It may be on its way back.
    is_presumed: bool,
    /// The previous hub process already knew of the silence. This is not saved.
    is_of_before: bool,
    /// When the node last failed in a way that counted, or was drained.
    failed: Option<i64>,
}

/// How a warning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Down(i64),
    Drained(i64),
    Acted,
    Late,
    Nothing,
    Unknown,
}

impl Fate {
    /// Whether it was known at this time that the node was silent.
    fn is_certain_at(&self, time: i64) -> bool {
        self.down.is_some_and(|down| time >= down) && (self.is_told || !self.is_presumed)
    }
}

impl Scores {
    /// Notes that a rule began to fire at a time (ms since 1970). `node`: the node that the alert is about; `None`: it is about no
    /// node. If several alerts of a rule begin at a node at the same time, they count once.
    pub fn fired(&mut self, rule: &str, node: Option<&str>, at: i64) {
        self.has_changed = true;
        let Some(node) = node else {
            let score = self.score(rule);
            (score.fired, score.elsewhere, score.last) =
                (score.fired + 1, score.elsewhere + 1, score.last.max(at));
            return;
        };
        if let Some(warning) =
            self.open.get_mut(node).and_then(|all| all.iter_mut().find(|one| one.rule == rule))
        {
            if warning.fired != at {
                warning.fired = at;
                let score = self.score(rule);
                (score.fired, score.last) = (score.fired + 1, score.last.max(at));
            }
            return;
        }
        let is_late = self.fates.get(node).is_some_and(|fate| fate.is_certain_at(at));
        let has_room = is_late || self.open_count < OPEN_WARNINGS_MAX;
        let score = self.score(rule);
        (score.fired, score.last) = (score.fired + 1, score.last.max(at));
        if is_late {
            score.late += 1;
            return;
        }
        if !has_room {
            self.unscored += 1;
            return;
        }
        self.open.entry(node.to_owned()).or_default().push(Warning::new(rule, at));
        self.open_count += 1;
    }

    /// Takes all warnings of a node, which end now.
    fn take_open(&mut self, node: &str) -> Vec<Warning> {
        let all = self.open.remove(node).unwrap_or_default();
        self.open_count -= all.len();
        all
    }

    /// The same for an alert that fires after a restart. It counts if it began after the last counted alert of its rule.
    pub fn fires_still(&mut self, rule: &str, node: Option<&str>, since: i64) {
        let known = self.rules.get(rule).map(|score| score.last);
        if self.since.is_some_and(|began| since > began) && known.is_none_or(|last| since > last) {
            self.fired(rule, node, since);
        }
    }

    /// An action of khz has drained a node, because of an alert of this rule.
    pub fn drained(&mut self, node: &str, at: i64, because: &str) {
        (self.has_changed, self.drained_to) = (true, self.drained_to.max(at));
        self.drains += 1;
        for warning in self.take_open(node) {
            let ending = match warning.since <= at {
                true if warning.rule == because => Ending::Acted,
                true => Ending::Drained(at),
                false => Ending::Late,
            };
            self.end(&warning, ending);
        }
        self.fates.entry(node.to_owned()).or_default().failed = Some(at);
    }

    /// The end of the last drain that is counted.
    pub fn drained_to(&self) -> i64 {
        self.drained_to
    }

    /// Checks all nodes: nodes that are silent for long enough have failed, and old warnings end.
    pub fn look<'a>(&mut self, now: i64, nodes: impl IntoIterator<Item = (&'a str, Seen)>) {
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        // Readers see the start of the scores even if nothing ever fires.
        self.has_changed |= is_first;
        let pause = now.saturating_sub(self.looked);
        if !is_first && pause > BLIND_AFTER {
            self.open.values_mut().flatten().for_each(|warning| warning.is_blind = true);
        }
        // If the previous hub did not know at its last check that the node was silent, the node was not silent then.
        let heard = self.looked.min(now);
        let heard = (self.watched.is_none() && !is_first).then_some(heard);
        let has_paused = self.watched.is_none() || pause > DOWN_HOLD;
        // Somebody may have set the clock back.
        self.watched = self.watched.filter(|_| !has_paused).map(|watched| watched.min(now)).or(Some(now));
        self.looked = now;
        let mut found = BTreeSet::new();
        for (node, seen) in nodes {
            let is_watched = self.open.contains_key(node) || self.fates.contains_key(node);
            match seen {
                Seen::Down(at) => {
                    let fate = self.fates.entry(node.to_owned()).or_default();
                    if !(fate.is_told && fate.down.is_some()) {
                        // If a node was up until its hub was killed, the next hub knows only an earlier time at which it was heard.
                        let known = fate.down.filter(|down| *down <= now).or(heard);
                        let down = known.map_or(at, |known| known.max(at));
                        self.has_changed |= fate.down != Some(down);
                        // If the silence was known before, it was observed, whatever happened to hubs since.
                        fate.is_presumed |= has_paused && fate.down.is_none();
                        (fate.down, fate.is_told) = (Some(down), down < since);
                    }
                    self.end_late(node);
                    self.silent(node, now);
                }
                Seen::Up | Seen::Away | Seen::Elsewhere if is_watched => self.not_silent(node, now, seen),
                _ => {}
            }
            self.note_elsewhere(node, now, seen);
            if is_watched {
                self.expire(node, now, seen);
            }
            if is_watched || matches!(seen, Seen::Down(_)) {
                found.insert(node);
            }
        }
        // Nodes that are forgotten.
        let gone: Vec<String> = self.open.keys().filter(|node| !found.contains(&***node)).cloned().collect();
        gone.iter().for_each(|node| self.expire(node, now, Seen::Away));
        self.fates.retain(|node, fate| {
            fate.down.is_some() && found.contains(&**node)
                || fate.failed.is_some_and(|at| now.saturating_sub(at) <= SCORE_WINDOW)
        });
    }

    /// Handles a node that is not silent any more, or is not observed here.
    fn not_silent(&mut self, node: &str, now: i64, seen: Seen) {
        let Some(fate) = self.fates.get_mut(node) else { return };
        let was = std::mem::take(fate);
        fate.failed = was.failed;
        let Some(down) = was.down else { return };
        self.has_changed = true;
        // The node was silent while hubs restarted, and came back before this hub had checked for long enough.
        let is_unsure = was.is_of_before && !was.is_told && now.saturating_sub(down) >= DOWN_HOLD;
        if is_unsure && !was.is_presumed && seen == Seen::Up {
            for warning in self.take_open(node) {
                self.end(&warning, Ending::Unknown);
            }
        }
    }

    /// Firings at a node that was already silent, as is known by now, foretell nothing.
    fn end_late(&mut self, node: &str) {
        let Some(fate) = self.fates.get(node) else { return };
        let is_late = |warning: &mut Warning| fate.is_certain_at(warning.since);
        let ended: Vec<Warning> = match self.open.get_mut(node) {
            Some(all) => all.extract_if(.., is_late).collect(),
            None => return,
        };
        self.remove_ended(node, ended.len());
        for warning in ended {
            self.end(&warning, Ending::Late);
        }
    }

    /// Events at another hub are not seen here. If the node was there for long, the result of its warnings is unknown.
    fn note_elsewhere(&mut self, node: &str, now: i64, seen: Seen) {
        for warning in self.open.get_mut(node).into_iter().flatten() {
            warning.elsewhere = match (seen, warning.elsewhere) {
                (Seen::Elsewhere, since) => since.or(Some(now)),
                _ => None,
            };
            let is_long = warning.elsewhere.is_some_and(|since| now.saturating_sub(since) > BLIND_AFTER);
            warning.is_blind |= is_long;
        }
    }

    /// Some warnings of a node have ended, and are already removed.
    fn remove_ended(&mut self, node: &str, count: usize) {
        if self.open.get(node).is_some_and(Vec::is_empty) {
            self.open.remove(node);
        }
        self.open_count -= count;
        self.has_changed |= count > 0;
    }

    /// A silent node has failed if it is silent for long enough, and was observed for as long.
    fn silent(&mut self, node: &str, now: i64) {
        let watched = self.watched.unwrap_or(now);
        let Some(fate) = self.fates.get_mut(node) else { return };
        let Some(at) = fate.down.filter(|_| !fate.is_told) else { return };
        if now.saturating_sub(at.max(watched)) < DOWN_HOLD {
            return;
        }
        fate.is_told = true;
        let counts = fate.failed.is_none_or(|failed| at.saturating_sub(failed) > SCORE_WINDOW);
        if counts {
            fate.failed = Some(at);
        }
        self.has_changed = true;
        let mut is_foretold = false;
        for warning in self.take_open(node) {
            let lead = at.saturating_sub(warning.since);
            let ending = match lead {
                ..=0 => Ending::Late,
                1..=SCORE_WINDOW => Ending::Down(at),
                _ => Ending::Nothing,
            };
            is_foretold |= matches!(ending, Ending::Down(_));
            self.end(&warning, ending);
        }
        if counts {
            self.failures += 1;
            self.foretold += u64::from(is_foretold);
            if !is_foretold {
                self.unforetold.push_back(Unforetold { node: node.to_owned(), at });
                let excess = self.unforetold.len().saturating_sub(UNFORETOLD_MAX);
                self.unforetold.drain(..excess);
            }
        }
    }

    /// Ends the warnings of a node that are old.
    fn expire(&mut self, node: &str, now: i64, seen: Seen) {
        if matches!(seen, Seen::Down(_)) && self.fates.get(node).is_some_and(|fate| !fate.is_told) {
            // The node may have failed within the time of the warnings.
            return;
        }
        let Some(all) = self.open.get_mut(node) else { return };
        let old = |warning: &mut Warning| now.saturating_sub(warning.since) > SCORE_WINDOW;
        let ended: Vec<Warning> = all.extract_if(.., old).collect();
        self.remove_ended(node, ended.len());
        for warning in ended {
            let is_known = seen == Seen::Up && !warning.is_blind;
            self.end(&warning, if is_known { Ending::Nothing } else { Ending::Unknown });
        }
    }

    fn end(&mut self, warning: &Warning, ending: Ending) {
        let score = self.score(&warning.rule);
        match ending {
            Ending::Down(at) => {
                score.down += 1;
                score.lead(at.saturating_sub(warning.since));
            }
            Ending::Drained(at) => {
                score.drained += 1;
                score.lead(at.saturating_sub(warning.since));
            }
            Ending::Acted => score.acted += 1,
            Ending::Late => score.late += 1,
            Ending::Nothing => score.nothing += 1,
            Ending::Unknown => score.unknown += 1,
        }
    }

    /// The score of a rule. If there is no room for another one, the rule with the oldest last firing loses its score.
    fn score(&mut self, rule: &str) -> &mut Score {
        if !self.rules.contains_key(rule) {
            if self.rules.len() >= SCORED_RULES_MAX {
                let oldest =
                    self.rules.iter().min_by_key(|(_, score)| score.last).map(|(rule, _)| rule.clone());
                if let Some(oldest) = oldest {
                    self.rules.remove(&oldest);
                    self.open.values_mut().for_each(|all| all.retain(|warning| warning.rule != oldest));
                    self.open.retain(|_, all| !all.is_empty());
                    self.open_count = self.open.values().map(Vec::len).sum();
                }
            }
            self.rules.insert(rule.to_owned(), Score::default());
        }
        self.rules.entry(rule.to_owned()).or_default()
    }

    /// The scores, each with the number of its warnings that have not ended.
    pub fn rules(&self) -> Vec<(&str, &Score, u64)> {
        let mut open: BTreeMap<&str, u64> = BTreeMap::new();
        for warning in self.open.values().flatten() {
            *open.entry(&warning.rule).or_default() += 1;
        }
        let count = |rule: &str| open.get(rule).copied().unwrap_or(0);
        self.rules.iter().map(|(rule, score)| (&**rule, score, count(rule))).collect()
    }

    /// Failures of nodes, and how many of them some rule foretold.
    pub fn failures(&self) -> (u64, u64) {
        (self.failures, self.foretold)
    }

    /// The last failures that no rule foretold, oldest first.
    pub fn unforetold(&self) -> impl Iterator<Item = &Unforetold> {
        self.unforetold.iter()
    }

    /// Whether anything has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}

#[cfg(test)]
mod tests;
