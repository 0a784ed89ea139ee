//! What several hubs with the same rules share. A node's alerts move with the node, and so does the record of messages about them.
//! For each alert, one hub sends messages and acts. `custody.rs` decides, and this module carries it out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_ask::ForeignServer;
use khz_model::NodeName;
use khz_notify::{Alert, Labels, Notifier, ToldLine};
use khz_rules::{Board, Handover, NODE_LABEL, Saved, SavedAlert, Share, Word};

use super::custody::{Custody, View, is_alive};
use super::firings::{Firings, Said, Whose};
use super::groups::Groups;
use super::numbers::Numbers;
use super::outside::Outside;
use super::passed::{Passed, number as counted};
use super::peers::{Active, Heard, PERIOD, PeerWord, Peers};
use crate::show::outcome::Failure;
use left::Left;
use nodes::HANDED_KEPT;
use standstill::Moment;

mod left;
mod nodes;
mod standstill;

/// How long a starting hub waits for the first answer of the others.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// If another hub has not answered this long after this hub's start, it counts as gone. This hub takes over its last state, in time
/// for the first evaluation.
const GONE_AT_START: Duration = Duration::from_secs(5);
/// How long this hub says that it took over the alerts of a silent hub (ms). A hub that returns within this time begins
/// without them.
const TAKEN_KNOWN: i64 = 2 * 3_600_000;
/// This much later than another hub (ms), this hub has evaluated the same group, too.
const EVALUATED_LATE: i64 = 1_000;
/// The most alerts that wait for the decision whether another hub owns them. Beyond this number, the oldest ones wait for their
/// next evaluation.
const UNDECIDED_MAX: usize = 1_024;

/// What hubs share.
pub(super) struct Sharing {
    peers: Peers,
    heard: Vec<Heard>,
    custody: Custody,
    /// The share of a rule that no node judges.
    rest: Arc<Share>,
    /// The name of this hub, its identity, and the number of changes that it has announced.
    name: String,
    identity: String,
    said: u64,
    /// What this hub announced last: the state, the revisions of sent messages and of its own alerts, and the words it had heard.
    last: (Arc<str>, (u64, u64), Vec<String>),
    begun: Instant,
    looked: Option<Moment>,
    /// This hub stood still, and has not begun again.
    stood_still: bool,
    /// Time passed while this hub stood still.
    has_paused: bool,
    /// Alerts that belong to no node, and those among them that another hub may own.
    firings: Firings,
    undecided: Vec<Alert>,
    /// Alerts of no node that fire here and that another hub owns. If one ends there, it goes on here.
    of_others: BTreeMap<Labels, Alert>,
    /// Alerts that began again before it was known which hub owns their end. Nobody heard of that end, so they go on.
    resumed: BTreeSet<Labels>,
    /// Alerts that were resolved here, when, and whether they go on at the hub that had them before. The groups need to know this.
    went_on: Vec<(Labels, i64, bool)>,
    /// Messages about nodes that other hubs judge now, and since when.
    handed: Vec<(Instant, ToldLine)>,
    /// Nodes that came from other hubs: the identity of that hub at that time, and when the node came (ms since 1970).
    came_from: BTreeMap<Arc<str>, (String, i64)>,
    /// Alerts of such nodes that fired at the other hub meanwhile.
    fired_there: BTreeSet<Labels>,
    /// The time of the last look or the last messages (ms since 1970).
    now: i64,
    /// A moment, and what the clock said then (ms since 1970). The groups' times follow this clock.
    clock: Option<(Instant, i64)>,
    /// Nodes that another hub judges since the last look, although they are up here, too.
    shared: Vec<Arc<str>>,
    /// Nodes that are not judged here any more.
    left: Left,
    /// The words that this hub took over when their hubs fell silent.
    inherited: Vec<Option<Arc<PeerWord>>>,
    /// When this hub took them over, by the names of the hubs (ms since 1970).
    took_over: BTreeMap<String, i64>,
}

