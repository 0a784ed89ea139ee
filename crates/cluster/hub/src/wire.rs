//! The bytes of one connection: a socket, with TLS around it or without. It never waits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use khz_trust::Identity;
use rustix::fd::{AsFd, BorrowedFd};
use rustls::ServerConnection;

/// A connection's bytes.
pub(crate) enum Wire {
    /// Without TLS.
    Plain(TcpStream),
    /// Without TLS, within this machine.
    Local(UnixStream),
    /// In TLS.
    Tls(TcpStream, Box<ServerConnection>),
}

/// What a read has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing more to read, as far as is known.
    Empty,
    /// There may be more.
    More,
    /// The peer has ended the connection.
    End,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("{}", khz_trust::explain_io(.0))]
    Io(#[from] std::io::Error),
    #[error("TLS: {}", khz_trust::explain(.0))]
    Tls(#[from] rustls::Error),
}

impl Wire {
    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Plain(socket) | Wire::Tls(socket, _) => socket.as_fd(),
            Wire::Local(socket) => socket.as_fd(),
        }
    }

    fn read_socket(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Wire::Plain(socket) | Wire::Tls(socket, _) => socket.read(room),
            Wire::Local(socket) => socket.read(room),
        }
    }

    /// Reads once and hands what came to `take`, in pieces that live in `room`.
    pub fn read(
        &mut self,
        room: &mut [u8],
        mut take: impl FnMut(&Wire, &[u8]) -> Result<(), WireError>,
    ) -> Result<Readiness, WireError> {
        let read = match self.read_socket(room) {
            Ok(0) => return Ok(Readiness::End),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Readiness::Empty);
            }
            Err(error) => return Err(error.into()),
        };
        let readiness = if read == room.len() { Readiness::More } else { Readiness::Empty };
        let Wire::Tls(_, session) = self else {
            take(self, &room[..read])?;
            return Ok(readiness);
        };
        let mut sealed = &room[..read];
        let mut open = Vec::new();
        while !sealed.is_empty() {
            session.read_tls(&mut sealed)?;
            let state = session.process_new_packets()?;
            let start = open.len();
            open.resize(start + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut open[start..])?;
        }
        if !open.is_empty() {
            take(self, &open)?;
        }
        Ok(readiness)
    }

    /// Sends what the socket takes now. Returns how many of `bytes` need not be given again.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        match self {
            // Most frames need no answer, and an empty write would be a system call too.
            Wire::Plain(_) | Wire::Local(_) if bytes.is_empty() => Ok(0),
            Wire::Plain(socket) => written(socket.write(bytes)),
            Wire::Local(socket) => written(socket.write(bytes)),
            Wire::Tls(socket, session) => {
                let mut taken = 0;
                loop {
                    // The buffers of rustls are limited: it accepts only a part of the bytes while the socket
                    // is full.
                    let took = session.writer().write(&bytes[taken..])?;
                    taken += took;
                    let mut went = false;
                    while session.wants_write() {
                        match session.write_tls(socket) {
                            Ok(_) => went = true,
                            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
                            Err(error) => return Err(error.into()),
                        }
                    }
                    if taken == bytes.len() || (took == 0 && !went) {
                        return Ok(taken);
                    }
                }
            }
        }
    }

    /// True while buffered bytes wait for the socket.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Wire::Tls(_, session) if session.wants_write())
    }

    /// The identity in the peer's certificate; `None` without a certificate.
    pub fn certified(&self) -> Option<Result<Identity, khz_trust::PeerError>> {
        let Wire::Tls(_, session) = self else { return None };
        let certificate = session.peer_certificates()?.first()?;
        Some(Identity::of_certificate(certificate))
    }
}

/// A socket that is full has taken nothing.
fn written(result: std::io::Result<usize>) -> Result<usize, WireError> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        result => Ok(result?),
    }
}
