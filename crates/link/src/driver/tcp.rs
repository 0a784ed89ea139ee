//! A socket as the link wants it: it never blocks, waits for nobody's small packets, holds little, and notices a
//! peer that is gone. The only unsafe code of this crate asks the kernel for a connection's
//! retransmissions, and how few bytes shall not wake anybody.

use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::path::Path;

use khz_model::Nanos;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, socket_with, sockopt};

use crate::limits::{OUT_MAX, SILENCE};

/// A connect that takes longer has failed.
pub(crate) const CONNECT_MAX: Nanos = Nanos::from_millis(500);

/// Begins to connect. The socket is writable when that has succeeded or failed.
pub(crate) fn begin_connect(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, (SILENCE.0 / 1_000_000) as u32)?;
    // What waits in the kernel is late already: rings are the buffer.
    sockopt::set_socket_send_buffer_size(&socket, OUT_MAX)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Connects to a socket of this machine. One whose queue is full answers `EAGAIN`, which is a failure like others.
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

/// Segments that the kernel has sent again on this connection; `None`: it does not say.
pub(crate) fn retransmits(socket: &OwnedFd) -> Option<u64> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is valid for writes of `length` bytes, which the kernel does not exceed; the descriptor is open
    // as long as `socket` is borrowed.
    #[allow(unsafe_code)]
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
    #[allow(unsafe_code)]
    let info = unsafe { info.assume_init() };
    (result == 0).then_some(u64::from(info.tcpi_total_retrans))
}

/// `poll` calls the socket readable when so many bytes have come, or the peer has closed. A kernel that refuses leaves it
/// as it was, which costs wake-ups and nothing else.
pub(crate) fn set_readable_from(socket: &OwnedFd, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(1);
    // SAFETY: the option's value is an int, valid for reads of its own size; the descriptor is open as long as `socket`
    // is borrowed.
    #[allow(unsafe_code)]
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
