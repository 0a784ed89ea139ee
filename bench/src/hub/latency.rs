//! The time from a publisher's write of a row until a reader has it from the hub, row by row at 1,000 Hz.
//! Takes turns with two plain TCP hops that carry as many bytes. Publisher and reader share one process and
//! one clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use khz_block::{Decoder, SchemaEncoder, Step};
use khz_link::frame::{kind, split};
use khz_link::limits::FRAME_MAX;
use khz_link::{Ask, Beat, Frame, Role, Want};
use khz_model::{Nanos, Series};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::cluster::{Hub, SLOTS};
use super::hello::greet;
use super::publisher::Publisher;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile, ratios};
use crate::table::{Table, figure};
use crate::watched::Watched;

const PERIOD: Nanos = Nanos::from_millis(1);
/// Rows before those that count.
const SETTLING: usize = 500;
/// The average size of a row in the hub's turns.
const MESSAGE: usize = 100;
const TIMES: f64 = 2.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let rows = record.effort.of(5_000, 1_500);
    let mut found: [Vec<[f64; 2]>; 2] = Default::default();
    for group in 0..record.effort.of(10, 2) {
        record.progress(&format!("group {} of {}", group + 1, record.effort.of(10, 2)));
        for (place, side) in [0, 1, 1, 0].into_iter().enumerate() {
            let mut times = if side == 0 { hops(rows)? } else { hub(&program, rows)? };
            times.sort_by(f64::total_cmp);
            let both = [quantile(&times, 0.5), quantile(&times, 0.99)];
            for (what, value) in ["p50_us", "p99_us"].into_iter().zip(both) {
                let who = ["hops", "khz"][side];
                record.sample(["latency", "1000 Hz", who], group * 4 + place, what, value);
            }
            found[side].push(both);
        }
    }
    let mut table = Table::new(&["microseconds", "two hops", "hub", "x hops", "quartiles"]);
    for (index, name) in ["p50", "p99"].into_iter().enumerate() {
        let [hops, hub] = [0, 1].map(|side| found[side].iter().map(|both| both[index]).collect::<Vec<_>>());
        let times = Spread::of(ratios(&hub, &hops));
        let (Some(hops), Some(hub), Some(times)) = (Spread::of(hops), Spread::of(hub), times) else {
            continue;
        };
        table.row([
            name.to_owned(),
            figure(hops.median),
            figure(hub.median),
            figure(times.median),
            format!("{}..{}", figure(times.lower), figure(times.upper)),
        ]);
        record.verdict(&format!("publish to reader, {name} / two hops"), Some(times), Bound::AtMost(TIMES));
    }
    record.show("## One node at 1,000 Hz, row by row, to a reader", &table);
    Ok(())
}

fn boot() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Calls `say` every millisecond until it returns `false`.
fn each_tick(mut say: impl FnMut(Nanos) -> bool) {
    let mut tick = boot().0 / PERIOD.0;
    loop {
        tick += 1;
        let next = tick * PERIOD.0;
        let time = Timespec { tv_sec: (next / 1_000_000_000) as i64, tv_nsec: (next % 1_000_000_000) as i64 };
        let _ = clock_nanosleep_absolute(rustix::thread::ClockId::Boottime, &time);
        if !say(boot()) {
            return;
        }
    }
}

/// The microseconds that each message took over two plain hops.
fn hops(rows: usize) -> Result<Vec<f64>, BenchError> {
    let wrong = |e: std::io::Error| failed("two hops", e);
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let mut relay = Watched::start(Command::new(own).args(["part", "relay"]))?;
    let mut line = String::new();
    BufReader::new(relay.output()?).read_line(&mut line).map_err(wrong)?;
    let address: SocketAddr = line.trim().parse().map_err(|_| failed("two hops", "no address"))?;
    let mut publisher = TcpStream::connect(address).map_err(wrong)?;
    publisher.set_nodelay(true).map_err(wrong)?;
    // The relay accepts it second.
    let mut reader = TcpStream::connect(address).map_err(wrong)?;
    reader.set_read_timeout(Some(Duration::from_secs(5))).map_err(wrong)?;
    let count = rows + SETTLING;
    let said = std::thread::spawn(move || {
        let (mut message, mut left) = ([0; MESSAGE], count);
        each_tick(|now| {
            message[..8].copy_from_slice(&now.0.to_le_bytes());
            left -= 1;
            publisher.write_all(&message).is_ok() && left > 0
        });
        // The connection stays open until everything is read.
        publisher
    });
    let (mut times, mut message) = (Vec::with_capacity(count), [0; MESSAGE]);
    for _ in 0..count {
        reader.read_exact(&mut message).map_err(wrong)?;
        let mut stamp = [0; 8];
        stamp.copy_from_slice(&message[..8]);
        times.push(boot().since(Nanos(u64::from_le_bytes(stamp))).0 as f64 / 1e3);
    }
    drop(said.join());
    Ok(times.split_off(SETTLING))
}

