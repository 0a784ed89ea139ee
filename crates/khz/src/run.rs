//! `khz` alone, the cluster of one: the gatherer's thread and the HTTP door in one process, until Ctrl-C or
//! SIGTERM. It starts nothing before the plan is checked and the address is bound, and no thread of its own.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use khz_http::{Counters, Door};
use khz_model::Query;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Plan;
use crate::outcome::{Done, Failure, Outcome, sentence};
use crate::{here, status_line};

/// Watches until told to stop.
pub fn run(plan: &Plan) -> Outcome {
    let sockets = khz_http::listen(&[plan.listen]).map_err(|error| Failure::usage(sentence(&error)))?;
    let counters = Counters::default();
    let mut agent = here::start(plan, counters.metrics())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| Failure::work(format!("cannot start: {error}")))?;
    let query = agent.query();
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = serve(plan, sockets, query, counters) => outcome,
            () = agent.ended() => Err(Failure::work("the gatherer has ended unexpectedly; what it printed above says why")),
        }
    });
    agent.stop();
    outcome
}

async fn serve(plan: &Plan, sockets: Vec<TcpListener>, query: Arc<dyn Query>, counters: Counters) -> Outcome {
    let door = Door {
        window: plan.window,
        // Browsers may call the node by its name; whoever can point that name elsewhere owns the cluster.
        hosts: plan.allowed_hosts.iter().cloned().chain([plan.node.to_string()]).collect(),
        counters,
        ..Door::new(Arc::clone(&query))
    };
    let door = door.on(sockets).map_err(|error| Failure::work(sentence(&error)))?;
    let stop = stop_signal().map_err(|error| Failure::work(format!("cannot wait for signals: {error}")))?;
    announce(plan, door.local_addr());
    let shows_status = std::io::stderr().is_terminal() && !plan.quiet;
    tokio::select! {
        () = door.serve(stop) => {}
        () = status_line::show(query), if shows_status => {}
    }
    if shows_status {
        eprintln!();
    }
    Ok(Done::Wholly)
}

/// Ready when somebody wants us to end.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// The line that people click and scripts wait for.
fn announce(plan: &Plan, address: SocketAddr) {
    let mut stdout = std::io::stdout().lock();
    // A daemon whose stdout is closed goes on all the same.
    let _ = writeln!(stdout, "{}", address_line(plan, address)).and_then(|()| stdout.flush());
}

fn address_line(plan: &Plan, address: SocketAddr) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() => format!("{}:{}", plan.node, address.port()),
        _ => address.to_string(),
    };
    format!("Kilohertz is watching {} at http://{host}/", plan.node)
}
