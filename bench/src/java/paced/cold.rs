//! Cold starts of the JVM: how long until the first gather, until a call is fast, and what it then holds in memory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::BenchError;
use crate::java::jvm::Jvm;
use crate::java::paced::G1;
use crate::java::paced::life::{self, Life};
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Starts of the JVM, in a quick run too.
const STARTS: usize = 5;

/// A figure of each start: in the table and the verdicts, and its value; `None` where a start has none.
type Figure = (&'static str, fn(&Start) -> Option<f64>);

const FIGURES: [Figure; 7] = [
    ("ms from the JVM's start to the first gather", |one| Some(one.own()?.first_gather_ms)),
    ("ms from the process's start to the first gather", |one| Some(one.since_exec_ms)),
    ("first call from which on it is warm", |one| one.own()?.warm_from),
    ("us a call in the first second", |one| Some(one.own()?.first_second_ns / 1e3)),
    ("us a call in the last second", |one| Some(one.own()?.last_second_ns / 1e3)),
    ("RSS in MB", |one| Some(one.life.resident_kb / 1e3)),
    ("largest RSS in MB", |one| Some(one.own()?.peak_kb / 1e3)),
];

/// One start of the JVM.
struct Start {
    life: Life,
    since_exec_ms: f64,
}

impl Start {
    fn own(&self) -> Option<&life::Jvm> {
        self.life.jvm.as_ref()
    }
}

/// Starts the JVM several times.
pub fn run(record: &mut Record, jvm: &Jvm) -> Result<(), BenchError> {
    let seconds = record.effort.of(10, 2);
    let mut starts = Vec::new();
    for number in 0..STARTS {
        record.progress(&format!("start {} of {STARTS}", number + 1));
        let one = start(jvm, seconds)?;
        one.life.keep(record, "cold start", "JVM", number);
        record.sample(["paced", "cold start", "JVM"], number, "since_exec_ms", one.since_exec_ms);
        starts.push(one);
    }
    show(record, &starts, seconds);
    Ok(())
}

fn start(jvm: &Jvm, seconds: u64) -> Result<Start, BenchError> {
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let life = life::jvm(jvm.paced(&[G1]).args(["1000", "take", &seconds.to_string()]))?;
    let since_exec_ms = since_ms(before, &life);
    Ok(Start { life, since_exec_ms })
}

/// From `before` to the first gather.
fn since_ms(before: Duration, life: &Life) -> f64 {
    life.jvm.as_ref().map_or(f64::NAN, |own| (own.first_gather_ns - before.as_nanos() as f64) / 1e6)
}

fn show(record: &mut Record, starts: &[Start], seconds: u64) {
    let mut table = Table::new(&["figure", "median", "quartiles", "min", "max"]);
    for (name, of) in FIGURES {
        let spread = Spread::of(starts.iter().filter_map(of));
        record.verdict(&format!("cold start: {name}"), spread, Bound::Stated);
        let Some(spread) = spread else { continue };
        table.row([
            name.to_owned(),
            figure(spread.median),
            format!("{}..{}", figure(spread.lower), figure(spread.upper)),
            figure(spread.min),
            figure(spread.max),
        ]);
    }
    record.show(&format!("## Cold start: {STARTS} starts of the JVM, {seconds} s each at 1,000 Hz"), &table);
    record.say(
        "Take, with G1. The JVM's start is where it says it has started (RuntimeMXBean); the process's start is before that.\n\
         Warm: from this call on, eleven calls in a row have a median of at most twice the last second's.\n",
    );
}
