//! Serving the HTTP door, whoever answers behind it, until Ctrl-C or SIGTERM.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use khz_http::{Counters, Door};
use khz_model::Query;
use khz_trust::Role;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Plan;
use crate::door::{self, AGENT_SOCKET, ALONE_SOCKET, HUB_SOCKET};
use crate::outcome::{Done, Failure, Outcome, sentence};
use crate::{hub_status, notify, status_line};

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

/// Binds the door's addresses; before anything is started.
pub fn bind(plan: &Plan) -> Result<Vec<TcpListener>, Failure> {
    khz_http::listen(&plan.listen).map_err(|error| Failure::usage(sentence(&error)))
}

/// The runtime for everything but gathering and the link; it has no thread of its own.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| Failure::work(format!("cannot start: {error}")))
}

/// Serves until somebody wants us to end.
pub async fn serve(
    plan: &Plan,
    sockets: Vec<TcpListener>,
    query: Arc<dyn Query>,
    counters: Counters,
    behind: Behind,
) -> Outcome {
    let (here, socket) = match behind {
        Behind::Node => (Role::Operator, ALONE_SOCKET),
        Behind::Agent => (Role::Reader, AGENT_SOCKET),
        Behind::Hub => (Role::Reader, HUB_SOCKET),
    };
    let door = Door {
        window: plan.window,
        // Browsers may call the node by its name; whoever can point that name elsewhere owns the cluster.
        hosts: plan.allowed_hosts.iter().cloned().chain([plan.node.to_string()]).collect(),
        counters,
        node_label: behind == Behind::Hub,
        local: door::local_socket(plan, socket),
        ..Door::new(Arc::clone(&query))
    };
    let door = door::fit(plan, door, here)?;
    let (tls, scheme) = (door.tls.clone(), if door.tls.is_some() { "https" } else { "http" });
    let door = door.on(sockets).map_err(|error| Failure::work(sentence(&error)))?;
    let stop = stop_signal().map_err(|error| Failure::work(format!("cannot wait for signals: {error}")))?;
    let at = door.local_addrs().first().map(|&address| format!(" at {scheme}://{}/", host(plan, address)));
    announce(&format!("{}{}", watched(plan, behind), at.unwrap_or_default()));
    notify::ready();
    let shows_status = std::io::stderr().is_terminal() && !plan.quiet;
    tokio::select! {
        () = door.serve(stop) => {}
        () = status_line::show(Arc::clone(&query)), if shows_status && behind != Behind::Hub => {}
        () = hub_status::show(query), if shows_status && behind == Behind::Hub => {}
        () = door::keep_fresh(tls) => {}
        () = notify::keep_alive() => {}
    }
    notify::stopping();
    if shows_status {
        eprintln!();
    }
    Ok(Done::Wholly)
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
    let runtime = runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let Ok(signal) = stop_signal() else { return };
            signal.await;
            told.store(true, Ordering::Relaxed);
            if let Ok(again) = stop_signal() {
                again.await;
                std::process::exit(1);
            }
        });
    });
    Ok(stop)
}

/// The line that people click and scripts wait for.
fn announce(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A daemon whose stdout is closed goes on all the same.
    let _ = writeln!(stdout, "Kilohertz is watching {line}").and_then(|()| stdout.flush());
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
