//! Receives what a bare loop sends, and answers each piece as a hub answers a row. Knows neither of them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::error::BenchError;
use crate::program::failed;

/// The bytes of a row of the five files at 1 Hz on the link, and of its answer.
const ROW_BYTES: usize = 250;
const ANSWER_BYTES: usize = 48;

/// A thread that accepts one connection after the other, on the CPUs of the thread that started it.
pub struct Sink {
    address: SocketAddr,
}

impl Sink {
    /// Listens on loopback for as long as this process lives.
    pub fn start() -> Result<Self, BenchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| failed("bind", e))?;
        let address = listener.local_addr().map_err(|e| failed("local_addr", e))?;
        std::thread::spawn(move || {
            // When one connection has ended, the next one follows.
            listener.incoming().flatten().for_each(|stream| while answered(&stream) {});
        });
        Ok(Sink { address })
    }

    /// Adds to the bare loop's command the arguments that make it send here.
    pub fn fed_by(&self, mut bare: Command) -> Command {
        bare.arg(self.address.port().to_string()).arg(ROW_BYTES.to_string());
        bare
    }
}

fn answered(mut stream: &TcpStream) -> bool {
    let taken = stream.read(&mut [0; 4096]);
    taken.is_ok_and(|bytes| bytes > 0) && stream.write_all(&[0; ANSWER_BYTES]).is_ok()
}
