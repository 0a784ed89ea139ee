//! docs/metrics.md, from the catalogue.

use khz_model::{Metric, RateUnit, ValueType};

use super::{code, table};
use crate::role::gatherer;

const TOP: &str = "# Metrics

<!-- Made by `cargo xtask reference` from the catalogue. -->

Every metric that this version can gather, by the kernel file that it comes from. `khz catalog PATTERN` prints them in a terminal; asked of a hub, it also knows what jobs publish.

- **Metric**: the name. `[cpu]` says that it has instances, and what an instance is.
- **Kind, unit**: a counter only grows; where a screen shows a rate, it is in the unit after the arrow. Labels describe something that has no number (docs/names.md).
- **Updated**: how often the kernel itself changes the number. Sampling faster shows nothing new.
- **Prometheus**: the family in `/metrics`, with its fixed labels. Names that node_exporter has are used as they are; the others start with `khz_`.

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
    text.trim_end().to_owned() + "\n"
}

fn heading(file: &str) -> String {
    match ["proc/", "sys/", "etc/"].iter().any(|folder| file.starts_with(folder)) {
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
