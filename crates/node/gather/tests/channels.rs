//! Channels at an agent on a made-up host: the handler makes the lane's rows, readers get each of them once, and it goes on while
//! interfaces come and readers go.

#![allow(clippy::unwrap_used)]

mod made_up;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_executor::block_on;
use khz_gather::{Agent, CHANNELS_MAX, Handlers, LaneHandle, Plan, WantedBy};
use khz_model::{
    Bell, ChannelName, ChannelTerms, Delivery, Interest, Nanos, NodeName, Pattern, QueryError, Rate, Series,
    Subscription, ValueType,
};
use khz_plan::{
    Combine, Condition, Deadband, Effect, Form, Handler, Matching, Operator, Over, Selector, Step, StepId,
    Test, Values, When,
};
use made_up::{Place, wait_for};

/// The agent of a host.
fn plan(place: &Place) -> Plan {
    let mut plan = Plan::new(place.0.join("host"), NodeName::new("n1").unwrap());
    plan.sources.iter_mut().for_each(|source| source.budget = Some(1.0));
    plan
}

fn received() -> Selector {
    let name = "node_network_receive_bytes_total".to_owned();
    Selector {
        form: Form::Exposed,
        conditions: vec![Condition { label: "__name__".into(), test: Test::Is(name) }],
    }
}

/// `node_network_receive_bytes_total > bound`
fn above(bound: f64) -> khz_plan::Plan {
    let (operator, left, right) = (Operator::Greater, StepId(0), StepId(1));
    let combine = Combine { operator, is_bool: false, matching: Matching::default(), left, right };
    khz_plan::Plan::new(vec![Step::Series(received()), Step::Number(bound), Step::Combine(combine)]).unwrap()
}

fn highest() -> khz_plan::Plan {
    let step = Step::Window { selector: received(), length: Nanos::from_secs(300), over: Over::Max };
    khz_plan::Plan::new(vec![step]).unwrap()
}

fn terms(name: &str, handler: &Handler) -> Arc<ChannelTerms> {
    let name = ChannelName::new(name).unwrap();
    Arc::new(ChannelTerms { name, handler: handler.to_bytes().unwrap().into() })
}

fn interest(pattern: &str, hz: u64, channel: Arc<ChannelTerms>) -> Interest {
    let patterns = vec![Pattern::new(pattern).unwrap()];
    Interest { channel: Some(channel), ..Interest::new(patterns, Rate::from_hz(hz).unwrap(), true) }
}

fn subscribe(agent: &Agent, pattern: &str, channel: Arc<ChannelTerms>) -> Box<dyn Subscription> {
    agent.query().subscribe(interest(pattern, 100, channel)).unwrap()
}

fn follow(agent: &Agent, pattern: &str, channel: &Arc<ChannelTerms>) -> Result<LaneHandle, QueryError> {
    let patterns = [Pattern::new(pattern).unwrap()];
    let rate = Rate::from_hz(100).unwrap();
    agent.shared_lanes().follow_channel(&patterns, rate, true, channel, WantedBy::Readers)
}

/// The largest value of five minutes of one of khz's own metrics.
fn highest_of(metric: &str) -> Handler {
    let conditions = vec![Condition { label: "__name__".into(), test: Test::Is(metric.into()) }];
    let selector = Selector { form: Form::Own, conditions };
    let step = Step::Window { selector, length: Nanos::from_secs(300), over: Over::Max };
    Handler { values: Values::Plan(khz_plan::Plan::new(vec![step]).unwrap()), ..Handler::default() }
}

/// Follows channels with large windows until there is no memory for another: those that are open, and why.
fn fill(agent: &Agent, by: WantedBy) -> (Vec<LaneHandle>, QueryError) {
    let mut open = Vec::new();
    for n in 0.. {
        match follow_large(agent, &format!("large{n}"), by) {
            Ok(lane) => open.push(lane),
            Err(error) => return (open, error),
        }
    }
    unreachable!("memory has no end")
}

/// Windows of five minutes at 400 Hz.
fn follow_large(agent: &Agent, name: &str, by: WantedBy) -> Result<LaneHandle, QueryError> {
    let patterns = [Pattern::new("*").unwrap()];
    let rate = Rate::from_hz(400).unwrap();
    agent.shared_lanes().follow_channel(&patterns, rate, true, &terms(name, &highest_of("load.1m")), by)
}

