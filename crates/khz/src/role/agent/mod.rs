//! The work of `khz agent`: gathers on this node and reports to a hub, until Ctrl-C or SIGTERM. The HTTP door and the text
//! door open only where a setting asks for them.

mod former;
pub mod lanes;
pub mod texts;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use khz_gather::Machine;
use khz_link::driver::{Bell, Driver, FindNear, HubAddress, Settings, TlsSettings};
use khz_link::{Identity, Prove, Role};
use khz_trust::{ClientFiles, Exposure, Protocol, TlsClient, Token};

use self::lanes::AgentLanes;
use self::texts::AgentTexts;
use crate::config::Plan;
use crate::role::doors::{self, Daemon, Doors};
use crate::role::gatherer;
use crate::role::job_socket::JobSocket;
use crate::role::restart;
use crate::role::signals;
use crate::show::outcome::{Failure, Outcome, sentence};

/// Gathers and reports until a signal ends it.
pub fn run(plan: &Plan, has_door: bool) -> Outcome {
    khz_door::descriptors::raise_limit();
    if plan.hubs.is_empty() {
        return Err(Failure::usage(
            "an agent needs a hub to report to: --hub HOST:PORT (without one, `khz` alone watches this machine)",
        ));
    }
    let (tls, token) = credentials(plan)?;
    let mut doors = Doors::closed();
    if has_door {
        doors = doors.with_http(plan)?;
    }
    if plan.text_is_asked {
        doors = doors.with_text(plan)?;
    }
    let link = khz_link::driver::Counters::default();
    let counts = texts::Counters::default();
    let tallies = link.metrics().into_iter().chain(counts.metrics()).chain(doors.metrics());
    let jobs = JobSocket::open(plan);
    // The rings of an agent stay, however it ends.
    let plan = &Plan { keep_rings: true, ..plan.clone() };
    let mut agent =
        gatherer::start(plan, gatherer::single(tallies).collect(), jobs.as_ref().map(JobSocket::door))?;
    let no_bell = |errno| Failure::work(format!("cannot start: {errno}"));
    let bell = Bell::new().map_err(no_bell)?;
    let texts = AgentTexts::new(plan, counts, bell.again().map_err(no_bell)?);
    let lanes = AgentLanes::new(agent.shared_lanes(), texts);
    let settings = Settings {
        hubs: plan
            .hubs
            .iter()
            .map(|hub| HubAddress::Net { host: hub.host.clone(), port: hub.port })
            .collect(),
        identity: Arc::new(identity(plan, token)),
        tls,
        near: Some(near(plan)),
        from: plan.bind,
        failback_after: plan.failback_after,
        counters: link,
        bell,
    };
    let driver = start_link(plan, settings, lanes)?;
    let query = agent.query();
    let ended = signals::runtime()?.block_on(async {
        tokio::select! {
            outcome = doors::serve(plan, doors, query, Daemon::Agent) => Ok(outcome),
            end = agent.end() => Err(end),
        }
    });
    // In this order: the link sends the last row, too.
    agent.stop();
    drop((driver, jobs));
    ended.unwrap_or_else(restart::after)
}

/// The link's thread runs on the same CPUs and with the same priority as the gather thread. A thread inherits both from the
/// thread that starts it.
fn start_link(plan: &Plan, settings: Settings, lanes: AgentLanes) -> Result<Driver, Failure> {
    let placement = plan.placement.clone();
    let starter = std::thread::spawn(move || {
        placement.apply().map_err(|error| sentence(&error))?;
        Driver::start(settings, lanes).map_err(|error| error.to_string())
    });
    let started = starter.join().unwrap_or_else(|_| Err("its starter panicked".to_owned()));
    started.map_err(|problem| Failure::work(format!("cannot start the link's thread: {problem}")))
}

/// TLS and token for the hubs. Unusable files, and hubs on other machines without TLS, are errors before anything starts.
fn credentials(plan: &Plan) -> Result<(Option<TlsSettings>, Option<Token>), Failure> {
    let unusable = |error: khz_trust::TrustError| Failure::usage(sentence(&error));
    let token = plan.trust.token.as_ref().map(|token| token.read()).transpose().map_err(unusable)?;
    if let Some(token) = &token
        && (token.identity().role != khz_trust::Role::Node || token.identity().name != plan.node)
    {
        let owner = token.identity();
        return Err(Failure::usage(format!("the token is that of {owner}; this is node {}", plan.node)));
    }
    let tls = match &plan.trust.ca {
        None => None,
        Some(ca) => {
            let files = ClientFiles { ca: ca.clone(), pair: plan.trust.pair.clone() };
            let client = TlsClient::load(files, Protocol::Link).map_err(unusable)?;
            Some(Box::new(move || {
                // Changed files are read again. If they are unusable, the old certificate stays.
                if let Err(error) = client.refresh() {
                    tracing::warn!("the link keeps its certificate: {}", sentence(&error));
                }
                client.config()
            }) as TlsSettings)
        }
    };
    for hub in &plan.hubs {
        // A name may mean any machine, so it counts as another machine.
        let ip = match hub.host.as_str() {
            "localhost" => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            host => host.parse().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1))),
        };
        Exposure::of_caller(SocketAddr::new(ip, hub.port), tls.is_some(), plan.insecure)
            .map_err(|error| Failure::usage(format!("hub {}: {error}", hub.host)))?;
    }
    Ok((tls, token))
}

/// The proof that a hub on this machine accepts from this node: a run key.
fn near(plan: &Plan) -> FindNear {
    let identity = khz_trust::Identity { role: khz_trust::Role::Node, name: plan.node.clone() };
    khz_client::near::find(plan.run_dir.as_deref(), identity, None)
}

/// The identity of this node on the link.
pub fn identity(plan: &Plan, token: Option<Token>) -> Identity {
    let machine = Machine::this();
    let prove = token.map(|token| Box::new(move |nonce: &[u8; 32]| token.proof(nonce)) as Prove);
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Identity {
        role: Role::Node,
        name: plan.node.to_string(),
        machine: machine.id,
        boot: machine.boot,
        started: boot.tv_sec * 1_000_000_000 + boot.tv_nsec,
        start_nonce: u64::from(std::process::id()) << 32 | boot.tv_nsec as u64,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        prove,
    }
}
