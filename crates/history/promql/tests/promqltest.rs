//! Prometheus' own tests of the language, run against this evaluator. They are read from the Go module of Prometheus,
//! which the Go tool finds or fetches; without Go the test is skipped. What is experimental in Prometheus, or about
//! native histograms, is left out by its syntax, and counted.

#![allow(clippy::unwrap_used)]

#[path = "promqltest/compare.rs"]
mod compare;
#[path = "promqltest/script.rs"]
mod script;
#[path = "promqltest/series.rs"]
mod series;
#[path = "promqltest/store.rs"]
mod store;
#[path = "promqltest/syntax.rs"]
mod syntax;

use std::path::PathBuf;
use std::process::Command;

use khz_promql::{Answer, Engine, Limits, QueryError, Value};
use script::{Command as Line, Eval, When};
use store::Store;

/// The version whose tests judge us.
const MODULE: &str = "github.com/prometheus/prometheus@v0.316.0";

/// Evaluations of that version that need Prometheus' switch `promql-delayed-name-removal`.
const DROPPED_NAMES: usize = 8;

/// The folder with the tests; `None`, with a reason, if it cannot be had here.
fn folder() -> Result<PathBuf, String> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(std::env::temp_dir())
        .output()
        .map_err(|error| format!("the Go tool does not run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = text.lines().find_map(|line| {
        let (key, value) = line.trim().split_once(": ")?;
        (key == "\"Dir\"").then(|| value.trim_end_matches(',').trim_matches('"').to_owned())
    });
    let folder = folder.ok_or_else(|| format!("{MODULE} cannot be fetched: {text}"))?;
    Ok(PathBuf::from(folder).join("promql/promqltest/testdata"))
}

/// What became of the evaluations of a file.
#[derive(Default)]
struct Count {
    passed: usize,
    failed: Vec<String>,
    histograms: usize,
    experimental: usize,
    dropped_names: usize,
}

#[test]
fn every_evaluation_of_prometheus_own_tests_gives_what_it_expects() {
    let folder = match folder() {
        Ok(folder) => folder,
        Err(reason) => return khz_skip::skip(reason),
    };
    let only = std::env::var("KHZ_PROMQLTEST").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "test"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    files.sort();
    let (mut failed, mut passed, mut dropped_names) = (Vec::new(), 0, 0);
    println!(
        "{:<28} {:>6} {:>10} {:>12} {:>13}",
        "file", "passed", "histograms", "experimental", "dropped names"
    );
    for path in &files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let count = run(&name, &std::fs::read_to_string(path).unwrap());
        println!(
            "{name:<28} {:>6} {:>10} {:>12} {:>13}",
            count.passed, count.histograms, count.experimental, count.dropped_names
        );
        passed += count.passed;
        dropped_names += count.dropped_names;
        failed.extend(count.failed);
    }
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n\n{}",
        failed.len(),
        failed.len() + passed,
        failed.join("\n\n")
    );
    // Those are left out only if they fail: more of them than at first would be something else.
    assert!(dropped_names <= DROPPED_NAMES, "{dropped_names} evaluations need dropped names");
    assert!(!only.is_empty() || passed > 1_000, "only {passed} evaluations ran");
}

fn run(name: &str, text: &str) -> Count {
    let mut count = Count::default();
    let mut store = Store::default();
    for command in script::commands(text) {
        match command {
            Line::Clear => store = Store::default(),
            Line::Load(load) => store.load(&load),
            Line::Eval(eval) => {
                if eval.histograms() {
                    count.histograms += 1;
                } else if syntax::experimental(&eval.query) {
                    count.experimental += 1;
                } else {
                    judge(name, &eval, &store, &mut count);
                }
            }
        }
    }
    count
}

/// Runs an evaluation, and an instant one also as the middle of three steps.
fn judge(name: &str, eval: &Eval, store: &Store, count: &mut Count) {
    store.begin();
    let engine = Engine::new(Limits::default()).naming_histograms();
    let answer = answer(&engine, eval, store);
    let mut problem = compare::check(eval, &answer).err();
    if let (None, When::Instant(time), true) =
        (&problem, eval.when, syntax::may_run_over_a_range(&eval.query))
    {
        let over = engine.query_range(store, &eval.query, time - 60_000, time + 60_000, 60_000);
        problem =
            compare::check_middle(eval, time, &answer, over).err().map(|why| format!("as a range: {why}"));
    }
    // Which series a query reads is only known afterwards.
    match (store.touched(), problem) {
        (Some(store::Mark::Histogram), _) => count.histograms += 1,
        (Some(store::Mark::StartTimes), _) => count.experimental += 1,
        (None, None) => count.passed += 1,
        (None, Some(_)) if syntax::may_need_dropped_names(&eval.query) => count.dropped_names += 1,
        (None, Some(why)) => {
            count.failed.push(format!(
                "{name}:{}: {}\n    {}",
                eval.line,
                eval.query,
                why.replace('\n', "\n    ")
            ));
        }
    }
}

fn answer(engine: &Engine, eval: &Eval, store: &Store) -> Result<Answer, QueryError> {
    match eval.when {
        When::Instant(time) => engine.query(store, &eval.query, time),
        When::Range { start, end, step } => engine.query_range(store, &eval.query, start, end, step),
    }
}

/// The series of a value, whatever its kind, with their samples.
fn samples(value: &Value) -> Vec<(khz_promql::LabelSet, Vec<(i64, f64)>)> {
    match value {
        Value::Scalar(time, value) => vec![(khz_promql::LabelSet::default(), vec![(*time, *value)])],
        Value::Text(..) => Vec::new(),
        Value::Vector(all) => {
            all.iter().map(|sample| (sample.labels.clone(), vec![(sample.time, sample.value)])).collect()
        }
        Value::Matrix(all) => {
            all.iter().map(|series| (series.labels.clone(), series.samples.clone())).collect()
        }
    }
}
