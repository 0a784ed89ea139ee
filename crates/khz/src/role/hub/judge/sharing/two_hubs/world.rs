//! Two hubs on a clock of its own, the nodes that are at one of them or on their way, and what people hear. Everything is the real thing
//! but the evaluation's source, the way between the hubs, and those who are told.

use std::cell::{Cell, RefCell};
use std::path::Path;

use khz_promql::{Engine, LabelSet, Limits};
use khz_rules::{Memory, RuleId, RuleSet, Saved};

use super::super::super::clock::Now;
use super::*;

/// What the judges see: the alert named `A` of each group is on for a part of each period (ms).
#[derive(Clone, Copy, Debug)]
pub(super) struct Flap {
    pub period: i64,
    pub on: i64,
    pub interval: i64,
    pub hold: i64,
    pub keep: i64,
    pub phase: i64,
    pub of: Of,
}

/// Of what an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Of no node, and each hub sees it.
    Nothing,
    /// Of no node, and each hub sees another part of what is the case: the second one sees it when the first does not see it any more, or
    /// so much earlier (ms).
    Halves(i64),
    /// Of no node: a hub sees it while it has a node.
    AnyNode,
    /// Of the first node.
    Node,
    /// That the first node is down.
    NodeDown,
}

impl Of {
    /// Whether its series has a node.
    fn is_node(self) -> bool {
        matches!(self, Of::Node | Of::NodeDown)
    }
}

impl Flap {
    fn is_on(&self, now: i64) -> bool {
        (now - self.phase).rem_euclid(self.period) < self.on
    }
}

/// What people heard, or what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Fires,
    Over,
    Acted,
    /// A message about others named it as one that fires.
    Listed,
}

/// Those outside, for one hub: they are told some time after the hub said so.
#[derive(Default)]
struct Listener {
    now: Cell<i64>,
    /// How far the clock of the hub is ahead.
    clock: Cell<i64>,
    wait: i64,
    /// What people do not know so far, and when they are told.
    news: RefCell<BTreeMap<Labels, (i64, Alert)>>,
    /// The hub stood still: it must say something first.
    is_held: Cell<bool>,
    /// What people know, and what was acted on: files of the hub, which outlive it.
    told: RefCell<BTreeMap<Labels, ToldLine>>,
    /// What the hub itself has mentioned since it began, or since another one left it to it.
    mentioned: RefCell<BTreeSet<Labels>>,
    done: RefCell<HashSet<(Labels, i64)>>,
    heard: RefCell<Vec<(i64, String, What)>>,
}

impl Listener {
    fn hears(&self, alert: &Alert, what: What) {
        self.heard.borrow_mut().push((self.now.get(), alert.name().to_owned(), what));
    }

    /// People are told what is due.
    fn tell_due(&self) {
        if self.is_held.get() {
            return;
        }
        let now = self.now.get();
        let due: Vec<Alert> = {
            let news = self.news.borrow();
            news.values().filter(|(due, _)| *due <= now).map(|(_, alert)| alert.clone()).collect()
        };
        self.list(&due);
        for alert in due {
            self.news.borrow_mut().remove(&alert.labels);
            let is_known = self.told.borrow().contains_key(&alert.labels);
            match (alert.is_firing(), is_known) {
                (true, false) => {
                    let (labels, starts_at, told_at) = (alert.labels.clone(), alert.starts_at, now);
                    let line = ToldLine {
                        way: "w".to_owned(),
                        labels,
                        starts_at,
                        told_at,
                        perhaps: false,
                        refused: false,
                    };
                    self.told.borrow_mut().insert(alert.labels.clone(), line);
                    self.hears(&alert, What::Fires);
                }
                (false, true) => {
                    self.told.borrow_mut().remove(&alert.labels);
                    self.hears(&alert, What::Over);
                }
                _ => {}
            }
        }
    }
}

