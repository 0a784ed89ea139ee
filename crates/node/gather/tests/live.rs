//! The agent on this machine's own kernel and on captured hosts: rows arrive, requests are answered, gathers
//! are shared, instances come and go.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_executor::block_on;
use futures_util::future::join_all;
use khz_gather::{Agent, LaneHandle, Plan};
use khz_model::{
    Absence, Fault, Interest, Nanos, NodeName, Pattern, Query, QueryError, Rate, Reading, Snapshot,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

fn plan(root: impl Into<PathBuf>) -> Plan {
    Plan::new(root, NodeName::new("n1").unwrap())
}

fn patterns(text: &str) -> Vec<Pattern> {
    vec![Pattern::new(text).unwrap()]
}

fn latest(query: &dyn Query, pattern: &str, age_max: Nanos) -> Snapshot {
    block_on(query.latest(&patterns(pattern), age_max)).unwrap()
}

/// The only reading that the pattern selects.
fn one(query: &dyn Query, pattern: &str) -> Reading {
    let snapshot = latest(query, pattern, Nanos(0));
    let samples = &snapshot.nodes[0].1;
    assert_eq!(samples.len(), 1, "{pattern}");
    samples[0].reading
}

fn value(query: &dyn Query, pattern: &str) -> u64 {
    one(query, pattern).value().unwrap_or_else(|| panic!("{pattern} has no value"))
}

/// Waits for a condition that must come true; the limit only ends a hanging test.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{what} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A host whose files a test can change.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("khz-gather-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("proc/net")).unwrap();
        let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/linux-6.18-vm2/proc");
        for file in ["stat", "meminfo", "loadavg", "uptime", "net/dev", "vmstat", "diskstats"] {
            fs::copy(captured.join(file), root.join("proc").join(file)).unwrap();
        }
        Host(root)
    }

    fn edit(&self, file: &str, change: impl FnOnce(String) -> String) {
        let path = self.0.join("proc").join(file);
        // Change the file in place: the agent keeps it open, as it does with the kernel's files.
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn this_machine_answers() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    assert!(value(&*query, "mem.total") > 1 << 20);
    assert!(value(&*query, "kernel.context_switches") > 0);
    assert!(value(&*query, "net.rx_bytes[lo]") < u64::MAX);
    let before = value(&*query, "uptime.up");
    wait_for("a later uptime", || (value(&*query, "uptime.up") > before).then_some(()));
    assert!(block_on(query.latest(&[], Nanos(0))).unwrap().nodes.is_empty());
    agent.stop();
    assert!(matches!(block_on(query.latest(&patterns("mem.total"), Nanos(0))), Err(QueryError::Stopped)));
    assert!(matches!(block_on(query.latest(&[], Nanos(0))), Err(QueryError::Stopped)));
}

#[test]
fn a_hundred_concurrent_questions_make_one_gather() {
    let agent = Agent::start(Plan {
        base_rate: "1h".parse().unwrap(),
        local_rate: "1h".parse().unwrap(),
        ..plan("/")
    })
    .unwrap();
    let query = agent.query();
    let gathers = || value(&*query, "khz.source.gathers[stat]");
    let wanted = patterns("kernel.context_switches");
    let window = Nanos::from_secs(60);
    // The first request opens the file; all others fall into the window of its gather.
    latest(&*query, "kernel.context_switches", window);
    let before = gathers();
    let answers = block_on(join_all((0..100).map(|_| query.latest(&wanted, window))));
    let first = answers[0].as_ref().unwrap().nodes[0].1[0].clone();
    for answer in &answers {
        let sample = &answer.as_ref().unwrap().nodes[0].1[0];
        assert_eq!((sample.stamp, sample.reading), (first.stamp, first.reading));
    }
    assert_eq!(gathers(), before, "within the window there is no second gather");
    // Without a window, each request may cause its own gather, as long as the ceiling allows it.
    block_on(join_all((0..100).map(|_| query.latest(&wanted, Nanos(0)))));
    let made = gathers() - before;
    assert!((1..=100).contains(&made), "{made}");
    agent.stop();
}

