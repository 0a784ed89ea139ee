//! `khz top` as people use it, in a real terminal: tmux. What its pictures show of which numbers, the tests of the program's own
//! code say.

use std::process::{Child, Command};
use std::time::Duration;

use crate::process::{Running, code, err, khz, out, run, until};
use crate::text::free_port;
use crate::tmux::Tmux;

const KHZ: &str = env!("CARGO_BIN_EXE_khz");

fn top(size: (u16, u16), variables: &[&str], words: &[&str]) -> Option<Tmux> {
    Tmux::start(size, variables, &[&[KHZ, "top"], words].concat())
}

#[test]
fn a_node_fills_the_terminal_at_every_size_and_steps_through_its_past() {
    let n1 = Running::start(&[]);
    let Some(tmux) = top((80, 24), &[], &["--server", &n1.url]) else { return };
    tmux.shows(&["n1 ", "live", "10Hz", "CPU", "MEM", "waits for IO", "NET", "lo", "PROCESSES by CPU"]);
    tmux.keys(&["?"]);
    tmux.shows(&["these keys", "waterfall"]);
    tmux.keys(&["Escape"]);
    tmux.shows(&["PROCESSES"]);
    tmux.keys(&["1"]);
    tmux.shows(&["live 1Hz"]);
    tmux.keys(&["3"]);
    tmux.shows(&["live 100Hz", "PROCESSES"]);
    tmux.keys(&["w"]);
    tmux.shows(&["WATERFALL", "all CPUs"]);
    tmux.keys(&["w", "s", "s"]);
    tmux.shows(&["PROCESSES by IO"]);
    tmux.keys(&["b"]);
    tmux.shows(&["PAST", "CPU"]);
    tmux.keys(&["f", "b", "b", "l"]);
    tmux.shows(&["live"]);
    for (width, height) in [(20, 5), (300, 100), (500, 200), (5, 2), (100, 30)] {
        tmux.resize(width, height);
    }
    tmux.shows(&["PROCESSES"]);
    tmux.resize(20, 5);
    tmux.shows(&["cpu", "mem"]);
    // A storm.
    for step in 0..60u16 {
        tmux.resize(20 + step * 7 % 200, 4 + step * 5 % 70);
    }
    tmux.resize(80, 24);
    tmux.shows(&["PROCESSES by IO", "? keys"]);
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
    assert!(!tmux.is_filled(), "the terminal is given back");
}

#[test]
fn a_cluster_is_searched_sorted_and_opened() {
    let hub = Demo::start();
    let Some(tmux) = top((100, 30), &[], &["--server", &hub.url]) else { return };
    tmux.shows(&["20 nodes, 0 not up", "NODE", "LOAD", "node20", "live"]);
    tmux.keys(&["v"]);
    tmux.shows(&["node01", "%"]);
    tmux.keys(&["v", "w"]);
    tmux.shows(&["WATERFALL of", "node20"]);
    tmux.keys(&["w", "/"]);
    tmux.shows(&["search: "]);
    tmux.keys(&["-l", "E07"]);
    tmux.shows(&["search: E07", "1 node,"]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["/e07"]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["node07", "live 10Hz", "PROCESSES"]);
    tmux.keys(&["t"]);
    tmux.shows(&["go to"]);
    tmux.keys(&["-l", "nonsense"]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["nonsense"]);
    tmux.keys(&["t"]);
    tmux.keys(&["-l", "--", "-2s"]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["PAST"]);
    tmux.keys(&["Escape"]);
    tmux.shows(&["live"]);
    tmux.keys(&["Escape"]);
    tmux.shows(&["1 node,", "/e07"]);
    tmux.keys(&["Escape"]);
    tmux.shows(&["20 nodes"]);
    tmux.keys(&["C-c"]);
    assert_eq!(tmux.ended(), "0");
}

#[test]
fn the_mouse_sorts_chooses_and_opens() {
    let hub = Demo::start();
    let Some(tmux) = top((100, 30), &[], &["--server", &hub.url]) else { return };
    tmux.shows(&["20 nodes, 0 not up", "by ODD", "node20"]);
    // As a terminal reports it (SGR): the button, the column and the line from 1, pressed and let go.
    let press = |column: usize, line: usize| {
        tmux.keys(&["-l", &format!("\x1b[<0;{column};{line}M\x1b[<0;{column};{line}m")]);
    };
    let place = |word: &str| {
        let screen = tmux.screen();
        let found = screen.lines().enumerate().find_map(|(line, text)| Some((line, text.find(word)?)));
        let (line, at) = found.unwrap_or_else(|| panic!("no {word} in\n{screen}"));
        (at + 1, line + 1)
    };
    let (column, line) = place("NODE");
    press(column, line);
    tmux.shows(&["by NODE"]);
    let (column, line) = place("node04");
    press(column, line);
    // The wheel goes on from there; it is not let go.
    tmux.keys(&["-l", &format!("\x1b[<65;{column};{line}M")]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["node05 ", "live 10Hz", "PROCESSES"]);
    tmux.keys(&["Escape"]);
    tmux.shows(&["20 nodes", "by NODE"]);
    press(column, line);
    press(column, line);
    tmux.shows(&["node04 ", "live 10Hz", "PROCESSES"]);
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
}