impl Listener {
    /// A message also names what else fires of what people know, as the hub says: here, all alerts are of one name.
    fn list(&self, due: &[Alert]) {
        let is_news = |labels: &Labels| self.news.borrow().contains_key(labels);
        let is_listed = |labels: &&Labels| self.is_listed(labels) && !is_news(labels);
        let told = self.told.borrow();
        for labels in told.keys().filter(is_listed).filter(|_| !due.is_empty()) {
            self.hears(&Alert { labels: labels.clone(), ..Alert::default() }, What::Listed);
        }
    }

    /// As `State::is_listed` of the digest has it.
    fn is_listed(&self, labels: &Labels) -> bool {
        self.mentioned.borrow().contains(labels)
    }
}

impl Outside for Listener {
    fn tell(&self, alerts: &[Alert]) {
        self.is_held.set(false);
        for alert in alerts {
            self.mentioned.borrow_mut().insert(alert.labels.clone());
            let is_known = self.told.borrow().contains_key(&alert.labels);
            let mut news = self.news.borrow_mut();
            if alert.is_firing() == is_known {
                news.remove(&alert.labels);
                continue;
            }
            let now = self.now.get() + self.clock.get();
            let waited = alert.waits_since.map_or(0, |since| (now - since).clamp(0, self.wait));
            let due = self.now.get() + self.wait - waited;
            let due = news.get(&alert.labels).map_or(due, |(known, _)| due.min(*known));
            news.insert(alert.labels.clone(), (due, alert.clone()));
        }
        self.tell_due();
    }

    fn told(&self) -> Vec<ToldLine> {
        self.told.borrow().values().cloned().collect()
    }

    fn adopt(&self, lines: Vec<ToldLine>) {
        for line in lines {
            let mut news = self.news.borrow_mut();
            if news.get(&line.labels).is_some_and(|(_, alert)| alert.is_firing()) {
                news.remove(&line.labels);
            }
            self.told.borrow_mut().entry(line.labels.clone()).or_insert(line);
        }
    }

    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool) {
        self.told.borrow_mut().retain(|labels, _| !is_meant(labels));
        self.news.borrow_mut().retain(|labels, _| !is_meant(labels));
        self.mentioned.borrow_mut().retain(|labels| !is_meant(labels));
    }

    fn act(&self, alerts: &[Alert]) {
        for alert in alerts.iter().filter(|alert| alert.is_firing()) {
            if self.done.borrow_mut().insert((alert.labels.clone(), alert.starts_at)) {
                self.hears(alert, What::Acted);
            }
        }
    }

    fn acted(&self, alerts: &[Alert]) {
        let firing = alerts.iter().filter(|alert| alert.is_firing());
        self.done.borrow_mut().extend(firing.map(|alert| (alert.labels.clone(), alert.starts_at)));
    }
}

/// A hub that runs.
struct Running {
    sharing: Sharing,
    groups: Groups,
    looks_at: i64,
    /// When it asks the other hub, and what that one said last.
    asks_at: i64,
    heard: Heard,
    word: Option<Arc<PeerWord>>,
    /// What the clock said at a moment by which the times of the word are.
    clock: Option<(Instant, i64)>,
    written: i64,
    revision: u64,
    said: u64,
}

/// A hub, with what outlives it.
struct Hub {
    name: &'static str,
    running: Option<Running>,
    /// Since when it stands still.
    frozen: Option<i64>,
    file: Option<Saved>,
    /// The last word of the other one, what its clock said then, and when that was.
    peer_file: Option<(PeerWord, Option<i64>, i64)>,
    /// How far its clock is ahead, and those of the nodes that it has.
    clock: i64,
    listener: Listener,
    starts: u64,
    /// Of each node since when it is here, or when it went; `None`: it was never here.
    nodes: Vec<Option<(bool, i64)>>,
    /// Since when this hub sees itself what nodes do: since its start, or since it stood still.
    awake: i64,
    /// Since when it connects to the hub below.
    connects: i64,
    /// The nodes that have gone a moment ago, as it noted the last time, and when it does so again.
    gone: BTreeSet<Arc<str>>,
    notes_at: i64,
}