/// The microseconds that each row took over the hub.
fn hub(program: &std::path::Path, rows: usize) -> Result<Vec<f64>, BenchError> {
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let mut publisher = Publisher::connect(hub.link, &schema()?, PERIOD)?;
    publisher.say(boot())?;
    let mut reader = Reader::connect(hub.link)?;
    publisher.serve_interest()?;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let said = std::thread::spawn(move || {
        each_tick(|now| publisher.say(now).is_ok() && stopped.try_recv().is_err());
    });
    let mut times = Vec::new();
    while times.len() < rows + SETTLING {
        reader.read(&mut times)?;
    }
    let _ = stop.send(());
    let _ = said.join();
    times.truncate(rows + SETTLING);
    Ok(times.split_off(SETTLING))
}

/// Some series of the catalogue.
fn schema() -> Result<Vec<u8>, BenchError> {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    let instances = (0u32..).flat_map(|number| {
        let instance = khz_model::Instance::from_kernel(number.to_string().as_bytes());
        let metrics = khz_parse::catalogue().into_iter().filter(|metric| metric.instances.is_some());
        metrics.map(move |metric| Series { metric, instance: Some(instance.clone()) })
    });
    for series in instances.take(SLOTS as usize) {
        encoder.append(&series, &mut bytes).map_err(|e| failed("the schema", e))?;
    }
    Ok(bytes)
}

/// A reader that decodes every row at once.
struct Reader {
    socket: TcpStream,
    cut: Vec<u8>,
    block: Vec<u8>,
    decoder: Decoder,
    room: Vec<u8>,
    beaten: Nanos,
}

impl Reader {
    fn connect(hub: SocketAddr) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("the reader", e);
        let mut socket = TcpStream::connect(hub).map_err(wrong)?;
        socket.set_nodelay(true).map_err(wrong)?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(wrong)?;
        let mut out = Vec::new();
        greet(&socket, hub, (Role::Operator, "reader"), 4, &mut out)?;
        Ask { number: 1, period: PERIOD, prompt: true, patterns: &["*"], ..Ask::default() }.put(&mut out);
        socket.write_all(&out).map_err(wrong)?;
        let room = vec![0; 64 << 10];
        let (cut, block, decoder) = (Vec::new(), Vec::new(), Decoder::new());
        Ok(Reader { socket, cut, block, decoder, room, beaten: boot() })
    }

    /// Reads once, and records how long each received row took.
    fn read(&mut self, times: &mut Vec<f64>) -> Result<(), BenchError> {
        let wrong = |problem: &dyn std::fmt::Display| failed("the reader", problem);
        let read = self.socket.read(&mut self.room).map_err(|e| wrong(&e))?;
        if read == 0 {
            return Err(wrong(&"the hub has closed the connection"));
        }
        self.cut.extend_from_slice(&self.room[..read]);
        let (mut at, mut out) = (0, Vec::new());
        if boot().since(self.beaten) >= Nanos::SECOND {
            self.beaten = boot();
            Beat { stamp: 1, round_trip: None, offset: 0, retransmits: 0 }.put(&mut out);
        }
        while let Some(frame) = split(&self.cut[at..], FRAME_MAX).map_err(|e| wrong(&e))? {
            at += frame.length;
            match Frame::decode(frame.kind, frame.body).map_err(|e| wrong(&e))? {
                Frame::Lane(offer) => {
                    Want { epoch: offer.epoch, from_row: offer.next_row, prompt: true, ..Want::default() }
                        .put(offer.lane, &mut out);
                }
                Frame::Block { bytes, .. } => {
                    self.block.clear();
                    self.block.extend_from_slice(bytes);
                }
                Frame::Rows { bytes, .. } => self.block.extend_from_slice(bytes),
                _ => {}
            }
            if matches!(frame.kind, kind::BLOCK | kind::ROWS) {
                let mut done = 0;
                while let Step::Header(length) | Step::Row(length) =
                    self.decoder.step(&self.block[done..]).map_err(|e| wrong(&e))?
                {
                    let is_row = self.block[done] != b'k';
                    done += length;
                    if is_row {
                        times.push(boot().since(self.decoder.stamp().boot).0 as f64 / 1e3);
                    }
                }
                self.block.drain(..done);
            }
        }
        self.cut.drain(..at);
        self.socket.write_all(&out).map_err(|e| wrong(&e))
    }
}
