//! Lists that a page or another crate repeats by hand have everything that the list in the code has: collectors, units. Counts
//! that pages name exist.

use std::collections::BTreeSet;

use khz_model::Unit;
use serde_json::Value;

const OPENAPI: &str = include_str!("../../../../docs/openapi.json");
const PROMETHEUS: &str = include_str!("../../../../docs/prometheus.md");
const PUBLISH: &str = include_str!("../../../../docs/publish.md");
const LIMITS: &str = include_str!("../../../../docs/limits.md");
const CLUSTER: &str = include_str!("../../../../docs/cluster.md");
const STORE: &str = include_str!("../../../../docs/store.md");
const WHERE: &str = include_str!("../../../../docs/where.md");
const BLOCK: &str = include_str!("../../../../docs/block.md");

fn description() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// The `enum` of a schema.
fn allowed(schema: &Value) -> BTreeSet<&str> {
    schema["enum"].as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

/// The schemas of all properties of this name, wherever they are.
fn properties<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("properties").and_then(|properties| properties.get(name)));
            fields.values().for_each(|value| properties(value, name, found));
        }
        Value::Array(values) => values.iter().for_each(|value| properties(value, name, found)),
        _ => {}
    }
}

/// Words in backquotes that are names at Prometheus: `khz_hub_cut_total`. `khz_http_...` stands for all that begin so.
fn families_named(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|word| {
        word.starts_with("khz_") && word.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b))
    })
}

#[test]
fn every_count_that_a_page_names_exists() {
    let families = super::metrics::families();
    let exists = |name: &str| match name.strip_suffix("...") {
        Some(begin) => families.iter().any(|family| family.starts_with(begin)),
        None => families.iter().any(|family| family == name),
    };
    let pages = [("limits.md", LIMITS), ("cluster.md", CLUSTER), ("store.md", STORE), ("where.md", WHERE)];
    for (page, text) in pages {
        let missing: Vec<&str> = families_named(text).filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "docs/{page} names {missing:?}, which no part of khz counts");
    }
}

#[test]
fn every_kernel_file_is_a_collector() {
    let collectors = khz_http::collectors();
    for file in khz_parse::files() {
        assert!(collectors.contains(&file.name), "COLLECTORS of khz_http lacks {}", file.name);
    }
}

#[test]
fn the_pages_list_the_collectors_of_the_code() {
    let (description, collectors) = (description(), khz_http::collectors());
    let described = &description["components"]["parameters"]["collect"]["schema"]["items"];
    assert_eq!(allowed(described), collectors.iter().copied().collect(), "docs/openapi.json");
    for name in collectors {
        assert!(PROMETHEUS.contains(&format!("`{name}`")), "docs/prometheus.md lacks the collector {name}");
    }
}

#[test]
fn the_pages_list_the_units_of_the_code() {
    let units: Vec<&str> = Unit::ALL.iter().map(|unit| unit.as_str()).collect();
    let (description, mut found) = (description(), Vec::new());
    properties(&description, "unit", &mut found);
    found.retain(|schema| schema["enum"].is_array());
    assert!(found.len() > 2, "docs/openapi.json has {} lists of units", found.len());
    for schema in found {
        assert_eq!(allowed(schema), units.iter().copied().collect(), "docs/openapi.json");
    }
    let published = format!("\"unit=\" ( {} )", units.join(" | "));
    assert!(PUBLISH.contains(&published), "docs/publish.md lacks {published}");
    let (_, numbered) = BLOCK.split_once("Units: ").unwrap();
    let numbered = numbered.split('.').next().unwrap();
    for unit in &units {
        assert!(
            numbered.split(", ").any(|one| one.ends_with(&format!(" {unit}"))),
            "docs/block.md lacks {unit}"
        );
    }
}
