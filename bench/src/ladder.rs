//! The ladder: the paper's four ways to gather /proc/meminfo, and ours as the fifth.

use std::cell::RefCell;
use std::time::Duration;

use crate::error::BenchError;
use crate::five::room;
use crate::ours::Source;
use crate::pairs::{Batch, Contender, interleave};
use crate::place::Pinned;
use crate::program::Program;
use crate::record::Record;
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure, thousands};

/// Each step's name in the C program, its meaning, and the paper's result (gathers/s).
pub const STEPS: [(&str, &str, f64); 4] = [
    ("char", "a character at a time", 85.0),
    ("block", "in blocks", 4_173.0),
    ("plain", "no allocation, conversion", 14_031.0),
    ("kept", "file kept open", 33_855.0),
];

/// CPU seconds an hour that the paper states for its monitor at 50 Hz.
pub const PAPER_HOUR_AT_50_HZ: f64 = 5.0;

/// CPU seconds in a time of `seconds` at `rate`, by the paper's fastest way: of /proc/meminfo alone.
pub fn paper_seconds(rate: f64, seconds: f64) -> f64 {
    let [.., (_, _, fastest)] = STEPS;
    rate * seconds / fastest
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let pinned = Pinned::here()?;
    let program = RefCell::new(Program::start("ladder", &[])?);
    let (mut source, mut room) = (Source::open("meminfo")?, room());
    let mut contenders: Vec<Contender<'_>> = STEPS
        .iter()
        .map(|&(way, ..)| Contender::foreign(way, |span| program.borrow_mut().batch(way, span)))
        .collect();
    contenders.push(Contender::call("ours", || source.gather(&mut room).map(drop)));
    let span = Duration::from_millis(record.effort.of(200, 50));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    record.turns("ladder", "meminfo", &turns);

    let mut table = Table::new(&["way", "paper/s", "here/s", "quartiles", "min", "max", "x step"]);
    let rates: Vec<Vec<f64>> = turns.iter().map(|t| t.map(Batch::per_cpu_second)).collect();
    for (step, rate) in rates.iter().enumerate() {
        let Some(spread) = Spread::of(rate.iter().copied()) else { continue };
        let (name, paper) =
            STEPS.get(step).map_or(("ours, every value a number", String::new()), |s| (s.1, thousands(s.2)));
        let factor = step.checked_sub(1).and_then(|before| Spread::of(ratios(rate, &rates[before])));
        table.row([
            name.to_owned(),
            paper,
            thousands(spread.median),
            format!("{}..{}", kilo(spread.lower), kilo(spread.upper)),
            kilo(spread.min),
            kilo(spread.max),
            factor.map_or(String::new(), |f| figure(f.median)),
        ]);
    }
    record.show("## The ladder: /proc/meminfo, gathers per second of CPU", &table);
    record.say(&format!(
        "One CPU ({}); C steps one to four, ours is the fifth. Only steps one, two and five turn text\n\
         into numbers; three and four note where each value is, as the paper did.\n",
        pinned.cpu
    ));
    Ok(())
}

fn kilo(number: f64) -> String {
    format!("{}k", figure(number / 1e3))
}
