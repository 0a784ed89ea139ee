//! The black box: rows around a moment, of all nodes that were asked, in one recording, whatever happens to the hub and the nodes
//! meanwhile.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Ended, Running, code, err, khz, out, run, until};
use crate::remote_write::Place;
use crate::text::free_port;
use crate::watched::signal;

const PATIENCE: Duration = Duration::from_secs(60);

/// A hub that may be killed: each time at the same ports, with the same state.
fn hub_in<'a>(place: &'a Place, more: &'a [&'a str]) -> impl Fn() -> Running + 'a {
    let (http, link) = (free_port(), free_port());
    move || {
        let state = place.0.join("state");
        let words = ["hub", "--listen", &http, "--link-listen", &link, "--node", "hub", "--state-dir"];
        let mut command = khz(&[&words[..], &[state.to_str().unwrap()], more].concat());
        command.env("KHZ_RUN_DIR", place.0.join("run"));
        Running::of(command)
    }
}

/// An agent whose rings are files below the place.
fn agent(place: &Place, hub: &Running, node: &str, more: &[&str]) -> Ended {
    let (link, rings) = (hub.link(), place.0.join("rings"));
    let words = ["agent", "--node", node, "--hub", &link, "--ring-dir", rings.to_str().unwrap()];
    let agent = Ended::start(&mut hub.beside(&[&words, more].concat()));
    until(PATIENCE, "the agent has been up for some seconds", || {
        let nodes = hub.beside(&["nodes", node, "--json"]).output().unwrap();
        let status = serde_json::from_str::<Value>(&out(&nodes)).unwrap_or_default();
        status["lanes"][0]["rows"].as_u64() > Some(4)
    });
    agent
}

fn show(hub: &Running, id: u64) -> Value {
    let shown = hub.beside(&["blackbox", "show", &id.to_string(), "--json"]).output().unwrap();
    serde_json::from_str(&out(&shown)).unwrap_or_else(|_| panic!("{}", err(&shown)))
}

/// Waits for the end of a freeze.
fn done(hub: &Running, id: u64) -> Value {
    until(PATIENCE * 3, "it is done", || show(hub, id)["state"] == "done");
    show(hub, id)
}

/// The rows of a recording: for each node and time since boot, the values.
fn rows(path: &str, more: &[&str]) -> BTreeMap<(String, String), String> {
    let printed = run(&[&["export", path, "--match", "kernel.*", "--json"], more].concat());
    let lines = out(&printed);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = |line: Value| {
        let key = (line["node"].as_str()?.to_owned(), line["boot"].as_str()?.to_owned());
        Some((key, line["values"].to_string()))
    };
    lines.filter_map(row).collect()
}

#[test]
fn a_freeze_has_the_rows_of_the_rings_of_all_nodes_and_says_its_cause() {
    let place = Place::new("blackbox");
    let hub = hub_in(&place, &[])();
    let _agents = ["n1", "n2"].map(|node| agent(&place, &hub, node, &[]));
    std::thread::sleep(Duration::from_secs(3));
    let words =
        ["freeze", "n*", "--before", "2s", "--after", "1s", "--because", "a \"test\"", "--wait", "--json"];
    let frozen = hub.beside(&words).output().unwrap();
    assert_eq!(code(&frozen), 0, "{}", err(&frozen));
    let said: Value = serde_json::from_str(&out(&frozen)).unwrap();
    assert_eq!((&said["id"], &said["state"], &said["nodes"]), (&1.into(), &"done".into(), &2.into()));
    assert_eq!(said["groups"][0]["nodes"], "n[1-2]", "{said}");
    let list = out(&hub.beside(&["blackbox", "list"]).output().unwrap());
    assert!(list.contains("a \"test\""), "{list}");
    let path = place.0.join("one.khzt").display().to_string();
    let exported = hub.beside(&["blackbox", "export", "1", "-o", &path]).output().unwrap();
    assert_eq!(code(&exported), 0, "{}", err(&exported));
    // What khz record --last reads out of the rings now is the same, row by row.
    let frozen = rows(&path, &[]);
    let (last, rings) = (place.0.join("last.khzt"), place.0.join("rings"));
    let words = ["record", "--last", "2m", "--lane", "local", "--dir", rings.to_str().unwrap(), "-q", "-o"];
    let recorded = run(&[&words[..], &[last.to_str().unwrap()]].concat());
    assert!(code(&recorded) == 0 || code(&recorded) == 3, "{}", err(&recorded));
    let whole = rows(last.to_str().unwrap(), &[]);
    for node in ["n1", "n2"] {
        let of_node = frozen.iter().filter(|((of, _), _)| of == node).count();
        assert!((25..=600).contains(&of_node), "{node}: {of_node} rows at 10 Hz");
    }
    for (key, values) in &frozen {
        assert_eq!(whole.get(key), Some(values), "{key:?}");
    }
    // Gone, also at the hub.
    assert_eq!(code(&hub.beside(&["blackbox", "rm", "1"]).output().unwrap()), 0);
    assert_eq!(code(&hub.beside(&["blackbox", "show", "1"]).output().unwrap()), 1);
    assert!(!place.0.join("state/blackbox/1.khzt").exists());
}

