//! Programs at an agent, in a real child process: what comes out of them, what a hostile one does to others, and what its death costs.

#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use khz_gather::{Agent, Handlers, Plan, ProgramCounts, Programs};
use khz_model::{
    ChannelName, ChannelTerms, Delivery, Interest, NodeName, Notice, Pattern, QueryError, Rate, Reading,
    RowNumber, Stamp, Subscription,
};
use khz_plan::{Handler, PackedProgram, Values};
use khz_program::ProgramHash;
use khz_sandbox::{ChildCommand, Sandbox, Settings};

/// What every program has: a memory, room for sixteen series, a value `n` that counts rows at 3072, and its exports.
const FRAME: &str = r#"
(import "khz" "output" (func $output (param i32 i32) (result i32)))
(import "khz" "put" (func $put (param i32 f64)))
(import "khz" "say" (func $say (param i32 i32)))
(memory (export "memory") 1)
(data (i32.const 0) "\00\04\00\00\80\08\00\00\10\00\00\00")
(data (i32.const 2560) "n")
(func (export "khz_version") (result i32) (i32.const 1))
(func (export "khz_room") (result i32) (i32.const 0))
(func (export "khz_begin") (param i32) (result i32)
  (drop (call $output (i32.const 2560) (i32.const 1))) (i32.const 0))
(func $count (result f64)
  (f64.store (i32.const 3072) (f64.add (f64.load (i32.const 3072)) (f64.const 1)))
  (f64.load (i32.const 3072)))
"#;

fn module(row: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {FRAME} (func (export \"khz_row\") (result i32) {row}))")).unwrap()
}

/// Its rows are numbered.
fn counter() -> Vec<u8> {
    module("(call $put (i32.const 0) (call $count)) (i32.const 1)")
}

fn packed(module: &[u8]) -> PackedProgram {
    let packed = khz_program::pack(module).unwrap().into();
    PackedProgram { hash: *ProgramHash::of(module).bytes(), packed }
}

fn interest(name: &str, program: PackedProgram, hz: u64) -> Interest {
    let handler = Handler { values: Values::Program(program), ..Handler::default() };
    let handler = handler.to_bytes().unwrap().into();
    let terms = Arc::new(ChannelTerms { name: ChannelName::new(name).unwrap(), handler });
    let patterns = vec![Pattern::new("load.*").unwrap()];
    Interest { channel: Some(terms), ..Interest::new(patterns, Rate::from_hz(hz).unwrap(), true) }
}

/// An agent on this machine that executes programs.
struct Node {
    agent: Agent,
    sandbox: Sandbox,
    _turn: Turn,
}

/// Tests that look at the children of this process, or kill them, run alone.
static CHILDREN: RwLock<()> = RwLock::new(());

