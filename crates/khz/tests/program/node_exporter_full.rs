//! "Node Exporter Full", the dashboard that most people have who have node_exporter: how many of its panels have data with khz's
//! `/metrics`, and how many with a real node_exporter's. One Prometheus scrapes both, and is asked each panel's queries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use khz_judges::{Judge, Kind};
use serde_json::Value;

use crate::node_exporter::NodeExporter;
use crate::process::{Running, until};
use crate::remote_write::Place;

const QUERIES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/node-exporter-full/queries.tsv"));

/// Panels that have data with node_exporter and none with khz, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("Exporter Process CPU Usage", "about node_exporter itself; khz has khz_process_cpu_seconds_total"),
    ("Node Exporter Scrape Time", "about node_exporter itself; khz has khz_source_..."),
    ("Network Saturation", SPEED),
    ("Speed", SPEED),
];

/// Virtual machines have only such interfaces.
const SPEED: &str = "node_exporter shows -125000 where the speed of an interface is not known, khz nothing";

/// A query of a panel.
struct Query {
    panel: (u32, &'static str),
    expression: &'static str,
}

fn queries() -> Vec<Query> {
    let query = |line: &'static str| {
        let mut fields = line.splitn(3, '\t');
        let panel = (fields.next().unwrap().parse().unwrap(), fields.next().unwrap());
        Query { panel, expression: fields.next().unwrap() }
    };
    QUERIES.lines().map(query).collect()
}

/// The number of series that an expression has for this target.
fn series(judge: &Judge, expression: &str, target: &str) -> usize {
    let expression =
        expression.replace("$job", target).replace("$node", target).replace("$__rate_interval", "30s");
    let percent = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let expression: String = expression.bytes().map(percent).collect();
    let answer = judge.get(&format!("/api/v1/query?query={expression}")).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["data"]["result"].as_array().unwrap().len()
}

#[test]
fn as_many_panels_have_data_as_with_node_exporter() {
    let place = Place::new("node-exporter-full");
    let theirs = match NodeExporter::start(&[]) {
        Ok(theirs) => theirs,
        Err(error) => {
            let what = "node_exporter (Debian package prometheus-node-exporter)";
            return khz_skip::skip(format!("{what}: {error}"));
        }
    };
    theirs.metrics();
    let ours = Running::start(&[]);
    let address = |url: &str| url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let targets = [("khz", address(&ours.url)), ("theirs", theirs.address().to_owned())];
    let jobs = targets.each_ref().map(|(name, address)| {
        format!(
            "- {{ job_name: {name}, scrape_interval: 1s, static_configs: [{{ targets: ['{address}'], labels: {{ instance: {name} }} }}] }}\n"
        )
    });
    let judge = match Judge::start(Kind::Prometheus, &place.0, &format!("scrape_configs:\n{}", jobs.concat()))
    {
        Ok(judge) => judge,
        Err(lacking) => return khz_skip::skip(lacking.to_string()),
    };
    // Rates need two samples, and surveys come every 10 s.
    until(Duration::from_secs(120), "both are scraped often enough", || {
        let has = |name: &str, query: &str| series(&judge, query, name) > 0;
        targets
            .iter()
            .all(|(name, _)| has(name, "count_over_time(node_filesystem_size_bytes{job=\"$job\"}[1m]) > 12"))
    });
    let mut panels: BTreeMap<(u32, &str), [usize; 2]> = BTreeMap::new();
    let (mut with_data, mut less) = ([0; 2], Vec::new());
    for query in queries() {
        let found = targets.each_ref().map(|(name, _)| series(&judge, query.expression, name));
        let panel = panels.entry(query.panel).or_default();
        for (at, found) in found.into_iter().enumerate() {
            panel[at] += found;
            with_data[at] += usize::from(found > 0);
        }
        if found[0] < found[1] {
            less.push(format!("{}: {found:?}: {}", query.panel.1, query.expression));
        }
    }
    ours.end("TERM");
    let has = |at: usize| panels.values().filter(|found| found[at] > 0).count();
    println!(
        "of {} panels, {} have data with khz, and {} with node_exporter; of {} queries, {} and {}",
        panels.len(),
        has(0),
        has(1),
        queries().len(),
        with_data[0],
        with_data[1]
    );
    println!("with fewer series than with node_exporter:\n{}", less.join("\n"));
    let only = |at: usize| {
        let is_it = move |found: &[usize; 2]| found[at] > 0 && found[1 - at] == 0;
        panels
            .iter()
            .filter(move |(_, found)| is_it(found))
            .map(|((_, title), _)| *title)
            .collect::<BTreeSet<_>>()
    };
    println!("with khz alone: {:?}", only(0));
    let known: BTreeSet<&str> = WITHOUT.iter().map(|(title, _)| *title).collect();
    let others: Vec<&str> = only(1).difference(&known).copied().collect();
    assert_eq!(others, [""; 0], "panels with data from node_exporter alone");
    assert!(has(0) >= has(1) && has(1) > 80, "{} panels and {}", has(0), has(1));
}
