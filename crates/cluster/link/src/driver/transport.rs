//! Bytes over a connected socket, with or without TLS around them. Nothing here waits.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::limits::OUT_MAX;

/// At most this many bytes are kept for a later read: one answer a second for half a minute, and some room.
const KEPT_MAX: usize = 4 << 10;
/// At most this many bytes are taken out of the socket at once: an answer or two.
const KEPT_AT_ONCE: usize = 256;

/// One connection.
pub(crate) struct Transport {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

/// The socket as rustls sees it.
struct Socket {
    /// Shared, because a thread sleeps on the descriptor without holding the connection.
    fd: Arc<OwnedFd>,
    /// Bytes that were taken out of the socket and not read yet. They come before the bytes in the
    /// socket.
    kept: Vec<u8>,
}

impl Socket {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let (read, _) =
            rustix::io::retry_on_intr(|| rustix::net::recv(&self.fd, &mut *into, RecvFlags::empty()))?;
        Ok(read)
    }

    /// Takes the bytes that have come out of the socket. Returns how many bytes wait for a read; `None` if there is no room, the
    /// peer has closed, or the socket has failed.
    fn keep(&mut self) -> Option<usize> {
        let mut bytes = [0; KEPT_AT_ONCE];
        if self.kept.len() + bytes.len() > KEPT_MAX {
            return None;
        }
        match would_block(self.receive(&mut bytes)) {
            Ok(Some(0)) | Err(_) => return None,
            Ok(came) => self.kept.extend_from_slice(&bytes[..came.unwrap_or(0)]),
        }
        Some(self.kept.len())
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.kept.is_empty() {
            return self.receive(into);
        }
        let read = self.kept.len().min(into.len());
        into[..read].copy_from_slice(&self.kept[..read]);
        self.kept.drain(..read);
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL))?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many times one call asks TLS for decrypted bytes, or writes encrypted bytes.
const ROUNDS: usize = 64;

impl Transport {
    pub fn plain(socket: OwnedFd) -> Self {
        Transport { socket: Socket { fd: Arc::new(socket), kept: Vec::new() }, tls: None }
    }

    pub fn tls(socket: OwnedFd, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(OUT_MAX));
        Ok(Transport { tls: Some(Box::new(tls)), ..Transport::plain(socket) })
    }

    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket.fd
    }

    /// Takes the bytes that have come out of the socket and leaves them for the next [`Transport::read`]. Returns how many bytes
    /// wait; `None` if only a read can find the cause.
    pub fn keep(&mut self) -> Option<usize> {
        self.socket.keep()
    }

    /// True if bytes wait for the next read although the socket is not readable.
    pub fn has_kept(&self) -> bool {
        !self.socket.kept.is_empty()
    }

    /// How many bytes on the wire this many bytes of one frame take (TLS 1.3: header, type and tag of a record).
    pub fn wire_bytes(&self, plain: usize) -> usize {
        const RECORD: usize = 5 + 1 + 16;
        if self.tls.is_some() { plain + RECORD } else { plain }
    }

    /// Reads the bytes that have come; `None`: none at the moment, `Some(0)`: the peer has closed.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(tls) = &mut self.tls else { return would_block(self.socket.read(into)) };
        for _ in 0..ROUNDS {
            if let Some(read) = would_block(tls.reader().read(into))? {
                return Ok(Some(read));
            }
            match would_block(tls.read_tls(&mut self.socket))? {
                None => return Ok(None),
                // The caller decides what a close without close_notify means.
                Some(0) => return would_block(tls.reader().read(into)),
                Some(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
        Ok(None)
    }

    /// Writes as much as possible at once. Returns how many of the `bytes` were taken.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return if bytes.is_empty() {
                Ok(0)
            } else {
                Ok(would_block(self.socket.write(bytes))?.unwrap_or(0))
            };
        };
        let mut taken = 0;
        for _ in 0..ROUNDS {
            taken += if taken < bytes.len() { tls.writer().write(&bytes[taken..])? } else { 0 };
            while tls.wants_write() {
                if would_block(tls.write_tls(&mut self.socket))?.is_none() {
                    return Ok(taken);
                }
            }
            if taken == bytes.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// True while TLS itself has bytes to write.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}
