//! Whom a command asks: the running khz that the flags or the configuration name, or, where none answers, this machine's
//! kernel in this process. It does not tell the user which of them answered.

use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use khz_ask::{Answer, AskError, Forgotten, Nodes, Piece, Server, local};
use khz_channel::Definition;
use khz_model::fold::fold;
use khz_model::hostlist::Hostlist;
use khz_model::{Interest, Misses, Nanos, NodeName, Pattern, QueryError};
use khz_trust::ClientFiles;
use serde_json::Value;

use super::catalog;
use super::elsewhere::Elsewhere;
use super::lasting::{Absent, Lasting, Why};
use super::preferred::{Preferred, SERVERS_MAX};
use super::this_node::{self, Stream};
use crate::config::Plan;
use crate::config::trust::TokenPlace;
use crate::role::gatherer;
use crate::show::outcome::{Failure, sentence};
use crate::show::table::remark;

/// Printed where an agent answers a command about other nodes.
pub const AGENT_ALONE: &str = "no hub answers on this machine; its agent did, which knows no node but its own: \
     name the hub with --server";

/// Between the addresses of several servers.
const SEPARATOR: char = ',';

/// Where a reading command asks.
#[derive(Debug, Args)]
pub struct Target {
    /// Ask the khz at this address only. Those that follow rows (watch, wait, channel watch) take several, A,B: if one goes away, the next is asked.
    #[arg(long, value_name = "URL", conflicts_with = "direct")]
    pub server: Option<String>,
    /// Ask no running khz: read this machine's kernel in this process.
    #[arg(long)]
    pub direct: bool,
}

impl Target {
    /// The latest readings. A hub asks those nodes again whose readings are older than `age_max`.
    pub fn latest(
        &self,
        plan: &Plan,
        patterns: &[Pattern],
        age_max: Option<Nanos>,
    ) -> Result<Answer, Failure> {
        let server = self.find(plan)?;
        let of_agent = server.as_ref().is_some_and(Server::is_agent);
        let mut answer = match server.map(|server| server.query(patterns, age_max)) {
            Some(Err(nobody @ AskError::NobodyThere { .. })) if self.server.is_none() => {
                check_this_node(plan, patterns, Some(&nobody))?;
                this_node::latest(plan, patterns)?
            }
            Some(answer) => answer?,
            None => {
                check_this_node(plan, patterns, None)?;
                this_node::latest(plan, patterns)?
            }
        };
        answer.add_missing(patterns);
        answer.add_unmatched(patterns);
        if of_agent && (!answer.missing.is_empty() || !answer.misses().nodes.is_empty()) {
            remark!("{AGENT_ALONE}");
        }
        if answer.nodes.iter().all(|node| node.series.is_empty()) {
            return Err(nothing(&answer, patterns));
        }
        answer.leave_out_misses(patterns);
        Ok(answer)
    }

    /// The entries of the catalogue: those of the running khz, or those that this program knows.
    pub fn catalogue(&self, plan: &Plan) -> Result<Vec<Value>, Failure> {
        let own = || catalog::own(&gatherer::metrics());
        Ok(self.first(plan, |server| server.catalogue())?.unwrap_or_else(own))
    }

    /// The names of the nodes that the running khz knows, in their order; where none runs, of this node.
    pub fn known_nodes(&self, plan: &Plan) -> Result<Vec<NodeName>, Failure> {
        let Some(names) = self.first(plan, |server| server.node_names())? else {
            return Ok(vec![plan.node.clone()]);
        };
        let mut names: Vec<NodeName> = names.iter().filter_map(|name| NodeName::new(name).ok()).collect();
        names.sort();
        Ok(names)
    }

    /// What the first server answers that is there; `None`: no khz runs here, and none is named.
    fn first<T>(
        &self,
        plan: &Plan,
        ask: impl Fn(&Server) -> Result<T, AskError>,
    ) -> Result<Option<T>, Failure> {
        if let Some(mut servers) = self.list(plan)? {
            return Ok(Some(servers.first_of(None, false, &|server, _| ask(server))?));
        }
        match self.find(plan)?.map(|server| ask(&server)) {
            Some(Err(AskError::NobodyThere { .. })) if self.server.is_none() => Ok(None),
            answer => Ok(answer.transpose()?),
        }
    }

