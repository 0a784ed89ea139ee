//! Programs of the last release on either side of the link, and their files: nobody is cut off, what both know goes on, and
//! values that the older program does not know do not reach it. `cargo xtask test --slow` builds that program; its path is
//! in `KHZ_OLDER`. Without it, the tests are skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A khz of one version.
#[derive(Clone)]
struct Program(PathBuf);

/// The program under test, and the one of the last release; `None`: skipped.
fn both() -> Option<[Program; 2]> {
    let new = Program(env!("CARGO_BIN_EXE_khz").into());
    match std::env::var_os("KHZ_OLDER") {
        Some(path) => Some([new, Program(path.into())]),
        None => {
            khz_skip::skip(
                "KHZ_OLDER does not name the program of the last release, which needs the whole history (git fetch --unshallow)",
            );
            None
        }
    }
}

impl Program {
    /// This program with a place of its own for everything that it writes.
    fn command(&self, place: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KHZ_")) {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", "/nonexistent").env("KHZ_TEXT_LISTEN", "none");
        command.env("KHZ_STATE_DIR", "none").env("KHZ_RUN_DIR", place.join("run"));
        command.env("KHZ_RING_DIR", place.join("rings"));
        command.args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, place: &Path, words: &[&str]) -> Output {
        self.command(place, words).output().unwrap()
    }

    /// A process that is ended with the test; its stderr goes to `place/NAME.log`.
    fn start(&self, place: &Path, name: &str, words: &[&str]) -> Running {
        let log = place.join(format!("{name}.log"));
        let mut command = self.command(place, words);
        command.stdout(std::fs::File::create(place.join(format!("{name}.out"))).unwrap());
        Running { child: command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap(), log }
    }
}

struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A hub and an agent, n1.
struct Cluster {
    place: PathBuf,
    new: Program,
    url: String,
    link: String,
    agent: Running,
    _hub: Running,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn place(name: &str) -> PathBuf {
    let place =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("older-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    place
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Cluster {
    fn start(name: &str, new: &Program, hub: &Program, agent: &Program) -> Self {
        let place = place(name);
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"];
        let hub = hub.start(&place, "hub", &words);
        let announced = until("the hub is there", || {
            let line = std::fs::read_to_string(place.join("hub.out")).unwrap();
            line.ends_with('\n').then_some(line)
        });
        let url = announced.trim_end().rsplit(' ').next().unwrap().to_owned();
        let (_, link) = announced.split_once("report to ").unwrap();
        let link = link.split([' ', ',']).next().unwrap().to_owned();
        let agent = agent.start(&place, "agent", &["agent", "--node", "n1", "--hub", &link]);
        let cluster = Cluster { place, new: new.clone(), url, link, agent, _hub: hub };
        until("n1 is up", || cluster.value("load.1m"));
        cluster
    }

    /// A job publishes to the agent, which must be new for values below zero.
    fn publish(&self, numbers: &[&str]) {
        until("the agent takes what is published", || {
            let published = self.new.run(&self.place, &[&["publish"], numbers].concat());
            published.status.success().then_some(())
        });
    }

    /// What the hub answers for a series of n1.
    fn value(&self, series: &str) -> Option<String> {
        let words = ["get", &format!("n1:{series}"), "--json", "--server", &self.url];
        let answer = self.new.run(&self.place, &words);
        let text = String::from_utf8(answer.stdout).unwrap();
        answer.status.success().then_some(text).filter(|text| text.contains("\"value\":\""))
    }

    /// The node has connected once, and is up.
    fn is_undisturbed(&self) {
        let nodes = self.new.run(&self.place, &["nodes", "--json", "--server", &self.url]);
        let text = String::from_utf8(nodes.stdout).unwrap();
        let node = text.lines().find(|line| line.contains("\"n1\"")).expect("n1");
        let node: Value = serde_json::from_str(node).unwrap();
        assert_eq!((&node["state"], &node["connects"]), (&"up".into(), &1.into()), "{node}");
    }

    /// Records n1 through the hub's link.
    fn record(&self, program: &Program, name: &str) -> PathBuf {
        let path = self.place.join(name);
        let words =
            ["record", "n1:*", "--hub", &self.link, "--for", "3s", "-q", "-o", path.to_str().unwrap()];
        let recorded = program.run(&self.place, &words);
        assert!(recorded.status.success(), "{recorded:?}");
        path
    }
}

/// What a recording says of a series, as JSON lines.
fn exported(program: &Program, place: &Path, path: &Path, pattern: &str) -> Output {
    program.run(place, &["export", path.to_str().unwrap(), "--json", "--match", pattern])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// No number that an unsigned reader makes of -5 or -0.5.
fn has_no_huge_number(text: &str) {
    assert!(!text.contains("18446744073709551"), "{text}");
    assert!(!text.contains("138311"), "{text}");
}

#[test]
#[ignore = "needs the program of the last release"]
fn a_new_agent_stays_at_a_hub_of_the_last_release_and_the_log_says_what_that_does_not_get() {
    let Some([new, old]) = both() else { return };
    let cluster = Cluster::start("new-agent", &new, &old, &new);
    cluster.publish(&["level=-5", "ratio=-0.5"]);
    cluster.publish(&["total=7", "--kind", "counter"]);
    until("the log names what is left out", || cluster.agent.log().contains("it does not get").then_some(()));
    until("what the hub knows", || cluster.value("job.total").filter(|text| text.contains("\"7\"")));
    assert_eq!((cluster.value("job.level"), cluster.value("job.ratio")), (None, None));
    cluster.is_undisturbed();
    // Readers of the old hub, both old and new.
    for (program, name) in [(&new, "new.khzt"), (&old, "old.khzt")] {
        let path = cluster.record(program, name);
        let rows = exported(&new, &cluster.place, &path, "n1:*");
        assert!(text(&rows.stdout).contains("load.1m") && !text(&rows.stdout).contains("job.level"));
        has_no_huge_number(&text(&rows.stdout));
    }
    cluster.is_undisturbed();
}

#[test]
#[ignore = "needs the program of the last release"]
fn an_agent_and_a_reader_of_the_last_release_stay_at_a_new_hub() {
    let Some([new, old]) = both() else { return };
    let cluster = Cluster::start("old-agent", &new, &new, &old);
    for (program, name) in [(&new, "new.khzt"), (&old, "old.khzt")] {
        let path = cluster.record(program, name);
        // Each program reads what the other has recorded.
        for program in [&new, &old] {
            let rows = exported(program, &cluster.place, &path, "n1:load.1m");
            assert!(rows.status.success() && text(&rows.stdout).lines().count() >= 2, "{rows:?}");
        }
    }
    cluster.is_undisturbed();
    // The ring of the old agent, under the eyes of the new program.
    let ring = new.run(&cluster.place, &["ring", "export", "--node", "n1", "--lane", "base", "--json"]);
    assert!(ring.status.success() && text(&ring.stdout).contains("load.1m"), "{ring:?}");
}

#[test]
#[ignore = "needs the program of the last release"]
fn a_reader_of_the_last_release_gets_from_a_new_hub_what_it_knows() {
    let Some([new, old]) = both() else { return };
    let cluster = Cluster::start("old-reader", &new, &new, &new);
    cluster.publish(&["level=-5", "ratio=-0.5"]);
    until("the hub has the value", || cluster.value("job.level").filter(|text| text.contains("\"-5\"")));
    let path = cluster.record(&old, "old.khzt");
    let rows = text(&exported(&new, &cluster.place, &path, "n1:*").stdout);
    assert!(rows.contains("load.1m") && !rows.contains("job.level"), "{rows}");
    has_no_huge_number(&rows);
    let path = cluster.record(&new, "new.khzt");
    let rows = text(&exported(&new, &cluster.place, &path, "n1:job.level").stdout);
    assert!(rows.contains("\"-5\""), "{rows}");
    // A recording that the old program cannot read: it says so, or leaves out what it does not know.
    let read = exported(&old, &cluster.place, &path, "n1:*");
    has_no_huge_number(&text(&read.stdout));
    assert!(read.status.success() || !read.stderr.is_empty(), "{read:?}");
    cluster.is_undisturbed();
}

#[test]
#[ignore = "needs the program of the last release"]
fn a_new_agent_goes_on_with_the_ring_of_the_last_release() {
    let Some([new, old]) = both() else { return };
    let place = place("ring");
    let words = ["agent", "--node", "n1", "--hub", "127.0.0.1:1"];
    let rows = |program: &Program| {
        let shown = program.run(&place, &["ring", "show", "--node", "n1", "--json"]);
        let lines = text(&shown.stdout);
        let base = lines.lines().find(|line| line.contains("\"lane\":\"base\""))?;
        let base: Value = serde_json::from_str(base).unwrap();
        Some((base["epoch"].clone(), base["rows"].as_u64()?))
    };
    let agent = old.start(&place, "old", &words);
    let (epoch, before) = until("rows of the old agent", || rows(&new).filter(|(_, rows)| *rows > 1));
    drop(agent);
    let _agent = new.start(&place, "new", &words);
    let (again, _) = until("rows of the new agent", || rows(&new).filter(|(_, rows)| *rows > before + 1));
    assert_eq!(epoch, again, "it is the same ring");
    let ring = new.run(&place, &["ring", "export", "--node", "n1", "--lane", "base", "--json"]);
    assert!(ring.status.success() && text(&ring.stdout).lines().count() > 2, "{ring:?}");
    std::fs::remove_dir_all(&place).unwrap();
}
