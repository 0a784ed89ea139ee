//! The sockets of a door: bound before anything else starts, all or none, and polled in turn.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use tokio::net::{TcpListener, UnixListener};

use crate::entrance::Accepted;
use crate::local::LocalSocket;

/// Connections that the kernel holds until they are accepted; beyond that, a client waits a second and tries
/// again. A flood must not delay an honest client, and accepting takes microseconds.
const LISTEN_BACKLOG: i32 = 4_096;
/// Bytes that the kernel may hold for one connection that does not read (it counts them double). By default
/// the kernel would hold up to 4 MiB for each. The kernel reports room when a third is free; that must be
/// less than what a client has to take before its time limit.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// A client whose machine has vanished acknowledges nothing; it is given up after this time. The kernel alone
/// would wait a quarter of an hour.
const VANISHED_TIMEOUT: Duration = Duration::from_secs(30);
/// When the process has no file descriptor left, accepting is retried after this time.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Another process listens there.
    #[error(
        "{addr} is in use by another program; stop that one or choose another address with {flag} ADDRESS:PORT"
    )]
    InUse {
        /// The address.
        addr: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// The address cannot be bound for another reason.
    #[error("cannot listen on {addr}; choose another address with {flag} ADDRESS:PORT")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A bound socket stopped working.
    #[error("the listening socket failed")]
    Socket(#[from] io::Error),
}

/// Binds every address, or none; `flag` is the flag that sets the addresses, for the error. Needs no runtime:
/// call it before anything else starts.
pub fn listen(addrs: &[SocketAddr], flag: &'static str) -> Result<Vec<std::net::TcpListener>, DoorError> {
    addrs.iter().map(|&addr| listen_on(addr, flag)).collect()
}

fn listen_on(addr: SocketAddr, flag: &'static str) -> Result<std::net::TcpListener, DoorError> {
    let listener = std::net::TcpListener::bind(addr).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => DoorError::InUse { addr, flag },
        _ => DoorError::Bind { addr, flag, source },
    })?;
    listener.set_nonblocking(true)?;
    // The standard library lets 128 connections wait; a second `listen` only changes that number.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(io::Error::from)?;
    // Accepted sockets inherit both options.
    set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES).map_err(io::Error::from)?;
    set_tcp_user_timeout(&listener, VANISHED_TIMEOUT.as_millis() as u32).map_err(io::Error::from)?;
    Ok(listener)
}

/// The sockets of a door, inside a runtime.
#[derive(Debug)]
pub struct Listeners {
    tcp: Vec<TcpListener>,
    local: Option<UnixListener>,
}

impl Listeners {
    /// Takes the sockets from [`listen`], and the local socket. Call it in a tokio runtime with I/O.
    pub fn new(tcp: Vec<std::net::TcpListener>, local: Option<&mut LocalSocket>) -> Result<Self, DoorError> {
        let tcp = tcp.into_iter().map(TcpListener::from_std).collect::<io::Result<Vec<_>>>()?;
        let local = match local {
            Some(socket) => socket.listener()?,
            None => None,
        };
        Ok(Listeners { tcp, local })
    }

    /// All addresses, with their actual ports.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(TcpListener::local_addr).collect()
    }

    /// The next connection on any of them.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
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
