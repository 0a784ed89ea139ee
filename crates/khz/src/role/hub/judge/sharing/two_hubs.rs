//! Two hubs with the same rules, for minutes of a clock of its own: alerts of no node come and go, a hub is killed and comes back, and
//! what people hear is compared with what was the case. Everything is the real thing but the evaluation's source, the way between the
//! hubs, and those who are told.

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
}

/// Those outside, for one hub: they are told at once.
#[derive(Default)]
struct Listener {
    now: Cell<i64>,
    /// What people know, and what was acted on: files of the hub, which outlive it.
    told: RefCell<BTreeMap<Labels, ToldLine>>,
    done: RefCell<HashSet<(Labels, i64)>>,
    heard: RefCell<Vec<(i64, String, What)>>,
}

impl Listener {
    fn hears(&self, alert: &Alert, what: What) {
        self.heard.borrow_mut().push((self.now.get(), alert.name().to_owned(), what));
    }
}

impl Outside for Listener {
    fn tell(&self, alerts: &[Alert]) {
        for alert in alerts {
            let is_known = self.told.borrow().contains_key(&alert.labels);
            match (alert.is_firing(), is_known) {
                (true, false) => {
                    let (labels, starts_at, told_at) =
                        (alert.labels.clone(), alert.starts_at, self.now.get());
                    let line = ToldLine { way: "w".to_owned(), labels, starts_at, told_at, perhaps: false };
                    self.told.borrow_mut().insert(alert.labels.clone(), line);
                    self.hears(alert, What::Fires);
                }
                (false, true) => {
                    self.told.borrow_mut().remove(&alert.labels);
                    self.hears(alert, What::Over);
                }
                _ => {}
            }
        }
    }

    fn adopt(&self, lines: Vec<ToldLine>) {
        self.told.borrow_mut().extend(lines.into_iter().map(|line| (line.labels.clone(), line)));
    }

    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool) {
        self.told.borrow_mut().retain(|labels, _| !is_meant(labels));
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
    word: Option<Arc<PeerWord>>,
    written: i64,
    said: u64,
}

/// A hub, with what outlives it.
struct Hub {
    name: &'static str,
    running: Option<Running>,
    file: Option<Saved>,
    listener: Listener,
    starts: u64,
}

struct World {
    base: Instant,
    flaps: Vec<Flap>,
    set: RuleSet,
    hubs: [Hub; 2],
}

fn rules(flaps: &[Flap]) -> RuleSet {
    let group = |(number, flap): (usize, &Flap)| {
        let (interval, hold, keep) = (flap.interval, flap.hold, flap.keep);
        format!(
            "- {{name: g{number}, interval: {interval}ms, rules: [{{alert: a{number}, expr: s{number}, for: {hold}ms, keep_firing_for: {keep}ms}}]}}\n"
        )
    };
    let text: String = flaps.iter().enumerate().map(group).collect();
    RuleSet::parse(Path::new("a.yml"), format!("groups:\n{text}").as_bytes()).unwrap()
}

const START: i64 = 1_000_000;
/// So long after its start a hub has asked the other one.
const ASKED_AFTER: i64 = 300;

impl World {
    fn new(flaps: Vec<Flap>) -> Self {
        let hub = |name| Hub { name, running: None, file: None, listener: Listener::default(), starts: 0 };
        let set = rules(&flaps);
        World { base: Instant::now() + Duration::from_secs(1_000), flaps, set, hubs: [hub("x"), hub("y")] }
    }

    fn moment(&self, now: i64) -> Moment {
        Moment { at: self.base + Duration::from_millis((now - START).unsigned_abs()), now }
    }

    fn start(&mut self, number: usize, now: i64) {
        let begun = self.moment(now).at;
        let hub = &mut self.hubs[number];
        hub.starts += 1;
        let identity = format!("{}{}", hub.name, hub.starts);
        let mut sharing = Sharing::with((Peers::default(), 1), hub.name, &identity, hub.file.as_ref(), begun);
        sharing.heard = vec![Heard::default()];
        let groups = Groups::new(&self.set, Arc::default(), hub.file.as_ref(), now, true);
        let looks_at = now + ASKED_AFTER;
        hub.running = Some(Running { sharing, groups, looks_at, word: None, written: 0, said: 0 });
    }

    fn kill(&mut self, number: usize) {
        self.hubs[number].running = None;
    }

