//! What a daemon accepts (section `accept`) and writes (section `drain`): updates a second with a log on
//! disk, sorted and shuffled, over one and sixteen connections; memory per file and per pending value; the
//! time until everything is written.
//!
//! Both daemons run all the time and take turns, each with its own files.

use std::time::Duration;

use super::client::batches;
use super::daemons::{CONNECTIONS, Daemon, Setup, Side};
use super::tree::{START, STEP, Tree, shuffled};
use crate::error::BenchError;
use crate::program::build_directory;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// Pending values of each file when a drain is measured.
const PENDING: i64 = 12;

/// One daemon, with its files and its time.
struct Contender {
    daemon: Daemon,
    paths: Vec<std::path::PathBuf>,
    shuffled: Vec<std::path::PathBuf>,
    time: i64,
}

/// The duration of one turn.
#[derive(Clone, Copy, Default)]
struct Turn {
    wall_s: f64,
    cpu_s: f64,
}

/// Runs the section `accept`.
pub fn accepted(record: &mut Record) -> Result<(), BenchError> {
    each_size(record, |record, both, files| {
        memory(record, both, files)?;
        accept(record, both, files)
    })
}

/// Runs the section `drain`.
pub fn drained(record: &mut Record) -> Result<(), BenchError> {
    each_size(record, drains)
}

fn each_size(
    record: &mut Record,
    run: impl Fn(&mut Record, &mut [Contender], usize) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for &files in record.effort.of(&[10_000, 100_000][..], &[2_000][..]) {
        let tree = Tree::fresh(record, 2 * files)?;
        let folder = build_directory()?.join("bench-rrd-daemons");
        let mut both = [Side::Theirs, Side::Ours]
            .into_iter()
            .enumerate()
            .map(|(number, side)| {
                let paths = tree.paths()[number * files..(number + 1) * files].to_vec();
                let shuffled = shuffled(&paths);
                let daemon = Daemon::start(Setup::fresh(side, &folder)?)?;
                Ok(Contender { daemon, paths, shuffled, time: START })
            })
            .collect::<Result<Vec<_>, BenchError>>()?;
        run(record, &mut both, files)?;
    }
    Ok(())
}

/// Waits until earlier writes have reached the disk, before a measurement begins.
fn settle(record: &Record, text: &str) {
    record.progress(text);
    rustix::fs::sync();
}

impl Contender {
    /// One update of each file.
    fn round(&mut self, shuffled: bool, connections: usize) -> Result<Turn, BenchError> {
        self.time += STEP;
        let order = if shuffled { &self.shuffled } else { &self.paths };
        let batches = batches(order.iter(), self.time);
        let cpu = self.daemon.cpu_ns()?;
        let wall = self.daemon.send(&batches, connections)?;
        Ok(Turn { wall_s: wall.as_secs_f64(), cpu_s: (self.daemon.cpu_ns()? - cpu) as f64 / 1e9 })
    }

    fn drain(&mut self) -> Result<Turn, BenchError> {
        let cpu = self.daemon.cpu_ns()?;
        let wall: Duration = self.daemon.drain(self.paths.len())?;
        Ok(Turn { wall_s: wall.as_secs_f64(), cpu_s: (self.daemon.cpu_ns()? - cpu) as f64 / 1e9 })
    }

    fn held_bytes(&self) -> Result<f64, BenchError> {
        Ok(self.daemon.process.held()?.anonymous_kb as f64 * 1024.0)
    }
}

/// A B B A.
fn turns(
    both: &mut [Contender],
    pairs: usize,
    mut turn: impl FnMut(&mut Contender) -> Result<Turn, BenchError>,
) -> Result<[Vec<Turn>; 2], BenchError> {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..pairs {
        for who in [0, 1, 1, 0] {
            all[who].push(turn(&mut both[who])?);
        }
    }
    Ok(all)
}

