//! The programs in `examples/`, each against the real khz: clients print what the door answers; of those that measure something the
//! form is compared, and what must be so on any machine.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::{Running, khz, out, until};
use crate::text::text_door;

/// The example with the client library, as `cargo run --example` builds it.
#[path = "../../../../examples/steer/main.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod steer;

/// What a client prints in two rounds. A language that is not installed is skipped, unless all tests are required.
fn printed(words: &[&str], door: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let (host, port) = door.rsplit_once(':').unwrap();
    let ran = Command::new(words[0]).args(&words[1..]).args([host, port, "2"]).current_dir(folder).output();
    match ran {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => panic!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            khz_skip::skip(format!("{words:?}: {error}"));
            None
        }
    }
}

fn prints_load_and_memory(words: &[&str]) {
    let mut running = Running::start(&["--text-listen", "127.0.0.1:0"]);
    let Some(printed) = printed(words, &text_door(&mut running)) else { return };
    let mut items: Vec<(&str, f64)> = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[..2], ["n", "1"], "{printed}");
        items.push((words[2], words[3].parse().unwrap()));
    }
    items.sort_by(|one, other| one.0.cmp(other.0));
    let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["load1m", "load1m", "memfree", "memfree"], "{printed}");
    assert!(items[2].1 > 1e6, "{printed}");
}

#[test]
fn shell() {
    prints_load_and_memory(&["sh", "load.sh"]);
}

#[test]
fn perl() {
    prints_load_and_memory(&["perl", "load.pl"]);
}

#[test]
fn python() {
    prints_load_and_memory(&["python3", "load.py"]);
}

#[test]
fn java() {
    prints_load_and_memory(&["java", "Load.java"]);
}

/// A process of an example that is ended when the test is over, and the processes that it has started.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Ranks are children of the program.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-s", "KILL", "--", &format!("-{pid}")]).status();
        let _ = self.0.wait();
    }
}

/// An example of `examples/channels`, beside this khz. Without python3 it is skipped, unless all tests are required.
fn of_channels(running: &Running, words: &[&str]) -> Option<Command> {
    if let Err(error) = Command::new("python3").arg("--version").output() {
        khz_skip::skip(format!("python3: {error}"));
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/channels");
    let mut command = Command::new("python3");
    let run_dir = running.beside(&[]);
    let run_dir = run_dir.get_envs().find_map(|(name, dir)| dir.filter(|_| name == "KHZ_RUN_DIR"));
    command.args(words).env("KHZ_RUN_DIR", run_dir.unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.current_dir(folder).stdin(Stdio::null());
    Some(command)
}

/// What it prints until its end.
fn printed_by(mut command: Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    out(&done)
}

/// The numbers of a line.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|word| word.replace(',', "").parse().ok()).collect()
}

#[test]
fn steer_hands_out_the_same_work_in_three_ways() {
    let mut printed = Vec::new();
    steer::compare(Path::new(env!("CARGO_BIN_EXE_khz")), 60, &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    for (line, name) in lines.iter().zip(["round robin", "by live load", "by a composite of the nodes"]) {
        assert!(line.starts_with(name) && line.contains(" s"), "{printed}");
    }
    assert!(
        lines[1..].iter().all(|line| line.contains("gained") && line.contains("times as fast")),
        "{printed}"
    );
}

#[test]
fn means_of_100_hz_data_are_sent_far_less_often_than_the_rows_and_the_bytes_of_both_are_said() {
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let mut agent = hub.beside(&["agent", "--node", "n1", "--hub", &link, "--ring", "4MiB"]);
    let _agent = Group(agent.process_group(0).stdout(Stdio::null()).spawn().unwrap());
    until(Duration::from_secs(60), "the agent is up", || {
        out(&khz(&["nodes", "n1", "--json", "--server", &hub.url]).output().unwrap())
            .contains("\"state\":\"up\"")
    });
    let Some(command) = of_channels(&hub, &["mean.py", &hub.url, "3"]) else { return };
    let printed = printed_by(command);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 4, "{printed}");
    assert!(lines[3].starts_with("saved "), "{printed}");
    // How many bytes that saves depends on how much happens on this machine meanwhile: a row of which nothing changed is small.
    assert_eq!(numbers(lines[3]).len(), 1, "{printed}");
    assert!(lines[..3].iter().all(|line| numbers(line)[0] > 0.0), "{printed}");
    let often = |line: &str| line.split("B/s").nth(1).map(|rest| numbers(rest)[0]).unwrap();
    assert!(often(lines[1]) < often(lines[2]) / 2.0, "{printed}");
}

#[test]
fn a_channel_that_may_be_slower_sends_fewer_rows_while_nothing_happens() {
    let alone = Running::start(&[]);
    let Some(command) = of_channels(&alone, &["slower.py", &alone.url, "2"]) else { return };
    let printed = printed_by(command);
    let rows = |name: &str| {
        let line =
            printed.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{printed}"));
        numbers(line)[0]
    };
    assert_eq!(rows("nobody reads"), 0.0, "{printed}");
    let quiet = rows("100Hz, slower=100, nothing happens");
    assert!(quiet < rows("always 100Hz") / 4.0, "{printed}");
    assert!(quiet < rows("100Hz, slower=100, something happens") / 4.0, "{printed}");
}

#[test]
fn who_is_late_at_a_barrier_is_seen_live() {
    let alone = Running::start(&[]);
    let Some(mut program) = of_channels(&alone, &["barrier.py", "run", "4", "600"]) else { return };
    let _program = Group(program.process_group(0).spawn().unwrap());
    let Some(mut watch) = of_channels(&alone, &["barrier.py", "watch", &alone.url]) else { return };
    watch.stdout(Stdio::piped());
    let mut watch = Group(watch.process_group(0).spawn().unwrap());
    let lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    // Rank 3 has twice the work of the others; odd ranks do not communicate while they compute.
    let is_seen = |line: &str| {
        let share =
            |rank: &str| line.split_once(&format!(" {rank}: "))?.1.split(' ').next()?.parse::<f64>().ok();
        let [Some(even), Some(odd)] = ["0", "1"].map(share) else { return false };
        line.contains("last: rank 3 in ") && even > odd + 10.0
    };
    let mut printed = String::new();
    for line in lines.take(120) {
        let line = line.unwrap();
        if is_seen(&line) {
            return;
        }
        printed.push_str(&(line + "\n"));
    }
    panic!("rank 3 was not seen as the last one:\n{printed}");
}

#[test]
fn an_example_says_what_is_wrong_with_its_address() {
    let alone = Running::start(&[]);
    for script in ["mean.py", "slower.py"] {
        let Some(mut command) = of_channels(&alone, &[script, "http://127.0.0.1:1", "1"]) else { return };
        let done = command.output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{err}");
        assert!(err.contains("http://127.0.0.1:1") && err.contains("start `khz`"), "{err}");
    }
    // A khz that runs alone has no link whose bytes it counts.
    let Some(mut command) = of_channels(&alone, &["mean.py", &alone.url, "1"]) else { return };
    let done = command.output().unwrap();
    assert!(String::from_utf8_lossy(&done.stderr).contains("name a `khz hub`"), "{done:?}");
}

#[test]
fn every_example_is_in_the_index_of_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut folders: Vec<PathBuf> = vec![folder.clone()];
    let mut missing = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if !name.ends_with("__pycache__") => folders.push(path),
                false if name != "README.md" && !page.contains(&format!("({name})")) => missing.push(name),
                _ => {}
            }
        }
    }
    assert!(missing.is_empty(), "examples/README.md does not name {missing:?}");
}
