//! Two hubs with the same rules, for minutes of a clock of their own: alerts come and go, nodes move between the hubs, hubs are killed
//! or stand still, and what people hear is compared with what was the case.

use proptest::prelude::*;

use super::*;
use world::{Flap, Node, Of, START, What, World};

mod clocks;
mod world;

/// When a hub is killed, or begins to stand still, and comes back (ms after the start).
#[derive(Clone, Copy, Debug)]
struct Outage {
    hub: usize,
    from: i64,
    to: i64,
    is_freeze: bool,
}

impl Outage {
    /// From when on others do what the hub does not. One that stood still for some seconds evaluates nothing for some more, and nobody
    /// takes over.
    fn disturbs(&self) -> i64 {
        match self.is_freeze && (3_000..10_000).contains(&(self.to - self.from)) {
            true => self.to,
            false => self.from,
        }
    }
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
    nodes: Vec<Node>,
    /// For so long a message waits.
    wait: i64,
    length: i64,
    files: Files,
    /// A group is evaluated so much later than it is due: nodes may move meanwhile.
    late: i64,
}

/// When an alert that fires once begins (ms after the start).
const FIRES_AT: i64 = 40_000;

impl Course {
    /// One of an alert that fires once, as long as it is on. `wait` is the number of a wait.
    fn of_one(flap: Flap, outages: Vec<Outage>, wait: usize) -> Self {
        let flap = Flap { period: 10_000_000, phase: START + FIRES_AT, ..flap };
        let (nodes, wait) = (vec![Node::new(0, Vec::new())], [0, 2_000, 10_000][wait]);
        Course {
            flaps: vec![flap],
            delay: 1_000,
            outages,
            nodes,
            wait,
            length: 0,
            files: Files::Same,
            late: 0,
        }
    }
}

/// Runs both hubs for a time.
fn run(course: &Course) -> World {
    run_while(course, &|_, _| ())
}

/// The same, while somebody does something each time (ms after the start).
fn run_while(course: &Course, does: &dyn Fn(&mut World, i64)) -> World {
    let mut world = World::new(course);
    let first = usize::from(course.delay < 0);
    for at in (0..course.length).step_by(100) {
        let now = START + at;
        does(&mut world, at);
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

/// So much later, beside two evaluations, people may hear that something begins, or is over, while nodes move: a hub to which they
/// go may have to wait before it evaluates, and the one that they leave goes on meanwhile.
const BEGIN_LATE: i64 = 16_000;
const END_LATE: i64 = 18_000;
/// For so long a node that has gone may be on its way.
const ON_ITS_WAY: i64 = 10_000;
/// For so long after a node has come to a hub, only the node changes its alerts.
const MOVED: i64 = 10_000;
/// What a hub told so long before its death may be told again.
const TOLD_AGAIN: i64 = 2_500;

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
                course.outages.iter().any(|outage| outage.disturbs() + DISTURBED > from && outage.from < to)
            };
            let next = from + flap.period - flap.hold;
            let begun = [What::Fires, What::Acted].map(|what| of(what, from, next.min(to + slack)));
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

/// The same of alerts of no node that are seen where a node is, while nodes move: none is told as over while it fires.
fn check_moving(course: &Course, disturbed: i64) -> Result<(), TestCaseError> {
    let world = run(course);
    for (number, flap) in course.flaps.iter().enumerate() {
        let heard = world.heard(&format!("a{number}"));
        for (from, to) in firings(flap, course.length) {
            let last = course.nodes.iter().map(|node| node.back_after).max().unwrap_or_default();
            let (begin_late, end_late) = (BEGIN_LATE, END_LATE + flap.interval + last);
            let [begin_late, end_late] =
                [begin_late, end_late].map(|late| late + 2 * flap.interval + course.wait);
            let of = |what: What, from: i64, to: i64| {
                heard.iter().filter(|(at, of, _)| *of == what && (from..to).contains(at)).count()
            };
            let is_near = |from: i64, to: i64| {
                let end = |outage: &Outage| outage.disturbs() + disturbed + flap.interval;
                course.outages.iter().any(|outage| end(outage) > from && outage.from < to)
            };
            let told = || format!("a{number} {flap:?} fires {from}..{to}, {course:?}: {heard:?}");
            if to + end_late + TOLD_AGAIN > course.length {
                continue;
            }
            prop_assert_eq!(of(What::Over, from + end_late, to), 0, "over while it fires: {}", told());
            let begun = [What::Fires, What::Acted].map(|what| of(what, from, to + end_late));
            if !is_near(from - 1_000, from + begin_late + TOLD_AGAIN) {
                prop_assert_eq!(begun, [1, 1], "{}", told());
            }
            // What waits may begin to wait again when its hub is killed.
            let begins_late = disturbed + 2 * flap.interval + flap.hold;
            let is_short = |outage: &Outage| outage.from < to && to - outage.to < begins_late;
            let may_be_unheard = flap.hold > 0 && course.outages.iter().any(is_short);
            prop_assert!(begun[0] > 0 || may_be_unheard, "nobody hears that it begins: {}", told());
            let over = of(What::Over, to, to + end_late);
            if !is_near(to - 1_000, to + end_late + TOLD_AGAIN) {
                prop_assert_eq!(
                    (over, of(What::Over, to, from + flap.period)),
                    (1, 1),
                    "its end: {}",
                    told()
                );
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
        Flap { period, on: period / 2, interval, hold, keep, phase, of: Of::Nothing }
    })
}

/// How much later than it is due a group is evaluated.
fn late() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0i64), Just(100), Just(400)]
}

