//! A reader that asks for more than the CPU ceiling allows sees that in each command. The ceiling is so low here that any
//! machine exceeds it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Running, code, err, khz, out, run};

/// A thousandth of a core.
const CEILING: [&str; 2] = ["--cpu-max", "0.1%"];

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rows of a watch as they come; it ends with this.
struct Watched {
    child: Child,
    rows: BufReader<std::process::ChildStdout>,
}

impl Watched {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let rows = BufReader::new(child.stdout.take().unwrap());
        Watched { child, rows }
    }

    /// The first row that is like this.
    fn row(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.rows.read_line(&mut line).unwrap() > 0, "the watch has ended: {}", self.end());
            let row: Value = serde_json::from_str(&line).unwrap();
            if is_it(&row) {
                return row;
            }
            assert!(Instant::now() < end, "no such row: {line}{}", self.end());
        }
    }

    /// Its stderr.
    fn end(&mut self) -> String {
        let _ = self.child.kill();
        let mut message = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut message).unwrap();
        let _ = self.child.wait();
        message
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_slowed(row: &Value) -> bool {
    row["rate"].as_str().is_some_and(|rate| rate != "1000Hz")
}

fn is_announced(message: &str) -> bool {
    message.contains("n1: runs ") && message.contains(" instead of 1000Hz: ") && message.contains("cpu_max")
}

#[test]
fn a_watch_of_this_node_says_when_its_rows_come_slower_and_each_row_says_its_rate() {
    let running = Running::start(&CEILING);
    let words = ["watch", "*", "--exact", "--rate", "1000", "--json", "--server", &running.url];
    let mut watched = Watched::start(&mut khz(&words));
    watched.row(is_slowed);
    let message = watched.end();
    assert!(is_announced(&message), "{message}");
    // A reader that asks later learns it at once: the first row has the granted rate.
    let output = run(&[&words[..], &["--count", "1"]].concat());
    let row: Value = serde_json::from_str(out(&output).lines().next().unwrap()).unwrap();
    assert!(is_slowed(&row), "{row}");
    assert!(is_announced(&err(&output)), "{}", err(&output));
}

#[test]
fn the_door_of_a_node_lists_its_lanes_and_marks_the_slowed_ones_as_a_hub_does() {
    let running = Running::start(&CEILING);
    let words = ["watch", "*", "--exact", "--rate", "1000", "--json", "--server", &running.url];
    let mut watched = Watched::start(&mut khz(&words));
    watched.row(is_slowed);
    let nodes = run(&["nodes", "--server", &running.url]);
    let listed = out(&nodes);
    assert!(listed.contains("<1000Hz"), "{listed}");
    let message = "n1: slower than asked, to stay below the CPU ceiling (cpu_max)";
    assert!(listed.contains(message), "{listed}");
    let nodes = run(&["nodes", "--json", "--server", &running.url]);
    let node: Value = serde_json::from_str(out(&nodes).trim()).unwrap();
    let base = &node["lanes"][0];
    assert_eq!(base["name"], "base");
    assert!(base["rows"].as_u64() > Some(0) && base["slots"].as_u64() > Some(0), "{base}");
}

#[test]
fn a_watch_that_gathers_itself_says_it_too() {
    let words = ["watch", "*", "--exact", "--rate", "1000", "--json", "--direct", "--node", "n1"];
    let mut watched = Watched::start(khz(&words).env("KHZ_CPU_MAX", CEILING[1]));
    watched.row(is_slowed);
    let message = watched.end();
    assert!(is_announced(&message), "{message}");
}

#[test]
fn readers_of_a_hub_and_its_list_of_nodes_say_which_nodes_are_slowed() {
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let mut agent = hub.beside(&["agent", "--node", "n1", "--hub", &link]);
    agent.args(CEILING);
    let _agent = Running::of(agent);
    // At the hub's local socket: over TCP an unknown caller is a reader, with at most 100 Hz.
    let words = ["watch", "n1:*", "--exact", "--rate", "1000", "--json"];
    let mut watched = Watched::start(&mut hub.beside(&words));
    watched.row(is_slowed);
    let listed = || {
        let output = khz(&["nodes", "--server", &hub.url]).output().unwrap();
        out(&output)
    };
    let end = Instant::now() + PATIENCE;
    while !listed().contains("<1000Hz") {
        assert!(Instant::now() < end, "{}", listed());
        watched.row(|_| true);
    }
    assert!(
        listed().contains("n1: slower than asked, to stay below the CPU ceiling (cpu_max)"),
        "{}",
        listed()
    );
    let output = khz(&["nodes", "--json", "--server", &hub.url]).output().unwrap();
    let node: Value = serde_json::from_str(out(&output).lines().next().unwrap()).unwrap();
    let lanes = node["lanes"].as_array().unwrap();
    let lane = lanes.iter().find(|lane| lane["asked"] == "1000Hz").unwrap();
    assert_ne!(lane["rate"], lane["asked"]);
    let message = watched.end();
    assert!(is_announced(&message), "{message}");
}

#[test]
fn a_recording_ends_with_the_rate_that_it_has() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slowed-{}.khzt", std::process::id()));
    let words = ["record", "*", "--exact", "--rate", "1000", "--for", "8s", "--node", "n1", "-o"];
    let output = khz(&words).arg(&file).env("KHZ_CPU_MAX", CEILING[1]).output().unwrap();
    let message = err(&output);
    assert!(is_announced(&message), "{message}");
    let last = message.lines().find(|line| line.contains("slowed-")).unwrap_or_default();
    assert!(last.contains(" instead of 1000Hz"), "{message}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn check_says_which_rate_fits_below_the_ceiling() {
    let output = run(&["check", "--cpu-max", "0.001%"]);
    let text = out(&output);
    let sentence =
        text.split("\n\n").find(|part| part.starts_with("All of these together")).unwrap_or_default();
    let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(sentence.contains(" below the CPU ceiling (cpu_max, 0.001 % of a core)."), "{text}");
    assert!(!sentence.contains("up to 1000Hz"), "{text}");
    let output = run(&["check", "cpu.all.*", "mem.*", "--json", "--cpu-max", "100%"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let lines: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&Value> = lines.iter().filter_map(|line| line.get("source")).collect();
    assert_eq!(names, ["stat", "meminfo"]);
    let together = lines.last().unwrap();
    assert_eq!(together["together"].as_array().unwrap().len(), 2, "{together}");
    assert!(together["paced_ns"]["stat"].as_u64().is_some_and(|nanos| nanos > 0), "{together}");
    let output = run(&["check", "zebra.*"]);
    assert_eq!((code(&output), out(&output).as_str()), (1, ""));
    assert!(err(&output).contains("nothing matches zebra.*"), "{}", err(&output));
}
