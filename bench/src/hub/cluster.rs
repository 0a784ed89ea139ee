//! A hub and a simulation as separate processes, started as users start them; and the counts of both.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::sum_of;
use crate::error::BenchError;
use crate::http;
use crate::program::failed;
use crate::watched::Watched;

/// Slots of every row.
pub const SLOTS: u64 = 300;

/// Slots of a node with everything that khz gathers by default, and to spare.
pub const SLOTS_OF_ALL: u64 = 1_000;

/// Longest time for thousands of nodes to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// A `khz hub`.
pub struct Hub {
    /// The process.
    pub process: Watched,
    /// The address for nodes and for readers on links.
    pub link: SocketAddr,
    /// The address of its metrics.
    pub http: SocketAddr,
    /// The address of its text door, if it has one.
    text: Option<SocketAddr>,
    // Kept open and not read: it writes no more.
    _output: BufReader<ChildStdout>,
}

impl Hub {
    /// Starts a hub at these addresses (port 0: a free one).
    pub fn start(program: &Path, link: &str, http: &str, more: &[&str]) -> Result<Self, BenchError> {
        Hub::start_by(Command::new(program), link, http, more)
    }

    /// The same with a command that runs the program.
    pub fn start_by(mut command: Command, link: &str, http: &str, more: &[&str]) -> Result<Self, BenchError> {
        command.args(["hub", "--quiet", "--log", "error", "--node", "khz-bench-hub"]);
        if !more.contains(&"--state-dir") {
            command.args(["--state-dir", "none"]);
        }
        command.args(["--link-listen", link, "--listen", http]).args(more);
        let mut process = Watched::start(&mut command)?;
        let mut output = BufReader::new(process.output()?);
        let mut line = String::new();
        output.read_line(&mut line).map_err(|e| failed("khz hub", e))?;
        let addresses = addresses_in(&line);
        let [link, http] = addresses[..] else { return Err(failed("khz hub", format!("it said '{line}'"))) };
        let speaks =
            more.iter().zip(more.iter().skip(1)).any(|(flag, at)| *flag == "--text-listen" && *at != "none");
        let text = if speaks { Some(text_door(&mut output)?) } else { None };
        Ok(Hub { process, link, http, text, _output: output })
    }

    /// The address of its text door.
    pub fn text(&self) -> Result<SocketAddr, BenchError> {
        self.text.ok_or_else(|| failed("khz hub", "it has no text door"))
    }

    /// The sum of a family in its metrics.
    pub fn count(&self, family: &str) -> Result<u64, BenchError> {
        let metrics = http::get(self.http, "/metrics")?;
        let count =
            sum_of(&metrics, family).ok_or_else(|| failed("khz hub", format!("it has no {family}")))?;
        Ok(count as u64)
    }
}

/// The address of the text door, in the lines that a daemon prints next.
pub fn text_door(output: &mut impl BufRead) -> Result<SocketAddr, BenchError> {
    let mut line = String::new();
    while output.read_line(&mut line).map_err(|e| failed("khz", e))? > 0 {
        if let Some(address) = line.trim_end().strip_prefix("Text door: ") {
            return address.parse().map_err(|e| failed("khz", format!("'{line}': {e}")));
        }
        line.clear();
    }
    Err(failed("khz", "it ended without a text door"))
}

/// The addresses in `... report to 127.0.0.1:7071 at http://127.0.0.1:7070/`.
fn addresses_in(line: &str) -> Vec<SocketAddr> {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']');
    line.split(|c| !is_part(c)).filter_map(|word| word.trim_matches(':').parse().ok()).collect()
}

/// A `khz simulate`.
pub struct Simulation {
    /// The process.
    pub process: Watched,
    /// Its reports as they come; old ones are dropped.
    reports: Receiver<Played>,
}

/// A report of a simulation.
#[derive(Clone, Debug)]
pub struct Played(Value);

impl Played {
    /// One of its numbers.
    pub fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX)
    }
}

impl Simulation {
    /// Starts a simulation that plays for this many seconds.
    pub fn start(
        program: &Path,
        hub: SocketAddr,
        (nodes, rate): (u64, u64),
        seconds: u64,
        more: &[&str],
    ) -> Result<Self, BenchError> {
        Simulation::start_with_slots(program, hub, (nodes, rate), SLOTS, seconds, more)
    }

    /// The same with this many slots in a row.
    pub fn start_with_slots(
        program: &Path,
        hub: SocketAddr,
        (nodes, rate): (u64, u64),
        slots: u64,
        seconds: u64,
        more: &[&str],
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(program);
        command.args(["simulate", "--json", "--hub", &hub.to_string()]);
        command.args(["--nodes", &nodes.to_string(), "--rate", &rate.to_string()]);
        command.args(["--slots", &slots.to_string(), "--for", &format!("{seconds}s")]).args(more);
        // Errors about refused connections after a killed hub are expected.
        let mut process = Watched::start(command.stderr(Stdio::null()))?;
        let output = BufReader::new(process.output()?);
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            let parsed = lines.map_while(|line| serde_json::from_str(&line).ok());
            // Ends with the process, or when the receiver is gone.
            parsed.take_while(|value: &Value| sender.send(Played(value.clone())).is_ok()).for_each(drop);
        });
        Ok(Simulation { process, reports })
    }

    /// The next report, at most a second from now; skips earlier ones.
    pub fn next(&self) -> Result<Played, BenchError> {
        while self.reports.try_recv().is_ok() {}
        self.reports.recv_timeout(PATIENCE).map_err(|_| failed("khz simulate", "it ended, or says nothing"))
    }

    /// Waits until all nodes are up.
    pub fn wait_for_all(&self) -> Result<Played, BenchError> {
        let start = Instant::now();
        loop {
            let report = self.next()?;
            if report.number("connected") == report.number("nodes") {
                return Ok(report);
            }
            if start.elapsed() > PATIENCE {
                return Err(failed("khz simulate", format!("after {PATIENCE:?}: {:?}", report.0)));
            }
        }
    }

    /// Waits for its end; returns the last report.
    pub fn last(&self) -> Result<Played, BenchError> {
        self.reports.iter().last().ok_or_else(|| failed("khz simulate", "it has said nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_addresses_are_found_in_what_a_hub_says() {
        let line =
            "Kilohertz is watching the nodes that report to 127.0.0.1:7071 at http://127.0.0.1:7070/\n";
        let expected = ["127.0.0.1:7071", "127.0.0.1:7070"].map(|text| text.parse().unwrap());
        assert_eq!(addresses_in(line), expected);
    }
}