/// Of the node, or of nothing.
fn of() -> impl Strategy<Value = Of> {
    prop_oneof![Just(Of::Node), Just(Of::Nothing)]
}

/// One of the node: slower, since nothing changes for 10 s after the node has come to another hub.
fn flap_of_node() -> impl Strategy<Value = Flap> {
    flap().prop_map(|flap| {
        let period = 2 * flap.period;
        Flap { period, on: period / 2, of: Of::Node, ..flap }
    })
}

/// One of no node that is seen where a node is.
fn flap_of_any() -> impl Strategy<Value = Flap> {
    let interval = prop_oneof![Just(1_000i64), Just(5_000), Just(15_000)];
    let (on, off) = (60_000i64..200_000, 90_000i64..130_000);
    (flap(), interval, on, off).prop_map(|(flap, interval, on, off)| {
        let (on, period) = (on / 1_000 * 1_000, (on + off) / 1_000 * 1_000);
        Flap { period, on, interval, of: Of::AnyNode, ..flap }
    })
}

/// Nodes that go back to their hub some time after it is there again.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (prop::bool::weighted(0.2), 0i64..200).prop_map(|(is_second, back_after)| Node {
        back_after: back_after * 100,
        ..Node::new(usize::from(is_second), Vec::new())
    });
    proptest::collection::vec(node, 1..5)
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
    (flap(), of(), kills, (0usize..2, back, later), over, 0usize..3).prop_map(
        |(flap, of, (apart, swap, returns), (hub, back, later), over, wait)| {
            let down = 80_000;
            let (first, second) = (down, down + apart * 100);
            let (first, second) = if swap { (second, first) } else { (first, second) };
            let back = first.max(second) + back * 100;
            let outage = |hub, from, to| Outage { hub, from, to, is_freeze: false };
            let other = if returns { back + later * 100 } else { i64::MAX };
            let outages = vec![outage(hub, first, back), outage(1 - hub, second, other)];
            let over = first.max(second) + over * 100;
            let flap = Flap { on: over - FIRES_AT, of, ..flap };
            Course { length: 420_000, ..Course::of_one(flap, outages, wait) }
        },
    )
}

/// The same of an alert that is seen where nodes are: they go to the hub that is started later, and both hubs go down some time after
/// that, once or twice.
fn both_down_after_moves() -> impl Strategy<Value = Course> {
    let kills = || (0i64..30, 0usize..2, 0usize..2, 10i64..900, 0i64..300);
    let over = prop_oneof![50i64..100, 100i64..1_500];
    (flap(), nodes(), -900i64..900, 800i64..1_600, kills(), (any::<bool>(), kills()), over, 0usize..3)
        .prop_map(|(flap, nodes, delay, down, one, (is_twice, two), over, wait)| {
            let mut outages = Vec::new();
            // Each has heard of the other.
            let mut down = down * 100 + delay.abs() * 100;
            for (apart, dies, returns, back, later) in
                [Some(one), is_twice.then_some(two)].into_iter().flatten()
            {
                let second = down + apart * 100;
                let back = second + back * 100;
                let later = back + later * 100;
                for hub in 0..2 {
                    let from = if hub == dies { down } else { second };
                    let to = if hub == returns { back } else { later };
                    outages.push(Outage { hub, from, to, is_freeze: false });
                }
                down = later + 60_000;
            }
            let last = outages.iter().map(|outage| outage.from).max().unwrap_or_default();
            let flap = Flap { on: last + over * 100 - FIRES_AT, of: Of::AnyNode, ..flap };
            let course = Course::of_one(flap, outages, wait);
            Course { nodes, delay: delay * 100, length: last + 420_000, ..course }
        })
}

