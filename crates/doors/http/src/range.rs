//! `/khz/v1/range`: the past out of the store, one line of JSON for each part, or a recording (`range/recording.rs`). Reading
//! runs beside the streams, like history, and few requests at a time do. It holds a few parts, never an answer.

mod recording;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use khz_model::{
    Nanos, QueryError, RANGE_POINTS_MAX, RANGE_STEP_READINGS, RangeAnswer, RangeContent, RangePart,
    RangePoint, RangeRequest, RangeShape, Reading, Series, ValueFormat, ValueType,
};

use crate::clock;
use crate::json;
use crate::limits::{RANGE_PARTS_AT_ONCE, RANGE_READINGS_AT_ONCE};
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::turns::Queue;

/// Parameters of `/khz/v1/range`.
pub(crate) const RANGE_PARAMS: &[&str] = &["match", "from", "to", "points", "newest", "recording"];

/// A recording (docs/record.md).
const RECORDING_TYPE: &str = "application/x-khz-recording";
const FROM_DEFAULT: &str = "-10m";
const TO_DEFAULT: &str = "now";

/// `GET /khz/v1/range`
pub(crate) async fn range(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), RANGE_PARAMS)?;
    let now = clock::wall();
    let request = RangeRequest {
        patterns: params.patterns()?,
        from: params.moment("from", now, FROM_DEFAULT)?,
        to: params.moment("to", now, TO_DEFAULT)?,
        shape: shape(&params)?,
    };
    let is_recording = matches!(request.shape, RangeShape::Steps(_));
    app.turns.next(Queue::Answers).await;
    let answer = app.query.range(request)?;
    let past = Past { app: Arc::clone(&app) };
    let mut response = if is_recording {
        let write = async move |writer| past.record(writer, answer, now).await;
        pages::answer(&app, RECORDING_TYPE, write).await?
    } else {
        let write = async move |writer| past.write(writer, answer).await;
        pages::answer(&app, "application/x-ndjson", write).await?
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn shape(params: &Params) -> Result<RangeShape, Refusal> {
    let (is_newest, is_recording) = (params.switch("newest")?, params.switch("recording")?);
    let points = params.count("points", 1, RANGE_POINTS_MAX as usize)?;
    match (params.get("points").is_some(), is_newest, is_recording) {
        (false, false, false) => Ok(RangeShape::Rows),
        (true, false, false) => Ok(RangeShape::Points(u32::try_from(points).unwrap_or(RANGE_POINTS_MAX))),
        (false, true, false) => Ok(RangeShape::Newest),
        (false, false, true) => Ok(RangeShape::Steps(RANGE_STEP_READINGS)),
        _ => Err(Refusal::bad_request("points, newest and recording exclude each other")),
    }
}

struct Past {
    app: Arc<App>,
}

/// Some parts that were read together.
struct Batch {
    answer: Box<dyn RangeAnswer>,
    parts: Vec<RangePart>,
    damage: Vec<String>,
    /// How the answer ends, if it does.
    end: Option<Result<(), QueryError>>,
}

impl Past {
    async fn write(self, mut writer: Writer, mut answer: Box<dyn RangeAnswer>) -> Result<Writer, Refusal> {
        let mut is_empty = true;
        loop {
            let batch = self.read(answer).await?;
            let held: usize = batch.parts.iter().map(|part| part.content.held()).sum();
            writer.hold(held as u64)?;
            for part in batch.parts {
                part_json(&mut writer, &part).await?;
                is_empty = false;
            }
            writer.hold(0)?;
            for damage in batch.damage {
                line(&mut writer, "damage", &damage).await?;
                is_empty = false;
            }
            match batch.end {
                None => answer = batch.answer,
                // Nothing has been sent yet: the error becomes the status.
                Some(Err(error)) if is_empty => return Err(error.into()),
                Some(Err(error)) => {
                    line(&mut writer, "error", &error.to_string()).await?;
                    return Ok(writer);
                }
                Some(Ok(())) => {
                    let out = writer.page();
                    out.push_str("{\"end\":{\"width\":");
                    json::text_or_null(out, batch.answer.width().map(Nanos::seconds_text).as_deref());
                    out.push_str("}}\n");
                    return Ok(writer);
                }
            }
        }
    }

    /// Works on a blocking thread, so that other requests do not wait; only some do at a time.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let stopped = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing");
        let turn = Arc::clone(&self.app.histories).acquire_owned().await.map_err(|_| stopped(()))?;
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        work.await.map_err(|_| stopped(()))
    }

    /// Reads some parts.
    async fn read(&self, mut answer: Box<dyn RangeAnswer>) -> Result<Batch, Refusal> {
        let work = self.blocking(move || {
            let (mut parts, mut readings, mut end) = (Vec::new(), 0, None);
            while parts.len() < RANGE_PARTS_AT_ONCE && readings < RANGE_READINGS_AT_ONCE {
                match answer.next() {
                    Ok(Some(part)) => {
                        readings += part.content.count();
                        parts.push(part);
                    }
                    Ok(None) => end = Some(Ok(())),
                    Err(error) => end = Some(Err(error)),
                }
                if end.is_some() {
                    break;
                }
            }
            let damage = answer.damage();
            Batch { answer, parts, damage, end }
        });
        work.await
    }
}

