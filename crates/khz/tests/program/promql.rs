//! PromQL over real nodes: at a hub with a store and agents, and at a khz without a store. The values are those of `/metrics`;
//! Prometheus' own tool asks, and so does each panel of the dashboards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, out, run, until};

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

struct Cluster {
    hub: Running,
    _agents: Vec<Running>,
    place: PathBuf,
}

impl Cluster {
    /// A hub that stores, and two agents that send ten rows a second.
    fn new(name: &str) -> Self {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        let store = place.join("store");
        let words =
            ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub", "--store"];
        let mut command = khz(&[&words[..], &[store.to_str().unwrap()]].concat());
        command.env("KHZ_RUN_DIR", place.join("run"));
        let hub = Running::of(command);
        let link = hub.link();
        let agent = |node: &str| {
            let mut command = khz(&["agent", "--node", node, "--hub", &link, "--base-rate", "10Hz"]);
            command.env("KHZ_RUN_DIR", place.join("run"));
            Running::of(command)
        };
        let agents = ["n1", "n2"].map(agent).into();
        let cluster = Cluster { hub, _agents: agents, place };
        until(PATIENCE, "both nodes have sent rows for some seconds", || {
            let answer = cluster.query("count(count_over_time(node_load1[10s]) > 50)", None);
            answer["data"]["result"][0]["value"][1] == "2"
        });
        cluster
    }