/// What this hub does with an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mine {
    /// This hub sends messages and acts.
    Wholly,
    /// This hub sends messages, and does not act.
    Told,
    /// This hub does both if no other hub does. Each look decides this again.
    Undecided,
    /// Another hub acts, and will send messages. Until then, the record of this hub's messages stays.
    GoesOver,
    /// Another hub does both.
    Not,
    /// The alert is over, and another hub has sent the message.
    Ended,
    /// No hub does, until the node's next hub does, or the hub from which it comes has left it.
    Later,
}

/// What becomes of alerts.
#[derive(Debug, Default)]
struct Decided {
    /// This hub sends messages about these alerts.
    told: Vec<Alert>,
    /// This hub acts on these alerts.
    acted: Vec<Alert>,
    /// Another hub acted on these alerts, and this hub sends messages about them now.
    done: Vec<Alert>,
    /// Another hub does both, even if it dies later: these firings began there.
    left: Vec<Alert>,
    /// Another hub acts, and has not sent messages so far.
    gone_over: Vec<Alert>,
    /// Messages of other hubs about alerts that this hub owns now.
    known: Vec<ToldLine>,
    /// These alerts are over here, or another hub owns them. If nobody has heard of such an alert, this hub sends nothing: a
    /// waiting message would duplicate that of the hub where the alert goes on.
    withheld: BTreeSet<Labels>,
}

impl Sharing {
    /// Begins to ask the other hubs. The current thread becomes the judge. `before`: what this hub left when it was stopped. The
    /// directory holds the last words of the other hubs. `None`: there is no other hub.
    pub fn start(
        servers: &[ForeignServer],
        name: &str,
        identity: &str,
        directory: Option<&Path>,
        before: Option<&Saved>,
    ) -> Result<Option<Self>, Failure> {
        if servers.is_empty() {
            return Ok(None);
        }
        let begun = Instant::now();
        let peers = Peers::start(servers, &std::thread::current(), identity, directory)?;
        let heard = peers.heard();
        Ok(Some(Sharing::with((peers, heard), name, identity, before, begun)))
    }

    /// The same, with the threads that ask the other hubs and what was heard of them before.
    fn with(
        (peers, heard): (Peers, Vec<Heard>),
        name: &str,
        identity: &str,
        before: Option<&Saved>,
        begun: Instant,
    ) -> Self {
        let (name, identity) = (name.to_owned(), identity.to_owned());
        let custody = Custody::new(before.map_or(&[], |saved| &saved.nodes), begun);
        let took_over = before.map(|saved| saved.took_over.clone()).unwrap_or_default();
        // A word that an earlier process has taken over is not taken over again.
        let taken = |heard: &Heard| {
            let word = heard.word.clone()?;
            took_over.get(&word.hub).is_some_and(|at| *at >= heard.known_at).then_some(word)
        };
        let inherited = heard.iter().map(taken).collect();
        let (rest, said, last, looked) = Default::default();
        let firings = Firings::restore(before.map_or(&[], |saved| &saved.own));
        let (undecided, resumed, went_on, handed, fired_there, came_from) = Default::default();
        Sharing {
            came_from,
            went_on,
            stood_still: false,
            has_paused: false,
            shared: Vec::new(),
            left: Left::default(),
            now: 0,
            clock: None,
            handed,
            fired_there,
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
            of_others: BTreeMap::new(),
            resumed,
            inherited,
            took_over,
        }
    }

    /// Whether this hub knows enough to judge: it has asked the other hubs since it began, and then looked at all nodes.
    pub fn is_ready(&self) -> bool {
        !self.stood_still && self.looked.is_some()
    }

    /// Whether a look is due, or a node has come that needs one. The first look comes after the others were asked. An earlier one
    /// would claim nodes from before the stop.
    pub fn is_due(&self, node: Option<&NodeName>) -> bool {
        let Some(looked) = self.looked else {
            let is_asked = |heard: &Heard| heard.asked >= Some(self.begun);
            return self.begun.elapsed() >= FIRST_WORD || self.peers.heard().iter().all(is_asked);
        };
        node.is_some_and(|node| self.custody.is_away(node.as_str())) || looked.at.elapsed() >= PERIOD
    }

    /// Whether a node has gone since the last look. Then a look must come before a rule finds that the node is down.
    pub fn has_lost(&self, nodes: &[(NodeName, bool)]) -> bool {
        self.custody.has_lost(nodes)
    }

