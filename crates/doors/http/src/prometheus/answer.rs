//! Answers in Prometheus' form: `{"status":"success","data":...}`, with warnings and infos after the data. They are written page
//! by page, so that only the result itself is held.

use std::sync::Arc;

use axum::response::Response;
use khz_promql::{Answer, LabelSet, MatrixSeries, Value, VectorSample, plain, put_value, shown_text};

use crate::json;
use crate::pages::{self, Writer};
use crate::prometheus::failure::Failure;
use crate::prometheus::numbers;
use crate::refusal::Refusal;
use crate::routes::App;

/// Samples of a series that are freed together when they are written: a page or two of text.
const FREED_AT_ONCE: usize = 4_096;

/// Notes beside the data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub warnings: Vec<String>,
    pub infos: Vec<String>,
}

impl Notes {
    /// Says that there would be more.
    pub fn truncated(&mut self) {
        self.warnings.push("results truncated due to limit".to_owned());
    }
}

/// An answer whose data `data` writes.
pub(crate) async fn success<F, W>(app: &Arc<App>, notes: Notes, data: W) -> Result<Response, Failure>
where
    W: FnOnce(Writer) -> F,
    F: Future<Output = Result<Writer, Refusal>> + Send + 'static,
{
    let answer = pages::json(app, move |mut writer: Writer| {
        writer.page().push_str("{\"status\":\"success\",\"data\":");
        let written = data(writer);
        async move {
            let mut writer = written.await?;
            texts(&mut writer, ",\"warnings\":", &notes.warnings).await?;
            texts(&mut writer, ",\"infos\":", &notes.infos).await?;
            writer.page().push('}');
            Ok(writer)
        }
    });
    Ok(answer.await?)
}

/// An answer with this data, which is JSON.
pub(crate) async fn fixed(app: &Arc<App>, data: &'static str) -> Result<Response, Failure> {
    let write = async move |mut writer: Writer| {
        writer.page().push_str(data);
        Ok(writer)
    };
    success(app, Notes::default(), write).await
}

/// An answer that is a list of texts.
pub(crate) async fn list(app: &Arc<App>, all: Vec<String>, notes: Notes) -> Result<Response, Failure> {
    let write = async move |mut writer: Writer| {
        let held = |text: &String| size_of::<String>() + text.capacity();
        writer.hold(all.iter().map(held).sum::<usize>() as u64)?;
        writer.page().push('[');
        // Each is freed when it is written.
        for (number, text) in all.into_iter().enumerate() {
            json::next(writer.page(), number);
            json::text(writer.page(), &text);
            writer.release(held(&text));
            drop(text);
            writer.turn().await?;
        }
        writer.page().push(']');
        Ok(writer)
    };
    success(app, notes, write).await
}

async fn texts(writer: &mut Writer, key: &str, all: &[String]) -> Result<(), Refusal> {
    if all.is_empty() {
        return Ok(());
    }
    writer.page().push_str(key);
    writer.page().push('[');
    for (number, text) in all.iter().enumerate() {
        json::next(writer.page(), number);
        json::text(writer.page(), text);
        writer.turn().await?;
    }
    writer.page().push(']');
    Ok(())
}

/// The result of a query. Above `limit`, further series are left out.
pub(crate) async fn result(
    app: &Arc<App>,
    answer: Answer,
    limit: Option<usize>,
) -> Result<Response, Failure> {
    let Answer { mut value, warnings, infos } = answer;
    let mut notes = Notes { warnings, infos };
    let limit = limit.unwrap_or(usize::MAX);
    let is_cut = match &mut value {
        Value::Vector(samples) => cut(samples, limit),
        Value::Matrix(series) => cut(series, limit),
        Value::Scalar(..) | Value::Text(..) => false,
    };
    if is_cut {
        notes.truncated();
    }
    let bytes = held(&value);
    let answered = success(app, notes, async move |writer| write(writer, value, bytes).await).await;
    if answered.is_err() {
        // There is no room for it.
        app.tide.ebbs(bytes as u64);
    }
    answered
}

