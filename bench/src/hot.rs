//! The table: loads, parses and totals a second for each of the five files, back to back. The paper's tables
//! 2, 3 and 4.

use std::cell::RefCell;
use std::time::Duration;

use crate::error::BenchError;
use crate::five::{self, FILES, Frames, Kept, Swing, room};
use crate::instructions;
use crate::load::Load;
use crate::ours::{Replayed, Source};
use crate::pairs::{Batch, Contender, Turns, interleave};
use crate::place::Pinned;
use crate::program::Program;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// Texts captured from each file for the parses: an eighth of a second of a busy machine.
const FRAMES: usize = 128;

/// The share of the bare read that our total must reach, by file.
pub fn share_to_reach(file: &str) -> f64 {
    if file == "net/dev" { 0.90 } else { 0.95 }
}

/// Runs the section: the rates, then the instruction counts.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let frames = capture_busy()?;
    let directory = std::env::temp_dir().join(format!("khz-bench-{}", std::process::id()));
    five::write_frames(&directory, &frames)?;
    let result = hot(record, &directory, &frames).and_then(|()| instructions::run(record, &directory));
    let _ = std::fs::remove_dir_all(&directory);
    result
}

/// Texts of the five files while the machine is busy.
pub fn capture_busy() -> Result<Vec<Frames>, BenchError> {
    let _busy = Load::start()?;
    std::thread::sleep(Duration::from_millis(300)); // the load must run before the texts are captured
    five::capture(FRAMES)
}

fn hot(record: &mut Record, directory: &std::path::Path, frames: &[Frames]) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    let program = RefCell::new(Program::start("table", &[directory])?);
    let mut all = Vec::new();
    for (number, name) in FILES.into_iter().enumerate() {
        let turns = one_file(record, &program, number, name, &frames[number])?;
        record.turns("table", name, &turns);
        all.push((name, turns));
    }
    show_rates(record, &all);
    show_shares(record, &all);
    show_costs(record, &all);
    Ok(())
}

/// The batches of every contender for one file. Neighbours in this order are compared.
fn one_file(
    record: &Record,
    program: &RefCell<Program>,
    number: usize,
    name: &str,
    frames: &Frames,
) -> Result<Vec<Turns>, BenchError> {
    let c = |way: &'static str| {
        Contender::foreign(format!("c {way}"), move |span| {
            program.borrow_mut().batch(&format!("{way} {number}"), span)
        })
    };
    let (bare, mut source) = (Kept::open(name)?, Source::open(name)?);
    let (mut bare_room, mut our_room) = (room(), room());
    let mut replayed = Replayed::new(name)?;
    let mut swing = Swing::new();
    let mut contenders = [
        c("total"),
        c("load"),
        Contender::call("load", || bare.load(&mut bare_room).map(drop)),
        Contender::call("total", || source.gather(&mut our_room).map(drop)),
        Contender::call("parse", || {
            replayed.take(&frames[swing.next(frames.len())]);
            Ok(())
        }),
        c("parse"),
    ];
    interleave(&mut contenders, record.effort.pairs(), Duration::from_millis(record.effort.of(100, 30)))
}

fn rates(turns: &[Turns], who: &str) -> Vec<f64> {
    turns.iter().find(|t| t.name == who).map(|t| t.map(Batch::per_cpu_second)).unwrap_or_default()
}

fn median(samples: &[f64]) -> f64 {
    Spread::of(samples.iter().copied()).map_or(f64::NAN, |s| s.median)
}

fn kilo(number: f64) -> String {
    format!("{}k", figure(number / 1e3))
}

/// The paper's tables 2 and 3.
fn show_rates(record: &mut Record, all: &[(&str, Vec<Turns>)]) {
    let heads = ["file", "C load", "C parse", "C total", "our load", "our parse", "our total"];
    let mut table = Table::new(&heads);
    for (name, turns) in all {
        let mut row = vec![format!("/proc/{name}")];
        for who in ["c load", "c parse", "c total", "load", "parse", "total"] {
            row.push(kilo(median(&rates(turns, who))));
        }
        table.row(row);
    }
    record.show("## The table: calls per second of CPU, hot (medians)", &table);
    record.say(
        "Load is a bare pread of the file kept open; C parse is an ordinary digit parse of captured texts\n\
         (one a millisecond, busy machine), our parse copies and parses the same texts differentially.\n",
    );
}

/// Our parse as a share of the bare read.
fn show_shares(record: &mut Record, all: &[(&str, Vec<Turns>)]) {
    let mut table = Table::new(&["file", "C/C load", "ours/load", "quartiles", "min", "max", "ours/C load"]);
    for (name, turns) in all {
        let ordinary = Spread::of(ratios(&rates(turns, "c total"), &rates(turns, "c load")));
        let ours = Spread::of(ratios(&rates(turns, "total"), &rates(turns, "load")));
        let against_c = Spread::of(ratios(&rates(turns, "total"), &rates(turns, "c load")));
        record.verdict(
            &format!("{name}, hot: total / bare read"),
            ours,
            Bound::AtLeast(share_to_reach(name)),
        );
        let (Some(ordinary), Some(ours), Some(against_c)) = (ordinary, ours, against_c) else { continue };
        table.row([
            format!("/proc/{name}"),
            figure(ordinary.median),
            figure(ours.median),
            format!("{:.3}..{:.3}", ours.lower, ours.upper),
            figure(ours.min),
            figure(ours.max),
            figure(against_c.median),
        ]);
    }
    record.show("## Load and parse as a share of the bare read, hot", &table);
}

/// The paper's table 4.
fn show_costs(record: &mut Record, all: &[(&str, Vec<Turns>)]) {
    let mut table = Table::new(&["file", "C us/call", "ours us/call", "s/hour C", "ours", "s/day C", "ours"]);
    let mut sums = [0.0; 2];
    let mut row = |name: &str, [c, ours]: [f64; 2]| {
        let at_one_hertz = |micros: f64, seconds: f64| figure(micros * seconds / 1e6);
        table.row([
            name.to_owned(),
            figure(c),
            figure(ours),
            at_one_hertz(c, 3_600.0),
            at_one_hertz(ours, 3_600.0),
            at_one_hertz(c, 86_400.0),
            at_one_hertz(ours, 86_400.0),
        ]);
    };
    for (name, turns) in all {
        let costs = ["c total", "total"].map(|who| 1e6 / median(&rates(turns, who)));
        sums = [sums[0] + costs[0], sums[1] + costs[1]];
        row(&format!("/proc/{name}"), costs);
    }
    row("all five", sums);
    record.show("## What a call costs, and a day at 1 Hz, hot", &table);
}