#[test]
fn a_khz_that_goes_is_waited_for() {
    let listen = free_port();
    let begin = || Running::of(khz(&["--listen", &listen, "--node", "n1"]));
    let first = begin();
    let Some(tmux) = top((100, 24), &[], &["--server", &first.url]) else { return };
    tmux.shows(&["live 10Hz", "CPU"]);
    first.end("KILL");
    tmux.shows(&["khz is away", "CPU"]);
    let _second = begin();
    tmux.shows(&["live 10Hz"]);
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
}

/// A picture of now, not of the rows from before, which come first.
#[test]
fn one_picture_is_of_the_present_however_long_the_khz_has_been_running() {
    let n1 = Running::start(&[]);
    std::thread::sleep(Duration::from_secs(8));
    for rate in ["1", "10"] {
        let begun = khz_model::calendar::Civil::of(now()).to_string();
        let words = ["top", "--once", "--size", "100x24", "--rate", rate, "--server", &n1.url];
        let picture = out(&run(&words));
        let heading = picture.lines().next().unwrap_or_default();
        let shown = heading.split_once(' ').map_or("", |(_, rest)| rest);
        assert!(shown.len() > begun.len() && *shown >= *begun, "{begun}:\n{picture}");
        assert!(!heading.contains("load –"), "{picture}");
    }
}

fn now() -> khz_model::Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    khz_model::Nanos(since.as_nanos() as u64)
}

#[test]
fn signals_give_the_terminal_back() {
    let n1 = Running::start(&[]);
    for signal in ["TERM", "HUP", "INT"] {
        let Some(tmux) = top((80, 24), &[], &["--server", &n1.url]) else { return };
        tmux.shows(&["live"]);
        assert!(tmux.is_filled());
        tmux.signal(signal);
        assert_eq!(tmux.ended(), "0", "{signal}");
        assert!(!tmux.is_filled(), "{signal}");
    }
}

#[test]
fn a_shell_stops_it_and_goes_on_with_it() {
    let n1 = Running::start(&[]);
    let Some(tmux) = Tmux::start((80, 24), &["PS1=shell% "], &["sh", "-i"]) else { return };
    tmux.shows(&["shell%"]);
    tmux.keys(&["-l", &format!("{KHZ} top --server {}", n1.url)]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["live", "PROCESSES"]);
    for _ in 0..2 {
        tmux.keys(&["C-z"]);
        tmux.shows(&["topped", "shell%"]);
        assert!(!tmux.is_filled(), "the shell has the terminal");
        tmux.keys(&["-l", "fg"]);
        tmux.keys(&["Enter"]);
        tmux.shows(&["live", "PROCESSES"]);
        assert!(tmux.is_filled());
    }
    tmux.keys(&["q"]);
    tmux.shows(&["shell%"]);
    // What is typed is seen again: the terminal is as it was.
    tmux.keys(&["-l", "echo as-$((1+1))-before"]);
    tmux.keys(&["Enter"]);
    tmux.shows(&["as-2-before"]);
}

#[test]
fn a_terminal_without_a_name_without_utf_8_and_without_colours_is_served() {
    let n1 = Running::start(&[]);
    let poor = ["-u", "TERM", "LC_ALL=C", "NO_COLOR=1"];
    let Some(tmux) = top((80, 24), &poor, &["--server", &n1.url]) else { return };
    let screen = tmux.shows(&["live", "CPU", "PROCESSES"]);
    assert!(screen.is_ascii(), "{screen}");
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
    let Some(tmux) = top((200, 24), &["TERM=dumb"], &["--server", &n1.url]) else { return };
    tmux.shows(&["TERM=dumb", "khz top --once"]);
    assert_eq!(tmux.ended(), "2");
}

#[test]
fn without_a_terminal_one_picture_is_printed() {
    let n1 = Running::start(&[]);
    let printed = run(&["top", "--server", &n1.url, "--size", "100x30", "--once"]);
    assert_eq!((code(&printed), err(&printed)), (0, String::new()));
    let picture = out(&printed);
    assert!(
        picture.lines().count() == 30 && picture.contains("CPU") && picture.contains("PROCESSES"),
        "{picture}"
    );
    assert!(picture.lines().all(|line| line.chars().count() <= 100), "{picture}");
    let piped = run(&["top", "--server", &n1.url]);
    assert!(out(&piped).contains("n1 "), "{}", err(&piped));
    let nobody = run(&["top", "n9", "--server", &n1.url]);
    assert_eq!(code(&nobody), 1);
    assert!(err(&nobody).contains("n9"), "{}", err(&nobody));
    let wrong = run(&["top", "--rate", "7"]);
    assert!(code(&wrong) == 2 && err(&wrong).contains("write 1, 10, 100 or 1000"), "{}", err(&wrong));
}

#[test]
fn a_machine_without_a_khz_is_read_directly() {
    let printed = run(&["top", "--direct", "--once", "--node", "here"]);
    assert_eq!(code(&printed), 0, "{}", err(&printed));
    assert!(out(&printed).contains("here ") && out(&printed).contains("CPU"), "{}", out(&printed));
}

