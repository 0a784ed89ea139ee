//! What several hubs with the same rules share: a node's alerts move with the node, and so does what people were told of them; each
//! alert is told and acted on by one hub. It does what `custody.rs` decides.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_ask::ForeignServer;
use khz_model::NodeName;
use khz_notify::{Alert, Labels, Notifier, ToldLine};
use khz_rules::{Board, Handover, NODE_LABEL, SavedAlert, Share, Word};

use super::clock::now;
use super::custody::{ALIVE, Custody, View};
use super::firings::{Firings, Said, Whose};
use super::groups::Groups;
use super::numbers::Numbers;
use super::passed::Passed;
use super::peers::{Heard, PERIOD, PeerWord, Peers};
use crate::role::actions::Actions;
use crate::show::outcome::Failure;

/// How long a hub waits at its start for the first word of the others.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Firing alerts that wait until it is known whether they are another hub's. Beyond it, the oldest wait for their next evaluation.
const UNDECIDED_MAX: usize = 1_024;
/// An alert of no node is over for people when it is over at both hubs, and the last one tells them. One at which it was over so much
/// earlier (ms) is known not to be the last: its word has come to the other one. Of two that are closer, both may tell.
const LAST_AFTER: i64 = 3_000;

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
}

/// What this hub does with an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mine {
    /// It tells people and acts.
    Wholly,
    /// It tells people, and does not act.
    Told,
    /// It does both when it knows that no other hub does.
    Undecided,
    /// Another hub does both.
    Not,
    /// It is over, and was over at another hub so much later that this one tells people.
    Ended,
    /// Nobody does, until it is known which hub has the node.
    Later,
}

/// What becomes of alerts.
#[derive(Debug, Default)]
struct Decided {
    /// People are told of these.
    told: Vec<Alert>,
    /// Something is done about these.
    acted: Vec<Alert>,
    /// Another hub does both, also if it dies afterwards: these firings began there.
    left: Vec<Alert>,
    /// What other hubs have told people of those that are this hub's now.
    known: Vec<ToldLine>,
}

