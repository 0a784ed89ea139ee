//! The text door: accepts connections and starts a talk for each. Closes in a bounded time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use khz_door::{
    Accepted, Access, Coming, Connections, DoorError, Failures, Held, Listeners, LocalSocket, Sealed, admit,
    receive_all,
};
use khz_model::{Budget, Nanos, Query};
use khz_trust::TlsServer;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::counters::Counters;
use crate::items::SharedItems;
use crate::limits::{CLOSING_GRACE, Limits};
use crate::session::{Origins, Shared};
use crate::talk::Talk;

/// Answer to plain text where the door has TLS.
const SPEAK_TLS: &[u8] = b":error this door speaks TLS: openssl s_client -quiet -connect HOST:PORT\n";

/// A text door that is not open yet.
pub struct Door {
    /// The query that answers.
    pub query: Arc<dyn Query>,
    /// The cluster's name.
    pub cluster: String,
    /// How old the rows of a status may be.
    pub window: Nanos,
    /// TLS for callers from elsewhere; plain text from this machine still works.
    pub tls: Option<Arc<TlsServer>>,
    /// Which callers may do what. This protocol has no tokens, so the key is not used.
    pub access: Access,
    /// The local socket.
    pub local: Option<LocalSocket>,
    /// The limits of this door.
    pub limits: Limits,
    /// The hubs of these nodes, if a hub answers.
    pub origins: Option<Origins>,
    /// The door's counts; clone them to publish the numbers.
    pub counters: Counters,
}

impl Door {
    /// A door with the usual window of 100 µs and the usual limits, for readers on this machine.
    pub fn new(query: Arc<dyn Query>, cluster: &str) -> Self {
        Door {
            query,
            cluster: cluster.to_owned(),
            window: Nanos::from_micros(100),
            tls: None,
            access: Access::default(),
            local: None,
            limits: Limits::default(),
            origins: None,
            counters: Counters::default(),
        }
    }

    /// The door on sockets from [`khz_door::listen`]; call it in a tokio runtime with I/O and time.
    pub fn on(mut self, sockets: Vec<std::net::TcpListener>) -> Result<Bound, DoorError> {
        let listeners = Listeners::new(sockets, self.local.as_mut())?;
        Ok(Bound { door: self, listeners })
    }
}

/// A door with bound addresses; it answers once it is served.
pub struct Bound {
    door: Door,
    listeners: Listeners,
}

impl Bound {
    /// All addresses, with their actual ports.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.addresses()
    }

    /// Answers until `shutdown` resolves. Needs no CPU time when nobody is connected.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(false);
        let mut door = self.door;
        let local = door.local.take();
        let hall = Hall::new(door, closing);
        let receive = |socket: Accepted, talks: &mut JoinSet<()>| hall.receive(socket, talks);
        let count = Arc::clone(&hall.shared.counters.accepts_failed);
        let failures = Failures { door: "text", count: &count };
        receive_all((self.listeners, local), failures, close, shutdown, CLOSING_GRACE, receive).await;
    }
}

/// What all connections of the door share.
struct Hall {
    connections: Arc<Connections>,
    shared: Shared,
    access: Access,
    sealed: Option<Sealed>,
    limits: Limits,
    closing: watch::Receiver<bool>,
}

impl Hall {
    fn new(door: Door, closing: watch::Receiver<bool>) -> Self {
        let Door { query, cluster, window, tls, access, limits, origins, counters, .. } = door;
        let items = SharedItems::default();
        let answers = Budget::new(limits.answers, Arc::clone(&counters.answer_bytes));
        let began = std::time::Instant::now();
        let shared =
            Shared { query, cluster: cluster.into(), items, began, window, counters, answers, origins };
        let sealed = tls.map(|tls| Sealed { tls, advice: SPEAK_TLS });
        let access = Access { key: None, ..access };
        Hall { connections: Connections::new(limits.connections), shared, access, sealed, limits, closing }
    }

    /// Admits a connection, or closes it at once when there is no place for it.
    fn receive(&self, socket: Accepted, talks: &mut JoinSet<()>) {
        let counters = &self.shared.counters;
        let coming = Coming {
            all: &counters.connections,
            evicting: &counters.connections_evicted,
            refused: &counters.connections_refused,
        };
        let Some(connection) = admit(&self.connections, &socket, coming) else { return };
        let talk = Talk {
            connection,
            shared: self.shared.clone(),
            access: self.access.clone(),
            sealed: self.sealed.clone(),
            limits: self.limits.clone(),
            closing: self.closing.clone(),
            _open: Held::new(&counters.connections_open),
        };
        talks.spawn(talk.run(socket));
    }
}