#[test]
fn questions_without_end_make_no_more_gathers_than_the_ceiling_allows() {
    let rate_max = Rate::from_hz(10).unwrap();
    let slow = Plan { base_rate: rate_max, local_rate: rate_max, rate_max, ..plan("/") };
    let agent = Agent::start(slow).unwrap();
    let query = agent.query();
    let asked = || value(&*query, "khz.merge.gathers");
    let (before, start) = (asked(), Instant::now());
    let uptimes: Vec<u64> = (0..2_000).map(|_| value(&*query, "uptime.up")).collect();
    // One gather each tenth of a second, and those that the allowance had saved up.
    let most = 10 * (start.elapsed().as_secs() + 1) + 2;
    let made = asked() - before;
    assert!((1..=most).contains(&made), "{made} gathers, {most} at most");
    assert!(uptimes.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn every_row_of_a_boost_lane_arrives_in_order_and_on_the_grid() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let rate = Rate::from_hz(500).unwrap();
    let interest = Interest::new(patterns("kernel.*"), rate, false);
    let mut subscription = query.subscribe(interest).unwrap();
    let mut rows = Vec::new();
    wait_for("200 rows", || {
        for delivery in subscription.poll() {
            assert_eq!(delivery.lost, 0);
            assert!(delivery.columns.iter().all(|s| s.metric.name.starts_with("kernel.")));
            rows.extend(delivery.rows);
        }
        (rows.len() >= 200).then_some(())
    });
    assert!(rows.windows(2).all(|pair| pair[0].stamp.boot < pair[1].stamp.boot));
    let interrupts = |row: &khz_model::Row| row.readings[1].value().unwrap();
    assert!(rows.windows(2).all(|pair| interrupts(&pair[0]) <= interrupts(&pair[1])));
    assert!(interrupts(&rows[0]) < interrupts(&rows[199]));
    // Rows are at multiples of 2 ms in wall-clock time, except for delays. So of a hundred rows in sequence,
    // more than half lie in the first quarter of their period. On a busy machine this takes a while; off the
    // grid it never happens.
    wait_for("rows on the grid", || {
        rows.extend(subscription.poll().into_iter().flat_map(|delivery| delivery.rows));
        let is_early = |row: &&khz_model::Row| row.stamp.real().0 % 2_000_000 < 500_000;
        let mut hundreds = rows.chunks_exact(100);
        hundreds.any(|hundred| hundred.iter().filter(is_early).count() > 50).then_some(())
    });
    drop(subscription);
    wait_for("the lane to close", || {
        let lanes = latest(&*query, "khz.lane.readers[boost*]", Nanos(0));
        lanes.nodes[0]
            .1
            .iter()
            .all(|s| matches!(s.reading, Reading::Absent(Absence::InstanceGone)))
            .then_some(())
    });
    agent.stop();
}

#[test]
fn a_boost_lane_has_the_series_that_its_readers_want_and_no_others() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let rate = Rate::from_hz(100).unwrap();
    let subscribe = |list: &str| {
        let patterns = list.split(' ').map(|pattern| Pattern::new(pattern).unwrap()).collect();
        query.subscribe(Interest::new(patterns, rate, true)).unwrap()
    };
    let slots = || {
        let lanes = query.status().remove(0).lanes;
        let boosts = lanes.into_iter().filter(|lane| lane.name.starts_with("boost"));
        let mut slots: Vec<u64> = boosts.map(|lane| lane.slots).collect();
        slots.sort_unstable_by(|one, two| two.cmp(one));
        slots
    };
    // The series of each delivery, and the number of rows; no row may be lost.
    let mut counted = 0;
    let mut follow = |subscription: &mut Box<dyn khz_model::Subscription>, wanted: &[&str]| {
        wait_for("rows with these series", || {
            subscription
                .poll()
                .into_iter()
                .any(|delivery| {
                    assert_eq!(delivery.lost, 0);
                    counted += delivery.rows.len();
                    let names: Vec<&str> = delivery.columns.iter().map(|s| &*s.metric.name).collect();
                    let are_there =
                        |row: &khz_model::Row| row.readings.iter().all(|reading| reading.value().is_some());
                    names == wanted && !delivery.rows.is_empty() && delivery.rows.iter().all(are_there)
                })
                .then_some(())
        });
    };
    let mut free = subscribe("mem.free");
    follow(&mut free, &["mem.free"]);
    assert_eq!(slots(), [1], "one of the file's series");
    let mut cached = subscribe("mem.cached");
    follow(&mut cached, &["mem.cached"]);
    assert_eq!(slots(), [2], "readers at one rate share a lane");
    follow(&mut free, &["mem.free"]);
    let mut both = subscribe("mem.cached mem.free");
    follow(&mut both, &["mem.free", "mem.cached"]);
    assert_eq!(slots(), [2], "nothing more is wanted");
    let mut loads = subscribe("load.1m");
    follow(&mut loads, &["load.1m"]);
    assert_eq!(slots(), [2, 1], "another file is another lane");
    let mut all = subscribe("mem.*");
    wait_for("all of the file", || (slots()[0] > 20 && !all.poll().is_empty()).then_some(()));
    follow(&mut free, &["mem.free"]);
    assert!(counted > 0);
    agent.stop();
}