    /// How long it is until the next look. A thread that has asked another hub wakes this one.
    pub fn until_next(&self) -> Duration {
        match self.looked {
            Some(looked) => PERIOD.saturating_sub(looked.at.elapsed()),
            None => FIRST_WORD.saturating_sub(self.begun.elapsed()),
        }
    }

    /// The nodes that other hubs judge.
    pub fn away(&self) -> &Arc<BTreeSet<Arc<str>>> {
        self.custody.away()
    }

    /// The share of a rule that no node judges by itself.
    pub fn rest(&self) -> &Arc<Share> {
        &self.rest
    }

    /// Adds to a state what other hubs and a later process need to know of this hub.
    pub fn mark(&self, saved: &mut Saved) {
        (saved.nodes, saved.down) = (self.custody.names(), Some(self.custody.down()));
        saved.took_over = self.took_over.clone();
        saved.own = self.firings.own().cloned().collect();
    }

    /// This number changes when this hub owns other firings than before. Then they are saved.
    pub fn revision(&self) -> u64 {
        self.firings.revision()
    }

    /// The nodes that another hub judges since the last look, and that are up here, too.
    pub fn shared(&self) -> &[Arc<str>] {
        &self.shared
    }

    /// The nodes that this hub judges, by name.
    pub fn names(&self) -> Vec<String> {
        self.custody.names()
    }

    /// Looks at all nodes and all hubs, and moves nodes and their alerts. Returns the alerts that go on here.
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

    /// The same, at this moment, with what was heard of the other hubs.
    fn look_at(
        &mut self,
        nodes: &[(NodeName, bool)],
        groups: &mut Groups,
        outside: &dyn Outside,
        numbers: &Numbers,
        moment: Moment,
    ) -> Vec<Passed> {
        let at = moment.at;
        (self.looked, self.now) = (Some(moment), moment.now);
        self.clock = Some((at, moment.now));
        let nobody = HashSet::new();
        let words: Vec<Option<Arc<PeerWord>>> = self.heard.iter().map(|heard| heard.word.clone()).collect();
        let views = self.heard.iter().zip(&words).map(|(heard, word)| View {
            nodes: word.as_ref().map_or(&nobody, |word| &word.nodes),
            down: word.as_ref().and_then(|word| word.down.as_ref()),
            is_first: word.as_ref().is_some_and(|word| word.hub < self.name),
            answered: heard.answered,
        });
        let before = (self.custody.names(), self.custody.down());
        let moves = self.custody.look(nodes, &views.collect::<Vec<_>>(), at, moment.now);
        self.shared.clone_from(&moves.shared);
        // The names are saved together with the alerts.
        groups.has_changed |= before != (self.custody.names(), self.custody.down());
        self.left.note(moves.shrinks, &self.heard, &self.custody, moment);
        let (away, settling) = (self.custody.away().clone(), self.custody.settling().clone());
        let Left { at: left_at, unknown_until } = self.left;
        let rest = Share { away, settling, left_at, unknown_until, ..Share::default() };
        if *self.rest != rest {
            self.rest = Arc::new(rest);
        }
        let silent = self.heard.iter().filter(|heard| !is_alive(heard.answered, at)).count();
        numbers.silent.store(silent as u64, std::sync::atomic::Ordering::Relaxed);
        if !moves.left.is_empty() {
            tracing::info!("another hub judges {} nodes from now on", moves.left.len());
            groups.release(&moves.left, true);
            self.hand_over(&moves.left, outside, at);
            release(outside, &moves.left);
        }
        self.handed.retain(|(since, line)| {
            let is_back = |node: &String| moves.taken.iter().any(|(taken, _)| **taken == **node);
            at.saturating_duration_since(*since) < HANDED_KEPT
                && !line.labels.get(NODE_LABEL).is_some_and(is_back)
        });
        let mut adopted = Vec::new();
        for (number, word) in words.iter().enumerate() {
            let Some(word) = word else { continue };
            let taken = moves.taken.iter().filter(|(_, from)| *from == Some(number));
            let taken: BTreeSet<Arc<str>> = taken.map(|(node, _)| node.clone()).collect();
            adopted.extend(self.take_nodes((number, word), &taken, groups, outside, moment));
            adopted.extend(self.take_others((number, word), groups, outside, moment));
        }
        adopted.extend(self.follow(&moves.arrived, &words, groups, moment));
        let count: usize = adopted.iter().map(|passed| passed.pass.alerts.len()).sum();
        numbers.adopted.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
        let alerts: Vec<Alert> = adopted.iter().flat_map(|passed| groups.alerts(passed)).collect();
        outside.acted(&alerts);
        self.supersede(&alerts);
        self.arrive(&moves.arrived, &words, groups, outside, at);
        if !moves.taken.is_empty() || !moves.arrived.is_empty() {
            groups.without_rule.mention_again();
        }
        let mut undecided = std::mem::take(&mut self.undecided);
        undecided.extend(self.over_elsewhere(moment));
        if !undecided.is_empty() {
            self.decide(undecided, at).hand(outside, false);
        }
        groups.went_on(&std::mem::take(&mut self.went_on));
        adopted
    }

