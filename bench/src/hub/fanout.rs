//! One node at 100 Hz and a thousand readers of everything: the hub's CPU, and whether every reader gets
//! every row.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Duration;

use super::cluster::{Hub, Simulation};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

const RATE: u64 = 100;
const READERS: [u64; 3] = [1, 100, 1_000];
/// Share of one core.
const CORE_MAX: f64 = 0.6;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let mut table =
        Table::new(&["readers", "hub, share of a core", "quartiles", "us/row", "rows/s", "rows lost"]);
    for readers in READERS {
        let mut shares = Vec::new();
        let (mut rows, mut lost) = (0.0, 0);
        for turn in 0..record.effort.of(5, 1) {
            record.progress(&format!("{readers} readers, turn {}", turn + 1));
            let (share, rate, gone) = watch(&program, readers, record.effort.of(20, 5))?;
            record.sample(["fanout", &format!("{readers} readers"), "khz"], turn, "share_of_core", share);
            record.sample(["fanout", &format!("{readers} readers"), "khz"], turn, "rows_per_second", rate);
            shares.push(share);
            (rows, lost) = (rate, lost + gone);
        }
        let Some(share) = Spread::of(shares) else { continue };
        table.row([
            readers.to_string(),
            figure(share.median),
            format!("{}..{}", figure(share.lower), figure(share.upper)),
            figure(share.median * 1e6 / rows),
            thousands(rows),
            thousands(lost as f64),
        ]);
        if readers == 1_000 {
            record.verdict("1,000 readers: share of a core", Some(share), Bound::AtMost(CORE_MAX));
            record.verdict("1,000 readers: rows lost", Spread::of([lost as f64]), Bound::AtMost(0.0));
        }
    }
    record.show("## One node at 100 Hz to many readers on links", &table);
    Ok(())
}

/// The hub's share of a core, the rows that it sent in a second, and the rows that readers lost.
fn watch(program: &std::path::Path, readers: u64, seconds: u64) -> Result<(f64, f64, u64), BenchError> {
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let simulation =
        Simulation::start(program, hub.link, (1, RATE), seconds + 60, &["--workload", "compile"])?;
    simulation.wait_for_all()?;
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let words = [hub.link.to_string(), readers.to_string(), RATE.to_string(), "flushed".into(), "*".into()];
    let mut drain = Watched::start(Command::new(own).args(["part", "drain"]).args(words))?;
    let mut output = BufReader::new(drain.output()?);
    let mut line = String::new();
    while line.trim() != readers.to_string() {
        line.clear();
        if output.read_line(&mut line).map_err(|e| failed("the readers", e))? == 0 {
            return Err(failed("the readers", "ended"));
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    let (rows, cpu) = (hub.count("khz_hub_reader_rows_total")?, hub.process.counted()?.cpu_ns);
    std::thread::sleep(Duration::from_secs(seconds));
    let cpu = hub.process.counted()?.cpu_ns - cpu;
    let rows = hub.count("khz_hub_reader_rows_total")? - rows;
    let lost = hub.count("khz_hub_reader_rows_lost_total")?;
    drop(simulation);
    Ok((cpu as f64 / 1e9 / seconds as f64, rows as f64 / seconds as f64, lost))
}
