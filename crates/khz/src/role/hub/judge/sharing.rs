//! What several hubs with the same rules share: a node's alerts move with the node, and so does what people were told of them; each
//! alert is told and acted on by one hub. It does what `custody.rs` decides.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_ask::ForeignServer;
use khz_model::NodeName;
use khz_notify::{Alert, Labels, Notifier, ToldLine};
use khz_rules::{Board, Handover, NODE_LABEL, Saved, SavedAlert, Share, Word};

use super::clock::now;
use super::custody::{ALIVE, Custody, View};
use super::firings::{Firings, Said, Whose};
use super::groups::Groups;
use super::numbers::Numbers;
use super::outside::Outside;
use super::passed::{Passed, number as counted};
use super::peers::{Active, Heard, PERIOD, PeerWord, Peers};
use crate::show::outcome::Failure;

/// How long a hub waits at its start for the first word of the others.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// For how long it is known that the alerts of a silent hub were taken over (ms): a hub that comes back later begins without them.
const TAKEN_KNOWN: i64 = 2 * 3_600_000;
/// Alerts that wait until it is known whether they are another hub's. Beyond it, the oldest wait for their next evaluation.
const UNDECIDED_MAX: usize = 1_024;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    /// In ms since 1970.
    now: i64,
}

impl Moment {
    fn now() -> Self {
        Moment { at: Instant::now(), now: now() }
    }
}

/// What hubs share.
pub(super) struct Sharing {
    peers: Peers,
    heard: Vec<Heard>,
    custody: Custody,
    /// The share of a rule that no node judges.
    rest: Arc<Share>,
    /// The name of this hub, its identity, and how often it has said something new.
    name: String,
    identity: String,
    said: u64,
    /// What it said last: the state, the number of what people were told, and the words that it has heard.
    last: (Arc<str>, u64, Vec<String>),
    begun: Instant,
    looked: Option<Instant>,
    /// Alerts that are of no node, and those of them that may be another hub's.
    firings: Firings,
    undecided: Vec<Alert>,
    /// The hubs whose word was taken over when they fell silent.
    inherited: Vec<Option<Arc<PeerWord>>>,
    /// When that was, by the names of the hubs (ms since 1970).
    took_over: BTreeMap<String, i64>,
}

/// What this hub does with an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mine {
    /// It tells people and acts.
    Wholly,
    /// It tells people, and does not act.
    Told,
    /// It does both when it knows that no other hub does. That is decided again with each look.
    Undecided,
    /// Another hub does both.
    Not,
    /// It is over, and another hub has told people so.
    Ended,
    /// Nobody does, until the hub to which it goes does.
    Later,
}

/// What becomes of alerts.
#[derive(Debug, Default)]
struct Decided {
    /// People are told of these.
    told: Vec<Alert>,
    /// Something is done about these.
    acted: Vec<Alert>,
    /// Another hub did it about these, and this one tells people of them now.
    done: Vec<Alert>,
    /// Another hub does both, also if it dies afterwards: these firings began there.
    left: Vec<Alert>,
    /// What other hubs have told people of those that are this hub's now.
    known: Vec<ToldLine>,
}

impl Sharing {
    /// Begins to ask the other hubs; this thread judges. `before` is what this hub has left when it was stopped. `None`: there is no other
    /// hub.
    pub fn start(
        servers: &[ForeignServer],
        name: &str,
        identity: &str,
        before: Option<&Saved>,
    ) -> Result<Option<Self>, Failure> {
        if servers.is_empty() {
            return Ok(None);
        }
        let peers = Peers::start(servers, &std::thread::current(), identity)?;
        Ok(Some(Sharing::with((peers, servers.len()), name, identity, before, Instant::now())))
    }

    /// The same, with so many other hubs, which are asked by these threads.
    fn with(
        (peers, count): (Peers, usize),
        name: &str,
        identity: &str,
        before: Option<&Saved>,
        begun: Instant,
    ) -> Self {
        let (name, identity, inherited) = (name.to_owned(), identity.to_owned(), vec![None; count]);
        let custody = Custody::new(before.map_or(&[], |saved| &saved.nodes), begun);
        let took_over = before.map(|saved| saved.took_over.clone()).unwrap_or_default();
        let (heard, rest, said, last, looked, firings) = Default::default();
        let undecided = Vec::new();
        Sharing {
            peers,
            heard,
            custody,
            rest,
            name,
            identity,
            said,
            last,
            begun,
            looked,
            firings,
            undecided,
            inherited,
            took_over,
        }
    }

