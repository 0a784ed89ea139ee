//! The bytes of one connection to the hub, over a socket with or without TLS. Never blocks.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::connect;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// A connection's transport.
pub enum Wire {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(TcpStream, Box<ClientConnection>),
}

/// TLS for a hub with this name.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The settings.
    pub config: Arc<ClientConfig>,
    /// The name in the hub's certificate.
    pub name: ServerName<'static>,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket failed.
    #[error("{}", khz_trust::explain_io(.0))]
    Io(#[from] std::io::Error),
    /// TLS failed.
    #[error("TLS: {}", khz_trust::explain(.0))]
    Tls(#[from] rustls::Error),
}

impl Wire {
    /// Begins to connect, from a local address if one is given; the socket becomes writable when it is connected.
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

    /// Reads once and appends the bytes to `bytes`. `false`: the hub has ended the connection.
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

    /// Sends as much as the socket takes at once; returns how many of `bytes` are sent or buffered.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        match self {
            Wire::Plain(_) if bytes.is_empty() => Ok(0),
            Wire::Plain(socket) => match socket.write(bytes) {
                Ok(written) => Ok(written),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
                Err(error) => Err(error.into()),
            },
            Wire::Tls(socket, session) => {
                // The TLS session takes what fits into its buffer.
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

    /// True while buffered bytes wait for the socket.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Wire::Tls(_, session) if session.wants_write())
    }
}