fn accept(record: &mut Record, both: &mut [Contender], files: usize) -> Result<(), BenchError> {
    let mut table = Table::new(&["accepted", "rrdcached/s", "ours/s", "ratio", "us CPU theirs", "ours"]);
    for (order, is_shuffled) in [("sorted", false), ("shuffled", true)] {
        for connections in [1, CONNECTIONS] {
            let name = format!("{files} files {order} {connections} connections");
            settle(record, &name);
            let all = turns(both, record.effort.pairs(), |who| who.round(is_shuffled, connections))?;
            let rates = keep(record, "accept", &name, &all, |turn| files as f64 / turn.wall_s);
            let costs = keep(record, "accept-cpu-us", &name, &all, |turn| turn.cpu_s * 1e6 / files as f64);
            let ratio = Spread::of(ratios(&rates[1], &rates[0]));
            table.row([
                format!("{order}, {connections} connections"),
                median(&rates[0]),
                median(&rates[1]),
                ratio.map_or_else(String::new, |ratio| figure(ratio.median)),
                median(&costs[0]),
                median(&costs[1]),
            ]);
            record.verdict(&format!("accepted, {order} {connections}, {files}"), ratio, Bound::AtLeast(1.0));
            both.iter_mut().try_for_each(|who| who.drain().map(drop))?;
        }
    }
    record.show(&format!("## Updates accepted a second, log on disk, {files} files"), &table);
    Ok(())
}

fn memory(record: &mut Record, both: &mut [Contender], files: usize) -> Result<(), BenchError> {
    let mut table = Table::new(&["memory", "empty MB", "B/file, 1 value", "B/value more", "after drain MB"]);
    let mut held = Vec::new();
    for who in both.iter_mut() {
        settle(record, "memory");
        let empty = who.held_bytes()?;
        who.round(false, 1)?;
        let one = who.held_bytes()?;
        (1..PENDING).try_for_each(|_| who.round(false, 1).map(drop))?;
        let many = who.held_bytes()?;
        who.drain()?;
        let after = who.held_bytes()?;
        let a_file = (one - empty) / files as f64;
        let a_value = (many - one) / (files as f64 * (PENDING - 1) as f64);
        table.row([
            who.daemon.setup.side.name().into(),
            figure(empty / 1e6),
            figure(a_file),
            figure(a_value),
            figure(after / 1e6),
        ]);
        for (what, value) in [("bytes a file", a_file), ("bytes a value", a_value), ("empty", empty)] {
            record.sample(["memory", &files.to_string(), who.daemon.setup.side.name()], 0, what, value);
        }
        held.push((a_file, a_value));
    }
    record.show(&format!("## Memory with {files} files"), &table);
    let [(file, value), (our_file, our_value)] = held[..] else { return Ok(()) };
    record.verdict(&format!("memory a file, {files}"), Spread::of([our_file / file]), Bound::AtMost(0.5));
    record.verdict(&format!("memory a value, {files}"), Spread::of([our_value / value]), Bound::AtMost(0.5));
    Ok(())
}

fn drains(record: &mut Record, both: &mut [Contender], files: usize) -> Result<(), BenchError> {
    let mut table = Table::new(&["all written", "rrdcached", "ours", "ratio", "us CPU/file theirs", "ours"]);
    for pending in [1, PENDING] {
        let name = format!("{files} files {pending} values");
        let all = turns(both, record.effort.of(5, 2), |who| {
            settle(record, &name);
            (0..pending).try_for_each(|_| who.round(false, 1).map(drop))?;
            who.drain()
        })?;
        let rates = keep(record, "drain", &name, &all, |turn| files as f64 / turn.wall_s);
        let costs = keep(record, "drain-cpu-us", &name, &all, |turn| turn.cpu_s * 1e6 / files as f64);
        let ratio = Spread::of(ratios(&rates[1], &rates[0]));
        table.row([
            format!("files/s, {pending} value(s)"),
            median(&rates[0]),
            median(&rates[1]),
            ratio.map_or_else(String::new, |ratio| figure(ratio.median)),
            median(&costs[0]),
            median(&costs[1]),
        ]);
        record.verdict(&format!("drain, {pending} value(s), {files}"), ratio, Bound::AtLeast(1.0));
    }
    record.show(&format!("## Everything written, {files} files"), &table);
    Ok(())
}

fn keep(
    record: &mut Record,
    section: &str,
    case: &str,
    all: &[Vec<Turn>; 2],
    what: impl Fn(Turn) -> f64,
) -> [Vec<f64>; 2] {
    let figures = [0, 1].map(|who| all[who].iter().map(|&turn| what(turn)).collect::<Vec<f64>>());
    for (who, figures) in [Side::Theirs, Side::Ours].iter().zip(&figures) {
        for (turn, figure) in figures.iter().enumerate() {
            record.sample([section, case, who.name()], turn, section, *figure);
        }
    }
    figures
}

fn median(figures: &[f64]) -> String {
    Spread::of(figures.iter().copied()).map_or_else(String::new, |spread| figure(spread.median))
}
