//! Connects to a hub: name lookup, connect, TLS, each with its time limit. Agents and readers do the same. It sends nothing of
//! the protocol.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::Nanos;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::dial::Vouch;
use crate::driver::Shared;
use crate::driver::clock;
use crate::driver::lookup::Lookup;
use crate::driver::session::sleep;
use crate::driver::tcp;
use crate::driver::transport::Transport;

/// The time for a name lookup; after it the next hub is tried.
const LOOKUP_MAX: Nanos = Nanos::SECOND;

/// Makes the TLS settings for the next connection: the files may have changed.
pub type TlsSettings = Box<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// What this machine has for a hub whose address is on loopback: the hub's local socket, and its
/// run key.
#[derive(Debug)]
pub struct Near {
    /// The hub's local socket, which is tried first.
    pub socket: Option<PathBuf>,
    /// A proof of who we are, for that hub.
    pub vouch: Vouch,
}

/// Finds the socket and the key again for each connection: a hub that was restarted has another
/// key.
pub type FindNear = Box<dyn Fn(SocketAddr) -> Option<Near> + Send + Sync>;

/// A hub of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubAddress {
    /// Over the network.
    Net {
        /// Its name or address, as in its certificate.
        host: String,
        /// Its port.
        port: u16,
    },
    /// On this machine: its local socket, where the kernel reports the user and TLS is not needed.
    Local(PathBuf),
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HubAddress::Net { host, port } => write!(f, "{host}:{port}"),
            HubAddress::Local(path) => path.display().fmt(f),
        }
    }
}

/// A connection, and the proof for it.
pub(crate) type Dialled = (Transport, Option<Vouch>);

/// The hubs of one link.
pub(crate) struct Dialer {
    hubs: Vec<Hub>,
    tls: Option<Arc<TlsSettings>>,
    near: Option<Arc<FindNear>>,
    /// The local address that we connect from.
    from: Option<IpAddr>,
}

struct Hub {
    address: HubAddress,
    lookup: Option<Lookup>,
}

impl Hub {
    fn new(address: HubAddress) -> Self {
        let lookup = match &address {
            HubAddress::Net { host, port } => Some(Lookup::new(host, *port)),
            HubAddress::Local(_) => None,
        };
        Hub { address, lookup }
    }
}

impl Dialer {
    pub fn new(
        hubs: Vec<HubAddress>,
        tls: Option<TlsSettings>,
        near: Option<FindNear>,
        from: Option<IpAddr>,
    ) -> Self {
        let (tls, near) = (tls.map(Arc::new), near.map(Arc::new));
        Dialer { hubs: hubs.into_iter().map(Hub::new).collect(), tls, near, from }
    }

    /// The same dialer for one hub only.
    pub fn only(&self, hub: usize) -> Self {
        let hubs = vec![Hub::new(self.hubs[hub].address.clone())];
        Dialer { hubs, tls: self.tls.clone(), near: self.near.clone(), from: self.from }
    }

    /// How many hubs there are.
    pub fn hubs(&self) -> usize {
        self.hubs.len()
    }

    /// One of them, for people.
    pub fn address(&self, hub: usize) -> &HubAddress {
        &self.hubs[hub].address
    }

    /// Connects to a hub. The protocol begins after that. Also returns the proof for that hub.
    pub fn dial(&self, hub: usize, shared: &Shared) -> Result<Dialled, String> {
        let Hub { address, lookup } = &self.hubs[hub];
        match (address, lookup) {
            (HubAddress::Net { host, .. }, Some(lookup)) => self.dial_net(host, lookup, shared),
            (HubAddress::Local(path), _) => Ok((dial_local(path)?, None)),
            (HubAddress::Net { .. }, None) => unreachable!("BUG: a name that nobody looks up"),
        }
    }

    fn dial_net(&self, host: &str, lookup: &Lookup, shared: &Shared) -> Result<Dialled, String> {
        let mut problem = String::from("stopped");
        for address in look_up(lookup, shared)? {
            let near = self.near.as_ref().and_then(|find| find(address));
            let (local, vouch) = near.map_or((None, None), |near| (near.socket, Some(near.vouch)));
            // Where a local address was given (`--bind`), the caller wants a connection over the network.
            let local = local.filter(|_| tcp::from_to(self.from, &address).is_none());
            if let Some(transport) = local.and_then(|path| dial_local(&path).ok()) {
                return Ok((transport, vouch));
            }
            match connect(&address, self.from, shared) {
                Ok(socket) => return Ok((self.transport(host, socket)?, vouch)),
                Err(why) => problem = format!("cannot connect to {address}: {why}"),
            }
        }
        Err(problem)
    }

    fn transport(&self, host: &str, socket: OwnedFd) -> Result<Transport, String> {
        let Some(tls) = &self.tls else { return Ok(Transport::plain(socket)) };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        Transport::tls(socket, tls(), name).map_err(|error| khz_trust::explain_io(&error))
    }
}

/// The hub's addresses; waits for the resolver for a limited time.
fn look_up(lookup: &Lookup, shared: &Shared) -> Result<Vec<SocketAddr>, String> {
    lookup.begin(&shared.bell);
    let until = Nanos(clock::now().0 + LOOKUP_MAX.0);
    while !lookup.is_done() && clock::now() < until && !shared.is_stopped() {
        sleep(None, &shared.bell, until.since(clock::now()));
    }
    lookup.addresses()
}

fn connect(address: &SocketAddr, from: Option<IpAddr>, shared: &Shared) -> Result<OwnedFd, String> {
    let socket = tcp::begin_connect(address, from).map_err(|errno| tcp::why_not_from(errno, from))?;
    let until = Nanos(clock::now().0 + tcp::CONNECT_MAX.0);
    loop {
        let left = until.since(clock::now());
        if left == Nanos(0) || shared.is_stopped() {
            return Err("no answer".into());
        }
        sleep(Some((socket.as_fd(), PollFlags::OUT)), &shared.bell, left);
        tcp::connected(&socket).map_err(|errno| errno.to_string())?;
        if rustix::net::getpeername(&socket).is_ok() {
            return Ok(socket);
        }
    }
}

/// A local socket answers at once or not at all.
fn dial_local(path: &Path) -> Result<Transport, String> {
    let socket = tcp::connect_local(path).map_err(|errno| format!("cannot connect: {errno}"))?;
    Ok(Transport::plain(socket))
}