/// The values of the newest row of what came, by their series; none is lost.
fn newest(deliveries: Vec<Delivery>) -> Option<Vec<(String, Option<f64>)>> {
    assert!(deliveries.iter().all(|delivery| delivery.lost == 0));
    let last = deliveries.into_iter().rfind(|delivery| !delivery.rows.is_empty())?;
    let row = last.rows.last()?;
    let value = |(series, reading): (&Series, &khz_model::Reading)| {
        let number = reading.value().and_then(|bits| series.metric.format().number(bits));
        (series.to_string(), number.map(khz_model::Number::to_f64))
    };
    Some(last.columns.iter().zip(&row.readings).map(value).collect())
}

#[test]
fn results_are_series_of_the_channel_and_go_on_when_interfaces_come() {
    let place = Place::new("results");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("high", &handler));
    let of_eth0 = |value| ("channel.high[device=eth0]".to_owned(), Some(value));
    let first = wait_for("a row", || newest(rows.poll()));
    assert_eq!(first, [of_eth0(70.0)]);
    place.show([("eth0", 50), ("eth1", 9)]);
    let of_eth1 = ("channel.high[device=eth1]".to_owned(), Some(9.0));
    let both = wait_for("the second interface", || newest(rows.poll()).filter(|row| row.len() == 2));
    // What was the highest before is so still.
    assert_eq!(both, [of_eth0(70.0), of_eth1]);
    agent.stop();
}