/// A test's part of that.
enum Turn {
    WithOthers { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

impl Node {
    fn new(allowed: Option<Vec<ProgramHash>>) -> Self {
        let guard = CHILDREN.read().unwrap_or_else(PoisonError::into_inner);
        Node::of(allowed, Turn::WithOthers { _guard: guard })
    }

    fn alone() -> Self {
        let guard = CHILDREN.write().unwrap_or_else(PoisonError::into_inner);
        Node::of(None, Turn::Alone { _guard: guard })
    }

    fn of(allowed: Option<Vec<ProgramHash>>, turn: Turn) -> Self {
        let words = ["the_child", "--exact", "--ignored", "--nocapture"].map(str::to_owned).to_vec();
        let child = ChildCommand { program: std::env::current_exe().unwrap(), words };
        let sandbox = Sandbox::new(Settings { child, allowed }).unwrap();
        let mut plan = Plan::new("/", NodeName::new("n1").unwrap());
        plan.sources.retain(|source| source.file.name == "loadavg");
        plan.handlers = Handlers::Programs;
        plan.programs = Some(Arc::new(sandbox.clone()));
        Node { agent: Agent::start(plan).unwrap(), sandbox, _turn: turn }
    }

    fn follow(&self, name: &str, module: &[u8], hz: u64) -> Followed {
        self.try_follow(name, packed(module), hz).unwrap()
    }

    fn try_follow(&self, name: &str, program: PackedProgram, hz: u64) -> Result<Followed, QueryError> {
        let rows = self.agent.query().subscribe(interest(name, program, hz))?;
        Ok(Followed { rows, values: Vec::new(), notices: Vec::new(), lost: 0 })
    }

    /// For a reader that has the rows up to these places.
    fn follow_after(&self, name: &str, module: &[u8], hz: u64, places: &[(NodeName, RowNumber)]) -> Followed {
        let rows = self.agent.query().subscribe_after(interest(name, packed(module), hz), places);
        Followed { rows: rows.unwrap(), values: Vec::new(), notices: Vec::new(), lost: 0 }
    }

    fn counts(&self, channel: &str) -> ProgramCounts {
        let mut found = [0; 8];
        self.sandbox.counts(&mut |name, counts| {
            if name.name() == channel {
                found = counts;
            }
        });
        found
    }
}

/// A reader of a program's rows.
struct Followed {
    rows: Box<dyn Subscription>,
    /// The values of the rows.
    values: Vec<(Stamp, f64)>,
    notices: Vec<Notice>,
    lost: u64,
}

impl Followed {
    fn take(&mut self) {
        for Delivery { rows, lost, .. } in self.rows.poll() {
            self.lost += lost;
            for row in rows {
                if let [Reading::Present(bits)] = row.readings[..] {
                    self.values.push((row.stamp, f64::from_bits(bits)));
                }
            }
        }
        self.notices.extend(self.rows.notices());
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Followed) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what} never came: {:?}", self.notices);
            std::thread::sleep(Duration::from_millis(5));
            self.take();
        }
    }

    fn says(&self, text: &str) -> bool {
        self.notices.iter().any(|notice| notice.text.contains(text))
    }
}

/// The processes that this test has started as children.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    children
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

#[test]
#[ignore = "the other end of the tests here: they start it as a process"]
fn the_child() {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    if std::fs::read_link("/proc/self/fd/0").is_ok_and(|what| what.to_string_lossy().starts_with("socket:")) {
        khz_sandbox::child::run(socket);
        std::process::exit(0);
    }
}

#[test]
#[ignore = "a test here starts it as a process"]
fn the_prisoner() {
    let Some(act) = std::env::var_os("KHZ_PRISONER") else { return };
    let how = khz_sandbox::confine().unwrap();
    assert!(how.by_seccomp && how.by_landlock, "{how}");
    match act.to_str().unwrap() {
        "nothing" => std::process::exit(42),
        "file" => drop(std::fs::File::open("/etc/passwd")),
        "program" => drop(Command::new("/bin/true").spawn()),
        "socket" => drop(std::net::TcpListener::bind("127.0.0.1:0")),
        _ => unreachable!(),
    }
    std::process::exit(0);
}

#[test]
fn who_is_confined_opens_no_file_and_starts_no_program_and_no_connection() {
    let prisoner = |act: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_prisoner", "--exact", "--ignored", "--nocapture"]).env("KHZ_PRISONER", act);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
    };
    assert_eq!(prisoner("nothing").code(), Some(42));
    for act in ["file", "program", "socket"] {
        const SIGSYS: i32 = 31;
        assert_eq!(prisoner(act).signal(), Some(SIGSYS), "{act}");
    }
}

#[test]
fn each_row_of_the_lane_is_executed_once_and_its_rows_have_the_times_of_their_rows() {
    let node = Node::alone();
    let mut rows = node.follow("counted", &counter(), 100);
    rows.until("a second of rows", |rows| rows.values.len() > 100);
    let numbers: Vec<f64> = rows.values.iter().map(|(_, value)| *value).collect();
    let first = numbers[0];
    assert_eq!(numbers, (0..numbers.len()).map(|n| first + n as f64).collect::<Vec<_>>());
    assert_eq!(rows.lost, 0);
    let gaps = rows.values.windows(2).map(|two| two[1].0.boot.since(two[0].0.boot).0 / 1_000_000);
    assert!(gaps.clone().all(|gap| gap > 0), "{:?}", gaps.collect::<Vec<_>>());
    let before = children().len();
    drop(rows);
    // Readers of the same program share it, and it goes on for a while.
    let mut again = node.follow("counted", &counter(), 100);
    again.until("rows", |rows| rows.values.len() > 10);
    assert!(again.values[0].1 > first + 50.0, "it went on: {:?}", again.values[0]);
    assert_eq!(children().len(), before);
    again.until("counts", |_| node.counts("counted")[0] > 100);
    let [rows_in, rows_out, lost, failures, fuel, fuel_most, time, memory] = node.counts("counted");
    assert!(rows_in == rows_out && lost == 0 && failures == 0, "{rows_in} {rows_out} {lost} {failures}");
    assert!(fuel > rows_in && fuel_most > 0 && time > 0 && memory == 65_536);
}

