//! The HTTP door and the text door of a daemon: binds them, and serves until Ctrl-C or SIGTERM.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_channel::Registry;
use khz_http::{Counters, Door, SavedBoards, Tour};
use khz_model::{Metric, Query};
use khz_rules::Board;

use crate::config::{Plan, boards};
use crate::role::signals::stop_signal;
use crate::role::systemd;
use crate::role::{door_access, engine, local_socket};
use crate::show::hub_status_line;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::status_line;
use crate::show::table::on_stderr;
use khz_ask::local::{AGENT_SOCKET, ALONE_SOCKET, HUB_SOCKET};

/// The daemon that the doors belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// `khz` alone: its page may choose any rate up to the ceiling.
    Alone,
    /// An agent.
    Agent,
    /// A hub: many nodes, and readers with roles.
    Hub,
}

/// The doors of a daemon: bound, not yet open.
pub struct Doors {
    http: Vec<TcpListener>,
    text: Vec<TcpListener>,
    http_counts: Counters,
    text_counts: khz_text::Counters,
    origins: Option<khz_text::Origins>,
    channels: Arc<Registry>,
    rules: Arc<Board>,
    actions: Option<Arc<dyn khz_http::Actions>>,
    jobs: Option<khz_http::JobDesk>,
    black_box: Option<Arc<dyn khz_http::BlackBox>>,
    stage: Option<Stage>,
}

/// What a demo does at the doors of its hub.
pub struct Stage {
    /// The sockets of the HTTP door, bound already.
    pub sockets: Vec<TcpListener>,
    /// What its page shows.
    pub tour: Arc<Tour>,
    /// Called once the hub is open, instead of printing the addresses and the status line.
    pub opened: Box<dyn FnOnce(Opened) -> Result<(), Failure>>,
}

/// A hub that is open.
pub struct Opened {
    /// The addresses of the HTTP door.
    pub http: Vec<SocketAddr>,
    /// The addresses of the link door.
    pub link: Vec<SocketAddr>,
    /// What its rules say.
    pub rules: Arc<Board>,
}

impl Doors {
    /// No door at all.
    pub fn closed() -> Self {
        let (http_counts, text_counts) = (Counters::default(), khz_text::Counters::default());
        let channels = Arc::new(Registry::in_memory());
        let (http, text, rules) = (Vec::new(), Vec::new(), Arc::default());
        Doors {
            http,
            text,
            http_counts,
            text_counts,
            origins: None,
            channels,
            rules,
            actions: None,
            jobs: None,
            black_box: None,
            stage: None,
        }
    }

    /// Binds the addresses of the HTTP door. A daemon does this before it starts anything.
    pub fn with_http(self, plan: &Plan) -> Result<Self, Failure> {
        let bound = khz_door::listen(&plan.listen, "--listen");
        Ok(Doors { http: bound.map_err(|error| Failure::usage(sentence(&error)))?, ..self })
    }

    /// The same for the text door. If no setting asks for the door, another program may hold its usual port.
    pub fn with_text(self, plan: &Plan) -> Result<Self, Failure> {
        match khz_door::listen(&plan.text_listen, "--text-listen") {
            Ok(text) => Ok(Doors { text, ..self }),
            Err(error) if !plan.text_is_asked => {
                tracing::warn!("the text door stays closed: {}", sentence(&error));
                Ok(self)
            }
            Err(error) => Err(Failure::usage(sentence(&error))),
        }
    }

    /// Lets the text door say from which hub each node comes.
    pub fn with_origins(self, origins: khz_text::Origins) -> Self {
        Doors { origins: Some(origins), ..self }
    }

    /// Readers can follow the channels of this registry.
    pub fn with_channels(self, channels: Arc<Registry>) -> Self {
        Doors { channels, ..self }
    }

    /// Every reader can see the results of rules.
    pub fn with_rules(self, rules: Arc<Board>) -> Self {
        Doors { rules, ..self }
    }

    /// Every reader can see what was done about alerts.
    pub fn with_actions(self, actions: Arc<dyn khz_http::Actions>) -> Self {
        Doors { actions: Some(actions), ..self }
    }

    /// Jobs can be listed, started and ended.
    pub fn with_jobs(self, jobs: khz_http::JobDesk) -> Self {
        Doors { jobs: Some(jobs), ..self }
    }

    /// Operators can freeze rows, and every reader can read them.
    pub fn with_black_box(self, black_box: Arc<dyn khz_http::BlackBox>) -> Self {
        Doors { black_box: Some(black_box), ..self }
    }

    /// Makes them the doors of a demo.
    pub fn with_stage(self, mut stage: Stage) -> Self {
        let http = std::mem::take(&mut stage.sockets);
        Doors { http, stage: Some(stage), ..self }
    }

    /// The counters of the open doors, with their catalogue entries.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        let http = (!self.http.is_empty()).then(|| self.http_counts.metrics());
        let text = (!self.text.is_empty()).then(|| self.text_counts.metrics());
        http.into_iter().chain(text).flatten().collect()
    }
}