/// An alert that fires, and hubs that are started again one after the other with files that do not have its rule.
fn rolling() -> impl Strategy<Value = Course> {
    (flap(), of(), (1i64..300, 50i64..600, 1i64..300), 0usize..2, 0usize..3).prop_map(
        |(flap, of, (one, gap, other), hub, wait)| {
            let outage = |hub, from, to| Outage { hub, from, to, is_freeze: false };
            let back = 80_000 + one * 100;
            let next = back + gap * 100;
            let outages = vec![outage(hub, 80_000, back), outage(1 - hub, next, next + other * 100)];
            let flap = Flap { on: 9_000_000, of, ..flap };
            let course = Course::of_one(flap, outages, wait);
            Course { length: 300_000, files: Files::Shorter, ..course }
        },
    )
}

/// An alert that ends about when its node goes to another hub, and back, and others of no node that come and go all the time.
fn ends_on_the_way() -> impl Strategy<Value = Course> {
    let chatter = (60i64..120, 0i64..30).prop_map(|(period, phase)| {
        let (period, phase) = (period * 100, phase * 100);
        let (interval, hold, keep, of) = (500, 0, 0, Of::Nothing);
        Flap { period, on: period / 2, interval, hold, keep, phase, of }
    });
    let chatter = proptest::collection::vec(chatter, 1..4);
    (chatter, -40i64..50, any::<bool>(), any::<bool>(), 0i64..3).prop_map(
        |(chatter, end, returns, swap, wait)| {
            let moves = if returns { vec![60_000, 100_000] } else { vec![60_000] };
            let on = moves[moves.len() - 1] + end * 100 - FIRES_AT;
            let (period, phase) = (10_000_000, START + FIRES_AT);
            let (interval, hold, keep, of) = (500, 0, 0, Of::Node);
            let flap = Flap { period, on, interval, hold, keep, phase, of };
            let flaps = [flap].into_iter().chain(chatter).collect();
            let (delay, wait, length) = (if swap { -1_000 } else { 1_000 }, wait * 1_000, 125_000);
            let nodes = vec![Node::new(0, moves)];
            Course { flaps, delay, outages: Vec::new(), nodes, wait, length, files: Files::Same, late: 0 }
        },
    )
}

