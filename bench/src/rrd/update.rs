//! Updates of warm files on one core: librrd, ours with each file opened for each update, ours with files
//! kept open.
//!
//! All take turns on the same files. A pass is one update of each file. At half hours
//! longer rows close. Passes with one value at half hours run between the turns and are not counted, so that
//! all contenders do the same work; passes with twelve values have two half hours each.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use khz_rrd::file::{self, Access, Rrd};
use khz_rrd::update::{Failure, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::tree::{START, STEP, Tree, rrd, sample};
use crate::error::BenchError;
use crate::pairs::{Batch, Contender, Turns, interleave, thread_cpu_ns};
use crate::place::Pinned;
use crate::program::Program;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// Files that are open for other reasons.
const OTHER_FILES: usize = 100;

/// With more files than this, single turns are long enough.
const MANY_FILES: usize = 50_000;

/// Longer rows close at multiples of this.
const HALF_HOUR: i64 = 1800;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    for &files in record.effort.of(&[10_000, 100_000][..], &[2_000][..]) {
        let tree = Tree::fresh(record, files)?;
        let clock = Cell::new(START);
        for values in [1, 12] {
            record.progress(&format!("{files} files, {values} value(s) a call"));
            let turns = case(record, &tree, &clock, values)?;
            let name = format!("{files} files {values} a call");
            record.turns("update", &name, &turns);
            show(record, &name, files, values, &turns);
        }
    }
    Ok(())
}

/// How many files this process may keep open, after it has raised its limit.
fn open_files_max() -> Result<usize, BenchError> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .map_err(BenchError::call("setrlimit for open files"))?;
    Ok(limit.maximum.map_or(usize::MAX, |maximum| maximum as usize).saturating_sub(OTHER_FILES).max(1))
}

fn case(record: &Record, tree: &Tree, clock: &Cell<i64>, values: i64) -> Result<Vec<Turns>, BenchError> {
    let list = tree.list()?;
    let program = RefCell::new(Program::start_with("librrd", &[&list], &["-lrrd"])?);
    let paths = tree.paths();
    // The time of the next pass. Runs passes at half hours by itself.
    let next = || -> Result<i64, BenchError> {
        let mut time = clock.get() + STEP;
        if values == 1 && time % HALF_HOUR == 0 {
            pass(&paths, &[sample(time)], None)?;
            time += STEP;
        }
        clock.set(time + (values - 1) * STEP);
        record.progress(&format!("a turn, at {time}"));
        Ok(time)
    };
    let ours = |keep: Option<usize>| {
        let (paths, next) = (&paths, &next);
        move |_| {
            let time = next()?;
            let samples: Vec<String> = (0..values).map(|index| sample(time + index * STEP)).collect();
            pass(paths, &samples, keep)
        }
    };
    let mut contenders = [
        Contender::foreign("librrd", |span| {
            let time = next()?;
            program.borrow_mut().batch(&format!("{time} {values}"), span)
        }),
        Contender::foreign("ours", ours(None)),
        Contender::foreign("kept open", ours(Some(open_files_max()?))),
    ];
    // At least ten pairs of neighbours: each group of turns has two, and a turn with many files takes
    // seconds.
    let groups = if tree.files > MANY_FILES { record.effort.of(5, 3) } else { record.effort.pairs() };
    interleave(&mut contenders, groups, Duration::from_millis(1))
}

/// Updates every file once with `samples`. With `keep`, opens `keep` files at a time, and opening is not
/// counted.
fn pass(paths: &[PathBuf], samples: &[String], keep: Option<usize>) -> Result<Batch, BenchError> {
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let options = Options {
        name: "",
        template: None,
        skip_past: false,
        now: file::clock(),
        failure: Failure::ChangesNothing,
        record: false,
    };
    let open = |path: &PathBuf| Rrd::open(path, Access::Write);
    let mut batch = Batch { calls: paths.len() as u64, wall_ns: 0, cpu_ns: 0 };
    for part in paths.chunks(keep.unwrap_or(usize::MAX)) {
        let mut kept = Vec::new();
        if keep.is_some() {
            kept = rrd(part.iter().map(open).collect::<khz_rrd::Result<_>>())?;
        }
        let (cpu, start) = (thread_cpu_ns(), Instant::now());
        if keep.is_none() {
            rrd(part.iter().try_for_each(|path| open(path)?.update(&samples, &options).map(drop)))?;
        }
        rrd(kept.iter_mut().try_for_each(|file| file.update(&samples, &options).map(drop)))?;
        batch.cpu_ns += thread_cpu_ns() - cpu;
        batch.wall_ns += start.elapsed().as_nanos() as u64;
    }
    Ok(batch)
}

fn show(record: &mut Record, name: &str, files: usize, values: i64, turns: &[Turns]) {
    let rates = |turns: &Turns| turns.map(|batch| batch.per_cpu_second() * values as f64);
    let reference = rates(&turns[0]);
    let mut table = Table::new(&["who", "updates/CPU s", "quartiles", "us/file", "to librrd"]);
    for who in turns {
        let (Some(rate), Some(cost)) = (Spread::of(rates(who)), Spread::of(who.map(Batch::cpu_micros)))
        else {
            continue;
        };
        let ratio = Spread::of(ratios(&rates(who), &reference));
        table.row([
            who.name.clone(),
            figure(rate.median),
            format!("{}..{}", figure(rate.lower), figure(rate.upper)),
            figure(cost.median),
            ratio.map_or(String::new(), |ratio| figure(ratio.median)),
        ]);
    }
    record.show(&format!("## Updates of {files} warm files, {values} value(s) a call"), &table);
    let promised: &[(usize, f64)] = if values == 1 { &[(1, 1.8), (2, 3.0)] } else { &[(1, 2.0), (2, 2.0)] };
    for &(who, bound) in promised {
        let ratio = Spread::of(ratios(&rates(&turns[who]), &reference));
        record.verdict(&format!("{} to librrd, {name}", turns[who].name), ratio, Bound::AtLeast(bound));
    }
}
