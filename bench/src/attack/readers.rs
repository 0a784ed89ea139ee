//! A hub of simulated nodes with slow readers: a hundred request everything at once, then ten thousand
//! connections stay silent. The hub's memory must not grow beyond the limit for answers, and must shrink
//! again afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt::set_socket_recv_buffer_size};

use super::open_idle;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::http;
use crate::hub::cluster::{Hub, Simulation};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Nodes that send 300 numbers each once a second: an answer with everything has 57 MB.
const NODES: u64 = 1_500;
/// Clients that read the answer slowly.
const READERS: usize = 100;
/// What each client reads in [`PACE`]: twice the minimum, so that it is not disconnected.
const PIECE: usize = 6_500;
const PACE: Duration = Duration::from_millis(500);
/// The kernel's receive buffer of a reader; by default it would take megabytes.
const READER_ROOM: usize = 4_096;
/// How much an attack may add, in kB: the limit for answers, and a full buffer for each connection.
const ADDED_KB_MAX: f64 = 64.0 * 1_024.0 + 16_384.0;
/// How much of that may remain when the attackers have gone, in kB.
const LEFT_KB_MAX: f64 = 4_096.0;

/// The hub, and its memory when alone.
struct Attacked<'a> {
    hub: &'a Hub,
    table: Table,
    alone: Option<f64>,
}

impl Attacked<'_> {
    /// Repeats `during` and measures the hub's memory. Returns how much more the hub held than alone: at most,
    /// or, in phases named `afterwards`, at the end.
    fn phase(
        &mut self,
        record: &mut Record,
        name: &str,
        during: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<f64, BenchError> {
        let (mut most, mut last, mut during) = (0.0_f64, 0.0, during);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(record.effort.of(30, 10)) {
            during()?;
            std::thread::sleep(PACE);
            last = self.hub.process.held()?.anonymous_kb as f64;
            most = most.max(last);
        }
        let metrics = http::get(self.hub.http, "/metrics").unwrap_or_default();
        let number = |family| crate::agent::sum_of(&metrics, family).unwrap_or(f64::NAN);
        let (held, refused) =
            (number("khz_http_answer_bytes") / 1_024.0, number("khz_http_answers_refused_total"));
        for (what, value) in
            [("rss_anon_kb_most", most), ("rss_anon_kb", last), ("answers_kb", held), ("refused", refused)]
        {
            record.sample(["attack", name, "khz hub"], 0, what, value);
        }
        self.table.row([name.to_owned(), figure(most), figure(last), figure(held), figure(refused)]);
        let alone = *self.alone.get_or_insert(last);
        Ok(if name.starts_with("afterwards") { last - alone } else { most - alone })
    }
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let simulation = Simulation::start(&program, hub.link, (NODES, 1), 900, &[])?;
    simulation.wait_for_all()?;
    let table = Table::new(&["the hub", "most RssAnon kB", "at the end", "answers kB", "refused"]);
    let mut attacked = Attacked { hub: &hub, table, alone: None };
    // A block of every node must have ended before the hub holds its usual memory.
    attacked.phase(record, "coming in", || Ok(()))?;
    attacked.alone = None;
    attacked.phase(record, "left alone", || Ok(()))?;

    let mut readers = Readers::open(hub.http)?;
    let added = attacked.phase(record, "100 slow readers", || readers.read())?;
    bounded(record, "a hub with 100 slow readers: kB more than alone", added, ADDED_KB_MAX);
    drop(readers);
    let left = attacked.phase(record, "afterwards", || Ok(()))?;
    bounded(record, "after the readers: kB more than alone", left, LEFT_KB_MAX);

    let idle = open_idle(hub.http)?;
    let added = attacked.phase(record, "10 000 idle connections", || Ok(()))?;
    bounded(record, "a hub with 10,000 idle connections: kB more than alone", added, ADDED_KB_MAX);
    drop(idle);
    let left = attacked.phase(record, "afterwards again", || Ok(()))?;
    bounded(record, "after the connections: kB more than alone", left, LEFT_KB_MAX);
    record.show("## A hub of 1,500 nodes under attack", &attacked.table);
    record.say("Each slow reader asks for all of it (57 MB) and takes 13 kB a second. No history is kept.\n");
    Ok(())
}

fn bounded(record: &mut Record, promise: &str, value: f64, most: f64) {
    record.verdict(promise, Spread::of([value]), Bound::AtMost(most));
}

/// Clients that request everything and read slowly.
struct Readers(Vec<TcpStream>);

impl Readers {
    fn open(address: SocketAddr) -> Result<Self, BenchError> {
        let open = |number: usize| {
            let wrong = |e: std::io::Error| failed(format!("reader {number}"), e);
            let raw = socket(AddressFamily::INET, SocketType::STREAM, None).map_err(|e| wrong(e.into()))?;
            set_socket_recv_buffer_size(&raw, READER_ROOM).map_err(|e| wrong(e.into()))?;
            connect(&raw, &address).map_err(|e| wrong(e.into()))?;
            let mut stream = TcpStream::from(raw);
            let request = format!("GET /khz/v1/query?match=*:* HTTP/1.1\r\nHost: {address}\r\n\r\n");
            stream.write_all(request.as_bytes()).map_err(wrong)?;
            stream.set_nonblocking(true).map_err(wrong)?;
            Ok(stream)
        };
        (0..READERS).map(open).collect::<Result<Vec<_>, _>>().map(Readers)
    }

    /// Reads a little from each.
    fn read(&mut self) -> Result<(), BenchError> {
        let mut room = [0; PIECE];
        for stream in &mut self.0 {
            match stream.read(&mut room) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed("a slow reader", error)),
            }
        }
        Ok(())
    }
}
