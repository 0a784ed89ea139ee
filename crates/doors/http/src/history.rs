//! `/khz/v1/history`: the rows of a recent span, node by node. History is costly, so it runs beside the
//! streams, few requests at a time. Refuses a node's rows beyond a stated size.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_model::{Delivery, Nanos, NodeName, Pattern, QueryError, Reading, Row, Series};

use crate::json;
use crate::limits::{HISTORY_ROWS_MAX, LOOKING_BACK_BYTES};
use crate::misses;
use crate::node_names::NodeNames;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/history`.
pub(crate) const HISTORY_PARAMS: &[&str] = &["match", "span", "rows"];

const SPAN_DEFAULT: Nanos = Nanos::from_secs(600);
const ROWS_DEFAULT: usize = 600;

/// `GET /khz/v1/history`
pub(crate) async fn history(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), HISTORY_PARAMS)?;
    let patterns = params.patterns()?;
    let span = params.duration("span", SPAN_DEFAULT)?;
    let rows = params.count("rows", ROWS_DEFAULT, HISTORY_ROWS_MAX)?;
    let past = Past { app: Arc::clone(&app), patterns: patterns.into(), span, rows };
    pages::json(&app, async move |writer| past.write(writer).await).await
}

/// What a request wants from every node.
struct Past {
    app: Arc<App>,
    patterns: Arc<[Pattern]>,
    span: Nanos,
    rows: usize,
}

impl Past {
    /// Writes one node after the other, so that it holds at most the rows of one.
    async fn write(self, mut writer: Writer) -> Result<Writer, Refusal> {
        let nodes = self.nodes()?;
        let names = nodes.held();
        writer.hold(names)?;
        writer.page().push_str("{\"nodes\":[");
        let mut written = 0;
        for node in nodes.all() {
            let Some(delivery) = self.look_back(&mut writer, node.clone()).await? else { continue };
            writer.hold(names + held(&delivery))?;
            json::next(writer.page(), written);
            written += 1;
            delivery_json(&mut writer, &delivery).await?;
        }
        writer.hold(names)?;
        writer.page().push_str("],\"misses\":");
        misses::put(writer.page(), &misses::of(&*self.app.query, &self.patterns));
        writer.page().push_str("}\n");
        Ok(writer)
    }

    /// The nodes that it is about; a refusal if there can be none.
    fn nodes(&self) -> Result<NodeNames, Refusal> {
        let (query, patterns) = (&*self.app.query, &self.patterns);
        let nodes = NodeNames::of(query, patterns);
        let is_countable = |pattern: &Pattern| pattern.nodes().is_some_and(|hosts| hosts.is_countable());
        if !nodes.all().is_empty() || patterns.iter().any(is_countable) {
            return Ok(nodes);
        }
        let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let nothing = QueryError::NothingMatches { patterns: texts.join(", ") };
        Err(misses::refusal(query, patterns, nothing))
    }

    /// Runs on a blocking thread, so that other requests do not wait.
    async fn look_back(&self, writer: &mut Writer, node: NodeName) -> Result<Option<Delivery>, Refusal> {
        let stopped = |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing");
        let turn = Arc::clone(&self.app.histories).acquire_owned().await.map_err(|_| stopped(()))?;
        // Takes the memory for history from the budget first, since several requests may hold theirs at once.
        writer.hold(LOOKING_BACK_BYTES.min(self.app.answers.limit().0 / 4))?;
        let (query, patterns) = (Arc::clone(&self.app.query), Arc::clone(&self.patterns));
        let (span, rows) = (self.span, self.rows);
        // A client that disconnects ends the wait, but not the work; the work holds the permit, so that it
        // stays counted.
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            query.history_of(&node, &patterns, span, rows)
        });
        Ok(work.await.map_err(|_| stopped(()))??)
    }
}

/// Bytes that the rows of a node take.
fn held(delivery: &Delivery) -> u64 {
    let rows = delivery.rows.iter().map(|row| row.readings.capacity() * size_of::<Reading>());
    (rows.sum::<usize>()
        + delivery.rows.capacity() * size_of::<Row>()
        + delivery.columns.len() * size_of::<Series>()) as u64
}

async fn delivery_json(writer: &mut Writer, delivery: &Delivery) -> Result<(), Refusal> {
    let out = writer.page();
    out.push_str("{\"node\":");
    json::text(out, delivery.node.as_str());
    out.push_str(",\"columns\":");
    json::columns(out, &delivery.columns);
    out.push_str(",\"rows\":[");
    for (number, row) in delivery.rows.iter().enumerate() {
        let out = writer.page();
        json::next(out, number);
        out.push('{');
        json::stamp(out, row.stamp);
        out.push_str(",\"v\":");
        json::readings(out, &delivery.columns, &row.readings);
        out.push('}');
        writer.turn().await?;
    }
    writer.page().push_str("]}");
    Ok(())
}
