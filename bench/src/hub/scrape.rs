//! How evenly counters grow over scrapes: khz through a hub and khz alone beside Debian's node_exporter, all
//! scraped at the same interval: every two seconds, then every 15 s as Prometheus does by default. Prometheus'
//! `irate` of them spreads as much as the age of the numbers varies.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cluster::Hub;
use crate::agent::{announced, build_agent};
use crate::error::BenchError;
use crate::http;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};
use crate::watched::Watched;

/// The spread may be at most this multiple of node_exporter's own.
const WIDER: f64 = 1.5;

/// The scraped programs; the others are compared with node_exporter.
const WHO: [&str; 3] = ["node_exporter", "khz through a hub", "khz alone"];

/// A counter as a rate. The sum over all modes is the CPU's own clock: it grows by one second a second
/// whatever the machine does, so all its spread comes from the scrape.
const CLOCK: &str = "cpu 0 in all modes";

/// The name of Debian's program.
const NODE_EXPORTER: &str = "prometheus-node-exporter";

/// Seconds between two scrapes; and how many scrapes, in a full run and in a quick one.
const INTERVALS: [(u64, usize, usize); 2] = [(2, 150, 30), (15, 31, 5)];

/// The value, and when the scrape began: the time that Prometheus gives a sample.
struct Scrape {
    at: Duration,
    clock: f64,
    took: Duration,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let (exporter, exporter_at) = node_exporter()?;
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let _agent = agent(&program, hub.link)?;
    let (_alone, alone_at) = alone(&program)?;
    let doors = [(exporter_at, "/metrics"), (hub.http, "/metrics?node=n1"), (alone_at, "/metrics")];
    for (address, path) in doors {
        wait_for(address, path)?;
    }
    for (seconds, full, quick) in INTERVALS {
        let all = scrape_all(record, &doors, seconds, record.effort.of(full, quick))?;
        show(record, &all, seconds);
    }
    drop(exporter);
    Ok(())
}

/// Debian's node_exporter at a free port, with its default collectors.
pub fn node_exporter() -> Result<(Watched, SocketAddr), BenchError> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.map_err(|e| failed(NODE_EXPORTER, e))?;
    let mut command = Command::new(NODE_EXPORTER);
    command.arg(format!("--web.listen-address={address}")).stderr(Stdio::null());
    let process = Watched::start(&mut command)
        .map_err(|error| failed(format!("{NODE_EXPORTER} (Debian package {NODE_EXPORTER})"), error))?;
    Ok((process, address))
}

/// An agent `n1` of this hub.
pub fn agent(program: &Path, link: SocketAddr) -> Result<Watched, BenchError> {
    let mut command = Command::new(program);
    command.args(["agent", "--quiet", "--log", "error", "--node", "n1", "--ring-dir", "none"]);
    Watched::start(command.args(["--hub", &link.to_string()]))
}

fn alone(program: &Path) -> Result<(Watched, SocketAddr), BenchError> {
    let mut command = Command::new(program);
    command.args(["--quiet", "--log", "error", "--node", "n2", "--ring-dir", "none"]);
    let mut process = Watched::start(command.args(["--listen", "127.0.0.1:0", "--text-listen", "none"]))?;
    let mut output = std::io::BufReader::new(process.output()?);
    let address = announced(&mut output)?;
    Ok((process, address))
}

