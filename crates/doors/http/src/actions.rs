//! `/khz/v1/actions`: what a hub does when alerts fire, and what it has done. It is read only: nothing is started over HTTP.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use khz_door::Caller;
use tokio::task::spawn_blocking;

use crate::json;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Path of the actions and of what they have done; the output of a run is below it.
pub(crate) const ACTIONS_PATH: &str = "/khz/v1/actions";

/// Parameters of `/khz/v1/actions/RUN/output`: the number is in the path.
pub(crate) const OUTPUT_PARAMS: &[&str] = &["run"];

/// What is done about alerts: what the door needs of it. Its calls may wait for a disk.
pub trait Actions: Send + Sync {
    /// The actions, each as a JSON object.
    fn actions(&self) -> Vec<String>;

    /// What they have done last, oldest first, each as a JSON object.
    fn runs(&self) -> Vec<String>;

    /// What a run printed; `None`: that was not kept.
    fn output(&self, run: u64) -> Option<String>;
}

/// `GET /khz/v1/actions`
pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let (actions, runs) = match app.actions.clone() {
        Some(all) => spawn_blocking(move || (all.actions(), all.runs())).await.map_err(stopped)?,
        None => Default::default(),
    };
    pages::json(&app.clone(), async move |writer| write(writer, &actions, &runs).await).await
}

async fn write(mut writer: Writer, actions: &[String], runs: &[String]) -> Result<Writer, Refusal> {
    for (opening, objects) in [("{\"actions\":[", actions), ("],\"runs\":[", runs)] {
        writer.page().push_str(opening);
        for (number, object) in objects.iter().enumerate() {
            json::next(writer.page(), number);
            writer.page().push_str(object);
            writer.turn().await?;
        }
    }
    writer.page().push_str("]}\n");
    Ok(writer)
}

/// `GET /khz/v1/actions/RUN/output`: programs may print what not every reader should see.
pub(crate) async fn output(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    caller.check_operator("the output of actions")?;
    let nothing = || Refusal::new(StatusCode::NOT_FOUND, format!("no output of a run {run} is kept here"));
    let (number, actions) = (run.parse().map_err(|_| nothing())?, app.actions.clone().ok_or_else(nothing)?);
    let text = spawn_blocking(move || actions.output(number)).await.map_err(stopped)?;
    let text = text.ok_or_else(nothing)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

fn stopped(_: tokio::task::JoinError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the hub ends")
}