impl Hub {
    fn is_there(&self) -> bool {
        self.running.is_some() && self.frozen.is_none()
    }

    /// Notes which nodes have gone a moment ago, once a second, as `source.rs` does.
    fn note_gone(&mut self, now: i64) {
        if now < self.notes_at {
            return;
        }
        self.notes_at = now + 1_000;
        let has_gone = |node: &Option<(bool, i64)>| {
            node.is_some_and(|(is_up, gone)| !is_up && gone >= self.awake && now - gone < GONE_FOR)
        };
        let gone = (0..).zip(self.nodes.iter()).filter(|(_, node)| has_gone(node));
        self.gone = gone.map(|(at, _)| node_name(at).into()).collect();
    }
}

pub(super) struct World {
    base: Instant,
    flaps: Vec<Flap>,
    /// The rules of a hub that is started for the first time, and for another time.
    sets: [RuleSet; 2],
    hubs: [Hub; 2],
    nodes: Vec<Node>,
    /// A group is evaluated so much later than it is due.
    late: i64,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// When it goes from the hub at which it is to be to the other one, and back (ms after the start).
    pub moves: Vec<i64>,
    /// The hub at which it begins.
    pub home: usize,
    /// So long a hub must be there before the node goes back to it.
    pub back_after: i64,
    /// It is at both hubs: they are above the hub that has it. It comes `back_after` each has connected to that one.
    pub is_below: bool,
    /// When it dies.
    pub dies: Option<i64>,
    /// The hub that has it; `Err`: it is on its way since then.
    pub at: Result<usize, i64>,
    /// Since when it would go to another hub.
    pub tempted: Option<i64>,
}

impl Node {
    /// One that is where it is to be as soon as that is possible.
    pub fn new(home: usize, moves: Vec<i64>) -> Self {
        Node { moves, home, back_after: 0, is_below: false, dies: None, at: Err(0), tempted: None }
    }
}

fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// The rules of these alerts, without the first few, in groups whose names begin so.
fn rules(flaps: &[Flap], without: usize, name: &str) -> RuleSet {
    let group = |(number, flap): (usize, &Flap)| {
        let (interval, hold, keep) = (flap.interval, flap.hold, flap.keep);
        format!(
            "- {{name: {name}{number}, interval: {interval}ms, rules: [{{alert: a{number}, expr: s{number}, for: {hold}ms, keep_firing_for: {keep}ms}}]}}\n"
        )
    };
    let text: String = flaps.iter().enumerate().skip(without).map(group).collect();
    RuleSet::parse(Path::new("a.yml"), format!("groups:\n{text}").as_bytes()).unwrap()
}

pub(super) const START: i64 = 1_000_000;
/// So long after the start both hubs know each other.
const SETTLED: i64 = 30_000;
/// So long after its start a hub has asked the other one.
const ASKED_AFTER: i64 = 300;
/// So long after that it asks again, and then each second; its looks come at another time.
const ASKED_AGAIN_AFTER: i64 = 400;
/// So long a node needs to notice that its hub stands still, and to connect to another one.
const NOTICED_AFTER: i64 = 3_000;
const CONNECTED_AFTER: i64 = 500;
/// So long after its start a hub notes for the first time which nodes have gone.
const NOTED_AFTER: i64 = 650;
/// A hub that stands still for so long loses the connection to the hub below.
const CONNECTION_KEPT: i64 = 3_000;
/// For so long the samples of a node that has gone are seen.
const SAMPLES_KEPT: i64 = 60_000;
/// For so long the series of a node go on without a row, and so long after it has come its rows are seen.
const SERIES_KEPT: i64 = 5_000;
const ROWS_AFTER: i64 = 1_500;
/// A node that went so long ago may be back at once, as `judging.rs` has it.
const GONE_FOR: i64 = 10_000;

