//! The HTTP door: binds, accepts, and starts a talk for each connection; closes one that finds no place. Starts nothing
//! before every address is bound, and closes in a bounded time.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use khz_channel::Registry;
use khz_door::{
    Accepted, Access, Coming, Connections, DoorError, Failures, Listeners, LocalSocket, Sealed, Tide, admit,
    receive_all,
};
use khz_model::{Budget, Nanos, Query};
use khz_rules::Board;
use khz_trust::TlsServer;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::actions::Actions;
use crate::black_box::BlackBox;
use crate::boards::SavedBoards;
use crate::counters::Counters;
use crate::engine::Engine;
use crate::guard::Guard;
use crate::jobs::JobDesk;
use crate::limits::{
    CLOSING_GRACE, ENGINE_QUESTIONS_MAX, HISTORIES_MAX, Limits, OWN_ANSWERS_BYTES, SCRAPE_ANSWERS_BYTES,
};
use crate::routes::{App, router};
use crate::talk::{Open, Shared, Talk};
use crate::tour::Tour;
use crate::versions::Versions;

/// Answer to plain HTTP where the door has TLS: browsers send it when the user leaves out the `s`.
const SPEAK_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 54\r\n\
    Connection: close\r\n\r\n{\"error\":\"this door speaks TLS: begin with https://\"}\n";

/// Nodes that belong together: a rack, a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Its name.
    pub name: String,
    /// Its nodes, as a hostlist.
    pub nodes: String,
}

/// An HTTP door that is not open yet.
pub struct Door {
    /// The query that answers.
    pub query: Arc<dyn Query>,
    /// The addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// How old the rows in `/metrics` may be; also the default for queries.
    pub window: Nanos,
    /// Host names that name this door, besides `localhost` and its own addresses.
    pub hosts: Vec<String>,
    /// The label `job` of the nodes' series in Prometheus, as targets and `/metrics?nodes=` have it.
    pub job: Arc<str>,
    /// Groups of nodes, as people arrange them, for the page.
    pub groups: Arc<[NodeGroup]>,
    /// Pages of panels that files of this machine describe.
    pub boards: Arc<SavedBoards>,
    /// TLS for callers from elsewhere; plain text from this machine still works.
    pub tls: Option<Arc<TlsServer>>,
    /// Which callers may do what.
    pub access: Access,
    /// Another engine that answers queries in PromQL; `None`: the door evaluates them itself.
    pub engine: Option<Arc<dyn Engine>>,
    /// The channels that can be followed by their names.
    pub channels: Arc<Registry>,
    /// What rules said last.
    pub rules: Arc<Board>,
    /// What is done about alerts; `None`: nothing.
    pub actions: Option<Arc<dyn Actions>>,
    /// The jobs of a batch system; `None`: this khz has no list of them.
    pub jobs: Option<JobDesk>,
    /// The black box; `None`: nothing is frozen here.
    pub black_box: Option<Arc<dyn BlackBox>>,
    /// What a demo shows; without stops: it is none.
    pub tour: Arc<Tour>,
    /// The local socket.
    pub local: Option<LocalSocket>,
    /// The limits of this door.
    pub limits: Limits,
    /// The door's counts; clone them to publish the numbers.
    pub counters: Counters,
}

