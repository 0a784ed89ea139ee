//! `/khz/v1/history`: rows of the last while. Looking back is heavy, so it runs beside the streams, few at a
//! time, and refuses answers beyond a stated size.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_model::{Delivery, Nanos, Pattern};

use crate::json;
use crate::limits::{HISTORY_READINGS_MAX, HISTORY_ROWS_MAX};
use crate::misses;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/history`.
pub(crate) const HISTORY_PARAMS: &[&str] = &["match", "span", "rows"];

const SPAN_DEFAULT: Nanos = Nanos::from_secs(600);
const ROWS_DEFAULT: usize = 600;

/// `GET /khz/v1/history`
pub(crate) async fn history(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), HISTORY_PARAMS)?;
    let patterns = params.patterns()?;
    let span = params.duration("span", SPAN_DEFAULT)?;
    let rows = params.count("rows", ROWS_DEFAULT, HISTORY_ROWS_MAX)?;
    let stopped = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing");
    let turn = Arc::clone(&app.histories).acquire_owned().await.map_err(|_| stopped(()))?;
    // A client that hangs up ends the wait, not the work; the permit goes along so that work stays counted.
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        look_back(&app, &patterns, span, rows)
    });
    Ok(json::response(work.await.map_err(|_| stopped(()))??))
}

fn look_back(app: &App, patterns: &[Pattern], span: Nanos, rows: usize) -> Result<String, Refusal> {
    let deliveries = app.query.history(patterns, span, rows);
    let deliveries = deliveries.map_err(|error| misses::refusal(&*app.query, patterns, error))?;
    let readings: usize = deliveries.iter().flat_map(|d| &d.rows).map(|row| row.readings.len()).sum();
    if readings > HISTORY_READINGS_MAX {
        return Err(Refusal::bad_request(format!(
            "the answer would hold {readings} readings, more than {HISTORY_READINGS_MAX}; ask for fewer series or rows"
        )));
    }
    let mut out = String::from("{\"nodes\":");
    json::list(&mut out, &deliveries, delivery_json);
    out.push_str(",\"misses\":");
    misses::put(&mut out, &misses::of(&*app.query, patterns));
    out.push_str("}\n");
    Ok(out)
}

fn delivery_json(out: &mut String, delivery: &Delivery) {
    out.push_str("{\"node\":");
    json::text(out, delivery.node.as_str());
    out.push_str(",\"columns\":");
    json::columns(out, &delivery.columns);
    out.push_str(",\"rows\":");
    json::list(out, &delivery.rows, |out, row| {
        out.push('{');
        json::stamp(out, row.stamp);
        out.push_str(",\"v\":");
        json::readings(out, &delivery.columns, &row.readings);
        out.push('}');
    });
    out.push('}');
}
