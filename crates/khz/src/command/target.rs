//! Where `get` and `watch` get their readings: the khz that runs, or, when none does, this node's kernel read
//! in this process. It prints nothing about which of them it was.

use std::time::Duration;

use khz_model::hostlist::Hostlist;
use khz_model::{Interest, Misses, Nanos, NodeName, Pattern, QueryError};
use serde_json::Value;

use crate::answer::Answer;
use crate::cli::Place;
use crate::client::{ClientError, Server};
use crate::command::catalog;
use crate::command::nodes::Nodes;
use crate::command::nodes::forget::Forgotten;
use crate::config::Plan;
use crate::events::Event;
use crate::feed::Feed;
use crate::heard::{Heard, Next};
use crate::role::door;
use crate::role::here;
use crate::show::outcome::Failure;
use khz_model::fold::fold;

/// Waits for the next pieces of a stream; `None` at its end.
pub type Stream = Box<dyn FnMut() -> Result<Option<Vec<Feed>>, Failure>>;

/// The latest readings, asked anew where they are older than `age_max`.
pub fn latest(
    place: &Place,
    plan: &Plan,
    patterns: &[Pattern],
    age_max: Option<Nanos>,
) -> Result<Answer, Failure> {
    let server = server(place, plan)?;
    let of_agent = server.as_ref().is_some_and(Server::is_agent);
    let mut answer = match server.map(|server| server.query(patterns, age_max)) {
        Some(Err(nobody @ ClientError::NobodyThere { .. })) if place.server.is_none() => {
            names_this_node(plan, patterns, Some(&nobody))?;
            here::latest(plan, patterns)?
        }
        Some(answer) => answer?,
        None => {
            names_this_node(plan, patterns, None)?;
            here::latest(plan, patterns)?
        }
    };
    answer.name_missing(patterns);
    answer.name_unmatched(patterns);
    if of_agent && (!answer.missing.is_empty() || !answer.misses().nodes.is_empty()) {
        crate::show::table::remark!("{}", crate::command::nodes::AGENT_ALONE);
    }
    if answer.nodes.iter().all(|node| node.series.is_empty()) {
        return Err(nothing(&answer, patterns));
    }
    Ok(answer)
}

/// Why an answer is empty: each thing that is not there, and who did not answer.
fn nothing(answer: &Answer, patterns: &[Pattern]) -> Failure {
    let misses = answer.misses();
    let mut sentences = misses.sentences();
    if !answer.missing.is_empty() {
        sentences.push(format!("no answer from {}", fold(&answer.missing)));
    }
    if sentences.is_empty() {
        let patterns = patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Failure::work(QueryError::NothingMatches { patterns });
    }
    if !misses.patterns.is_empty() {
        sentences.push("`khz catalog` lists every metric".into());
    }
    Failure::Work(sentences.join("; "))
}

/// The entries of the catalogue: those of the khz that runs, or those that this program knows.
pub fn catalogue(place: &Place, plan: &Plan) -> Result<Vec<Value>, Failure> {
    match server(place, plan)?.map(|server| server.catalogue()) {
        Some(Err(ClientError::NobodyThere { .. })) if place.server.is_none() => {}
        Some(answer) => return Ok(answer?),
        None => {}
    }
    Ok(catalog::own(&here::metrics()))
}

/// How the nodes are that a hostlist selects: only a khz that runs can tell.
pub fn nodes(place: &Place, plan: &Plan, nodes: Option<&str>) -> Result<Nodes, Failure> {
    let server = one_that_runs(place, plan)?;
    Ok(Nodes { of_agent: server.is_agent(), ..server.nodes(nodes)? })
}

/// What of a hostlist nobody knows.
pub fn unknown_nodes(place: &Place, plan: &Plan, hosts: &Hostlist) -> Result<Misses, Failure> {
    let names = one_that_runs(place, plan)?.node_names()?;
    let mut names: Vec<NodeName> = names.iter().filter_map(|name| NodeName::new(name).ok()).collect();
    names.sort();
    Ok(Misses::of_nodes(hosts, &names))
}

/// Forgets nodes at the hub.
pub fn forget(place: &Place, plan: &Plan, hosts: &str) -> Result<Forgotten, Failure> {
    Ok(one_that_runs(place, plan)?.forget(hosts)?)
}

fn one_that_runs(place: &Place, plan: &Plan) -> Result<Server, Failure> {
    let server = server(place, plan)?;
    server.ok_or_else(|| Failure::usage("no khz to ask is known; name one with --server"))
}