#[test]
fn a_hub_that_is_killed_in_the_middle_fetches_what_its_nodes_keep_when_it_is_back() {
    let place = Place::new("blackbox-killed");
    let start = hub_in(&place, &[]);
    let hub = start();
    let _agents = ["n1", "n2"].map(|node| agent(&place, &hub, node, &[]));
    let frozen = hub.beside(&["freeze", "*", "--before", "1s", "--after", "4s", "--json"]).output().unwrap();
    assert_eq!(code(&frozen), 0, "{}", err(&frozen));
    let said: Value = serde_json::from_str(&out(&frozen)).unwrap();
    assert_eq!(
        (&said["state"], &said["groups"][0]["state"]),
        (&"running".into(), &"marked".into()),
        "{said}"
    );
    let words = ["freeze", "n1", "--before", "0s", "--after", "0s", "--because", "joins"];
    let joins = hub.beside(&words).output().unwrap();
    assert_eq!(code(&joins), 0, "{}", err(&joins));
    let marked = show(&hub, 1)["marked_after"].clone();
    assert!(marked.is_string(), "{said}");
    // kill -9
    drop(hub);
    std::thread::sleep(Duration::from_secs(8));
    let hub = start();
    let whole = done(&hub, 1);
    assert_eq!(whole["groups"][0]["state"], "fetched", "{whole}");
    // What was acknowledged is there, and what was measured; and how long the rows really took.
    assert_eq!((&whole["also"], &whole["joined"]), (&serde_json::json!(["joins"]), &1.into()), "{whole}");
    assert_eq!(whole["marked_after"], marked);
    let fetched: f64 = whole["fetched_after"].as_str().unwrap().parse().unwrap();
    assert!((3.0..120.0).contains(&fetched), "{whole}");
    assert!(whole["rows"].as_u64() > Some(80), "{whole}");
    let path = place.0.join("state/blackbox/1.khzt").display().to_string();
    let nodes = rows(&path, &[]);
    assert!(["n1", "n2"].iter().all(|node| nodes.keys().filter(|(of, _)| of == node).count() > 40));
}

#[test]
fn nodes_that_are_not_there_and_rings_that_are_too_short_are_named_with_the_reason() {
    let place = Place::new("blackbox-missing");
    let hub = hub_in(&place, &[])();
    let agent = agent(&place, &hub, "n1", &[]);
    let words = ["freeze", "n1,n9", "--before", "10m", "--after", "0s", "--json"];
    let frozen = hub.beside(&words).output().unwrap();
    assert_eq!(code(&frozen), 3, "{}", out(&frozen));
    assert!(err(&frozen).contains("n9: this hub does not know the node"), "{}", err(&frozen));
    assert!(err(&frozen).contains("n1: its ring lacks the first "), "{}", err(&frozen));
    // Stopped, as a node that hangs: it answers when it goes on.
    signal(&agent.0, "STOP");
    let frozen = hub.beside(&["freeze", "n1", "--before", "1s", "--after", "300ms"]).output().unwrap();
    assert_eq!(code(&frozen), 3, "{}", out(&frozen));
    std::thread::sleep(Duration::from_secs(4));
    signal(&agent.0, "CONT");
    let whole = done(&hub, 2);
    assert_eq!(whole["groups"][0]["state"], "fetched", "{whole}");
    for (words, exit, problem) in [
        (&["freeze", "x*"][..], 1, "no node is called 'x*'"),
        (&["freeze", "n[1-"], 2, "is no list of nodes"),
        (&["freeze", "n1:cpu.*"], 2, "names series"),
        (&["freeze", "job(4711)"], 1, "no job 4711"),
        (&["freeze", "n1", "--before", "1h"], 2, "at most"),
        (&["blackbox", "show", "99"], 1, "there is no freeze 99"),
    ] {
        let said = hub.beside(words).output().unwrap();
        assert!(
            code(&said) == exit && err(&said).contains(problem),
            "{words:?}: {} {}",
            code(&said),
            err(&said)
        );
    }
}

