//! Debian's rpc.rstatd, started and called (rstat version 3) as by inetd and rup.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::portmapper::Portmapper;
use super::rpc::Caller;
use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

const RSTATD: &str = "/usr/sbin/rpc.rstatd";
/// The program, and its version that has times and boot time in seconds and microseconds.
const PROGRAM: (u32, u32) = (100_001, 3);
const STATS: u32 = 1;
/// cp_time 4, dk_xfer 4, paging 4, interrupts, interface packets and errors 4, switches, load 3, boot time 2, present time 2,
/// packets out.
const NUMBERS: usize = 26;

/// The daemon's socket, and a caller.
pub struct Rstat {
    socket: UdpSocket,
    caller: Caller,
}

impl Rstat {
    /// Opens the socket and registers it with the portmapper, as inetd does.
    pub fn new(mapper: &mut Portmapper) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("rstat", e);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
        mapper.make_known(PROGRAM, socket.local_addr().map_err(wrong)?.port())?;
        let asking = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
        Ok(Rstat { socket, caller: Caller::new(asking, mapper.port(PROGRAM)?, PROGRAM)? })
    }

    /// Starts the daemon with the socket as its input. It ends after some seconds without a call, and is then
    /// started again.
    pub fn serve(&self) -> Result<Watched, BenchError> {
        let wrong = |e: std::io::Error| failed(format!("{RSTATD} (Debian package rstatd)"), e);
        let socket = self.socket.try_clone().map_err(wrong)?;
        Watched::start_with(&mut Command::new(RSTATD), Stdio::from(OwnedFd::from(socket)))
    }

    /// One call of RSTATPROC_STATS.
    pub fn stats(&mut self) -> Result<[u32; NUMBERS], BenchError> {
        let found = self.caller.call(STATS, &[])?;
        // Debian's daemon sends one word more than version 3 has.
        let numbers = found.first_chunk().copied();
        numbers.ok_or_else(|| failed("rstatd", format!("{NUMBERS} numbers are not in {found:?}")))
    }
}
