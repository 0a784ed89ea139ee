//! Readers on links that take every byte and parse only the frames, so that the measured cost of their
//! subscriptions is the hub's alone.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use khz_link::frame::{kind, split};
use khz_link::limits::FRAME_MAX;
use khz_link::{Ask, Beat, Frame, Role, Want};
use khz_model::Nanos;

use super::epoll::{Sockets, raise_files};
use super::hello::greet;
use super::number;
use crate::error::BenchError;
use crate::program::failed;

const ROOM: usize = 256 << 10;
const BEAT: Duration = Duration::from_secs(1);

/// One reader.
struct Reader {
    socket: TcpStream,
    /// The beginning of a frame whose end has not come yet.
    cut: Vec<u8>,
}

/// `ADDRESS READERS RATE_HZ flushed|prompt PATTERN`: connects all readers, prints `ready` when each has its
/// lanes, and reads until it is killed.
pub fn work(words: &[&str]) -> Result<(), BenchError> {
    let [address, readers, rate, prompt, pattern] = words else {
        return Err(BenchError::Usage("drain ADDRESS READERS RATE_HZ flushed|prompt PATTERN".into()));
    };
    raise_files();
    let wrong = |e: std::io::Error| failed("a reader", e);
    let address: SocketAddr = address.parse().map_err(|_| BenchError::Usage("no address".into()))?;
    let period = Nanos(1_000_000_000 / number(rate)?.max(1));
    let ask = Ask { number: 1, period, prompt: *prompt == "prompt", patterns: &[*pattern], ..Ask::default() };
    let sockets = Sockets::new()?;
    let mut open = Vec::new();
    for name in 0..number(readers)? {
        let socket = TcpStream::connect(address).map_err(wrong)?;
        socket.set_nodelay(true).map_err(wrong)?;
        let mut out = Vec::new();
        greet(&socket, address, (Role::Operator, &format!("reader{name}")), 7, &mut out)?;
        (&socket).write_all(&out).map_err(wrong)?;
        socket.set_nonblocking(true).map_err(wrong)?;
        sockets.add(&socket, name)?;
        open.push(Reader { socket, cut: Vec::new() });
    }
    let (mut ready, mut room, mut beaten) = (Vec::new(), vec![0; ROOM], Instant::now());
    let mut lanes = 0u64;
    loop {
        sockets.wait(100, &mut ready)?;
        for &number in &ready {
            lanes += open[number as usize].take(&mut room, &ask)?;
        }
        if beaten.elapsed() >= BEAT {
            beaten = Instant::now();
            println!("{lanes}");
            let mut out = Vec::new();
            Beat { stamp: 1, round_trip: None, offset: 0, retransmits: 0 }.put(&mut out);
            for reader in &mut open {
                reader.socket.write_all(&out).map_err(wrong)?;
            }
        }
    }
}

impl Reader {
    /// Reads once and sends the answers that the protocol requires. Returns how many lanes were offered.
    fn take(&mut self, room: &mut [u8], ask: &Ask<'_, &str>) -> Result<u64, BenchError> {
        let wrong = |problem: &dyn std::fmt::Display| failed("a reader", problem);
        let read = match self.socket.read(room) {
            Ok(0) => return Err(wrong(&"the hub has closed the connection")),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(wrong(&error)),
        };
        let mut bytes = &room[..read];
        if !self.cut.is_empty() {
            self.cut.extend_from_slice(bytes);
            bytes = &self.cut;
        }
        let (mut out, mut lanes) = (Vec::new(), 0);
        while let Some(frame) = split(bytes, FRAME_MAX).map_err(|e| wrong(&e))? {
            match frame.kind {
                kind::WELCOME => ask.put(&mut out),
                kind::LANE => {
                    if let Frame::Lane(offer) =
                        Frame::decode(frame.kind, frame.body).map_err(|e| wrong(&e))?
                    {
                        let want = Want { epoch: offer.epoch, from_row: offer.next_row, ..Want::default() };
                        want.put(offer.lane, &mut out);
                        lanes += 1;
                    }
                }
                kind::REFUSE => return Err(wrong(&"refused")),
                _ => {}
            }
            bytes = &bytes[frame.length..];
        }
        self.cut = bytes.to_vec();
        self.socket.write_all(&out).map_err(|e| wrong(&e))?;
        Ok(lanes)
    }
}
