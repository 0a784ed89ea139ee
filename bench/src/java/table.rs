//! Loads, parses and totals of the five files: the JVM's beside C's and ours. The parses are of the same captured texts.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use crate::error::BenchError;
use crate::five::{self, FILES, Frames, Swing, room};
use crate::hot::capture_busy;
use crate::java::jvm::{Jvm, Turns as Java, warm_up};
use crate::ours::{Replayed, Source};
use crate::pairs::{Batch, Contender, Turns, interleave};
use crate::place::Pinned;
use crate::program::Program;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// The JVM's gather of all five files must reach this share of our rate.
const SHARE: f64 = 0.95;

/// The JVM's parse of a file must take at most this many times the time of ours.
const PARSE: f64 = 2.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let jvm = Jvm::build(record)?;
    let frames = capture_busy()?;
    let directory = std::env::temp_dir().join(format!("khz-bench-java-{}", std::process::id()));
    five::write_frames(&directory, &frames)?;
    let result = all_files(record, &jvm, &directory, &frames);
    let _ = std::fs::remove_dir_all(&directory);
    result
}

fn all_files(record: &mut Record, jvm: &Jvm, directory: &Path, frames: &[Frames]) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    let java = jvm.turns(directory)?;
    let c = RefCell::new(Program::start("table", &[directory])?);
    let mut files = Vec::new();
    for (number, name) in FILES.into_iter().enumerate() {
        record.progress(name);
        let turns = one_file(record, &java, &c, number, name, &frames[number])?;
        record.turns("table", name, &turns);
        files.push((name, turns));
    }
    let together = together(record, &java)?;
    record.turns("table", "all five", &together);
    show_files(record, &files);
    show_together(record, &together);
    Ok(())
}

/// The batches of every contender for one file.
fn one_file(
    record: &Record,
    java: &Java,
    c: &RefCell<Program>,
    number: usize,
    name: &str,
    frames: &Frames,
) -> Result<Vec<Turns>, BenchError> {
    let warm = warm_up(record);
    let (mut source, mut our_room) = (Source::open(name)?, room());
    let (mut replayed, mut swing) = (Replayed::new(name)?, Swing::new());
    let mut contenders = [
        Contender::foreign("c load", |span| c.borrow_mut().batch(&format!("load {number}"), span)),
        Contender::foreign("c total", |span| c.borrow_mut().batch(&format!("total {number}"), span)),
        Contender::foreign("c parse", |span| c.borrow_mut().batch(&format!("parse {number}"), span)),
        java.contender("java load", &format!("load {number}"), warm)?,
        java.contender("java total", &format!("total {number}"), warm)?,
        Contender::call("total", || source.gather(&mut our_room).map(drop)),
        Contender::call("parse", || {
            replayed.take(&frames[swing.next(frames.len())]);
            Ok(())
        }),
        java.contender("java parse", &format!("parse {number}"), warm)?,
    ];
    interleave(&mut contenders, record.effort.pairs(), span(record))
}

/// All five files in one go: ours, the JVM's, and what a program on the JVM calls.
fn together(record: &Record, java: &Java) -> Result<Vec<Turns>, BenchError> {
    let warm = warm_up(record);
    let mut sources = FILES.iter().map(|name| Source::open(name)).collect::<Result<Vec<_>, _>>()?;
    let mut our_room = room();
    let mut contenders = [
        Contender::call("total", || {
            sources.iter_mut().try_for_each(|one| one.gather(&mut our_room).map(drop))
        }),
        java.contender("java total", "all", warm)?,
        java.contender("java take", "take", warm)?,
        java.contender("java take by FileChannel", "channel", warm)?,
    ];
    interleave(&mut contenders, record.effort.pairs(), span(record))
}

fn span(record: &Record) -> Duration {
    Duration::from_millis(record.effort.of(200, 60))
}

fn costs(turns: &[Turns], who: &str) -> Vec<f64> {
    turns.iter().find(|t| t.name == who).map(|t| t.map(Batch::cpu_micros)).unwrap_or_default()
}

fn nanos(turns: &[Turns], who: &str) -> String {
    Spread::of(costs(turns, who)).map_or(String::new(), |spread| figure(spread.median * 1e3))
}

fn show_files(record: &mut Record, files: &[(&str, Vec<Turns>)]) {
    let heads = ["file", "C load", "JVM load", "C total", "our total", "JVM total", "rate / ours"];
    let mut gathers = Table::new(&heads);
    let mut parses = Table::new(&["file", "C parse", "our parse", "JVM parse", "quartiles", "time / ours"]);
    for (name, turns) in files {
        let share = Spread::of(ratios(&costs(turns, "total"), &costs(turns, "java total")));
        let times = Spread::of(ratios(&costs(turns, "java parse"), &costs(turns, "parse")));
        record.verdict(&format!("{name}: rate of the JVM's gather / ours"), share, Bound::Stated);
        record.verdict(&format!("{name}: time of the JVM's parse / ours"), times, Bound::AtMost(PARSE));
        let (Some(share), Some(times)) = (share, times) else { continue };
        let path = format!("/proc/{name}");
        let [c_load, load, c_total, ours, total, c_parse, our_parse, parse] =
            ["c load", "java load", "c total", "total", "java total", "c parse", "parse", "java parse"]
                .map(|who| nanos(turns, who));
        gathers.row([path.clone(), c_load, load, c_total, ours, total, figure(share.median)]);
        let quartiles = Spread::of(costs(turns, "java parse"))
            .map_or(String::new(), |one| format!("{}..{}", figure(one.lower * 1e3), figure(one.upper * 1e3)));
        parses.row([path, c_parse, our_parse, parse, quartiles, figure(times.median)]);
    }
    record.show("## The five files on the JVM, hot: nanoseconds of CPU per call (medians)", &gathers);
    record.say(
        "Load is a bare pread of the file kept open, on the JVM with a copy into an array. Total reads and parses; C with\n\
         an ordinary loop over digits, ours and the JVM differentially.\n\
         The JVM's CPU time is that of the calling thread, as everybody's.\n",
    );
    record.show("## Parses of the same captured texts: nanoseconds of CPU", &parses);
    record.say(
        "One text a millisecond, of a busy machine; with the copy of each text into the parser's buffer.\n",
    );
}

fn show_together(record: &mut Record, turns: &[Turns]) {
    let mut table = Table::new(&["who", "ns", "quartiles", "rate / ours"]);
    let ours = costs(turns, "total");
    for one in turns {
        let cost = costs(turns, &one.name);
        let share = Spread::of(ratios(&ours, &cost));
        let (Some(spread), Some(of_ours)) = (Spread::of(cost), share) else { continue };
        table.row([
            one.name.clone(),
            figure(spread.median * 1e3),
            format!("{}..{}", figure(spread.lower * 1e3), figure(spread.upper * 1e3)),
            figure(of_ours.median),
        ]);
        match &*one.name {
            "total" => {}
            "java total" => {
                let promise = "all five: rate of the JVM's gather / ours";
                record.verdict(promise, share, Bound::AtLeast(SHARE));
            }
            other => record.verdict(&format!("all five: {other}, rate / ours"), share, Bound::Stated),
        }
    }
    record.show("## All five files in one go", &table);
    record.say("Take is what a program calls: with clocks, a lock, and a copy of every number.\n");
}