/// `{"KIND":"TEXT"}`
async fn line(writer: &mut Writer, kind: &str, text: &str) -> Result<(), Refusal> {
    let out = writer.page();
    out.push_str("{\"");
    out.push_str(kind);
    out.push_str("\":");
    json::text(out, text);
    out.push_str("}\n");
    writer.turn().await
}

async fn part_json(writer: &mut Writer, part: &RangePart) -> Result<(), Refusal> {
    let format = part.series.metric.format();
    let out = writer.page();
    out.push_str("{\"node\":");
    json::text(out, part.node.as_str());
    out.push(',');
    series_json(out, &part.series);
    out.push_str(",\"step\":");
    json::text(out, &part.step.seconds_text());
    if part.shift != 0 {
        out.push_str(",\"shift\":");
        json::text(out, &signed_seconds(part.shift));
    }
    match &part.content {
        RangeContent::Readings(readings) => {
            out.push_str(",\"rows\":[");
            for (number, (stamp, reading)) in readings.iter().enumerate() {
                let out = writer.page();
                json::next(out, number);
                out.push('[');
                json::text(out, &stamp.real_text());
                out.push(',');
                json::text(out, &stamp.boot_text());
                out.push(',');
                json::reading(out, *reading, format);
                out.push(']');
                writer.turn().await?;
            }
        }
        // Nobody asks for columns here.
        RangeContent::Column(_) => out.push_str(",\"rows\":["),
        RangeContent::Points(points) => {
            out.push_str(",\"points\":[");
            for (number, point) in points.iter().enumerate() {
                let out = writer.page();
                json::next(out, number);
                point_json(out, point, format);
                writer.turn().await?;
            }
        }
    }
    writer.page().push_str("]}\n");
    writer.turn().await
}

fn signed_seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{sign}{}", Nanos(nanos.unsigned_abs()).seconds_text())
}

fn series_json(out: &mut String, series: &Series) {
    json::series(out, series);
    out.push_str(",\"places\":");
    json::number(out, u64::from(series.metric.places));
    out.push_str(",\"type\":");
    json::text(out, series.metric.value_type.as_str());
}

fn point_json(out: &mut String, point: &RangePoint, format: ValueFormat) {
    let is_number = !matches!(format.value_type, ValueType::Labels | ValueType::Unknown);
    let value = |out: &mut String, key: &str, bits: u64| {
        let reading = if is_number { Reading::Present(bits) } else { Reading::Labels(bits) };
        out.push_str(key);
        json::reading(out, reading, format);
    };
    out.push_str("{\"t\":");
    json::text(out, &point.begin.seconds_text());
    out.push_str(",\"count\":");
    json::number(out, point.count);
    value(out, ",\"first\":", point.first.1);
    out.push_str(",\"first_t\":");
    json::text(out, &point.first.0.seconds_text());
    value(out, ",\"last\":", point.last.1);
    out.push_str(",\"last_t\":");
    json::text(out, &point.last.0.seconds_text());
    if is_number {
        value(out, ",\"lowest\":", point.lowest);
        value(out, ",\"highest\":", point.highest);
        out.push_str(",\"sum\":");
        json::text(out, &point.sum.with_places(format).to_string());
        out.push_str(",\"resets\":");
        json::number(out, point.resets);
        out.push_str(",\"changes\":");
        json::number(out, point.changes);
        out.push_str(",\"correction\":");
        json::text(out, &point.correction.with_places(format).to_string());
    }
    out.push('}');
}
