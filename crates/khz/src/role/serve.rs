//! Serving the HTTP door, whoever answers behind it, until Ctrl-C or SIGTERM.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use khz_http::{Counters, Door};
use khz_model::{Metric, Query};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Plan;
use crate::role::door;
use crate::role::systemd;
use crate::show::hub_status;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::status_line;
use khz_ask::local::{AGENT_SOCKET, ALONE_SOCKET, HUB_SOCKET};

/// Who stands behind the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// This node alone: its page may choose any rate up to the ceiling.
    Node,
    /// This node, which reports to a hub.
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
}

impl Doors {
    /// None at all.
    pub fn closed() -> Self {
        let (http_counts, text_counts) = (Counters::default(), khz_text::Counters::default());
        Doors { http: Vec::new(), text: Vec::new(), http_counts, text_counts, origins: None }
    }

    /// Binds the HTTP door's addresses; before anything is started.
    pub fn with_http(self, plan: &Plan) -> Result<Self, Failure> {
        let bound = khz_door::listen(&plan.listen, "--listen");
        Ok(Doors { http: bound.map_err(|error| Failure::usage(sentence(&error)))?, ..self })
    }

    /// The same for the text door. One that nobody has asked for may find its usual port taken.
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

    /// Lets the text door tell whose nodes these are.
    pub fn telling(self, origins: khz_text::Origins) -> Self {
        Doors { origins: Some(origins), ..self }
    }

    /// What the open ones count, with the catalogue entries.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        let http = (!self.http.is_empty()).then(|| self.http_counts.metrics());
        let text = (!self.text.is_empty()).then(|| self.text_counts.metrics());
        http.into_iter().chain(text).flatten().collect()
    }
}

/// The runtime for everything but gathering and the link; it has no thread of its own.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| Failure::work(format!("cannot start: {error}")))
}

/// Serves until somebody wants us to end.
pub async fn serve(plan: &Plan, doors: Doors, query: Arc<dyn Query>, behind: Behind) -> Outcome {
    let Doors { http: http_sockets, text: text_sockets, http_counts, text_counts, origins } = doors;
    let [http_socket, text_socket] = match behind {
        Behind::Node => [ALONE_SOCKET, "khz-text.sock"],
        Behind::Agent => [AGENT_SOCKET, "agent-text.sock"],
        Behind::Hub => [HUB_SOCKET, "hub-text.sock"],
    };
    let fitting = door::fitting(plan, behind == Behind::Node)?;
    let http = Door {
        window: plan.window,
        // Browsers may call the node by its name; whoever can point that name elsewhere owns the cluster.
        hosts: plan.allowed_hosts.iter().cloned().chain([plan.node.to_string()]).collect(),
        counters: http_counts,
        limits: khz_http::Limits { answers: plan.answers_max, ..khz_http::Limits::default() },
        node_label: behind == Behind::Hub,
        local: door::local_socket(plan, http_socket),
        tls: fitting.http.clone(),
        access: fitting.http_access.clone(),
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
                local: door::local_socket(plan, text_socket),
                tls: fitting.text.clone(),
                access: fitting.text_access.clone(),
                ..khz_text::Door::new(Arc::clone(&query), plan.node.as_str())
            };
            Some(door.on(text_sockets).map_err(|error| Failure::work(sentence(&error)))?)
        }
    };
    let stop = || stop_signal().map_err(|error| Failure::work(format!("cannot wait for signals: {error}")));
    let (stop, end) = (stop()?, stop()?);
    let at = http.local_addrs().first().map(|&address| format!(" at {scheme}://{}/", host(plan, address)));
    announce(&format!("Kilohertz is watching {}{}", watched(plan, behind), at.unwrap_or_default()));
    announce_text(plan, text.as_ref());
    systemd::ready();
    let shows_status = std::io::stderr().is_terminal() && !plan.quiet;
    tokio::select! {
        ((), ()) = async { tokio::join!(http.serve(stop), serve_text(text, end)) } => {}
        () = status_line::show(Arc::clone(&query)), if shows_status && behind != Behind::Hub => {}
        () = hub_status::show(query), if shows_status && behind == Behind::Hub => {}
        () = door::keep_fresh("HTTP", fitting.http) => {}
        () = door::keep_fresh("text", fitting.text) => {}
        () = systemd::keep_alive() => {}
    }
    systemd::stopping();
    if shows_status {
        eprintln!();
    }
    Ok(Done::Wholly)
}

async fn serve_text(door: Option<khz_text::Bound>, stop: impl Future<Output = ()>) {
    if let Some(door) = door {
        door.serve(stop).await;
    }
}

/// Ready when somebody wants us to end.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Set by the first interrupt; the next one ends the program at once.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    on_signals(1, move || told.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Counts interrupts; the one after `most` of them ends the program at once.
pub fn count_signals(most: u32) -> Result<Arc<AtomicU32>, Failure> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    on_signals(most, move || {
        counted.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(count)
}

/// Does this at each of the first `most` interrupts; the next one ends the program at once.
fn on_signals(most: u32, mut then: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let runtime = runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = kinds else { return };
            for number in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if number == most {
                    std::process::exit(1);
                }
                then();
            }
        });
    });
    Ok(())
}

/// The line that people click and scripts wait for.
fn announce(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A daemon whose stdout is closed goes on all the same.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// How the text door is reached.
fn announce_text(plan: &Plan, door: Option<&khz_text::Bound>) {
    let Some(Ok(addresses)) = door.map(khz_text::Bound::addresses) else { return };
    for address in addresses {
        announce(&format!("Text door: {}", host(plan, address)));
    }
}

fn watched(plan: &Plan, behind: Behind) -> String {
    match behind {
        Behind::Node => plan.node.to_string(),
        Behind::Agent => {
            let hubs: Vec<String> =
                plan.hubs.iter().map(|hub| format!("{}:{}", hub.host, hub.port)).collect();
            format!("{}, reporting to {}", plan.node, hubs.join(", "))
        }
        Behind::Hub => {
            let links: Vec<String> = plan.link_listen.iter().map(|&address| host(plan, address)).collect();
            format!("the nodes that report to {}", links.join(", "))
        }
    }
}

/// An address as others reach it.
fn host(plan: &Plan, address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => format!("{}:{}", plan.node, address.port()),
        _ => address.to_string(),
    }
}
