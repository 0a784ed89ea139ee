//! Two hubs with the same rules, for minutes of a clock of its own: alerts come and go, nodes move between the hubs, hubs are killed or
//! stand still, and what people hear is compared with what was the case. Everything is the real thing but the evaluation's source, the
//! way between the hubs, and those who are told.

use std::cell::{Cell, RefCell};
use std::path::Path;

use khz_promql::{Engine, LabelSet, Limits};
use khz_rules::{Memory, RuleId, RuleSet, Saved};
use proptest::prelude::*;

use super::*;

/// What the judges see: the alert named `A` of each group is on for a part of each period (ms).
#[derive(Clone, Copy, Debug)]
struct Flap {
    period: i64,
    on: i64,
    interval: i64,
    hold: i64,
    keep: i64,
    phase: i64,
    /// It is of the node.
    is_of_node: bool,
}

impl Flap {
    fn is_on(&self, now: i64) -> bool {
        (now - self.phase).rem_euclid(self.period) < self.on
    }
}

/// What people heard, or what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
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
                    let line = ToldLine { way: "w".to_owned(), labels, starts_at, told_at, perhaps: false };
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
            let due = news.get(&alert.labels).map_or(self.now.get() + self.wait, |(due, _)| *due);
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
    written: i64,
    said: u64,
}

/// A hub, with what outlives it.
struct Hub {
    name: &'static str,
    running: Option<Running>,
    /// Since when it stands still.
    frozen: Option<i64>,
    file: Option<Saved>,
    /// The last word of the other one, and when it said that.
    peer_file: Option<(Arc<PeerWord>, i64)>,
    listener: Listener,
    starts: u64,
    /// Since when the node is here, or when it was.
    node: Option<(bool, i64)>,
}

impl Hub {
    fn is_there(&self) -> bool {
        self.running.is_some() && self.frozen.is_none()
    }
}

struct World {
    base: Instant,
    flaps: Vec<Flap>,
    /// The rules of a hub that is started for the first time, and for another time.
    sets: [RuleSet; 2],
    hubs: [Hub; 2],
    /// When the node goes from the first hub to the second, and back.
    moves: Vec<i64>,
    /// The hub that has the node; `None`: it is on its way since then.
    node_at: Result<usize, i64>,
}

const NODE: &str = "n";

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

const START: i64 = 1_000_000;
/// So long after its start a hub has asked the other one.
const ASKED_AFTER: i64 = 300;
/// So long after that it asks again, and then each second; its looks come at another time.
const ASKED_AGAIN_AFTER: i64 = 400;
/// So long a node needs to notice that its hub stands still, and to connect to another one.
const NOTICED_AFTER: i64 = 3_000;
const CONNECTED_AFTER: i64 = 500;
/// For so long the samples of a node that has gone are seen.
const SAMPLES_KEPT: i64 = 60_000;

impl World {
    fn new(course: &Course) -> Self {
        let Course { flaps, wait, moves, files, .. } = course.clone();
        let hub = |name| Hub {
            name,
            running: None,
            frozen: None,
            file: None,
            peer_file: None,
            listener: Listener { wait, ..Listener::default() },
            starts: 0,
            node: None,
        };
        let later = match files {
            Files::Same => rules(&flaps, 0, "g"),
            Files::Shorter => rules(&flaps, 1, "g"),
            Files::Renamed => rules(&flaps, 0, "h"),
        };
        let sets = [rules(&flaps, 0, "g"), later];
        let base = Instant::now() + Duration::from_secs(1_000);
        World { base, flaps, sets, hubs: [hub("x"), hub("y")], moves, node_at: Err(0) }
    }

    fn moment(&self, now: i64) -> Moment {
        Moment { at: self.base + Duration::from_millis((now - START).unsigned_abs()), now, wall: now }
    }

