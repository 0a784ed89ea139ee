//! The whole status of 4,096 nodes: bytes a second and milliseconds for each answer, beside a bare loop that
//! writes the same bytes to the same kind of socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::client::Client;
use crate::error::BenchError;
use crate::hub::cluster::SLOTS;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

const NODES: u64 = 4_096;
/// The door writes pages of this size.
const PAGE: usize = 64 << 10;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let nodes = record.effort.of(NODES, 512);
    let (hub, _simulation) = super::cluster(nodes)?;
    let mut client = Client::new(hub.text()?)?;
    client.set(":age any\n")?;
    let bytes = client.ask("S")?.to_vec();
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() - 1;
    let mut bare = Bare::start(bytes.clone())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..record.effort.pairs() {
        // A B B A
        for side in [turn % 2 == 0, turn % 2 == 1] {
            let start = Instant::now();
            let (who, length) = match side {
                true => ("khz", client.ask("S")?.len()),
                false => ("bare loop", bare.answer()?),
            };
            let seconds = start.elapsed().as_secs_f64();
            let rate = length as f64 / seconds / 1e6;
            record.sample(["status", "full", who], turn, "mb_per_s", rate);
            record.sample(["status", "full", who], turn, "ms", seconds * 1e3);
            if side { ours.push(rate) } else { theirs.push(rate) }
        }
    }
    let mut table = Table::new(&["whole status", "MB/s", "quartiles", "ms an answer"]);
    let megabytes = bytes.len() as f64 / 1e6;
    for (who, rates) in [("khz hub", &ours), ("bare loop", &theirs)] {
        let Some(spread) = Spread::of(rates.iter().copied()) else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([
            who.to_owned(),
            figure(spread.median),
            quartiles,
            figure(megabytes / spread.median * 1e3),
        ]);
    }
    record.show(&format!("## {nodes} nodes of {SLOTS} slots: {lines} lines, {megabytes:.1} MB"), &table);
    record.verdict(
        "share of a bare loop that writes the same bytes",
        Spread::of(ratios(&ours, &theirs)),
        Bound::AtLeast(0.5),
    );
    Ok(())
}

/// A loop that writes the same bytes for every byte that it receives.
struct Bare {
    socket: TcpStream,
    length: usize,
    room: Vec<u8>,
}

impl Bare {
    fn start(bytes: Vec<u8>) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("the bare loop", e);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let length = bytes.len();
        std::thread::spawn(move || {
            let Ok((mut socket, _)) = listener.accept() else { return };
            // As for the door's sockets.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 256 << 10);
            let mut byte = [0];
            while matches!(socket.read(&mut byte), Ok(1)) {
                if bytes.chunks(PAGE).try_for_each(|page| socket.write_all(page)).is_err() {
                    return;
                }
            }
        });
        let socket = TcpStream::connect(address).map_err(wrong)?;
        socket.set_nodelay(true).map_err(wrong)?;
        Ok(Bare { socket, length, room: vec![0; 1 << 20] })
    }

    fn answer(&mut self) -> Result<usize, BenchError> {
        let wrong = |e: std::io::Error| failed("the bare loop", e);
        self.socket.write_all(b"S").map_err(wrong)?;
        let mut read = 0;
        // Copied, as the client copies what it reads.
        let mut answer = Vec::with_capacity(self.length);
        while read < self.length {
            let count = self.socket.read(&mut self.room).map_err(wrong)?;
            if count == 0 {
                return Err(failed("the bare loop", "it has ended"));
            }
            answer.extend_from_slice(&self.room[..count]);
            read += count;
        }
        Ok(std::hint::black_box(answer).len())
    }
}
