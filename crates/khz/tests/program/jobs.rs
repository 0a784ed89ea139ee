//! Jobs of a batch system at a real hub: told, listed, kept; their nodes in patterns and in PromQL; and why one was held up.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;
use crate::text::free_port;

const PATIENCE: Duration = Duration::from_secs(120);

fn hub(place: &Place, link: &str, config: &str) -> Running {
    let (config, store, state) =
        (place.file("khz.toml", config), place.0.join("store"), place.0.join("state"));
    let words =
        ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
    let more = ["--store", store.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let mut command = khz(&[&words[..], &more].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

fn ask(hub: &Running, words: &[&str]) -> Output {
    hub.beside(words).output().unwrap()
}

/// Runs it to a good end, and returns stdout.
fn done(hub: &Running, words: &[&str]) -> String {
    let output = ask(hub, words);
    assert_eq!(code(&output), 0, "{words:?}: {}", err(&output));
    out(&output)
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listed(hub: &Running, more: &[&str]) -> Vec<Value> {
    objects(&done(hub, &[&["job", "list", "--json"], more].concat()))
}

#[test]
fn jobs_that_a_hub_was_told_of_are_there_after_kill_9_and_are_ended_once() {
    let (place, link) = (Place::new("jobs"), free_port());
    let running = hub(&place, &link, "");
    let _n1 = place.agent(&link, "n1");
    until(PATIENCE, "n1 is there", || out(&ask(&running, &["nodes", "--json"])).contains("\"n1\""));
    let words =
        ["job", "start", "4711", "--nodes", "n1,x[8-9]", "--user", "ann", "--name", "my\u{1b}[2J job"];
    let told = ask(&running, &words);
    assert_eq!((code(&told), out(&told).as_str()), (0, ""), "{}", err(&told));
    assert!(err(&told).contains("job 4711: the hub has never seen x[8-9]"), "{}", err(&told));
    assert_eq!(code(&ask(&running, &words)), 0, "the same once more is the same");
    done(&running, &["job", "start", "4712", "--nodes", "n1", "--begin", "-1h"]);

    for (words, expected, exit) in [
        (&["job", "end", "999"][..], "khz job start 999 --nodes HOSTLIST", 1),
        (&["job", "start", "a:b", "--nodes", "n1"], "is no id of a job", 2),
        (&["job", "start", "7", "--nodes", "n*"], "without * and ?", 2),
        (&["job", "start"], "SLURM_JOB_ID is not set", 2),
        (&["job", "show", "999"], "there is no job 999", 1),
        (&["get", "job(999):load.1m"], "there is no job 999", 1),
        (&["get", "job(a b):load.1m"], "is no id of a job", 2),
        (&["get", "job(4711)"], "names no job", 2),
        (&["why", "4712"], "1 nodes, and nodes are compared with their peers", 1),
    ] {
        let output = ask(&running, words);
        assert_eq!(code(&output), exit, "{words:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{words:?}: {}", err(&output));
    }

    running.end("KILL");
    let running = hub(&place, &link, "");
    let jobs = listed(&running, &[]);
    let shown: Vec<(&str, &str)> =
        jobs.iter().map(|job| (job["id"].as_str().unwrap(), job["nodes"].as_str().unwrap())).collect();
    assert_eq!(shown, [("4712", "n1"), ("4711", "n1,x[8-9]")]);
    let table = done(&running, &["job", "list"]);
    assert!(table.contains("ann") && table.contains("1h") && !table.contains('\u{1b}'), "{table}");

    // As Slurm's epilog: no word, and a hub that is away is no failure.
    let epilog = |server: Option<&str>| {
        let mut command = match server {
            Some(server) => khz(&["job", "end", "--server", server]),
            None => running.beside(&["job", "end"]),
        };
        command.env("SLURM_JOB_ID", "4711").env("SLURM_JOB_EXIT_CODE2", "3:0").output().unwrap()
    };
    let away = epilog(Some("127.0.0.1:1"));
    assert_eq!(code(&away), 0);
    assert!(err(&away).contains("no khz answers"), "{}", err(&away));
    for _ in 0..2 {
        assert_eq!(code(&epilog(None)), 0);
    }
    let ended = listed(&running, &["--ended"]);
    assert_eq!((ended.len(), &ended[0]["outcome"]), (1, &Value::from("exit 3")));
    assert_eq!(listed(&running, &["--running", "--on", "n1"]).len(), 1);
    assert_eq!(listed(&running, &["--user", "ann", "--last", "1"])[0]["id"], "4711");
    let shown = done(&running, &["job", "show", "4711"]);
    assert!(shown.contains("exit 3") && shown.contains("n1,x[8-9] (3)"), "{shown}");
}

#[test]
fn a_job_stands_for_its_nodes_in_patterns_and_in_promql_and_why_names_the_node_with_the_slow_disk() {
    let (place, link) = (Place::new("jobs-why"), free_port());
    let hub = hub(&place, &link, "");
    let faults = place.file(
        "faults.toml",
        "[[fault]]\nkind = \"io-storm\"\nnodes = \"s3\"\nbegin = \"2s\"\nlasts = \"1h\"\n",
    );
    let mut command = khz(&["simulate", "--nodes", "6", "--rate", "1", "--prefix", "s", "--hub", &link]);
    command.args(["--workload", "idle", "--faults", &faults]).env("KHZ_RUN_DIR", place.0.join("run"));
    let mut simulated = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    until(PATIENCE, "all nodes are there", || {
        out(&ask(&hub, &["get", "s[1-6]:load.1m"])).lines().count() >= 7
    });
    done(&hub, &["job", "start", "7", "--nodes", "s[1-5]"]);
    done(&hub, &["job", "start", "8", "--nodes", "s6"]);

    let answer = done(&hub, &["get", "job(7):load.1m", "--json"]);
    let nodes: Vec<Value> = objects(&answer).iter().map(|object| object["node"].clone()).collect();
    assert_eq!(nodes, ["s1", "s2", "s3", "s4", "s5"]);
    let mut counted = Vec::new();
    // Each node has samples as soon as its clock is measured.
    until(PATIENCE, "the series of all nodes of the jobs are joined", || {
        let query = "count by (job_id) (node_load1{job_id=~\".+\"})";
        counted = objects(&done(&hub, &["query", query, "--json"]));
        counted.len() == 2 && done(&hub, &["query", "count(node_load1)", "--json"]).contains("\"6\"")
    });
    let text = serde_json::to_string(&counted).unwrap();
    assert!(text.contains("\"7\"") && text.contains("\"8\""), "{text}");
    let count = |query: &str| done(&hub, &["query", query, "--json"]);
    assert!(count("count(node_load1{job_id=\"7\"})").contains("\"5\""), "its nodes");
    assert!(count("count(node_load1)").contains("\"6\""), "nothing changes without the label");
    assert!(count("sum(khz_job_info)").contains("\"6\""));
    let ids = done(&hub, &["query", "khz_job_info{instance=\"s6\"}", "--json"]);
    assert!(ids.contains("\"job_id\":\"8\""), "{ids}");

    let mut found = Vec::new();
    until(PATIENCE, "the node with the slow disk is found", || {
        let answer = ask(&hub, &["why", "7", "--json"]);
        found = objects(&out(&answer));
        found.len() > 1 && found[1]["resource"] == "io pressure"
    });
    assert_eq!(found[1]["node"], "s3", "{found:?}");
    let page = place.0.join("why.html");
    let said = done(&hub, &["why", "7", "-o", page.to_str().unwrap()]);
    assert!(said.contains("s3 held it up most: io pressure:"), "{said}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("why job 7 was held up"));

    done(&hub, &["job", "end", "7", "--exit", "0"]);
    let at_end = ask(&hub, &["get", "job(7):load.1m"]);
    assert_eq!(code(&at_end), 0, "{}", err(&at_end));
    assert!(err(&at_end).contains("job 7 has ended: these are the values at its end"), "{}", err(&at_end));
    let picture = place.0.join("job.svg");
    done(&hub, &["plot", "-m", "job(7):load.1m", "-o", picture.to_str().unwrap()]);
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.contains("s5") && !picture.contains("s6"));
    let rows = done(&hub, &["export", "-m", "job(7):load.1m"]);
    assert!(rows.lines().count() > 50 && !rows.contains(",s6,"), "{rows}");
    let top = done(&hub, &["job", "top", "7", "--once", "--size", "100x30"]);
    assert!(top.contains("s5") && !top.contains("s6"), "{top}");
    // A job that has ended has no samples any more.
    until(PATIENCE, "its series have ended", || {
        out(&ask(&hub, &["query", "count(node_load1{job_id=\"7\"})", "--json"])).is_empty()
    });
    let _ = simulated.kill();
    let _ = simulated.wait();
}

#[test]
fn a_reader_of_another_user_sees_no_job_where_the_configuration_says_own() {
    let (place, link) = (Place::new("jobs-own"), free_port());
    let hub = hub(&place, &link, "[jobs]\nvisible = \"own\"\n");
    done(&hub, &["job", "start", "7", "--nodes", "n1", "--uid", "12345", "--user", "ann"]);
    assert_eq!(listed(&hub, &[]).len(), 1, "by the local socket this user is an operator");
    // Over loopback nobody says who he is.
    let stranger = |words: &[&str]| {
        let words = [words, &["--server", hub.url.trim_end_matches('/')]].concat();
        khz(&words).output().unwrap()
    };
    assert_eq!(out(&stranger(&["job", "list", "--json"])), "");
    let refused = stranger(&["job", "show", "7"]);
    assert!(code(&refused) == 1 && err(&refused).contains("there is no job 7"), "{}", err(&refused));
    let refused = stranger(&["get", "job(7):load.1m"]);
    assert!(err(&refused).contains("there is no job 7"), "{}", err(&refused));
    assert_eq!(out(&stranger(&["query", "khz_job_info", "--json"])), "");
    let refused = stranger(&["job", "end", "7"]);
    assert!(code(&refused) != 0 && err(&refused).contains("is for operators"), "{}", err(&refused));
    assert_eq!(objects(&done(&hub, &["query", "khz_job_info", "--json"])).len(), 1);
    // Causes of freezes name jobs.
    let frozen = ask(&hub, &["freeze", "job(7)", "--because", "job 7 failed"]);
    assert_eq!(code(&frozen), 3, "its node is not there: {}", err(&frozen));
    assert!(done(&hub, &["blackbox", "list"]).contains("job 7 failed"));
    for path in ["", "/1", "/1/recording"] {
        let (head, body) = crate::exposition::answer_at(&hub, &format!("/khz/v1/blackbox{path}"));
        assert!(head.contains(" 403 ") && body.contains("is for operators"), "{head} {body}");
        assert!(!body.contains("job 7"), "{body}");
    }
}

/// A node whose files are made up: it has control groups of Slurm with tasks.
struct Node {
    root: PathBuf,
    run: PathBuf,
}

impl Node {
    fn new(place: &Place, name: &str) -> Self {
        let node = Node { root: place.0.join(name), run: place.0.join("run") };
        node.file("proc/loadavg", "0.10 0.20 0.30 1/100 4711\n");
        node.file("sys/fs/cgroup/cgroup.controllers", "cpu memory io pids\n");
        for group in ["system.slice", "system.slice/slurmstepd.scope"] {
            node.group(group, 3);
        }
        node
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn group(&self, path: &str, tasks: u32) {
        self.file(&format!("sys/fs/cgroup/{path}/cgroup.events"), "populated 1\nfrozen 0\n");
        self.file(&format!("sys/fs/cgroup/{path}/pids.current"), &format!("{tasks}\n"));
    }

    fn agent(&self, link: &str, name: &str) -> Running {
        let root = self.root.to_str().unwrap();
        let words = ["agent", "--root", root, "--node", name, "--hub", link, "--sources", "loadavg,cgroups"];
        let mut command = khz(&words);
        command.env("KHZ_RUN_DIR", &self.run);
        Running::of(command)
    }
}

#[test]
fn jobs_that_nobody_told_of_are_seen_in_control_groups_and_several_on_a_node_are_told_apart() {
    let (place, link) = (Place::new("jobs-seen"), free_port());
    let hub = hub(&place, &link, "");
    let nodes = ["n1", "n2"].map(|name| Node::new(&place, name));
    let scope = "system.slice/slurmstepd.scope";
    for node in &nodes {
        node.group(&format!("{scope}/job_7"), 5);
        node.group(&format!("{scope}/job_7/step_0"), 4);
    }
    nodes[1].group(&format!("{scope}/job_8"), 11);
    let _agents = [nodes[0].agent(&link, "n1"), nodes[1].agent(&link, "n2")];
    until(PATIENCE, "both jobs are seen", || {
        let jobs = listed(&hub, &["--running"]);
        let is_there = |id: &str, nodes: &str| {
            jobs.iter().any(|job| job["id"] == *id && job["nodes"] == *nodes && job["source"] == "seen")
        };
        is_there("7", "n[1-2]") && is_there("8", "n2")
    });
    let tasks = |pattern: &str| {
        let objects = objects(&done(&hub, &["get", pattern, "--json"]));
        objects.iter().map(|object| object["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tasks("job(7):cgroup.tasks"), ["5", "5"], "not its steps, and not the other job");
    assert_eq!(tasks("job(8):cgroup.tasks"), ["11"]);
    let mut joined = String::new();
    until(PATIENCE, "the control groups of the job are joined", || {
        let query = "sum by (job_id) (khz_cgroup_tasks{job_id=\"8\"})";
        joined = done(&hub, &["query", query, "--json"]);
        !joined.is_empty()
    });
    assert!(joined.contains("\"11\"") && joined.contains("\"8\""), "{joined}");
    // What somebody tells is more than what is seen.
    done(&hub, &["job", "start", "8", "--nodes", "n2", "--user", "ann"]);
    let told = &listed(&hub, &["--on", "n2", "--user", "ann"])[0];
    assert_eq!((&told["id"], &told["source"]), (&Value::from("8"), &Value::from("told")));
    // It goes, and the job has ended a minute later.
    for node in &nodes {
        std::fs::remove_dir_all(node.root.join(format!("sys/fs/cgroup/{scope}/job_7"))).unwrap();
    }
    until(Duration::from_secs(240), "the job is over", || {
        listed(&hub, &["--ended"]).iter().any(|job| job["id"] == "7")
    });
}
