//! The agent under attack at 1,000 Hz: first alone, then with ten thousand silent connections, half of them
//! in the middle of a request, then with streams that nobody reads. Ticks and memory must not change. Then a
//! hub with slow readers.

mod readers;

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::agent::{agent_command, announced, build_agent, sum_of};
use crate::error::BenchError;
use crate::http;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Idle connections, as after a port scan or from a broken client.
const CONNECTIONS: usize = 10_000;

/// Streams at the highest rate that are opened and never read.
const UNREAD_STREAMS: usize = 64;

/// Ticks a second.
const RATE: u64 = 1_000;

/// The share of the ticks it meets alone that it must meet under every attack.
const MET: f64 = 0.999;

/// Anonymous memory that the whole process may hold under attack, in kB: room for every connection that its
/// limits allow, each with a full buffer.
const ANONYMOUS_KB_MAX: f64 = 64_000.0;

/// The agent's own counts: ticks met, late, skipped; connections open and refused.
struct Counts {
    met: f64,
    late: f64,
    skipped: f64,
    refused: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let mut process = Watched::start(&mut agent_command(&program, RATE))?;
    let mut output = BufReader::new(process.output()?);
    let address = announced(&mut output)?;
    let span = Duration::from_secs(record.effort.of(20, 5));
    std::thread::sleep(Duration::from_millis(1_500));

    let mut table =
        Table::new(&["attack", "ticks met %", "late/1,000", "RssAnon kB", "CPU %", "turned away"]);
    let mut alone = None;
    let mut phase = |record: &mut Record, name: &str| -> Result<(), BenchError> {
        let (before, cpu_before) = (counts(address)?, process.counted()?.cpu_ns);
        std::thread::sleep(span);
        let (after, cpu_after) = (counts(address)?, process.counted()?.cpu_ns);
        let anonymous = process.held()?.anonymous_kb as f64;
        let (met, skipped) = (after.met - before.met, after.skipped - before.skipped);
        let share = met / (met + skipped);
        let late = (after.late - before.late) * 1_000.0 / met;
        let cpu = (cpu_after - cpu_before) as f64 / span.as_nanos() as f64 * 100.0;
        let figures =
            [("met", share), ("late_per_1000", late), ("rss_anon_kb", anonymous), ("cpu_percent", cpu)];
        figures.into_iter().for_each(|(what, value)| record.sample(["attack", name, "khz"], 0, what, value));
        table.row([
            name.to_owned(),
            format!("{:.2}", share * 100.0),
            figure(late),
            figure(anonymous),
            figure(cpu),
            figure(after.refused - before.refused),
        ]);
        let of_alone = share / *alone.get_or_insert(share);
        record.verdict(
            &format!("{name}: ticks met / left alone"),
            Spread::of([of_alone]),
            Bound::AtLeast(MET),
        );
        record.verdict(
            &format!("{name}: RssAnon in kB"),
            Spread::of([anonymous]),
            Bound::AtMost(ANONYMOUS_KB_MAX),
        );
        Ok(())
    };

    phase(record, "left alone")?;
    let idle = open_idle(address)?;
    phase(record, "10,000 idle connections")?;
    drop(idle);
    let unread = open_unread(address)?;
    phase(record, "64 unread streams")?;
    drop(unread);
    phase(record, "afterwards")?;

    process.end(output.into_inner())?;
    record.show("## The agent under attack, at 1,000 Hz", &table);
    record
        .say("Late and met ticks as the agent counts them. The attackers run on the same two processors.\n");
    readers::run(record)
}

fn counts(address: SocketAddr) -> Result<Counts, BenchError> {
    // Under attack the door may refuse this request too; then it tries again.
    let mut answer = http::get(address, "/metrics");
    for _ in 0..50 {
        if answer.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        answer = http::get(address, "/metrics");
    }
    let metrics = answer?;
    let number =
        |family| sum_of(&metrics, family).ok_or_else(|| failed("khz", format!("no {family} in /metrics")));
    Ok(Counts {
        met: number("khz_lane_rows_total")?,
        late: number("khz_lane_late_ticks_total")?,
        skipped: number("khz_lane_skipped_ticks_total")?,
        refused: number("khz_http_connections_refused_total")?,
    })
}

/// Silent connections, or connections with half a request.
fn open_idle(address: SocketAddr) -> Result<Vec<TcpStream>, BenchError> {
    let mut open = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let mut stream =
            TcpStream::connect(address).map_err(|e| failed(format!("connection {number}"), e))?;
        if number % 2 == 1 {
            // The door may have closed it already, which is allowed.
            let _ = stream.write_all(b"GET /khz/v1/query HTTP/1.1\r\nHost: ");
        }
        open.push(stream);
    }
    Ok(open)
}

/// Streams of everything at the highest rate, which nobody reads.
fn open_unread(address: SocketAddr) -> Result<Vec<TcpStream>, BenchError> {
    let mut open = Vec::with_capacity(UNREAD_STREAMS);
    for number in 0..UNREAD_STREAMS {
        let mut stream = TcpStream::connect(address).map_err(|e| failed(format!("stream {number}"), e))?;
        let request = format!("GET /khz/v1/stream?match=*&rate={RATE}Hz HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
        open.push(stream);
    }
    Ok(open)
}
