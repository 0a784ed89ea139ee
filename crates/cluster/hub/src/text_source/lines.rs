//! Lines from a socket. Each line has a limited length and each answer a limited time. Dropping the source ends the wait.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_trust::{HANDSHAKE_TIMEOUT, TlsClient, explain};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::CHECK_EVERY;

/// More than an item with the longest name, and a series whose labels have 4 KiB, each byte written as `%XX`.
pub(crate) const LINE_BYTES_MAX: usize = 32 << 10;
const ROOM_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{}", khz_trust::explain_io(.0))]
    Socket(io::Error),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("it has closed the connection")]
    Closed,
    #[error("it does not answer in time")]
    Late,
    #[error("a line of more than {LINE_BYTES_MAX} bytes; is that a text door?")]
    LongLine,
    #[error("a line that is no text; is that a text door?")]
    NoText,
    #[error("this hub has ended")]
    Over,
    #[error("{0}")]
    Said(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Problem::Tls(explain(error)),
            None => Problem::Socket(error),
        }
    }
}

/// A socket, or TLS around one.
trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A connection to a text door.
pub(crate) struct Lines {
    wire: Box<dyn Wire>,
    room: Vec<u8>,
    /// Bytes that were read and not handed out yet.
    from: usize,
    to: usize,
    deadline: Instant,
    over: Arc<AtomicBool>,
}

impl Lines {
    /// Plain text, or TLS to the host of this name.
    pub fn begin(
        socket: TcpStream,
        tls: Option<(Arc<ClientConfig>, &str)>,
        over: Arc<AtomicBool>,
    ) -> Result<Self, Problem> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(super::CONNECT_MAX))?;
        let wire: Box<dyn Wire> = match tls {
            None => Box::new(patient(socket)?),
            Some((config, host)) => Box::new(shake_hands(socket, config, host)?),
        };
        Ok(Lines { wire, room: vec![0; ROOM_BYTES], from: 0, to: 0, deadline: Instant::now(), over })
    }

    /// Sends a request. Its answer must come within this time.
    pub fn say(&mut self, text: &str, patience: Duration) -> Result<(), Problem> {
        self.deadline = Instant::now() + patience;
        self.wire.write_all(text.as_bytes())?;
        Ok(self.wire.flush()?)
    }

    /// The next line, without its end.
    pub fn next(&mut self) -> Result<&str, Problem> {
        let mut looked = self.from;
        let end = loop {
            if let Some(at) = self.room[looked..self.to].iter().position(|&b| b == b'\n') {
                break looked + at;
            }
            if self.to - self.from > LINE_BYTES_MAX {
                return Err(Problem::LongLine);
            }
            self.room.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            looked = self.to;
            self.to += self.read()?;
        };
        let line = self.from..end;
        self.from = end + 1;
        if line.len() > LINE_BYTES_MAX {
            return Err(Problem::LongLine);
        }
        std::str::from_utf8(&self.room[line]).map_err(|_| Problem::NoText)
    }

    fn read(&mut self) -> Result<usize, Problem> {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return Err(Problem::Over);
            }
            if Instant::now() > self.deadline {
                return Err(Problem::Late);
            }
            match self.wire.read(&mut self.room[self.to..]) {
                Ok(0) => return Err(Problem::Closed),
                Ok(read) => return Ok(read),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Makes reads return early, so that a thread that waits can check whether it is to end.
fn patient(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_read_timeout(Some(CHECK_EVERY))?;
    Ok(socket)
}

/// TLS, once both sides have agreed on it.
fn shake_hands(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    host: &str,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Problem> {
    let tls = |error: &rustls::Error| Problem::Tls(explain(error));
    let name = TlsClient::server_name(host).map_err(|error| Problem::Tls(error.to_string()))?;
    let mut session = ClientConnection::new(config, name).map_err(|error| tls(&error))?;
    let mut socket = socket;
    socket.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    while session.is_handshaking() {
        session.complete_io(&mut socket).map_err(|error| match error {
            error if is_later(&error) => Problem::Late,
            error if error.kind() == io::ErrorKind::UnexpectedEof => Problem::Closed,
            error => error.into(),
        })?;
    }
    Ok(StreamOwned::new(session, patient(socket)?))
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