    fn start(&mut self, number: usize, now: i64) {
        let begun = self.moment(now).at;
        let hub = &mut self.hubs[number];
        hub.starts += 1;
        let identity = format!("{}{}", hub.name, hub.starts);
        let (word, known_at) = hub.peer_file.clone().map_or((None, 0), |(word, at)| (Some(word), at));
        let heard = Heard { word, known_at, ..Heard::default() };
        let sharing = Sharing::with(
            (Peers::default(), vec![heard.clone()]),
            hub.name,
            &identity,
            hub.file.as_ref(),
            begun,
        );
        let set = &self.sets[usize::from(hub.starts > 1)];
        let groups = Groups::new(set, Arc::default(), hub.file.as_ref(), now, true);
        let (asks_at, looks_at) = (now + ASKED_AFTER, now + ASKED_AFTER);
        let (word, written, said) = Default::default();
        hub.running = Some(Running { sharing, groups, looks_at, asks_at, heard, word, written, said });
    }

    fn kill(&mut self, number: usize, now: i64) {
        let hub = &mut self.hubs[number];
        hub.running = None;
        // It remembers its nodes over a restart.
        hub.node = hub.node.map(|(is_up, since)| (false, if is_up { now } else { since }));
        hub.listener.news.borrow_mut().clear();
        hub.listener.mentioned.borrow_mut().clear();
    }

    fn freeze(&mut self, number: usize, now: i64) {
        self.hubs[number].frozen = Some(now);
    }

    fn thaw(&mut self, number: usize, now: i64) {
        let hub = &mut self.hubs[number];
        let still = hub.frozen.take().is_some_and(|since| now - since >= 5_000);
        hub.listener.is_held.set(still);
    }

    /// The node goes where it belongs, as far as that hub is there.
    fn move_node(&mut self, now: i64) {
        let preferred = self.moves.iter().filter(|at| START + **at <= now).count() % 2;
        let answers = |number: &usize| {
            let hub = &self.hubs[*number];
            hub.running.is_some() && hub.frozen.is_none_or(|since| now - since < NOTICED_AFTER)
        };
        let wanted = [preferred, 1 - preferred].into_iter().find(answers);
        match (self.node_at, wanted) {
            (Ok(at), wanted) if wanted != Some(at) => {
                self.node_at = Err(now);
                self.hubs[at].node = Some((false, now));
            }
            (Err(since), Some(wanted)) if now - since >= CONNECTED_AFTER && self.hubs[wanted].is_there() => {
                self.node_at = Ok(wanted);
                self.hubs[wanted].node = Some((true, now));
            }
            _ => {}
        }
    }

    /// A tenth of a second of both hubs.
    fn step(&mut self, now: i64) {
        self.move_node(now);
        for number in 0..2 {
            let moment = self.moment(now);
            let other = &self.hubs[1 - number];
            let word = other.running.as_ref().filter(|_| other.is_there()).and_then(|other| other.says(now));
            if !self.hubs[number].is_there() {
                continue;
            }
            let Hub { name, running, file, peer_file, listener, node, .. } = &mut self.hubs[number];
            let Some(running) = running else { continue };
            listener.now.set(now);
            listener.tell_due();
            if running.sharing.notice_at(moment) {
                running.groups.begin_again(now);
                running.sharing.begin_again_at(moment.at);
                (running.asks_at, running.looks_at) = (now + ASKED_AFTER, now + ASKED_AFTER);
            }
            if now >= running.asks_at {
                running.ask(word, moment);
                *peer_file = running.heard.word.clone().map(|word| (word, running.heard.known_at));
            }
            if now >= running.looks_at {
                let is_first = running.sharing.looked.is_none();
                running.look(*node, listener, moment);
                if is_first {
                    let ends = running.groups.restored_ends();
                    running.sharing.tell_at(ends, listener, moment);
                }
                running.keep(name, file, listener, now);
            }
            if running.sharing.looked.is_none() {
                continue;
            }
            let gone = running.groups.without_rule_due(now);
            if !gone.is_empty() {
                running.keep(name, file, listener, now);
                running.sharing.tell_at(gone, listener, moment);
            }
            let first = self.flaps.len() - running.groups.all.len();
            for (group, flap) in self.flaps.iter().skip(first).enumerate() {
                if now < running.groups.all[group].due {
                    continue;
                }
                let is_seen = match (flap.is_of_node, *node) {
                    (false, _) => flap.is_on(now),
                    (true, None) => false,
                    (true, Some((true, _))) => flap.is_on(now),
                    (true, Some((false, gone))) => now - gone < SAMPLES_KEPT && flap.is_on(gone),
                };
                let seen = is_seen.then_some((first + group, flap.is_of_node));
                let passed = running.pass(group, seen, now);
                running.keep(name, file, listener, now);
                running.sharing.tell_at(passed.alerts(""), listener, moment);
                running.keep(name, file, listener, now);
            }
        }
    }