    /// The status of the nodes that a hostlist selects; only a running khz knows it.
    pub fn nodes(&self, plan: &Plan, nodes: Option<&str>) -> Result<Nodes, Failure> {
        Ok(self.running(plan)?.nodes(nodes)?)
    }

    /// Which of these patterns select nothing of the running khz now: a sentence for each. None where nobody answers.
    pub fn unmatched(&self, plan: &Plan, patterns: &[Pattern]) -> Vec<String> {
        if patterns.is_empty() {
            return Vec::new();
        }
        let Ok(Some(server)) = self.find(plan) else { return Vec::new() };
        match server.query(patterns, None) {
            Ok(mut answer) => {
                answer.add_unmatched(patterns);
                answer.misses().sentences()
            }
            Err(AskError::Refused(text)) => {
                text.split("; ").filter(|part| !part.contains("`khz catalog`")).map(str::to_owned).collect()
            }
            Err(_) => Vec::new(),
        }
    }

    /// The status of the nodes of the running khz; `None`: none runs here, and none is named.
    pub fn nodes_if_running(&self, plan: &Plan) -> Result<Option<Nodes>, Failure> {
        self.first(plan, |server| server.nodes(None))
    }

    /// The part of a hostlist that nobody knows.
    pub fn unknown_nodes(&self, plan: &Plan, hosts: &Hostlist) -> Result<Misses, Failure> {
        self.running(plan)?;
        Ok(Misses::of_nodes(hosts, &self.known_nodes(plan)?))
    }

    /// Makes the hub forget nodes.
    pub fn forget(&self, plan: &Plan, hosts: &str) -> Result<Forgotten, Failure> {
        Ok(self.running(plan)?.forget(hosts)?)
    }

    /// Rows as they come, for at most `span`.
    pub fn rows(&self, plan: &Plan, interest: Interest, span: Option<Duration>) -> Result<Lasting, Failure> {
        let asked = interest.clone();
        self.rows_by(plan, interest, span, true, move |server, span| server.stream(&asked, span))
    }

    /// The same for a screen that shows which nodes send no rows: nothing is said of them.
    pub fn rows_for_screen(&self, plan: &Plan, interest: Interest) -> Result<Lasting, Failure> {
        let asked = interest.clone();
        self.rows_by(plan, interest, None, false, move |server, span| server.stream(&asked, span))
    }

    /// Rows of a channel without a name as they come, for at most `span`; `interest` is what it asks of nodes.
    pub fn channel(
        &self,
        plan: &Plan,
        definition: &Definition,
        interest: Interest,
        span: Option<Duration>,
    ) -> Result<Lasting, Failure> {
        let parameters = definition.parameters();
        self.rows_by(plan, interest, span, true, move |server, span| server.rows_of(&parameters, span))
    }

    /// Rows of the channel that the running khz keeps under this name, for at most `span`.
    pub fn channel_rows(&self, plan: &Plan, name: &str, span: Option<Duration>) -> Result<Lasting, Failure> {
        let name = name.to_owned();
        let servers = match self.list(plan)? {
            Some(servers) => servers,
            None => Preferred::new(vec![self.running(plan)?]),
        };
        let ask = move |server: &Server, span| server.channel_rows(&name, span);
        lasting(servers, &[], span, ask, |_| Absent::default())
    }

    /// The servers of `--server A,B`; `None`: it names one or none.
    fn list(&self, plan: &Plan) -> Result<Option<Preferred>, Failure> {
        let Some(urls) = self.server.as_deref().filter(|urls| urls.contains(SEPARATOR)) else {
            return Ok(None);
        };
        let servers: Vec<Server> =
            urls.split(SEPARATOR).map(|url| server(url.trim(), plan, plan.bind)).collect::<Result<_, _>>()?;
        if servers.len() > SERVERS_MAX {
            return Err(Failure::usage(format!(
                "--server has {} addresses, {SERVERS_MAX} at most",
                servers.len()
            )));
        }
        Ok(Some(Preferred::new(servers)))
    }