    /// Takes over alerts of no node. While both hubs have one, the earlier start counts. If a hub is gone, all its alerts go on
    /// here.
    fn take_others(
        &mut self,
        (number, word): (usize, &Arc<PeerWord>),
        groups: &mut Groups,
        outside: &dyn Outside,
        moment: Moment,
    ) -> Vec<Passed> {
        let is_alive = is_alive(self.heard[number].answered, moment.at);
        let is_known = |known: &Option<Arc<PeerWord>>| known.as_ref().is_some_and(|one| one.tag == word.tag);
        // The other hub may only be slow to answer since this hub began.
        let is_young = moment.at.saturating_duration_since(self.begun) < GONE_AT_START;
        if !is_alive && is_young && self.heard[number].answered < Some(self.begun) {
            return Vec::new();
        }
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
            // The other hub sends messages itself. Its messages count here when this hub becomes the owner of an alert.
            true => {
                // What this hub has taken over from the other one since then is newer.
                let taken_from = self.took_over.get(&word.hub).copied();
                let taken_at = word.took_over.get(&self.name).copied().filter(|at| Some(*at) > taken_from);
                let own_since = |labels: &Labels| self.firings.own_since(labels);
                let forgotten = groups.forget(word, taken_at, &is_of_none, &own_since);
                self.firings.forget(forgotten.iter());
                forgotten.iter().for_each(|labels| drop(self.of_others.remove(labels)));
                forget(outside, &forgotten);
            }
            false => {
                told(outside, word, &|line| is_of_none(&line.labels));
                groups.end_without_rule(word, moment.now, &is_of_none);
            }
        }
        // A hub that is gone may have ended an alert without a message about the end.
        let is_untold = |alert: &SavedAlert| !is_alive && word.told_of(&alert.labels).next().is_some();
        groups.adopt(word, self.handover(number, moment), is_alive, &|alert: &SavedAlert| {
            (alert.state != "inactive" || is_untold(alert)) && is_of_none(&alert.labels)
        })
    }

    /// Alerts that go on here, while their owner says that they are over. This hub must evaluate the same moment before it knows.
    fn over_elsewhere(&self, moment: Moment) -> Vec<Alert> {
        let alive = self.heard.iter().filter(|heard| is_alive(heard.answered, moment.at));
        let words: Vec<&PeerWord> = alive.filter_map(|heard| heard.word.as_deref()).collect();
        let is_over = |labels: &Labels| {
            let over = words.iter().filter_map(|word| word.resolved.get(labels));
            let is_active = words.iter().any(|word| word.active.contains_key(labels));
            !is_active
                && over
                    .map(|over| over.at)
                    .max()
                    .is_some_and(|at| at.saturating_add(EVALUATED_LATE) <= moment.now)
        };
        self.of_others.values().filter(|alert| is_over(&alert.labels)).cloned().collect()
    }

    /// The clock by which rules are judged was set by this many ms. The groups already use the new time.
    pub fn clock_set(&mut self, by: i64) {
        self.heard = self.peers.heard();
        self.clock_set_at(by, Moment::now());
    }

    fn clock_set_at(&mut self, by: i64, moment: Moment) {
        self.clock = Some((moment.at, moment.now));
        let moved = |time: &mut i64| *time = time.saturating_add(by);
        self.took_over.values_mut().chain(self.came_from.values_mut().map(|(_, at)| at)).for_each(moved);
        self.firings.clock_set(by);
        self.custody.clock_set(by);
        self.left.clock_set(by);
    }

    fn handover(&self, number: usize, moment: Moment) -> Handover {
        Handover { known_at: self.heard[number].known_at, now: moment.now, left_at: None }
    }

    /// Whose an alert is.
    fn of(&mut self, alert: &Alert, at: Instant) -> Mine {
        if let Some(node) = alert.labels.get(NODE_LABEL).filter(|node| self.custody.is_node(node)) {
            return match (self.custody.is_away(node), self.custody.acts_on(node)) {
                (true, _) if self.custody.is_on_its_way(node) => Mine::Later,
                (true, _) => Mine::Not,
                (false, _) if self.custody.is_coming(node) => Mine::Later,
                (false, true) => Mine::Wholly,
                (false, false) => Mine::Told,
            };
        }
        // The next look takes over the last word of a hub that has just fallen silent: its alerts go on here.
        let mut hubs = self.heard.iter().zip(&self.inherited);
        let is_going = hubs.any(|(heard, inherited)| {
            let word = heard.word.as_ref().filter(|_| !is_alive(heard.answered, at));
            word.is_some_and(|word| inherited.as_ref().is_none_or(|known| known.tag != word.tag))
        });
        if is_going {
            return Mine::Undecided;
        }
        let alive = self.heard.iter().filter(|heard| is_alive(heard.answered, at));
        let said: Vec<Said<'_>> = alive
            .filter_map(|heard| {
                let (word, asked) = (heard.word.as_ref()?, heard.answered?);
                let active = word.active.get(&alert.labels);
                let taken_at = self.took_over.get(&word.hub).copied();
                let is_outdated = active.is_some_and(|active| is_outdated(alert, active, heard, taken_at));
                let active = active.filter(|_| !is_outdated).map(|active| active.fired_here_at);
                let over = word.resolved.get(&alert.labels);
                let (over, went_on) = (over.map(|over| over.at), over.is_some_and(|over| over.went_on));
                let (told, owns) = (word.told_of(&alert.labels).collect(), word.owns(&alert.labels));
                let (hub, identity) = (&*word.hub, word.identity());
                Some(Said { hub, identity, asked, active, is_outdated, over, went_on, told, owns })
            })
            .collect();
        let whose = match alert.is_firing() {
            true => self.firings.whose(alert, &self.name, &said, at),
            false => self.firings.whose_end(alert, &self.name, &said, at),
        };
        if let Some(ended) = alert.ends_at {
            let went_on = match whose {
                // This hub has sent no message about the end of its own alerts. So they go on, even if they have only begun at the
                // other hub.
                Whose::Other | Whose::GoesOver => {
                    alert.went_on
                        || said.iter().any(|one| one.was_there(ended))
                        || self.firings.own_since(&alert.labels).is_some()
                }
                Whose::Ours | Whose::Done => false,
                Whose::Unknown => alert.went_on,
            };
            if went_on != alert.went_on && self.went_on.len() < UNDECIDED_MAX {
                self.went_on.push((alert.labels.clone(), ended, went_on));
            }
        }
        match whose {
            Whose::Ours => Mine::Wholly,
            Whose::Other => Mine::Not,
            Whose::Done => Mine::Ended,
            Whose::GoesOver => Mine::GoesOver,
            Whose::Unknown => Mine::Undecided,
        }
    }

    /// Sends messages and acts, for the alerts that this hub owns.
    pub fn tell(&mut self, alerts: Vec<Alert>, outside: &dyn Outside) {
        self.tell_at(alerts, outside, Moment::now());
    }

    fn tell_at(&mut self, alerts: Vec<Alert>, outside: &dyn Outside, moment: Moment) {
        if self.notice_at(moment) {
            return;
        }
        let at = moment.at;
        self.now = moment.now;
        self.supersede(&alerts);
        self.decide(alerts, at).hand(outside, true);
    }

    /// These alerts are newer than the waiting ones with the same labels.
    fn supersede(&mut self, alerts: &[Alert]) {
        if self.undecided.is_empty() {
            return;
        }
        let newer: BTreeMap<&Labels, bool> =
            alerts.iter().map(|alert| (&alert.labels, alert.is_firing())).collect();
        let (superseded, rest): (Vec<Alert>, Vec<Alert>) =
            std::mem::take(&mut self.undecided).into_iter().partition(|one| newer.contains_key(&one.labels));
        self.undecided = rest;
        let begins_again = |one: &Alert| {
            let is_own = self.firings.own_since(&one.labels).is_some();
            !one.is_firing() && is_own && newer.get(&one.labels) == Some(&true)
        };
        self.resumed.extend(superseded.into_iter().filter(begins_again).map(|one| one.labels));
        while self.resumed.len() > UNDECIDED_MAX {
            self.resumed.pop_first();
        }
    }

    /// Decides what this hub does with these alerts. Undecided ones wait.
    fn decide(&mut self, alerts: Vec<Alert>, at: Instant) -> Decided {
        let mut decided = Decided::default();
        for alert in alerts {
            let mine = self.of(&alert, at);
            self.note_of_other(&alert, mine);
            match mine {
                Mine::Wholly => {
                    let mut alert = alert;
                    let known = self.firings.take(&alert, self.now);
                    if !alert.is_firing() {
                        self.firings.end(&alert);
                    }
                    // The previous owner has acted on this alert, or this hub did before.
                    let goes_on = known.is_some() || self.resumed.remove(&alert.labels);
                    alert.waits_since = self.waits_since(&alert, goes_on, at);
                    let acts = if goes_on { &mut decided.done } else { &mut decided.acted };
                    acts.push(alert.clone());
                    decided.known.extend(known.into_iter().flatten());
                    decided.told.push(alert);
                }
                Mine::Told => decided.told.push(alert),
                Mine::Undecided => {
                    if !alert.is_firing() {
                        decided.withheld.insert(alert.labels.clone());
                    }
                    self.wait(alert);
                }
                Mine::GoesOver => {
                    decided.withheld.insert(alert.labels.clone());
                    decided.gone_over.push(alert.clone());
                    self.wait(alert);
                }
                Mine::Not => {
                    self.resumed.remove(&alert.labels);
                    self.firings.leave(&alert);
                    decided.left.push(alert);
                }
                Mine::Ended => {
                    self.firings.end(&alert);
                    decided.left.push(alert);
                }
                // The record of messages about the alert moves with it.
                Mine::Later => {}
            }
        }
        decided
    }

    /// Since when the message about an alert of no node has waited: at its previous owner, or here for that hub's word.
    fn waits_since(&self, alert: &Alert, goes_on: bool, at: Instant) -> Option<i64> {
        if goes_on && alert.is_firing() {
            return Some(alert.starts_at);
        }
        let waited = at.saturating_duration_since(self.firings.seen(alert)?);
        Some(self.now.saturating_sub(i64::try_from(waited.as_millis()).ok()?))
    }

    /// Notes an alert that fires here while another hub sends the messages about it.
    fn note_of_other(&mut self, alert: &Alert, mine: Mine) {
        let is_of_node = alert.labels.get(NODE_LABEL).is_some_and(|node| self.custody.is_node(node));
        if mine != Mine::Not || !alert.is_firing() || is_of_node {
            self.of_others.remove(&alert.labels);
        } else if self.of_others.len() < UNDECIDED_MAX || self.of_others.contains_key(&alert.labels) {
            self.of_others.insert(alert.labels.clone(), alert.clone());
        }
    }

    /// Keeps an undecided alert: the next look decides again.
    fn wait(&mut self, alert: Alert) {
        if self.undecided.len() >= UNDECIDED_MAX {
            self.undecided.remove(0);
        }
        self.undecided.push(alert);
    }

    /// Tells other hubs what they need to go on: the state of the alerts, and the messages that people got.
    pub fn say(&mut self, state: &Arc<str>, notifier: Option<&Notifier>, board: &Board) {
        let revision = (notifier.map_or(0, Notifier::revision), self.firings.revision());
        let words = self.heard.iter().filter_map(|heard| heard.word.as_ref());
        let heard: Vec<String> = words.map(|word| word.tag.clone()).collect();
        let is_same = Arc::ptr_eq(&self.last.0, state) && self.last.1 == revision;
        if self.stood_still || state.is_empty() || is_same && self.last.2 == heard {
            return;
        }
        if is_same {
            board.say(Word { heard: heard.clone(), ..(*board.last_word()).clone() });
        } else {
            self.said += 1;
            let mut told = notifier.map(Notifier::told).unwrap_or_default();
            told.extend(self.handed.iter().map(|(_, line)| line.clone()));
            let told = serde_json::to_string(&told).unwrap_or_else(|_| "[]".to_owned());
            let own: Vec<&Labels> = self.firings.own().map(|own| &own.labels).collect();
            let own = serde_json::to_string(&own).unwrap_or_else(|_| "[]".to_owned());
            board.say(Word {
                hub: self.name.clone(),
                tag: format!("{}-{}", self.identity, self.said),
                heard: heard.clone(),
                state: state.clone(),
                told: told.into(),
                own: own.into(),
                clock: self.clock,
            });
        }
        self.last = (state.clone(), revision, heard);
    }
}

