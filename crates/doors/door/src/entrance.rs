//! From an accepted socket to a connection that is ready for requests: TLS where the door has it, and the
//! place and identity of the caller. Refuses plain text from elsewhere where there is TLS, and callers that
//! take too long.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use khz_trust::{HANDSHAKE_TIMEOUT, Identity, PeerError, Place, TlsServer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::access::Origin;
use crate::descriptors::is_scarce;
use crate::local;

/// The first byte of every TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A socket after accept.
#[derive(Debug)]
pub enum Accepted {
    /// Over TCP, and the caller's address.
    Tcp(TcpStream, SocketAddr),
    /// Over the local socket.
    Local(UnixStream),
}

impl Accepted {
    /// True if it took one of the last descriptors of this process.
    pub(crate) fn is_scarce(&self) -> bool {
        match self {
            Accepted::Tcp(socket, _) => is_scarce(socket),
            Accepted::Local(socket) => is_scarce(socket),
        }
    }
}

/// The way by which a request came: it decides which host names a request may use for this door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Plain text to this address of ours.
    Address(IpAddr),
    /// TLS: the caller has checked our name against the certificate.
    Tls,
    /// The local socket, which no browser speaks.
    Local,
}

/// A connection that is ready for requests.
pub struct Entered {
    /// Its bytes.
    pub socket: Socket,
    /// The way by which it came.
    pub way: Way,
    /// The caller's place, and its identity if it has shown one.
    pub origin: Origin,
}

/// Why a connection was refused. The caller got an answer if it can understand one.
#[derive(Debug, thiserror::Error)]
pub enum Turned {
    /// The socket or TLS failed.
    #[error("the socket failed")]
    Socket(#[from] io::Error),
    /// Plain text from elsewhere, where the door has TLS.
    #[error("no TLS from elsewhere")]
    Plain,
    /// The certificate names no identity.
    #[error(transparent)]
    Stranger(#[from] PeerError),
    /// Too slow.
    #[error("the handshake took too long")]
    Slow,
}

/// The TLS of a door, and its answer to callers from elsewhere that do not use it.
#[derive(Clone)]
pub struct Sealed {
    /// The server's side of TLS.
    pub tls: Arc<TlsServer>,
    /// The answer, in the door's own protocol.
    pub advice: &'static [u8],
}

/// Admits or refuses a socket, within [`HANDSHAKE_TIMEOUT`].
pub async fn enter(socket: Accepted, sealed: Option<Sealed>) -> Result<Entered, Turned> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, enter_slowly(socket, sealed)).await {
        Ok(entered) => entered,
        Err(_) => Err(Turned::Slow),
    }
}

async fn enter_slowly(socket: Accepted, sealed: Option<Sealed>) -> Result<Entered, Turned> {
    let (socket, peer) = match socket {
        Accepted::Local(socket) => {
            let origin = Origin { uid: local::uid(&socket), ..local::place(&socket).into() };
            return Ok(Entered { socket: Socket::Local(socket), way: Way::Local, origin });
        }
        Accepted::Tcp(socket, peer) => (socket, peer),
    };
    let is_here = peer.ip().to_canonical().is_loopback();
    let place = if is_here { Place::Loopback } else { Place::Elsewhere };
    let origin = Origin::from(place);
    let local = socket.local_addr()?.ip();
    // Events must leave at once; if this fails, they only come later.
    let _ = socket.set_nodelay(true);
    let Some(Sealed { tls, advice }) = sealed else {
        return Ok(Entered { socket: Socket::Plain(socket), way: Way::Address(local), origin });
    };
    match (speaks_tls(&socket).await?, is_here) {
        (true, _) => with_tls(socket, &tls, place).await,
        (false, true) => Ok(Entered { socket: Socket::Plain(socket), way: Way::Address(local), origin }),
        (false, false) => {
            turn_away(socket, advice).await;
            Err(Turned::Plain)
        }
    }
}

/// Waits for the first byte, without consuming it.
async fn speaks_tls(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match socket.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] == HANDSHAKE_RECORD),
    }
}

async fn with_tls(socket: TcpStream, tls: &TlsServer, place: Place) -> Result<Entered, Turned> {
    let stream = TlsAcceptor::from(tls.config()).accept(socket).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certified = certificate.map(|certificate| Identity::of_certificate(certificate)).transpose()?;
    let origin = Origin { certified, ..place.into() };
    Ok(Entered { socket: Socket::Tls(Box::new(stream)), way: Way::Tls, origin })
}

/// Sends the reason, without reading the request.
async fn turn_away(mut socket: TcpStream, advice: &[u8]) {
    let _ = socket.write_all(advice).await;
    let _ = socket.shutdown().await;
}

/// The bytes of a connection, over any transport.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// The local socket.
    Local(UnixStream),
}

/// Forwards a call to the socket inside.
macro_rules! each {
    ($self:ident, $socket:ident => $call:expr) => {
        match $self.get_mut() {
            Socket::Plain($socket) => $call,
            Socket::Tls($socket) => $call,
            Socket::Local($socket) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
            Socket::Local(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