fn cut<T>(all: &mut Vec<T>, limit: usize) -> bool {
    let is_cut = all.len() > limit;
    all.truncate(limit);
    is_cut
}

/// Writes a result that holds this many bytes.
async fn write(mut writer: Writer, value: Value, bytes: usize) -> Result<Writer, Refusal> {
    writer.hold(bytes as u64)?;
    let kind = match &value {
        Value::Scalar(..) => "scalar",
        Value::Text(..) => "string",
        Value::Vector(_) => "vector",
        Value::Matrix(_) => "matrix",
    };
    let out = writer.page();
    out.push_str("{\"resultType\":\"");
    out.push_str(kind);
    out.push_str("\",\"result\":");
    match value {
        Value::Scalar(time, number) => point_of(out, time, |out| out.push_str(&plain(number))),
        Value::Text(time, text) => {
            out.push('[');
            numbers::time(out, time);
            out.push(',');
            json::text(out, &shown_text(&text));
            out.push(']');
        }
        Value::Vector(samples) => {
            out.push('[');
            for (number, VectorSample { labels, time, value }) in samples.into_iter().enumerate() {
                let out = writer.page();
                json::next(out, number);
                out.push_str("{\"metric\":");
                labels_json(out, &labels);
                out.push_str(",\"value\":");
                point(out, time, value);
                out.push('}');
                writer.release(of_labels(&labels));
                drop(labels);
                writer.turn().await?;
            }
            writer.page().push(']');
        }
        Value::Matrix(series) => {
            out.push('[');
            for (number, MatrixSeries { labels, mut samples }) in series.into_iter().enumerate() {
                let out = writer.page();
                json::next(out, number);
                out.push_str("{\"metric\":");
                labels_json(out, &labels);
                out.push_str(",\"values\":[");
                // What is written is freed, from the end.
                samples.reverse();
                let (count, mut kept) = (samples.len(), samples.capacity());
                while let Some((time, value)) = samples.pop() {
                    let out = writer.page();
                    json::next(out, count - samples.len() - 1);
                    point(out, time, value);
                    if samples.len().is_multiple_of(FREED_AT_ONCE) {
                        samples.shrink_to_fit();
                        writer.release((kept - samples.capacity()) * size_of::<(i64, f64)>());
                        kept = samples.capacity();
                    }
                    writer.turn().await?;
                }
                writer.release(of_labels(&labels));
                writer.page().push_str("]}");
            }
            writer.page().push(']');
        }
    }
    writer.page().push('}');
    Ok(writer)
}

/// Roughly the bytes of a result.
fn held(value: &Value) -> usize {
    match value {
        Value::Scalar(..) => 0,
        Value::Text(_, text) => text.len(),
        Value::Vector(all) => all.iter().map(|one| size_of::<VectorSample>() + of_labels(&one.labels)).sum(),
        Value::Matrix(all) => all
            .iter()
            .map(|one| {
                size_of::<MatrixSeries>()
                    + of_labels(&one.labels)
                    + one.samples.capacity() * size_of::<(i64, f64)>()
            })
            .sum(),
    }
}

fn of_labels(labels: &LabelSet) -> usize {
    labels.iter().len() * 32
}

/// `[time,"value"]`
fn point(out: &mut String, time: i64, value: f64) {
    point_of(out, time, |out| put_value(out, value));
}

fn point_of(out: &mut String, time: i64, put_value: impl FnOnce(&mut String)) {
    out.push('[');
    numbers::time(out, time);
    out.push_str(",\"");
    put_value(out);
    out.push_str("\"]");
}

/// `{"name":"value"}`
pub(crate) fn labels_json(out: &mut String, labels: &LabelSet) {
    out.push('{');
    for (number, (name, value)) in labels.iter().enumerate() {
        json::next(out, number);
        json::text(out, name);
        out.push(':');
        json::text(out, &shown_text(value));
    }
    out.push('}');
}
