//! What several hubs with the same rules share: a node's alerts move with the node, and so does what people were told of them; each
//! alert is told and acted on by one hub. It does what `custody.rs` decides.

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

/// How long a hub waits at its start for the first word of the others.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// A hub that does not answer for so long after the start of this one is gone: what it said before is taken over, in time for the first
/// evaluation.
const GONE_AT_START: Duration = Duration::from_secs(5);
/// For how long it is known that the alerts of a silent hub were taken over (ms): a hub that comes back later begins without them.
const TAKEN_KNOWN: i64 = 2 * 3_600_000;
/// Alerts that wait until it is known whether they are another hub's. Beyond it, the oldest wait for their next evaluation.
const UNDECIDED_MAX: usize = 1_024;

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
    /// What it said last: the state, the numbers of what people were told and of what is its own, and the words that it has heard.
    last: (Arc<str>, (u64, u64), Vec<String>),
    begun: Instant,
    looked: Option<Moment>,
    /// It stood still, and has not begun again so far.
    stood_still: bool,
    /// Alerts that are of no node, and those of them that may be another hub's.
    firings: Firings,
    undecided: Vec<Alert>,
    /// Those that began again before it was known whose their end was: nobody was told of that, so that they go on.
    resumed: BTreeSet<Labels>,
    /// Those that were resolved here, when that was, and whether they go on at another hub, where they were before: the groups are to
    /// know it.
    went_on: Vec<(Labels, i64, bool)>,
    /// What people were told of nodes that other hubs judge now, and since when.
    handed: Vec<(Instant, ToldLine)>,
    /// Nodes that come from other hubs, each with the identity that its hub had when it came, and when that was (ms since 1970).
    came_from: BTreeMap<Arc<str>, (String, i64)>,
    /// Alerts of such nodes that fired there meanwhile.
    fired_there: BTreeSet<Labels>,
    /// When it looked or told people last (ms since 1970).
    now: i64,
    /// Nodes that another hub judges since the last look, and that are up here, too.
    shared: Vec<Arc<str>>,
    /// Nodes that are not judged here any more.
    left: Left,
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
    /// Another hub acts, and will tell people; until it has, what they know from this hub stays.
    GoesOver,
    /// Another hub does both.
    Not,
    /// It is over, and another hub has told people so.
    Ended,
    /// Nobody does, until the hub to which its node goes does, or the one from which it comes has left it.
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
    /// Another hub acts, and has not told people so far.
    gone_over: Vec<Alert>,
    /// What other hubs have told people of those that are this hub's now.
    known: Vec<ToldLine>,
    /// These are over here, or another hub's. If nobody has heard of one so far, nobody does from here: a message that waits would be
    /// the second one beside that of the hub at which it goes on.
    withheld: BTreeSet<Labels>,
}

impl Sharing {
    /// Begins to ask the other hubs; this thread judges. `before` is what this hub has left when it was stopped; the last words of the
    /// others are in the directory. `None`: there is no other hub.
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