#[test]
fn a_storm_joins_the_freeze_that_is_taken_and_what_is_too_much_is_refused_and_counted() {
    let place = Place::new("blackbox-storm");
    let hub = hub_in(&place, &[])();
    let _agent = agent(&place, &hub, "n1", &[]);
    let freeze = |cause: &str, after: &str| {
        let words = ["freeze", "n1", "--before", "0s", "--after", after, "--because", cause, "--json"];
        hub.beside(&words).output().unwrap()
    };
    for (cause, after) in [("one", "15s"), ("two", "5s"), ("two", "5s"), ("three", "5s")] {
        let frozen = freeze(cause, after);
        assert_eq!(code(&frozen), 0, "{}", err(&frozen));
    }
    let one = show(&hub, 1);
    assert_eq!(
        (&one["cause"], &one["also"], &one["joined"]),
        (&"one".into(), &serde_json::json!(["two", "three"]), &3.into())
    );
    assert_eq!(done(&hub, 1)["groups"][0]["state"], "fetched");
    let refused = (0..20).map(|number| freeze(&format!("storm {number}"), "0s")).find(|said| code(said) == 1);
    let refused = refused.expect("too many are refused");
    assert!(err(&refused).contains("freezes"), "{}", err(&refused));
    let own = crate::exposition::get_at(&hub, "/metrics");
    assert!(
        own.lines().any(|line| line.starts_with("khz_blackbox_refused_total ") && !line.ends_with(" 0")),
        "{own}"
    );
}

#[test]
fn an_alert_freezes_the_nodes_that_the_action_names() {
    let place = Place::new("blackbox-alert");
    let config = "[actions.box]\nfreeze = { nodes = \"n*\", before = \"1s\", after = \"0s\" }\n";
    let config = place.file("khz.toml", config);
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file(
        "rules/memory.yml",
        "groups:\n- name: memory\n  interval: 1s\n  rules:\n  - alert: HasMemory\n    expr: max by (instance) (node_memory_MemTotal_bytes) > 0\n    annotations:\n      khz_actions: box\n",
    );
    let rules = place.0.join("rules").display().to_string();
    let hub = hub_in(&place, &["--config", &config, "--rules", &rules])();
    let _agent = agent(&place, &hub, "n1", &[]);
    until(PATIENCE, "the alert has frozen", || {
        out(&hub.beside(&["blackbox", "list"]).output().unwrap()).contains("alert HasMemory on n1")
    });
    let whole = done(&hub, 1);
    assert_eq!(whole["groups"][0]["nodes"], "n1", "{whole}");
    let log = out(&hub.beside(&["actions", "log"]).output().unwrap());
    assert!(log.contains("freeze 1 of n*"), "{log}");
}

