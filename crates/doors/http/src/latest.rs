//! `/metrics`, `/khz/v1/query` and `/healthz`: the latest readings. Gathers nothing itself; asks the query
//! for rows no older than the window. At a hub a scrape makes a node gather, while a query gets the newest
//! rows that the hub has, unless it limits their age.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use khz_model::{Nanos, NodeName, Part, Pattern, Presence, Query, QueryError, Sample, Snapshot, exposed};
use tokio::time::timeout;

use crate::accept::negotiate;
use crate::collect::{self, COLLECT};
use crate::exchange::Embedded;
use crate::exposition::{Families, Format};
use crate::json;
use crate::layout::Layouts;
use crate::limits::{PAGE_BYTES, SCRAPE_SMALL_READINGS};
use crate::misses;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::routes::App;
use crate::scrape_nodes;
use crate::turns::Queue;

/// How long a query waits for nodes that were asked for newer rows, as at the text door.
const RENEW_DEADLINE: Duration = Duration::from_millis(50);
/// How long a scrape waits for its node: a scraper waits ten seconds, and a first answer takes two round
/// trips.
const SCRAPE_DEADLINE: Duration = Duration::from_millis(500);

/// What a scrape holds for each reading until it is written: the sample, and its place in its family.
const BYTES_A_READING: u64 = (size_of::<Sample>() + size_of::<(Option<&NodeName>, &Sample)>()) as u64;

/// Parameters of `/metrics`.
pub(crate) const METRICS_PARAMS: &[&str] = &["node", "nodes", COLLECT];

/// `GET /metrics`: the numbers of one node, if a node is named; of some nodes, if a hostlist selects them; else
/// the numbers that the answering program has about itself; else those of its node.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    Extension(roster): Extension<Arc<Roster>>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), METRICS_PARAMS)?;
    let format = negotiate(request.headers());
    let collected = collect::patterns(&params)?;
    let (node, nodes) = (params.get("node"), params.hostlist("nodes")?);
    let wanted = match (node, nodes) {
        (Some(_), Some(_)) => {
            let error = "'node' is for one node, and 'nodes' for a hostlist: a scrape takes only one of them. Write nodes=n1,n[3-5] \
                         for several nodes";
            return Err(Refusal::bad_request(error));
        }
        (Some(node), None) => Wanted::Node(NodeName::new(node)?),
        (None, Some(nodes)) => Wanted::Nodes(nodes),
        (None, None) if app.has_own => Wanted::Own,
        (None, None) => Wanted::Everything,
    };
    let readings = wanted.readings(&app, &roster)?;
    let queue = match wanted {
        Wanted::Own => Queue::Own,
        // A node of ordinary size has room that long answers cannot take.
        Wanted::Node(_) | Wanted::Everything if readings <= SCRAPE_SMALL_READINGS as u64 => Queue::Scrapes,
        _ => Queue::Answers,
    };
    let kind = format.content_type();
    let asked = app.clone();
    // The samples are collected in their turn, like a page, and the budget has paid for them then: many who wait hold nothing.
    let write = async move |mut writer: Writer| {
        writer.hold(readings * BYTES_A_READING)?;
        wanted.exposed(&asked, &roster, collected).await?.write(writer, format).await
    };
    let mut response = pages::answer_in(queue, &app, kind, write).await?;
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// What a scrape wants.
enum Wanted {
    Node(NodeName),
    Nodes(Pattern),
    /// What the answering program has about itself.
    Own,
    /// What it has of its node.
    Everything,
}

impl Wanted {
    /// About how many readings this is.
    fn readings(&self, app: &App, roster: &Roster) -> Result<u64, Refusal> {
        let nodes = || roster.nodes(&*app.query);
        match self {
            Wanted::Node(name) => {
                Ok(nodes().iter().filter(|status| status.node == *name).map(scrape_nodes::slots).sum())
            }
            Wanted::Nodes(pattern) => scrape_nodes::readings(&nodes(), pattern),
            Wanted::Own => Ok(0),
            Wanted::Everything => Ok(nodes().iter().map(scrape_nodes::slots).sum()),
        }
    }

