//! The ladder in Java: the paper's ways to read /proc/meminfo, and variants that the JDK has beside each other.

use std::time::Duration;

use crate::error::BenchError;
use crate::java::jvm::{Jvm, warm_up};
use crate::ladder::STEPS;
use crate::ours::Source;
use crate::pairs::{Batch, Contender, interleave};
use crate::place::Pinned;
use crate::record::Record;
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

/// Each way's name in the Java program, its meaning, and the step of the paper's ladder that it is; the last of them is
/// beyond the ladder.
const WAYS: [(&str, &str, usize); 8] = [
    ("char", "a character at a time", 0),
    ("stream", "line by line, as Java programs usually do", 1),
    ("block", "in one block, then split", 1),
    ("plain", "no allocation, conversion", 2),
    ("random", "kept open, RandomAccessFile", 3),
    ("channel", "kept open, FileChannel", 3),
    ("pread", "kept open, pread by FFM", 3),
    ("ours", "the gatherer: every value a number", 4),
];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let jvm = Jvm::build(record)?;
    let _pinned = Pinned::here()?;
    // The ladder needs no captured texts.
    let java = jvm.turns(&std::env::temp_dir())?;
    let (mut source, mut room) = (Source::open("meminfo")?, crate::five::room());
    let mut contenders = Vec::new();
    for (way, ..) in WAYS {
        contenders.push(java.contender(way, &format!("ladder {way}"), warm_up(record))?);
    }
    contenders.push(Contender::call("khz", || source.gather(&mut room).map(drop)));
    let span = Duration::from_millis(record.effort.of(200, 60));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    record.turns("ladder", "meminfo", &turns);

    let mut table = Table::new(&["way", "paper/s", "here/s", "quartiles"]);
    for (number, one) in turns.iter().enumerate() {
        let Some(spread) = Spread::of(one.map(Batch::per_cpu_second)) else { continue };
        let (meaning, step) = WAYS.get(number).map_or(("ours in Rust", STEPS.len()), |way| (way.1, way.2));
        table.row([
            meaning.to_owned(),
            STEPS.get(step).map_or(String::new(), |step| thousands(step.2)),
            thousands(spread.median),
            format!("{}k..{}k", figure(spread.lower / 1e3), figure(spread.upper / 1e3)),
        ]);
    }
    record.show("## The ladder in Java: /proc/meminfo, gathers per second of CPU", &table);
    record.say(
        "The paper's figures are of 2001. The steps \"no allocation\" and \"kept open\" note where each value is, as the\n\
         paper did; the others turn text into numbers. A mapped file is no way: the kernel refuses to map files of /proc.\n",
    );
    Ok(())
}