#[test]
fn a_job_that_fails_freezes_its_nodes_if_the_configuration_says_so_and_a_job_may_be_named() {
    let place = Place::new("blackbox-job");
    let config = place.file("khz.toml", "[jobs]\nfreeze_failed = true\ndiscover = false\n");
    let hub = hub_in(&place, &["--config", &config])();
    let _agents = ["n1", "n2", "n3"].map(|node| agent(&place, &hub, node, &[]));
    let does = |words: &[&str]| {
        let output = hub.beside(words).output().unwrap();
        assert_eq!(code(&output), 0, "{words:?}: {}", err(&output));
        out(&output)
    };
    for (id, nodes) in [("4711", "n[1-2]"), ("4712", "n3")] {
        does(&["job", "start", id, "--nodes", nodes]);
    }
    // One ends well, and the other one does not; to say it twice freezes once.
    does(&["job", "end", "4712", "--exit", "0"]);
    does(&["job", "end", "4711", "--exit", "139"]);
    does(&["job", "end", "4711", "--exit", "139"]);
    until(PATIENCE, "its nodes freeze", || !does(&["blackbox", "list", "--json"]).is_empty());
    let failed = done(&hub, 1);
    assert_eq!(failed["asked"], "n[1-2]", "{failed}");
    assert!(
        failed["cause"].as_str().is_some_and(|cause| cause.contains("job 4711 failed: exit 139")),
        "{failed}"
    );
    let said = does(&["freeze", "job(4712)", "--before", "1s", "--after", "0s", "--wait", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["id"], &said["groups"][0]["nodes"]), (&2.into(), &"n3".into()), "{said}");
    let unknown = hub.beside(&["freeze", "job(9)"]).output().unwrap();
    assert!(code(&unknown) == 1 && err(&unknown).contains("no job 9"), "{}", err(&unknown));
}

/// A hub whose state directory is a small file system of its own, in a mount namespace of its own; `None`: nothing can be mounted here.
/// Returns the directory as others see it.
fn hub_on_small_disk(place: &Place) -> Option<(Running, PathBuf)> {
    let can = Command::new("unshare").args(["-rm", "true"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        khz_skip::skip("no mount namespace can be made here");
        return None;
    }
    let state = place.0.join("state");
    std::fs::create_dir_all(&state).unwrap();
    let (listen, link) = (free_port(), free_port());
    let words = [
        "hub",
        "--listen",
        &listen,
        "--link-listen",
        &link,
        "--node",
        "hub",
        "--store",
        "none",
        "--state-dir",
    ];
    let inner = khz(&[&words[..], &[state.to_str().unwrap()]].concat());
    let script = format!("mount -t tmpfs -o size=600k none '{}' && exec \"$@\"", state.display());
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    let hub = Running::of(command);
    let inside = format!("/proc/{}/root{}", hub.child.id(), state.display());
    Some((hub, inside.into()))
}

/// Fills the file system of a directory, but for this many bytes. Returns the file that fills it.
fn fill(directory: &Path, left: u64) -> PathBuf {
    let path = directory.join("fill");
    let mut file = std::fs::File::create(&path).unwrap();
    while file.write_all(&[0; 1_024]).is_ok() {}
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes.saturating_sub(left)).unwrap();
    path
}

#[test]
fn on_a_full_disk_rows_wait_and_their_nodes_are_fetched_only_when_all_of_them_are_written() {
    let place = Place::new("blackbox-full");
    let Some((hub, state)) = hub_on_small_disk(&place) else { return };
    let _agents = ["n1", "n2", "n3"].map(|node| agent(&place, &hub, node, &[]));
    std::thread::sleep(Duration::from_secs(5));
    // Nothing has room; and the beginning of the recording has.
    for (id, left) in [(1, 0), (2, 8 << 10)] {
        let frozen = hub.beside(&["freeze", "n*", "--before", "5s", "--after", "3s"]).output().unwrap();
        assert_eq!(code(&frozen), 0, "{}", err(&frozen));
        let filled = fill(&state, left);
        until(PATIENCE, "the rows wait", || show(&hub, id)["problem"].is_string());
        std::thread::sleep(Duration::from_secs(3));
        let waits = show(&hub, id);
        assert_eq!(waits["state"], "running", "{waits}");
        let groups = waits["groups"].as_array().unwrap();
        assert!(groups.iter().all(|group| group["state"] != "fetched"), "{waits}");
        std::fs::remove_file(filled).unwrap();
        let whole = done(&hub, id);
        assert_eq!(
            (&whole["groups"][0]["state"], &whole["groups"][0]["count"]),
            (&"fetched".into(), &3.into())
        );
        assert!(whole["problem"].is_null(), "{whole}");
        let path = place.0.join(format!("{id}.khzt")).display().to_string();
        let exported = hub.beside(&["blackbox", "export", &id.to_string(), "-o", &path]).output().unwrap();
        assert_eq!(code(&exported), 0, "{}", err(&exported));
        let rows = rows(&path, &[]);
        for node in ["n1", "n2", "n3"] {
            let of_node = rows.keys().filter(|(of, _)| of == node).count();
            assert!(of_node > 60, "freeze {id}, {node}: {of_node} rows of 8 s at 10 Hz");
        }
    }
}