#[test]
fn a_rate_that_surely_exceeds_the_ceiling_is_lowered_at_once_and_the_reader_learns_of_it() {
    // A hundredth of a core: at 10 Hz every machine stays below it, at 1,000 Hz none does.
    let agent = Agent::start(Plan { cpu_max: 0.01, ..plan("/") }).unwrap();
    let query = agent.query();
    wait_for("what the sources cost", || (value(&*query, "khz.source.gathers[stat]") > 40).then_some(()));
    let rate = Rate::from_hz(1_000).unwrap();
    let interest = Interest::new(patterns("*"), rate, true);
    let mut subscription = query.subscribe(interest).unwrap();
    let granted = subscription.rate();
    assert!(granted.is_slowed_from(rate), "{granted}");
    let told = subscription.notices();
    assert!(told.len() == 1 && told[0].text.contains(" instead of 1000Hz: "), "{told:?}");
    let first = wait_for("the first row", || subscription.poll().into_iter().next());
    assert!(first.rate.is_some_and(|now| now.is_slowed_from(rate)), "{:?}", first.rate);
}

#[test]
fn history_reaches_back_to_the_start() {
    let rate = "20ms".parse().unwrap();
    let agent = Agent::start(Plan { base_rate: rate, local_rate: rate, ..plan("/") }).unwrap();
    let query = agent.query();
    let rows = wait_for("50 rows", || {
        let mut history = query.history(&patterns("kernel.forks"), Nanos::from_secs(600), 10_000).unwrap();
        let rows = std::mem::take(&mut history[0].rows);
        (rows.len() >= 50).then_some(rows)
    });
    assert!(rows.windows(2).all(|pair| pair[0].stamp.boot < pair[1].stamp.boot));
    let thin = query.history(&patterns("kernel.forks"), Nanos::from_secs(600), 10).unwrap();
    assert!((5..=10).contains(&thin[0].rows.len()), "{}", thin[0].rows.len());
    agent.stop();
}

#[test]
fn interfaces_come_and_go_and_nothing_is_attributed_to_the_wrong_one() {
    let host = Host::new("nic");
    let agent = Agent::start(plan(&host.0)).unwrap();
    let query = agent.query();
    let eth0 = value(&*query, "net.rx_bytes[eth0]");
    host.edit("net/dev", |text| {
        let line = text.lines().last().unwrap().replace("eth0", "eth1");
        format!("{text}{}\n", line.replacen(&eth0.to_string(), "777", 1))
    });
    assert_eq!((value(&*query, "net.rx_bytes[eth0]"), value(&*query, "net.rx_bytes[eth1]")), (eth0, 777));
    host.edit("net/dev", |text| {
        text.lines().filter(|l| !l.contains("eth0")).map(|l| format!("{l}\n")).collect()
    });
    assert_eq!(one(&*query, "net.rx_bytes[eth0]"), Reading::Absent(Absence::InstanceGone));
    assert_eq!(value(&*query, "net.rx_bytes[eth1]"), 777);
    agent.stop();
}