    /// The same, with what was heard of the others before, which are asked by these threads.
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
        // What was taken over before this process began is not taken over again.
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
            shared: Vec::new(),
            left: Left::default(),
            now: 0,
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
            resumed,
            inherited,
            took_over,
        }
    }

    /// Whether it knows enough for anything to be judged: it has looked at all nodes since it began, after it asked the other hubs.
    pub fn is_ready(&self) -> bool {
        !self.stood_still && self.looked.is_some()
    }

    /// Whether it is time for a look, or a node has come that somebody must look at. The first look is after the others were asked: this
    /// hub would say that it has nodes which it had before it was stopped.
    pub fn is_due(&self, node: Option<&NodeName>) -> bool {
        let Some(looked) = self.looked else {
            let is_asked = |heard: &Heard| heard.asked >= Some(self.begun);
            return self.begun.elapsed() >= FIRST_WORD || self.peers.heard().iter().all(is_asked);
        };
        node.is_some_and(|node| self.custody.is_away(node.as_str())) || looked.at.elapsed() >= PERIOD
    }

    /// Whether a node has gone since the last look: somebody must look before a rule finds that it is down.
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

    /// Adds to a state what others and a later process need to know of this hub.
    pub fn mark(&self, saved: &mut Saved) {
        (saved.nodes, saved.down) = (self.custody.names(), Some(self.custody.down()));
        saved.took_over = self.took_over.clone();
        saved.own = self.firings.own().cloned().collect();
    }

    /// It is another number when firings are this hub's that were not: that is saved.
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
        (self.looked, self.now) = (Some(moment), moment.now);
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
        // They are saved with the alerts.
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
        let undecided = std::mem::take(&mut self.undecided);
        if !undecided.is_empty() {
            self.decide(undecided, at).hand(outside, false);
        }
        groups.went_on(&std::mem::take(&mut self.went_on));
        adopted
    }

    /// Alerts that are of no node: while both hubs have one, it counts from the earlier time; of a hub that is gone, all go on here.
    fn take_others(
        &mut self,
        (number, word): (usize, &Arc<PeerWord>),
        groups: &mut Groups,
        outside: &dyn Outside,
        moment: Moment,
    ) -> Vec<Passed> {
        let is_alive = is_alive(self.heard[number].answered, moment.at);
        let is_known =
            |known: &Option<Arc<PeerWord>>| known.as_ref().is_some_and(|one| Arc::ptr_eq(one, word));
        // It may only be slow to answer since this hub began.
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
            // It tells people itself. What they were told counts here when an alert becomes this hub's.
            true => {
                // What this hub has taken over from that one since is newer.
                let taken_from = self.took_over.get(&word.hub).copied();
                let taken_at = word.took_over.get(&self.name).copied().filter(|at| Some(*at) > taken_from);
                let own_since = |labels: &Labels| self.firings.own_since(labels);
                let forgotten = groups.forget(word, taken_at, &is_of_none, &own_since);
                self.firings.forget(forgotten.iter());
                forget(outside, &forgotten);
            }
            false => {
                told(outside, word, &|line| is_of_none(&line.labels));
                groups.end_without_rule(word, moment.now, &is_of_none);
            }
        }
        // A hub that is gone may have ended one, and not told people so.
        let is_untold = |alert: &SavedAlert| !is_alive && word.told_of(&alert.labels).next().is_some();
        groups.adopt(word, self.handover(number, moment), is_alive, &|alert: &SavedAlert| {
            (alert.state != "inactive" || is_untold(alert)) && is_of_none(&alert.labels)
        })
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
        // What a hub that has just fallen silent said last is taken over with the next look: its alerts go on here.
        let mut hubs = self.heard.iter().zip(&self.inherited);
        let is_going = hubs.any(|(heard, inherited)| {
            let word = heard.word.as_ref().filter(|_| !is_alive(heard.answered, at));
            word.is_some_and(|word| inherited.as_ref().is_none_or(|known| !Arc::ptr_eq(known, word)))
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
                // Of its own, this hub has told nobody that they are over: they go on, also if the other one has only begun.
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

    /// Tells people and acts, as far as that is this hub's.
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

    /// This is newer than what waits of the same alerts.
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

    /// What becomes of these alerts. Those of which that is not known yet wait.
    fn decide(&mut self, alerts: Vec<Alert>, at: Instant) -> Decided {
        let mut decided = Decided::default();
        for alert in alerts {
            match self.of(&alert, at) {
                Mine::Wholly => {
                    let known = self.firings.take(&alert, self.now);
                    if !alert.is_firing() {
                        self.firings.end(&alert);
                    }
                    // The hub whose it was has acted on it, or this one before.
                    let goes_on = known.is_some() || self.resumed.remove(&alert.labels);
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
                // What people were told of it goes with it.
                Mine::Later => {}
            }
        }
        decided
    }

    /// What becomes of an alert is decided again with the next look.
    fn wait(&mut self, alert: Alert) {
        if self.undecided.len() >= UNDECIDED_MAX {
            self.undecided.remove(0);
        }
        self.undecided.push(alert);
    }

    /// Says to other hubs what they need to go on: the state of the alerts, and what people were told.
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

/// Whether an alert has ended here since another hub saw it active, or was taken over from it: what that one says is about an earlier
/// firing, or it does not know yet that it has lost it. A hub that was started again says what it knew before, until it has judged; one
/// that judges is asked each second, and has the last word on an end.
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

/// Whether what people were told is about a firing that has ended here since: not about one that there is now.
fn is_over(ends: &HashMap<Labels, i64>, line: &ToldLine) -> bool {
    ends.get(&line.labels).is_some_and(|end| line.starts_at <= *end)
}

/// Another hub tells people of the alerts of these nodes.
fn release(outside: &dyn Outside, nodes: &BTreeSet<Arc<str>>) {
    outside.release(&|labels| is_of(nodes, labels));
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