    async fn exposed(
        self,
        app: &App,
        roster: &Roster,
        collected: Option<Vec<Pattern>>,
    ) -> Result<Exposed, Refusal> {
        Ok(match self {
            // No identity for a requested node: the scraper's target has one, and two would conflict.
            Wanted::Node(node) => {
                let has_all = collected.is_none();
                of_one_node(app, one_node(app, roster, node, collected).await?, has_all)
            }
            Wanted::Nodes(nodes) => {
                Exposed::Nodes(scrape_nodes::snapshot(app, roster, &nodes, collected).await?, app.job.clone())
            }
            Wanted::Own => {
                let mut own = app.query.own().unwrap_or_default();
                let is_collected = |name: &str| {
                    collected
                        .as_ref()
                        .is_none_or(|all| all.iter().any(|pattern| pattern.matches_metric(name)))
                };
                own.retain(|sample| is_collected(&sample.series.metric.name));
                Exposed::Own(own)
            }
            Wanted::Everything => {
                let all = match &collected {
                    Some(patterns) => collect(app, patterns).await?,
                    None => app.query.latest(&[Pattern::everything()], app.window).await?,
                };
                of_one_node(app, all, collected.is_none())
            }
        })
    }
}

/// The exposition of one node.
fn of_one_node(app: &App, mut snapshot: Snapshot, has_all: bool) -> Exposed {
    scrape_nodes::leave_out_up(app, &mut snapshot);
    if has_all {
        let time = Arc::new(exposed::time_metric());
        for (_, samples) in &mut snapshot.nodes {
            exposed::add_time(&time, samples);
        }
    }
    Exposed::Node(snapshot)
}

/// The contents of an exposition.
enum Exposed {
    /// One node; who scrapes it knows which.
    Node(Snapshot),
    /// Several nodes, and the label `job` of their samples.
    Nodes(Snapshot, Arc<str>),
    Own(Vec<Sample>),
}

impl Exposed {
    async fn write(self, mut writer: Writer, format: Format) -> Result<Writer, Refusal> {
        let count = |all: &Snapshot| all.nodes.iter().map(|(_, samples)| samples.capacity()).sum();
        let (samples, mut families): (usize, _) = match &self {
            Exposed::Node(node) => (count(node), Families::of(node, format, None)),
            Exposed::Nodes(all, job) => (count(all), Families::of(all, format, Some(job))),
            Exposed::Own(own) => (own.capacity(), Families::of_own(own, format)),
        };
        writer.hold((samples * size_of::<Sample>()) as u64 + families.held())?;
        while families.go_on(writer.page(), PAGE_BYTES) {
            writer.turn().await?;
        }
        Ok(writer)
    }
}

/// The samples of one node, gathered for this scrape: a rate computed from scrapes needs numbers from the
/// moment of the scrape. If the node is down, the scrape fails, so that Prometheus sets `up` to 0 and marks
/// its series stale: old numbers must not pass for new ones.
async fn one_node(
    app: &App,
    roster: &Roster,
    node: NodeName,
    collected: Option<Vec<Pattern>>,
) -> Result<Snapshot, Refusal> {
    let nodes = roster.nodes(&*app.query);
    let status = nodes.iter().find(|status| status.node == node).ok_or_else(|| {
        let error = format!("there is no node '{node}'; /khz/v1/nodes lists them");
        Refusal::new(StatusCode::NOT_FOUND, error)
    })?;
    let unavailable = |error: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error);
    if !status.up {
        let heard = status
            .heard
            .map_or_else(String::new, |age| format!("; it was last heard {:.1} s ago", age.as_secs_f64()));
        let how = match status.presence() {
            Presence::Missing => "is expected, and was never heard",
            Presence::Left => "has left",
            Presence::Up | Presence::Down => "is down",
        };
        return Err(unavailable(format!("node '{node}' {how}{heard}")));
    }
    let patterns = match &collected {
        None => vec![Pattern::new(&format!("{node}:*"))?],
        Some(collected) => {
            let of_node = collected.iter().map(|pattern| Pattern::new(&format!("{node}:{pattern}")));
            of_node.collect::<Result<Vec<_>, _>>()?
        }
    };
    // If the node has not answered by then, its last rows are used.
    let _ = timeout(SCRAPE_DEADLINE, app.query.renew(&patterns, app.window)).await;
    let snapshot = match &collected {
        Some(_) => collect(app, &patterns).await?,
        None => app.query.latest(&patterns, app.window).await?,
    };
    if snapshot.nodes.is_empty() && (collected.is_none() || !snapshot.missing.is_empty()) {
        return Err(unavailable(format!("node '{node}' does not answer")));
    }
    Ok(snapshot)
}

