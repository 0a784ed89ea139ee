//! The routes: one table that builds the router and that a test compares with the description. Does no
//! route's work.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use khz_channel::Registry;
use khz_door::Tide;
use khz_model::http_names::{
    BLACK_BOX_PATH, CATALOG_PATH, CHANNELS_PATH, HISTORY_PATH, JOBS_PATH, NODES_PATH, QUERY_PATH, RANGE_PATH,
    RULES_PATH, STREAM_PATH,
};
use khz_model::{Budget, Nanos, Query};
use khz_rules::{Board, ScoreSheet, Standing};
use tokio::sync::{Semaphore, watch};

use crate::actions::{self, ACTIONS_PATH, Actions};
use crate::black_box::{self, BlackBox, FREEZE_ID_PARAMS};
use crate::boards::{BOARDS_PATH, SavedBoards};
use crate::counters::Counters;
use crate::door::NodeGroup;
use crate::engine::Engine;
use crate::jobs::JobDesk;
use crate::limits::Limits;
use crate::places::Places;
use crate::prometheus::line::Line;
use crate::published::Published;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::tallies::Tallies;
use crate::tour::{TOUR_PATH, Tour};
use crate::turns::Turns;
use crate::versions::Versions;
use crate::{
    assets, boards, catalog, channel_rows, channels, events, history, jobs, latest, nodes, prometheus, range,
    rules, stream, targets, tiles, tour,
};

/// The only path that needs no token: it says that the program runs, and nothing else.
pub(crate) const HEALTH_PATH: &str = "/healthz";

/// What the routes share.
pub(crate) struct App {
    pub query: Arc<dyn Query>,
    /// Whether it has numbers about itself beside those of its nodes.
    pub has_own: bool,
    pub window: Nanos,
    pub job: Arc<str>,
    /// Groups of nodes.
    pub groups: Arc<[NodeGroup]>,
    /// Pages of panels, by name.
    pub boards: Arc<SavedBoards>,
    pub limits: Limits,
    pub counters: Counters,
    /// The memory that all answers together may take.
    pub answers: Budget,
    /// The same for scrapes of one node.
    pub scrape_answers: Budget,
    /// The same for answers about the program itself.
    pub own_answers: Budget,
    pub histories: Arc<Semaphore>,
    /// The turns for evaluating queries.
    pub queries: Arc<Line>,
    /// Another engine that answers queries.
    pub engine: Option<Arc<dyn Engine>>,
    /// The turns for asking it.
    pub engine_questions: Arc<Semaphore>,
    /// The channels that readers and operators have defined.
    pub channels: Arc<Registry>,
    /// What rules said last.
    pub rules: Arc<Board>,
    /// What answers show of the rules.
    pub standings: Versions<Standing>,
    /// What answers show of their scores.
    pub scores: Versions<ScoreSheet>,
    /// What is done about alerts; `None`: nothing.
    pub actions: Option<Arc<dyn Actions>>,
    /// The jobs of a batch system; `None`: this khz has no list of them.
    pub jobs: Option<JobDesk>,
    /// Rows that nodes have frozen; `None`: nothing is frozen here.
    pub black_box: Option<Arc<dyn BlackBox>>,
    /// What a demo shows.
    pub tour: Arc<Tour>,
    /// What was sent of each.
    pub tallies: Arc<Tallies>,
    /// The places of readers' streams.
    pub places: Arc<Places>,
    /// The turns for writing pages.
    pub turns: Arc<Turns>,
    pub closing: watch::Receiver<bool>,
    /// Returns memory to the system after queries that have held much.
    pub tide: Arc<Tide>,
}

/// A path, its parameters, and its handler.
pub(crate) type Route = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

