//! Names in a query without a result that no metric has: a sentence for each, with the name that was probably meant.

use khz_model::{ChannelName, exposed, suggest};
use khz_promql::metric_names;

/// Names that get a sentence at most.
const NAMES_MAX: usize = 4;

/// The sentences. `known` are the names that metrics have, ours and those at Prometheus; `place` says where.
pub fn sentences(query: &str, known: &[String], place: &str) -> Vec<String> {
    let names = metric_names(query).unwrap_or_default();
    let known = || known.iter().map(String::as_str).chain([exposed::UP, exposed::TIME]);
    let is_unknown = |name: &String| {
        // Those of channels, jobs and alerts come and go.
        let comes = [ChannelName::PREFIX, "job.", "khz_job_"];
        let is_of_alerts = ["ALERTS", "ALERTS_FOR_STATE"].contains(&name.as_str());
        let comes = is_of_alerts || comes.iter().any(|prefix| name.starts_with(prefix));
        !comes && !known().any(|known| known == name)
    };
    let unknown = names.into_iter().filter(is_unknown).take(NAMES_MAX);
    unknown
        .map(|name| format!("no metric is called {name} {place}{}", suggest::hint(&name, known())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_told_with_what_was_meant() {
        let known = ["load.1m", "node_load1", "mem.free"].map(String::from);
        assert_eq!(
            sentences("rate(node_laod1[1m]) > {\"mem.fre\"} or whatever", &known, "here"),
            [
                "no metric is called node_laod1 here (did you mean 'node_load1'?)",
                "no metric is called mem.fre here (did you mean 'mem.free'?)",
                "no metric is called whatever here",
            ]
        );
        for query in [
            "node_load1 > {\"load.1m\"}",
            "up == 0",
            "{\"channel.hot\"}",
            "khz_job_steps",
            "sum(",
            "ALERTS{alertname=\"x\"}",
        ] {
            assert_eq!(sentences(query, &known, "here"), [""; 0], "{query}");
        }
    }
}