#[test]
fn a_program_that_fails_is_told_and_begun_again_and_another_one_does_not_notice() {
    let node = Node::new(None);
    let mut good = node.follow("good", &counter(), 100);
    // At its fifth row: a trap, a loop without end, an address outside its memory.
    let fifth = |act: &str| {
        module(&format!(
            "(if (f64.eq (call $count) (f64.const 5)) (then {act})) (call $put (i32.const 0) (f64.load (i32.const 3072))) (i32.const 1)"
        ))
    };
    for (name, act, told) in [
        ("trap", "unreachable", "unreachable"),
        ("loop", "(loop $l (br $l))", "fuel"),
        ("wild", "(call $say (i32.const -1) (i32.const 100))", "address"),
        ("stack", "(drop (call $output (i32.const 2560) (i32.const 1)))", "khz_begin"),
    ] {
        let mut bad = node.follow(name, &fifth(act), 100);
        bad.until("two failures", |_| node.counts(name)[3] >= 2);
        bad.until("a notice", |bad| bad.says("sends no rows now: its program has failed"));
        assert!(bad.says(told), "{name}: {:?}", bad.notices);
        bad.until("rows again", |bad| bad.values.iter().filter(|(_, value)| *value == 1.0).count() > 1);
        assert!(bad.values.iter().all(|(_, value)| *value < 5.0), "each life has an empty memory");
        bad.until("missed rows", |_| node.counts(name)[2] > 0);
    }
    good.until("rows", |rows| rows.values.len() > 50);
    let first = good.values[0].1;
    assert!(good.values.iter().enumerate().all(|(at, (_, value))| *value == first + at as f64));
    assert_eq!((good.lost, node.counts("good")[3]), (0, 0));
}

#[test]
fn what_is_no_program_and_what_the_node_does_not_allow_is_refused_with_the_reason() {
    let allowed = ProgramHash::of(&counter());
    let node = Node::new(Some(vec![allowed]));
    let other = module("(i32.const 0)");
    let refused = node.try_follow("other", packed(&other), 10).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("does not allow the program")
            && refused.contains(&ProgramHash::of(&other).to_string())
    );
    let mut good = node.follow("good", &counter(), 10);
    good.until("rows", |rows| rows.values.len() > 3);
    // A name that is allowed, and another module.
    let forged = PackedProgram { hash: *allowed.bytes(), ..packed(&other) };
    let garbage = PackedProgram { hash: *allowed.bytes(), packed: vec![7; 100].into() };
    for (name, program) in [("forged", forged), ("garbage", garbage)] {
        let mut bad = node.try_follow(name, program, 10).unwrap();
        bad.until("a notice", |bad| bad.says("damaged"));
        assert!(bad.values.is_empty());
    }
    let without = Agent::start(Plan::new("/", NodeName::new("n1").unwrap())).unwrap();
    let refused = without.query().subscribe(interest("a", packed(&counter()), 10)).map(drop).unwrap_err();
    assert!(refused.to_string().contains("this node executes no programs"), "{refused}");
}