impl Door {
    /// A door with the usual window of 100 µs and the usual limits, on 127.0.0.1:7070.
    pub fn new(query: Arc<dyn Query>) -> Self {
        Door {
            query,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 7070))],
            window: Nanos::from_micros(100),
            hosts: Vec::new(),
            job: Arc::from("node"),
            groups: Arc::default(),
            boards: Arc::default(),
            tls: None,
            access: Access::default(),
            engine: None,
            channels: Arc::new(Registry::in_memory()),
            rules: Arc::default(),
            actions: None,
            jobs: None,
            black_box: None,
            tour: Arc::default(),
            local: None,
            limits: Limits::default(),
            counters: Counters::default(),
        }
    }

    /// Binds every address; call it in a tokio runtime with I/O and time.
    pub async fn bind(self) -> Result<Bound, DoorError> {
        let listeners = khz_door::listen(&self.listen, "--listen")?;
        self.on(listeners)
    }

    /// The door on sockets from [`khz_door::listen`]; call it in a tokio runtime with I/O and time.
    pub fn on(mut self, listeners: Vec<std::net::TcpListener>) -> Result<Bound, DoorError> {
        let listeners = Listeners::new(listeners, self.local.as_mut())?;
        let addrs = listeners.addresses()?;
        Ok(Bound { door: self, listeners, addrs })
    }
}

/// A door with bound addresses; it answers once it is served.
pub struct Bound {
    door: Door,
    listeners: Listeners,
    addrs: Vec<SocketAddr>,
}

impl Bound {
    /// The first address, with its actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.addrs.first().copied().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    /// All addresses, with their actual ports.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Answers until `shutdown` resolves; then lets open requests finish, for at most [`CLOSING_GRACE`].
    /// Needs no CPU time when nobody is connected.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(false);
        let mut door = self.door;
        let local = door.local.take();
        let hall = Hall::new(door, closing);
        let receive = |socket: Accepted, talks: &mut JoinSet<()>| hall.receive(socket, talks);
        let count = Arc::clone(&hall.shared.counters.accepts_failed);
        let failures = Failures { door: "HTTP", count: &count };
        receive_all((self.listeners, local), failures, close, shutdown, CLOSING_GRACE, receive).await;
    }
}

/// What all connections of the door share.
struct Hall {
    connections: Arc<Connections>,
    shared: Arc<Shared>,
    closing: watch::Receiver<bool>,
}

impl Hall {
    fn new(door: Door, closing: watch::Receiver<bool>) -> Self {
        let Door {
            query,
            window,
            hosts,
            job,
            groups,
            boards,
            tls,
            access,
            engine,
            channels,
            rules,
            actions,
            jobs,
            black_box,
            tour,
            limits,
            counters,
            ..
        } = door;
        let tide = Tide::new(&counters.connections_open, &counters.answer_bytes);
        let answers = Budget::new(limits.answers, Arc::clone(&counters.answer_bytes));
        let app = App {
            has_own: query.own().is_some(),
            query,
            window,
            job,
            groups,
            boards,
            limits: limits.clone(),
            counters: counters.clone(),
            answers: answers.clone(),
            scrape_answers: Budget::new(limits.answers.min(SCRAPE_ANSWERS_BYTES), Arc::default()),
            own_answers: Budget::new(limits.answers.min(OWN_ANSWERS_BYTES), Arc::default()),
            histories: Arc::new(Semaphore::new(HISTORIES_MAX)),
            queries: Arc::default(),
            engine,
            engine_questions: Arc::new(Semaphore::new(ENGINE_QUESTIONS_MAX)),
            channels,
            rules,
            standings: Versions::default(),
            scores: Versions::default(),
            actions,
            jobs,
            black_box,
            tour,
            tallies: Arc::default(),
            places: Arc::default(),
            turns: Arc::default(),
            closing: closing.clone(),
            tide: Arc::clone(&tide),
        };
        let connections = Connections::new(limits.connections);
        let router = router(Arc::new(app));
        let sealed = tls.map(|tls| Sealed { tls, advice: SPEAK_TLS });
        let shared =
            Shared { router, guard: Guard::new(&hosts), access, sealed, limits, counters, answers, tide };
        Hall { connections, shared: Arc::new(shared), closing }
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
            shared: Arc::clone(&self.shared),
            closing: self.closing.clone(),
            _open: Open::new(counters, &self.shared.tide),
        };
        talks.spawn(talk.run(socket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_has_the_length_that_it_says() {
        let text = std::str::from_utf8(SPEAK_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }
}
