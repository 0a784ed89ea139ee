//! Random queries over made-up series, answered by this evaluator and by Prometheus' own engine: the same series, stamps
//! and annotations, values within 1e-12. Prometheus is built from its Go module; without Go, or without the modules that
//! it needs, the test is skipped.

#![allow(clippy::unwrap_used)]

#[path = "beside/made_up.rs"]
mod made_up;
#[path = "beside/prometheus.rs"]
mod prometheus;
#[path = "beside/queries.rs"]
mod queries;
#[path = "beside/random.rs"]
mod random;

use std::collections::BTreeMap;

use khz_promql::{Engine, LabelSet, Limits, Value};
use prometheus::{Prometheus, Said};
use queries::Query;
use random::Random;

/// How many queries are asked; the variable `KHZ_PROMQL_QUERIES` has another number.
const QUERIES: usize = 1_000;
/// How far values may be from each other.
const PART: f64 = 1e-12;

#[test]
fn random_queries_give_what_prometheus_gives() {
    let seed = number("KHZ_PROMQL_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let store = made_up::store(&mut random);
    let mut prometheus = match Prometheus::start(&store) {
        Ok(prometheus) => prometheus,
        Err(reason) => return khz_skip::skip(reason),
    };
    let engine = Engine::new(Limits::default());
    let (mut wrong, mut failures, mut values) = (Vec::new(), 0, 0);
    for _ in 0..number("KHZ_PROMQL_QUERIES").unwrap_or(QUERIES as u64) {
        let query = queries::query(&mut random);
        let theirs = prometheus.ask(&query);
        let ours = ask(&engine, &store, &query);
        failures += usize::from(theirs.error.is_some());
        values += theirs.series.values().map(Vec::len).sum::<usize>();
        if let Err(difference) = compare(&ours, &theirs) {
            wrong.push(format!("{query:?}\n    {difference}"));
        }
    }
    println!("{values} values; {failures} queries fail in Prometheus");
    let shown: Vec<String> = wrong.iter().take(20).cloned().collect();
    assert!(wrong.is_empty(), "seed {seed}: {} differ:\n{}", wrong.len(), shown.join("\n"));
    assert!(values > 1_000, "only {values} values were compared");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn ask(engine: &Engine, store: &made_up::Store, query: &Query) -> Said {
    let answer = match query.step {
        0 => engine.query(store, &query.text, query.start),
        step => engine.query_range(store, &query.text, query.start, query.end, step),
    };
    let formatted = khz_promql::format(&query.text).ok();
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Said { error: Some(error.to_string()), formatted, ..Said::default() },
    };
    let mut series: BTreeMap<LabelSet, Vec<(i64, f64)>> = BTreeMap::new();
    match answer.value {
        Value::Scalar(time, value) => drop(series.insert(LabelSet::default(), vec![(time, value)])),
        Value::Text(..) => {}
        Value::Vector(all) => {
            series.extend(all.into_iter().map(|one| (one.labels, vec![(one.time, one.value)])));
        }
        Value::Matrix(all) => series.extend(all.into_iter().map(|one| (one.labels, one.samples))),
    }
    Said { error: None, series, warnings: answer.warnings, infos: answer.infos, formatted }
}

/// True for two errors that are the same. Which series of several that cannot be matched is named is left to chance.
fn alike(ours: &str, theirs: &str) -> bool {
    let unmatched =
        |error: &str| error.starts_with("found duplicate") || error.starts_with("multiple matches");
    ours == theirs || (unmatched(ours) && unmatched(theirs))
}

/// The sentence without how many samples it is about.
fn without_count(sentence: &str) -> String {
    match (sentence.find(", over "), sentence.find(" samples from")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &sentence[..from], &sentence[to..]),
        _ => sentence.to_owned(),
    }
}

fn same(one: f64, two: f64) -> bool {
    one == two || (one.is_nan() && two.is_nan()) || (one - two).abs() <= PART * one.abs().max(two.abs())
}

fn compare(ours: &Said, theirs: &Said) -> Result<(), String> {
    // Prometheus forgets to indent a subquery in a call of several lines.
    let lines = |text: &Option<String>| {
        text.as_ref().map(|text| text.lines().map(|line| line.trim_start().to_owned()).collect::<Vec<_>>())
    };
    if lines(&ours.formatted) != lines(&theirs.formatted) {
        return Err(format!("formatted: ours {:?}\n    theirs {:?}", ours.formatted, theirs.formatted));
    }
    match (&ours.error, &theirs.error) {
        (None, None) => {}
        (Some(ours), Some(theirs)) if alike(ours, theirs) => return Ok(()),
        (ours, theirs) => return Err(format!("error: ours {ours:?}, theirs {theirs:?}")),
    }
    for (labels, samples) in &theirs.series {
        let Some(our) = ours.series.get(labels) else {
            return Err(format!("missing: {labels:?} {samples:?}"));
        };
        if our.len() != samples.len() {
            return Err(format!("{labels:?}: ours {our:?}\n    theirs {samples:?}"));
        }
        for (one, two) in our.iter().zip(samples) {
            if one.0 != two.0 || !same(one.1, two.1) {
                return Err(format!("{labels:?}: ours {one:?}, theirs {two:?}"));
            }
        }
    }
    if let Some(other) = ours.series.keys().find(|labels| !theirs.series.contains_key(labels)) {
        return Err(format!("unexpected: {other:?} {:?}", ours.series[other]));
    }
    // How many samples needed to be fixed is wrong in Prometheus: the number doubles with each step.
    let sorted = |all: &[String]| {
        let mut all: Vec<String> = all.iter().map(|sentence| without_count(sentence)).collect();
        all.sort();
        all
    };
    if sorted(&ours.warnings) != sorted(&theirs.warnings) || sorted(&ours.infos) != sorted(&theirs.infos) {
        return Err(format!(
            "annotations: ours {:?} {:?}\n    theirs {:?} {:?}",
            ours.warnings, ours.infos, theirs.warnings, theirs.infos
        ));
    }
    Ok(())
}
