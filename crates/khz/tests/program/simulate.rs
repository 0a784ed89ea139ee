//! `khz simulate` on a machine that has nothing but the program.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::{Ended, Running, code, err, khz, out, until};
use crate::text::free_port;

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hides the sources' recordings from what follows; needs the privileges of a mount namespace.
const HIDDEN: &str = "mount -t tmpfs none \"$0\" && exec \"$@\"";

fn may_mount() -> bool {
    let mounted = Command::new("unshare").args(["--mount", "true"]).output();
    mounted.is_ok_and(|output| output.status.success())
}

#[test]
fn a_copied_program_plays_every_workload_where_there_are_no_recordings() {
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("empty-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let program = empty.join("khz");
    let from = env!("CARGO_BIN_EXE_khz");
    std::fs::hard_link(from, &program).or_else(|_| std::fs::copy(from, &program).map(|_| ())).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap();
    let is_hidden = may_mount();

    let hub = Running::start_hub(&[]);
    let link = hub.link();
    for workload in ["idle", "compile", "netcopy", "mempressure"] {
        let mut command = match is_hidden {
            true => Command::new("unshare"),
            false => Command::new(&program),
        };
        if is_hidden {
            command.args(["--mount", "sh", "-c", HIDDEN]).arg(&fixtures).arg(&program);
        }
        command.args(["simulate", "--nodes", "2", "--rate", "10Hz", "--for", "1s", "--json", "--hub", &link]);
        command.args(["--workload", workload, "--prefix", workload]);
        // With what the hub's run has for its own user, and nothing of this environment's.
        let run_dir = hub.beside(&[]);
        let run_dir = run_dir.get_envs().find(|(name, _)| *name == "KHZ_RUN_DIR").and_then(|(_, dir)| dir);
        command.current_dir(&empty).env("HOME", &empty).env("KHZ_RUN_DIR", run_dir.unwrap());
        let played = command.output().unwrap();
        // Code 1 means late rows, which a busy machine can cause.
        assert!(matches!(played.status.code(), Some(0 | 1)), "{workload}: {}", err(&played));
        let last = out(&played).lines().last().map(|line| serde_json::from_str(line).unwrap());
        let last: serde_json::Value = last.unwrap_or_default();
        assert!(last["rows"].as_u64().is_some_and(|rows| rows > 0), "{workload}: {last}");
        let nodes = out(&khz(&["nodes", "--server", &hub.url]).output().unwrap());
        assert!(nodes.contains(&format!("{workload}1")), "{nodes}");
    }
    std::fs::remove_dir_all(empty).unwrap();
}

#[test]
fn channels_can_be_tried_on_simulated_nodes() {
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let _nodes =
        Ended::start_silent(&mut hub.beside(&["simulate", "--nodes", "3", "--rate", "10Hz", "--hub", &link]));
    let ask = |words: &[&str]| khz(&[words, &["--server", &hub.url]].concat()).output().unwrap();
    until(PATIENCE, "three nodes", || {
        out(&ask(&["nodes", "--json"])).matches("\"state\":\"up\"").count() == 3
    });
    let wait = ask(&["wait", "node[1-3]:mem.available > 1B and load.1m >= 0", "--timeout", "60s"]);
    assert_eq!(wait.status.code(), Some(0), "{}", err(&wait));
    assert!(out(&wait).contains(": mem.available is "), "{}", out(&wait));
    let create = ask(&["channel", "create", "means", "mem.available", "--each", "mean 1s", "--rate", "10Hz"]);
    assert_eq!(create.status.code(), Some(0), "{}", err(&create));
    let watch = ask(&["channel", "watch", "means", "--json", "--count", "9"]);
    assert_eq!(watch.status.code(), Some(0), "{}", err(&watch));
    assert!(out(&watch).contains("channel.means.mem.available"), "{}", out(&watch));
}

#[test]
fn nodes_with_faults_show_them_fall_silent_and_come_back_while_others_are_as_ever() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("faults.toml");
    let text = "[[fault]]\nkind = \"leak\"\nnodes = \"node2\"\nbegin = \"10s\"\nlasts = \"20s\"\nend = \"down\"\nback = \"20s\"\n";
    std::fs::write(&file, text).unwrap();
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let words =
        ["simulate", "--nodes", "2", "--rate", "10Hz", "--workload", "idle", "--hub", &link, "--faults"];
    let _nodes = Ended::start_silent(hub.beside(&words).arg(&file));
    let ask = |words: &[&str]| khz(&[words, &["--server", &hub.url]].concat()).output().unwrap();
    let state = |node: &str| {
        let nodes = out(&ask(&["nodes", "--json"]));
        let nodes = nodes.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let found = nodes.into_iter().find(|one| one["node"] == node);
        found.map(|one| one["state"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    until(PATIENCE, "both nodes", || state("node1") == "up" && state("node2") == "up");
    let value = |node: &str| {
        let answer = out(&ask(&["get", &format!("{node}:mem.available"), "--json"]));
        let object =
            answer.lines().next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok())?;
        object["value"].as_str()?.parse::<f64>().ok()
    };
    let (mut seen, mut others) = (Vec::new(), Vec::new());
    until(PATIENCE, "the node falls silent", || {
        seen.extend(value("node2"));
        others.extend(value("node1"));
        state("node2") == "down"
    });
    let lowest = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = seen.iter().copied().fold(0.0, f64::max);
    assert!(lowest < highest / 2.0, "{seen:?}");
    let least = others.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least > others[0] * 0.9, "{others:?}");
    assert_eq!(state("node1"), "up");
    until(PATIENCE, "the node is back", || state("node2") == "up");
    until(PATIENCE, "its memory is as before", || value("node2").is_some_and(|value| value > highest * 0.9));

    for (wrong, problem) in [
        (text.replace("leak", "leek"), "faults.toml:2:8: kind: \"leek\" (did you mean \"leak\"?)"),
        (
            text.replace("node2", "other[1-3]"),
            "faults.toml:3:9: a fault of kind leak at other[1-3] would not show: no node has such a name; they are node1 to node2",
        ),
    ] {
        std::fs::write(&file, wrong).unwrap();
        let refused = hub.beside(&words).arg(&file).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
        assert!(err(&refused).contains(problem), "{}", err(&refused));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_simulation_whose_nodes_the_hub_never_accepts_fails_and_says_why_once() {
    let nowhere = format!("127.0.0.1:{}", free_port().rsplit_once(':').unwrap().1);
    let words = ["simulate", "--nodes", "3", "--rate", "10Hz", "--for", "2s", "--hub", &nowhere];
    let output = khz(&words).output().unwrap();
    let said = err(&output);
    assert_eq!(code(&output), 1, "{said}");
    assert_eq!(said.matches("refused").count(), 1, "{said}");
    assert!(said.contains("has accepted no node"), "{said}");
}
