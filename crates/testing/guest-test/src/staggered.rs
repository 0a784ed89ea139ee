//! A parallel program that starts on small machines, one after the other, and what they recorded of it. It refuses to
//! judge the recording.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::guest::Guest;
use crate::hub::Hub;
use crate::{debian, front_end, root, run, small, static_khz, until};

/// The series that are recorded: each exists on every Linux.
pub const SERIES: [&str; 2] = ["kernel.interrupts", "cpu.all.system"];

/// The memory of a guest, in MiB: with less the kernel cannot unpack the file system.
const MEMORY_MIB: u32 = 128;

/// The recorded time before the first process starts, and after the program's end. At the end some nodes have sent rows
/// that are up to a second newer than others'.
const MARGIN: Duration = Duration::from_secs(3);

/// A guest's clock is set again if that took longer: it is then at most this far behind.
const CLOCK_SET_WITHIN: Duration = Duration::from_millis(100);

/// How many machines there are, and how the program starts on them.
pub struct Plan {
    /// Machines, from `node1` on.
    pub nodes: usize,
    /// The least time between two starts. A process never starts before its predecessor is ready.
    pub apart: Duration,
    /// Rows a second.
    pub hertz: u32,
}

/// When the program ran: seconds since 1970, on this machine's clock.
#[derive(Clone, Debug)]
pub struct Run {
    /// For each process, the time in which it fetched and unpacked its input.
    pub turns: Vec<Turn>,
    /// When the processes had exchanged their messages.
    pub end: f64,
}

/// The time in which one process had the machines for itself.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The node of the process.
    pub node: String,
    /// When it began to fetch its input.
    pub from: f64,
    /// When its input was unpacked.
    pub to: f64,
}

/// A row of a recording. It has a value of each series: there is no place for an absent one.
#[derive(Clone, Debug)]
pub struct Row {
    /// The node that made it.
    pub node: String,
    /// Seconds since 1970, on the node's clock.
    pub time: f64,
    /// Values of [`SERIES`], in the same order: interrupts, and seconds of system time.
    pub values: [f64; 2],
}

/// Boots the machines, runs the program, and writes the recording.
pub fn record(plan: &Plan, recording: &Path) -> Run {
    let begin = Instant::now();
    let hub = Hub::start();
    let mut guests = boot(plan);
    guests.iter_mut().zip(1..).for_each(|(guest, number)| start_agent(guest, number, &hub));
    until("every node reports to the hub", || offsets(&hub).len() == plan.nodes);
    for (node, offset) in offsets(&hub) {
        eprintln!("{node}: its clock differs by {:+.0} ms from the hub's", offset * 1e3);
    }
    eprintln!("{} machines were ready after {:.0} s", plan.nodes, begin.elapsed().as_secs_f64());
    let recorder = Recorder::start(plan, &hub, recording);
    until("every node sends rows to the recorder", || sending(&hub) == plan.nodes);
    std::thread::sleep(MARGIN);
    let run = play(plan, &mut guests);
    std::thread::sleep(MARGIN);
    recorder.end();
    // Before its agents, which it would report as gone.
    drop(hub);
    run
}

/// One after the other: a machine that boots needs a whole processor of ours.
fn boot(plan: &Plan) -> Vec<Guest> {
    let kernel = debian::kernel();
    let image = small::image("staggered", &kernel, &small::NETWORK)
        .with_copy(&root().join("examples/staggered/rank.sh"), "bin/rank")
        .pack();
    let boot = |number| {
        // Each guest removes its image in the end.
        let own = image.with_file_name(format!("staggered-{}-{number}.cpio", std::process::id()));
        std::fs::hard_link(&image, &own)
            .unwrap_or_else(|error| panic!("cannot link {}: {error}", own.display()));
        let guest = Guest::boot(&kernel, own, MEMORY_MIB, small::KERNEL_WORDS, &small::NETWORK_OF_QEMU);
        eprintln!("node{number} runs");
        guest
    };
    let guests = (1..=plan.nodes).map(boot).collect();
    let _ = std::fs::remove_file(image);
    guests
}

/// An agent that reads one file of the kernel.
fn start_agent(guest: &mut Guest, number: usize, hub: &Hub) {
    guest.say(small::JOIN_NETWORK);
    guest.say(&format!("printf '%032x\\n' {number} > /etc/machine-id"));
    set_clock(guest);
    let agent = format!("khz agent --node node{number} --hub 10.0.2.2:{} --insecure", hub.link_port);
    guest.say(&format!("{agent} --sources stat --local-rate 1Hz --ring 1MiB > /tmp/agent.log 2>&1 &"));
}

