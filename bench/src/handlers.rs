//! Programs for rows: what a row costs that a WebAssembly module computes, beside the same in Rust, and how long a program needs to start.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use khz_model::{Nanos, Reading, Stamp};
use khz_program::{Column, Input, Instance, Limits, Program};

use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::section::{Section, Suite};
use crate::spread::Spread;
use crate::store::folder::Scratch;
use crate::table::{Table, figure};

mod child;

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "handlers",
    about: "programs for rows (WebAssembly)",
    sections: &[
        Section {
            name: "mean",
            seconds: (20, 5),
            about: "the mean of 100 series, by examples/handlers/mean.c and in Rust; the start of a program",
            run,
        },
        Section {
            name: "child",
            seconds: (90, 30),
            about: "the child process: from the wish for a program to its first row; wake-ups, CPU, memory",
            run: child::run,
        },
    ],
};

const SERIES: usize = 100;
/// A row may take this long (us).
const ROW_US_MAX: f64 = 3.0;
/// A program may take this long to start (ms).
const START_MS_MAX: f64 = 10.0;

fn run(record: &mut Record) -> Result<(), BenchError> {
    let module = compiled()?;
    let mut table = Table::new(&["what", "median", "quartiles"]);
    let mut row = |what: &str, spread: Option<Spread>| {
        let Some(spread) = spread else { return };
        let quartiles = format!("{} - {}", figure(spread.lower), figure(spread.upper));
        table.row([what.to_owned(), figure(spread.median), quartiles]);
    };
    let (program, native) = rows(record, &module)?;
    let started = starts(record, &module)?;
    row("a row of the program, us", program);
    row("a row in Rust, us", native);
    row("a program starts, ms", started);
    record.show("## The mean of 100 series", &table);
    record.verdict("a row of a program, mean of 100 series: us", program, Bound::AtMost(ROW_US_MAX));
    record.verdict("a program starts: ms", started, Bound::AtMost(START_MS_MAX));
    Ok(())
}

/// The example, as its author compiles it.
fn compiled() -> Result<Vec<u8>, BenchError> {
    let scratch = Scratch::new("handlers")?;
    let module = scratch.at("mean.wasm");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/handlers/mean.c");
    let words = ["--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", "-o"];
    let made = Command::new("clang").args(words).arg(&module).arg(source).output();
    let made = made.map_err(|error| failed("clang (Debian: packages clang and lld)", error))?;
    if !made.status.success() {
        return Err(failed("clang", String::from_utf8_lossy(&made.stderr)));
    }
    std::fs::read(&module).map_err(BenchError::file(&module))
}

fn begun(module: &[u8]) -> Result<Instance, BenchError> {
    let wrong = |error| failed("the program", error);
    let program = Program::new(module).map_err(wrong)?;
    let mut instance = Instance::start(&program, Limits::default()).map_err(wrong)?;
    instance.begin(vec![Column::made_up(); SERIES]).map_err(wrong)?;
    Ok(instance)
}

/// Microseconds a row: of the program, and of Rust over the same readings.
fn rows(record: &mut Record, module: &[u8]) -> Result<(Option<Spread>, Option<Spread>), BenchError> {
    let readings: Vec<Reading> = (0..SERIES as u64).map(|at| Reading::Present(3 * at)).collect();
    let mut instance = begun(module)?;
    let (mut of_program, mut of_rust) = (Vec::new(), Vec::new());
    let batch: u64 = record.effort.of(100_000, 20_000);
    for turn in 0..record.effort.of(20, 6) {
        record.progress(&format!("rows, batch {}", turn + 1));
        let start = Instant::now();
        for row in 0..batch {
            let stamp = Stamp { boot: Nanos(row * 1_000_000), real_offset: 0 };
            let input = Input { stamp, lost: 0 };
            instance.row(input, readings.iter().copied()).map_err(|error| failed("a row", error))?;
        }
        let program = start.elapsed().as_secs_f64() * 1e6 / batch as f64;
        let start = Instant::now();
        for _ in 0..batch {
            black_box(mean(black_box(&readings)));
        }
        let rust = start.elapsed().as_secs_f64() * 1e6 / batch as f64;
        if turn > 0 {
            record.sample(["mean", "row", "program"], turn, "us", program);
            record.sample(["mean", "row", "rust"], turn, "us", rust);
            of_program.push(program);
            of_rust.push(rust);
        }
    }
    Ok((Spread::of(of_program), Spread::of(of_rust)))
}

fn mean(readings: &[Reading]) -> Option<f64> {
    let values = readings.iter().filter_map(|reading| reading.value());
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value as f64, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Milliseconds from the bytes of a module to the first row.
fn starts(record: &mut Record, module: &[u8]) -> Result<Option<Spread>, BenchError> {
    let mut times = Vec::new();
    for turn in 0..record.effort.of(50, 10) {
        let start = Instant::now();
        black_box(begun(module)?);
        let took = start.elapsed().as_secs_f64() * 1e3;
        record.sample(["mean", "start", "program"], turn, "ms", took);
        times.push(took);
    }
    Ok(Spread::of(times))
}