#[test]
fn a_new_instance_becomes_a_new_column_of_a_running_subscription() {
    let host = Host::new("column");
    let agent = Agent::start(plan(&host.0)).unwrap();
    let query = agent.query();
    let interest = Interest::new(patterns("net.rx_bytes[*]"), Rate::from_hz(100).unwrap(), false);
    let mut subscription = query.subscribe(interest).unwrap();
    let first = wait_for("a row", || subscription.poll().into_iter().next());
    host.edit("net/dev", |text| format!("{text}{}\n", text.lines().last().unwrap().replace("eth0", "eth9")));
    let grown = wait_for("a longer row", || {
        subscription.poll().into_iter().find(|d| d.columns.len() > first.columns.len())
    });
    assert_eq!(grown.columns[..first.columns.len()], first.columns[..]);
    assert_eq!(grown.columns.last().unwrap().to_string(), "net.rx_bytes[eth9]");
    assert_eq!(grown.rows[0].readings.len(), grown.columns.len());
    drop(subscription);
    agent.stop();
}

#[test]
fn absent_and_failed_stay_apart() {
    let host = Host::new("states");
    let agent = Agent::start(plan(&host.0)).unwrap();
    let query = agent.query();
    assert_eq!(one(&*query, "mem.high_total"), Reading::Absent(Absence::NoField));
    assert_eq!(one(&*query, "pressure.io.some.total"), Reading::Absent(Absence::NoSource));
    host.edit("meminfo", |text| text.replace("MemFree:", "MemFree: broken"));
    assert_eq!(one(&*query, "mem.free"), Reading::Failed(Fault::Malformed));
    assert!(value(&*query, "mem.total") > 0);
    assert!(value(&*query, "khz.source.failures[meminfo]") > 0);
    agent.stop();
}

#[test]
fn a_root_without_proc_and_a_rate_above_the_ceiling_are_refused_before_anything_starts() {
    let error = Agent::start(plan("/nonexistent")).err().unwrap().to_string();
    assert!(error.starts_with("nothing can be read below /nonexistent:"), "{error}");
    let fast = Plan { local_rate: "2kHz".parse().unwrap(), ..plan("/") };
    let error = Agent::start(fast).err().unwrap().to_string();
    assert_eq!(error, "local_rate is 2000Hz, above the ceiling of 1000Hz; lower it or raise rate_max");
}

#[test]
fn questions_that_cannot_be_answered_say_why() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let error = block_on(query.latest(&patterns("nothing.here"), Nanos(0))).unwrap_err();
    assert_eq!(error.to_string(), "nothing matches nothing.here; `khz catalog` lists every metric");
    let missing = block_on(query.latest(&patterns("n[1-3]:mem.free"), Nanos(0))).unwrap();
    assert_eq!((missing.nodes.len(), missing.missing), (1, vec!["n2".to_owned(), "n3".to_owned()]));
    let fast = Interest::new(patterns("mem.free"), Rate::from_hz(5_000).unwrap(), true);
    assert!(matches!(query.subscribe(fast).err(), Some(QueryError::AboveCeiling { .. })));
    agent.stop();
}

#[test]
fn lanes_of_different_rates_are_limited_and_the_refusal_says_so() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let subscribe =
        |hz| query.subscribe(Interest::new(patterns("load.*"), Rate::from_hz(hz).unwrap(), false));
    let open: Vec<_> = (100..200).map(subscribe).collect();
    let refused = open.iter().filter(|s| matches!(s, Err(QueryError::Full { .. }))).count();
    assert_eq!(refused, 100 - (khz_gather::LANES_MAX - 2));
    drop(open);
    wait_for("room again", || subscribe(77).ok());
    agent.stop();
}

#[test]
fn a_granted_lane_lives_until_its_reader_has_come() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let subscribe = || {
        let interest = Interest::new(patterns("kernel.*"), Rate::from_hz(200).unwrap(), false);
        query.subscribe(interest).unwrap()
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                drop(subscribe());
            }
        });
        for _ in 0..40 {
            let mut subscription = subscribe();
            // Two rows: the first may be old, because a reader that joins late gets the newest existing row.
            let mut rows = 0;
            wait_for("rows of a lane that others leave", || {
                rows += subscription.poll().iter().map(|d| d.rows.len()).sum::<usize>();
                (rows >= 2).then_some(())
            });
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    agent.stop();
}