    /// Whether it knows enough for anything to be judged.
    pub fn is_ready(&self) -> bool {
        self.looked.is_some() && self.heard.iter().all(|heard| heard.is_asked)
            || self.begun.elapsed() >= FIRST_WORD
    }

    /// Whether it is time for a look, or a node has come that somebody must look at.
    pub fn is_due(&self, node: Option<&NodeName>) -> bool {
        node.is_some_and(|node| self.custody.is_away(node.as_str()))
            || self.looked.is_none_or(|looked| looked.elapsed() >= PERIOD)
    }

    /// How long it is until the next look.
    pub fn until_next(&self) -> Duration {
        self.looked.map_or(Duration::ZERO, |looked| PERIOD.saturating_sub(looked.elapsed()))
    }

    /// The nodes that other hubs judge.
    pub fn away(&self) -> &Arc<BTreeSet<Arc<str>>> {
        self.custody.away()
    }

    /// The share of a rule that no node judges by itself.
    pub fn rest(&self) -> &Arc<Share> {
        &self.rest
    }

    /// The hubs whose alerts it has taken over, and when.
    pub fn took_over(&self) -> BTreeMap<String, i64> {
        self.took_over.clone()
    }

    /// The nodes that this hub judges, by name.
    pub fn names(&self) -> Vec<String> {
        self.custody.names()
    }

    /// Takes a look at all nodes and all hubs, and moves what is to be moved. Returns the alerts that go on here.
    pub fn look(
        &mut self,
        nodes: &[(NodeName, bool)],
        groups: &mut Groups,
        outside: &dyn Outside,
        numbers: &Numbers,
    ) -> Vec<Passed> {
        self.heard = self.peers.heard();
        self.look_at(nodes, groups, outside, numbers, Moment::now())
    }

    /// The same, at this moment, after what was heard of the other hubs.
    fn look_at(
        &mut self,
        nodes: &[(NodeName, bool)],
        groups: &mut Groups,
        outside: &dyn Outside,
        numbers: &Numbers,
        moment: Moment,
    ) -> Vec<Passed> {
        let at = moment.at;
        self.looked = Some(at);
        let nobody = HashSet::new();
        let words: Vec<Option<Arc<PeerWord>>> = self.heard.iter().map(|heard| heard.word.clone()).collect();
        let views = self.heard.iter().zip(&words).map(|(heard, word)| View {
            nodes: word.as_ref().map_or(&nobody, |word| &word.nodes),
            answered: heard.answered,
        });
        let before = self.custody.names();
        let moves = self.custody.look(nodes, &views.collect::<Vec<_>>(), at);
        // They are saved with the alerts.
        groups.has_changed |= before != self.custody.names();
        let (away, settling) = (self.custody.away(), self.custody.settling());
        if self.rest.away != *away || self.rest.settling != *settling {
            let (away, settling) = (away.clone(), settling.clone());
            self.rest = Arc::new(Share { away, settling, ..Share::default() });
        }
        let silent = self.heard.iter().filter(|heard| !is_alive(heard, at)).count();
        numbers.silent.store(silent as u64, std::sync::atomic::Ordering::Relaxed);
        if !moves.left.is_empty() {
            tracing::info!("another hub judges {} nodes from now on", moves.left.len());
            groups.release(&moves.left);
            release(outside, &moves.left);
        }
        let mut adopted = Vec::new();
        for (number, word) in words.iter().enumerate() {
            let Some(word) = word else { continue };
            let taken = moves.taken.iter().filter(|(_, from)| *from == Some(number));
            let taken: BTreeSet<Arc<str>> = taken.map(|(node, _)| node.clone()).collect();
            adopted.extend(self.take_nodes((number, word), &taken, groups, outside, moment));
            adopted.extend(self.take_others((number, word), groups, outside, moment));
        }
        let count: usize = adopted.iter().map(|passed| passed.pass.alerts.len()).sum();
        numbers.adopted.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
        let alerts = adopted.iter().flat_map(|passed| passed.alerts(groups.external_url()));
        outside.acted(&alerts.collect::<Vec<_>>());
        let undecided = std::mem::take(&mut self.undecided);
        if !undecided.is_empty() {
            self.decide(undecided, at).hand(outside, false);
        }
        adopted
    }