impl Decided {
    /// Sends messages and acts. `is_pass`: the list holds all alerts of a pass.
    fn hand(self, outside: &dyn Outside, is_pass: bool) {
        if !self.left.is_empty() {
            let left: BTreeSet<&Labels> = self.left.iter().map(|alert| &alert.labels).collect();
            outside.release(&|labels| left.contains(labels));
        }
        if !self.withheld.is_empty() {
            let told: BTreeSet<Labels> = outside.told().into_iter().map(|line| line.labels).collect();
            outside.release(&|labels| self.withheld.contains(labels) && !told.contains(labels));
        }
        if !self.known.is_empty() {
            outside.adopt(self.known);
        }
        if is_pass || !self.told.is_empty() {
            outside.tell(&self.told);
        }
        outside.acted(&self.left);
        outside.acted(&self.gone_over);
        outside.acted(&self.done);
        outside.act(&self.acted);
    }
}

/// Whether an alert has ended here since another hub saw it active, or was taken over from that hub. Then the other hub's word is
/// about an earlier firing, or it has not heard of its loss. A restarted hub repeats its old state until it has judged; a judging
/// hub is asked each second, and its word on an end is final.
fn is_outdated(alert: &Alert, active: &Active, heard: &Heard, taken_at: Option<i64>) -> bool {
    if active.restored_from.zip(taken_at).is_some_and(|(seen_at, taken_at)| seen_at < taken_at) {
        return true;
    }
    let seen_at = active.restored_from.or(alert.is_firing().then_some(heard.known_at));
    let ended = alert.ends_at.filter(|_| !alert.went_on).or(alert.ended_before);
    seen_at.zip(ended).is_some_and(|(seen_at, ended)| ended > seen_at)
}

/// Whether labels are those of one of these nodes.
fn is_of(nodes: &BTreeSet<Arc<str>>, labels: &Labels) -> bool {
    labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str()))
}

/// Whether a message is about a firing that has ended here since, and not about the current one.
fn is_over(ends: &HashMap<Labels, i64>, line: &ToldLine) -> bool {
    ends.get(&line.labels).is_some_and(|end| line.starts_at <= *end)
}

/// Another hub sends messages about the alerts of these nodes.
fn release(outside: &dyn Outside, nodes: &BTreeSet<Arc<str>>) {
    outside.release(&|labels| is_of(nodes, labels));
}

/// Another hub has told people that these alerts are over.
fn forget(outside: &dyn Outside, ended: &BTreeSet<Labels>) {
    if !ended.is_empty() {
        tracing::info!("{} ended at another hub while this one was away", counted(ended.len(), "alert"));
        outside.release(&|labels| ended.contains(labels));
    }
}

/// Records what another hub has told people.
fn told(outside: &dyn Outside, word: &PeerWord, is_meant: &dyn Fn(&ToldLine) -> bool) {
    outside.adopt(word.told.iter().filter(|line| is_meant(line)).cloned().collect());
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_hubs;
