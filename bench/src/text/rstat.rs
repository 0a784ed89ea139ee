//! Debian's rpc.rstatd, started and asked (rstat version 3) as inetd and rup do.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::portmapper::Portmapper;
use super::rpc::Caller;
use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

const RSTATD: &str = "/usr/sbin/rpc.rstatd";
/// The program and the version of it that knows times and boot time in seconds and microseconds.
const PROGRAM: (u32, u32) = (100_001, 3);
const STATS: u32 = 1;
/// cp_time 4, dk_xfer 4, paging 4, interrupts, interface packets and errors 4, switches, load 3, boot time 2, present time 2,
/// packets out.
const NUMBERS: usize = 26;

/// Starts the daemon as inetd does: its socket is its input, and the portmapper is told where that is. It ends by itself when nobody
/// has asked for twenty seconds.
pub fn start(mapper: &mut Portmapper) -> Result<(Watched, Rstat), BenchError> {
    let wrong = |e: std::io::Error| failed(format!("{RSTATD} (Debian package rstatd)"), e);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
    let port = socket.local_addr().map_err(wrong)?.port();
    let process = Watched::start_with(&mut Command::new(RSTATD), Stdio::from(OwnedFd::from(socket)))?;
    mapper.make_known(PROGRAM, port)?;
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
    Ok((process, Rstat(Caller::new(socket, mapper.port(PROGRAM)?, PROGRAM)?)))
}

/// Who asks it.
pub struct Rstat(Caller);

impl Rstat {
    /// One call of RSTATPROC_STATS.
    pub fn stats(&mut self) -> Result<[u32; NUMBERS], BenchError> {
        let found = self.0.call(STATS, &[])?;
        // Debian's sends one word more than version 3 has.
        let numbers = found.first_chunk().copied();
        numbers.ok_or_else(|| failed("rstatd", format!("{NUMBERS} numbers are not in {found:?}")))
    }
}