#[test]
fn lanes_that_come_and_go_take_no_new_slots_for_their_own_numbers() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let own_slots = || latest(&*query, "khz.*", Nanos(0)).nodes[0].1.len();
    let follow = |hz| {
        let interest = Interest::new(patterns("load.*"), Rate::from_hz(hz).unwrap(), false);
        drop(query.subscribe(interest).unwrap());
    };
    follow(50);
    let first = own_slots();
    (51..90).for_each(follow);
    let (slots, lanes) = (own_slots(), khz_gather::LINGERING_MAX + 1);
    assert!(
        slots <= first + 6 * lanes,
        "{slots}: at most this many live on, and one may open before another has closed"
    );
    agent.stop();
}

#[test]
fn a_lane_that_was_left_lives_on_for_readers_that_come_back_and_of_many_only_the_last() {
    let agent = Agent::start(plan("/")).unwrap();
    let follow = |hz| agent.follow(&patterns("load.*"), Rate::from_hz(hz).unwrap(), true).unwrap();
    let lane = follow(100);
    let (epoch, name) = (lane.epoch(), lane.name().to_owned());
    wait_for("rows", || (decoded(&lane).len() >= 5).then_some(()));
    let before = decoded(&lane).len();
    let ring = lane.reader().clone();
    let query = agent.query();
    let shown = || {
        let numbers = latest(&*query, &format!("khz.lane.period[{name}]"), Nanos(0));
        numbers.nodes[0].1[0].reading
    };
    assert_eq!(shown(), Reading::Present(10_000_000));
    drop(lane);
    assert_eq!(
        shown(),
        Reading::Absent(Absence::InstanceGone),
        "no reader wants it: it is not shown as running"
    );
    // Rows are gathered while there is no reader.
    let rows = || {
        let mut cursor = khz_ring::Cursor::new(ring.clone(), ring.oldest());
        std::iter::from_fn(|| Some(cursor.advance()).filter(|e| *e != khz_ring::Event::UpToDate))
            .filter(|event| *event == khz_ring::Event::Row)
            .count()
    };
    wait_for("rows that nobody reads", || (rows() >= before + 5).then_some(()));
    let again = follow(100);
    assert_eq!((again.epoch(), again.name()), (epoch, name.as_str()));
    assert_eq!(shown(), Reading::Present(10_000_000));
    assert!(decoded(&again).iter().map(|(number, _)| *number).eq(0..decoded(&again).len() as u64));
    drop(again);
    // More lanes without readers make it the oldest of too many.
    for hz in 0..khz_gather::LINGERING_MAX as u64 {
        follow(200 + hz);
    }
    assert_ne!(follow(100).epoch(), epoch);
    agent.stop();
}

#[test]
fn a_number_of_a_lane_or_source_that_is_not_known_is_absent_and_never_0() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let lane = agent.shared_lanes().on_demand(&patterns("load.*")).unwrap();
    let of = |metric: &str| one(&*query, &format!("{metric}[{}]", lane.name()));
    assert_eq!(of("khz.lane.readers"), Reading::Present(1));
    assert_eq!(of("khz.lane.period"), Reading::Absent(Absence::NotYet), "it has no ticks");
    // The shortest period follows from the cost, which is known only after some gathers.
    let periods = latest(&*query, "khz.source.period_min", Nanos(0));
    assert!(periods.nodes[0].1.iter().all(|sample| sample.reading != Reading::Present(0)), "{periods:?}");
    drop(lane);
    agent.stop();
}

#[test]
fn two_readers_of_the_same_share_a_lane() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let subscribe =
        || query.subscribe(Interest::new(patterns("cpu.*"), Rate::from_hz(50).unwrap(), false)).unwrap();
    let both = (subscribe(), subscribe());
    assert_eq!(
        latest(&*query, "khz.lane.readers[boost*]", Nanos(0)).nodes[0]
            .1
            .iter()
            .filter(|s| s.reading == Reading::Present(2))
            .count(),
        1
    );
    drop(both);
    agent.stop();
}

