//! `/khz/v1/catalog` and the description of all routes: what can be asked for. It refuses to look at values.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use khz_model::Metric;

use crate::json;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// The description that the tests hold against the server.
const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// `GET /khz/v1/openapi.json`
pub(crate) async fn openapi() -> Response {
    json::response(OPENAPI.to_owned())
}

/// `GET /khz/v1/catalog`
pub(crate) async fn catalog(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let patterns = Params::parse(request.uri().query(), CATALOG_PARAMS)?.patterns()?;
    let metrics = app.query.metrics();
    let selected = metrics.iter().filter(|metric| patterns.iter().any(|p| p.matches_metric(&metric.name)));
    let mut out = String::from("{\"metrics\":");
    json::list(&mut out, selected, |out, metric| metric_json(out, metric));
    out.push_str("}\n");
    Ok(json::response(out))
}

/// Parameters of `/khz/v1/catalog`.
pub(crate) const CATALOG_PARAMS: &[&str] = &["match"];

fn metric_json(out: &mut String, metric: &Metric) {
    let text = |out: &mut String, key: &str, value: &str| {
        out.push_str(key);
        json::text(out, value);
    };
    text(out, "{\"name\":", &metric.name);
    text(out, ",\"kind\":", metric.kind.as_str());
    text(out, ",\"unit\":", metric.unit.as_str());
    out.push_str(",\"places\":");
    json::number(out, u64::from(metric.places));
    out.push_str(",\"max\":");
    json::text_or_null(out, metric.max.map(|max| max.to_string()).as_deref());
    text(out, ",\"refresh\":", &metric.refresh.to_string());
    text(out, ",\"help\":", &metric.help);
    text(out, ",\"file\":", &metric.origin.file);
    text(out, ",\"field\":", &metric.origin.field);
    out.push_str(",\"instances\":");
    json::text_or_null(out, metric.instances.as_deref());
    text(out, ",\"flat\":", &metric.flat);
    text(out, ",\"prometheus\":", &metric.exposition.name);
    out.push('}');
}
