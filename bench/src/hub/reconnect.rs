//! Thousands of nodes whose hub is killed and restarted: how long until all are back, and whether the new hub
//! gets every row in the nodes' rings.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::cluster::{Hub, Simulation};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

const NODES: u64 = 4_096;
const RATE: u64 = 100;
/// All must be back within this many seconds.
const BACK_MAX: f64 = 5.0;
/// How many seconds the hub is away.
const AWAY: [u64; 2] = [1, 10];
/// Seconds of rows in the rings when the hub is killed.
const BEFORE: u64 = 10;
/// Seconds for the backfill, whose rate is limited.
const AFTER: u64 = 40;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let mut table =
        Table::new(&["hub away, s", "all back after, s", "quartiles", "rows", "lost", "not acknowledged"]);
    for away in AWAY {
        let (mut times, mut sums) = (Vec::new(), [0u64; 3]);
        for turn in 0..record.effort.of(3, 1) {
            record.progress(&format!("hub away {away} s, turn {}", turn + 1));
            let (back, counts) = restart(&program, away)?;
            record.sample(["reconnect", &format!("{away} s"), "khz"], turn, "all_back_s", back);
            times.push(back);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let Some(time) = Spread::of(times) else { continue };
        let [rows, lost, unacknowledged] = sums;
        table.row([
            away.to_string(),
            figure(time.median),
            format!("{}..{}", figure(time.lower), figure(time.upper)),
            thousands(rows as f64),
            thousands(lost as f64),
            thousands(unacknowledged as f64),
        ]);
        record.verdict(
            &format!("{NODES} nodes back, hub away {away} s"),
            Some(time),
            Bound::AtMost(BACK_MAX),
        );
        let gone = (lost + unacknowledged) as f64;
        record.verdict(
            &format!("rows not at the new hub, away {away} s"),
            Spread::of([gone]),
            Bound::AtMost(0.0),
        );
    }
    record.show("## All nodes after their hub was killed", &table);
    record.say(
        "Seconds from the start of the new hub's process to the last welcome. The new hub remembers nothing: every\n\
         row since the nodes began comes out of their rings, and is acknowledged.\n",
    );
    Ok(())
}

/// Seconds until all were back; rows made, lost, and not acknowledged by the new hub.
fn restart(program: &std::path::Path, away: u64) -> Result<(f64, [u64; 3]), BenchError> {
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &[])?;
    let (link, http): (SocketAddr, SocketAddr) = (hub.link, hub.http);
    let seconds = 10 + BEFORE + away + AFTER;
    let simulation = Simulation::start(program, link, (NODES, RATE), seconds, &[])?;
    simulation.wait_for_all()?;
    std::thread::sleep(Duration::from_secs(BEFORE));
    // Killed with SIGKILL: it closes nothing itself.
    drop(hub);
    std::thread::sleep(Duration::from_secs(away));
    let started = boot_ns();
    let _hub = Hub::start(program, &link.to_string(), &http.to_string(), &[])?;
    let back = loop {
        let report = simulation.next()?;
        let all = report.number("connected") == NODES;
        if all && report.number("all_up_at_ns") > started {
            break report.number("all_up_at_ns") - started;
        }
    };
    let last = simulation.last()?;
    let counts = ["rows", "lost", "unacknowledged"].map(|name| last.number(name));
    Ok((back as f64 / 1e9, counts))
}

fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