#[test]
fn a_recording_is_stepped_through() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/workloads/compile-100hz.khzt");
    let printed = run(&["top", recording, "--once"]);
    assert!(code(&printed) == 0 && out(&printed).contains("recording"), "{}{}", out(&printed), err(&printed));
    for (at, sentence) in [("2001-01-01", "this is the beginning"), ("2040-01-01", "this is the end")] {
        let printed = run(&["top", recording, "--once", "--at", at]);
        assert_eq!(code(&printed), 0, "{}", err(&printed));
        assert!(out(&printed).contains(sentence) && out(&printed).contains("CPU"), "{}", out(&printed));
    }
    // A minute of rows at 100 Hz is more than is kept: those nearest to the moment are.
    let printed = out(&run(&["top", recording, "--once", "--at", "2026-11-21 10:55:45Z"]));
    assert!(printed.contains(" 10:55:45.00") || printed.contains(" 10:55:44.99"), "{printed}");
    let other = run(&["top", recording, "other[1-2]", "--once"]);
    let said = err(&other);
    assert!(code(&other) == 1 && said.contains("no node of the recording is called other[1-2]"), "{said}");
    let node = said.rsplit("it has ").next().unwrap_or_default().trim();
    let printed = run(&["top", recording, node, "--once"]);
    assert!(code(&printed) == 0 && out(&printed).starts_with(node), "{}{}", out(&printed), err(&printed));
    let Some(tmux) = top((100, 30), &[], &[recording]) else { return };
    let first = tmux.shows(&["recording", "CPU"]);
    let clock = |screen: &str| screen.lines().next().unwrap_or_default().to_owned();
    tmux.keys(&["f"]);
    until(Duration::from_secs(60), "the next row is shown", || clock(&tmux.screen()) != clock(&first));
    tmux.keys(&["b"]);
    until(Duration::from_secs(60), "the first row is shown again", || clock(&tmux.screen()) == clock(&first));
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
}

/// Of two nodes one is killed, and a third one comes.
#[test]
fn a_list_of_the_past_knows_from_the_store_who_was_down_and_who_did_not_exist() {
    let place = Folder(std::env::temp_dir().join(format!("khz-top-store-{}", std::process::id())));
    let (store, link) = (place.0.join("store").display().to_string(), free_port());
    let start = |words: &[&str]| {
        let mut command = khz(words);
        command.env("KHZ_RUN_DIR", place.0.join("run"));
        Running::of(command)
    };
    let words =
        ["hub", "--listen", "127.0.0.1:0", "--link-listen", &link, "--node", "hub", "--store", &store];
    let hub = start(&words);
    let agent =
        |node: &str| start(&["agent", "--node", node, "--hub", &link, "--sources", "stat,loadavg,meminfo"]);
    let picture = |nodes: &[&str], at: &str| {
        let words = ["--server", &hub.url, "--once", "--size", "100x20", "--at", at];
        out(&run(&[&["top"][..], nodes, &words].concat()))
    };
    let has = |at: &str, wanted: &[&str]| {
        let picture = picture(&[], at);
        wanted.iter().all(|part| picture.contains(part))
    };
    let patience = Duration::from_secs(120);
    let (_n1, n2) = (agent("n1"), agent("n2"));
    until(patience, "both nodes have rows", || has("-1s", &["2 nodes, 0 not up", "n1", "n2"]));
    n2.end("KILL");
    until(patience, "n2 is down", || has("-1s", &["2 nodes, 1 not up", "down"]));
    let between = khz_model::calendar::Civil::of(now()).to_string() + "Z";
    let _n3 = agent("n3");
    until(patience, "n3 has rows", || has("-1s", &["3 nodes, 1 not up"]));
    let (list, down) = (picture(&[], &between), picture(&["n2"], &between));
    assert!(list.contains("2 nodes, 1 not up") && !list.contains("n3"), "{list}");
    assert!(down.starts_with("n2 down") && !down.contains("rows come when"), "{down}");
    let Some(tmux) = top((100, 20), &[], &["n2", "--server", &hub.url, "--at", &between]) else { return };
    tmux.shows(&["n2 down", "PAST", "b f step"]);
    std::thread::sleep(Duration::from_secs(2));
    let screen = tmux.screen();
    assert!(screen.contains("b f step") && !screen.contains("rows come when"), "{screen}");
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), "0");
}

/// A directory that is removed after the test.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A made-up cluster of twenty nodes.
struct Demo {
    child: Child,
    url: String,
}

impl Demo {
    fn start() -> Self {
        let listen = free_port();
        let child = khz(&["demo", "--nodes", "20", "--listen", &listen])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("http://{listen}");
        let demo = Demo { child, url };
        let is_up = |server: &str| {
            let nodes = Command::new(KHZ).args(["nodes", "--server", server]).output().unwrap();
            String::from_utf8_lossy(&nodes.stdout).contains("node20")
        };
        until(Duration::from_secs(120), "the demo has its nodes", || is_up(&demo.url));
        demo
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
