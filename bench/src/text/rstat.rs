//! A client of rstat version 3 over SunRPC (RFC 5531) and UDP: one call, one answer of 26 numbers.

use std::net::UdpSocket;
use std::time::Duration;

use crate::error::BenchError;
use crate::program::failed;

const PROGRAM: u32 = 100_001;
const VERSION: u32 = 3;
const STATS: u32 = 1;
/// cp_time 4, dk_xfer 4, paging 4, interrupts, interface packets and errors 4, switches, load 3, boot time 2, present time 2,
/// packets out.
const NUMBERS: usize = 26;
/// Transaction, REPLY, MSG_ACCEPTED, verifier (flavour and length), SUCCESS.
const HEAD: usize = 6;

/// A caller.
pub struct Rstat {
    socket: UdpSocket,
    transaction: u32,
}

impl Rstat {
    /// Calls whoever listens at this port of this machine.
    pub fn new(port: u16) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("rstat", e);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
        socket.connect(("127.0.0.1", port)).map_err(wrong)?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(wrong)?;
        Ok(Rstat { socket, transaction: 1 })
    }

    /// One call of RSTATPROC_STATS.
    pub fn stats(&mut self) -> Result<[u32; NUMBERS], BenchError> {
        let wrong = |e: std::io::Error| failed("rstat", e);
        self.transaction += 1;
        // CALL, RPC version 2, no credentials, no verifier.
        let words = [self.transaction, 0, 2, PROGRAM, VERSION, STATS, 0, 0, 0, 0];
        let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.socket.send(&call).map_err(wrong)?;
        let mut answer = [0; 1_024];
        let length = self.socket.recv(&mut answer).map_err(wrong)?;
        let words: Vec<u32> = answer[..length]
            .chunks_exact(4)
            .map(|word| word.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
            .collect();
        match (words.get(..HEAD), words.get(HEAD..HEAD + NUMBERS)) {
            (Some([transaction, 1, 0, _, 0, 0]), Some(numbers)) if *transaction == self.transaction => {
                let mut stats = [0; NUMBERS];
                stats.copy_from_slice(numbers);
                Ok(stats)
            }
            _ => Err(failed("rstat", format!("an answer that is none: {words:?}"))),
        }
    }
}
