//! `/khz/v1/channels`: lists, shows, defines and removes channels. `channel_rows.rs` sends their rows.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_channel::limits::{CHANNELS_MAX, DEFINITION_BYTES};
use khz_channel::{ChannelError, Definition, Kept};
use khz_door::Caller;
use khz_model::NodeName;
use khz_model::http_names::CHANNELS_PATH;
use tokio::task::spawn_blocking;

use crate::bodies;
use crate::channel_cost::ChannelCost;
use crate::json;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/channels/NAME`: its name is in the path.
pub(crate) const CHANNEL_PARAMS: &[&str] = &["name"];

/// Parameters of `PUT /khz/v1/channels/NAME`.
const PUT_PARAMS: &[&str] = &["new", "known"];

/// The name in `/khz/v1/channels/NAME`; `None`: it is another path.
pub(crate) fn name_in(path: &str) -> Option<&str> {
    let name = path.strip_prefix(CHANNELS_PATH)?.strip_prefix('/')?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// `GET /khz/v1/channels`
pub(crate) async fn list(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    pages::json(&app.clone(), async move |writer| write(writer, &app).await).await
}

async fn write(mut writer: Writer, app: &App) -> Result<Writer, Refusal> {
    // Definitions that are replaced meanwhile must not stay, so the answer holds only names.
    let names: Vec<String> = app.channels.list().iter().map(|kept| kept.definition.name.clone()).collect();
    writer.hold(names.iter().map(|name| size_of::<String>() + name.capacity()).sum::<usize>() as u64)?;
    writer.page().push_str("{\"channels\":[");
    let mut written = 0;
    for name in &names {
        // It may have been removed since.
        let Ok(kept) = app.channels.get(name) else { continue };
        json::next(writer.page(), written);
        written += 1;
        writer.page().push('{');
        entry(writer.page(), app, &kept);
        writer.page().push('}');
        drop(kept);
        writer.turn().await?;
    }
    let out = writer.page();
    out.push_str("],\"kept\":");
    out.push_str(if app.channels.is_kept() { "true" } else { "false" });
    out.push_str(",\"limit\":");
    json::number(out, CHANNELS_MAX as u64);
    out.push_str("}\n");
    Ok(writer)
}

/// `GET /khz/v1/channels/NAME`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let kept = app.channels.get(&name)?;
    let asked = app.clone();
    let write = async move |mut writer: Writer| {
        let cost = ChannelCost::of(&asked, &kept.definition.name).await?;
        shown(writer.page(), &asked, &kept, Some(&cost));
        writer.turn().await?;
        Ok(writer)
    };
    pages::json(&app, write).await
}

/// `PUT /khz/v1/channels/NAME`: defines a channel; with `new=1` only if there is none of this name, or an equal one;
/// with `known=1` only if there is one.
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), PUT_PARAMS)?;
    let (is_new, is_known) = (params.switch("new")?, params.switch("known")?);
    if is_new && is_known {
        return Err(Refusal::bad_request("new and known contradict each other"));
    }
    let body = bodies::whole(request, DEFINITION_BYTES, "a definition").await?;
    let mut definition = Definition::from_json(&body)?;
    if definition.name.is_empty() {
        definition.name = name;
    } else if definition.name != name {
        let problem = format!("the definition is of '{}', and the path of '{name}'", definition.name);
        return Err(Refusal::bad_request(problem));
    }
    caller.check_rate(definition.rate()?)?;
    definition.check_units(|| app.query.metrics())?;
    let registry = Arc::clone(&app.channels);
    let kept = changed(move || match (is_new, is_known) {
        (true, _) => registry.create(definition, caller.role),
        (false, true) => registry.replace(definition, caller.role),
        (false, false) => registry.set(definition, caller.role),
    });
    let mut out = String::new();
    shown(&mut out, &app, &*kept.await?, None);
    Ok(json::response(out))
}

/// `DELETE /khz/v1/channels/NAME`
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let registry = Arc::clone(&app.channels);
    let removed = name.clone();
    changed(move || registry.remove(&removed, caller.role)).await?;
    app.tallies.forget(&name);
    let mut out = String::from("{\"removed\":");
    json::text(&mut out, &name);
    out.push_str("}\n");
    Ok(json::response(out))
}

/// A change waits for the disk, so it runs beside the door.
async fn changed<T: Send + 'static>(
    change: impl FnOnce() -> Result<T, ChannelError> + Send + 'static,
) -> Result<T, Refusal> {
    let stopped = |_| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the change was cut short; look whether it is done")
    };
    Ok(spawn_blocking(change).await.map_err(stopped)??)
}

/// Writes a channel with what nodes say of it.
fn shown(out: &mut String, app: &App, kept: &Kept, cost: Option<&ChannelCost>) {
    out.push('{');
    entry(out, app, kept);
    out.push_str(",\"notices\":");
    let tally = app.tallies.of(&kept.definition.name);
    let of_readers = tally.map(|tally| tally.notices()).unwrap_or_default();
    let notices = app.channels.noted_of(&kept.definition.name).and(of_readers);
    json::list(out, &notices.sentences(), |out, (text, nodes)| {
        out.push_str("{\"nodes\":");
        json::list(out, nodes, |out, node: &NodeName| json::text(out, node.as_str()));
        out.push_str(",\"text\":");
        json::text(out, text);
        out.push('}');
    });
    if let Some(cost) = cost {
        out.push_str(",\"cost\":");
        cost.put(out);
    }
    out.push_str("}\n");
}

/// The members of a channel.
fn entry(out: &mut String, app: &App, kept: &Kept) {
    let name = &kept.definition.name;
    let tallied = app.tallies.of(name).map(|tally| tally.numbers()).unwrap_or_default();
    out.push_str("\"name\":");
    json::text(out, name);
    out.push_str(",\"maker\":");
    json::text(out, kept.maker.word());
    for (member, number) in [
        (",\"readers\":", tallied.readers as u64),
        (",\"rows\":", tallied.rows),
        (",\"lost\":", tallied.lost),
        (",\"bytes\":", tallied.bytes),
    ] {
        out.push_str(member);
        json::number(out, number);
    }
    out.push_str(",\"definition\":");
    out.push_str(&kept.definition.to_json());
}

impl From<ChannelError> for Refusal {
    fn from(error: ChannelError) -> Self {
        let status = match error {
            ChannelError::Field { .. } | ChannelError::Unreadable(_) => StatusCode::BAD_REQUEST,
            ChannelError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ChannelError::Exists(_) | ChannelError::Used(..) | ChannelError::Breaks(..) => {
                StatusCode::CONFLICT
            }
            ChannelError::Unknown(..) => StatusCode::NOT_FOUND,
            ChannelError::Full | ChannelError::ReadersFull | ChannelError::KeptFull => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ChannelError::TooFast(_)
            | ChannelError::ForOperators(_)
            | ChannelError::OfOperator(_)
            | ChannelError::UsedByOperator(..)
            | ChannelError::NoMaker(_) => StatusCode::FORBIDDEN,
            ChannelError::File { .. } | ChannelError::Shared(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_channel_is_one_part_of_its_path() {
        for (path, name) in [
            ("/khz/v1/channels/hot", Some("hot")),
            ("/khz/v1/channels/", None),
            ("/khz/v1/channels", None),
            ("/khz/v1/channels/hot/stream", None),
            ("/khz/v1/channelshot", None),
        ] {
            assert_eq!(name_in(path), name, "{path}");
        }
    }
}
