//! What data sources ask beside queries: metadata of metrics, the version; exemplars, of which khz has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use khz_model::{Kind, Metric, Query, exposed};
use khz_promql::{Source, metric_names};

use crate::json;
use crate::pages::Writer;
use crate::prometheus::answer::{self, Notes};
use crate::prometheus::evaluate::{Stop, evaluate};
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::routes::App;

/// Parameters of `/api/v1/metadata`.
pub(crate) const METADATA_PARAMS: &[&str] = &["metric", "limit", "limit_per_metric"];
/// Parameters of `/api/v1/query_exemplars`.
pub(crate) const EXEMPLARS_PARAMS: &[&str] = &["query", "start", "end", "timeout"];

/// The version of Prometheus whose interface and language this is: data sources choose by it what they ask.
const VERSION: &str = "3.5.0";

/// `/api/v1/metadata`
pub(crate) async fn metadata(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let form = Form::of(request).await?;
    let limit = form.limit()?.unwrap_or(usize::MAX);
    let (only, query) = (form.get("metric").map(str::to_owned), Arc::clone(&app.query));
    let write = async move |mut writer: Writer| {
        let known = known(&*query, only.as_deref());
        writer.hold(known.keys().map(|name| name.len() + 64).sum::<usize>() as u64)?;
        writer.page().push('{');
        for (number, (name, metric)) in known.iter().take(limit).enumerate() {
            let out = writer.page();
            json::next(out, number);
            json::text(out, name);
            out.push_str(":[{\"type\":");
            json::text(out, kind(metric));
            out.push_str(",\"help\":");
            json::text(out, metric.exposition.help.as_ref().unwrap_or(&metric.help));
            out.push_str(",\"unit\":\"\"}]");
            writer.turn().await?;
        }
        writer.page().push('}');
        Ok(writer)
    };
    answer::success(&app, Notes::default(), write).await
}

/// The metrics by their names in the exposition; with `only`, that one.
fn known(query: &dyn Query, only: Option<&str>) -> BTreeMap<String, Arc<Metric>> {
    let derived = [exposed::up_metric(), exposed::time_metric()].map(Arc::new);
    let mut known = BTreeMap::new();
    for metric in query.metrics().into_iter().chain(derived) {
        if only.is_none_or(|only| metric.exposition.name == only) {
            known.entry(metric.exposition.name.to_string()).or_insert(metric);
        }
    }
    known
}

fn kind(metric: &Metric) -> &'static str {
    match (metric.exposition.untyped, metric.kind) {
        (true, _) => "unknown",
        (false, Kind::Counter) => "counter",
        (false, Kind::Gauge) => "gauge",
    }
}

/// `/api/v1/status/buildinfo`
pub(crate) async fn build(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let write = async |mut writer: Writer| {
        let out = writer.page();
        for (key, value) in [
            ("{\"version\":", VERSION),
            (",\"revision\":", concat!("khz ", env!("CARGO_PKG_VERSION"))),
            (",\"branch\":", ""),
            (",\"buildUser\":", ""),
            (",\"buildDate\":", ""),
            (",\"goVersion\":", ""),
        ] {
            out.push_str(key);
            json::text(out, value);
        }
        out.push('}');
        Ok(writer)
    };
    answer::success(&app, Notes::default(), write).await
}

/// `/api/v1/query_exemplars`: none, of each query that is one.
pub(crate) async fn exemplars(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let form = Form::of(request).await?;
    let (start, end) = (form.moment("start", i64::MIN)?, form.moment("end", i64::MAX)?);
    if end < start {
        return Err(Failure::parameter("end", "end timestamp must not be before start time"));
    }
    let (text, timeout) = (form.get("query").unwrap_or_default().to_owned(), form.timeout()?);
    // The text may have regular expressions, which take a while.
    let parse = move |_: &dyn Source, _: &Stop| metric_names(&text).map(drop);
    evaluate(&app, form.asked(timeout), parse).await.map_err(Failure::of_query)?;
    answer::fixed(&app, "[]").await
}