impl World {
    pub fn new(course: &Course) -> Self {
        let Course { flaps, wait, nodes, files, late, .. } = course.clone();
        let hub = |name| Hub {
            name,
            running: None,
            frozen: None,
            file: None,
            peer_file: None,
            clock: 0,
            listener: Listener { wait, ..Listener::default() },
            starts: 0,
            nodes: vec![None; nodes.len()],
            awake: 0,
            connects: 0,
            gone: BTreeSet::new(),
            notes_at: 0,
        };
        let later = match files {
            Files::Same => rules(&flaps, 0, "g"),
            Files::Shorter => rules(&flaps, 1, "g"),
            Files::Renamed => rules(&flaps, 0, "h"),
        };
        let sets = [rules(&flaps, 0, "g"), later];
        let base = Instant::now() + Duration::from_secs(1_000);
        let hubs = [hub("x"), hub("y")];
        World { base, flaps, sets, hubs, nodes, late }
    }

    /// A moment at a hub.
    fn moment(&self, number: usize, now: i64) -> Moment {
        let at = self.base + Duration::from_millis((now - START).unsigned_abs());
        let now = now + self.hubs[number].clock;
        Moment { at, now, wall: now }
    }

    /// Somebody sets the clock of a hub by so much, and those of its nodes.
    pub fn set_clock(&mut self, number: usize, by: i64, now: i64) {
        self.hubs[number].clock += by;
        let moment = self.moment(number, now);
        let Hub { name, running, file, listener, .. } = &mut self.hubs[number];
        let Some(running) = running else { return };
        running.groups.clock_set(by, moment.now);
        running.heard.by(Now { steady: now, judged: moment.now });
        running.sharing.heard = vec![running.heard.clone()];
        running.sharing.clock_set_at(by, moment);
        running.keep(name, file, listener, moment.now);
    }

    pub fn start(&mut self, number: usize, now: i64) {
        let moment = self.moment(number, now);
        let begun = moment.at;
        let hub = &mut self.hubs[number];
        hub.starts += 1;
        (hub.awake, hub.connects) = (now, now);
        (hub.gone, hub.notes_at) = (BTreeSet::new(), now + NOTED_AFTER);
        let identity = format!("{}{}", hub.name, hub.starts);
        let by = Now { steady: now, judged: moment.now };
        let before = hub.peer_file.clone();
        let heard = before.map(|(word, theirs, at)| Heard::before(word, theirs, at.min(moment.now), by));
        let heard = heard.unwrap_or_default();
        let sharing = Sharing::with(
            (Peers::default(), vec![heard.clone()]),
            hub.name,
            &identity,
            hub.file.as_ref(),
            begun,
        );
        let set = &self.sets[usize::from(hub.starts > 1)];
        let groups = Groups::new(set, Arc::default(), hub.file.as_ref(), moment.now, true);
        let (asks_at, looks_at) = (now + ASKED_AFTER, now + ASKED_AFTER);
        let (word, clock, written, revision, said) = Default::default();
        hub.running =
            Some(Running { sharing, groups, looks_at, asks_at, heard, word, clock, written, revision, said });
    }

    pub fn kill(&mut self, number: usize, now: i64) {
        let hub = &mut self.hubs[number];
        hub.running = None;
        // It remembers its nodes over a restart.
        for node in hub.nodes.iter_mut().flatten() {
            *node = (false, if node.0 { now } else { node.1 });
        }
        hub.listener.news.borrow_mut().clear();
        hub.listener.mentioned.borrow_mut().clear();
    }

    pub fn freeze(&mut self, number: usize, now: i64) {
        self.hubs[number].frozen = Some(now);
    }

    pub fn thaw(&mut self, number: usize, now: i64) {
        let hub = &mut self.hubs[number];
        let Some(since) = hub.frozen.take() else { return };
        hub.listener.is_held.set(now - since >= 5_000);
        if let Some(running) = hub.running.as_mut().filter(|_| now - since >= 3_000) {
            running.groups.settle(now + hub.clock, &Numbers::default());
        }
        hub.awake = now;
        // The hub below has closed the connection.
        let has_lost = now - since >= CONNECTION_KEPT;
        hub.connects = if has_lost { now } else { hub.connects };
        for (_, at) in self.nodes.iter().zip(&mut hub.nodes).filter(|(node, _)| node.is_below && has_lost) {
            *at = at.map(|_| (false, now));
        }
        // It notices only now that they have gone.
        for node in hub.nodes.iter_mut().flatten().filter(|node| !node.0 && node.1 >= since) {
            node.1 = now;
        }
    }

