//! `/khz/v1/catalog` and the description of all routes: what a client can ask for. Reads no values.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use khz_model::{Exposition, Metric, RateUnit};

use crate::exchange::Embedded;
use crate::json;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::published::Published;
use crate::refusal::Refusal;
use crate::routes::App;

/// The description; tests compare it with the server.
const OPENAPI: &str = include_str!("../../../../docs/openapi.json");

/// `GET /khz/v1/openapi.json`
pub(crate) async fn openapi() -> Response {
    (Extension(Embedded), json::response(OPENAPI)).into_response()
}

/// `GET /khz/v1/catalog`
pub(crate) async fn catalog(
    State(app): State<Arc<App>>,
    Extension(published): Extension<Arc<Published>>,
    request: Request,
) -> Result<Response, Refusal> {
    let patterns = Params::parse(request.uri().query(), CATALOG_PARAMS)?.patterns()?;
    let query = Arc::clone(&app.query);
    let write = async move |mut writer: Writer| {
        let mut metrics = query.metrics();
        metrics.retain(|metric| patterns.iter().any(|pattern| pattern.matches_metric(&metric.name)));
        writer.hold((metrics.capacity() * size_of::<Arc<Metric>>()) as u64)?;
        published.sift(&*query, &mut metrics).await;
        write(writer, metrics).await
    };
    pages::json(&app, write).await
}

async fn write(mut writer: Writer, metrics: Vec<Arc<Metric>>) -> Result<Writer, Refusal> {
    writer.page().push_str("{\"metrics\":[");
    for (number, metric) in metrics.iter().enumerate() {
        json::next(writer.page(), number);
        metric_json(writer.page(), metric);
        writer.turn().await?;
    }
    writer.page().push_str("]}\n");
    Ok(writer)
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
    out.push_str(",\"rate_unit\":");
    json::text_or_null(out, RateUnit::of_metric(metric).map(|rate| rate.name()).as_deref());
    out.push_str(",\"places\":");
    json::number(out, u64::from(metric.places));
    text(out, ",\"type\":", metric.value_type.as_str());
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
    exposition_json(out, &metric.exposition);
    out.push('}');
}

/// The metric's names in `/metrics`.
fn exposition_json(out: &mut String, exposition: &Exposition) {
    out.push_str(",\"exposition\":{\"name\":");
    json::text(out, &exposition.name);
    out.push_str(",\"labels\":{");
    for (at, (label, value)) in exposition.labels.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        json::text(out, label);
        out.push(':');
        json::text(out, value);
    }
    out.push_str("},\"instance_label\":");
    json::text_or_null(out, exposition.instance_label.as_deref());
    out.push_str(",\"divisor\":");
    json::number(out, exposition.divisor);
    out.push_str(",\"untyped\":");
    out.push_str(if exposition.untyped { "true" } else { "false" });
    out.push('}');
}
