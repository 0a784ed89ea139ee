//! Remote read: a Prometheus without samples of its own answers over what a hub remembers, with what the hub itself answers.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use khz_judges::{Judge, Kind};

use crate::exposition::get_at;
use crate::process::{Running, khz, until};

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Queries whose answers must be the same. The times lie between two seconds, where the ranges of all versions agree.
const QUERIES: [&str; 6] = [
    "node_memory_MemTotal_bytes",
    "node_load1{instance=\"n1\"}",
    "count_over_time(node_memory_MemFree_bytes[5s])",
    "sum by (instance) (rate(khz_gather_cpu_seconds_total[8s]))",
    "{__name__=~\"node_load.*\"}",
    "max_over_time(node_memory_MemAvailable_bytes{job!=\"x\"}[9s])",
];

fn answer(text: &str) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(answer["status"], "success", "{text}");
    let mut series: Vec<String> =
        answer["data"]["result"].as_array().unwrap().iter().map(ToString::to_string).collect();
    series.sort();
    series
}

fn answers_are_those_of_the_hub(kind: Kind, name: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let store = folder.join("store");
    let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"];
    let mut command = khz(&[&words[..], &["--store", store.to_str().unwrap()]].concat());
    command.env("KHZ_RUN_DIR", folder.join("run"));
    let hub = Running::of(command);
    let link = hub.link();
    let agents = ["n1", "n2"].map(|node| {
        let mut command = khz(&["agent", "--node", node, "--hub", &link, "--sources", "loadavg,meminfo"]);
        command.env("KHZ_RUN_DIR", folder.join("run"));
        Running::of(command)
    });
    let url = hub.url.trim_end_matches('/');
    let config = format!("remote_read: [{{ url: '{url}/api/v1/read', read_recent: true }}]\n");
    let judge = match Judge::start(kind, &folder.join("judge"), &config) {
        Ok(judge) => judge,
        Err(lacking) => return khz_skip::skip(lacking),
    };
    let ask = |query: &str, time: &str| format!("/api/v1/query?query={}&time={time}", percent(query));
    // Ten seconds of both nodes.
    until(PATIENCE, "rows have come", || {
        let counts = get_at(&hub, &ask("count_over_time(node_load1[1m]) >= 12", &now(0)));
        answer(&counts).len() == 2
    });
    let time = now(2);
    for query in QUERIES {
        let of_hub = answer(&get_at(&hub, &ask(query, &time)));
        let of_judge = answer(&judge.get(&ask(query, &time)).unwrap());
        assert_eq!(of_judge, of_hub, "{query} at {time}");
        assert!(!of_hub.is_empty(), "{query}");
    }
    drop(agents);
    let _ = std::fs::remove_dir_all(&folder);
}

/// The time so many seconds ago, in the middle of a second.
fn now(ago: u64) -> String {
    format!("{}.5", SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - ago)
}

fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[test]
fn debians_prometheus_answers_over_a_hub() {
    answers_are_those_of_the_hub(Kind::DebianPrometheus, "read-debian");
}

#[test]
fn prometheus_3_answers_over_a_hub() {
    answers_are_those_of_the_hub(Kind::Prometheus, "read-prometheus3");
}