    /// A node goes where it belongs, as far as that hub is there.
    fn move_node(&mut self, number: usize, now: i64) {
        if self.nodes[number].is_below {
            let after = CONNECTED_AFTER + self.nodes[number].back_after;
            let connected = |hub: &&mut Hub| hub.is_there() && now - hub.connects >= after;
            for hub in self.hubs.iter_mut().filter(connected) {
                if hub.nodes[number].is_none_or(|(is_up, _)| !is_up) {
                    hub.nodes[number] = Some((true, now));
                }
            }
            return;
        }
        let answers = |hub: &usize| {
            let hub = &self.hubs[*hub];
            hub.running.is_some() && hub.frozen.is_none_or(|since| now - since < NOTICED_AFTER)
        };
        let node = &self.nodes[number];
        let moved = node.moves.iter().filter(|at| START + **at <= now).count();
        let preferred = (node.home + moved) % 2;
        let is_dead = node.dies.is_some_and(|at| START + at <= now);
        let wanted = [preferred, 1 - preferred].into_iter().filter(|_| !is_dead).find(answers);
        let (at, tempted) = (node.at, node.tempted);
        // A node whose hub is there waits before it goes back to a better one.
        let waits = at.is_ok_and(|at| wanted.is_some_and(|wanted| wanted != at) && answers(&at));
        let node = &mut self.nodes[number];
        node.tempted = waits.then(|| tempted.unwrap_or(now));
        if node.tempted.is_some_and(|since| now - since < node.back_after) {
            return;
        }
        match (at, wanted) {
            (Ok(at), wanted) if wanted != Some(at) => {
                node.at = Err(now);
                self.hubs[at].nodes[number] = Some((false, now));
            }
            (Err(since), Some(wanted)) if now - since >= CONNECTED_AFTER && self.hubs[wanted].is_there() => {
                node.at = Ok(wanted);
                self.hubs[wanted].nodes[number] = Some((true, now));
            }
            _ => {}
        }
    }

