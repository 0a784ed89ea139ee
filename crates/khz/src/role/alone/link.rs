//! The link door of `khz` alone: a local socket at which readers read it as they read a hub. Its own agent reports to it,
//! like any agent to a hub; other nodes are not accepted. Hub and link run only while a reader is connected, or always if
//! rows are stored. The thread of the doors waits for the first reader.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use khz_channel::Registry;
use khz_client::place::ALONE_LINK_SOCKET;
use khz_door::LocalSocket;
use khz_hub::{Cluster, LinkDoor, LinkServer};
use khz_link::driver::{Bell, Counters, Driver, HubAddress, Settings};
use khz_model::{ByteSize, Nanos};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::config::Plan;
use crate::role::agent;
use crate::role::agent::lanes::AgentLanes;
use crate::role::agent::texts::{self, AgentTexts};
use crate::role::channels;
use crate::role::hub;
use crate::role::local_socket;
use crate::role::store::RunningStore;
use crate::show::outcome::{Failure, sentence};

/// The socket of its own agent, while a reader is connected.
const OWN_SOCKET: &str = "khz-own.sock";

/// The time between two checks whether a reader is still connected. The door closes after two checks without one, since
/// commands often come one after the other.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// After a failure it waits this long before it accepts the next reader.
const PAUSE: Duration = Duration::from_secs(1);

/// The socket of the door. The door opens when a reader connects.
pub struct OwnLink {
    socket: LocalSocket,
    listener: UnixListener,
    channels: Arc<Registry>,
}

impl OwnLink {
    /// Binds the socket; `None` where it cannot be bound, which is only logged. Readers may name these channels.
    pub fn bind(plan: &Plan, channels: Arc<Registry>) -> Option<Self> {
        let mut socket = local_socket::bind(plan, ALONE_LINK_SOCKET)?;
        let listener = local_socket::listener(&mut socket)?;
        Some(OwnLink { socket, listener, channels })
    }

    /// Opens the door when a reader connects, and closes it some seconds after the last one. Never ends.
    pub async fn serve(&self, plan: &Plan, lanes: &khz_gather::Lanes) {
        loop {
            match self.serve_once(plan, lanes).await {
                Ok(()) => {}
                Err(problem) => {
                    tracing::warn!("{}: {problem}", self.socket.path().display());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn serve_once(&self, plan: &Plan, lanes: &khz_gather::Lanes) -> Result<(), String> {
        self.reader().await.map_err(|error| error.to_string())?;
        let open = Open::new(plan, Some(self), lanes.clone(), None).map_err(|failure| failure.to_string())?;
        let mut unread = 0;
        while unread < 2 {
            tokio::time::sleep(CHECK_PERIOD).await;
            unread = if open.is_read() { 0 } else { unread + 1 };
        }
        Ok(())
    }

    /// Ready when a reader waits at the socket.
    #[allow(
        deprecated,
        reason = "what replaces it is unsafe for the sake of types whose descriptor changes; this one's does not"
    )]
    async fn reader(&self) -> std::io::Result<()> {
        let listener = AsyncFd::with_interest(self.listener.try_clone()?, Interest::READABLE)?;
        listener.readable().await.map(|_| ())
    }
}

/// The door, while it is open.
pub struct Open {
    // The order matters: a hub that ends first does not report its nodes as down.
    _server: LinkServer,
    driver: Driver,
    _socket: LocalSocket,
    cluster: Arc<Cluster>,
}

impl Open {
    /// Opens the door to readers, if it has a socket for them. The rows of this node go to `store`.
    pub fn new(
        plan: &Plan,
        readers: Option<&OwnLink>,
        lanes: khz_gather::Lanes,
        store: Option<&RunningStore>,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::work(format!("cannot start the link: {error}"));
        let no_place = || {
            Failure::work("there is no directory for the node's own socket: name one of yours with --run-dir")
        };
        let mut socket = local_socket::bind(plan, OWN_SOCKET).ok_or_else(no_place)?;
        let own = local_socket::listener(&mut socket).ok_or_else(no_place)?;
        let path = socket.path().to_owned();
        // Past rows are in the rings.
        let settings =
            khz_hub::Settings { name: plan.node.to_string(), history: ByteSize(0), rate_max: plan.rate_max };
        let cluster = Cluster::new(settings, hub::identity()?);
        if let Some(store) = store {
            store.serve(&cluster);
        }
        if let Some(readers) = readers {
            channels::make_known(&readers.channels, &cluster);
        }
        let listener = readers.map(|link| link.listener.try_clone().map_err(failed)).transpose()?;
        let link = LinkDoor {
            listen: Vec::new(),
            local: listener,
            run: None,
            tls: None,
            key: None,
            certificates: false,
            insecure: false,
        };
        let server = LinkServer::start_for_own(cluster.clone(), link, own);
        let server = server.map_err(|error| Failure::work(sentence(&error)))?;
        let bell = Bell::new().map_err(|errno| failed(errno.into()))?;
        let again = bell.again().map_err(|errno| failed(errno.into()))?;
        let texts = AgentTexts::new(plan, texts::Counters::default(), again);
        let lanes = AgentLanes::new(lanes, texts);
        let settings = Settings {
            hubs: vec![HubAddress::Local(path)],
            identity: Arc::new(agent::identity(plan, None)),
            tls: None,
            near: None,
            from: None,
            failback_after: Nanos(0),
            counters: Counters::default(),
            bell,
        };
        let driver = Driver::start(settings, lanes).map_err(failed)?;
        Ok(Open { driver, _server: server, _socket: socket, cluster })
    }

    /// The cluster of this one node.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Closes the door. Returns the received rows.
    pub fn end(self) -> Arc<Cluster> {
        self.cluster.clone()
    }

    /// True while a reader is connected besides our own agent.
    fn is_read(&self) -> bool {
        self.cluster.connections() > 1
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.mute();
    }
}
