//! The door itself: it binds, accepts, and hands each connection to the routes. It refuses to start anything
//! before every address is bound, and closes in a bounded time.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use khz_model::{Nanos, Query};
use khz_trust::TlsServer;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::access::Access;
use crate::connections::{Admission, Connections};
use crate::counters::{Counters, Held, count};
use crate::entrance::Accepted;
use crate::guard::Guard;
use crate::limits::{
    CLOSING_GRACE, HISTORIES_MAX, LISTEN_BACKLOG, Limits, SEND_BUFFER_BYTES, VANISHED_TIMEOUT,
};
use crate::local::LocalSocket;
use crate::routes::{App, router};
use crate::talk::{Shared, Talk};

/// When the process has no file descriptor left, accepting is tried again after this long.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// An HTTP door that is not open yet.
pub struct Door {
    /// Who answers.
    pub query: Arc<dyn Query>,
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// How old a row may be that `/metrics` and, unless asked otherwise, queries answer with.
    pub window: Nanos,
    /// Host names that it answers to, besides `localhost` and its own addresses.
    pub hosts: Vec<String>,
    /// Whether `/metrics` says the node of every sample, as a hub must.
    pub node_label: bool,
    /// Its side of TLS, for who comes from elsewhere; from this machine plain text is understood all the same.
    pub tls: Option<Arc<TlsServer>>,
    /// Who may do what.
    pub access: Access,
    /// The local socket.
    pub local: Option<LocalSocket>,
    /// Its limits.
    pub limits: Limits,
    /// What it counts; clone it to publish the numbers.
    pub counters: Counters,
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Another process listens there.
    #[error(
        "{addr} is in use by another program; stop that one or choose another address with --listen ADDRESS:PORT"
    )]
    InUse {
        /// The address.
        addr: SocketAddr,
    },
    /// The address cannot be bound for another reason.
    #[error("cannot listen on {addr}; choose another address with --listen ADDRESS:PORT")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A bound socket stopped working.
    #[error("the listening socket failed")]
    Socket(#[from] io::Error),
}

/// Binds every address, or none. It needs no runtime: call it before anything else is started, and hand the
/// sockets to [`Door::on`].
pub fn listen(addrs: &[SocketAddr]) -> Result<Vec<std::net::TcpListener>, DoorError> {
    addrs.iter().map(|&addr| listen_on(addr)).collect()
}

fn listen_on(addr: SocketAddr) -> Result<std::net::TcpListener, DoorError> {
    let listener = std::net::TcpListener::bind(addr).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => DoorError::InUse { addr },
        _ => DoorError::Bind { addr, source },
    })?;
    listener.set_nonblocking(true)?;
    // The standard library lets 128 wait; listening again only changes that number.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(io::Error::from)?;
    // Accepted sockets inherit both.
    set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES).map_err(io::Error::from)?;
    set_tcp_user_timeout(&listener, VANISHED_TIMEOUT.as_millis() as u32).map_err(io::Error::from)?;
    Ok(listener)
}

impl Door {
    /// A door with the usual window of 100 µs and the usual limits, on 127.0.0.1:7070.
    pub fn new(query: Arc<dyn Query>) -> Self {
        Door {
            query,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 7070))],
            window: Nanos::from_micros(100),
            hosts: Vec::new(),
            node_label: false,
            tls: None,
            access: Access::default(),
            local: None,
            limits: Limits::default(),
            counters: Counters::default(),
        }
    }

    /// Binds every address; in a tokio runtime with I/O and time.
    pub async fn bind(self) -> Result<Bound, DoorError> {
        let listeners = listen(&self.listen)?;
        self.on(listeners)
    }

    /// The door on sockets that [`listen`] bound; in a tokio runtime with I/O and time.
    pub fn on(mut self, listeners: Vec<std::net::TcpListener>) -> Result<Bound, DoorError> {
        let tcp = listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<Vec<_>>>()?;
        let addrs = tcp.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let local = match &mut self.local {
            Some(socket) => socket.listener()?,
            None => None,
        };
        Ok(Bound { door: self, listeners: Listeners { tcp, local }, addrs })
    }
}

/// A door whose addresses are bound and that answers once it is served.
pub struct Bound {
    door: Door,
    listeners: Listeners,
    addrs: Vec<SocketAddr>,
}

impl Bound {
    /// The first address, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.addrs.first().copied().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    /// All addresses, with their real ports.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Answers until `shutdown` resolves; then lets requests under way finish, for at most
    /// [`CLOSING_GRACE`]. Needs no time when nobody is connected.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(false);
        let mut door = self.door;
        let local = door.local.take();
        let hall = Hall::new(door, closing);
        let mut talks = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = poll_fn(|cx| self.listeners.poll_accept(cx)) => match accepted {
                    Ok(socket) => hall.receive(socket, &mut talks),
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = talks.join_next() => {}
            }
        }
        drop((self.listeners, local));
        close.send_replace(true);
        let all_gone = async { while talks.join_next().await.is_some() {} };
        // Who has not finished by then is cut off: dropping the set ends its tasks.
        let _ = tokio::time::timeout(CLOSING_GRACE, all_gone).await;
    }
}

/// The sockets of a door.
struct Listeners {
    tcp: Vec<TcpListener>,
    local: Option<UnixListener>,
}

impl Listeners {
    /// The next connection on any of them.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        for listener in &self.tcp {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted.map(|(socket, peer)| Accepted::Tcp(socket, peer)));
            }
        }
        match &self.local {
            Some(listener) => {
                listener.poll_accept(cx).map(|accepted| accepted.map(|(s, _)| Accepted::Local(s)))
            }
            None => Poll::Pending,
        }
    }
}

/// Where connections are received: what all of them share.
struct Hall {
    connections: Arc<Connections>,
    shared: Arc<Shared>,
    closing: watch::Receiver<bool>,
}

impl Hall {
    fn new(door: Door, closing: watch::Receiver<bool>) -> Self {
        let Door { query, window, hosts, node_label, tls, access, limits, counters, .. } = door;
        let app = App {
            query,
            window,
            node_label,
            limits: limits.clone(),
            counters: counters.clone(),
            histories: Arc::new(Semaphore::new(HISTORIES_MAX)),
            closing: closing.clone(),
        };
        let connections = Connections::new(limits.connections);
        let router = router(Arc::new(app));
        let shared = Shared { router, guard: Guard::new(&hosts), access, tls, limits, counters };
        Hall { connections, shared: Arc::new(shared), closing }
    }

    /// Admits a connection, or closes it at once when there is no place for it.
    fn receive(&self, socket: Accepted, talks: &mut JoinSet<()>) {
        let counters = &self.shared.counters;
        count(&counters.connections);
        let connection = match self.connections.admit() {
            Admission::Placed(connection) => connection,
            Admission::Evicting(connection) => {
                count(&counters.connections_evicted);
                connection
            }
            Admission::Full => return count(&counters.connections_refused),
        };
        let talk = Talk {
            connection,
            shared: Arc::clone(&self.shared),
            closing: self.closing.clone(),
            _open: Held::new(&counters.connections_open),
        };
        talks.spawn(talk.run(socket));
    }
}