/// For every row from the start of the ring on: its number, and the number of slots that the decoder holds.
fn decoded(lane: &LaneHandle) -> Vec<(u64, usize)> {
    let mut cursor = khz_ring::Cursor::new(lane.reader().clone(), lane.reader().oldest());
    let mut rows = Vec::new();
    loop {
        match cursor.advance() {
            khz_ring::Event::Row => rows.push((cursor.decoder().next_row() - 1, cursor.decoder().slots())),
            khz_ring::Event::Block => {}
            khz_ring::Event::UpToDate => return rows,
        }
    }
}

#[test]
fn a_link_finds_rows_and_what_they_mean_in_every_lane() {
    let rate = "20ms".parse().unwrap();
    let agent = Agent::start(Plan { base_rate: rate, local_rate: rate, ..plan("/") }).unwrap();
    let lanes = agent.lanes();
    let names: Vec<&str> = lanes.iter().map(|lane| lane.name()).collect();
    assert_eq!(names, ["base", "local"]);
    assert_ne!(lanes[0].epoch(), lanes[1].epoch());
    for lane in &lanes {
        let rows = wait_for("20 rows", || Some(decoded(lane)).filter(|rows| rows.len() >= 20));
        assert!(rows.iter().map(|row| row.0).eq(0..rows.len() as u64));
        let (mut bytes, mut schema) = (Vec::new(), khz_block::SchemaDecoder::new());
        // In pieces, as a link sends it.
        while (bytes.len() as u64) < lane.schema_bytes() {
            assert!(lane.schema(bytes.len() as u64, 1_000, &mut bytes) > 0);
        }
        schema.feed(&bytes).unwrap();
        assert_eq!(schema.series(), lane.series().as_slice());
        assert_eq!(schema.series().len(), rows.last().unwrap().1);
        assert_eq!(
            (lane.generation(), lane.period(), lane.asked()),
            (1, Nanos::from_millis(20), Nanos::from_millis(20))
        );
    }
    agent.stop();
}

#[test]
fn the_local_lane_has_the_series_of_its_own_sources_alone() {
    let rate = "20ms".parse().unwrap();
    let agent = Agent::start(Plan { base_rate: rate, local_rate: rate, ..plan("/") }).unwrap();
    let local = &agent.lanes()[1];
    wait_for("a row", || Some(decoded(local)).filter(|rows| !rows.is_empty()));
    let source = |name: &str| khz_parse::files().iter().find(|file| file.called().any(|it| it.name == name));
    let series = local.series();
    assert!(series.iter().any(|series| series.metric.name == "mem.free"));
    for series in series.iter() {
        let file = source(&series.metric.name).unwrap_or_else(|| panic!("{series} is of no kernel file"));
        assert!(!file.only_base && file.rest().is_none(), "{series} of {}", file.name);
    }
    agent.stop();
}

#[test]
fn a_followed_lane_lives_as_long_as_its_handle_and_rings_at_every_row() {
    let agent = Agent::start(plan("/")).unwrap();
    let query = agent.query();
    let rate = Rate::from_hz(200).unwrap();
    let lane = agent.follow(&patterns("kernel.*"), rate, true).unwrap();
    assert_eq!((lane.name(), lane.asked()), ("boost1", rate.period()));
    let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let prompt = lane.prompt(rustix::io::dup(&bell).unwrap()).unwrap();
    // The read waits for the bell, and returns how often it rang.
    let mut rung = 0;
    while rung < 50 {
        let mut count = [0; 8];
        rustix::io::read(&bell, &mut count).unwrap();
        rung += u64::from_ne_bytes(count);
    }
    assert!(decoded(&lane).len() >= 50);
    drop(prompt);
    let rung = || {
        let mut poll_one = [PollFd::new(&bell, PollFlags::IN)];
        let is_rung = poll(&mut poll_one, Some(&Timespec::default())).unwrap() > 0;
        if is_rung {
            rustix::io::read(&bell, &mut [0; 8]).unwrap();
        }
        is_rung
    };
    wait_for("twenty rows without a bell", || {
        let before = decoded(&lane).len();
        rung();
        wait_for("more rows", || (decoded(&lane).len() >= before + 20).then_some(()));
        (!rung()).then_some(())
    });
    let faster = agent.follow(&patterns("kernel.*"), Rate::from_hz(5_000).unwrap(), true);
    assert!(matches!(faster.err(), Some(QueryError::AboveCeiling { .. })));
    drop(lane);
    wait_for("the lane to close", || {
        let lanes = latest(&*query, "khz.lane.readers[boost*]", Nanos(0));
        let gone = |s: &khz_model::Sample| matches!(s.reading, Reading::Absent(Absence::InstanceGone));
        lanes.nodes[0].1.iter().all(gone).then_some(())
    });
    agent.stop();
}

