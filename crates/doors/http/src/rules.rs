//! `/khz/v1/rules`: how many rules are in use and what they say, in short; loading their files again; what another
//! hub is told of their alerts; and what to draw of an alert.
//! The rules themselves, and their alerts, are in Prometheus' interface (`prometheus/rules.rs`).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_door::Caller;
use khz_rules::{AlertState, ScoreSheet, Word};
use tokio::task::spawn_blocking;

use crate::json;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// `GET /khz/v1/rules`
pub(crate) async fn summary(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let standing = app.rules.standing();
    let rules = || standing.groups.iter().flat_map(|group| &group.rules);
    let alerts = |state| rules().flat_map(|rule| &rule.alerts).filter(|alert| alert.state == state).count();
    let is_failed =
        |rule: &&khz_rules::RuleStanding| rule.report.as_ref().is_some_and(|report| report.error.is_some());
    let mut out = String::from("{");
    for (number, (name, count)) in [
        ("groups", standing.groups.len()),
        ("rules", rules().count()),
        ("failed", rules().filter(is_failed).count()),
        ("firing", alerts(AlertState::Firing)),
        ("pending", alerts(AlertState::Pending)),
    ]
    .into_iter()
    .enumerate()
    {
        json::next(&mut out, number);
        json::text(&mut out, name);
        out.push(':');
        json::number(&mut out, count as u64);
    }
    out.push_str(",\"refused\":");
    json::text(&mut out, &standing.refused);
    out.push_str("}\n");
    Ok(json::response(out))
}

/// `PUT /khz/v1/rules`: loads the rule files again. If one of them has an error, those before stay in use.
pub(crate) async fn load(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    caller.check_operator("loading rules")?;
    let board = app.rules.clone();
    // It waits for the evaluation that runs.
    let told = spawn_blocking(move || board.reload()).await?;
    let (groups, rules) = told.map_err(|problem| Refusal::new(StatusCode::CONFLICT, problem))?;
    Ok(json::response(format!("{{\"groups\":{groups},\"rules\":{rules}}}\n")))
}

/// Where another hub asks for the state of the alerts.
pub(crate) const STATE_PATH: &str = "/khz/v1/rules/state";
/// Parameters of it.
pub(crate) const STATE_PARAMS: &[&str] = &["known"];

/// `GET /khz/v1/rules/state`: the alerts with all that is known of them, for another hub that goes on with them when this one is
/// gone. With the tag that the client knows, only whether it is still the same.
pub(crate) async fn state(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), STATE_PARAMS)?;
    let word = app.rules.word();
    let is_known = params.get("known").is_some_and(|known| known == word.tag);
    pages::json(&app, async move |writer| write_state(writer, &word, is_known).await).await
}

async fn write_state(mut writer: Writer, word: &Word, is_known: bool) -> Result<Writer, Refusal> {
    let page = writer.page();
    page.push_str("{\"hub\":");
    json::text(page, &word.hub);
    page.push_str(",\"tag\":");
    json::text(page, &word.tag);
    page.push_str(",\"heard\":[");
    for (number, tag) in word.heard.iter().enumerate() {
        json::next(page, number);
        json::text(page, tag);
    }
    page.push(']');
    if let Some(now) = word.now() {
        page.push_str(&format!(",\"now\":{now}"));
    }
    if !is_known && !word.state.is_empty() {
        // The board may have a newer one before the client has read this one.
        writer.hold((word.state.len() + word.told.len() + word.own.len()) as u64)?;
        let parts = [(",\"told\":", &word.told), (",\"own\":", &word.own), (",\"state\":", &word.state)];
        for (name, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
            writer.page().push_str(name);
            writer.text(text).await?;
        }
    }
    writer.page().push_str("}\n");
    Ok(writer)
}

/// Where one asks what to draw of an alert.
pub(crate) const PICTURE_PATH: &str = "/khz/v1/rules/picture";
/// Parameters of it.
pub(crate) const PICTURE_PARAMS: &[&str] = &["query", "instance"];

/// `GET /khz/v1/rules/picture`: the series that an alert's expression compares, and the number that it compares them with.
pub(crate) async fn picture(request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), PICTURE_PARAMS)?;
    let missing = || Refusal::bad_request("parameter 'query' is missing: the expression of a rule");
    let query = params.get("query").ok_or_else(missing)?.to_owned();
    let instance = params.get("instance").map(str::to_owned);
    // The text may have regular expressions, which take a while.
    let picture = spawn_blocking(move || khz_promql::picture(&query, instance.as_deref())).await?;
    let picture = picture.map_err(|error| Refusal::bad_request(format!("query: {error}")))?;
    let mut out = String::from("{\"query\":");
    json::text(&mut out, &picture.query);
    if let Some(bound) = picture.bound {
        out.push_str(",\"operator\":");
        json::text(&mut out, bound.operator);
        let mut value = String::new();
        khz_promql::put_value(&mut value, bound.value);
        out.push_str(",\"bound\":");
        json::text(&mut out, &value);
    }
    out.push_str("}\n");
    Ok(json::response(out))
}

/// Where the scores of the rules are.
pub(crate) const SCORE_PATH: &str = "/khz/v1/rules/score";

/// `GET /khz/v1/rules/score`: how good each alerting rule is as a warning.
pub(crate) async fn score(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let bytes = |sheet: &ScoreSheet| {
        let rules = sheet.rules.iter().map(|rule| size_of::<String>() + rule.len());
        (sheet.head.len() + rules.sum::<usize>()) as u64
    };
    let version = app.scores.pay(&app.answers, app.rules.scores(), bytes)?;
    pages::json(&app, async move |mut writer: Writer| {
        writer.share(version.bytes());
        let sheet = &version.value;
        writer.page().push('{');
        writer.page().push_str(&sheet.head);
        writer.page().push_str(",\"rules\":[");
        for (number, rule) in sheet.rules.iter().enumerate() {
            json::next(writer.page(), number);
            writer.page().push_str(rule);
            writer.turn().await?;
        }
        writer.page().push_str("]}\n");
        Ok(writer)
    })
    .await
}
