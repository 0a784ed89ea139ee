//! `/khz/v1/nodes`: lists the nodes and the state of each, and forgets those that are gone. Reads no values.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_door::Caller;
use khz_model::fold::fold;
use khz_model::{Away, Forgotten, LaneStatus, Misses, Nanos, NodeName, NodeStatus, Pattern, Query, Rate};
use tokio::task::spawn_blocking;

use crate::clock;
use crate::door::NodeGroup;
use crate::json;
use crate::limits::STATUSES_AT_ONCE;
use crate::misses;
use crate::node_names::NodeNames;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/nodes`.
pub(crate) const NODES_PARAMS: &[&str] = &["nodes", "brief"];

/// `GET /khz/v1/nodes`
pub(crate) async fn nodes(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), NODES_PARAMS)?;
    let selected = params.hostlist("nodes")?;
    let is_brief = params.switch("brief")?;
    // The fastest rate for this caller, so that the page offers no rate that would be refused.
    let rate_max = caller.rate_max(app.query.rate_max());
    let groups = Arc::clone(&app.groups);
    let list = List { query: Arc::clone(&app.query), selected, is_brief, rate_max, groups };
    pages::json(&app, async move |writer| list.write(writer).await).await
}

/// What a request wants to see.
struct List {
    query: Arc<dyn Query>,
    selected: Option<Pattern>,
    /// Only the names.
    is_brief: bool,
    rate_max: Rate,
    groups: Arc<[NodeGroup]>,
}

impl List {
    async fn write(self, mut writer: Writer) -> Result<Writer, Refusal> {
        let names = NodeNames::selected(&*self.query, self.selected.as_ref());
        writer.hold(names.held())?;
        writer.page().push_str("{\"nodes\":[");
        for (number, name) in names.all().iter().enumerate() {
            json::next(writer.page(), number);
            json::text(writer.page(), name.as_str());
            writer.turn().await?;
        }
        writer.page().push(']');
        if !self.is_brief {
            writer.page().push_str(",\"status\":[");
            self.write_status(&mut writer, &names).await?;
            writer.page().push(']');
        }
        let out = writer.page();
        out.push_str(",\"rate_max\":");
        json::text(out, &self.rate_max.to_string());
        out.push_str(",\"period_ns_min\":");
        json::number(out, self.rate_max.period().0);
        if !self.groups.is_empty() {
            out.push_str(",\"groups\":");
            json::list(out, &*self.groups, |out, group| {
                out.push_str("{\"name\":");
                json::text(out, &group.name);
                out.push_str(",\"nodes\":");
                json::text(out, &group.nodes);
                out.push('}');
            });
        }
        out.push_str("}\n");
        Ok(writer)
    }

    /// Writes the state of each node. It takes many times the node's name, so only a few are held at a time.
    async fn write_status(&self, writer: &mut Writer, names: &NodeNames) -> Result<(), Refusal> {
        let mut written = 0;
        for some in names.all().chunks(STATUSES_AT_ONCE) {
            let status = self.query.status_of(some);
            writer.hold(names.held() + held(&status))?;
            let now = clock::wall();
            for node in &status {
                json::next(writer.page(), written);
                written += 1;
                status_json(writer.page(), node, now);
                writer.turn().await?;
            }
        }
        writer.hold(names.held())
    }
}

/// Bytes that the state of these nodes takes.
fn held(status: &Vec<NodeStatus>) -> u64 {
    let of_one = |node: &NodeStatus| {
        let lanes = node.lanes.iter().map(|lane| lane.name.capacity()).sum::<usize>()
            + node.lanes.capacity() * size_of::<LaneStatus>();
        let away = node.away.iter().flat_map(|away| [&away.first, &away.problem]);
        let texts = [&node.address, &node.problem, &node.hub].into_iter().flatten().chain([&node.version]);
        lanes + texts.chain(away).map(String::capacity).sum::<usize>()
    };
    (status.iter().map(of_one).sum::<usize>() + status.capacity() * size_of::<NodeStatus>()) as u64
}

/// `DELETE /khz/v1/nodes`: forgets those nodes of a hostlist that are not connected.
pub(crate) async fn forget(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), FORGET_PARAMS)?;
    let selected = params.hostlist("nodes")?;
    let selected =
        selected.ok_or_else(|| Refusal::bad_request("'nodes' is missing: which nodes to forget"))?;
    caller.check_operator("forgetting nodes")?;
    let hosts = selected.nodes();
    let misses = hosts.map(|hosts| Misses::of_nodes(hosts, &app.query.nodes())).unwrap_or_default();
    let asked = app.clone();
    let forgotten = spawn_blocking(move || asked.query.forget(&selected)).await??;
    match (forgotten.nodes.is_empty(), forgotten.refused.as_slice()) {
        (true, []) => Err(Refusal::new(StatusCode::NOT_FOUND, misses.sentences().join("; "))),
        (true, refused) => Err(Refusal::new(StatusCode::CONFLICT, told(refused, &misses))),
        _ => Ok(json::response(forgotten_json(&forgotten, &misses))),
    }
}

/// Parameters of `DELETE /khz/v1/nodes`.
pub(crate) const FORGET_PARAMS: &[&str] = &["nodes"];

/// Why nodes are not forgotten, each reason once; also those that nobody knows.
fn told(refused: &[(NodeName, String)], misses: &Misses) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (node, why) in refused {
        match reasons.iter_mut().find(|(text, _)| text == why) {
            Some((_, nodes)) => nodes.push(node.as_str()),
            None => reasons.push((why, vec![node.as_str()])),
        }
    }
    let sentences = reasons.into_iter().map(|(why, nodes)| format!("{}: {why}", fold(nodes)));
    sentences.chain(misses.sentences()).collect::<Vec<_>>().join("; ")
}

fn forgotten_json(forgotten: &Forgotten, misses: &Misses) -> String {
    let name = |out: &mut String, node: &NodeName| json::text(out, node.as_str());
    let mut out = String::from("{\"forgotten\":");
    json::list(&mut out, &forgotten.nodes, name);
    out.push_str(",\"expected\":");
    json::list(&mut out, &forgotten.expected, name);
    out.push_str(",\"refused\":");
    json::list(&mut out, &forgotten.refused, |out, (node, why)| {
        out.push_str("{\"node\":");
        json::text(out, node.as_str());
        out.push_str(",\"why\":");
        json::text(out, why);
        out.push('}');
    });
    out.push_str(",\"misses\":");
    misses::put(&mut out, misses);
    out.push_str("}\n");
    out
}

fn status_json(out: &mut String, status: &NodeStatus, now: Nanos) {
    out.push_str("{\"node\":");
    json::text(out, status.node.as_str());
    out.push_str(if status.up { ",\"up\":true" } else { ",\"up\":false" });
    out.push_str(",\"state\":");
    json::text(out, status.presence().as_str());
    out.push_str(if status.expected { ",\"expected\":true" } else { ",\"expected\":false" });
    moment(out, "heard", status.heard, now);
    moment(out, "since", status.since, now);
    out.push_str(",\"address\":");
    json::text_or_null(out, status.address.as_deref());
    out.push_str(",\"version\":");
    json::text(out, &status.version);
    out.push_str(",\"lanes\":");
    json::list(out, &status.lanes, lane_json);
    out.push_str(",\"clock_offset\":");
    json::text_or_null(out, status.clock_offset.map(signed_seconds).as_deref());
    span(out, ",\"round_trip\":", status.round_trip);
    out.push_str(",\"retransmitted\":");
    match status.retransmitted {
        Some(segments) => json::number(out, segments),
        None => out.push_str("null"),
    }
    out.push_str(",\"connects\":");
    json::number(out, status.connects);
    out.push_str(",\"problem\":");
    json::text_or_null(out, status.problem.as_deref());
    out.push_str(if status.believed { ",\"believed\":true" } else { ",\"believed\":false" });
    out.push_str(",\"hub\":");
    json::text_or_null(out, status.hub.as_deref());
    out.push_str(",\"away\":");
    match &status.away {
        Some(away) => away_json(out, away, now),
        None => out.push_str("null"),
    }
    out.push('}');
}

fn away_json(out: &mut String, away: &Away, now: Nanos) {
    out.push_str("{\"first\":");
    json::text(out, &away.first);
    out.push_str(",\"problem\":");
    json::text(out, &away.problem);
    moment(out, "since", away.since, now);
    span(out, ",\"back\":", away.back);
    out.push('}');
}

fn lane_json(out: &mut String, lane: &LaneStatus) {
    out.push_str("{\"name\":");
    json::text(out, &lane.name);
    out.push_str(",\"rate\":");
    json::text(out, &lane.rate.to_string());
    out.push_str(",\"asked\":");
    json::text(out, &lane.asked.to_string());
    span(out, ",\"age\":", lane.age);
    let counts = [
        (",\"slots\":", lane.slots),
        (",\"rows\":", lane.rows),
        (",\"awaited\":", lane.awaited),
        (",\"lost\":", lane.lost),
        (",\"late\":", lane.late),
    ];
    for (key, count) in counts {
        out.push_str(key);
        json::number(out, count);
    }
    out.push('}');
}

/// A moment in three forms: `NAME_age`, `NAME_time` (since 1970), and `NAME`, which is the age again, for a `khz` that is
/// older than the other names.
fn moment(out: &mut String, name: &str, age: Option<Nanos>, now: Nanos) {
    span(out, &format!(",\"{name}\":"), age);
    span(out, &format!(",\"{name}_age\":"), age);
    span(out, &format!(",\"{name}_time\":"), age.map(|age| now.since(age)));
}

/// A member that is a span in seconds with nine places, or `null`.
fn span(out: &mut String, key: &str, span: Option<Nanos>) {
    out.push_str(key);
    json::text_or_null(out, span.map(Nanos::seconds_text).as_deref());
}

fn signed_seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{sign}{}", Nanos(nanos.unsigned_abs()).seconds_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::Rate;

    #[test]
    fn unknown_facts_about_a_node_are_null() {
        let mut out = String::new();
        status_json(&mut out, &NodeStatus::here(NodeName::new("n1").unwrap()), Nanos::from_secs(1_000));
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["up"], true);
        for key in [
            "heard",
            "heard_time",
            "heard_age",
            "since",
            "since_time",
            "since_age",
            "address",
            "clock_offset",
            "round_trip",
            "retransmitted",
            "problem",
        ] {
            assert!(value[key].is_null(), "{key}");
        }
    }

    #[test]
    fn a_moment_has_an_age_and_a_time_each_under_a_name_that_says_so() {
        let status = NodeStatus {
            heard: Some(Nanos::from_millis(400)),
            since: Some(Nanos::from_secs(70)),
            ..NodeStatus::here(NodeName::new("n1").unwrap())
        };
        let mut out = String::new();
        status_json(&mut out, &status, Nanos::from_secs(1_763_690_000));
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        for (key, expected) in [
            ("heard_age", "0.400000000"),
            ("heard_time", "1763689999.600000000"),
            ("since_age", "70.000000000"),
            ("since_time", "1763689930.000000000"),
            // Older readers take these for ages.
            ("heard", "0.400000000"),
            ("since", "70.000000000"),
        ] {
            assert_eq!(value[key], expected, "{key}");
        }
    }

    #[test]
    fn an_offset_below_a_second_keeps_its_sign() {
        assert_eq!(signed_seconds(-12_000), "-0.000012000");
        assert_eq!(signed_seconds(i64::MIN), "-9223372036.854775808");
    }

    #[test]
    fn a_lane_counts_lost_and_missing_rows() {
        let lane = LaneStatus {
            name: "base".into(),
            rate: Rate::from_hz(1).unwrap(),
            asked: Rate::from_hz(1).unwrap(),
            slots: 300,
            age: Some(Nanos::from_millis(250)),
            rows: 17,
            awaited: 4,
            lost: 3,
            late: 2,
        };
        let mut out = String::new();
        lane_json(&mut out, &lane);
        assert_eq!(
            out,
            r#"{"name":"base","rate":"1Hz","asked":"1Hz","age":"0.250000000","slots":300,"rows":17,"awaited":4,"lost":3,"late":2}"#
        );
    }
}
