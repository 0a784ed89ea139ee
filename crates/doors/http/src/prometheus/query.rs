//! `/api/v1/query`, `/api/v1/query_range` and `/api/v1/format_query`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use khz_promql::{Limits, format};

use crate::json;
use crate::limits::{QUERY_BYTES, QUERY_LOOK_BACK_MAX};
use crate::prometheus::answer::{self, Notes};
use crate::prometheus::evaluate::evaluate;
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::prometheus::times;
use crate::routes::App;

/// Parameters of `/api/v1/query`.
pub(crate) const QUERY_PARAMS: &[&str] = &["query", "time", "timeout", "limit", "lookback_delta"];
/// Parameters of `/api/v1/query_range`.
pub(crate) const RANGE_PARAMS: &[&str] =
    &["query", "start", "end", "step", "timeout", "limit", "lookback_delta"];
/// Parameters of `/api/v1/format_query`.
pub(crate) const FORMAT_PARAMS: &[&str] = &["query", "timeout"];

/// `/api/v1/query`
pub(crate) async fn query(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let form = Form::of(request).await?;
    let (limit, time, timeout) = (form.limit()?, form.moment("time", form.now)?, form.timeout()?);
    let (text, limits) = (text(&form), limits(&form, timeout)?);
    let work = evaluate(&app, form.asked(timeout), move |source, stop| {
        stop.engine(limits).query(source, &text, time)
    });
    answer::result(&app, work.await.map_err(Failure::of_query)?, limit).await
}

/// `/api/v1/query_range`
pub(crate) async fn query_range(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let form = Form::of(request).await?;
    let (limit, timeout) = (form.limit()?, form.timeout()?);
    let (start, end) = (form.needed_moment("start")?, form.needed_moment("end")?);
    if end < start {
        return Err(Failure::parameter("end", "end timestamp must not be before start time"));
    }
    let step = form.needed_duration("step")?;
    if step == 0 && form.get("step").and_then(|step| step.parse::<f64>().ok()).is_some_and(|step| step > 0.0)
    {
        return Err(Failure::parameter("step", "below 1 ms; times are whole milliseconds"));
    }
    let (text, limits) = (text(&form), limits(&form, timeout)?);
    let work = evaluate(&app, form.asked(timeout), move |source, stop| {
        stop.engine(limits).query_range(source, &text, start, end, step)
    });
    answer::result(&app, work.await.map_err(Failure::of_query)?, limit).await
}

/// `/api/v1/format_query`
pub(crate) async fn format_query(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let form = Form::of(request).await?;
    let (text, timeout) = (text(&form), form.timeout()?);
    // The text may have regular expressions, which take a while.
    let text =
        evaluate(&app, form.asked(timeout), move |_, _| format(&text)).await.map_err(Failure::of_query)?;
    let write = async move |mut writer: crate::pages::Writer| {
        json::text(writer.page(), &text);
        Ok(writer)
    };
    answer::success(&app, Notes::default(), write).await
}

fn text(form: &Form) -> String {
    form.get("query").unwrap_or_default().to_owned()
}

/// What a query may take.
fn limits(form: &Form, time: Duration) -> Result<Limits, Failure> {
    let mut limits = Limits { time, bytes: QUERY_BYTES, ..Limits::default() };
    if let Some(text) = form.get("lookback_delta") {
        let problem = |problem| Failure::parameter("lookback_delta", problem);
        limits.lookback = times::duration(text).map_err(problem)?;
        if !(1..=QUERY_LOOK_BACK_MAX).contains(&limits.lookback) {
            return Err(Failure::parameter("lookback_delta", "it must be above 0 and at most a year"));
        }
    }
    Ok(limits)
}