impl Sharing {
    /// Begins to ask the other hubs; this thread judges. Before it was started again, this hub judged these nodes. `None`: there is no
    /// other hub.
    pub fn start(
        servers: &[ForeignServer],
        name: &str,
        identity: &str,
        judged: &[String],
    ) -> Result<Option<Self>, Failure> {
        if servers.is_empty() {
            return Ok(None);
        }
        let peers = Peers::start(servers, &std::thread::current(), identity)?;
        let (name, identity, begun) = (name.to_owned(), identity.to_owned(), Instant::now());
        let inherited = vec![None; servers.len()];
        let custody = Custody::new(judged, begun);
        let (heard, rest, said, last, looked, firings) = Default::default();
        let undecided = Vec::new();
        Ok(Some(Sharing {
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
        }))
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

    /// The nodes that this hub judges, by name.
    pub fn names(&self) -> Vec<String> {
        self.custody.names()
    }

    /// Takes a look at all nodes and all hubs, and moves what is to be moved. Returns the alerts that go on here.
    pub fn look(
        &mut self,
        nodes: &[(NodeName, bool)],
        groups: &mut Groups,
        ways: (Option<&Notifier>, Option<&Actions>),
        numbers: &Numbers,
    ) -> Vec<Passed> {
        let at = Instant::now();
        self.looked = Some(at);
        self.heard = self.peers.heard();
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
        let silent = self.heard.iter().filter(|heard| !is_alive(heard)).count();
        numbers.silent.store(silent as u64, std::sync::atomic::Ordering::Relaxed);
        if !moves.left.is_empty() {
            tracing::info!("another hub judges {} nodes from now on", moves.left.len());
            groups.release(&moves.left);
            release(ways.0, &moves.left);
        }
        let mut adopted = Vec::new();
        for (number, word) in words.iter().enumerate() {
            let Some(word) = word else { continue };
            let taken = moves.taken.iter().filter(|(_, from)| *from == Some(number));
            let taken: BTreeSet<Arc<str>> = taken.map(|(node, _)| node.clone()).collect();
            adopted.extend(self.take_nodes(number, word, &taken, groups, ways.0));
            adopted.extend(self.take_others(number, word, groups, ways.0));
        }
        let count: usize = adopted.iter().map(|passed| passed.pass.alerts.len()).sum();
        numbers.adopted.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
        if let Some(actions) = ways.1 {
            let alerts = adopted.iter().flat_map(|passed| passed.alerts(groups.external_url()));
            actions.adopt(&alerts.collect::<Vec<_>>());
        }
        let undecided = std::mem::take(&mut self.undecided);
        if !undecided.is_empty() {
            let decided = self.decide(undecided, at);
            decided.hand(ways, false);
        }
        adopted
    }

    /// Goes on with the alerts of nodes that have come from another hub. What was known of these nodes here is older.
    fn take_nodes(
        &self,
        number: usize,
        word: &PeerWord,
        nodes: &BTreeSet<Arc<str>>,
        groups: &mut Groups,
        notifier: Option<&Notifier>,
    ) -> Vec<Passed> {
        if nodes.is_empty() {
            return Vec::new();
        }
        tracing::info!("{} nodes are judged here from now on: hub {} had them before", nodes.len(), word.hub);
        groups.release(nodes);
        release(notifier, nodes);
        let is_of = |labels: &BTreeMap<String, String>| {
            labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str()))
        };
        told(notifier, word, &is_of);
        groups.adopt(word, self.handover(number), false, &|alert: &SavedAlert| is_of(&alert.labels))
    }

    /// Alerts that are of no node: while both hubs have one, it counts from the earlier time; of a hub that is gone, all go on here.
    fn take_others(
        &mut self,
        number: usize,
        word: &Arc<PeerWord>,
        groups: &mut Groups,
        notifier: Option<&Notifier>,
    ) -> Vec<Passed> {
        let is_alive = is_alive(&self.heard[number]);
        let is_known =
            |known: &Option<Arc<PeerWord>>| known.as_ref().is_some_and(|one| Arc::ptr_eq(one, word));
        if is_alive {
            self.inherited[number] = None;
        } else if is_known(&self.inherited[number]) {
            return Vec::new();
        } else {
            self.inherited[number] = Some(word.clone());
        }
        let custody = &self.custody;
        let is_of_none = |labels: &BTreeMap<String, String>| {
            labels
                .get(NODE_LABEL)
                .is_none_or(|node| !custody.is_node(node) && !word.nodes.contains(node.as_str()))
        };
        match is_alive {
            // It tells people itself. What they were told counts here when an alert becomes this hub's.
            true => word
                .told
                .iter()
                .filter(|line| is_of_none(&line.labels))
                .for_each(|line| self.firings.hear(line)),
            false => told(notifier, word, &is_of_none),
        }
        groups.adopt(word, self.handover(number), is_alive, &|alert: &SavedAlert| {
            alert.state != "inactive" && is_of_none(&alert.labels)
        })
    }

    fn handover(&self, number: usize) -> Handover {
        Handover { known_at: self.heard[number].known_at, now: now() }
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
        let alive = self.heard.iter().filter(|heard| is_alive(heard));
        let said = alive.filter_map(|heard| {
            let (word, asked) = (heard.word.as_ref()?, heard.answered?);
            Some(Said { hub: &word.hub, asked, active: word.active.get(&alert.labels).copied() })
        });
        if alert.is_firing() {
            return match self.firings.whose(alert, &self.name, said, at) {
                Whose::Ours => Mine::Wholly,
                Whose::Other => Mine::Not,
                Whose::Unknown => Mine::Undecided,
            };
        }
        if said.into_iter().any(|said| said.active.is_some()) {
            // It goes on there, and is not over for people.
            return Mine::Not;
        }
        let words = self.heard.iter().filter(|heard| is_alive(heard)).filter_map(|heard| heard.word.as_ref());
        let end = alert.ends_at.unwrap_or_default().saturating_add(LAST_AFTER);
        let mut resolved = words.filter_map(|word| word.resolved.get(&alert.labels));
        match resolved.any(|at| *at > end) {
            true => Mine::Ended,
            false => Mine::Wholly,
        }
    }

    /// Tells people and acts, as far as that is this hub's.
    pub fn tell(&mut self, alerts: Vec<Alert>, notifier: Option<&Notifier>, actions: Option<&Actions>) {
        if !self.undecided.is_empty() {
            let newer: BTreeSet<&Labels> = alerts.iter().map(|alert| &alert.labels).collect();
            self.undecided.retain(|one| !newer.contains(&one.labels));
        }
        self.decide(alerts, Instant::now()).hand((notifier, actions), true);
    }

    /// What becomes of these alerts. Those of which that is not known yet wait.
    fn decide(&mut self, alerts: Vec<Alert>, at: Instant) -> Decided {
        let mut decided = Decided::default();
        for alert in alerts {
            match self.of(&alert, at) {
                Mine::Wholly => {
                    decided.known.extend(self.firings.take(&alert));
                    if !alert.is_firing() {
                        self.firings.end(&alert);
                    }
                    decided.acted.push(alert.clone());
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
                // What people were told of it goes with the node.
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
    fn hand(self, (notifier, actions): (Option<&Notifier>, Option<&Actions>), is_pass: bool) {
        if let Some(notifier) = notifier {
            if !self.left.is_empty() {
                let left: BTreeSet<&Labels> = self.left.iter().map(|alert| &alert.labels).collect();
                notifier.release(&|labels| left.contains(labels));
            }
            if !self.known.is_empty() {
                notifier.adopt(self.known);
            }
            if is_pass || !self.told.is_empty() {
                notifier.tell(&self.told);
            }
        }
        if let Some(actions) = actions {
            actions.adopt(&self.left);
            actions.tell(&self.acted);
        }
    }
}

/// Whether a hub is there.
fn is_alive(heard: &Heard) -> bool {
    heard.answered.is_some_and(|at| at.elapsed() < ALIVE)
}

/// Another hub tells people of the alerts of these nodes.
fn release(notifier: Option<&Notifier>, nodes: &BTreeSet<Arc<str>>) {
    if let Some(notifier) = notifier {
        notifier.release(&|labels| labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str())));
    }
}

/// People know what another hub has told them.
fn told(notifier: Option<&Notifier>, word: &PeerWord, is_meant: &dyn Fn(&BTreeMap<String, String>) -> bool) {
    if let Some(notifier) = notifier {
        let lines = word.told.iter().filter(|line| is_meant(&line.labels)).cloned();
        notifier.adopt(lines.collect::<Vec<ToldLine>>());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use khz_ask::Login;
    use khz_notify::{ExecSettings, Pace, Settings};
    use khz_rules::RuleSet;

    use super::*;

    /// What another hub has saved: one alert that fires.
    const STATE: &str = r#"{"khz_rules":1,"groups":[{"file":"a.yml","name":"g","time":9,"rules":[{"name":"A","labels":{},
        "alerts":[{"state":"firing","labels":{"alertname":"A"},"annotations":{},"value":"1","active_at":FIRED,"fired_at":FIRED,"fired_here_at":FIRED}]}]}]}"#;

    const RULES: &[u8] = b"groups: [{name: g, rules: [{alert: A, expr: a}]}]";

    /// A hub that has one node, tells people at once, and does not reach the other hub.
    struct Stage {
        sharing: Sharing,
        groups: Groups,
        notifier: Notifier,
    }

    impl Stage {
        fn new() -> Self {
            let other = ForeignServer {
                url: "http://127.0.0.1:1".to_owned(),
                timeout: Duration::from_secs(1),
                login: Login::Nothing,
                headers: Vec::new(),
                files: None,
            };
            let sharing = Sharing::start(&[other], "hub", "a", &[]).ok().flatten().unwrap();
            let set = RuleSet::parse(Path::new("a.yml"), RULES).unwrap();
            let keep = ExecSettings {
                name: "keep".to_owned(),
                command: vec!["/bin/true".to_owned()],
                timeout: Duration::from_secs(60),
                pace: Pace { wait: 0, ..Pace::default() },
            };
            let settings = Settings { execs: vec![keep], ..Settings::default() };
            let notifier = Notifier::new(&settings, None).unwrap();
            Stage { sharing, groups: Groups::new(&set, Arc::default(), None, 0, true), notifier }
        }

        fn look(&mut self, is_up: bool) {
            let nodes = [(NodeName::new("n1").unwrap(), is_up)];
            let ways = (Some(&self.notifier), None);
            self.sharing.look(&nodes, &mut self.groups, ways, &Numbers::default());
        }

        /// A pass in which an alert of the node fires.
        fn pass(&mut self) {
            let labels = [("alertname", "A"), (NODE_LABEL, "n1")];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let alert = Alert { labels, starts_at: 1, ..Alert::default() };
            self.sharing.tell(vec![alert], Some(&self.notifier), None);
        }

        /// How many alerts people know, and how many they were told or are about to be told.
        fn told(&self) -> (usize, u64) {
            let way = self.notifier.ways().remove(0);
            let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
            (self.notifier.told().len(), of(&way.counts.waiting) + of(&way.counts.sent))
        }
    }

    #[test]
    fn what_people_were_told_of_a_node_stays_while_it_is_on_its_way_to_another_hub() {
        let mut stage = Stage::new();
        stage.look(true);
        stage.pass();
        while stage.notifier.ways()[0].counts.sent.load(Ordering::Relaxed) < 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stage.look(false);
        assert!(stage.sharing.away().contains("n1"), "perhaps it is on its way");
        stage.pass();
        assert_eq!(stage.told(), (1, 1), "the hub to which it goes asks for that");
        stage.look(true);
        stage.pass();
        assert_eq!(stage.told(), (1, 1), "it came back, and nobody hears it again");
    }

    /// What the other hub says of an alert of no node: since when it fires there, and when people were told.
    fn word(fired_at: i64) -> Arc<PeerWord> {
        let state = STATE.replace("FIRED", &fired_at.to_string());
        let told = ToldLine {
            way: "keep".to_owned(),
            labels: of_none(0).labels,
            starts_at: fired_at,
            told_at: fired_at,
            perhaps: false,
        };
        let state = khz_rules::Saved::from_bytes(state.as_bytes()).unwrap();
        Arc::new(PeerWord::new("first".to_owned(), "b-1".to_owned(), vec![told], state))
    }

    fn of_none(starts_at: i64) -> Alert {
        let labels = [("alertname".to_owned(), "A".to_owned())].into();
        Alert { labels, starts_at, fired_here_at: Some(starts_at), ..Alert::default() }
    }

    #[test]
    fn a_firing_of_no_node_is_left_to_the_hub_where_it_began_and_so_is_what_people_were_told() {
        let mut stage = Stage::new();
        let at = Instant::now() + Duration::from_secs(100);
        let says = |word: &Arc<PeerWord>, answered: Instant| Heard {
            word: Some(word.clone()),
            answered: Some(answered),
            known_at: 20,
            is_asked: true,
        };
        // Which of them was first is not known before the other one has said it.
        let word = word(5);
        let silent = Arc::new(PeerWord::new(
            "first".to_owned(),
            "b-0".to_owned(),
            Vec::new(),
            khz_rules::Saved::new(Vec::new()),
        ));
        stage.sharing.heard = vec![says(&silent, at)];
        let decided = stage.sharing.decide(vec![of_none(10)], at);
        assert!(decided.told.is_empty() && decided.acted.is_empty() && decided.left.is_empty());
        assert_eq!(stage.sharing.undecided, [of_none(10)]);
        stage.sharing.heard = vec![says(&word, at + Duration::from_secs(2))];
        let groups = &mut stage.groups;
        stage.sharing.take_others(0, &word, groups, Some(&stage.notifier));
        let undecided = std::mem::take(&mut stage.sharing.undecided);
        let decided = stage.sharing.decide(undecided, at + Duration::from_secs(2));
        assert_eq!((decided.left, decided.told, decided.acted), (vec![of_none(10)], vec![], vec![]));
        assert!(stage.notifier.told().is_empty(), "this hub reminds nobody of it");
        // The other one has died: this hub goes on, and knows what people know.
        stage.sharing.heard = vec![Heard { answered: None, ..says(&word, at) }];
        let decided = stage.sharing.decide(vec![of_none(10)], at + Duration::from_secs(60));
        let known: Vec<(&str, i64)> = decided.known.iter().map(|line| (&*line.way, line.told_at)).collect();
        assert_eq!((decided.told.as_slice(), known), (&[of_none(10)][..], vec![("keep", 5)]));
    }

    #[test]
    fn too_many_firings_that_are_not_decided_wait_for_their_next_evaluation() {
        let mut stage = Stage::new();
        let at = Instant::now();
        let (state, tag) = (khz_rules::Saved::new(Vec::new()), "b-0".to_owned());
        let word = Arc::new(PeerWord::new("first".to_owned(), tag, Vec::new(), state));
        stage.sharing.heard =
            vec![Heard { word: Some(word), answered: Some(at), known_at: 0, is_asked: true }];
        let numbered = |number: usize| {
            let labels = [("alertname".to_owned(), number.to_string())].into();
            Alert { labels, starts_at: 1, fired_here_at: Some(1), ..Alert::default() }
        };
        let all: Vec<Alert> = (0..=UNDECIDED_MAX).map(numbered).collect();
        assert!(stage.sharing.decide(all.clone(), at).told.is_empty());
        assert_eq!((stage.sharing.undecided.len(), &stage.sharing.undecided[0]), (UNDECIDED_MAX, &all[1]));
        stage.sharing.heard[0].answered = Some(at + Duration::from_secs(2));
        assert_eq!(stage.sharing.decide(all.clone(), at).told, all);
    }

    #[test]
    fn the_end_of_an_alert_of_no_node_is_told_by_the_last_hub_which_knows_what_the_first_one_has_told() {
        let mut stage = Stage::new();
        let at = Instant::now() + Duration::from_secs(100);
        let says = |word: Arc<PeerWord>| Heard {
            word: Some(word),
            answered: Some(at),
            known_at: 20,
            is_asked: true,
        };
        let left = |stage: &mut Stage| {
            // It fires at the other hub, which has told people.
            stage.sharing.heard = vec![says(word(5))];
            assert_eq!(stage.sharing.decide(vec![of_none(10)], at).left, [of_none(10)]);
            stage.sharing.take_others(0, &word(5), &mut stage.groups, Some(&stage.notifier));
        };
        let resolved = |resolved_at: i64| {
            let mut state = khz_rules::Saved::from_bytes(STATE.replace("FIRED", "5").as_bytes()).unwrap();
            let alert = &mut state.groups[0].rules[0].alerts[0];
            (alert.state, alert.resolved_at) = ("inactive".to_owned(), Some(resolved_at));
            Arc::new(PeerWord::new("first".to_owned(), "b-2".to_owned(), Vec::new(), state))
        };
        let over = Alert { ends_at: Some(10_000), ..of_none(10) };
        // It was over there at the same time, or not long before or after, and the other hub may have seen it fire here.
        for ended in [9_000, 10_000, 12_000] {
            left(&mut stage);
            assert_eq!(
                stage.sharing.decide(vec![over.clone()], at).left,
                std::slice::from_ref(&over),
                "it fires there still"
            );
            stage.sharing.heard = vec![says(resolved(ended))];
            let decided = stage.sharing.decide(vec![over.clone()], at);
            assert_eq!((decided.known.len(), decided.told), (1, vec![over.clone()]), "{ended}");
            let again = stage.sharing.decide(vec![over.clone()], at);
            assert!(again.known.is_empty(), "people have heard it");
        }
        // It was over there later: the other hub tells people, and this one does not, also when that one dies.
        left(&mut stage);
        stage.sharing.heard = vec![says(resolved(14_000))];
        let decided = stage.sharing.decide(vec![over.clone()], at);
        assert!(decided.told.is_empty() && decided.known.is_empty());
        stage.sharing.heard = Vec::new();
        assert!(stage.sharing.decide(vec![over], at).known.is_empty());
    }
}
