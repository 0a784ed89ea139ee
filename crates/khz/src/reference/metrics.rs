//! docs/metrics.md, from the catalogue, and from what a hub says of itself.

use std::sync::Arc;

use khz_hub::{Cluster, HubQuery, Settings};
use khz_model::{ByteSize, Metric, NodeName, Query, Rate, RateUnit, ValueType};

use super::{code, table};
use crate::role::hub::judge;
use crate::role::hub::recorder::LostRows;
use crate::role::{actions, black_box, gatherer, jobs, notify, remote_write, state_dir, store};

const TOP: &str = "# Metrics

<!-- Made by `cargo xtask reference` from the catalogue. -->

Every metric that this version can gather, by the kernel file that it comes from; then [what a hub says of itself](#a-hub). `khz catalog PATTERN` prints them in a terminal; asked of a hub, it also knows what jobs publish.

- **Metric**: the name. `[cpu]` says that it has instances, and what an instance is.
- **Kind, unit**: a counter only grows; where a screen shows a rate, it is in the unit after the arrow. Labels describe something that has no number (docs/names.md).
- **Updated**: how often the kernel itself changes the number. Sampling faster shows nothing new.
- **Prometheus**: the family in `/metrics`, with its fixed labels. Names that node_exporter has are used as they are; the others start with `khz_`.

";

const OF_HUB: &str = "## A hub

A hub has these at its own `/metrics`, beside the `khz.http` and `khz.text` of its doors. Those with an instance in brackets it has once for each node; `khz.store` needs a store, `khz.rrd` needs `--rrd`, `khz.rules` needs `--rules`.

";

/// The page.
pub fn page() -> String {
    let metrics = gatherer::metrics();
    let mut files: Vec<&str> = Vec::new();
    for metric in &metrics {
        if !files.contains(&metric.origin.file.as_ref()) {
            files.push(&metric.origin.file);
        }
    }
    let mut text = String::from(TOP);
    for file in files {
        let rows = metrics.iter().filter(|metric| metric.origin.file == file).map(|metric| row(metric));
        let titles = ["metric", "kind, unit", "updated", "Prometheus", "meaning"];
        text.push_str(&format!("## {}\n\n{}\n", heading(file), table(titles, rows)));
    }
    text.push_str(OF_HUB);
    let of_hub = of_hub().into_iter().filter(|metric| metrics.iter().all(|known| known.name != metric.name));
    let rows = of_hub.map(|metric| {
        let [name, kind, _, prometheus, meaning] = row(&metric);
        [name, kind, prometheus, meaning]
    });
    text.push_str(&table(["metric", "kind, unit", "Prometheus", "meaning"], rows));
    text.trim_end().to_owned() + "\n"
}

/// The names at Prometheus of every metric, and those of a hub.
pub fn families() -> Vec<String> {
    let metrics = gatherer::metrics().into_iter().chain(of_hub());
    metrics.map(|metric| metric.exposition.name.to_string()).collect()
}

/// What a hub with a store and one node says of itself at `/metrics`.
fn of_hub() -> Vec<Arc<Metric>> {
    let folder = std::env::temp_dir().join(format!("khz-reference-{}", std::process::id()));
    let (_log, intake, _) = khz_store::log::Log::open(&folder).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let settings =
        Settings { name: "hub".to_owned(), history: ByteSize(0), rate_max: Rate::from_hz(1_000).unwrap() };
    let cluster = Cluster::new(settings, [0; 16]);
    cluster.log_to(intake);
    cluster.expect(&[NodeName::new("n1").unwrap()]);
    let recorded = LostRows::default().metrics();
    let query = HubQuery::new(cluster).telling(store::metrics()).telling(recorded).telling(judge::metrics());
    let samples = query
        .telling_each(remote_write::counts())
        .telling_each(notify::example())
        .telling_each(actions::example())
        .telling(vec![(actions::unknown(), Arc::default())])
        .telling(vec![state_dir::renewed()])
        .telling(jobs::metrics(&khz_job::Jobs::in_memory()))
        .telling(black_box::metrics())
        .own()
        .unwrap();
    samples.into_iter().map(|sample| sample.series.metric).collect()
}

fn heading(file: &str) -> String {
    match ["proc/", "sys/", "etc/", "run/"].iter().any(|folder| file.starts_with(folder)) {
        true => format!("/{file}"),
        false => file.to_owned(),
    }
}

fn row(metric: &Metric) -> [String; 5] {
    let name = match &metric.instances {
        Some(instances) => format!("{}[{instances}]", metric.name),
        None => metric.name.to_string(),
    };
    let mut kind = match metric.value_type {
        ValueType::Labels => "labels".to_owned(),
        _ => format!("{}, {}", metric.kind.as_str(), metric.unit.as_str()),
    };
    if let Some(rate) = RateUnit::of_metric(metric) {
        kind.push_str(&format!(" → {}", rate.name()));
    }
    [code(&name), kind, metric.refresh.to_string(), code(&family(metric)), metric.help.to_string()]
}

fn family(metric: &Metric) -> String {
    let exposition = &metric.exposition;
    let labels: Vec<String> =
        exposition.labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let instance = exposition.instance_label.iter().map(|label| label.to_string());
    let labels: Vec<String> = instance.chain(labels).collect();
    if labels.is_empty() {
        return exposition.name.to_string();
    }
    format!("{}{{{}}}", exposition.name, labels.join(","))
}