#[test]
fn an_agent_continues_the_rings_of_the_one_before_and_history_reaches_back_across_the_restart() {
    let host = Host::new("rings");
    let folder = host.0.join("rings/n1");
    let rate = "10ms".parse().unwrap();
    let start = || {
        let ring_folder = Some(folder.clone());
        Agent::start(Plan { base_rate: rate, local_rate: rate, ring_folder, ..plan(&host.0) }).unwrap()
    };
    let agent = start();
    let lane = &agent.lanes()[0];
    wait_for("30 rows", || (decoded(lane).len() >= 30).then_some(()));
    let (epoch, generation) = (lane.epoch(), lane.generation());
    agent.stop();
    let before = decoded(lane).len();

    // One more disk: the slots of the second agent differ from those of the first.
    host.edit("net/dev", |text| {
        let line = text.lines().last().unwrap();
        text.replace(line, &format!("{}\n{line}", line.replace("eth0", "abc0")))
    });
    let agent = start();
    let error = Agent::start(Plan { ring_folder: Some(folder.clone()), ..plan(&host.0) }).err().unwrap();
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
    let lane = &agent.lanes()[0];
    assert_eq!((lane.epoch(), lane.generation()), (epoch, generation + 1));
    wait_for("30 rows more", || (decoded(lane).len() >= before + 30).then_some(()));
    assert!(decoded(lane).iter().map(|row| row.0).eq(0..decoded(lane).len() as u64), "numbers go on");
    let query = agent.query();
    let of = |pattern: &str| {
        let mut all = query.history(&patterns(pattern), Nanos::from_secs(600), 10_000).unwrap();
        std::mem::take(&mut all[0].rows)
    };
    let eth0 = of("net.rx_bytes[eth0]");
    assert!(eth0.len() > before);
    let value = eth0[0].readings[0].value();
    assert!(
        value.is_some() && eth0.iter().all(|row| row.readings[0].value() == value),
        "each from its own slot"
    );
    let abc0 = of("net.rx_bytes[abc0]");
    assert_eq!(abc0[0].readings[0], Reading::Absent(Absence::NotYet));
    assert_eq!(abc0.last().unwrap().readings[0].value(), value);
    agent.stop();
}

#[test]
fn a_placement_that_is_refused_stops_the_agent_before_anything_starts() {
    let placement = khz_gather::Placement { cpus: Some("1023".parse().unwrap()), ..Default::default() };
    let error = Agent::start(Plan { placement, ..plan("/") }).err().unwrap().to_string();
    assert!(error.starts_with("cannot run with --cpu 1023: "), "{error}");
}

#[test]
fn a_description_is_read_once_a_minute_however_fast_the_lane_is() {
    let start = Instant::now();
    let mut plan = Plan { cpu_max: 1.0, ..plan("/") };
    // A busy machine must not hold them back.
    plan.sources.iter_mut().for_each(|source| source.budget = Some(1.0));
    let agent = Agent::start(plan).unwrap();
    let query = agent.query();
    // Everything at 1,000 Hz, even what the kernel changes more slowly.
    let lane = agent.follow(&patterns("*"), Rate::from_hz(1_000).unwrap(), true).unwrap();
    let count = |name: &str| value(&*query, name);
    let rows = format!("khz.lane.rows[{}]", lane.name());
    wait_for("a thousand rows", || (count(&rows) > 1_000).then_some(()));
    let times = |source: &str| count(&format!("khz.source.gathers[{source}]"));
    assert!(times("loadavg") > 500, "the lane has every other source");
    // A busy machine may need more than a minute for these rows.
    assert!(times("uname") <= 1 + start.elapsed().as_secs() / 60);
    assert_eq!(times("os"), 1);
    let uname = latest(&*query, "host.uname", Nanos(0)).nodes[0].1[0].reading.labels().unwrap();
    assert!(uname.get("release").is_some());
    agent.stop();
}