    /// Rows of the running khz, which `ask` asks for them, or of this machine's kernel. If the khz goes away, the kernel does not
    /// take its place: its rows would be others. `is_said`: nodes that send none are named on stderr.
    fn rows_by(
        &self,
        plan: &Plan,
        interest: Interest,
        span: Option<Duration>,
        is_said: bool,
        ask: impl Fn(&Server, Option<Duration>) -> Result<khz_ask::Stream, AskError> + 'static,
    ) -> Result<Lasting, Failure> {
        if let Some(servers) = self.list(plan)? {
            let patterns = &interest.patterns;
            return lasting(servers, patterns, span, ask, |server| remark_away(server, patterns, is_said));
        }
        let Some(server) = self.find(plan)? else {
            check_this_node(plan, &interest.patterns, None)?;
            return Ok(Lasting::new(this_node::rows(plan, interest)?, None));
        };
        match ask(&server, span) {
            Ok(rows) => {
                let absent = remark_away(&server, &interest.patterns, is_said);
                let again = move |span, _| Ok(stream(ask(&server, span)?));
                Ok(Lasting::new(stream(rows), Some(Box::new(again))).without(absent))
            }
            Err(nobody @ AskError::NobodyThere { .. }) if self.server.is_none() => {
                check_this_node(plan, &interest.patterns, Some(&nobody))?;
                Ok(Lasting::new(this_node::rows(plan, interest)?, None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The running khz, which alone knows other nodes and the past.
    pub fn running(&self, plan: &Plan) -> Result<Server, Failure> {
        if self.direct {
            let what = "--direct reads this machine's kernel, which knows neither the past nor other nodes";
            return Err(Failure::usage(format!("{what}; leave it out")));
        }
        self.find(plan)?.ok_or_else(|| {
            let at = plan
                .run_dir
                .as_ref()
                .map(|directory| format!("no khz answers at a local socket in {}", directory.display()));
            let problem = at.unwrap_or_else(|| "no khz to ask is known".to_owned());
            Failure::usage(format!("{problem}; name one with --server"))
        })
    }

    /// An engine with Prometheus' interface at this URL. It may be anybody's, so it is not shown the token: whoever reads that is an
    /// operator at the hub.
    pub fn engine(&self, url: &str, plan: &Plan) -> Result<Server, Failure> {
        let trust = &plan.trust;
        let files = trust.ca.as_ref().map(|ca| ClientFiles { ca: ca.clone(), pair: trust.pair.clone() });
        Ok(Server::engine(url, files, plan.bind)?)
    }

    /// The khz at `--server`; else at the local socket, where one answers; else at the address where this configuration
    /// would listen. None with `--direct`.
    fn find(&self, plan: &Plan) -> Result<Option<Server>, Failure> {
        if self.direct {
            return Ok(None);
        }
        if let Some(url) = &self.server {
            if url.contains(SEPARATOR) {
                let problem =
                    "takes several addresses only where rows are followed (khz watch, wait, channel watch)";
                return Err(Failure::usage(format!("--server {url}: {problem}; name one")));
            }
            return server(url, plan, plan.bind).map(Some);
        }
        // A flag that says where to listen means that address, not the local socket.
        let asks_local = !plan.listen_is_flag || plan.listen.is_empty();
        if let Some(path) = asks_local.then(|| local::find(plan.run_dir.as_deref())).flatten() {
            return Ok(Some(Server::local(&path)));
        }
        let not_in = plan.run_dir.as_deref().filter(|_| asks_local);
        // A port that khz chooses when it starts is not known here.
        match plan.listen.iter().find(|address| address.port() != 0) {
            Some(address) => {
                let server = server(&address.to_string(), plan, None)?;
                Ok(Some(match not_in {
                    Some(directory) => server.after(directory),
                    None => server,
                }))
            }
            None => Ok(None),
        }
    }
}

/// What the first of these servers gives that answers, and later another one: when that one is gone, or when another one has more
/// of the nodes that the patterns select. `first` hears which it was.
fn lasting(
    mut servers: Preferred,
    patterns: &[Pattern],
    span: Option<Duration>,
    ask: impl Fn(&Server, Option<Duration>) -> Result<khz_ask::Stream, AskError> + 'static,
    first: impl FnOnce(&Server) -> Absent,
) -> Result<Lasting, Failure> {
    let rows = servers.first_of(span, false, &ask)?;
    let absent = first(servers.present());
    let started = || {
        let started = Elsewhere::start(servers.all().to_vec(), patterns, servers.place());
        started.map(Rc::new).map_err(|error| Failure::work(format!("cannot start a thread: {error}")))
    };
    let others = (servers.count() > 1).then(started).transpose()?;
    let moves = others.clone();
    let again = move |span, why| {
        let rows = match why {
            Why::NodesAt(server) => servers.go_to(server, span, &ask),
            Why::Ended | Why::Silence => servers.first_of(span, why == Why::Silence, &ask),
        };
        if let (Ok(_), Some(moves)) = (&rows, &moves) {
            moves.came_to(servers.place());
        }
        rows.map(stream)
    };
    let rows = Lasting::new(stream(rows), Some(Box::new(again))).without(absent);
    Ok(match others {
        Some(others) => rows.among(others),
        None => rows,
    })
}

/// The pieces of a stream, as commands take them.
fn stream(mut rows: khz_ask::Stream) -> Stream {
    Box::new(move || match rows.next_pieces() {
        Err(error @ AskError::Dropped { .. }) => {
            Ok(Some(vec![Piece::Gone { text: error.to_string(), is_there: true }]))
        }
        pieces => Ok(pieces?),
    })
}

/// A server with the certificates and the token of the plan.
fn server(url: &str, plan: &Plan, from: Option<std::net::IpAddr>) -> Result<Server, Failure> {
    let trust = &plan.trust;
    let files = trust.ca.as_ref().map(|ca| ClientFiles { ca: ca.clone(), pair: trust.pair.clone() });
    shown(Server::new(url, files, from)?, plan)
}

/// The same server, with the token of the plan.
fn shown(server: Server, plan: &Plan) -> Result<Server, Failure> {
    let trust = &plan.trust;
    // Where no token is shown, its file is not read either.
    if !server.may_see_token() {
        return Ok(server);
    }
    let token = trust.token.as_ref().map(TokenPlace::read).transpose();
    Ok(match token.map_err(|error| Failure::usage(sentence(&error)))? {
        Some(token) => server.with_token(token),
        None => server,
    })
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error.is_usage() {
            true => Failure::usage(sentence(&error)),
            false => Failure::work(error),
        }
    }
}

/// Why an answer is empty: each thing that does not exist, and the nodes that did not answer.
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

/// Says at the start, if `is_said`, which of the named nodes send no rows; where no node is named, only if none sends any. Returns the nodes that
/// send none.
fn remark_away(server: &Server, patterns: &[Pattern], is_said: bool) -> Absent {
    let named: Vec<&str> = patterns.iter().filter_map(|p| p.nodes()).map(Hostlist::as_str).collect();
    let is_named = !named.is_empty();
    // Where the server does not answer this, the rows show which nodes there are.
    let Ok(nodes) = server.nodes(is_named.then(|| named.join(",")).as_deref()) else {
        return Absent::default();
    };
    let statuses = nodes.statuses().unwrap_or_default();
    let has_some = statuses.iter().any(|(status, _)| status.up);
    let absent = statuses.iter().filter(|(status, _)| !status.up).map(|(status, _)| status.node.clone());
    let absent = Absent { nodes: absent.collect(), are_wanted: is_named || !has_some };
    if !is_said {
        return absent;
    }
    if is_named || !has_some {
        for sentence in nodes.not_up() {
            remark!("{sentence}");
        }
    }
    if !has_some && !nodes.status.is_empty() {
        remark!("rows come when one of these nodes is back");
    }
    absent
}

/// Patterns that name other nodes only cannot be answered by this machine's kernel.
fn check_this_node(plan: &Plan, patterns: &[Pattern], nobody: Option<&AskError>) -> Result<(), Failure> {
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
