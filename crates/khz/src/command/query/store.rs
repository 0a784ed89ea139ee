//! `khz query --store`: evaluates in this process, over the files of a store, also while a hub writes it. No khz need run.

use std::path::Path;
use std::sync::Arc;

use khz_ask::{PromqlAnswer, PromqlData, PromqlLabels, PromqlPoint, PromqlSample, PromqlSeries};
use khz_model::Nanos;
use khz_model::calendar::utc;
use khz_past::{Known, PastSource, Roster};
use khz_promql::{Answer, Engine, LabelSet, Limits, QueryError, Value, put_value};
use khz_store::StoreReader;
use khz_store::range::RangeReader;

use crate::command::past::now;
use crate::show::outcome::{Failure, sentence};
use crate::show::table::{remark, say};

/// When a query is evaluated.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// At one moment.
    At(Nanos),
    /// From one moment to another, at this distance.
    Range(Nanos, Nanos, Nanos),
}

/// The answer to a query out of the store in a directory; `job` is the label of all nodes.
pub fn ask(directory: &Path, job: &str, query: &str, when: When) -> Result<PromqlAnswer, Failure> {
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(Failure::usage(format!(
            "there is no store in {directory}: --store names the directory of one"
        )));
    }
    let store = StoreReader::open(directory).map_err(|error| Failure::work(sentence(&error)))?;
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let inventory = reader.inventory();
    store.damage().iter().chain(&inventory.damage).for_each(|error| say(&sentence(error)));
    // Nobody knows which of them are there: their rows say it.
    let roster = Roster::Listed(inventory.nodes.into_iter().map(|node| (node, None)).collect());
    let owners = inventory.owners.into_iter().collect();
    let known = Known { metrics: inventory.metrics, job: job.into(), now: now(), roster, owners };
    let source = PastSource::new(Arc::new(reader), known);
    let engine = Engine::new(Limits::default());
    let answer = match when {
        When::At(time) => engine.query(&source, query, ms(time)),
        When::Range(from, to, step) => engine.query_range(&source, query, ms(from), ms(to), ms(step)),
    };
    let answer = answer.map_err(|error| match error {
        QueryError::Bad(problem) => Failure::usage(super::pointed(query, &problem)),
        error => Failure::work(sentence(&error)),
    })?;
    if is_empty(&answer.value)
        && let Some(newest) = newest(&store)
    {
        remark!(
            "the newest row in {} is of {}: --at asks at another moment",
            directory.display(),
            utc(newest)
        );
    }
    Ok(told(answer))
}

fn ms(time: Nanos) -> i64 {
    i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Scalar(..) | Value::Text(..) => false,
        Value::Vector(samples) => samples.is_empty(),
        Value::Matrix(series) => series.is_empty(),
    }
}

/// When the newest row was.
fn newest(store: &StoreReader) -> Option<Nanos> {
    let filed = store.shelf().facts().into_iter().filter_map(|facts| facts.span);
    filed.chain(store.log().span(None)).map(|(_, last)| last).max()
}

/// The answer as another khz gives it over HTTP.
fn told(answer: Answer) -> PromqlAnswer {
    let Answer { value, warnings, infos } = answer;
    let data = match value {
        Value::Scalar(time, number) => PromqlData::Scalar(point(time, number)),
        Value::Text(time, text) => PromqlData::String((seconds(time), text)),
        Value::Vector(samples) => PromqlData::Vector(
            samples
                .into_iter()
                .map(|one| PromqlSample { metric: labels(&one.labels), value: point(one.time, one.value) })
                .collect(),
        ),
        Value::Matrix(series) => PromqlData::Matrix(
            series
                .into_iter()
                .map(|one| PromqlSeries {
                    metric: labels(&one.labels),
                    values: one.samples.into_iter().map(|(time, value)| point(time, value)).collect(),
                })
                .collect(),
        ),
    };
    PromqlAnswer { data, warnings, infos }
}

fn labels(labels: &LabelSet) -> PromqlLabels {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn point(time: i64, value: f64) -> PromqlPoint {
    let mut text = String::new();
    put_value(&mut text, value);
    (seconds(time), text)
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
