//! `/khz/v1/blackbox`: has nodes freeze their rings, lists what was frozen, and gives out the recordings. The hub does
//! the work.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_door::Caller;
use khz_model::Nanos;
use khz_model::http_names::BLACK_BOX_PATH;
use tokio::task::spawn_blocking;

use crate::json;
use crate::limits::PAGE_BYTES;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `PUT /khz/v1/blackbox`.
const FREEZE_PARAMS: &[&str] = &["nodes", "before", "after", "because"];

/// Parameters of the paths below: the number is in the path.
pub(crate) const FREEZE_ID_PARAMS: &[&str] = &["id"];

/// What is frozen where nothing else is said.
pub const BEFORE: Nanos = Nanos::from_secs(20);
/// The same, after the moment.
pub const AFTER: Nanos = Nanos::from_secs(5);

/// What somebody wants to be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeWish {
    /// The nodes, as a hostlist with globs.
    pub nodes: String,
    /// Rows from so long before now.
    pub before: Nanos,
    /// Rows until so long after now.
    pub after: Nanos,
    /// Why, for people.
    pub because: String,
}

/// Why nothing is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreezeRefusal {
    /// The wish makes no sense.
    Wrong(String),
    /// No node is meant.
    Nobody(String),
    /// There are too many freezes.
    TooMany(String),
    /// The hub cannot.
    Unable(String),
}

impl FreezeRefusal {
    /// It as a sentence.
    pub fn text(&self) -> &str {
        let (FreezeRefusal::Wrong(text)
        | FreezeRefusal::Nobody(text)
        | FreezeRefusal::TooMany(text)
        | FreezeRefusal::Unable(text)) = self;
        text
    }
}

impl From<FreezeRefusal> for Refusal {
    fn from(refusal: FreezeRefusal) -> Self {
        let status = match refusal {
            FreezeRefusal::Wrong(_) => StatusCode::BAD_REQUEST,
            FreezeRefusal::Nobody(_) => StatusCode::NOT_FOUND,
            FreezeRefusal::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            FreezeRefusal::Unable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::new(status, refusal.text())
    }
}

/// A black box: what the door needs of it. Its calls may wait for a disk.
pub trait BlackBox: Send + Sync {
    /// The numbers of all freezes, oldest first.
    fn ids(&self) -> Vec<u64>;

    /// One of them as a JSON object; `None`: there is no such freeze.
    fn show(&self, id: u64) -> Option<String>;

    /// Freezes. Returns the number of the freeze, and whether the wish joined one that is being taken, as a JSON object.
    ///
    /// # Errors
    /// Returns why nothing is frozen.
    fn freeze(&self, wish: &FreezeWish) -> Result<String, FreezeRefusal>;

    /// Removes a freeze. `false`: there is no such freeze.
    fn remove(&self, id: u64) -> bool;