#[test]
fn the_death_of_the_child_is_told_and_costs_the_rows_until_it_is_back() {
    let node = Node::alone();
    let mut rows = node.follow("counted", &counter(), 100);
    rows.until("rows", |rows| rows.values.len() > 20);
    rows.until("counts", |_| node.counts("counted")[0] > 20);
    let before = node.counts("counted");
    let killed = children();
    for pid in &killed {
        let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    rows.until("a notice", |rows| rows.says("the process that executes programs has died (signal: 9"));
    let had = rows.values.len();
    rows.until("rows again", |rows| rows.values.len() > had + 20);
    assert!(rows.values[had..].iter().any(|(_, value)| *value == 1.0), "with an empty memory");
    rows.until("more counts", |_| node.counts("counted")[0] > before[0]);
    assert!(children().iter().all(|pid| !killed.contains(pid)));
}

#[test]
fn a_program_that_replaces_another_goes_on_with_the_row_after_its_last() {
    let node = Node::new(None);
    // A reader of the rows themselves tells which there were.
    let plain = Interest::new(vec![Pattern::new("load.*").unwrap()], Rate::from_hz(100).unwrap(), true);
    let mut all = node.agent.query().subscribe(plain).unwrap();
    let mut stamps: Vec<Stamp> = Vec::new();
    let mut taken: Vec<Stamp> = Vec::new();
    let mut present = node.follow("replaced", &counter(), 100);
    // A reader that does not know of the new versions.
    let mut other = node.follow("replaced", &counter(), 100);
    present.until("rows", |rows| rows.values.len() > 20);
    for version in 0..8 {
        // Another module with the same behaviour: a number more in its code.
        let next = module(&format!(
            "(drop (i32.const {version})) (call $put (i32.const 0) (call $count)) (i32.const 1)"
        ));
        if version % 2 == 0 {
            present.take();
        }
        let places = present.rows.places();
        taken.extend(std::mem::take(&mut present.values).iter().map(|(stamp, _)| *stamp));
        std::thread::sleep(Duration::from_millis(7 * version));
        // Readers come to the new version before they leave the old one, or afterwards.
        let left = (version % 4 < 2).then_some(present);
        let mut second = node.follow_after("replaced", &next, 100, &places);
        drop(left);
        second.until("rows of the new version", |rows| {
            rows.values.len() > 20 && rows.values.iter().any(|(_, n)| *n == 1.0)
        });
        stamps.extend(all.poll().iter().flat_map(|of| of.rows.iter().map(|row| row.stamp)));
        present = second;
    }
    taken.extend(present.values.iter().map(|(stamp, _)| *stamp));
    other.take();
    let had = other.values.iter().map(|(stamp, _)| *stamp).collect();
    for taken in [taken, had] {
        let (begin, end) = (taken[0].boot, taken.last().unwrap().boot);
        let between = stamps.iter().filter(|stamp| (begin..=end).contains(&stamp.boot));
        let (of_rows, of_program): (Vec<_>, Vec<_>) =
            (between.map(|stamp| stamp.boot).collect(), taken.iter().map(|stamp| stamp.boot).collect());
        assert_eq!(of_rows, of_program, "no row lost, none twice");
    }
    assert_eq!(node.counts("replaced")[2], 0);
}

#[test]
fn the_newest_version_of_a_program_is_executed_for_all_who_read_it() {
    let node = Node::new(None);
    let negative = module("(call $put (i32.const 0) (f64.neg (call $count))) (i32.const 1)");
    let mut one = node.follow("both", &counter(), 50);
    one.until("rows", |rows| rows.values.len() > 10);
    let mut two = node.follow("both", &negative, 50);
    one.until("rows of the other", |rows| rows.values.iter().any(|(_, value)| *value < 0.0));
    two.until("rows", |rows| rows.values.iter().any(|(_, value)| *value < 0.0));
    let of_one: Vec<_> = one.values.iter().map(|(_, value)| *value).collect();
    let changed = of_one.iter().position(|value| *value < 0.0).unwrap();
    assert!(of_one[..changed].iter().enumerate().all(|(at, value)| *value == at as f64 + of_one[0]));
    assert!(of_one[changed..].iter().enumerate().all(|(at, value)| *value == -(at as f64 + 1.0)));
    // A version that is none: the one before is not executed any more, and the one after is.
    let mut broken =
        node.try_follow("both", PackedProgram { hash: [1; 32], packed: vec![7; 100].into() }, 50).unwrap();
    broken.until("a notice", |rows| rows.says("damaged"));
    let mut again = node.follow("both", &counter(), 50);
    again.until("rows", |rows| rows.values.iter().any(|(_, value)| *value == 5.0));
    one.until("rows", |rows| rows.values.last().is_some_and(|(_, value)| *value > 4.0));
}
