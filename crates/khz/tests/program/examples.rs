//! The small clients in `examples/`, each against the real program: they print what the door answers.

use std::path::Path;
use std::process::Command;

use crate::process::Running;
use crate::text::text_door;

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
