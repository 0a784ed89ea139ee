//! What memory the lanes take that readers open, on a host with very many series. This test needs its own process, because it reads
//! what the whole process has.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_gather::{Agent, LANES_BYTES_MIN, LANES_MAX, LaneHandle, Plan, READERS_BYTES, RingSize};
use khz_model::{ByteSize, Interest, Nanos, NodeName, Pattern, QueryError, Rate, Subscription};
use khz_synthetic_host::{Host, Shape};

const GROUPS: usize = 800;

/// What the system's allocator keeps of what was used for a moment, the rows of the plan's own lanes, and what the first requests take.
const OTHER_BYTES: u64 = 4 << 20;

/// The text of control groups with long names; `round` is in each of their numbers.
fn text_of(round: u64) -> String {
    let words = ["cpu_usage", "cpu_user", "cpu_system", "cpu_periods", "cpu_throttled", "cpu_throttled_time"];
    let more = ["cpu_waiting", "memory_waiting", "io_waiting", "tasks"];
    let long = "abcdefghij".repeat(9);
    let mut text = String::new();
    for number in 0..GROUPS {
        text += &format!("cgroup system.slice/{long}-{number:04}.service");
        for word in words.iter().chain(&more) {
            text += &format!(" {word}={}", 10_000_000 + round * 1_000 + number as u64);
        }
        text += &format!(" :kind=service :path=system.slice/{long}-{number:04}.service\n");
    }
    text + &format!("* count={GROUPS}\n")
}

/// The memory of this process: its own, and that of rings.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kilobytes = |name: &str| line(name).trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    (kilobytes("RssAnon:") + kilobytes("RssShmem:")) << 10
}

/// The limit only ends a hanging test.
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn value(agent: &Agent, name: &str) -> u64 {
    let answer = agent.query();
    let patterns = [Pattern::new(name).unwrap()];
    let answer = futures_executor::block_on(answer.latest(&patterns, Nanos(0))).unwrap();
    answer.nodes[0].1[0].reading.value().unwrap()
}

/// A lane of these series for each of these rates, as far as there is memory, and how many were refused.
fn lanes(agent: &Agent, pattern: &str, rates: std::ops::RangeInclusive<u64>) -> (Vec<LaneHandle>, u64) {
    let (mut lanes, mut refused) = (Vec::new(), 0);
    for hz in rates {
        match agent.follow(&[Pattern::new(pattern).unwrap()], Rate::from_hz(hz).unwrap(), false) {
            Ok(lane) => lanes.push(lane),
            Err(error @ QueryError::Full { .. }) => {
                assert!(
                    error.to_string().contains("the limit of 16 MiB for the lanes that readers open"),
                    "{error}"
                );
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (lanes, refused)
}

fn interest() -> Interest {
    Interest::new(vec![Pattern::everything()], "5Hz".parse().unwrap(), false)
}

/// Readers of everything at the base lane's rate, as far as there is memory, and how many of a hundred were refused.
fn readers(agent: &Agent) -> (Vec<Box<dyn Subscription>>, usize) {
    let (mut readers, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        match agent.query().subscribe(interest()) {
            Ok(reader) => readers.push(reader),
            Err(error) => {
                let expected = "the limit of 16 MiB for the readers at this node is reached";
                assert!(error.to_string().starts_with(expected), "{error}");
                refused += 1;
            }
        }
    }
    (readers, refused)
}

/// Until each ring has overwritten its oldest rows.
fn fill(lanes: &[LaneHandle]) {
    wait_for("a full ring", || lanes.iter().all(|lane| lane.reader().oldest() > 0));
}

fn host() -> (PathBuf, File) {
    let root = std::env::temp_dir().join(format!("khz-lanes-memory-{}", std::process::id()));
    Host::new(Shape { cpus: 2, interrupts: 4, interfaces: 1, disks: 1 }, 2026).write(&root).unwrap();
    let captured = root.join(khz_parse::control_groups::FILE.captured_path());
    std::fs::create_dir_all(captured.parent().unwrap()).unwrap();
    std::fs::write(&captured, text_of(0)).unwrap();
    (root, File::options().write(true).open(captured).unwrap())
}

#[test]
fn however_many_lanes_readers_open_they_take_no_more_than_their_part_of_the_memory() {
    let (root, groups) = host();
    let ring = RingSize::Bytes(ByteSize(1 << 20));
    let plan =
        Plan { ring, base_rate: "5Hz".parse().unwrap(), ..Plan::new(&root, NodeName::new("n1").unwrap()) };
    let agent = Agent::start(plan).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // All numbers change all the time, so that rows are large.
            for round in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                groups.write_all_at(text_of(round).as_bytes(), 0).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let check = || {
            wait_for("the first rows", || agent.query().status()[0].lanes[0].rows > 5);
            assert_eq!(value(&agent, "khz.lanes.refused"), 0);
            let before = memory();
            let most = before + LANES_BYTES_MIN.0 + OTHER_BYTES;
            let (all, refused) = lanes(&agent, "*", 10..=29);
            assert!(
                all.len() >= 3 && refused == 20 - all.len() as u64,
                "{} lanes, {refused} refused",
                all.len()
            );
            assert_eq!(value(&agent, "khz.lanes.refused"), refused);
            fill(&all);
            let held = value(&agent, "khz.lanes.bytes");
            assert!(held <= LANES_BYTES_MIN.0, "{held}");
            let now = memory();
            assert!(now <= most, "{} lanes took {} of {held} bytes", all.len(), now - before);
            println!("{} lanes, {held} bytes counted, {} there", all.len(), now - before);
            // The books are right: most of what is counted is there.
            assert!(now - before > held / 2, "{} lanes took {} of {held} bytes", all.len(), now - before);

            // Those that nobody reads any more close for others.
            let count = all.len();
            drop(all);
            let (others, _) = lanes(&agent, "*", 30..=49);
            assert_eq!(others.len(), count);
            fill(&others);
            assert!(memory() <= most, "{} more than before", memory() - before);

            // Small lanes fit beside one of the large ones, as many as there may be: the ring of that one becomes shorter.
            let mut others = others;
            others.truncate(1);
            let (small, refused) = lanes(&agent, "load.*", 2..=17);
            assert_eq!((small.len(), refused), (16, 0), "of {LANES_MAX}");
            assert!(value(&agent, "khz.lanes.bytes") <= LANES_BYTES_MIN.0);
            assert!(memory() <= most, "{} more than before", memory() - before);

            // Readers of the same lane hold their columns and last readings.
            let before = memory();
            let (mut readers, refused) = readers(&agent);
            assert!(readers.len() > 40 && refused == 100 - readers.len(), "{} readers", readers.len());
            let now = memory();
            assert!(
                now <= before + READERS_BYTES.0 + OTHER_BYTES,
                "{} readers took {}",
                readers.len(),
                now - before
            );
            assert!(readers.iter_mut().all(|reader| !reader.poll().is_empty()));
            readers.pop();
            readers.push(agent.query().subscribe(interest()).unwrap());
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        is_over.store(true, Ordering::Relaxed);
        if let Err(problem) = outcome {
            std::panic::resume_unwind(problem);
        }
    });
    agent.stop();
    std::fs::remove_dir_all(root).unwrap();
}