/// Rows as they come, for at most `span`.
pub fn rows(
    place: &Place,
    plan: &Plan,
    interest: Interest,
    span: Option<Duration>,
) -> Result<Stream, Failure> {
    let Some(server) = server(place, plan)? else {
        names_this_node(plan, &interest.patterns, None)?;
        return here::rows(plan, interest);
    };
    match server.stream(&interest.patterns, interest.rate, interest.exact, span) {
        Ok((bytes, heartbeat)) => {
            tell_of_away(&server, &interest.patterns);
            let heard = Heard::new(bytes, heartbeat);
            let heard = heard.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
            Ok(of_events(server, heard))
        }
        Err(nobody @ ClientError::NobodyThere { .. }) if place.server.is_none() => {
            names_this_node(plan, &interest.patterns, Some(&nobody))?;
            here::rows(plan, interest)
        }
        Err(error) => Err(error.into()),
    }
}

/// Of nodes that were named and are away nothing comes, or only what was their last: that is said at the start.
fn tell_of_away(server: &Server, patterns: &[Pattern]) {
    let named: Vec<&str> = patterns.iter().filter_map(|p| p.nodes()).map(Hostlist::as_str).collect();
    if named.is_empty() {
        return;
    }
    // Where this cannot be had, the rows say what there is.
    let Ok(nodes) = server.nodes(Some(&named.join(","))) else { return };
    for sentence in nodes.not_up() {
        crate::show::table::remark!("{sentence}");
    }
}

/// What is asked of other nodes alone cannot be read here.
fn names_this_node(plan: &Plan, patterns: &[Pattern], nobody: Option<&ClientError>) -> Result<(), Failure> {
    if patterns.iter().any(|pattern| pattern.matches_node(plan.node.as_str())) {
        return Ok(());
    }
    let nodes: Vec<&str> = patterns.iter().filter_map(|p| p.nodes()).map(|nodes| nodes.as_str()).collect();
    let other = format!("this node is {}, not {}", plan.node, nodes.join(", "));
    Err(Failure::work(match nobody {
        Some(nobody) => format!("{nobody}; {other}"),
        None => other,
    }))
}

/// Where a khz is asked: at `--server`; else at the local socket, where one is; else where this configuration would
/// listen. Nowhere with `--direct`.
fn server(place: &Place, plan: &Plan) -> Result<Option<Server>, Failure> {
    if place.direct {
        return Ok(None);
    }
    if let Some(url) = &place.server {
        return Server::new(url, &plan.trust, plan.bind).map(Some);
    }
    // Who says on the command line where to ask means there.
    if let Some(path) = (!plan.listen_is_flag).then(|| door::find_socket(plan)).flatten() {
        return Ok(Some(Server::local(&path)));
    }
    // A port that is chosen when khz starts cannot be known here.
    match plan.listen.iter().find(|address| address.port() != 0) {
        Some(address) => Server::new(&address.to_string(), &plan.trust, None).map(Some),
        None => Ok(None),
    }
}

fn of_events(server: Server, mut heard: Heard) -> Stream {
    Box::new(move || {
        let broken = |problem: String| Failure::work(format!("{}: {problem}", server.url()));
        let next = heard.next();
        let next =
            next.map_err(|error| broken(format!("the stream broke off: {}", khz_trust::explain_io(&error))))?;
        let of_server = |is_silent, span| {
            let server = server.url().to_owned();
            Ok(Some(vec![Feed::Server { server, is_silent, span }]))
        };
        match next {
            Next::End => Ok(None),
            Next::Nothing => Ok(Some(Vec::new())),
            Next::Silent(span) => of_server(true, span),
            Next::Back(span) => of_server(false, span),
            Next::Event(event) => decode(&event).map_err(broken).map(|feed| Some(feed.into_iter().collect())),
        }
    })
}

fn decode(event: &Event) -> Result<Option<Feed>, String> {
    #[derive(serde::Deserialize)]
    struct Dropped {
        error: String,
    }
    if event.name == "dropped" {
        return match serde_json::from_str::<Dropped>(&event.data) {
            Ok(dropped) => Err(dropped.error),
            Err(_) => Err("this reader was dropped".to_owned()),
        };
    }
    Feed::decode(&event.name, &event.data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &'static str) -> Result<Option<Vec<Feed>>, String> {
        let server = Server::new("127.0.0.1:7070", &crate::config::trust::Trust::default(), None).unwrap();
        of_events(server, Heard::new(text.as_bytes(), None).unwrap())().map_err(|failure| failure.to_string())
    }

    #[test]
    fn who_was_dropped_is_told_why() {
        assert_eq!(
            next("event: dropped\ndata: {\"error\":\"fell behind\"}\n\n").unwrap_err(),
            "http://127.0.0.1:7070: fell behind"
        );
    }

    #[test]
    fn news_that_this_version_does_not_know_passes() {
        assert_eq!(next("event: weather\ndata: sunny\n\n").unwrap(), Some(Vec::new()));
        assert_eq!(next(": heartbeat\n\n").unwrap(), None);
    }
}