    /// A tenth of a second of both hubs.
    pub fn step(&mut self, now: i64) {
        for node in 0..self.nodes.len() {
            self.move_node(node, now);
        }
        for number in 0..2 {
            let moment = self.moment(number, now);
            let other = &self.hubs[1 - number];
            let word = other.running.as_ref().filter(|_| other.is_there());
            let word = word.and_then(|running| running.says(moment.at, now + other.clock));
            if !self.hubs[number].is_there() {
                continue;
            }
            self.hubs[number].note_gone(now);
            let Hub { name, running, file, peer_file, listener, nodes, gone: gone_nodes, .. } =
                &mut self.hubs[number];
            let Some(running) = running else { continue };
            listener.now.set(now);
            listener.clock.set(moment.now - now);
            listener.tell_due();
            if running.sharing.notice_at(moment) {
                running.groups.begin_again(moment.now, running.sharing.has_paused());
                running.sharing.begin_again_at(moment.at);
                (running.asks_at, running.looks_at) = (now + ASKED_AFTER, now + ASKED_AFTER);
            }
            if now >= running.asks_at {
                if let Some((word, theirs)) = &word {
                    *peer_file = Some(((**word).clone(), *theirs, moment.now));
                }
                running.ask(word, moment, now);
            }
            let is_due = running.groups.all.iter().any(|judged| moment.now >= judged.due + self.late);
            let has_lost = is_due && running.sharing.looked.is_some() && running.has_lost(nodes);
            if now >= running.looks_at || has_lost {
                let is_first = running.sharing.looked.is_none();
                let adopted = running.look(nodes, listener, moment, now);
                running.keep(name, file, listener, moment.now);
                for passed in &adopted {
                    let alerts = running.groups.alerts(passed);
                    running.sharing.tell_at(alerts, listener, moment);
                }
                if is_first {
                    let ends = running.groups.restored_ends();
                    running.sharing.tell_at(ends, listener, moment);
                }
                running.keep(name, file, listener, moment.now);
            }
            if running.sharing.looked.is_none() {
                continue;
            }
            let gone = running.groups.without_rule_due(moment.now);
            if !gone.is_empty() {
                running.keep(name, file, listener, moment.now);
                running.sharing.tell_at(gone, listener, moment);
            }
            let first = self.flaps.len() - running.groups.all.len();
            for (group, flap) in self.flaps.iter().skip(first).enumerate() {
                if moment.now < running.groups.all[group].due + self.late {
                    continue;
                }
                let is_seen = match (flap.of, nodes.first().copied().flatten()) {
                    (Of::Nothing, _) => flap.is_on(now),
                    (Of::Halves(earlier), _) => {
                        let at = if number == 0 { now } else { now - flap.on + earlier };
                        let begun = now - (at - flap.phase).rem_euclid(flap.period);
                        begun >= START + SETTLED && flap.is_on(at)
                    }
                    (Of::AnyNode, _) => {
                        let away = running.sharing.away();
                        let near = (0..).zip(nodes.iter()).filter(|(at, _)| !away.contains(&*node_name(*at)));
                        near.filter_map(|(_, node)| *node).any(|(is_up, since)| match is_up {
                            true => now - since >= ROWS_AFTER && flap.is_on(now),
                            false => now - since < SERIES_KEPT && flap.is_on(since),
                        })
                    }
                    (_, None) => false,
                    (Of::Node, Some((true, _))) => flap.is_on(now),
                    (Of::Node, Some((false, gone))) => now - gone < SAMPLES_KEPT && flap.is_on(gone),
                    (Of::NodeDown, Some((is_up, _))) => !is_up,
                };
                let seen = is_seen.then_some((first + group, flap.of.is_node()));
                let passed = running.pass(group, seen, gone_nodes.clone(), moment.now);
                running.keep(name, file, listener, moment.now);
                let alerts = running.groups.alerts(&passed);
                running.sharing.tell_at(alerts, listener, moment);
                running.keep(name, file, listener, moment.now);
            }
        }
    }

    /// What people heard of an alert, and what was done, from both hubs.
    pub fn heard(&self, name: &str) -> Vec<(i64, What, &'static str)> {
        let of = |hub: &Hub| {
            let heard = hub.listener.heard.borrow();
            let of_name = heard.iter().filter(|(_, of, _)| of == name);
            of_name.map(|(at, _, what)| (*at - START, *what, hub.name)).collect::<Vec<_>>()
        };
        let mut heard: Vec<_> = self.hubs.iter().flat_map(of).collect();
        heard.sort_by_key(|(at, ..)| *at);
        heard
    }
}

/// The nodes that a hub knows, and whether each is up.
fn known(nodes: &[Option<(bool, i64)>]) -> Vec<(NodeName, bool)> {
    let known = (0..).zip(nodes).filter_map(|(at, node)| Some((at, node.as_ref()?.0)));
    known.map(|(at, is_up)| (NodeName::new(&node_name(at)).unwrap(), is_up)).collect()
}

impl Running {
    /// What it says to the other hub, and what its clock says: nothing, if it has not looked for long.
    fn says(&self, at: Instant, now: i64) -> Option<(Arc<PeerWord>, Option<i64>)> {
        let stands = |looked: Moment| (now - looked.now).abs() < 8_000;
        let word = self.word.clone().filter(|_| self.sharing.looked.is_some_and(stands))?;
        let since = |then: Instant| at.duration_since(then).as_millis() as i64;
        Some((word, self.clock.map(|(then, said)| said + since(then))))
    }