/// The samples of these collectors; none where nothing matches, like node_exporter.
pub(crate) async fn collect(app: &App, patterns: &[Pattern]) -> Result<Snapshot, Refusal> {
    match app.query.latest(patterns, app.window).await {
        Err(QueryError::NothingMatches { .. }) => Ok(Snapshot::default()),
        answered => Ok(answered?),
    }
}

/// `GET /khz/v1/query`
pub(crate) async fn query(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), QUERY_PARAMS)?;
    let patterns = params.patterns()?;
    let age_max = params.duration("age", app.window)?;
    if params.get("age").is_some() {
        // Nodes that have not answered by then show their last rows, with their time.
        let _ = timeout(RENEW_DEADLINE, app.query.renew(&patterns, age_max)).await;
    }
    let query = Arc::clone(&app.query);
    pages::json(&app, async move |writer| snapshot(writer, &*query, patterns, age_max).await).await
}

/// Parameters of `/khz/v1/query`.
pub(crate) const QUERY_PARAMS: &[&str] = &["match", "age"];

/// `GET /healthz`: whether the door still answers; gathers nothing.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    match app.query.latest(&[], Nanos(u64::MAX)).await {
        Err(stopped @ QueryError::Stopped) => Err(stopped.into()),
        _ => Ok((Extension(Embedded), json::response("{\"status\":\"ok\"}\n")).into_response()),
    }
}

/// Writes the answer to a query node by node, each with its readings at that moment.
async fn snapshot(
    mut writer: Writer,
    query: &dyn Query,
    patterns: Vec<Pattern>,
    age_max: Nanos,
) -> Result<Writer, Refusal> {
    let mut look = query.look_at(&patterns, age_max);
    look.ready().await.map_err(|error| misses::refusal(query, &patterns, error))?;
    let misses = misses::of(query, &patterns);
    let (mut layouts, mut nodes) = (Layouts::new(patterns), 0);
    writer.page().push_str("{\"nodes\":[");
    loop {
        let out = writer.page();
        let mut show = |node: &NodeName, parts: &[Part<'_>]| {
            json::next(out, nodes);
            out.push_str("{\"node\":");
            json::text(out, node.as_str());
            out.push_str(",\"series\":[");
            layouts.samples(node, parts, out);
            out.push_str("]}");
        };
        if !look.next(&mut show) {
            break;
        }
        nodes += 1;
        writer.hold(look.held() + layouts.held())?;
        writer.turn().await?;
    }
    writer.page().push_str("],\"missing\":[");
    let missing = misses::known(query, &look.missing());
    let names = missing.iter().map(|name| size_of::<String>() + name.capacity()).sum::<usize>();
    writer.hold(look.held() + layouts.held() + names as u64)?;
    for (number, node) in missing.iter().enumerate() {
        json::next(writer.page(), number);
        json::text(writer.page(), node);
        writer.turn().await?;
    }
    writer.page().push_str("],\"misses\":");
    misses::put(writer.page(), &misses);
    writer.page().push_str("}\n");
    Ok(writer)
}