    /// The recording of a freeze, as far as it is written; `None`: there is none.
    fn recording(&self, id: u64) -> Option<File>;
}

/// True for the path of one freeze.
pub(crate) fn is_freeze(path: &str) -> bool {
    let id = path.strip_prefix(BLACK_BOX_PATH).and_then(|rest| rest.strip_prefix('/'));
    id.is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

/// Where readers see only their own jobs, freezes are for operators: their causes name jobs of others, and so do their recordings.
fn check_reader(app: &App, caller: &Caller) -> Result<(), Refusal> {
    match app.jobs.as_ref().is_some_and(|desk| desk.own_only) {
        true => Ok(caller.check_operator("looking at freezes where readers see only their own jobs")?),
        false => Ok(()),
    }
}

/// `GET /khz/v1/blackbox`
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    check_reader(&app, &caller)?;
    let all = app.black_box.clone();
    pages::json(&app, async move |writer| write(writer, all).await).await
}

async fn write(mut writer: Writer, all: Option<Arc<dyn BlackBox>>) -> Result<Writer, Refusal> {
    writer.page().push_str("{\"freezes\":[");
    if let Some(all) = all {
        let of_ids = all.clone();
        let ids = spawn_blocking(move || of_ids.ids()).await?;
        let mut count = 0;
        // One at a time: all of them may be large.
        for id in ids {
            let one = all.clone();
            let Some(object) = spawn_blocking(move || one.show(id)).await? else { continue };
            json::next(writer.page(), count);
            writer.text(&object).await?;
            count += 1;
        }
    }
    writer.page().push_str("]}\n");
    Ok(writer)
}

/// Why a khz without a black box freezes nothing.
pub(crate) const NO_BLACK_BOX: &str =
    "this khz has no black box: only a hub with a state directory has one (blackbox)";

/// `PUT /khz/v1/blackbox`: freezes, for operators.
pub(crate) async fn freeze(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), FREEZE_PARAMS)?;
    let nodes = params.get("nodes").ok_or_else(|| {
        Refusal::bad_request("'nodes' is missing: the nodes whose rings are frozen, as node[1-8] or *")
    })?;
    let wish = FreezeWish {
        nodes: nodes.to_owned(),
        before: params.duration("before", BEFORE)?,
        after: params.duration("after", AFTER)?,
        because: params.get("because").unwrap_or("asked for").to_owned(),
    };
    caller.check_operator("freezing rings")?;
    let all =
        app.black_box.clone().ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, NO_BLACK_BOX))?;
    let frozen = spawn_blocking(move || all.freeze(&wish)).await??;
    Ok(json::response(frozen))
}

/// `GET /khz/v1/blackbox/ID`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    check_reader(&app, &caller)?;
    let found = beside(&app, &id, |all, id| all.show(id)).await?;
    pages::json(&app, async move |mut writer: Writer| {
        writer.hold(found.capacity() as u64)?;
        writer.text(&found).await?;
        writer.page().push('\n');
        Ok(writer)
    })
    .await
}

/// `DELETE /khz/v1/blackbox/ID`: removes a freeze and its recording, for operators.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    caller.check_operator("removing freezes")?;
    beside(&app, &id, |all, id| all.remove(id).then_some(())).await?;
    Ok(json::response("{\"removed\":true}\n".to_owned()))
}

/// `GET /khz/v1/blackbox/ID/recording`
pub(crate) async fn recording(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    check_reader(&app, &caller)?;
    // One that is known may have none.
    let found = beside(&app, &id, |all, id| all.ids().contains(&id).then(|| all.recording(id))).await?;
    let mut file = found.ok_or_else(|| {
        let text = format!("freeze {id} has no recording; {BLACK_BOX_PATH}/{id} says why");
        Refusal::new(StatusCode::NOT_FOUND, text)
    })?;
    pages::answer(&app, "application/octet-stream", async move |mut writer: Writer| {
        writer.hold(PAGE_BYTES as u64)?;
        loop {
            let read = move || {
                let mut piece = Vec::with_capacity(PAGE_BYTES);
                let read = (&file).take(PAGE_BYTES as u64).read_to_end(&mut piece);
                (file, read.map(|_| piece))
            };
            let (same, piece) = spawn_blocking(read).await?;
            file = same;
            let unreadable = |error| {
                let text = format!("the recording cannot be read: {error}");
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
            };
            let piece = piece.map_err(unreadable)?;
            if piece.is_empty() {
                return Ok(writer);
            }
            writer.send(piece).await?;
        }
    })
    .await
}

/// Asks beside the door's threads for the freeze with this number.
async fn beside<T: Send + 'static>(
    app: &App,
    id: &str,
    ask: impl FnOnce(&dyn BlackBox, u64) -> Option<T> + Send + 'static,
) -> Result<T, Refusal> {
    let nothing = || {
        let text = format!("there is no freeze {id} here; {BLACK_BOX_PATH} lists them");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    let (Some(all), Ok(number)) = (app.black_box.clone(), id.parse()) else { return Err(nothing()) };
    spawn_blocking(move || ask(&*all, number)).await?.ok_or_else(nothing)
}
