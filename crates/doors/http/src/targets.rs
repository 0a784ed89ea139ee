//! `/khz/v1/targets`: every node as a target for Prometheus' HTTP service discovery. Includes nodes that are
//! down or missing: a failed scrape is how Prometheus learns of it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use khz_model::NodeName;

use crate::json;
use crate::node_names::NodeNames;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/targets`.
pub(crate) const TARGETS_PARAMS: &[&str] = &["nodes"];

/// `GET /khz/v1/targets`
pub(crate) async fn targets(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), TARGETS_PARAMS)?;
    let selected = params.hostlist("nodes")?;
    let door = door(&request)?;
    let (query, job) = (Arc::clone(&app.query), app.job.clone());
    let write = async move |writer| {
        let nodes = NodeNames::selected(&*query, selected.as_ref());
        write(writer, &nodes, &door, &job).await
    };
    pages::json(&app, write).await
}

async fn write(mut writer: Writer, nodes: &NodeNames, door: &str, job: &str) -> Result<Writer, Refusal> {
    writer.hold(nodes.held())?;
    writer.page().push('[');
    for (number, node) in nodes.all().iter().enumerate() {
        json::next(writer.page(), number);
        target_json(writer.page(), door, job, node);
        writer.turn().await?;
    }
    writer.page().push_str("]\n");
    Ok(writer)
}

/// The name by which the client called this door: the client reaches the door by it, through any tunnel.
fn door(request: &Request) -> Result<String, Refusal> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    authority.or(host).map(str::to_owned).ok_or_else(|| Refusal::bad_request("the Host header is missing"))
}

/// A target: the door's address, asked for one node. Dashboards tell machines apart by `instance`; without it
/// Prometheus would give all of them the door's address. There is no label `node`: NUMA nodes have one.
fn target_json(out: &mut String, door: &str, job: &str, node: &NodeName) {
    out.push_str("{\"targets\":[");
    json::text(out, door);
    out.push_str("],\"labels\":{\"__metrics_path__\":\"/metrics\"");
    for (label, value) in [("__param_node", node.as_str()), ("instance", node.as_str()), ("job", job)] {
        out.push_str(",\"");
        out.push_str(label);
        out.push_str("\":");
        json::text(out, value);
    }
    out.push_str("}}");
}