    /// What people heard of an alert, and what was done, from both hubs.
    fn heard(&self, name: &str) -> Vec<(i64, What, &'static str)> {
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

impl Running {
    /// What it says to the other hub: nothing, if it has not looked for long.
    fn says(&self, now: i64) -> Option<Arc<PeerWord>> {
        self.word.clone().filter(|_| self.sharing.looked.is_some_and(|looked| now - looked.now < 8_000))
    }

    /// Asks the other hub, which says this; it may not be there.
    fn ask(&mut self, word: Option<Arc<PeerWord>>, moment: Moment) {
        // Of a hub that has just begun, the first answer is waited for; later ones come at other times than its looks.
        let is_first = self.heard.asked.is_none_or(|asked| asked < self.sharing.begun);
        self.asks_at = moment.now + if is_first { ASKED_AGAIN_AFTER } else { 1_000 };
        self.heard.asked = Some(moment.at);
        if word.is_some() {
            self.heard = Heard { word, answered: Some(moment.at), known_at: moment.now, ..self.heard };
        }
    }

    fn look(&mut self, node: Option<(bool, i64)>, listener: &Listener, moment: Moment) {
        self.looks_at = moment.now + 1_000;
        self.sharing.heard = vec![self.heard.clone()];
        let nodes: Vec<_> = node.iter().map(|(is_up, _)| (NodeName::new(NODE).unwrap(), *is_up)).collect();
        let adopted = self.sharing.look_at(&nodes, &mut self.groups, listener, &Numbers::default(), moment);
        adopted.iter().for_each(|passed| self.groups.without_rule.heard(&passed.pass.alerts));
    }

    /// Evaluates a group. `seen`: its series of this number is there, and whether it is of the node.
    fn pass(&mut self, group: usize, seen: Option<(usize, bool)>, now: i64) -> Passed {
        let mut memory = Memory::default();
        if let Some((number, is_of_node)) = seen {
            let name = ("__name__", format!("s{number}"));
            let node = is_of_node.then(|| (NODE_LABEL, NODE.to_owned()));
            memory.add(&LabelSet::new([name].into_iter().chain(node)), now, 1.0);
        }
        let judged = &mut self.groups.all[group];
        let was_restored = judged.evaluator.is_restored() && judged.evaluator.size().alerts > 0;
        let (engine, share) = (Engine::new(Limits::default()), self.sharing.rest().clone());
        let mut passing = judged.evaluator.begin(now);
        while passing.next_rule().is_some() {
            judged.evaluator.step(&mut passing, &engine, &memory, &mut || Duration::ZERO, &share);
        }
        let pass = judged.evaluator.finish(passing);
        judged.due = judged.evaluator.next(now);
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
        if self.groups.has_changed() || now - self.written >= 60_000 {
            let mut saved = self.groups.saved();
            (saved.nodes, saved.took_over) = (self.sharing.names(), self.sharing.took_over());
            (*file, self.written) = (Some(saved), now);
        }
        let Some(state) = file.clone() else { return };
        let mut told = listener.told();
        told.extend(self.sharing.handed.iter().map(|(_, line)| line.clone()));
        self.said += 1;
        let tag = format!("{}-{}", self.sharing.identity, self.said);
        self.word = Some(Arc::new(PeerWord::new(name.to_owned(), tag, told, state)));
    }
}

/// When a hub is killed, or begins to stand still, and comes back (ms after the start).
#[derive(Clone, Copy, Debug)]
struct Outage {
    hub: usize,
    from: i64,
    to: i64,
    is_freeze: bool,
}

/// The rule files of a hub that is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Same,
    /// The rule of the first alert is not there any more.
    Shorter,
    /// Each group has another name.
    Renamed,
}

/// A run of both hubs.
#[derive(Clone, Debug)]
struct Course {
    flaps: Vec<Flap>,
    /// So much later one hub is started; before the other one if it is below 0.
    delay: i64,
    outages: Vec<Outage>,
    /// When the node moves.
    moves: Vec<i64>,
    /// For so long a message waits.
    wait: i64,
    length: i64,
    files: Files,
}

/// When an alert that fires once begins (ms after the start).
const FIRES_AT: i64 = 40_000;

impl Course {
    /// One of an alert that fires once, as long as it is on. `wait` is the number of a wait.
    fn of_one(flap: Flap, outages: Vec<Outage>, wait: usize) -> Self {
        let flap = Flap { period: 10_000_000, phase: START + FIRES_AT, ..flap };
        let (moves, wait) = (Vec::new(), [0, 2_000, 10_000][wait]);
        Course { flaps: vec![flap], delay: 1_000, outages, moves, wait, length: 0, files: Files::Same }
    }
}

/// Runs both hubs for a time.
fn run(course: &Course) -> World {
    let mut world = World::new(course);
    let first = usize::from(course.delay < 0);
    for at in (0..course.length).step_by(100) {
        let now = START + at;
        if at == 0 {
            world.start(first, now);
        }
        if at == course.delay.abs() / 100 * 100 {
            world.start(1 - first, now);
        }
        for outage in &course.outages {
            match outage.is_freeze {
                true if at == outage.from => world.freeze(outage.hub, now),
                true if at == outage.to => world.thaw(outage.hub, now),
                false if at == outage.from => world.kill(outage.hub, now),
                false if at == outage.to => world.start(outage.hub, now),
                _ => {}
            }
        }
        world.step(now);
    }
    world
}

/// The times in which an alert fires, by what is the case: from its evaluation on, and up to the one that finds it over.
fn firings(flap: &Flap, length: i64) -> Vec<(i64, i64)> {
    let first = (START - flap.phase).div_euclid(flap.period);
    (first..)
        .map(|number| number * flap.period + flap.phase - START)
        .map(|on| (on + flap.hold, on + flap.on + flap.keep))
        .skip_while(|(from, _)| *from < 25_000)
        .take_while(|(_, to)| to + 25_000 < length)
        .collect()
}

/// For so long around the death of a hub, and its return, what is told may be told twice or later.
const DISTURBED: i64 = 13_000;

fn check(course: &Course) -> Result<(), TestCaseError> {
    let world = run(course);
    for (number, flap) in course.flaps.iter().enumerate() {
        let heard = world.heard(&format!("a{number}"));
        in_turns(&heard, &course.outages)?;
        for (from, to) in firings(flap, course.length) {
            let (late, slack) = (2 * flap.interval + 2_500 + course.wait, 2 * flap.interval + course.wait);
            let of = |what: What, from: i64, to: i64| {
                heard.iter().filter(|(at, of, _)| *of == what && (from..to).contains(at)).count()
            };
            let is_near = |from: i64, to: i64| {
                course.outages.iter().any(|outage| outage.from + DISTURBED > from && outage.from < to)
            };
            let begun = [What::Fires, What::Acted].map(|what| of(what, from, to + slack));
            let over = of(What::Over, to, from + flap.period);
            let told = || format!("a{number} {flap:?} fires {from}..{to}, {course:?}: {heard:?}");
            if !is_near(from - 1_000, from + late) {
                prop_assert_eq!(begun, [1, 1], "{}", told());
            }
            let was_lost = begun[0] == 0 && over == 0;
            if !is_near(to - 1_000, to + late) && !was_lost {
                prop_assert_eq!(over, 1, "{}", told());
            }
        }
    }
    Ok(())
}

/// What begins ends before it begins again, and what ends has begun, but for what is told around an outage.
fn in_turns(heard: &[(i64, What, &str)], outages: &[Outage]) -> Result<(), TestCaseError> {
    let told = heard.iter().filter(|(_, what, _)| *what != What::Acted);
    let mut before = (0, What::Over);
    for (at, what, _) in told {
        let is_near = outages.iter().any(|outage| outage.from < *at && before.0 < outage.to + 2 * DISTURBED);
        if *what == What::Listed {
            let is_known = before.1 == What::Fires;
            prop_assert!(is_known || is_near, "{at} listed after its end: {outages:?} {heard:?}");
            continue;
        }
        prop_assert!(*what != before.1 || is_near, "{at} {what:?} twice: {outages:?} {heard:?}");
        before = (*at, *what);
    }
    Ok(())
}

fn flap() -> impl Strategy<Value = Flap> {
    let (interval, hold) =
        (prop_oneof![Just(1_000i64), Just(2_000), Just(5_000)], prop_oneof![Just(0i64), Just(3_000)]);
    let (keep, phase) = (prop_oneof![Just(0i64), Just(3_000)], 0i64..30_000);
    (30_000i64..50_000, interval, hold, keep, phase).prop_map(|(period, interval, hold, keep, phase)| {
        let (period, phase) = (period / 1_000 * 1_000, phase / 1_000 * 1_000);
        Flap { period, on: period / 2, interval, hold, keep, phase, is_of_node: false }
    })
}

/// One of the node: slower, since nothing changes for 10 s after the node has come to another hub.
fn flap_of_node() -> impl Strategy<Value = Flap> {
    flap().prop_map(|flap| {
        let period = 2 * flap.period;
        Flap { period, on: period / 2, is_of_node: true, ..flap }
    })
}

/// Outages one after another, of one hub or of both in turn.
fn outages() -> impl Strategy<Value = Vec<Outage>> {
    proptest::collection::vec(outage(), 0..3).prop_map(|all| {
        let mut next = 0;
        let placed = all.into_iter().map(|outage| {
            let (from, to) = (next + outage.from, next + outage.to);
            next = to;
            Outage { from, to, ..outage }
        });
        placed.collect()
    })
}

/// The first one, after the start.
fn outage() -> impl Strategy<Value = Outage> {
    let away = prop_oneof![5i64..20, 20i64..150, 150i64..900];
    (0usize..2, 400i64..1_200, away, any::<bool>()).prop_map(|(hub, from, away, is_freeze)| {
        let from = from * 100;
        Outage { hub, from, to: from + away * 100, is_freeze }
    })
}

/// Times at which the node moves: between two of them, hubs have time to see that something is over.
fn moves() -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(300i64..700, 1..6).prop_map(|gaps| {
        let mut at = 30_000;
        let next = |gap: i64| {
            at += gap * 100;
            at
        };
        gaps.into_iter().map(next).collect()
    })
}

