//! `khz query --store`: evaluates in this process, over the files of a store, also while a hub writes it. No khz need run.

use std::path::Path;
use std::sync::Arc;

use khz_ask::{PromqlAnswer, PromqlData, PromqlLabels, PromqlPoint, PromqlSample, PromqlSeries};
use khz_model::calendar::utc;
use khz_model::{Metric, Nanos};
use khz_past::{Known, PastSource, Roster};
use khz_promql::{Answer, Engine, LabelSet, Limits, QueryError, Value, plain, put_value, shown_text};
use khz_store::StoreReader;
use khz_store::range::RangeReader;

use crate::command::past::now;
use crate::command::query::unknown;
use crate::show::outcome::{Failure, sentence};
use crate::show::table::remark;

/// When a query is evaluated.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// At one moment.
    At(Nanos),
    /// From one moment to another, at this distance.
    Range(Nanos, Nanos, Nanos),
}

/// The answer to a query out of the store in a directory; `job` is the label of all nodes. `is_at`: somebody has said when.
pub fn ask(
    directory: &Path,
    job: &str,
    query: &str,
    when: When,
    is_at: bool,
) -> Result<PromqlAnswer, Failure> {
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(Failure::usage(format!(
            "there is no store in {directory}: --store names the directory of one"
        )));
    }
    let store = StoreReader::open(directory).map_err(|error| Failure::work(sentence(&error)))?;
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let inventory = reader.inventory();
    let damage: Vec<String> = store.damage().iter().chain(&inventory.damage).map(|it| sentence(it)).collect();
    let names = |metric: &Arc<Metric>| [metric.name.to_string(), metric.exposition.name.to_string()];
    let names: Vec<String> = inventory.metrics.iter().flat_map(names).collect();
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
        QueryError::Bad(problem) => Failure::usage(super::problem_of(query, &problem)),
        error => Failure::work(sentence(&error)),
    })?;
    let mut answer = told(answer);
    if answer.data.is_empty() {
        let place = format!("in {}", directory.display());
        let mut sentences = unknown::sentences(query, &names, &place);
        if sentences.is_empty() {
            sentences.extend(reach(&store, when, is_at, &place));
        }
        sentences.iter().for_each(|sentence| remark!("{sentence}"));
    }
    // What the query has met again is said once.
    let new = damage.into_iter().filter(|sentence| !answer.warnings.contains(sentence));
    answer.warnings = new.collect::<Vec<_>>().into_iter().chain(answer.warnings).collect();
    Ok(answer)
}

fn ms(time: Nanos) -> i64 {
    i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX)
}

/// From when to when there is something, for somebody who has asked at another time.
fn reach(store: &StoreReader, when: When, is_at: bool, place: &str) -> Option<String> {
    let filed = store.shelf().facts().into_iter().filter_map(|facts| facts.span);
    let spans = filed.chain(store.log().span(None));
    let (first, last) = spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))?;
    if !is_at {
        return Some(format!("the newest row {place} is of {}: --at asks at another moment", utc(last)));
    }
    let (from, to) = match when {
        When::At(time) => (time, time),
        When::Range(from, to, _) => (from, to),
    };
    let is_outside = to < first || from > last;
    is_outside.then(|| format!("what is {place} is from {} to {}", utc(first), utc(last)))
}

/// The answer as another khz gives it over HTTP.
fn told(answer: Answer) -> PromqlAnswer {
    let Answer { value, warnings, infos } = answer;
    let data = match value {
        Value::Scalar(time, number) => PromqlData::Scalar((seconds(time), plain(number))),
        Value::Text(time, text) => PromqlData::String((seconds(time), shown_text(&text).into_owned())),
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
    labels.iter().map(|(name, value)| (name.to_string(), shown_text(value).into_owned())).collect()
}

fn point(time: i64, value: f64) -> PromqlPoint {
    let mut text = String::new();
    put_value(&mut text, value);
    (seconds(time), text)
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
