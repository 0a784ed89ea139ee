//! Sets up the link's sockets: they never block, send small packets at once, have small buffers, and notice a peer that is
//! gone. The only unsafe code of this crate is here: it asks the kernel for a connection's retransmissions, and sets how many
//! bytes make a socket readable.

#![allow(unsafe_code, reason = "rustix has neither TCP_INFO nor SO_RCVLOWAT")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use khz_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, socket_with, sockopt};

use crate::limits::{OUT_MAX, SILENCE};

/// A connect that takes longer has failed.
pub(crate) const CONNECT_MAX: Nanos = Nanos::from_millis(500);

/// A socket that does not block, bound to the local address `from` where one is given; the kernel chooses its port.
fn socket_from(address: &SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if let Some(from) = from_to(from, address) {
        if from.is_ipv4() != address.is_ipv4() {
            return Err(Errno::AFNOSUPPORT);
        }
        rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    Ok(socket)
}

/// The local address to bind for a connection to `address`. Connections to this machine itself do not use an address of the
/// network.
pub(crate) fn from_to(from: Option<IpAddr>, address: &SocketAddr) -> Option<IpAddr> {
    let is_here = address.ip().to_canonical().is_loopback();
    from.filter(|from| !is_here || from.is_loopback())
}

/// Adds the local address to an error: the kernel's text does not name it.
pub(crate) fn why_not_from(errno: Errno, from: Option<IpAddr>) -> String {
    match (errno, from) {
        (Errno::ADDRNOTAVAIL, Some(from)) => {
            format!("no interface of this machine has the address {from} (--bind)")
        }
        (Errno::AFNOSUPPORT, Some(from)) => {
            format!("{from} (--bind) is of another kind than this address: both must be IPv4, or both IPv6")
        }
        _ => errno.to_string(),
    }
}

/// A socket for a connection to that address that does not block, bound to the local address `from` where one is given.
///
/// # Errors
/// The kernel's error, with the local address if that is the cause.
pub fn socket_to(address: &SocketAddr, from: Option<IpAddr>) -> io::Result<OwnedFd> {
    socket_from(address, from)
        .map_err(|errno| io::Error::new(io::Error::from(errno).kind(), why_not_from(errno, from)))
}

/// Connects from the local address `from`, if there is one, and waits at most the time `wait`; the socket
/// blocks.
///
/// # Errors
/// The kernel's error, with the local address if that is the cause.
pub fn connect_from(
    address: &SocketAddr,
    from: Option<IpAddr>,
    wait: Option<Duration>,
) -> io::Result<TcpStream> {
    if from_to(from, address).is_none() {
        return match wait {
            Some(wait) => TcpStream::connect_timeout(address, wait),
            None => TcpStream::connect(address),
        };
    }
    let failed = |errno: Errno| {
        let kind = io::Error::from(errno).kind();
        io::Error::new(kind, why_not_from(errno, from))
    };
    let socket = socket_from(address, from).map_err(failed)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let until = wait.map(|wait| Instant::now() + wait);
            loop {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                let left = left.and_then(|left| Timespec::try_from(left).ok());
                let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
                match poll(&mut fds, left.as_ref()) {
                    Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                    Ok(_) => break connected(&socket).map_err(failed)?,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(failed(errno)),
                }
            }
        }
        Err(errno) => return Err(failed(errno)),
    }
    let socket = TcpStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Begins to connect. The socket is writable when that has succeeded or failed.
pub(crate) fn begin_connect(address: &SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let socket = socket_from(address, from)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, (SILENCE.0 / 1_000_000) as u32)?;
    // Bytes that wait in the kernel are late already. The rings are our buffer.
    sockopt::set_socket_send_buffer_size(&socket, OUT_MAX)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Connects to a local socket. If its queue is full, the kernel returns `EAGAIN`, which counts as any other
/// failure.
pub(crate) fn connect_local(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// How connecting has ended.
pub(crate) fn connected(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// Segments that the kernel has retransmitted on this connection; `None`: not known.
pub(crate) fn retransmits(socket: &OwnedFd) -> Option<u64> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is valid for writes of `length` bytes, which the kernel does not exceed; the descriptor is open
    // as long as `socket` is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: it was zeroed, and every pattern of bytes is a valid `tcp_info`: it is made of integers.
    let info = unsafe { info.assume_init() };
    (result == 0).then_some(u64::from(info.tcpi_total_retrans))
}

/// Makes the socket readable when this many bytes have come, or the peer has closed. If the kernel refuses, there are more
/// wake-ups, and nothing else changes.
pub(crate) fn set_readable_from(socket: &OwnedFd, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(1);
    // SAFETY: the option's value is an int, valid for reads of its own size; the descriptor is open as long as `socket`
    // is borrowed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_connection_comes_from_the_address_that_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wait = Some(Duration::from_secs(60));
        for (from, seen) in [
            (None, "127.0.0.1"),
            (Some(at("127.0.0.2")), "127.0.0.2"),
            // Connections to this machine do not use the network.
            (Some(at("192.0.2.1")), "127.0.0.1"),
        ] {
            let _client = connect_from(&address, from, wait).unwrap();
            let (mut accepted, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), at(seen), "{from:?}");
            drop(accepted.set_nonblocking(true));
            let read = std::io::Read::read(&mut accepted, &mut [0]);
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn an_address_that_is_not_ours_or_of_another_kind_is_named() {
        let there: SocketAddr = "192.0.2.1:7071".parse().unwrap();
        let said = |from: &str| connect_from(&there, Some(at(from)), None).unwrap_err().to_string();
        assert_eq!(said("192.0.2.77"), "no interface of this machine has the address 192.0.2.77 (--bind)");
        assert!(said("2001:db8::1").starts_with("2001:db8::1 (--bind) is of another kind"));
    }
}