    /// Asks the other hub, which says this; it may not be there.
    fn ask(&mut self, word: Option<(Arc<PeerWord>, Option<i64>)>, moment: Moment, now: i64) {
        // Of a hub that has just begun, the first answer is waited for; later ones come at other times than its looks.
        let is_first = self.heard.asked.is_none_or(|asked| asked < self.sharing.begun);
        self.asks_at = now + if is_first { ASKED_AGAIN_AFTER } else { 1_000 };
        self.heard.asked = Some(moment.at);
        if let Some((word, theirs)) = word {
            let by = Now { steady: now, judged: moment.now };
            self.heard.hear(moment.at, 0, (theirs, Some((*word).clone())), by);
        }
    }

    fn has_lost(&self, nodes: &[Option<(bool, i64)>]) -> bool {
        self.sharing.has_lost(&known(nodes))
    }

    /// Takes a look. Returns the alerts that go on here.
    fn look(
        &mut self,
        nodes: &[Option<(bool, i64)>],
        listener: &Listener,
        moment: Moment,
        now: i64,
    ) -> Vec<Passed> {
        self.looks_at = now + 1_000;
        self.sharing.heard = vec![self.heard.clone()];
        let nodes = known(nodes);
        let adopted = self.sharing.look_at(&nodes, &mut self.groups, listener, &Numbers::default(), moment);
        adopted.iter().for_each(|passed| self.groups.without_rule.heard(&passed.pass.alerts));
        adopted
    }

    /// Evaluates a group. `seen`: its series of this number is there, and whether it is of the node.
    fn pass(
        &mut self,
        group: usize,
        seen: Option<(usize, bool)>,
        gone: BTreeSet<Arc<str>>,
        now: i64,
    ) -> Passed {
        // Its pass is of the time at which it was due.
        let judged = &self.groups.all[group];
        let interval = judged.evaluator.interval();
        let due = judged.due + (now - judged.due).max(0) / interval * interval;
        let mut memory = Memory::default();
        if let Some((number, is_of_node)) = seen {
            let name = ("__name__", format!("s{number}"));
            let node = is_of_node.then(|| (NODE_LABEL, node_name(0)));
            memory.add(&LabelSet::new([name].into_iter().chain(node)), due, 1.0);
        }
        let judged = &mut self.groups.all[group];
        let was_restored = judged.evaluator.is_restored() && judged.evaluator.size().alerts > 0;
        let share = Arc::new(Share { gone: Arc::new(gone), ..(**self.sharing.rest()).clone() });
        let engine = Engine::new(Limits::default());
        let mut passing = judged.evaluator.begin(due);
        while passing.next_rule().is_some() {
            judged.evaluator.step(&mut passing, &engine, &memory, &mut || Duration::ZERO, &share);
        }
        let pass = judged.evaluator.finish(passing);
        judged.due = judged.evaluator.next(due);
        let passed = Passed {
            number: group,
            name: String::new(),
            group: judged.evaluator.group().clone(),
            pass,
            is_whole: true,
        };
        self.groups.has_changed |= was_restored;
        self.groups.without_rule.heard(&passed.pass.alerts);
        self.groups.ended(&passed, &|_: RuleId| None);
        passed
    }

    /// Writes the file if an alert has changed or it is old, and says it to the other hub.
    fn keep(&mut self, name: &str, file: &mut Option<Saved>, listener: &Listener, now: i64) {
        let has_others = self.sharing.revision() != self.revision;
        if self.groups.has_changed() || has_others || now - self.written >= 60_000 {
            self.revision = self.sharing.revision();
            let mut saved = self.groups.saved();
            self.sharing.mark(&mut saved);
            (*file, self.written) = (Some(saved), now);
        }
        let Some(state) = file.clone() else { return };
        let mut told = listener.told();
        told.extend(self.sharing.handed.iter().map(|(_, line)| line.clone()));
        self.said += 1;
        let tag = format!("{}-{}", self.sharing.identity, self.said);
        let own = Some(self.sharing.firings.own().map(|own| own.labels.clone()).collect());
        self.word = Some(Arc::new(PeerWord::new(name.to_owned(), tag, told, own, state)));
        self.clock = self.sharing.clock;
    }
}
