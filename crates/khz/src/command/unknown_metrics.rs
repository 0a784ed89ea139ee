//! Metrics in the expressions and patterns of a channel that no node has so far: a sentence for each, with the name that was probably
//! meant. A channel waits for them, so they are no error.

use khz_channel::Definition;
use khz_model::{Misses, Pattern, ValueType, suggest};
use serde_json::Value;

use super::catalog;
use crate::role::gatherer;

/// The sentences, where a khz has this catalogue. What any node of this version has is known, too: a hub may have no node yet.
pub fn sentences(definition: &Definition, catalogue: Vec<Value>) -> Vec<String> {
    sentences_of(definition, &[catalogue, catalog::own(&gatherer::metrics())].concat())
}

fn sentences_of(definition: &Definition, catalogue: &[Value]) -> Vec<String> {
    let known = |entry| names(entry).into_iter().flatten();
    let wanted = definition.metrics().into_iter();
    let unknown = wanted.filter(|name| !catalogue.iter().flat_map(known).any(|known| known == name));
    let wanted = definition.metrics().into_iter();
    let of_labels = wanted.filter(|name| catalogue.iter().any(|entry| is_labels(entry, name)));
    let no_number =
        |name: String| format!("{name} has labels and no number: an expression has no value of it");
    let sentence = |name: String| {
        let hint = suggest::hint(&name, catalogue.iter().flat_map(known));
        format!("no metric is called {name} so far{hint}; nodes wait for it")
    };
    let patterns: Vec<Pattern> =
        definition.series.iter().filter_map(|text| Pattern::new(text).ok()).collect();
    let own: Vec<&str> = catalogue.iter().filter_map(|entry| names(entry)[0]).collect();
    let misses = Misses::of_metric_names(&own, &patterns).patterns;
    let nothing = misses.iter().map(|miss| format!("no metric so far matches {miss}; nodes wait for one"));
    unknown.map(sentence).chain(of_labels.map(no_number)).chain(nothing).collect()
}

/// Whether an entry is of this metric, which has no number.
fn is_labels(entry: &Value, name: &str) -> bool {
    let value_type = entry.get("type").and_then(Value::as_str);
    value_type == Some(ValueType::Labels.as_str()) && names(entry).contains(&Some(name))
}

/// The name of a metric, and the one in `/metrics`.
fn names(entry: &Value) -> [Option<&str>; 2] {
    [entry.get("name"), entry.pointer("/exposition/name")].map(|name| name.and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_nobody_has_are_told_with_what_was_meant() {
        let catalogue = [
            json!({"name": "load.1m", "exposition": {"name": "node_load1"}, "type": "unsigned"}),
            json!({"name": "host.uname", "exposition": {"name": "node_uname_info"}, "type": "labels"}),
            json!({"name": "mem.available", "exposition": {"name": "node_memory_MemAvailable_bytes"}}),
        ];
        let definition = Definition {
            expr: Some("node_load1 > 4 and nde_load1 > 4".to_owned()),
            when: Some("avg_over_time({\"mem.availble\"}[5s]) < {\"mem.available\"}".to_owned()),
            unless: Some("{device=\"sda\"} or {\"job.mine\"} > node_uname_info".to_owned()),
            ..Definition::default()
        };
        assert_eq!(
            sentences_of(&definition, &catalogue),
            [
                "no metric is called nde_load1 so far (did you mean 'node_load1'?); nodes wait for it",
                "no metric is called mem.availble so far (did you mean 'mem.available'?); nodes wait for it",
                "no metric is called job.mine so far; nodes wait for it",
                "node_uname_info has labels and no number: an expression has no value of it",
            ]
        );
        let definition = Definition {
            series: ["n1:mem.availble", "mem.*", "load.1m", "job.*"].map(str::to_owned).into(),
            ..Definition::default()
        };
        assert_eq!(
            sentences_of(&definition, &catalogue),
            [
                "no metric so far matches n1:mem.availble (did you mean n1:mem.available?); nodes wait for one",
                "no metric so far matches job.*; nodes wait for one",
            ]
        );
    }
}
