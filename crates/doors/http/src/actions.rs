//! `/khz/v1/actions`: what a hub does when alerts fire, and what it has done. It is read only: nothing is started over HTTP.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_door::Caller;
use tokio::task::spawn_blocking;

use crate::json;
use crate::limits::RUN_OUTPUT_BYTES;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Path of the actions and of what they have done; the output of a run is below it.
pub(crate) const ACTIONS_PATH: &str = "/khz/v1/actions";

/// Parameters of `/khz/v1/actions/RUN/output`: the number is in the path.
pub(crate) const OUTPUT_PARAMS: &[&str] = &["run"];

/// What only operators may read.
const OUTPUTS: &str = "the output of actions";

/// Runs that an answer holds at a time, beside its pages: a client that does not read holds no more.
const RUNS_AT_A_TIME: usize = 16;

/// What is done about alerts: what the door needs of it. Its calls may wait for a disk.
pub trait Actions: Send + Sync {
    /// The actions, each as a JSON object. `reads_outputs`: the caller may see what programs printed.
    fn actions(&self, reads_outputs: bool) -> Vec<String>;

    /// What they have done last, oldest first: the runs with numbers above `after`, and not more than `most` of them. Each has its
    /// number, and is a JSON object.
    fn runs(&self, after: u64, most: usize, reads_outputs: bool) -> Vec<(u64, String)>;

    /// What a run printed; `None`: that was not kept.
    fn output(&self, run: u64) -> Option<String>;
}

/// `GET /khz/v1/actions`
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let all = app.actions.clone();
    let reads_outputs = caller.check_operator(OUTPUTS).is_ok();
    pages::json(&app, async move |writer| write(writer, all, reads_outputs).await).await
}

async fn write(
    mut writer: Writer,
    all: Option<Arc<dyn Actions>>,
    reads_outputs: bool,
) -> Result<Writer, Refusal> {
    writer.page().push_str("{\"actions\":[");
    let actions = beside(&all, move |all| all.actions(reads_outputs)).await?;
    writer.hold(actions.iter().map(held).sum())?;
    for (number, object) in actions.iter().enumerate() {
        put(&mut writer, number, object).await?;
    }
    drop(actions);
    writer.page().push_str("],\"runs\":[");
    let (mut number, mut after) = (0, 0);
    loop {
        let runs = beside(&all, move |all| all.runs(after, RUNS_AT_A_TIME, reads_outputs)).await?;
        if runs.is_empty() {
            break;
        }
        writer.hold(runs.iter().map(|(_, object)| held(object)).sum())?;
        for (run, object) in runs {
            put(&mut writer, number, &object).await?;
            (number, after) = (number + 1, run);
        }
    }
    writer.page().push_str("]}\n");
    Ok(writer)
}

fn held(object: &String) -> u64 {
    (size_of::<(u64, String)>() + object.capacity()) as u64
}

async fn put(writer: &mut Writer, number: usize, object: &str) -> Result<(), Refusal> {
    json::next(writer.page(), number);
    writer.page().push_str(object);
    writer.turn().await
}

/// Asks beside the door's threads; without actions there is nothing.
async fn beside<T: Default + Send + 'static>(
    all: &Option<Arc<dyn Actions>>,
    ask: impl FnOnce(&dyn Actions) -> T + Send + 'static,
) -> Result<T, Refusal> {
    match all.clone() {
        Some(all) => Ok(spawn_blocking(move || ask(&*all)).await?),
        None => Ok(T::default()),
    }
}

/// `GET /khz/v1/actions/RUN/output`: programs may print what not every reader should see.
pub(crate) async fn output(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    caller.check_operator(OUTPUTS)?;
    let kept = run.clone();
    let nothing =
        move || Refusal::new(StatusCode::NOT_FOUND, format!("no output of a run {kept} is kept here"));
    let number = run.parse().map_err(|_| nothing())?;
    let actions = app.actions.clone().ok_or_else(&nothing)?;
    pages::answer(&app, "text/plain; charset=utf-8", async move |mut writer: Writer| {
        writer.hold(RUN_OUTPUT_BYTES)?;
        let text = spawn_blocking(move || actions.output(number)).await?;
        let text = text.ok_or_else(nothing)?;
        writer.hold(text.capacity() as u64)?;
        writer.text(&text).await?;
        Ok(writer)
    })
    .await
}
