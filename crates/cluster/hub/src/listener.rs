//! The sockets of the link door: addresses, and the local socket of this machine.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use khz_trust::TlsServer;
use rustix::fd::{AsFd, BorrowedFd};
use rustls::ServerConnection;

use crate::caller::Caller;
use crate::wire::Wire;

/// A peer that acknowledges no bytes for this long is gone, ms.
const UNACKNOWLEDGED_MAX: u32 = 5_000;

/// A socket of the door.
pub(crate) enum Listener {
    /// Over the network.
    Net(TcpListener),
    /// From this machine.
    Local(UnixListener),
}

/// A connection that was accepted.
pub(crate) enum Socket {
    /// Over the network.
    Net(TcpStream),
    /// From this machine.
    Local(UnixStream),
}

impl Listener {
    /// Its address, if it has one.
    pub fn address(&self) -> Option<Result<SocketAddr, std::io::Error>> {
        match self {
            Listener::Net(listener) => Some(listener.local_addr()),
            Listener::Local(_) => None,
        }
    }

    /// Accepts the next connection.
    pub fn accept(&self) -> Result<(Socket, Caller), std::io::Error> {
        match self {
            Listener::Net(listener) => {
                listener.accept().map(|(socket, address)| (Socket::Net(socket), Caller::Net(address)))
            }
            Listener::Local(listener) => {
                let (socket, _) = listener.accept()?;
                let caller = Caller::of_local(&socket);
                Ok((Socket::Local(socket), caller))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Net(listener) => listener.as_fd(),
            Listener::Local(listener) => listener.as_fd(),
        }
    }
}

impl Socket {
    /// The connection's bytes, non-blocking; over the network in TLS if the door has TLS.
    pub fn wire(self, tls: Option<&TlsServer>) -> Result<Wire, std::io::Error> {
        let socket = match self {
            Socket::Local(socket) => {
                socket.set_nonblocking(true)?;
                return Ok(Wire::Local(socket));
            }
            Socket::Net(socket) => socket,
        };
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&socket, UNACKNOWLEDGED_MAX)?;
        let Some(tls) = tls else { return Ok(Wire::Plain(socket)) };
        let session = ServerConnection::new(tls.config()).map_err(std::io::Error::other)?;
        Ok(Wire::Tls(socket, Box::new(session)))
    }
}
