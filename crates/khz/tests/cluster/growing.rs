//! Nodes of one kind that gain the same series at the same moment: a job that starts everywhere publishes its numbers.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::daemon::{Daemon, folder, until};
use crate::lab::Lab;
use crate::shm;

const NODES: [&str; 8] = ["g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"];
const NAMES: usize = 20;
const ROUNDS: usize = 3;

/// `khz publish` of all names of a round to the agent of a place.
fn publish(place: &str, round: usize) -> Child {
    let run_dir = folder(&format!("run-{place}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    command.env("XDG_CONFIG_HOME", "/nonexistent").arg("publish").arg("--run-dir").arg(run_dir);
    command.args((0..NAMES).map(|name| format!("round{round}x{name}={round}")));
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// The hub's status of the lanes of every node, each still on its first connection.
fn lanes(hub: &Daemon, lab: &Lab) -> Vec<Vec<Value>> {
    let (_, out, err) = hub.run(lab, &["nodes", "--json"]);
    let nodes: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(nodes.iter().all(|node| node["connects"] == 1 && node["problem"].is_null()), "{out}{err}");
    nodes.iter().map(|node| node["lanes"].as_array().unwrap().clone()).collect()
}

fn number(lane: &Value, key: &str) -> u64 {
    lane[key].as_u64().unwrap_or_else(|| panic!("no {key} in {lane}"))
}

/// Whether every node has a lane like that.
fn all(lanes: &[Vec<Value>], is_so: impl Fn(&Value) -> bool) -> bool {
    lanes.len() == NODES.len() && lanes.iter().all(|lanes| lanes.iter().any(&is_so))
}

#[test]
fn eight_agents_that_gain_twenty_names_at_once_stay_connected_and_lose_nothing() {
    let Some(lab) = Lab::new(&[&["gh"][..], &NODES].concat()) else { return };
    let hub = Daemon::hub(&lab, "gh", &["--text-listen", "none"]);
    let rings: Vec<String> = NODES.iter().map(|node| shm(node)).collect();
    let agent = |(node, rings): (&&str, &String)| Daemon::agent(&lab, node, &["gh"], &["--ring-dir", rings]);
    let _agents: Vec<Daemon> = NODES.iter().zip(&rings).map(agent).collect();
    let is_whole =
        |lane: &Value| lane["name"] == "base" && number(lane, "awaited") == 0 && number(lane, "rows") > 10;
    until("rows come", || all(&lanes(&hub, &lab), is_whole));
    // What was gathered before the connections stood.
    let late: Vec<u64> = lanes(&hub, &lab).iter().flatten().map(|lane| number(lane, "late")).collect();

    let path = folder("growing").join("run.khzt");
    let link = format!("{}:7071", lab.address("gh"));
    let file = path.to_str().unwrap();
    let words = ["record", "g[1-8]:*", "--rate", "50", "--hub", &link, "--insecure", "--quiet", "-o", file];
    let mut recorder = Daemon::start(&lab, "gh", &words);
    let is_fast = |lane: &Value| lane["name"] != "base" && number(lane, "rows") > 10;
    until("all are recorded at 50 Hz", || all(&lanes(&hub, &lab), is_fast));

    for round in 1..=ROUNDS {
        let publishers: Vec<Child> = NODES.iter().map(|node| publish(node, round)).collect();
        // Meanwhile a reader comes and goes.
        let watched = hub.run(&lab, &["watch", "g[1-8]:cpu.*", "--rate", "20", "--count", "20"]);
        assert_eq!(watched.0, Some(0), "{}", watched.2);
        publishers.into_iter().for_each(|mut publisher| assert!(publisher.wait().unwrap().success()));
        let pattern = format!("g[1-8]:job.round{round}*");
        until("all names of all nodes are there", || {
            let (code, out, _) = hub.run(&lab, &["get", &pattern, "--json"]);
            code == Some(0) && out.lines().count() == NODES.len() * NAMES
        });
    }

    until("nothing is awaited", || all(&lanes(&hub, &lab), is_whole));
    for (lanes, late) in lanes(&hub, &lab).iter().zip(late) {
        for lane in lanes {
            let before = if lane["name"] == "base" { late } else { 0 };
            assert_eq!((number(lane, "lost"), number(lane, "late")), (0, before), "{lane}");
        }
    }
    let (code, message) = recorder.end("INT");
    assert_eq!((code, message.as_str()), (Some(0), ""), "the recording is whole");
    judge_recording(file);
}

/// Every node's rows follow each other without a gap, to the last name.
fn judge_recording(file: &str) {
    let exported = Command::new(env!("CARGO_BIN_EXE_khz"))
        .args(["export", file, "--json", "--match", "job.*"])
        .output()
        .unwrap();
    assert_eq!(exported.status.code(), Some(0), "{}", String::from_utf8_lossy(&exported.stderr));
    let text = String::from_utf8(exported.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for node in NODES {
        let of_node: Vec<&Value> = rows.iter().filter(|row| row["node"] == node).collect();
        let numbers: Vec<u64> = of_node.iter().map(|row| row["row"].as_u64().unwrap()).collect();
        assert!(numbers.len() > NAMES, "{node}: {} rows", numbers.len());
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{node}: a gap in {numbers:?}");
        let newest = of_node.last().unwrap()["values"].as_object().unwrap();
        let published = newest.keys().filter(|name| name.starts_with("job.round")).count();
        assert_eq!(published, NAMES * ROUNDS, "{node}");
    }
}