fn table() -> Vec<Route> {
    vec![
        ("/metrics", latest::METRICS_PARAMS, get(latest::metrics)),
        (HEALTH_PATH, &[], get(latest::health)),
        (QUERY_PATH, latest::QUERY_PARAMS, get(latest::query)),
        (STREAM_PATH, stream::STREAM_PARAMS, get(stream::stream)),
        (HISTORY_PATH, history::HISTORY_PARAMS, get(history::history)),
        (RANGE_PATH, range::RANGE_PARAMS, get(range::range)),
        (CATALOG_PATH, catalog::CATALOG_PARAMS, get(catalog::catalog)),
        (NODES_PATH, nodes::NODES_PARAMS, get(nodes::nodes).delete(nodes::forget)),
        (CHANNELS_PATH, &[], get(channels::list)),
        (
            "/khz/v1/channels/{name}",
            channels::CHANNEL_PARAMS,
            get(channels::show).put(channels::put).delete(channels::remove),
        ),
        (
            "/khz/v1/channels/{name}/stream",
            channel_rows::CHANNEL_STREAM_PARAMS,
            get(channel_rows::channel_stream),
        ),
        (RULES_PATH, &[], get(rules::summary).put(rules::load)),
        (ACTIONS_PATH, &[], get(actions::list)),
        ("/khz/v1/actions/{run}/output", actions::OUTPUT_PARAMS, get(actions::output)),
        (JOBS_PATH, jobs::JOBS_PARAMS, get(jobs::list)),
        ("/khz/v1/jobs/{job}", jobs::JOB_PARAMS, get(jobs::show).put(jobs::change)),
        (BLACK_BOX_PATH, &[], get(black_box::list).put(black_box::freeze)),
        ("/khz/v1/blackbox/{id}", FREEZE_ID_PARAMS, get(black_box::show).delete(black_box::remove)),
        ("/khz/v1/blackbox/{id}/recording", FREEZE_ID_PARAMS, get(black_box::recording)),
        (rules::STATE_PATH, rules::STATE_PARAMS, get(rules::state)),
        (rules::PICTURE_PATH, rules::PICTURE_PARAMS, get(rules::picture)),
        (rules::SCORE_PATH, &[], get(rules::score)),
        ("/khz/v1/tiles", tiles::TILES_PARAMS, get(tiles::tiles)),
        ("/khz/v1/targets", targets::TARGETS_PARAMS, get(targets::targets)),
        (events::EVENTS_PATH, events::EVENTS_PARAMS, get(events::events)),
        (TOUR_PATH, &[], get(tour::tour)),
        (BOARDS_PATH, &[], get(boards::boards)),
        ("/khz/v1/openapi.json", &[], get(catalog::openapi)),
    ]
    .into_iter()
    .chain(prometheus::table())
    .collect()
}

/// Every path of the description, with its parameters; there the page's files are one path, `/{file}`.
pub fn documented() -> Vec<(&'static str, &'static [&'static str])> {
    let page: [(&str, &[&str]); 2] = [("/", &[]), ("/{file}", &[])];
    page.into_iter().chain(table().into_iter().map(|(path, params, _)| (path, params))).collect()
}

pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (path, _, answer) in table() {
        router = router.route(path, answer);
    }
    for asset in assets::ASSETS {
        router =
            router.route(asset.path, get(async |request: Request| assets::answer(asset, request.headers())));
    }
    router
        .fallback(nothing_here)
        .layer(Extension(Arc::new(Roster::default())))
        .layer(Extension(Arc::new(Published::default())))
        .with_state(app)
}

async fn nothing_here(request: Request) -> Response {
    let path = request.uri().path();
    prometheus::refused(nothing_at(path), path)
}

/// There is no such path.
pub(crate) fn nothing_at(path: &str) -> Refusal {
    let problem = format!("there is nothing at '{path}'; /khz/v1/openapi.json lists every path");
    Refusal::new(StatusCode::NOT_FOUND, problem)
}

/// True for a path that some method has.
pub(crate) fn has_path(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_part = |(known, part): (&str, &&str)| match known.starts_with('{') {
        true => !part.is_empty(),
        false => known == *part,
    };
    let is_it =
        |known: &str| known.split('/').count() == parts.len() && known.split('/').zip(&parts).all(is_part);
    table().iter().any(|(known, ..)| is_it(known)) || assets::ASSETS.iter().any(|asset| asset.path == path)
}