/// An alert that begins to fire once, and is over once, while both hubs go down.
fn both_down() -> impl Strategy<Value = Course> {
    let (back, later) = (10i64..900, 50i64..1_500);
    let kills = (0i64..30, any::<bool>(), any::<bool>());
    let over = prop_oneof![50i64..100, 100i64..1_500];
    (flap(), any::<bool>(), kills, (0usize..2, back, later), over, 0usize..3).prop_map(
        |(flap, is_of_node, (apart, swap, returns), (hub, back, later), over, wait)| {
            let down = 80_000;
            let (first, second) = (down, down + apart * 100);
            let (first, second) = if swap { (second, first) } else { (first, second) };
            let back = first.max(second) + back * 100;
            let outage = |hub, from, to| Outage { hub, from, to, is_freeze: false };
            let other = if returns { back + later * 100 } else { i64::MAX };
            let outages = vec![outage(hub, first, back), outage(1 - hub, second, other)];
            let over = first.max(second) + over * 100;
            let flap = Flap { on: over - FIRES_AT, is_of_node, ..flap };
            Course { length: 420_000, ..Course::of_one(flap, outages, wait) }
        },
    )
}

/// An alert that fires, and hubs that are started again one after the other with files that do not have its rule.
fn rolling() -> impl Strategy<Value = Course> {
    (flap(), any::<bool>(), (1i64..300, 50i64..600, 1i64..300), 0usize..2, 0usize..3).prop_map(
        |(flap, is_of_node, (one, gap, other), hub, wait)| {
            let outage = |hub, from, to| Outage { hub, from, to, is_freeze: false };
            let back = 80_000 + one * 100;
            let next = back + gap * 100;
            let outages = vec![outage(hub, 80_000, back), outage(1 - hub, next, next + other * 100)];
            let flap = Flap { on: 9_000_000, is_of_node, ..flap };
            let course = Course::of_one(flap, outages, wait);
            Course { length: 300_000, files: Files::Shorter, ..course }
        },
    )
}