    fn query(&self, query: &str, time: Option<&str>) -> Value {
        let time = time.map_or_else(String::new, |time| format!("&time={time}"));
        serde_json::from_str(&get_at(&self.hub, &format!("/api/v1/query?query={}{time}", encoded(query))))
            .unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The samples of an exposition: names and labels in the order of the labels' names, and values.
fn exposed(text: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").collect();
        labels.iter_mut().for_each(|label| *label = label.trim_end_matches('"'));
        labels.sort_unstable();
        (format!("{name}{{{}}}", labels.join(",")), value.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

/// The samples of an instant vector in the same form.
fn queried(answer: &Value) -> BTreeMap<String, f64> {
    let sample = |sample: &Value| {
        let labels = sample["metric"].as_object().unwrap();
        let escaped = |value: &Value| value.as_str().unwrap().replace('\\', "\\\\").replace('"', "\\\"");
        let others: Vec<String> = labels
            .iter()
            .filter(|(name, _)| *name != "__name__")
            .map(|(name, value)| format!("{name}=\"{}", escaped(value)))
            .collect();
        let name = labels["__name__"].as_str().unwrap();
        (format!("{name}{{{}}}", others.join(",")), sample["value"][1].as_str().unwrap().parse().unwrap())
    };
    answer["data"]["result"].as_array().unwrap().iter().map(sample).collect()
}

#[test]
fn every_value_is_that_of_metrics_at_the_same_moment() {
    let cluster = Cluster::new("promql");
    let metrics = exposed(&get_at(&cluster.hub, "/metrics?nodes=n1"));
    let time = metrics["node_time_seconds{instance=\"n1,job=\"node}"];
    // The row that `/metrics` has shown: its time in ms, not rounded up.
    let time = format!("{}", (time * 1_000.0).floor() / 1_000.0);
    let mut past = BTreeMap::new();
    until(PATIENCE, "the row can be asked for", || {
        past = queried(&cluster.query("{instance=\"n1\"}", Some(&time)));
        past.get("node_time_seconds{instance=\"n1,job=\"node}")
            == metrics.get("node_time_seconds{instance=\"n1,job=\"node}")
    });
    assert!(metrics.len() > 200, "{metrics:?}");
    for (series, value) in &metrics {
        assert_eq!(past.get(series), Some(value), "{series}");
    }
    assert_eq!(past.keys().collect::<Vec<_>>(), metrics.keys().collect::<Vec<_>>());
}

#[test]
fn khz_query_prints_a_table_a_plot_or_json_and_points_at_errors() {
    let cluster = Cluster::new("khz-query");
    let ask = |words: &[&str]| run(&[&["query"], words, &["--server", &cluster.hub.url]].concat());
    let table = ask(&["sort_desc(up)"]);
    assert_eq!(code(&table), 0, "{}", err(&table));
    assert!(out(&table).contains("up{instance=\"n1\",job=\"node\"}      1"), "{}", out(&table));
    let json = ask(&["topk(1, rate(node_context_switches_total[5s]))", "--json"]);
    let line: Value = serde_json::from_str(&out(&json)).unwrap();
    assert!(line["value"].as_str().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    let plot = ask(&["avg by (instance) (node_load1)", "--range", "1m", "--step", "1s"]);
    assert!(
        out(&plot).contains("{instance=\"n2\"}") && out(&plot).contains("60 s, from 20"),
        "{}",
        out(&plot)
    );
    let range = ask(&["vector(7)", "--range", "10s", "--step", "5s", "--json"]);
    assert_eq!(out(&range).matches("\"7\"").count(), 3, "{}", out(&range));
    assert_eq!(out(&ask(&["1 + 1"])), "2\n");
    let own = ask(&["{\"load.1m\", instance=\"n1\"}", "--json"]);
    assert!(out(&own).contains(r#""__name__":"load.1m""#), "{}", out(&own));
    let nothing = ask(&["nothing"]);
    assert_eq!((code(&nothing), out(&nothing)), (0, String::new()));
    assert!(err(&nothing).contains("no series has a sample at that time"), "{}", err(&nothing));
    let wrong = ask(&["sum(node_load1"]);
    assert_eq!((code(&wrong), out(&wrong)), (2, String::new()));
    assert!(err(&wrong).contains("parse error"), "{}", err(&wrong));
    let nobody = run(&["query", "up", "--url", "http://127.0.0.1:1/prometheus"]);
    assert_eq!(code(&nobody), 1);
    assert!(err(&nobody).contains("no answer from http://127.0.0.1:1/prometheus: "), "{}", err(&nobody));
    let weeks = ask(&["vector(7)", "--range", "2w", "--step", "1w", "--json"]);
    assert_eq!(out(&weeks).matches("\"7\"").count(), 3, "{}", err(&weeks));
    let own = ask(&["sum(load.1m)"]);
    assert_eq!(code(&own), 2);
    assert!(err(&own).contains("{\"load.1m\"}"), "{}", err(&own));
    let empty = ask(&[""]);
    assert!(code(&empty) == 2 && err(&empty).contains("the query is empty"), "{}", err(&empty));
    let engine = run(&["query", "count(up)", "--url", &cluster.hub.url]);
    assert_eq!(out(&engine).lines().nth(1).map(str::trim_end), Some("{}          2"), "{}", err(&engine));
}

#[test]
fn the_files_of_a_store_answer_as_its_hub_does() {
    let cluster = Cluster::new("query-files");
    let store = cluster.place.join("store");
    let store = store.to_str().unwrap();
    let ask = |words: &[&str], of: &[&str]| {
        let output = run(&[&["query", "--json"], words, of].concat());
        assert_eq!(code(&output), 0, "{words:?} {of:?}: {}", err(&output));
        let mut lines: Vec<String> = out(&output).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = (now - 3).to_string();
    for words in [
        &["{job=\"node\"}", "--at", &time][..],
        &["{\"load.1m\"}", "--at", &time],
        &["avg by (instance, mode) (rate(node_cpu_seconds_total[2s]))", "--at", &time, "--range", "4s"],
        &["1 / 3e30", "--at", &time],
        &["\"a\\xff\"", "--at", &time],
        &["label_replace(vector(1e30), \"a\", \"\\xe2\\x82.\", \"\", \"\")", "--at", &time],
    ] {
        assert_eq!(ask(words, &["--store", store]), ask(words, &["--server", &cluster.hub.url]), "{words:?}");
    }
    assert!(ask(&["{job=\"node\"}", "--at", &time], &["--store", store]).len() > 400);
    let before = run(&["query", "up", "--store", store, "--at", "2020-01-01T00:00:00Z"]);
    assert_eq!((code(&before), out(&before)), (0, String::new()));
    assert!(err(&before).contains("what is in ") && !err(&before).contains("--at"), "{}", err(&before));
    let wrong = run(&["query", "sum(node_load1", "--store", store]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("parse error") && err(&wrong).contains('^'), "{}", err(&wrong));
    let nowhere = run(&["query", "up", "--store", "/nowhere/at/all"]);
    assert_eq!(code(&nowhere), 2);
    assert!(err(&nowhere).contains("there is no store in /nowhere/at/all"), "{}", err(&nowhere));
    let other = run(&["query", "up", "--store", cluster.place.to_str().unwrap()]);
    assert_eq!(code(&other), 1, "{}", err(&other));
}

#[test]
fn a_hub_answers_of_nodes_that_are_gone_under_the_names_of_prometheus() {
    let cluster = Cluster::new("query-gone");
    // What a hub's store is when its machine loses power.
    let store = cluster.place.with_extension("kept");
    let copied = Command::new("cp").args(["-a", "--"]).arg(cluster.place.join("store")).arg(&store).status();
    assert!(copied.unwrap().success());
    drop(cluster);
    let hub = Running::start_hub(&["--store", store.to_str().unwrap()]);
    let ask = |query: &str| out(&run(&["query", query, "--json", "--server", &hub.url]));
    for name in ["node_load1", "node_memory_MemFree_bytes"] {
        let count = ask(&format!("count(count_over_time({name}[10m]))"));
        assert!(count.contains(r#""value":"2""#), "{name}: {count}");
    }
    drop(hub);
    std::fs::remove_dir_all(store).unwrap();
}

#[test]
fn without_a_store_the_last_hours_are_in_memory() {
    let alone = Running::start(&[]);
    let hub = Running::start_hub(&["--store", "none"]);
    let link = hub.link();
    let _agent = Running::of(hub.beside(&["agent", "--node", "n1", "--hub", &link]));
    for khz in [&alone, &hub] {
        let ask = |words: &[&str]| run(&[words, &["--server", &khz.url]].concat());
        until(PATIENCE, "some rows are in memory", || {
            out(&ask(&["export", "--from", "-1h", "-m", "n1:load.1m"])).lines().count() > 4
        });
        let load = ask(&["get", "n1:load.1m", "--at", "-1s"]);
        assert_eq!(code(&load), 0, "{}", err(&load));
        let up = ask(&["query", "up", "--json"]);
        assert!(out(&up).contains(r#""value":"1""#), "{}{}", out(&up), err(&up));
        let before = ask(&["get", "n1:load.1m", "--at", "-3d"]);
        assert_eq!(code(&before), 1);
        assert!(err(&before).contains("has rows in memory only since 20"), "{}", err(&before));
        assert_eq!(out(&ask(&["query", "count(up)", "--at", "-3d"])), "");
    }
}

#[test]
fn promtool_asks_and_is_content() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return khz_skip::skip("promtool is not installed");
    }
    let cluster = Cluster::new("promtool");
    let url = cluster.hub.url.trim_end_matches('/').to_owned();
    let promtool = |words: &[&str]| {
        let output = Command::new("promtool").arg("query").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let instant = promtool(&["instant", &url, "count by (job) (up)"]);
    assert!(instant.starts_with("{job=\"node\"} => 2 @["), "{instant}");
    let range = promtool(&["range", "--step=1s", &url, "up{instance=\"n1\"}"]);
    assert!(range.contains("up{instance=\"n1\", job=\"node\"} =>\n1 @["), "{range}");
    let series = promtool(&["series", "--match=node_load1", &url]);
    assert_eq!(series.lines().count(), 2, "{series}");
    let labels = promtool(&["labels", &url, "instance"]);
    assert_eq!(labels, "n1\nn2\n");
}

/// Panels that are empty when all is well say so in their description.
const EMPTY: &str = "Empty when all is well.";

#[test]
fn every_query_of_every_dashboard_is_answered_with_data() {
    let cluster = Cluster::new("dashboards");
    let metrics = get_at(&cluster.hub, "/metrics?nodes=n1");
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/dashboards"));
    let (mut asked, mut answered) = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let written = target["expr"].as_str().unwrap();
                let is_regex = written.contains("=~\"$instance\"");
                let expr = written
                    .replace("$__rate_interval", "4s")
                    .replace("$instance", if is_regex { ".*" } else { "n1" });
                assert!(!expr.contains('$'), "{}: {written}", path.display());
                let answer = cluster.query(&expr, None);
                assert_eq!(answer["status"], "success", "{expr}: {answer}");
                assert!(
                    answer.get("warnings").is_none() && answer.get("infos").is_none(),
                    "{expr}: {answer}"
                );
                asked += 1;
                let is_empty = answer["data"]["result"].as_array().unwrap().is_empty();
                let words = written.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let is_metric = |word: &&str| word.starts_with("node_") || word.starts_with("khz_");
                // A machine without disks or without pressure files has no such series.
                let exists = words.filter(is_metric).all(|name| metrics.contains(&format!("\n{name}{{")));
                let may_be_empty =
                    panel["description"].as_str().is_some_and(|text| text.starts_with(EMPTY)) || !exists;
                assert!(!is_empty || may_be_empty, "{}: no data for {expr}", path.display());
                answered += usize::from(!is_empty);
            }
        }
    }
    assert!(asked > 40 && answered * 3 > asked * 2, "{answered} of {asked} queries have data");
}