    /// Goes on with the alerts of nodes that have come from another hub. What was known of these nodes here is older.
    fn take_nodes(
        &self,
        (number, word): (usize, &PeerWord),
        nodes: &BTreeSet<Arc<str>>,
        groups: &mut Groups,
        outside: &dyn Outside,
        moment: Moment,
    ) -> Vec<Passed> {
        if nodes.is_empty() {
            return Vec::new();
        }
        tracing::info!("{} nodes are judged here from now on: hub {} had them before", nodes.len(), word.hub);
        groups.release(nodes);
        release(outside, nodes);
        let is_of = |labels: &BTreeMap<String, String>| {
            labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str()))
        };
        told(outside, word, &|line| is_of(&line.labels));
        groups.adopt(word, self.handover(number, moment), false, &|alert: &SavedAlert| is_of(&alert.labels))
    }

    /// Alerts that are of no node: while both hubs have one, it counts from the earlier time; of a hub that is gone, all go on here.
    fn take_others(
        &mut self,
        (number, word): (usize, &Arc<PeerWord>),
        groups: &mut Groups,
        outside: &dyn Outside,
        moment: Moment,
    ) -> Vec<Passed> {
        let is_alive = is_alive(&self.heard[number], moment.at);
        let is_known =
            |known: &Option<Arc<PeerWord>>| known.as_ref().is_some_and(|one| Arc::ptr_eq(one, word));
        if is_alive {
            self.inherited[number] = None;
        } else if is_known(&self.inherited[number]) {
            return Vec::new();
        } else {
            self.inherited[number] = Some(word.clone());
            self.took_over.insert(word.hub.clone(), moment.now);
            self.took_over.retain(|_, at| moment.now.saturating_sub(*at) < TAKEN_KNOWN);
            groups.has_changed = true;
        }
        let custody = &self.custody;
        let is_of_none = |labels: &BTreeMap<String, String>| {
            labels
                .get(NODE_LABEL)
                .is_none_or(|node| !custody.is_node(node) && !word.nodes.contains(node.as_str()))
        };
        match is_alive {
            // It tells people itself. What they were told counts here when an alert becomes this hub's.
            true => {
                let of_none = word.told.iter().filter(|line| is_of_none(&line.labels));
                of_none.for_each(|line| self.firings.hear(line));
                let taken_at = word.took_over.get(&self.name).copied();
                forget(outside, &groups.forget(word, taken_at, &is_of_none));
            }
            false => {
                // What they were told of a firing that has ended here since then is not about the one that there is now.
                let ended = groups.ended_before();
                let is_over =
                    |line: &ToldLine| ended.get(&line.labels).is_some_and(|end| line.starts_at <= *end);
                told(outside, word, &|line| is_of_none(&line.labels) && !is_over(line));
            }
        }
        groups.adopt(word, self.handover(number, moment), is_alive, &|alert: &SavedAlert| {
            alert.state != "inactive" && is_of_none(&alert.labels)
        })
    }

    fn handover(&self, number: usize, moment: Moment) -> Handover {
        Handover { known_at: self.heard[number].known_at, now: moment.now }
    }

    /// Whose an alert is.
    fn of(&mut self, alert: &Alert, at: Instant) -> Mine {
        if let Some(node) = alert.labels.get(NODE_LABEL).filter(|node| self.custody.is_node(node)) {
            return match (self.custody.is_away(node), self.custody.acts_on(node)) {
                (true, _) if self.custody.is_on_its_way(node) => Mine::Later,
                (true, _) => Mine::Not,
                (false, true) => Mine::Wholly,
                (false, false) => Mine::Told,
            };
        }
        let alive = self.heard.iter().filter(|heard| is_alive(heard, at));
        let said = alive.filter_map(|heard| {
            let (word, asked) = (heard.word.as_ref()?, heard.answered?);
            let active = word.active.get(&alert.labels);
            let is_outdated = active.is_some_and(|active| is_outdated(alert, active, heard));
            let active = active.filter(|_| !is_outdated).map(|active| active.fired_here_at);
            let over = word.resolved.get(&alert.labels).copied();
            let has_told = word.known.contains(&alert.labels);
            Some(Said { hub: &word.hub, asked, active, is_outdated, over, has_told })
        });
        let whose = match alert.is_firing() {
            true => self.firings.whose(alert, &self.name, said, at),
            false => self.firings.whose_end(alert, &self.name, said, at),
        };
        match whose {
            Whose::Ours => Mine::Wholly,
            Whose::Other => Mine::Not,
            Whose::Done => Mine::Ended,
            Whose::GoesOver | Whose::Unknown => Mine::Undecided,
        }
    }

    /// Tells people and acts, as far as that is this hub's.
    pub fn tell(&mut self, alerts: Vec<Alert>, outside: &dyn Outside) {
        self.tell_at(alerts, outside, Instant::now());
    }

    fn tell_at(&mut self, alerts: Vec<Alert>, outside: &dyn Outside, at: Instant) {
        if !self.undecided.is_empty() {
            let newer: BTreeSet<&Labels> = alerts.iter().map(|alert| &alert.labels).collect();
            self.undecided.retain(|one| !newer.contains(&one.labels));
        }
        self.decide(alerts, at).hand(outside, true);
    }

    /// What becomes of these alerts. Those of which that is not known yet wait.
    fn decide(&mut self, alerts: Vec<Alert>, at: Instant) -> Decided {
        let mut decided = Decided::default();
        for alert in alerts {
            match self.of(&alert, at) {
                Mine::Wholly => {
                    let known = self.firings.take(&alert);
                    if !alert.is_firing() {
                        self.firings.end(&alert);
                    }
                    // The hub that told people of this firing has acted on it, too.
                    let acts = if known.is_empty() { &mut decided.acted } else { &mut decided.done };
                    acts.push(alert.clone());
                    decided.known.extend(known);
                    decided.told.push(alert);
                }
                Mine::Told => decided.told.push(alert),
                Mine::Undecided => {
                    if self.undecided.len() >= UNDECIDED_MAX {
                        self.undecided.remove(0);
                    }
                    self.undecided.push(alert);
                }
                Mine::Not => {
                    self.firings.leave(&alert);
                    decided.left.push(alert);
                }
                Mine::Ended => {
                    self.firings.end(&alert);
                    decided.left.push(alert);
                }
                // What people were told of it goes with it.
                Mine::Later => {}
            }
        }
        decided
    }

    /// Says to other hubs what they need to go on: the state of the alerts, and what people were told.
    pub fn say(&mut self, state: &Arc<str>, notifier: Option<&Notifier>, board: &Board) {
        let revision = notifier.map_or(0, Notifier::revision);
        let words = self.heard.iter().filter_map(|heard| heard.word.as_ref());
        let heard: Vec<String> = words.map(|word| word.tag.clone()).collect();
        let is_same = Arc::ptr_eq(&self.last.0, state) && self.last.1 == revision;
        if state.is_empty() || is_same && self.last.2 == heard {
            return;
        }
        if is_same {
            board.say(Word { heard: heard.clone(), ..(*board.word()).clone() });
        } else {
            self.said += 1;
            let told = notifier.map(Notifier::told).unwrap_or_default();
            let told = serde_json::to_string(&told).unwrap_or_else(|_| "[]".to_owned());
            board.say(Word {
                hub: self.name.clone(),
                tag: format!("{}-{}", self.identity, self.said),
                heard: heard.clone(),
                state: state.clone(),
                told: told.into(),
            });
        }
        self.last = (state.clone(), revision, heard);
    }
}