/// An alert that ends about when its node goes to another hub, and back, and others of no node that come and go all the time.
fn ends_on_the_way() -> impl Strategy<Value = Course> {
    let chatter = (60i64..120, 0i64..30).prop_map(|(period, phase)| {
        let (period, phase) = (period * 100, phase * 100);
        let (interval, hold, keep, is_of_node) = (500, 0, 0, false);
        Flap { period, on: period / 2, interval, hold, keep, phase, is_of_node }
    });
    let chatter = proptest::collection::vec(chatter, 1..4);
    (chatter, -40i64..50, any::<bool>(), any::<bool>(), 0i64..3).prop_map(
        |(chatter, end, returns, swap, wait)| {
            let moves = if returns { vec![60_000, 100_000] } else { vec![60_000] };
            let on = moves[moves.len() - 1] + end * 100 - FIRES_AT;
            let (period, phase) = (10_000_000, START + FIRES_AT);
            let (interval, hold, keep, is_of_node) = (500, 0, 0, true);
            let flap = Flap { period, on, interval, hold, keep, phase, is_of_node };
            let flaps = [flap].into_iter().chain(chatter).collect();
            let (delay, wait, length) = (if swap { -1_000 } else { 1_000 }, wait * 1_000, 125_000);
            Course { flaps, delay, outages: Vec::new(), moves, wait, length, files: Files::Same }
        },
    )
}