    /// A tenth of a second of both hubs.
    fn step(&mut self, now: i64) {
        for number in 0..2 {
            let moment = self.moment(now);
            let word = self.hubs[1 - number].running.as_ref().and_then(|other| other.word.clone());
            let Hub { name, running, file, listener, .. } = &mut self.hubs[number];
            let Some(running) = running else { continue };
            listener.now.set(now);
            if now >= running.looks_at {
                let is_first = running.sharing.looked.is_none();
                running.look(word, listener, moment);
                if is_first {
                    let ends = running.groups.restored_ends();
                    running.sharing.tell_at(ends, listener, moment.at);
                }
                running.keep(name, file, listener, now);
            }
            if running.sharing.looked.is_none() {
                continue;
            }
            for (group, flap) in self.flaps.iter().enumerate() {
                if now < running.groups.all[group].due {
                    continue;
                }
                let passed = running.pass(group, flap.is_on(now), now);
                running.keep(name, file, listener, now);
                running.sharing.tell_at(passed.alerts(""), listener, moment.at);
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
    fn look(&mut self, word: Option<Arc<PeerWord>>, listener: &Listener, moment: Moment) {
        self.looks_at = moment.now + 1_000;
        let heard = &mut self.sharing.heard[0];
        heard.is_asked = true;
        if let Some(word) = word {
            *heard =
                Heard { word: Some(word), answered: Some(moment.at), known_at: moment.now, is_asked: true };
        }
        self.sharing.look_at(&[], &mut self.groups, listener, &Numbers::default(), moment);
    }

    /// Evaluates a group.
    fn pass(&mut self, group: usize, is_on: bool, now: i64) -> Passed {
        let mut memory = Memory::default();
        if is_on {
            memory.add(&LabelSet::new([("__name__", format!("s{group}"))]), now, 1.0);
        }
        let judged = &mut self.groups.all[group];
        let was_restored = judged.evaluator.is_restored() && judged.evaluator.size().alerts > 0;
        let engine = Engine::new(Limits::default());
        let pass = judged.evaluator.evaluate(&engine, &memory, now, &mut || Duration::ZERO);
        judged.due = judged.evaluator.next(now);
        let passed = Passed {
            number: group,
            name: String::new(),
            group: judged.evaluator.group().clone(),
            pass,
            is_whole: true,
        };
        self.groups.has_changed |= was_restored;
        self.groups.ended(&passed, &|_: RuleId| None);
        passed
    }

    /// Writes the file if an alert has changed or it is old, and says it to the other hub.
    fn keep(&mut self, name: &str, file: &mut Option<Saved>, listener: &Listener, now: i64) {
        if self.groups.has_changed() || now - self.written >= 60_000 {
            let mut saved = self.groups.saved();
            saved.took_over = self.sharing.took_over();
            (*file, self.written) = (Some(saved), now);
        }
        let Some(state) = file.clone() else { return };
        let told = listener.told.borrow().values().cloned().collect();
        self.said += 1;
        self.word = Some(Arc::new(PeerWord::new(name.to_owned(), self.said.to_string(), told, state)));
    }
}

/// When a hub is killed, and comes back (ms after the start).
#[derive(Clone, Copy, Debug)]
struct Outage {
    hub: usize,
    from: i64,
    to: i64,
}

/// Runs both hubs for a time.
fn run(flaps: Vec<Flap>, delay: i64, outages: &[Outage], length: i64) -> World {
    let mut world = World::new(flaps);
    let first = usize::from(delay < 0);
    for at in (0..length).step_by(100) {
        let now = START + at;
        if at == 0 {
            world.start(first, now);
        }
        if at == delay.abs() / 100 * 100 {
            world.start(1 - first, now);
        }
        for outage in outages {
            if at == outage.from {
                world.kill(outage.hub);
            }
            if at == outage.to {
                world.start(outage.hub, now);
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

fn check(flaps: &[Flap], delay: i64, outages: &[Outage], length: i64) -> Result<(), TestCaseError> {
    let world = run(flaps.to_vec(), delay, outages, length);
    for (number, flap) in flaps.iter().enumerate() {
        let heard = world.heard(&format!("a{number}"));
        in_turns(&heard, outages)?;
        for (from, to) in firings(flap, length) {
            let (late, slack) = (2 * flap.interval + 2_500, 2 * flap.interval);
            let of = |what: What, from: i64, to: i64| {
                heard.iter().filter(|(at, of, _)| *of == what && (from..to).contains(at)).count()
            };
            let is_near = |from: i64, to: i64| {
                outages.iter().any(|outage| outage.from + DISTURBED > from && outage.from < to)
            };
            let begun = [What::Fires, What::Acted].map(|what| of(what, from, to + slack));
            let over = of(What::Over, to, from + flap.period);
            let told = || {
                format!(
                    "a{number} {flap:?} fires {from}..{to}, outages {outages:?}, delay {delay}: {heard:?}"
                )
            };
            if !is_near(from - 1_000, from + late) {
                prop_assert_eq!(begun, [1, 1], "{}", told());
            }
            let was_lost = begun == [0, 0] && over == 0;
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
        Flap { period, on: period / 2, interval, hold, keep, phase }
    })
}

/// Outages one after another, of one hub or of both in turn.
fn outages() -> impl Strategy<Value = Vec<Outage>> {
    proptest::collection::vec(outage(), 0..3).prop_map(|all| {
        let mut next = 0;
        let placed = all.into_iter().map(|Outage { hub, from, to }| {
            let (from, to) = (next + from, next + to);
            next = to;
            Outage { hub, from, to }
        });
        placed.collect()
    })
}

/// The first one, after the start.
fn outage() -> impl Strategy<Value = Outage> {
    (0usize..2, 400i64..1_200, prop_oneof![5i64..20, 20i64..150, 150i64..900]).prop_map(
        |(hub, from, away)| {
            let from = from * 100;
            Outage { hub, from, to: from + away * 100 }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_firing_of_an_alert_of_no_node_is_told_once_and_so_is_its_end(
        flaps in proptest::collection::vec(flap(), 1..4),
        delay in -30i64..30,
        outages in outages(),
    ) {
        let end = outages.last().map_or(60_000, |outage| outage.to);
        check(&flaps, delay * 100, &outages, end + 140_000)?;
    }
}
