//! Calls over SunRPC (RFC 5531) and UDP, with numbers as arguments and results.

use std::net::UdpSocket;
use std::time::Duration;

use crate::error::BenchError;
use crate::program::failed;

/// Transaction, REPLY, MSG_ACCEPTED, verifier (flavour and length), SUCCESS.
const HEAD: usize = 6;

/// A caller of one program.
pub struct Caller {
    socket: UdpSocket,
    program: (u32, u32),
    transaction: u32,
}

impl Caller {
    /// Calls this version of this program at this port of this machine.
    pub fn new(socket: UdpSocket, port: u16, program: (u32, u32)) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("RPC", e);
        socket.connect(("127.0.0.1", port)).map_err(wrong)?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(wrong)?;
        Ok(Caller { socket, program, transaction: 1 })
    }

    /// Makes one call; returns the numbers of its result.
    pub fn call(&mut self, procedure: u32, arguments: &[u32]) -> Result<Vec<u32>, BenchError> {
        let (program, version) = self.program;
        let wrong = |e: std::io::Error| failed(format!("RPC to program {program}"), e);
        self.transaction += 1;
        // CALL, RPC version 2, no credentials, no verifier.
        let head = [self.transaction, 0, 2, program, version, procedure, 0, 0, 0, 0];
        let call: Vec<u8> = head.iter().chain(arguments).flat_map(|word| word.to_be_bytes()).collect();
        self.socket.send(&call).map_err(wrong)?;
        let mut answer = [0; 1_024];
        let length = self.socket.recv(&mut answer).map_err(wrong)?;
        let mut words: Vec<u32> = answer[..length]
            .chunks_exact(4)
            .map(|word| word.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
            .collect();
        match words.get(..HEAD) {
            Some([transaction, 1, 0, _, 0, 0]) if *transaction == self.transaction => {
                Ok(words.split_off(HEAD))
            }
            _ => Err(failed("RPC", format!("an answer that is none: {words:?}"))),
        }
    }
}
