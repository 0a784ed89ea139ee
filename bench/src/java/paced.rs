//! The gatherer on the JVM at a fixed rate, as a program in real use calls it: what it costs, whether it meets its
//! ticks, what it holds in memory, and how long it takes until it is there and fast.

use std::path::PathBuf;

use crate::error::BenchError;
use crate::java::jvm::Jvm;
use crate::program::compile;
use crate::record::Record;

mod beside;
mod cold;
mod life;
mod minute;
mod rates;

/// The collector that a JVM chooses on a server. It is named because on one core, or with little memory, the JVM chooses
/// another one.
const G1: &str = "-XX:+UseG1GC";

/// The collector for short pauses.
const ZGC: &str = "-XX:+UseZGC";

/// The programs to compare.
struct Loops {
    jvm: Jvm,
    c: PathBuf,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let loops = Loops { jvm: Jvm::build(record)?, c: compile("paced")? };
    rates::run(record, &loops)?;
    minute::run(record, &loops)?;
    beside::run(record, &loops.jvm)?;
    cold::run(record, &loops.jvm)
}
