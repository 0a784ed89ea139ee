//! `/metrics` beside a real node_exporter with all collectors that are on by default: the same names, types and labels, and
//! values that agree. What khz does not have is in one list, which may not name what it has.

use std::collections::{BTreeMap, BTreeSet};

use crate::exposition::get_at;
use crate::node_exporter::NodeExporter;
use crate::process::Running;

/// Names that khz does not have, and why.
const MISSING: &[(&str, &str)] = &[
    ("node_disk_info", "node_exporter 1.5 does not say whether a disk rotates"),
    ("node_exporter_build_info", "about node_exporter itself"),
    ("node_network_speed_bytes", "node_exporter shows -125000 where the speed is not known, khz nothing"),
    ("node_scrape_collector_duration_seconds", "about node_exporter itself; khz has khz_source_..."),
    ("node_scrape_collector_success", "about node_exporter itself; khz has khz_source_..."),
];

/// Labels without values are no labels to Prometheus.
pub type Labels = BTreeMap<String, String>;

/// The families of a text in Prometheus' format: type and series.
#[derive(Default)]
pub struct Family {
    pub kind: String,
    pub series: BTreeMap<Labels, f64>,
}

/// The families of a node; node_exporter's own ones (`go_`, `process_`) begin otherwise.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = families.entry(name.to_owned()).or_default();
            family.series.insert(labels_of(labels.trim_end_matches('}')), value.parse().unwrap());
        }
    }
    families.retain(|name, _| name.starts_with("node_"));
    families
}

fn labels_of(text: &str) -> Labels {
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"")?;
        (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    text.trim_end_matches('"').split("\",").filter_map(label).collect()
}

#[test]
fn metrics_have_the_names_types_labels_and_values_of_node_exporter() {
    let theirs = match NodeExporter::start(&[]) {
        Ok(theirs) => theirs,
        Err(error) => {
            let what = "node_exporter (Debian package prometheus-node-exporter)";
            return khz_skip::skip(format!("{what}: {error}"));
        }
    };
    let ours = Running::start(&[]);
    // Surveys have been made when the file systems are there.
    crate::process::until(std::time::Duration::from_secs(30), "surveys are made", || {
        get_at(&ours, "/metrics").contains("node_filesystem_size_bytes{")
    });
    theirs.metrics();
    let before = families(&get_at(&ours, "/metrics"));
    let theirs = families(&theirs.metrics());
    let after = families(&get_at(&ours, "/metrics"));
    ours.end("TERM");
    let mut wrong = Vec::new();
    for (name, family) in &theirs {
        match (after.get(name), MISSING.iter().find(|(missing, _)| missing == name)) {
            (Some(ours), None) => compare(name, family, &before[name], ours, &mut wrong),
            (Some(ours), Some(_)) if ours.series.is_empty() => {}
            (None, Some(_)) => {}
            (None, None) => wrong.push(format!("{name}: khz does not have it")),
            (Some(_), Some(_)) if ["node_network_speed_bytes", "node_disk_info"].contains(&name.as_str()) => {
            }
            (Some(_), Some(_)) => {
                wrong.push(format!("{name}: khz has it, and the list of missing names too"))
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} names:\n{}", wrong.len(), theirs.len(), wrong.join("\n"));
    assert!(theirs.len() > 200, "node_exporter shows {} names", theirs.len());
}

/// Families whose values another read may change in both directions, or that are read at other times (surveys every 10 s).
const MOVING: &[&str] = &["node_netstat_Tcp_CurrEstab", "node_netstat_Ip_Forwarding", "node_vmstat_oom_kill"];

fn says_adminstate(labels: &Labels) -> bool {
    labels.iter().any(|(label, _)| label == "adminstate")
}

fn compare(name: &str, theirs: &Family, before: &Family, after: &Family, wrong: &mut Vec<String>) {
    if theirs.kind != after.kind {
        wrong.push(format!("{name}: {} at node_exporter, {} here", theirs.kind, after.kind));
    }
    let ours: BTreeSet<Labels> = after.series.keys().cloned().collect();
    // Older versions of node_exporter do not say whether an interface is switched on.
    let is_older = name == "node_network_info" && theirs.series.keys().all(|labels| !says_adminstate(labels));
    let older = |labels: Labels| labels.into_iter().filter(|(label, _)| label != "adminstate").collect();
    let ours: BTreeSet<Labels> = if is_older { ours.into_iter().map(older).collect() } else { ours };
    for (labels, value) in &theirs.series {
        if !ours.contains(labels) {
            wrong.push(format!("{name}{labels:?}: khz does not have it"));
            continue;
        }
        let counts = theirs.kind == "counter" || theirs.kind == "untyped" && !MOVING.contains(&name);
        let is_surveyed = name.starts_with("node_network_carrier") || name.ends_with("nohandler_total");
        if let (true, Some(from), Some(to)) =
            (counts && !is_surveyed, before.series.get(labels), after.series.get(labels))
            // node_exporter's numbers are floats with as many digits as it needs.
            && !(from * (1.0 - 1e-9) <= *value && *value <= to * (1.0 + 1e-9))
        {
            wrong.push(format!("{name}{labels:?}: {value} is not between {from} and {to}"));
        }
    }
}