/// Waits until the program answers with the counter.
pub fn wait_for(address: SocketAddr, path: &str) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        match http::get(address, path).map(|text| clock_in(&text)) {
            Ok(Some(_)) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(30) => return Err(error),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Scrapes all programs at each interval, beginning with another one each time.
fn scrape_all(
    record: &mut Record,
    doors: &[(SocketAddr, &str)],
    seconds: u64,
    scrapes: usize,
) -> Result<Vec<Vec<Scrape>>, BenchError> {
    let mut all: Vec<Vec<Scrape>> = doors.iter().map(|_| Vec::new()).collect();
    let start = Instant::now();
    let case = case(seconds);
    for turn in 0..scrapes {
        std::thread::sleep(
            (start + Duration::from_secs(seconds) * turn as u32).saturating_duration_since(Instant::now()),
        );
        for who in (0..doors.len()).map(|n| (turn + n) % doors.len()) {
            let (address, path) = doors[who];
            let (began, at) = (Instant::now(), start.elapsed());
            let text = http::get(address, path)?;
            let took = began.elapsed();
            let clock = clock_in(&text).ok_or_else(|| failed(WHO[who], "no node_cpu_seconds_total"))?;
            for (what, value) in [("at", at.as_secs_f64()), ("value", clock), ("took", took.as_secs_f64())] {
                record.sample(["scrape", &case, WHO[who]], turn, what, value);
            }
            all[who].push(Scrape { at, clock, took });
        }
        record.progress(&format!("every {seconds} s, scrape {} of {scrapes}", turn + 1));
    }
    Ok(all)
}

/// The time of CPU 0 in all modes; the users' time includes the guests'.
fn clock_in(text: &str) -> Option<f64> {
    let is_one = |line: &&str| {
        line.starts_with("node_cpu_seconds_total{") && line.contains("cpu=\"0\"") && line.contains("mode=")
    };
    let values: Option<Vec<f64>> =
        text.lines().filter(is_one).map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
}

/// The value of `irate` at each scrape.
fn rates(scrapes: &[Scrape]) -> Vec<f64> {
    let rate = |pair: &[Scrape]| (pair[1].clock - pair[0].clock) / (pair[1].at - pair[0].at).as_secs_f64();
    scrapes.windows(2).map(rate).collect()
}

fn deviation(rates: &[f64]) -> f64 {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (squares / (rates.len() - 1) as f64).sqrt()
}

/// What is scraped, and how often.
fn case(seconds: u64) -> String {
    format!("{CLOCK} every {seconds} s")
}

fn show(record: &mut Record, all: &[Vec<Scrape>], seconds: u64) {
    let mut table = Table::new(&["who", "mean", "sd of irate", "median ms a scrape"]);
    let deviations: Vec<f64> = all.iter().map(|scrapes| deviation(&rates(scrapes))).collect();
    for (who, scrapes) in all.iter().enumerate() {
        let rates = rates(scrapes);
        let took = Spread::of(scrapes.iter().map(|scrape| scrape.took.as_secs_f64() * 1e3));
        table.row([
            WHO[who].to_owned(),
            format!("{:.4}", rates.iter().sum::<f64>() / rates.len() as f64),
            format!("{:.5}", deviations[who]),
            took.map_or_else(String::new, |took| figure(took.median)),
        ]);
    }
    record.show(&format!("## The spread of irate over scrapes: {}", case(seconds)), &table);
    for who in 1..WHO.len() {
        let wider = Spread::of([deviations[who] / deviations[0]]);
        let promise = format!("{}: sd of irate / node_exporter's, every {seconds} s", WHO[who]);
        record.verdict(&promise, wider, Bound::AtMost(WIDER));
    }
    record
        .say("All are scraped at once, in turns, by one thread; a sample's time is when its scrape began.\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_sum_over_the_modes_of_the_first_cpu() {
        let text = "# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 90.5\n\
                    node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 9.25\nnode_cpu_seconds_total{cpu=\"1\",mode=\"user\"} 7\n\
                    node_cpu_guest_seconds_total{cpu=\"0\",mode=\"user\"} 1\n";
        assert_eq!(clock_in(text), Some(99.75));
        assert_eq!(clock_in("node_load1 3\n"), None);
    }

    #[test]
    fn an_even_counter_has_no_spread() {
        let scrape =
            |seconds: u64, clock| Scrape { at: Duration::from_secs(seconds), clock, took: Duration::ZERO };
        let even = [scrape(0, 5.0), scrape(2, 7.0), scrape(4, 9.0)];
        assert_eq!((rates(&even), deviation(&rates(&even))), (vec![1.0, 1.0], 0.0));
        let late = [scrape(0, 5.0), scrape(2, 6.5), scrape(4, 9.0)];
        assert_eq!(rates(&late), [0.75, 1.25]);
    }
}