/// The boards of the page. An unusable board is logged, and the others are shown.
fn saved_boards(plan: &Plan) -> Arc<SavedBoards> {
    let boards = boards::read(plan.boards.as_deref());
    boards.problems.iter().for_each(|problem| tracing::warn!("a board is not shown: {problem}"));
    Arc::new(boards)
}

/// Serves until a signal ends it.
pub async fn serve(plan: &Plan, doors: Doors, query: Arc<dyn Query>, daemon: Daemon) -> Outcome {
    let Doors { http: http_sockets, text: text_sockets, http_counts, text_counts, .. } = doors;
    let Doors { origins, channels, rules, actions, jobs, black_box, stage, .. } = doors;
    let [http_socket, text_socket] = match daemon {
        Daemon::Alone => [ALONE_SOCKET, "khz-text.sock"],
        Daemon::Agent => [AGENT_SOCKET, "agent-text.sock"],
        Daemon::Hub => [HUB_SOCKET, "hub-text.sock"],
    };
    let access = door_access::load(plan, daemon == Daemon::Alone)?;
    let board = Arc::clone(&rules);
    let http = Door {
        window: plan.window,
        // Browsers may use the node's name: only the cluster's administrator can point that name to another machine.
        hosts: plan.allowed_hosts.iter().cloned().chain([plan.node.to_string()]).collect(),
        counters: http_counts,
        limits: khz_http::Limits { answers: plan.answers_max, ..khz_http::Limits::default() },
        job: plan.job.as_str().into(),
        groups: plan.groups.clone().into(),
        boards: saved_boards(plan),
        local: local_socket::bind(plan, http_socket),
        tls: access.http.clone(),
        engine: engine::open(plan)?,
        channels,
        rules,
        actions,
        jobs,
        black_box,
        tour: stage.as_ref().map(|stage| Arc::clone(&stage.tour)).unwrap_or_default(),
        access: access.http_access.clone(),
        ..Door::new(Arc::clone(&query))
    };
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    let http = http.on(http_sockets).map_err(|error| Failure::work(sentence(&error)))?;
    let text = match text_sockets.is_empty() {
        true => None,
        false => {
            let door = khz_text::Door {
                window: plan.window,
                counters: text_counts,
                origins,
                local: local_socket::bind(plan, text_socket),
                tls: access.text.clone(),
                access: access.text_access.clone(),
                ..khz_text::Door::new(Arc::clone(&query), plan.node.as_str())
            };
            Some(door.on(text_sockets).map_err(|error| Failure::work(sentence(&error)))?)
        }
    };
    let stop = || stop_signal().map_err(|error| Failure::work(format!("cannot wait for signals: {error}")));
    let (stop, end) = (stop()?, stop()?);
    let shows_status = std::io::stderr().is_terminal() && !plan.quiet && stage.is_none();
    match stage {
        Some(stage) => {
            let (http, link) = (http.local_addrs().to_vec(), plan.link_listen.clone());
            (stage.opened)(Opened { http, link, rules: board })?;
        }
        None => {
            let first = http.local_addrs().first();
            let at = first.map(|&address| format!(" at {scheme}://{}/", host(plan, address)));
            announce(&format!("Kilohertz is watching {}{}", watched(plan, daemon), at.unwrap_or_default()));
            announce_text(plan, text.as_ref());
        }
    }
    systemd::ready();
    tokio::select! {
        ((), ()) = async { tokio::join!(http.serve(stop), serve_text(text, end)) } => {}
        () = status_line::show(Arc::clone(&query)), if shows_status && daemon != Daemon::Hub => {}
        () = hub_status_line::show(query), if shows_status && daemon == Daemon::Hub => {}
        () = door_access::keep_fresh("HTTP", access.http) => {}
        () = door_access::keep_fresh("text", access.text) => {}
        () = systemd::keep_alive() => {}
    }
    systemd::stopping();
    if shows_status {
        on_stderr("\n");
    }
    Ok(Done::Wholly)
}

async fn serve_text(door: Option<khz_text::Bound>, stop: impl Future<Output = ()>) {
    if let Some(door) = door {
        door.serve(stop).await;
    }
}

/// The line that people click and scripts wait for.
fn announce(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A daemon does not end when its stdout is closed.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// The addresses of the text door.
fn announce_text(plan: &Plan, door: Option<&khz_text::Bound>) {
    let Some(Ok(addresses)) = door.map(khz_text::Bound::addresses) else { return };
    for address in addresses {
        announce(&format!("Text door: {}", host(plan, address)));
    }
}

fn watched(plan: &Plan, daemon: Daemon) -> String {
    match daemon {
        Daemon::Alone => plan.node.to_string(),
        Daemon::Agent => {
            let hubs: Vec<String> =
                plan.hubs.iter().map(|hub| format!("{}:{}", hub.host, hub.port)).collect();
            format!("{}, reporting to {}", plan.node, hubs.join(", "))
        }
        Daemon::Hub => {
            let links: Vec<String> = plan.link_listen.iter().map(|&address| host(plan, address)).collect();
            format!("the nodes that report to {}", links.join(", "))
        }
    }
}

/// An address as other machines use it.
fn host(plan: &Plan, address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => format!("{}:{}", plan.node, address.port()),
        _ => address.to_string(),
    }
}
