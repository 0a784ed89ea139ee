//! Debian's rpcbind in its own network namespace, where no other machine reaches its port. (With `-h
//! 127.0.0.1`, to listen on loopback alone, it crashes on a double free.) A daemon registers there and is
//! found again, as by inetd and rup.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::rpc::Caller;
use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

const RPCBIND: &str = "/usr/sbin/rpcbind";
const PORT: u16 = 111;
const PROGRAM: u32 = 100_000;
const VERSION: u32 = 2;
const SET: u32 = 1;
const GET_PORT: u32 = 3;
const UDP: u32 = 17;
/// It registers programs only for callers on a privileged port.
const OWN_PORT: u16 = 1_023;
/// Longest time from its start to its first answer.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A network namespace with loopback only. Dropping it ends it.
pub struct OwnNetwork {
    _holder: Watched,
}

impl OwnNetwork {
    /// Makes one and moves this thread, and all processes that it starts from now on, into it. Needs root.
    pub fn enter() -> Result<Self, BenchError> {
        let wrong = |problem: String| failed("a network of its own (needs root, unshare, iproute2)", problem);
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"]);
        let mut holder = Watched::start(&mut command)?;
        let mut line = String::new();
        BufReader::new(holder.output()?).read_line(&mut line).map_err(|e| wrong(e.to_string()))?;
        if line != "up\n" {
            return Err(wrong("it did not come up".to_owned()));
        }
        let path = holder.file("ns/net");
        let network = File::open(&path).map_err(BenchError::file(&path))?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| wrong(e.to_string()))?;
        Ok(OwnNetwork { _holder: holder })
    }
}

/// A running rpcbind.
pub struct Portmapper {
    _process: Watched,
    caller: Caller,
}

impl Portmapper {
    /// Starts it, and waits until it answers.
    pub fn start() -> Result<Self, BenchError> {
        let process = Watched::start(Command::new(RPCBIND).arg("-f"))?;
        let wrong = |e: std::io::Error| failed("rpcbind", e);
        let socket = UdpSocket::bind(("127.0.0.1", OWN_PORT)).map_err(wrong)?;
        let mut mapper =
            Portmapper { _process: process, caller: Caller::new(socket, PORT, (PROGRAM, VERSION))? };
        let start = Instant::now();
        while let Err(error) = mapper.port((PROGRAM, VERSION)) {
            if start.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
        Ok(mapper)
    }

    /// Registers a program at this port.
    pub fn make_known(&mut self, (program, version): (u32, u32), port: u16) -> Result<(), BenchError> {
        match self.caller.call(SET, &[program, version, UDP, port.into()])?[..] {
            [1, ..] => Ok(()),
            _ => Err(failed("rpcbind", format!("it does not take program {program} in"))),
        }
    }

    /// The port of a program.
    pub fn port(&mut self, (program, version): (u32, u32)) -> Result<u16, BenchError> {
        match self.caller.call(GET_PORT, &[program, version, UDP, 0])?[..] {
            [port, ..] if port > 0 => Ok(port as u16),
            _ => Err(failed("rpcbind", format!("it knows no program {program}"))),
        }
    }
}