#[test]
fn a_freeze_that_the_disk_has_no_room_to_note_is_refused_before_nodes_hear_of_it() {
    let place = Place::new("blackbox-unlisted");
    let Some((hub, state)) = hub_on_small_disk(&place) else { return };
    let _agent = agent(&place, &hub, "n1", &[]);
    let filled = fill(&state, 0);
    let freeze = || hub.beside(&["freeze", "n1", "--before", "1s", "--after", "1s"]).output().unwrap();
    let refused = freeze();
    assert_eq!(code(&refused), 1, "{}", out(&refused));
    let said = err(&refused);
    assert!(said.contains("nothing is frozen") && said.contains("No space left"), "{said}");
    std::fs::remove_file(filled).unwrap();
    assert_eq!(code(&freeze()), 0);
    assert_eq!(done(&hub, 1)["groups"][0]["state"], "fetched");
}

#[test]
fn a_recording_that_is_removed_while_it_is_written_is_fetched_again() {
    let place = Place::new("blackbox-removed");
    let hub = hub_in(&place, &[])();
    let agents = ["n1", "n2"].map(|node| agent(&place, &hub, node, &[]));
    // One of them hangs, so the freeze waits for it.
    signal(&agents[1].0, "STOP");
    let _frozen = hub.beside(&["freeze", "n*", "--before", "2s", "--after", "1s"]).output().unwrap();
    let is_fetched = || {
        let shown = show(&hub, 1);
        shown["groups"].as_array().unwrap().iter().any(|group| group["state"] == "fetched")
    };
    until(PATIENCE, "the other one is fetched", is_fetched);
    std::fs::remove_file(place.0.join("state/blackbox/1.khzt")).unwrap();
    until(PATIENCE, "it is fetched again", || place.0.join("state/blackbox/1.khzt").exists() && is_fetched());
    signal(&agents[1].0, "CONT");
    let whole = done(&hub, 1);
    assert_eq!((&whole["groups"][0]["state"], &whole["groups"][0]["count"]), (&"fetched".into(), &2.into()));
    let path = place.0.join("state/blackbox/1.khzt").display().to_string();
    let rows = rows(&path, &[]);
    assert!(["n1", "n2"].iter().all(|node| rows.keys().filter(|(of, _)| of == node).count() > 20), "{whole}");
}

#[test]
fn a_freeze_without_a_recording_says_why() {
    let place = Place::new("blackbox-none");
    let hub = hub_in(&place, &["--blackbox", "4KiB"])();
    let small = agent(&place, &hub, "n1", &[]);
    let words = ["freeze", "n1", "--before", "2s", "--after", "0s", "--wait"];
    let frozen = hub.beside(&words).output().unwrap();
    assert_eq!(code(&frozen), 3, "{}", err(&frozen));
    assert!(err(&frozen).contains("all recordings together may have 4"), "{}", err(&frozen));
    drop((small, hub));
    let place = Place::new("blackbox-moved");
    let hub = hub_in(&place, &[])();
    let _agent = agent(&place, &hub, "n1", &[]);
    assert_eq!(code(&hub.beside(&words).output().unwrap()), 0);
    std::fs::rename(place.0.join("state/blackbox"), place.0.join("moved")).unwrap();
    let shown = hub.beside(&["blackbox", "show", "1"]).output().unwrap();
    assert_eq!(code(&shown), 3);
    assert!(out(&shown).contains("its recording is missing"), "{}", out(&shown));
    let exported = hub.beside(&["blackbox", "export", "1", "-o", "/dev/null"]).output().unwrap();
    assert!(err(&exported).contains("freeze 1 has no recording"), "{}", err(&exported));
}
