//! Connections that ureq cannot make itself: over a local socket, from a given local address, or in TLS with our own CA
//! and certificates. Keeps connections with TLS open for those who ask again ([`crate::Post`]), and no others.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_link::driver::connect_from;
use khz_trust::{TlsClient, explain};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The way to a server.
#[derive(Clone)]
pub(crate) enum Route {
    /// The local socket at this path.
    Local(PathBuf),
    /// TLS with these settings, from this local address where one is given.
    Tls(Arc<ClientConfig>, Option<IpAddr>),
    /// Plain TCP from this local address.
    From(IpAddr),
}

/// The TLS handshake failed; the text says whose fault it is.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TlsFailed(pub String);

impl TlsFailed {
    /// Why TLS failed, if that is what an error says.
    pub fn problem(error: &ureq::Error) -> Option<String> {
        let failed: &TlsFailed = match error {
            ureq::Error::Other(error) => error.downcast_ref()?,
            ureq::Error::Io(error) => error.get_ref()?.downcast_ref()?,
            _ => return None,
        };
        Some(failed.0.clone())
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Local(path) => f.debug_tuple("Local").field(path).finish(),
            Route::Tls(_, from) => f.debug_tuple("Tls").field(from).finish(),
            Route::From(from) => f.debug_tuple("From").field(from).finish(),
        }
    }
}

impl Connector<()> for Route {
    type Out = Pipe;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Pipe>, ureq::Error> {
        let wait = details.timeout.not_zero().map(|wait| *wait);
        let stream = match self {
            Route::Local(path) => Stream::Local(local(path, wait)?),
            Route::Tls(config, from) => tls(config, *from, details, wait)?,
            Route::From(from) => Stream::Plain(connect(&details.addrs, Some(*from), wait)?),
        };
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Pipe { stream, buffers }))
    }
}

/// Connects to a local socket. A full queue means that its process stands still.
fn local(path: &Path, wait: Option<Duration>) -> Result<UnixStream, ureq::Error> {
    khz_client::place::connect(path, wait).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => ureq::Error::Timeout(ureq::Timeout::RecvResponse),
        _ => ureq::Error::Io(error),
    })
}

/// Connects and completes the handshake, so that a failure of TLS is reported as one.
fn tls(
    config: &Arc<ClientConfig>,
    from: Option<IpAddr>,
    details: &ConnectionDetails,
    wait: Option<Duration>,
) -> Result<Stream, ureq::Error> {
    let failed = |text: String| ureq::Error::Other(Box::new(TlsFailed(text)));
    let host = details.uri.host().unwrap_or_default();
    let name = TlsClient::server_name(host).map_err(|error| failed(error.to_string()))?;
    let mut socket = connect(&details.addrs, from, wait)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(wait)?;
    socket.set_write_timeout(wait)?;
    let mut session =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| failed(explain(&error)))?;
    while session.is_handshaking() {
        session.complete_io(&mut socket).map_err(|error| match tls_error(&error) {
            Some(error) => failed(explain(error)),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                failed("the other side closed the connection during the handshake".into())
            }
            // It has accepted the connection, and sends nothing.
            None if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                ureq::Error::Timeout(ureq::Timeout::RecvResponse)
            }
            None => ureq::Error::Io(error),
        })?;
    }
    Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
}

/// The first address that accepts a connection; the error of the last one when none does.
fn connect(
    addresses: &[SocketAddr],
    from: Option<IpAddr>,
    wait: Option<Duration>,
) -> Result<TcpStream, ureq::Error> {
    let mut problem = ureq::Error::HostNotFound;
    for address in addresses {
        match connect_from(address, from, wait) {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = ureq::Error::Io(error),
        }
    }
    Err(problem)
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// A connection with ureq's buffers.
pub(crate) struct Pipe {
    stream: Stream,
    buffers: LazyBuffers,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipe")
    }
}

enum Stream {
    Local(UnixStream),
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn set_read_timeout(&self, wait: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Local(socket) => socket.set_read_timeout(wait),
            Stream::Plain(socket) => socket.set_read_timeout(wait),
            Stream::Tls(stream) => stream.sock.set_read_timeout(wait),
        }
    }

    fn set_write_timeout(&self, wait: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Local(socket) => socket.set_write_timeout(wait),
            Stream::Plain(socket) => socket.set_write_timeout(wait),
            Stream::Tls(stream) => stream.sock.set_write_timeout(wait),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Local(socket) => socket.write_all(bytes),
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Local(socket) => socket.read(bytes),
            Stream::Plain(socket) => socket.read(bytes),
            // With TLS 1.3 a server that refuses our certificate says so only after the handshake is over here.
            Stream::Tls(stream) => stream.read(bytes).map_err(|error| match tls_error(&error) {
                Some(problem) => io::Error::other(TlsFailed(explain(problem))),
                None => error,
            }),
        }
    }
}

impl Transport for Pipe {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(timeout.not_zero().map(|wait| *wait))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| timed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(timeout.not_zero().map(|wait| *wait))?;
        let count = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A killed server closes TLS without a farewell. HTTP knows by itself where a body ends.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break 0,
                read => break read.map_err(|error| timed(error, timeout))?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        match &self.stream {
            Stream::Tls(stream) => is_quiet(&stream.sock).unwrap_or(false),
            Stream::Local(_) | Stream::Plain(_) => false,
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }
}

/// True if nothing has come since the last answer: bytes that wait are a farewell, or the answer to nothing that was asked.
fn is_quiet(socket: &TcpStream) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false)?;
    Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
}

/// A socket reports a timeout as "would block".
fn timed(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => ureq::Error::Io(error),
    }
}
