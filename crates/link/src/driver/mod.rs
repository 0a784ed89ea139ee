//! The agent's thread `link`: keeps one connection to one of the hubs, however often they fail. It shares nothing with
//! the gather thread but the rings, and a hub that is slow, frozen or hostile can only keep this thread busy.

mod bell;
mod clock;
mod counters;
mod lookup;
mod session;
mod tcp;
mod transport;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use khz_model::Nanos;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use bell::Bell;
pub use counters::{Counters, UNKNOWN};

use crate::agent_end::AgentEnd;
use crate::dial::Identity;
use crate::error::LinkError;
use crate::roster::{Outcome, Roster};
use crate::source::Lanes;
use lookup::Lookup;
use session::{Buffers, Ended, Session, sleep};
use transport::Transport;

/// A name must be looked up in this time; then the next hub is tried.
const LOOKUP_MAX: Nanos = Nanos::SECOND;

/// Stack of the thread: its deepest call is rustls'.
const STACK_BYTES: usize = 256 << 10;

/// The settings of TLS for the next connection: files may have changed.
pub type TlsSettings = Box<dyn Fn() -> Arc<ClientConfig> + Send>;

/// A hub of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// Its name or address, as its certificate has it.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What the thread needs to know.
pub struct Settings {
    /// The hubs, the preferred one first.
    pub hubs: Vec<HubAddress>,
    /// Who we are.
    pub identity: Arc<Identity>,
    /// TLS around the link; `None`: none.
    pub tls: Option<TlsSettings>,
    /// Numbers that it counts.
    pub counters: Counters,
    /// Also rung by prompt lanes.
    pub bell: Bell,
}

/// What the thread shares with who started it.
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub bell: Bell,
    pub counters: Counters,
}

/// The running thread. Dropping it ends the connection and the thread.
pub struct Driver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start<L: Lanes + Send + 'static>(settings: Settings, lanes: L) -> std::io::Result<Self> {
        let Settings { hubs, identity, tls, counters, bell } = settings;
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), bell, counters });
        let worker = Worker {
            roster: Roster::new(hubs.len()),
            lookups: hubs.iter().map(|hub| Lookup::new(&hub.host, hub.port)).collect(),
            hubs,
            identity,
            tls,
            lanes,
            shared: shared.clone(),
            buffers: Buffers::new(),
            last_problem: String::new(),
        };
        let builder = std::thread::Builder::new().name("link".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || worker.run())?;
        Ok(Driver { shared, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of its was printed when it happened.
            let _ = thread.join();
        }
    }
}

struct Worker<L: Lanes> {
    hubs: Vec<HubAddress>,
    lookups: Vec<Lookup>,
    roster: Roster,
    identity: Arc<Identity>,
    tls: Option<TlsSettings>,
    lanes: L,
    shared: Arc<Shared>,
    buffers: Buffers,
    /// What was logged last: a hub that is away for a week is one line.
    last_problem: String,
}

impl<L: Lanes> Worker<L> {
    fn run(mut self) {
        while !self.is_stopped() && !self.hubs.is_empty() {
            let (hub, at) = self.roster.next(clock::now());
            let wait = at.since(clock::now());
            if wait > Nanos(0) {
                sleep(None, &self.shared.bell, wait);
                continue;
            }
            let (outcome, problem) = self.attempt(hub);
            self.shared.counters.forget();
            self.roster.ended(hub, outcome, clock::now(), random());
            if !self.is_stopped() {
                counters::add(&self.shared.counters.failures, 1);
                self.log(hub, outcome, problem);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn log(&mut self, hub: usize, outcome: Outcome, problem: String) {
        let HubAddress { host, port } = &self.hubs[hub];
        let line = format!("hub {host}:{port}: {problem}");
        if matches!(outcome, Outcome::Broke { lasted } if lasted > Nanos(0)) || line != self.last_problem {
            tracing::warn!("{line}");
        }
        self.last_problem = line;
    }

    /// Everything with one hub, from its name to the end of its connection.
    fn attempt(&mut self, hub: usize) -> (Outcome, String) {
        let failed = |problem| (Outcome::Broke { lasted: Nanos(0) }, problem);
        let transport = match self.connect(hub) {
            Ok(transport) => transport,
            Err(problem) => return failed(problem),
        };
        let end = AgentEnd::new(self.identity.clone(), clock::now());
        let number = hub as u64 + 1;
        let mut session =
            Session::new(end, transport, &mut self.buffers, &mut self.lanes, &self.shared, number);
        let ended = session.talk();
        let lasted = session.welcome.map_or(Nanos(0), |since| clock::now().since(since));
        let Session { end, lanes, .. } = session;
        end.close(lanes);
        let broke = Outcome::Broke { lasted };
        match ended {
            Ended::Stopped => (broke, String::new()),
            Ended::Socket(problem) => (broke, problem),
            Ended::Link(error @ LinkError::Refused { .. }) => {
                counters::add(&self.shared.counters.refusals, 1);
                (Outcome::Refused, error.to_string())
            }
            Ended::Link(error) => (broke, error.to_string()),
        }
    }

    fn connect(&self, hub: usize) -> Result<Transport, String> {
        let mut problem = String::from("stopped");
        for address in self.look_up(hub)? {
            match self.connect_to(&address) {
                Ok(socket) => return self.transport(hub, socket),
                Err(why) => problem = format!("cannot connect to {address}: {why}"),
            }
        }
        Err(problem)
    }

    /// The hub's addresses; waits for the resolver no longer than it may.
    fn look_up(&self, hub: usize) -> Result<Vec<SocketAddr>, String> {
        let lookup = &self.lookups[hub];
        lookup.begin(&self.shared.bell);
        let until = Nanos(clock::now().0 + LOOKUP_MAX.0);
        while !lookup.is_done() && clock::now() < until && !self.is_stopped() {
            sleep(None, &self.shared.bell, until.since(clock::now()));
        }
        lookup.addresses()
    }

    fn connect_to(&self, address: &SocketAddr) -> Result<OwnedFd, String> {
        let socket = tcp::begin_connect(address).map_err(|errno| errno.to_string())?;
        let until = Nanos(clock::now().0 + tcp::CONNECT_MAX.0);
        loop {
            let left = until.since(clock::now());
            if left == Nanos(0) || self.is_stopped() {
                return Err("no answer".into());
            }
            sleep(Some((socket.as_fd(), PollFlags::OUT)), &self.shared.bell, left);
            tcp::connected(&socket).map_err(|errno| errno.to_string())?;
            if rustix::net::getpeername(&socket).is_ok() {
                return Ok(socket);
            }
        }
    }

    fn transport(&self, hub: usize, socket: OwnedFd) -> Result<Transport, String> {
        let Some(tls) = &self.tls else { return Ok(Transport::plain(socket)) };
        let host = self.hubs[hub].host.clone();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        Transport::tls(socket, tls(), name).map_err(|error| error.to_string())
    }
}

/// Any number.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_le_bytes(bytes),
        _ => clock::wall() as u64 ^ u64::from(std::process::id()) << 32,
    }
}
