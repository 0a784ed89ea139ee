//! The link door: where nodes and readers come in. [`LinkServer`] opens it; `thread` is the one thread that serves it,
//! `accept` takes connections in, `connections` is the table of them, `token` names one of them.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use khz_trust::{ClusterKey, Exposure, ExposureError, Means, RunKey, TlsServer};

use crate::cluster::Cluster;
use crate::listener::Listener;
use crate::mailbox::{Command, Mailbox};
use crate::proofs::Proofs;

mod accept;
mod connections;
mod thread;
mod token;

use thread::{Server, Start};
use token::Origin;
pub(crate) use token::Token;

/// Connections that may wait to be accepted at one listener.
const ACCEPT_BACKLOG: i32 = 4_096;

/// Where and how nodes and readers come in.
pub struct LinkDoor {
    /// Addresses.
    pub listen: Vec<SocketAddr>,
    /// A local socket, non-blocking. Root and our own user may have any role there; other users may only
    /// read.
    pub local: Option<UnixListener>,
    /// The folder for the key of this run, which peers on loopback show, and the local socket's name in it.
    pub run: Option<(PathBuf, Option<String>)>,
    /// TLS for every connection, if it is configured.
    pub tls: Option<TlsServer>,
    /// The cluster key that tokens are made from.
    pub key: Option<ClusterKey>,
    /// Whether a certificate of the cluster's CA is accepted instead of a token.
    pub certificates: bool,
    /// The administrator accepts that there is no TLS, and that nodes do not prove their names.
    pub insecure: bool,
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum LinkDoorError {
    /// The address may not be opened like this.
    #[error(transparent)]
    Exposed(#[from] ExposureError),
    /// The address cannot be bound.
    #[error("cannot listen on {address} for nodes: {source}; choose another with --link-listen ADDRESS:PORT")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The kernel refused something that it usually grants.
    #[error("cannot start serving links: {0}")]
    Kernel(#[from] std::io::Error),
}

/// A link door that is open. Dropping it closes every connection.
pub struct LinkServer {
    mailbox: Arc<Mailbox>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
    /// The other end closes when the thread ends.
    life: UnixStream,
}

impl LinkServer {
    /// Binds every address, or none of them, and starts the thread.
    pub fn start(cluster: Arc<Cluster>, door: LinkDoor) -> Result<Self, LinkDoorError> {
        Self::start_with(cluster, door, None)
    }

    /// The same for a cluster of one node, which has its own socket, `own`. Connections at other sockets are accepted only
    /// when rows of the node have come, so that readers never see an empty cluster.
    pub fn start_for_own(
        cluster: Arc<Cluster>,
        door: LinkDoor,
        own: UnixListener,
    ) -> Result<Self, LinkDoorError> {
        Self::start_with(cluster, door, Some(own))
    }

    fn start_with(
        cluster: Arc<Cluster>,
        mut door: LinkDoor,
        own: Option<UnixListener>,
    ) -> Result<Self, LinkDoorError> {
        let means = Means {
            tls: door.tls.is_some(),
            identifies: door.key.is_some() || door.certificates,
            insecure: door.insecure,
        };
        let mut listeners = Vec::new();
        for &address in &door.listen {
            Exposure::of_listener(address, means)?;
            let bind = |source| LinkDoorError::Bind { address, source };
            let listener = TcpListener::bind(address).map_err(bind)?;
            listener.set_nonblocking(true)?;
            rustix::net::listen(&listener, ACCEPT_BACKLOG).map_err(std::io::Error::from)?;
            listeners.push(Listener::Net(listener));
        }
        let addresses: Vec<SocketAddr> =
            listeners.iter().filter_map(Listener::address).collect::<Result<_, _>>()?;
        listeners.extend(door.local.take().map(Listener::Local));
        let mailbox = Arc::new(Mailbox::new().map_err(std::io::Error::from)?);
        cluster.served_by(&mailbox);
        let held = own.is_some();
        // The first of all: the others are held until its node is here.
        listeners.splice(0..0, own.map(Listener::Local));
        let proofs = proofs(&mut door, &addresses);
        let server =
            Server::new(Start { cluster, tls: door.tls, proofs, listeners, mailbox: mailbox.clone(), held })?;
        let (life, end) = UnixStream::pair()?;
        let run = move || {
            let _end = end;
            server.run();
        };
        let thread = std::thread::Builder::new().name("link".into()).spawn(run)?;
        Ok(LinkServer { mailbox, addresses, thread: Some(thread), life })
    }

    /// A non-blocking socket that becomes readable when the thread has ended. It ends by itself only by a panic.
    ///
    /// # Errors
    /// There is no file descriptor for it.
    pub fn life(&self) -> std::io::Result<UnixStream> {
        self.life.set_nonblocking(true)?;
        self.life.try_clone()
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.mailbox.put(Origin::Bell.number(), Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// What proves an identity at this door. If the run key cannot be made, peers on loopback must show a token like everyone
/// else, and a warning says so.
fn proofs(door: &mut LinkDoor, addresses: &[SocketAddr]) -> Proofs {
    let run = door.run.take().and_then(|(folder, socket)| {
        RunKey::make(&folder, addresses, socket.as_deref())
            .inspect_err(|error| tracing::warn!("peers on loopback must show a token: {error}"))
            .ok()
    });
    let proofs =
        Proofs { key: door.key.take(), run, certificates: door.certificates, insecure: door.insecure };
    if proofs.believes_names() {
        tracing::warn!(
            "--insecure, and neither --cluster-key nor --tls-ca: nothing proves the names of nodes at {}, and they are believed",
            addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
        );
    }
    proofs
}