#[test]
fn a_row_of_a_channel_rings_once_it_can_be_polled_and_readings_do_not() {
    let place = Place::new("bell");
    place.show([("eth0", 1)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(above(100.0)), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("above", &handler));
    let mut plain = agent
        .query()
        .subscribe(Interest { channel: None, ..interest("net.*", 100, terms("above", &handler)) })
        .unwrap();
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = rings.clone();
    let bell: Bell = Arc::new(move || _ = counted.fetch_add(1, Ordering::Release));
    assert!(!plain.ring(&bell), "rows of readings come at known times");
    assert!(rows.ring(&bell));
    let mut came = 0;
    wait_for("rows of readings", || {
        came += plain.poll().iter().map(|of| of.rows.len()).sum::<usize>();
        (came > 3).then_some(())
    });
    assert_eq!(rings.load(Ordering::Acquire), 0, "the condition does not hold");
    place.show([("eth0", 200)]);
    wait_for("a ring", || (rings.load(Ordering::Acquire) > 0).then_some(()));
    assert_eq!(newest(rows.poll()), Some(vec![("channel.above[device=eth0]".to_owned(), Some(200.0))]));
    drop(rows);
    agent.stop();
}

#[test]
fn the_series_of_a_channel_are_known_before_its_first_row() {
    let place = Place::new("first");
    place.show([("eth0", 1)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(above(100.0)), ..Handler::default() };
    let lane = follow(&agent, "*", &terms("above", &handler)).unwrap();
    let schema = || lane.reader().schema_bytes(lane.generation()).unwrap_or(0);
    assert!(schema() > 0, "the hub offers the lane with it");
    place.show([("eth0", 1), ("eth1", 2)]);
    let before = schema();
    wait_for("the second interface", || (schema() > before).then_some(()));
    assert_eq!(lane.reader().head(), 0, "no row was sent so far");
    agent.stop();
}

#[test]
fn rows_of_a_channel_have_numbers_that_go_on() {
    let place = Place::new("numbers");
    place.show([("eth0", 200)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(above(100.0)), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("above", &handler));
    let mut next = None;
    for _ in 0..3 {
        for delivery in wait_for("rows", || Some(rows.poll()).filter(|came| !came.is_empty())) {
            let last = delivery.last.expect("a number");
            let first = last.number + 1 - delivery.rows.len() as u64;
            assert_eq!(
                next.replace((last.epoch, last.number + 1)).unwrap_or((last.epoch, first)),
                (last.epoch, first)
            );
        }
    }
    agent.stop();
}

#[test]
fn means_of_each_series_are_named_after_it() {
    let place = Place::new("means");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let values = Values::Each { over: Over::Avg, length: Nanos::from_secs(1) };
    let channel = terms("mean", &Handler { values, ..Handler::default() });
    let interest = Interest {
        patterns: vec![Pattern::new("net.rx_bytes[*]").unwrap(), Pattern::new("mem.total").unwrap()],
        ..interest("*", 100, channel)
    };
    let mut rows = agent.query().subscribe(interest).unwrap();
    let row = wait_for("a row", || newest(rows.poll()));
    let mut names: Vec<&str> = row.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["channel.mean.mem.total", "channel.mean.net.rx_bytes[eth0]"]);
    assert!(row.contains(&(names[1].to_owned(), Some(70.0))));
    agent.stop();
}

#[test]
fn a_histogram_has_a_series_for_each_bucket_that_was_used_and_goes_on_when_one_comes() {
    let place = Place::new("histogram");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let values = Values::Histogram { length: Nanos::from_secs(300) };
    let mut rows =
        subscribe(&agent, "net.rx_bytes[*]", terms("spread", &Handler { values, ..Handler::default() }));
    let named = |name: &str| format!("channel.spread.net.rx_bytes[{name}]");
    let first = wait_for("a row", || newest(rows.poll()));
    assert_eq!(first.len(), 1);
    assert!(first[0].0 == named("eth0,bucket=64..80") && first[0].1 >= Some(1.0), "{first:?}");
    place.show([("eth0", 100)]);
    let two = wait_for("another bucket", || newest(rows.poll()).filter(|row| row.len() == 2));
    assert_eq!((&two[0].0, &two[1].0), (&named("eth0,bucket=64..80"), &named("eth0,bucket=96..112")));
    assert!(two[0].1 >= first[0].1 && two[1].1 >= Some(1.0), "{two:?}");
    // Another interface: the handler is bound again, and what was counted stays.
    place.show([("eth0", 100), ("eth1", 0)]);
    let three = wait_for("another interface", || newest(rows.poll()).filter(|row| row.len() == 3));
    assert_eq!(three[2].0, named("eth1,bucket=0"));
    assert!(three[0].1 == two[0].1 && three[1].1 >= two[1].1, "{two:?} {three:?}");
    agent.stop();
}

#[test]
fn readings_of_a_condition_come_exact_while_it_holds_and_only_those_that_were_asked_for() {
    let place = Place::new("readings");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let when = When { plan: Some(above(10.0)), ..When::default() };
    let channel = terms("busy", &Handler { when: Some(when), ..Handler::default() });
    let mut rows = subscribe(&agent, "mem.total", channel.clone());
    let lane = follow(&agent, "mem.total", &channel).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(newest(rows.poll()).is_none() && lane.reader().head() == 0, "the condition does not hold");
    place.show([("eth0", 11)]);
    let row = wait_for("a row", || newest(rows.poll()));
    assert_eq!(row.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["mem.total"]);
    let series = lane.series();
    assert!(series.iter().all(|series| series.metric.value_type == ValueType::Unsigned));
    place.show([("eth0", 5)]);
    wait_for("the end of the condition", || {
        let before = lane.reader().head();
        std::thread::sleep(Duration::from_millis(100));
        (before == lane.reader().head()).then_some(())
    });
    agent.stop();
}

#[test]
fn readings_within_a_deadband_stay_what_was_sent() {
    let place = Place::new("deadband");
    place.show([("eth0", 1_000), ("eth1", 1_000)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let deadband = Some(Deadband { absolute: 0.0, relative: 0.1 });
    let channel = terms("band", &Handler { deadband, ..Handler::default() });
    let mut rows = subscribe(&agent, "net.rx_bytes[*]", channel);
    let values = |row: Vec<(String, Option<f64>)>| {
        row.into_iter().map(|(_, value)| value.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(values(wait_for("a row", || newest(rows.poll()))), [1_000.0, 1_000.0]);
    place.show([("eth0", 1_050), ("eth1", 1_050)]);
    std::thread::sleep(Duration::from_millis(200));
    assert!(newest(rows.poll()).is_none(), "both are within it");
    place.show([("eth0", 1_050), ("eth1", 2_000)]);
    assert_eq!(values(wait_for("the second", || newest(rows.poll()))), [1_000.0, 2_000.0]);
    place.show([("eth0", 1_101), ("eth1", 2_100)]);
    assert_eq!(values(wait_for("the first", || newest(rows.poll()))), [1_101.0, 2_000.0]);
    agent.stop();
}

#[test]
fn an_event_brings_the_rows_before_and_after_it() {
    let place = Place::new("surrounds");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let when = Some(When { plan: Some(above(10.0)), ..When::default() });
    let effect = Effect::Surrounds { before: Nanos::from_millis(300), after: Nanos::from_millis(200) };
    let channel = terms("around", &Handler { when, effect, ..Handler::default() });
    let mut rows = subscribe(&agent, "net.rx_bytes[*]", channel);
    std::thread::sleep(Duration::from_millis(600));
    assert!(newest(rows.poll()).is_none(), "nothing has happened");
    let mut came: Vec<(u64, u64)> = Vec::new();
    let mut take = |value: u64| {
        let deliveries = rows.poll();
        assert!(deliveries.iter().all(|delivery| delivery.lost == 0));
        let rows = deliveries.iter().flat_map(|delivery| &delivery.rows);
        came.extend(rows.map(|row| (row.stamp.boot.0, row.readings[0].value().unwrap())));
        (came.last()?.1 == value).then(|| came.clone())
    };
    place.show([("eth0", 50)]);
    wait_for("the event", || take(50));
    place.show([("eth0", 6)]);
    wait_for("what comes after it", || take(6));
    std::thread::sleep(Duration::from_millis(600));
    let rows = take(6).unwrap();
    let values: Vec<u64> = rows.iter().map(|(_, value)| *value).collect();
    let mut runs = values.clone();
    runs.dedup();
    assert_eq!(runs, [5, 50, 6], "what was before, the event, what came after");
    assert!(rows.is_sorted() && rows.windows(2).all(|two| two[0].0 < two[1].0), "each once, in order");
    let of = |value: u64| rows.iter().filter(move |(_, known)| *known == value).map(|(time, _)| *time);
    let (first, event, last) = (rows[0].0, of(50).next().unwrap(), of(50).next_back().unwrap());
    // A tick may be late on a busy machine, but none is sent from outside these times and half a period.
    let half = 5_000_000;
    assert!(event - first <= 300_000_000 + half, "{} ns before", event - first);
    let after = rows.last().unwrap().0 - last;
    assert!(after <= 200_000_000 + half, "{after} ns after");
    assert!(of(5).count() > 1);
    agent.stop();
}

#[test]
fn a_node_gathers_faster_while_something_is_on() {
    let place = Place::new("adaptive");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let when = Some(When { plan: Some(above(10.0)), ..When::default() });
    let channel = terms("pace", &Handler { when, effect: Effect::SlowsDown(20), ..Handler::default() });
    let lane = follow(&agent, "net.rx_bytes[*]", &channel).unwrap();
    let has_period = |ms| (lane.period() == Nanos::from_millis(ms)).then_some(());
    wait_for("the slow pace", || has_period(200));
    let rows = |lane: &LaneHandle| lane.reader().head();
    let before = rows(&lane);
    wait_for("rows at the slow pace", || (rows(&lane) > before).then_some(()));
    place.show([("eth0", 50)]);
    wait_for("the fast pace", || has_period(10));
    place.show([("eth0", 5)]);
    wait_for("the slow pace again", || has_period(200));
    agent.stop();
}

#[test]
fn a_handler_that_has_no_room_for_all_new_series_goes_on_and_never_shows_others_in_their_place() {
    let place = Place::new("no-room");
    place.show([("eth0", 70)]);
    // Slots are given back as soon as their interfaces are gone.
    let agent = Agent::start_with(plan(&place), Nanos(0)).unwrap();
    // Windows of five minutes at 100 Hz: four of them fit into a plan.
    let handler = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("high", &handler));
    let expected = [("channel.high[device=eth0]".to_owned(), Some(70.0))];
    assert_eq!(wait_for("a row", || newest(rows.poll())), expected);
    let names: Vec<String> = (1..=90).map(|n| format!("veth{n}")).collect();
    let others = |from: usize| names[from..].iter().map(|name| (name.as_str(), 5_000u64));
    place.show([("eth0", 70)].into_iter().chain(others(0)));
    let base = &agent.lanes()[0];
    wait_for("the slots of the others", || (base.series().len() > 600).then_some(()));
    rows.poll();
    let row = wait_for("a row of four", || newest(rows.poll()).filter(|row| row.len() == 4));
    assert_eq!(row[..1], expected, "it has what it had");
    let generation = base.generation();
    place.show(others(84));
    wait_for("other slots", || (base.generation() > generation).then_some(()));
    // Its slots mean other series now: each has its own value under its own name.
    let is_right = |(name, value): &(String, Option<f64>)| {
        let own = if name == "channel.high[device=eth0]" { 70.0 } else { 5_000.0 };
        value.is_none_or(|value| value == own)
    };
    let is_new = |row: &Vec<(String, Option<f64>)>| row.iter().all(|(name, _)| !name.contains("=eth0"));
    wait_for("a row of the others", || {
        newest(rows.poll()).inspect(|row| assert!(row.iter().all(is_right), "{row:?}")).filter(is_new)
    });
    agent.stop();
}

#[test]
fn a_channel_sends_the_series_for_which_there_is_memory_and_names_the_others() {
    let place = Place::new("part");
    let names: Vec<String> = (0..7).map(|n| format!("eth{n}")).collect();
    place.show(names.iter().map(|name| (name.as_str(), 70)));
    let agent = Agent::start(plan(&place)).unwrap();
    // Windows of five minutes at 100 Hz: four of them fit into a plan.
    let handler = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("part", &handler));
    let row = wait_for("a row", || newest(rows.poll()));
    let has: Vec<&str> = row.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(has, (0..4).map(|n| format!("channel.part[device=eth{n}]")).collect::<Vec<_>>());
    let notice = rows.notices().pop().expect("it says so").text;
    assert!(notice.starts_with("sends 4 of 7 series, without net.rx_bytes[eth4], "), "{notice}");
    assert!(rows.notices().is_empty(), "once");
    // A sum of some of them would be another number.
    let aggregate = Step::Aggregate(khz_plan::Aggregate {
        aggregator: khz_plan::Aggregator::Sum,
        grouping: khz_plan::Grouping::default(),
        of: StepId(0),
    });
    let window = Step::Window { selector: received(), length: Nanos::from_secs(300), over: Over::Max };
    let sum = khz_plan::Plan::new(vec![window, aggregate]).unwrap();
    let sum = terms("sum", &Handler { values: Values::Plan(sum), ..Handler::default() });
    let refused = follow(&agent, "*", &sum).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("windows of 4MiB"), "{refused}");
    agent.stop();
}

#[test]
fn a_channel_of_other_nodes_has_no_row_of_this_one_whatever_it_computes() {
    let place = Place::new("other");
    place.show([("eth0", 70)]);
    let rate_max = Rate::from_hz(100).unwrap();
    let agent = Agent::start(Plan { rate_max, ..plan(&place) }).unwrap();
    let planned = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let each = Values::Each { length: Nanos::from_secs(1), over: Over::Max };
    let each = Handler { values: each, ..Handler::default() };
    let handlers = [("plan", &planned), ("each", &each), ("raw", &Handler::default())];
    for (name, handler) in handlers {
        let mut other = subscribe(&agent, "other:*", terms(name, handler));
        let mut ours = subscribe(&agent, "n[1-3]:net.*", terms(name, handler));
        assert!(other.ring(&(Arc::new(|| {}) as Bell)));
        for _ in 0..3 {
            wait_for("a row of the node that is named", || newest(ours.poll()));
            assert!(other.poll().is_empty() && other.notices().is_empty(), "{name}");
        }
        let too_fast = interest("other:*", 200, terms(name, handler));
        assert!(matches!(agent.query().subscribe(too_fast), Err(QueryError::AboveCeiling { .. })));
    }
    agent.stop();
}

#[test]
fn a_channel_that_is_too_large_for_a_plan_hears_of_the_memory_of_all_while_that_is_what_lacks() {
    let place = Place::new("stuck");
    let names: Vec<String> = (0..7).map(|n| format!("eth{n}")).collect();
    place.show(names.iter().map(|name| (name.as_str(), 70)));
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(highest()), ..Handler::default() };
    // Each takes as much as a plan may have, four of seven series, until there is memory for fewer, and then for none.
    let mut open = Vec::new();
    let refusal = loop {
        match follow(&agent, "*", &terms(&format!("wide{}", open.len()), &handler)) {
            Ok(lane) => open.push(lane),
            Err(error) => break error,
        }
    };
    assert!(
        refusal.is_for_now() && refusal.to_string().contains("that readers follow may hold"),
        "{refusal}"
    );
    let lacks = |lane: &LaneHandle| lane.ring_of().lacks().to_string();
    assert!(lacks(&open[0]).contains("windows of 4MiB"), "{}", lacks(&open[0]));
    let last = open.pop().unwrap();
    assert!(lacks(&last).contains("that readers follow may hold"), "{}", lacks(&last));
    let room = agent.shared_lanes().channel_room();
    open.remove(0);
    // The one with a part of its series takes in as many as the others, and whoever was refused hears that there may be room.
    wait_for("it has more series", || lacks(&last).starts_with("sends 4 of 7").then_some(()));
    assert!(lacks(&last).contains("windows of 4MiB"), "{}", lacks(&last));
    assert_ne!(agent.shared_lanes().channel_room(), room);
    agent.stop();
}

#[test]
fn memory_comes_from_the_lane_that_was_left_first_and_one_that_was_left_just_now_goes_on() {
    let place = Place::new("left");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let small = terms("small", &Handler { values: Values::Plan(above(10.0)), ..Handler::default() });
    let lane = follow(&agent, "*", &small).unwrap();
    let epoch = lane.epoch();
    let (mut open, _) = fill(&agent, WantedBy::Readers);
    let left = open.remove(0);
    let ring = left.ring_of();
    drop(left);
    // The gather thread has seen it without a reader.
    std::thread::sleep(Duration::from_millis(1_500));
    drop(lane);
    open.push(follow_large(&agent, "next", WantedBy::Readers).unwrap());
    assert!(ring.ended_ago().is_some());
    assert_eq!(follow(&agent, "*", &small).unwrap().epoch(), epoch);
    agent.stop();
}

#[test]
fn a_reader_of_a_node_itself_waits_for_memory_and_hears_why_and_when_it_comes() {
    let place = Place::new("waits");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let (mut open, _) = fill(&agent, WantedBy::Readers);
    let large = terms("waits", &highest_of("load.1m"));
    let mut rows = agent.query().subscribe(interest("*", 400, large)).unwrap();
    let said = rows.notices();
    assert!(said.iter().all(|notice| notice.is_refusal) && said.len() == 1, "{said:?}");
    assert!(said[0].text.contains(khz_model::Notice::TRIES_AGAIN), "{said:?}");
    assert!(rows.poll().is_empty() && rows.notices().is_empty());
    open.pop();
    wait_for("a row", || newest(rows.poll()));
    let said = rows.notices();
    assert_eq!(said.first().map(|notice| notice.text.as_str()), Some(khz_model::Notice::SENDS_NOW));
    agent.stop();
}

#[test]
fn an_event_is_one_row() {
    let place = Place::new("event");
    place.show([("eth0", 5), ("eth1", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let when = When { once: true, ..When::default() };
    let handler = Handler { values: Values::Plan(above(10.0)), when: Some(when), ..Handler::default() };
    let mut rows = subscribe(&agent, "*", terms("event", &handler));
    let mut count = 0;
    let mut take = |rows: &mut Box<dyn Subscription>| {
        let deliveries = rows.poll();
        count += deliveries.iter().map(|delivery| delivery.rows.len()).sum::<usize>();
        (newest(deliveries), count)
    };
    place.show([("eth0", 50), ("eth1", 5)]);
    let (first, _) = wait_for("the first", || Some(take(&mut rows)).filter(|(row, _)| row.is_some()));
    assert_eq!(first.unwrap().iter().filter(|(_, value)| value.is_some()).count(), 1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(take(&mut rows), (None, 1));
    place.show([("eth0", 50), ("eth1", 50)]);
    let (second, count) = wait_for("the second", || Some(take(&mut rows)).filter(|(row, _)| row.is_some()));
    assert_eq!((second.unwrap().iter().filter(|(_, value)| value.is_some()).count(), count), (2, 2));
    agent.stop();
}

#[test]
fn readers_of_one_channel_share_its_lane_and_the_next_one_takes_it_over() {
    let place = Place::new("share");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let (one, two) = (terms("one", &handler), terms("two", &handler));
    let lane = follow(&agent, "*", &one).unwrap();
    let epoch = lane.epoch();
    assert_eq!(follow(&agent, "*", &one).unwrap().epoch(), epoch);
    assert_ne!(follow(&agent, "*", &two).unwrap().epoch(), epoch, "another name");
    assert_ne!(follow(&agent, "mem.*", &one).unwrap().epoch(), epoch, "other series");
    let plain = agent.follow(&[Pattern::new("net.*").unwrap()], Rate::from_hz(100).unwrap(), true).unwrap();
    assert_ne!(plain.epoch(), epoch, "readings are no channel");
    wait_for("rows", || (lane.reader().head() > 0).then_some(()));
    drop(lane);
    // Longer than the gather thread's look at lanes without readers.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(follow(&agent, "*", &one).unwrap().epoch(), epoch, "its reader was away for a moment");
    agent.stop();
}

#[test]
fn a_node_tells_what_each_channel_costs_it() {
    let place = Place::new("cost");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let never = Handler { values: Values::Plan(above(10.0)), ..Handler::default() };
    let always = Handler { values: Values::Plan(highest()), ..Handler::default() };
    let number = |name: &str| {
        let pattern = [Pattern::new(&format!("khz.handler.{name}")).unwrap()];
        let snapshot = block_on(agent.query().latest(&pattern, Nanos(0))).ok()?;
        snapshot.nodes[0].1[0].reading.value()
    };
    let quiet = follow(&agent, "*", &terms("quiet", &never)).unwrap();
    let lanes =
        [follow(&agent, "*", &terms("all", &always)), follow(&agent, "mem.*", &terms("all", &always))];
    let lanes = lanes.map(Result::unwrap);
    assert_eq!(lanes.each_ref().map(|lane| lane.name().to_owned()), ["channel.all", "channel.all.2"]);
    wait_for("rows of both lanes", || lanes.iter().all(|lane| lane.reader().head() > 0).then_some(()));
    // Each is asked for by itself, and rows go on: rows in come last.
    let counts = || Some((number("rows_out[all]")?, number("bytes_out[all]")?, number("rows_in[all]")?));
    let (sent, bytes, taken) = wait_for("the numbers of both", || counts().filter(|counts| counts.0 > 1));
    assert!(taken >= sent && bytes > sent, "{taken} rows in, {sent} rows out, {bytes} bytes");
    assert!(number("time[all]").unwrap() > 0);
    // A handler that sends nothing has its cost all the same.
    let of_quiet = wait_for("rows in", || number("rows_in[quiet]").filter(|&rows| rows > 0));
    assert!(of_quiet > 0 && number("rows_out[quiet]") == Some(0) && number("bytes_out[quiet]") == Some(0));
    // The numbers of a channel do not fall when one of its lanes is left.
    let [one, two] = lanes;
    drop(one);
    assert!(number("rows_in[all]").unwrap() >= taken);
    drop((two, quiet));
    wait_for("the channels' end", || number("rows_in[all]").is_none().then_some(()));
    agent.stop();
}

#[test]
fn readers_and_the_hub_have_memory_of_their_own_for_channels() {
    let place = Place::new("parts");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let (of_readers, refusal) = fill(&agent, WantedBy::Readers);
    assert!(refusal.is_for_now() && of_readers.len() > 2, "{refusal}");
    let (of_hub, refusal) = fill(&agent, WantedBy::Hub);
    // The first ones are lanes that readers follow already: they count for the hub from then on, and readers have as much more.
    assert!(of_hub.len() >= of_readers.len(), "{refusal}");
    assert!(refusal.to_string().contains("that the hub wants"), "{refusal}");
    let more = follow_large(&agent, "more", WantedBy::Readers).unwrap();
    drop((more, of_readers));
    assert!(fill(&agent, WantedBy::Hub).1.is_for_now(), "readers' memory is not the hub's");
    agent.stop();
}

#[test]
fn what_was_refused_for_want_of_memory_is_possible_when_others_have_ended() {
    let place = Place::new("room");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let lanes = agent.shared_lanes();
    let (mut open, _) = fill(&agent, WantedBy::Readers);
    let again = |name: &str| follow_large(&agent, name, WantedBy::Readers);
    let room = lanes.channel_room();
    assert!(again("wanted").is_err_and(|error| error.is_for_now()));
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(lanes.channel_room(), room, "all have readers");
    open.pop();
    wait_for("word of it", || (lanes.channel_room() != room).then_some(()));
    // The lane that nobody reads lives on for a minute, and gives way.
    let wanted = again("wanted").unwrap();
    assert!(again("another").is_err());
    drop(wanted);
    agent.stop();
}

#[test]
fn new_series_that_had_no_memory_are_taken_in_when_others_have_ended() {
    let place = Place::new("later");
    place.show([("eth0", 70)]);
    let agent = Agent::start(plan(&place)).unwrap();
    // One window for each interface.
    let rows = terms("high", &highest_of("net.rx_bytes"));
    let mut rows = agent.query().subscribe(interest("*", 200, rows)).unwrap();
    let columns = |rows: &mut Box<dyn Subscription>| newest(rows.poll()).map(|row| row.len());
    assert_eq!(wait_for("a row", || columns(&mut rows)), 1);
    let (open, _) = fill(&agent, WantedBy::Readers);
    let left_out = || {
        let pattern = [Pattern::new("khz.handler.series_left_out[high]").unwrap()];
        block_on(agent.query().latest(&pattern, Nanos(0))).ok()?.nodes[0].1[0].reading.value()
    };
    assert_eq!(left_out(), Some(0));
    place.show([("eth0", 70), ("eth1", 80)]);
    wait_for("a node that says so", || left_out().filter(|&series| series == 1));
    assert_eq!(wait_for("a row", || columns(&mut rows)), 1, "it has what it had");
    drop(open);
    wait_for("the second series", || columns(&mut rows).filter(|&columns| columns == 2));
    assert_eq!(left_out(), Some(0));
    agent.stop();
}

#[test]
fn a_node_has_a_limit_of_channels_and_says_why_it_refuses() {
    let place = Place::new("limit");
    place.show([("eth0", 5)]);
    let agent = Agent::start(plan(&place)).unwrap();
    let handler = Handler { values: Values::Plan(above(10.0)), ..Handler::default() };
    let lanes: Vec<LaneHandle> =
        (0..CHANNELS_MAX).map(|n| follow(&agent, "*", &terms(&format!("c{n}"), &handler)).unwrap()).collect();
    let refused = |channel| follow(&agent, "*", &channel).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        refused(terms("more", &handler)),
        "the limit of 104 channels at one node is reached; try again when others have gone"
    );
    // Readings are not channels: there is room for them.
    agent.follow(&[Pattern::new("net.*").unwrap()], Rate::from_hz(50).unwrap(), true).unwrap();
    drop(lanes);
    // Lanes that nobody reads give way.
    wait_for("room", || follow(&agent, "*", &terms("more", &handler)).ok());
    let (open, refusal) = fill(&agent, WantedBy::Readers);
    assert!(refusal.is_for_now());
    let refusal = refusal.to_string();
    assert!(refusal.contains("all channels of a node that readers follow may hold 16MiB"), "{refusal}");
    drop(open);
    let damaged = ChannelTerms { name: ChannelName::new("bad").unwrap(), handler: vec![1, 0, 9].into() };
    assert_eq!(refused(Arc::new(damaged)), "channel bad: the plan is damaged at byte 3");
    agent.stop();
    let none = Plan { handlers: Handlers::None, ..plan(&place) };
    let agent = Agent::start(none).unwrap();
    let refused = follow(&agent, "*", &terms("any", &handler)).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "channel any: this node takes no handlers (handlers = \"none\")");
    agent.stop();
}
