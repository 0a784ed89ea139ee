//! Records how a parallel program starts on eight machines, for the figure in docs/record.md. It prints the flags with
//! which `khz plot` draws the time of the program and no more. `examples/staggered/run --guests` builds what it needs,
//! runs it, and draws.
//!
//! `cargo run -p khz-guest-test --bin staggered -- RECORDING [NODES] [HERTZ]`

use std::path::PathBuf;
use std::time::Duration;

use khz_guest_test::staggered::{Plan, record, rows};

/// Between two starts: the last of eight comes 16.1 s after the first.
const APART: Duration = Duration::from_millis(2_300);

/// What the figure shows before the first start, and after the end, in seconds.
const BEFORE: f64 = 2.0;
const AFTER: f64 = 1.0;

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let wrong = || -> ! {
        eprintln!("usage: staggered RECORDING [NODES] [HERTZ]");
        std::process::exit(2);
    };
    let recording = arguments.next().map_or_else(|| wrong(), PathBuf::from);
    let mut number = |default: u32| {
        let parse = |text: std::ffi::OsString| text.to_str()?.parse().ok();
        arguments.next().map_or(default, |text| parse(text).unwrap_or_else(|| wrong()))
    };
    let (nodes, hertz) = (number(8), number(10));
    let run = record(&Plan { nodes: nodes as usize, apart: APART, hertz }, &recording);
    let begin = run.turns.first().map_or(run.end, |turn| turn.from);
    for turn in &run.turns {
        eprintln!("{} started from {:.1} s to {:.1} s", turn.node, turn.from - begin, turn.to - begin);
    }
    let first = rows(&recording).iter().map(|row| row.time).fold(begin, f64::min);
    println!("--from {:.3}s --to {:.3}s", (begin - BEFORE - first).max(0.0), run.end + AFTER - first);
}
