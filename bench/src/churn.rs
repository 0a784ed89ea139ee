//! What instances that come and go cost an agent: two agents at 1 Hz on made-up hosts, side by side. The interfaces of one
//! host stay; those of the other come and go at ten thousand an hour. CPU a tick, memory.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use khz_synthetic_host::{Host, Shape};

use crate::agent::{announced, build_agent};
use crate::error::BenchError;
use crate::place::Pinned;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Ten thousand an hour: this many new interfaces in each turn of nine seconds.
const NEW_A_TURN: u64 = 25;

/// One interface lives for this many turns: two minutes.
const TURNS_OF_LIFE: u64 = 13;

/// How long a turn takes: interfaces change at its beginning.
const TURN: Duration = Duration::from_secs(9);

/// Before this turn the agents start, grow, and fill their rings' first pages.
const WARM_UP: usize = 2;

/// A made-up host in a folder, removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Result<Self, BenchError> {
        let place = Place(std::env::temp_dir().join(format!("khz-churn-{name}-{}", std::process::id())));
        let shape = Shape { cpus: 2, interrupts: 4, interfaces: 1, disks: 1 };
        Host::new(shape, 2026).write(&place.0).map_err(BenchError::file(&place.0))?;
        Ok(place)
    }

    /// The host has these interfaces now. The file is written in place, since the agent keeps it open.
    fn show(&self, interfaces: impl Iterator<Item = u64>, turn: u64) -> Result<(), BenchError> {
        let mut text =
            String::from("Inter-|   Receive                                                |  Transmit\n");
        text += " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";
        for n in interfaces {
            text += &format!(" veth{n}: {} {turn} 0 0 0 0 0 0 2 3 0 0 0 0 0 0\n", n * 1_000 + turn);
        }
        let path = self.0.join("proc/net/dev");
        let written = fs::OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        });
        written.map_err(BenchError::file(&path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An agent on a made-up host.
struct Agent {
    name: &'static str,
    place: Place,
    process: Watched,
    cpu_before: u64,
    /// CPU of each turn, in us a tick.
    costs: Vec<f64>,
    /// Memory at the end of each turn, in kB.
    memory: Vec<f64>,
}

impl Agent {
    fn start(program: &Path, name: &'static str, place: Place) -> Result<Self, BenchError> {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--node", name, "--quiet"]);
        command.args(["--text-listen", "none", "--sources", "net/dev=1Hz", "--root"]).arg(&place.0);
        let mut process = Watched::start(&mut command)?;
        let mut output = BufReader::new(process.output()?);
        announced(&mut output)?;
        // Its messages are read to the end, so that it never waits for us.
        std::thread::spawn(move || output.lines().count());
        Ok(Agent { name, place, process, cpu_before: 0, costs: Vec::new(), memory: Vec::new() })
    }

    fn begin_turn(&mut self) -> Result<(), BenchError> {
        self.cpu_before = self.process.counted()?.cpu_ns;
        Ok(())
    }

    fn end_turn(&mut self, record: &mut Record, turn: usize) -> Result<(), BenchError> {
        // A thread that ends takes its time with it; that happens at the start only.
        let used = self.process.counted()?.cpu_ns.saturating_sub(self.cpu_before);
        let cost = used as f64 / 1e3 / TURN.as_secs_f64();
        let memory = self.process.held()?.anonymous_kb as f64;
        for (what, value) in [("cpu_us", cost), ("rss_anon_kb", memory)] {
            record.sample(["churn", "1 Hz", self.name], turn, what, value);
        }
        if turn >= WARM_UP {
            self.costs.push(cost);
            self.memory.push(memory);
        }
        Ok(())
    }
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let _pinned = Pinned::here()?;
    let turns = record.effort.of(100, 10);
    let mut alive: VecDeque<u64> = (0..NEW_A_TURN * TURNS_OF_LIFE).collect();
    let places = [Place::new("still")?, Place::new("churn")?];
    for place in &places {
        place.show(alive.iter().copied(), 0)?;
    }
    let [still, churn] = places;
    let mut agents = [Agent::start(&program, "still", still)?, Agent::start(&program, "churn", churn)?];
    for turn in 0..turns {
        record.progress(&format!("turn {} of {turns}", turn + 1));
        let end = Instant::now() + TURN;
        for agent in &mut agents {
            agent.begin_turn()?;
        }
        agents[0].place.show(0..NEW_A_TURN * TURNS_OF_LIFE, turn as u64)?;
        alive.drain(..NEW_A_TURN as usize);
        let next = alive.back().map_or(0, |last| last + 1);
        alive.extend(next..next + NEW_A_TURN);
        agents[1].place.show(alive.iter().copied(), turn as u64)?;
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        for agent in &mut agents {
            agent.end_turn(record, turn)?;
        }
    }
    show(record, &agents);
    Ok(())
}

fn show(record: &mut Record, agents: &[Agent; 2]) {
    let mut table = Table::new(&["interfaces", "us/tick", "quartiles", "RssAnon, first", "last"]);
    for agent in agents {
        let Some(cost) = Spread::of(agent.costs.iter().copied()) else { continue };
        table.row([
            agent.name.to_owned(),
            figure(cost.median),
            format!("{}..{}", figure(cost.lower), figure(cost.upper)),
            figure(agent.memory.first().copied().unwrap_or(f64::NAN)),
            figure(agent.memory.last().copied().unwrap_or(f64::NAN)),
        ]);
    }
    record.show("## Interfaces that stay, and interfaces that come and go at 10,000 an hour", &table);
    let [still, churn] = agents;
    let times = Spread::of(ratios(&churn.costs, &still.costs));
    record.verdict("CPU a tick, coming and going / staying", times, Bound::Stated);
    // The first third of the turns against the last: what grows without end grows here.
    let third = churn.memory.len() / 3;
    let growth = match (
        Spread::of(churn.memory[..third].iter().copied()),
        Spread::of(churn.memory[2 * third..].iter().copied()),
    ) {
        (Some(first), Some(last)) => Spread::of([last.median - first.median]),
        _ => None,
    };
    record.verdict("RssAnon in kB, last third of the turns - first", growth, Bound::Stated);
}