/// An alert of no node that is true all the time, as two hubs see it that are above one hub: they are killed and stopped for any
/// length, one after the other or together.
fn above_one_hub() -> impl Strategy<Value = Course> {
    let length = || prop_oneof![5i64..50, 50i64..200, 200i64..400, 400i64..900];
    let (apart, gap) = (0i64..40, prop_oneof![0i64..60, 60i64..300]);
    let halt = (0usize..2, any::<[bool; 2]>(), length(), length(), (apart, gap));
    let node = (0i64..50).prop_map(|back_after| Node {
        is_below: true,
        back_after: back_after * 100,
        ..Node::new(0, Vec::new())
    });
    let nodes = proptest::collection::vec(node, 1..4);
    let times = (-300i64..300, late());
    let (halts, interval) = (proptest::collection::vec(halt, 1..4), prop_oneof![Just(1_000i64), Just(5_000)]);
    (nodes, halts, times, (interval, any::<bool>()), 0usize..3).prop_map(
        |(nodes, halts, (delay, late), (interval, holds), wait)| {
            let (mut outages, mut next) = (Vec::new(), FIRES_AT + 60_000);
            for (hub, [is_freeze, is_both], one, other, (apart, gap)) in halts {
                let (from, to) = (next, next + one * 100);
                outages.push(Outage { hub, from, to, is_freeze });
                next = to;
                if is_both {
                    let from = from + apart * 100;
                    let to = from + other * 100;
                    outages.push(Outage { hub: 1 - hub, from, to, is_freeze });
                    next = next.max(to);
                }
                next += gap * 100;
            }
            let (on, hold) = (9_000_000, if holds { 3_000 } else { 0 });
            let flap = Flap { period: 0, on, interval, hold, keep: 0, phase: 0, of: Of::AnyNode };
            let course = Course::of_one(flap, outages, wait);
            Course { nodes, delay: delay * 100, late, length: next + 100_000, ..course }
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

/// One of no node that is over at one hub about when it begins at the other one, to and fro.
fn halves() -> impl Strategy<Value = Flap> {
    let interval = prop_oneof![Just(1_000i64), Just(2_000), Just(5_000)];
    (flap(), interval, 10i64..40, -40i64..40).prop_map(|(flap, interval, on, earlier)| {
        let on = on * 1_000;
        Flap { period: 2 * on, on, interval, of: Of::Halves(earlier * 100), ..flap }
    })
}

/// An alert that goes from one hub to the other one, to and fro.
fn to_and_fro(flap: Flap, delay: i64, wait: i64, late: i64) -> Course {
    let (outages, nodes) = (Vec::new(), Vec::new());
    Course { flaps: vec![flap], delay, outages, nodes, wait, length: 400_000, files: Files::Same, late }
}

/// Each firing of which people hear is acted on once, at about that time.
fn acted_on_as_often_as_told(course: &Course) -> Result<(), TestCaseError> {
    let heard = run(course).heard("a0");
    in_turns(&heard, &[]).map_err(|error| TestCaseError::fail(format!("{error}: {course:?}")))?;
    let flap = &course.flaps[0];
    let late = course.wait + flap.hold + 2 * flap.interval + 2_000;
    let times = |what: What| heard.iter().filter(move |(_, of, _)| *of == what).map(|(at, ..)| *at);
    let mut pairs = times(What::Fires).zip(times(What::Acted));
    prop_assert!(pairs.all(|(told, acted)| (told - acted).abs() <= late), "{:?}: {:?}", course, heard);
    let [told, acted] = [What::Fires, What::Acted].map(|what| times(what).count());
    prop_assert!(told.abs_diff(acted) <= 1, "{:?}: {:?}", course, heard);
    Ok(())
}

#[test]
fn an_alert_that_goes_over_before_people_hear_of_it_has_waited_at_the_first_hub() {
    // Each hub has it for 5 s, and takes two of them until it knows that it is to tell people.
    let (period, on, of) = (20_000, 10_000, Of::Halves(2_100));
    let flap = Flap { period, on, interval: 5_000, hold: 3_000, keep: 0, phase: 0, of };
    let course = to_and_fro(flap, 1_000, 3_000, 0);
    acted_on_as_often_as_told(&course).unwrap();
    let heard = run(&course).heard("a0");
    let told = heard.iter().filter(|(_, what, _)| *what == What::Fires).count();
    assert!(told >= 15, "{heard:?}");
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
        let nodes = Vec::new();
        check(&Course { flaps, delay, outages, nodes, wait, length, files: Files::Same, late: 0 })?;
    }

    #[test]
    fn each_firing_of_a_node_that_moves_between_hubs_is_told_once_and_so_is_its_end(
        flaps in proptest::collection::vec(flap_of_node(), 1..4),
        moves in moves(),
        wait in prop_oneof![Just(0i64), Just(1_000), Just(2_000), Just(5_000)],
        late in late(),
    ) {
        let length = moves.last().map_or(60_000, |last| last + 140_000);
        let nodes = vec![Node::new(0, moves)];
        check(&Course { flaps, delay: 1_000, outages: Vec::new(), nodes, wait, length, files: Files::Same, late })?;
    }

    #[test]
    fn each_firing_of_an_alert_of_no_node_over_nodes_that_move_is_told_once_and_so_is_its_end(
        flaps in proptest::collection::vec(flap_of_any(), 1..4),
        delay in -30i64..30,
        nodes in nodes(),
        outages in outages(),
        wait in prop_oneof![Just(0i64), Just(1_000), Just(3_000)],
        late in late(),
    ) {
        let end = outages.last().map_or(60_000, |outage| outage.to);
        let (delay, length) = (delay * 100, end + 400_000);
        check_moving(&Course { flaps, delay, outages, nodes, wait, length, files: Files::Same, late }, DISTURBED)?;
    }

    #[test]
    fn what_two_hubs_see_that_are_above_one_hub_is_told_by_one_of_them(
        flaps in proptest::collection::vec((flap_of_any(), any::<bool>()), 1..4),
        delay in -300i64..300,
        outages in outages(),
        wait in prop_oneof![Just(0i64), Just(3_000)],
        late in late(),
    ) {
        let end = outages.last().map_or(60_000, |outage| outage.to);
        let of = |(flap, is_of_node): (Flap, bool)| Flap { of: if is_of_node { Of::Node } else { Of::AnyNode }, ..flap };
        let flaps = flaps.into_iter().map(of).collect();
        let nodes = vec![Node { is_below: true, ..Node::new(0, Vec::new()) }; 2];
        let (delay, length) = (delay * 100, end + 400_000);
        let course = Course { flaps, delay, outages, nodes, wait, length, files: Files::Same, late };
        check_moving(&course, DISTURBED + MOVED)?;
    }

    #[test]
    fn that_a_node_is_down_is_told_once_whatever_hubs_do(
        flap in flap(),
        dies in 400i64..1_200,
        others in nodes(),
        outages in outages(),
        wait in prop_oneof![Just(0i64), Just(3_000)],
    ) {
        let end = outages.last().map_or(60_000, |outage| outage.to).max(dies * 100);
        let flap = Flap { of: Of::NodeDown, ..flap };
        let nodes: Vec<Node> = others.into_iter().enumerate().map(|(number, node)| Node {
            dies: (number == 0).then_some(dies * 100),
            ..node
        }).collect();
        let course = Course { flaps: vec![flap], delay: 1_000, outages, nodes, wait, length: end + 200_000, files: Files::Same, late: 0 };
        let heard = run(&course).heard("a0");
        let fires = heard.iter().filter(|(_, what, _)| *what == What::Fires).count();
        // Its hub may die before others know that the node was there, or that it is down.
        let known = dies * 100 + ON_ITS_WAY + flap.hold + 2 * flap.interval + wait + TOLD_AGAIN;
        let is_near = course.outages.iter().any(|outage| {
            outage.from < known + 3_000 && outage.disturbs() + DISTURBED + flap.interval > dies * 100
        });
        prop_assert!(fires == 1 || is_near && fires <= 2, "{:?}: {:?}", course, heard);
        let over = heard.iter().filter(|(_, what, _)| *what == What::Over).count();
        prop_assert_eq!(over, 0, "{:?}: {:?}", course, heard);
    }

    #[test]
    fn a_hub_that_stutters_mutes_nothing(
        flap in flap(),
        hub in 0usize..2,
        halts in 10i64..30,
        wait in prop_oneof![Just(0i64), Just(1_000)],
    ) {
        let flap = Flap { period: 2 * flap.period, on: flap.period, ..flap };
        let halt = |number: i64| {
            let from = 60_000 + number * 10_000;
            Outage { hub, from, to: from + 7_000, is_freeze: true }
        };
        let (outages, end) = ((0..halts).map(halt).collect(), 60_000 + halts * 10_000);
        let (flaps, nodes, length) = (vec![flap], Vec::new(), end + 60_000);
        let course = Course { flaps, delay: 1_000, outages, nodes, wait, length, files: Files::Same, late: 0 };
        let heard = run(&course).heard("a0");
        for (from, to) in firings(&flap, end) {
            // It does not answer for 7 s.
            let late = 2 * flap.interval + 12_500 + wait;
            let of = |what: What, from: i64, to: i64| {
                heard.iter().filter(|(at, of, _)| *of == what && (from..to).contains(at)).count()
            };
            if from > 60_000 + DISTURBED && to + 2 * late < end {
                let told = [of(What::Fires, from, from + late), of(What::Over, to, to + late)];
                prop_assert_eq!(told, [1, 1], "{}..{}: {:?}: {:?}", from, to, course, heard);
                let all = [of(What::Fires, from, from + flap.period), of(What::Over, to, to + flap.period)];
                prop_assert_eq!(all, [1, 1], "{}..{}: {:?}: {:?}", from, to, course, heard);
            }
        }
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
    fn an_alert_that_is_seen_where_nodes_are_goes_on_when_both_hubs_go_down_after_the_nodes_have_moved(
        course in both_down_after_moves(),
    ) {
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

    #[test]
    fn an_alert_that_is_over_at_one_hub_when_it_begins_at_the_other_one_is_acted_on_each_time_that_it_is_told(
        flap in halves(),
        delay in prop_oneof![Just(1_000i64), Just(-1_000)],
        wait in prop_oneof![Just(0i64), Just(1_000), Just(3_000)],
        late in late(),
    ) {
        acted_on_as_often_as_told(&to_and_fro(flap, delay, wait, late))?;
    }

    #[test]
    fn an_alert_that_is_true_all_the_time_is_told_once_above_one_hub(course in above_one_hub()) {
        let heard = run(&course).heard("a0");
        let mut whats: Vec<What> = heard.iter().map(|(_, what, _)| *what).collect();
        whats.sort_by_key(|what| *what == What::Acted);
        prop_assert_eq!(whats, [What::Fires, What::Acted], "{:?}: {:?}", course, heard);
    }
}
