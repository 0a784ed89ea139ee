//! The whole program on captured hosts: everything that `khz get` and `/metrics` print of them, compared with the
//! files in `captured_host/`, except for what differs in each run: khz's numbers about itself, stamps, and the node's
//! name.
//!
//! To change the expected output, run `KHZ_UPDATE_EXPECTED=1 cargo test -p khz --test captured_host`, and read the
//! difference before you commit it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "program/process.rs"]
mod process;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

const HOSTS: [&str; 3] = ["linux-6.18-vm2", "linux-6.1-qemu8", "linux-2.4-documented"];

fn root(host: &str) -> String {
    format!("{}/../../fixtures/{host}", env!("CARGO_MANIFEST_DIR"))
}

/// Compares, or writes what is expected from now on.
fn is_expected(file: &str, found: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captured_host").join(file);
    if std::env::var_os("KHZ_UPDATE_EXPECTED").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut expected, mut found) = (expected.lines(), found.lines());
    for line in 1.. {
        let (wanted, got) = (expected.next(), found.next());
        let advice = "KHZ_UPDATE_EXPECTED=1 writes what is printed now";
        assert_eq!(got, wanted, "{} differs in line {line}; {advice}", path.display());
        if got.is_none() {
            return;
        }
    }
}

fn objects(text: &str) -> impl Iterator<Item = Map<String, Value>> + '_ {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
}

#[test]
fn khz_get_prints_every_series_of_a_captured_host() {
    for host in HOSTS {
        let output = process::run(&["get", "*", "--direct", "--format", "json", "--root", &root(host)]);
        assert_eq!(process::code(&output), 0, "{host}: {}", process::err(&output));
        let mut found = String::new();
        for mut object in objects(&process::out(&output)) {
            let name = object["name"].as_str().unwrap();
            // The clock is this machine's, as khz's own numbers are.
            let own = name.starts_with("khz.") || name == "system.time";
            assert!(object.remove("node").is_some() && object.remove("stamp").is_some());
            if !own {
                found.push_str(&serde_json::to_string(&object).unwrap());
                found.push('\n');
            }
        }
        assert!(found.lines().count() > 150, "{host}");
        is_expected(&format!("{host}.get.jsonl"), &found);
    }
}

/// The exposition's families that khz fills with numbers about itself.
fn own_families() -> BTreeSet<String> {
    let output = process::run(&["catalog", "--json", "--direct", "khz.*"]);
    assert_eq!(process::code(&output), 0, "{}", process::err(&output));
    let name = |object: Map<String, Value>| object["exposition"]["name"].as_str().unwrap().to_owned();
    objects(&process::out(&output)).map(name).collect()
}

/// The family that a line of the exposition belongs to.
fn family(line: &str) -> &str {
    let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
    name.split([' ', '{']).next().unwrap_or_default()
}

#[test]
fn metrics_shows_every_value_of_a_captured_host() {
    let own = own_families();
    for host in HOSTS {
        let running = process::Running::start(&["--root", &root(host)]);
        let url = format!("{}/metrics", running.url.trim_end_matches('/'));
        let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        // The clock is this machine's, as khz's own numbers are.
        let is_captured = |line: &&str| !own.contains(family(line)) && family(line) != "node_time_seconds";
        let kept = text.lines().filter(is_captured);
        let found: String = kept.map(|line| format!("{line}\n")).collect();
        assert!(found.lines().count() > 100, "{host}: {text}");
        is_expected(&format!("{host}.metrics.txt"), &found);
        let (code, message) = running.end("TERM");
        assert_eq!(code, Some(0), "{message}");
    }
}
