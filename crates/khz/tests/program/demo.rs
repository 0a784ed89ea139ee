//! `khz demo` as people start it: what it prints is true, every fault is seen as it says, and nothing of it stays.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::process::{code, err, khz, out, run, until};

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A demo with a directory of its own for everything that it could leave: it is its HOME, too.
struct Demo {
    child: Child,
    home: PathBuf,
    said: PathBuf,
}

impl Demo {
    fn start(name: &str, words: &[&str]) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("demo-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).unwrap();
        Demo::start_in(home, words)
    }

    fn start_in(home: PathBuf, words: &[&str]) -> Self {
        let said = home.with_extension("out");
        let file = std::fs::File::create(&said).unwrap();
        let mut command = khz(&[&["demo"], words].concat());
        for name in ["TMPDIR", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            command.env(name, &home);
        }
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Demo { child, home, said }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    /// Waits until it has said this. Returns the line.
    fn wait_for(&self, what: &str) -> String {
        let line = || self.said().lines().find(|line| line.contains(what)).map(str::to_owned);
        until(PATIENCE, &format!("it says '{what}'"), || line().is_some());
        line().unwrap()
    }

    fn url(&self) -> String {
        let line = self.wait_for("made-up nodes at ");
        line.rsplit_once(" at ").unwrap().1.trim_end_matches("/?tour").to_owned()
    }

    fn ask(&self, words: &[&str]) -> Output {
        khz(&[words, &["--server", &self.url()]].concat()).output().unwrap()
    }

    /// Runs the command that follows the line with this text, as a reader would paste it.
    fn paste(&self, after: &str, more: &str) -> String {
        self.wait_for(after);
        let command = || {
            let said = self.said();
            let command =
                said.split_once(after)?.1.lines().find_map(|line| line.trim().strip_prefix("terminal  "));
            command.map(|command| format!("{command} {more}"))
        };
        until(PATIENCE, "the command stands there", || command().is_some());
        let command = command().unwrap();
        let mut shell = Command::new("sh");
        let pasted = shell.args(["-c", &command]).env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        // 3: a node is down.
        assert!(matches!(code(&pasted), 0 | 3), "{command}: {}", err(&pasted));
        out(&pasted)
    }

    fn nodes_are(&self, state: &str, count: usize) {
        until(PATIENCE, &format!("{count} nodes are {state}"), || {
            out(&self.ask(&["nodes", "--json"])).matches(&format!("\"state\":\"{state}\"")).count() == count
        });
    }

    fn signal(&mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }

    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.home).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.home);
        let _ = std::fs::remove_file(&self.said);
    }
}

/// The node that a line of the tour begins with: "00:20  node12 of the job becomes slow".
fn node_in(line: &str) -> String {
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn every_fault_is_seen_as_the_tour_says_and_nothing_stays() {
    let mut demo = Demo::start("tour", &["--nodes", "24", "--speed", "2"]);
    demo.nodes_are("up", 24);
    assert!(demo.paste("run one job", "").contains("node24"));

    let slow = node_in(&demo.wait_for("becomes slow"));
    until(PATIENCE, "its time is stolen", || demo.paste("becomes slow", "--json").contains(&slow));
    let leaking = node_in(&demo.wait_for("begins to leak"));
    assert!(demo.paste("begins to leak", "--count 1").contains(&leaking));

    demo.wait_for("write a checkpoint");
    until(PATIENCE, "the writers write most", || {
        let written = demo.paste("write a checkpoint", "");
        let of_writers = |line: &&str| ["node08", "node09"].iter().any(|name| line.contains(name));
        written.lines().filter(of_writers).count() == 2
    });

    let dying = node_in(&demo.wait_for(" dies"));
    until(PATIENCE, "it is down", || demo.paste(" dies", "").contains(&dying));
    // An alert that a storm leaves no time for on a busy machine is not waited for.
    for (rule, node) in [("StolenUnlikePeers", &*slow), ("MemoryRunsOut", &leaking), ("NodeDown", &dying)] {
        let is_told = |line: &str| line.contains(&format!("alert {rule} fires")) && line.contains(node);
        until(PATIENCE, &format!("{rule} fires at {node}"), || demo.said().lines().any(is_told));
    }
    assert!(demo.paste("The storm is over", "").contains("MemoryRunsOut"));
    let pages = demo.paste("is back", "--json");
    assert!(pages.contains(&dying), "what was wrong before is known after: {pages}");
    demo.nodes_are("up", 24);
    demo.paste("That was the tour", "");

    let maps = std::fs::read_to_string(format!("/proc/{}/maps", demo.child.id())).unwrap();
    assert!(!maps.contains("/dev/shm"), "{maps}");
    assert!(!demo.said().contains("khz: "), "{}", demo.said());
    assert!(
        !demo.said().contains("UnlikePeers fires: node["),
        "healthy nodes raise no alarm: {}",
        demo.said()
    );
    assert_eq!(demo.left().len(), 1);
    assert_eq!(demo.signal("INT"), Some(0), "{}", demo.said());
    assert_eq!(demo.left(), Vec::<String>::new());
    assert!(demo.said().ends_with("Nothing of it is left.\n"), "{}", demo.said());
}

#[test]
fn two_demos_run_at_once_each_at_a_port_of_its_own_and_end_by_themselves() {
    let words = ["--nodes", "8", "--for", "15s"];
    let mut demos = [Demo::start("one", &words), Demo::start("two", &words)];
    assert_ne!(demos[0].url(), demos[1].url());
    for demo in &demos {
        demo.nodes_are("up", 8);
    }
    assert!(demos.iter().any(|demo| demo.said().contains("is taken; the demo has port ")));
    for demo in &mut demos {
        assert_eq!(demo.child.wait().unwrap().code(), Some(0), "{}", demo.said());
        assert_eq!(demo.left(), Vec::<String>::new());
    }
}

#[test]
fn what_a_killed_demo_left_is_removed_by_the_next_one() {
    let mut killed = Demo::start("killed", &["--nodes", "8"]);
    killed.nodes_are("up", 8);
    killed.signal("KILL");
    let left = killed.left();
    assert_eq!(left.len(), 1, "{left:?}");
    let next = Demo::start_in(killed.home.clone(), &["--nodes", "8"]);
    next.url();
    assert!(!next.left().contains(&left[0]), "{:?}", next.left());
    assert_eq!(next.left().len(), 1);
}

#[test]
fn a_demo_ends_with_its_terminal() {
    let mut demo = Demo::start("hangup", &["--nodes", "8"]);
    demo.nodes_are("up", 8);
    assert_eq!(demo.signal("HUP"), Some(0), "{}", demo.said());
    assert_eq!(demo.left(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_shown_is_refused_and_leaves_nothing() {
    for (words, problem) in [
        (&["--nodes", "7"][..], "--nodes 7: a demo has 8 to 4096 nodes"),
        (&["--rate", "often"], "--rate: "),
        (&["--for", "ever"], "--for: "),
        (&["--listen", "here"], "--listen"),
    ] {
        let refused = run(&[&["demo"], words].concat());
        assert_eq!(code(&refused), 2, "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(problem), "{words:?}: {}", err(&refused));
    }
    let nowhere = khz(&["demo"]).env("TMPDIR", "/nonexistent").output().unwrap();
    assert_eq!(code(&nowhere), 1);
    assert!(err(&nowhere).contains("TMPDIR names another place"), "{}", err(&nowhere));
}