/// Sets the guest's clock when a second of ours begins, since a guest boots with whole seconds, and `date` sets no others.
fn set_clock(guest: &mut Guest) {
    until("the guest's clock is set in time", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
        let next = Duration::from_secs(now.as_secs() + 1);
        std::thread::sleep(next - now);
        let since = Instant::now();
        guest.say(&format!("date -s @{}", next.as_secs()));
        since.elapsed() < CLOCK_SET_WITHIN
    });
}

/// What the hub says of each node.
fn nodes(hub: &Hub) -> Vec<Value> {
    let (_, nodes) = hub.ask(&["nodes", "--json"]);
    nodes.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How far the clock of each node that the hub knows is ahead of ours, in seconds.
fn offsets(hub: &Hub) -> Vec<(String, f64)> {
    let offset = |node: &Value| {
        let offset = node["clock_offset"].as_str()?.parse().ok()?;
        Some((node["node"].as_str()?.to_owned(), offset))
    };
    nodes(hub).iter().filter_map(offset).collect()
}

/// How many nodes send rows of a lane that exists because somebody asked for it: here the recorder.
fn sending(hub: &Hub) -> usize {
    let is_asked_for =
        |lane: &Value| lane["name"] != "base" && lane["rows"].as_u64().is_some_and(|rows| rows > 0);
    let is_sending =
        |node: &&Value| node["lanes"].as_array().is_some_and(|lanes| lanes.iter().any(is_asked_for));
    nodes(hub).iter().filter(is_sending).count()
}

/// Starts a process on each machine in its turn. When all are ready they exchange messages.
fn play(plan: &Plan, guests: &mut [Guest]) -> Run {
    let port = front_end::open();
    let mut turns = Vec::new();
    let begin = Instant::now();
    for (guest, number) in guests.iter_mut().zip(1_u32..) {
        std::thread::sleep((plan.apart * (number - 1)).saturating_sub(begin.elapsed()));
        let from = seconds_now();
        guest.say(&format!("rank start {port}"));
        turns.push(Turn { node: format!("node{number}"), from, to: seconds_now() });
    }
    std::thread::scope(|scope| {
        for guest in guests {
            scope.spawn(move || guest.say(&format!("rank exchange {port}")));
        }
    });
    Run { turns, end: seconds_now() }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_secs_f64()
}

/// A `khz record` that runs as long as a program which ends with its input.
struct Recorder(Child);

impl Recorder {
    /// Returns when there is a recording.
    fn start(plan: &Plan, hub: &Hub, recording: &Path) -> Self {
        let mut command = Command::new(static_khz());
        command.args(["record", "--hub", &format!("127.0.0.1:{}", hub.link_port), "--quiet"]);
        command.args(["--rate", &format!("{}Hz", plan.hertz)]).arg("-o").arg(recording);
        command.args(SERIES.map(|series| format!("node*:{series}")));
        command.args(["--", "sh", "-c", "echo begun; cat"]);
        command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("BUG: it was asked for");
        BufReader::new(out).read_line(&mut line).expect("the recorder can be read");
        assert_eq!(line, "begun\n", "khz record has ended");
        Recorder(child)
    }

    /// Ends it. It waits for rows that nodes have made and not sent.
    fn end(mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("BUG: it is our child");
        assert!(status.success(), "khz record: {status}");
    }
}

/// The rows of a recording. Every row must have a value of each series. A busy host may keep a guest from making rows:
/// such a time has no row here.
pub fn rows(recording: &Path) -> Vec<Row> {
    let exported = run(Command::new(static_khz()).arg("export").arg(recording).arg("--json"));
    let line =
        |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let row = |row: &Value| -> Option<Row> {
        let value = |series: &str| row["values"][series].as_str()?.parse().ok();
        Some(Row {
            node: row["node"].as_str()?.to_owned(),
            time: row["time"].as_str()?.parse().ok()?,
            values: [value(SERIES[0])?, value(SERIES[1])?],
        })
    };
    let lines = exported.lines().map(line).filter(|line| line.get("gap").is_none());
    lines.map(|line| row(&line).unwrap_or_else(|| panic!("not a row with two values: {line}"))).collect()
}