/// That it began, was acted on, and is over was each told once.
fn once(course: &Course) -> Result<(), TestCaseError> {
    let heard = run(course).heard("a0");
    for what in [What::Fires, What::Acted, What::Over] {
        let times = heard.iter().filter(|(_, of, _)| *of == what).count();
        prop_assert_eq!(times, 1, "{:?} {:?}: {:?}", what, course, heard);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_firing_of_an_alert_of_no_node_is_told_once_and_so_is_its_end(
        flaps in proptest::collection::vec(flap(), 1..4),
        delay in -30i64..30,
        outages in outages(),
        wait in prop_oneof![Just(0i64), Just(1_000), Just(3_000)],
    ) {
        let end = outages.last().map_or(60_000, |outage| outage.to);
        let (delay, length) = (delay * 100, end + 140_000);
        check(&Course { flaps, delay, outages, moves: Vec::new(), wait, length, files: Files::Same })?;
    }

    #[test]
    fn each_firing_of_a_node_that_moves_between_hubs_is_told_once_and_so_is_its_end(
        flaps in proptest::collection::vec(flap_of_node(), 1..4),
        moves in moves(),
        wait in prop_oneof![Just(0i64), Just(1_000), Just(2_000), Just(5_000)],
    ) {
        let length = moves.last().map_or(60_000, |last| last + 140_000);
        check(&Course { flaps, delay: 1_000, outages: Vec::new(), moves, wait, length, files: Files::Same })?;
    }

    #[test]
    fn no_message_names_an_alert_as_firing_whose_end_another_hub_has_told(course in ends_on_the_way()) {
        let heard = run(&course).heard("a0");
        in_turns(&heard, &[]).map_err(|error| TestCaseError::fail(format!("{error}: {course:?}")))?;
        let over = heard.iter().filter(|(_, what, _)| *what == What::Over).count();
        prop_assert_eq!(over, 1, "{:?}: {:?}", course, heard);
    }

    #[test]
    fn an_alert_that_fires_while_both_hubs_go_down_is_told_once_and_so_is_its_end(course in both_down()) {
        once(&course)?;
    }

    #[test]
    fn the_end_of_an_alert_whose_rule_is_removed_at_one_hub_after_the_other_is_told_once(course in rolling()) {
        once(&course)?;
    }

    #[test]
    fn an_alert_whose_group_gets_another_name_at_one_hub_after_the_other_goes_on(course in rolling()) {
        let heard = run(&Course { files: Files::Renamed, ..course.clone() }).heard("a0");
        let whats: Vec<What> = heard.iter().map(|(_, what, _)| *what).collect();
        prop_assert!(whats.len() == 2 && !whats.contains(&What::Over), "{:?}: {:?}", course, heard);
    }
}