impl Decided {
    /// Tells people and acts. `is_pass`: these are all alerts of a pass.
    fn hand(self, outside: &dyn Outside, is_pass: bool) {
        if !self.left.is_empty() {
            let left: BTreeSet<&Labels> = self.left.iter().map(|alert| &alert.labels).collect();
            outside.release(&|labels| left.contains(labels));
        }
        if !self.known.is_empty() {
            outside.adopt(self.known);
        }
        if is_pass || !self.told.is_empty() {
            outside.tell(&self.told);
        }
        outside.acted(&self.left);
        outside.acted(&self.done);
        outside.act(&self.acted);
    }
}

/// Whether a hub is there.
fn is_alive(heard: &Heard, at: Instant) -> bool {
    heard.answered.is_some_and(|answered| at.saturating_duration_since(answered) < ALIVE)
}

/// Whether an alert has ended here since another hub saw it active: what that one says is about an earlier firing. A hub that was
/// started again says what it knew before, until it has judged; one that judges is asked each second, and has the last word on an end.
fn is_outdated(alert: &Alert, active: &Active, heard: &Heard) -> bool {
    let seen_at = active.restored_from.or(alert.is_firing().then_some(heard.known_at));
    let ended = alert.ends_at.or(alert.ended_before);
    seen_at.zip(ended).is_some_and(|(seen_at, ended)| ended > seen_at)
}

/// Another hub tells people of the alerts of these nodes.
fn release(outside: &dyn Outside, nodes: &BTreeSet<Arc<str>>) {
    outside.release(&|labels| labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str())));
}

/// Another hub tells people that these alerts are over.
fn forget(outside: &dyn Outside, ended: &BTreeSet<Labels>) {
    if !ended.is_empty() {
        tracing::info!("{} ended at another hub while this one was away", counted(ended.len(), "alert"));
        outside.release(&|labels| ended.contains(labels));
    }
}

/// People know what another hub has told them.
fn told(outside: &dyn Outside, word: &PeerWord, is_meant: &dyn Fn(&ToldLine) -> bool) {
    outside.adopt(word.told.iter().filter(|line| is_meant(line)).cloned().collect());
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_hubs;
