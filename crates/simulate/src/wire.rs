//! The bytes of one connection to the hub: a socket, with TLS around it or without. It never waits.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::connect;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A connection's bytes.
pub enum Wire {
    /// As they are.
    Plain(TcpStream),
    /// In TLS.
    Tls(TcpStream, Box<ClientConnection>),
}

/// TLS to a hub of this name.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The settings.
    pub config: Arc<ClientConfig>,
    /// As its certificate names it.
    pub name: ServerName<'static>,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket.
    #[error("{}", khz_trust::explain_io(.0))]
    Io(#[from] std::io::Error),
    /// TLS.
    #[error("TLS: {}", khz_trust::explain(.0))]
    Tls(#[from] rustls::Error),
}

impl Wire {
    /// Begins to connect, from a local address where one is given; the socket is writable when that is done.
    pub fn connect(hub: SocketAddr, from: Option<IpAddr>, tls: Option<&Tls>) -> Result<Self, WireError> {
        let socket = khz_link::driver::socket_to(&hub, from)?;
        match connect(&socket, &hub) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(std::io::Error::from(errno).into()),
        }
        let socket = TcpStream::from(socket);
        socket.set_nodelay(true)?;
        Ok(match tls {
            None => Wire::Plain(socket),
            Some(tls) => {
                let session = ClientConnection::new(tls.config.clone(), tls.name.clone())?;
                Wire::Tls(socket, Box::new(session))
            }
        })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(socket) | Wire::Tls(socket, _) => socket,
        }
    }

    /// Reads once and appends what came to `bytes`. `false`: the hub has ended the connection.
    pub fn read(&mut self, room: &mut [u8], bytes: &mut Vec<u8>) -> Result<bool, WireError> {
        let read = match self.socket().read(room) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let mut sealed = &room[..read];
        let Wire::Tls(_, session) = self else {
            bytes.extend_from_slice(sealed);
            return Ok(true);
        };
        while !sealed.is_empty() {
            session.read_tls(&mut sealed)?;
            let state = session.process_new_packets()?;
            let start = bytes.len();
            bytes.resize(start + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut bytes[start..])?;
        }
        Ok(true)
    }

    /// Sends as much as goes at once; tells how many of `bytes` are taken care of.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        match self {
            Wire::Plain(_) if bytes.is_empty() => Ok(0),
            Wire::Plain(socket) => match socket.write(bytes) {
                Ok(written) => Ok(written),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
                Err(error) => Err(error.into()),
            },
            Wire::Tls(socket, session) => {
                // The session takes what it has room for.
                let taken = session.writer().write(bytes)?;
                while session.wants_write() {
                    match session.write_tls(socket) {
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(taken)
            }
        }
    }

    /// True while bytes that were taken care of wait for the socket.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Wire::Tls(_, session) if session.wants_write())
    }
}
