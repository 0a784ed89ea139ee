//! Rounds with little memory, the paper's figures 3, 8 and 9: 200,000 files, 0.8 GiB for the daemon and the
//! pages of its files, and an update of every file each simulated five minutes. The simulated time begins at
//! 22:30, so that it includes midnight, when all archives close rows.
//!
//! Simulated minutes pass as fast as the daemon works, but not faster than [`Effort`]'s pace: an update waits
//! in the daemon for up to six rounds (half an hour), spread over as many. A round lasts until its updates
//! are accepted and, before the next round, all due updates are written.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cgroup::Group;
use super::client::batches;
use super::daemons::{Daemon, Setup, Side};
use super::tree::{START, STEP, Shape, Tree, rrd};
use crate::error::BenchError;
use crate::plot::{Line, Plot, Scale};
use crate::program::{build_directory, compile};
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::table::{Table, figure};

/// Memory for a daemon and its pages.
const MEMORY: u64 = 858_993_459;

/// Rounds of the two hours.
const ROUNDS: i64 = 24;

/// How many rounds an update waits.
const WAIT_ROUNDS: u64 = 6;

/// A case that takes longer ends early, since the next one needs its time. A daemon that keeps up ends in
/// time at the full pace.
const CASE_MAX: Duration = Duration::from_secs(270);

/// How often to check whether updates are due.
const LOOK: Duration = Duration::from_millis(10);

/// The result of a round.
#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    read_mb: f64,
    dirtied_mb: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let files = record.effort.of(200_000, 2_000);
    let pace = Duration::from_millis(record.effort.of(8_000, 1_000));
    let memory = record.effort.of(MEMORY, MEMORY / 10);
    let no_advice = compile("no_advice")?;
    let cases: [(&str, Side, &[std::ffi::OsString]); 3] = [
        ("ours", Side::Ours, &[]),
        ("ours without advice", Side::Ours, &[no_advice.into_os_string()]),
        ("rrdcached", Side::Theirs, &[]),
    ];
    let mut lines = Vec::new();
    for (name, side, wrapper) in cases {
        let tree = set_back(record, files, Shape::MRTG)?;
        let group = Group::limited(memory)?;
        let mut setup = Setup::fresh(side, &build_directory()?.join("bench-rrd-daemons"))?;
        setup.timeout = WAIT_ROUNDS * pace.as_secs();
        setup.delay = setup.timeout;
        setup.wrapper = group.wrapper();
        setup.wrapper.extend_from_slice(wrapper);
        let mut rounds = Vec::new();
        let mut daemon = Daemon::start(setup)?;
        let ended = case(record, &mut daemon, &tree, pace, &mut rounds);
        drop(daemon);
        if let Err(error) = ended {
            // The other cases are still measured.
            record.say(&format!("{name} ended early, in round {}: {error}", rounds.len() + 1));
        }
        for (number, round) in rounds.iter().enumerate() {
            for (what, value) in
                [("seconds", round.seconds), ("read MB", round.read_mb), ("dirtied MB", round.dirtied_mb)]
            {
                record.sample(["rounds", &files.to_string(), name], number, what, value);
            }
        }
        lines.push((name, rounds));
    }
    show(record, files, memory, pace, &lines)
}

/// The files as they were at the start, none of them in memory.
pub fn set_back(record: &Record, files: usize, shape: Shape) -> Result<Tree, BenchError> {
    let tree = Tree::of(record, files, shape)?;
    record.progress("all pages of the files are being dropped");
    forget_pages(&tree.paths())?;
    Ok(tree)
}

/// Drops all pages of these files.
pub fn forget_pages(paths: &[PathBuf]) -> Result<(), BenchError> {
    rustix::fs::sync();
    paths.iter().try_for_each(|path| rrd(khz_rrd::page_cache::drop_pages(path)))?;
    // Inodes and names too, if we may; otherwise they are warm for all contenders.
    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
    Ok(())
}

fn case(
    record: &Record,
    daemon: &mut Daemon,
    tree: &Tree,
    pace: Duration,
    rounds: &mut Vec<Round>,
) -> Result<(), BenchError> {
    let paths = tree.paths();
    let begun = Instant::now();
    for number in 1..=ROUNDS {
        let batches = batches(paths.iter(), START + number * STEP);
        let start = Instant::now();
        let (read, dirtied) = daemon.process.disk_bytes()?;
        let mut seconds = daemon.send(&batches, 4)?.as_secs_f64();
        let mut looked = Instant::now();
        loop {
            let busy = daemon.stat("QueueLength")? > 0;
            let over = start.elapsed() >= pace;
            if over && !busy {
                break;
            }
            std::thread::sleep(LOOK);
            if busy {
                seconds += looked.elapsed().as_secs_f64();
            }
            looked = Instant::now();
            if begun.elapsed() > CASE_MAX {
                return Err(BenchError::Reply(format!(
                    "not done after {} s; {} files wait",
                    CASE_MAX.as_secs(),
                    daemon.stat("QueueLength")?
                )));
            }
        }
        let after = daemon.process.disk_bytes()?;
        rounds.push(Round {
            seconds,
            read_mb: (after.0 - read) as f64 / 1e6,
            dirtied_mb: (after.1 - dirtied) as f64 / 1e6,
        });
        record.progress(&format!("{}, round {number}: {seconds:.1} s", daemon.setup.side.name()));
    }
    Ok(())
}

fn show(
    record: &mut Record,
    files: usize,
    memory: u64,
    pace: Duration,
    lines: &[(&str, Vec<Round>)],
) -> Result<(), BenchError> {
    let heads = ["rounds", "median s", "longest s", "longest/median", "read MB", "dirtied MB"];
    let mut table = Table::new(&heads);
    for (name, rounds) in lines {
        let seconds = Spread::of(rounds.iter().map(|round| round.seconds));
        let Some(seconds) = seconds else { continue };
        // The first rounds fill the cache of a new daemon; only afterwards are writes spread.
        let mut later: Vec<f64> = rounds.iter().skip(2 * WAIT_ROUNDS as usize).map(|r| r.seconds).collect();
        later.sort_by(f64::total_cmp);
        let swing = later.last().map_or(f64::NAN, |longest| longest / quantile(&later, 0.5));
        table.row([
            (*name).into(),
            figure(seconds.median),
            figure(seconds.max),
            figure(swing),
            figure(rounds.iter().map(|round| round.read_mb).sum()),
            figure(rounds.iter().map(|round| round.dirtied_mb).sum()),
        ]);
        if *name == "ours" {
            let whole = |figure| (rounds.len() == ROUNDS as usize).then(|| Spread::of([figure])).flatten();
            record.verdict("longest round, seconds", whole(seconds.max), Bound::AtMost(30.0));
            record.verdict("longest round to the median", whole(swing), Bound::AtMost(2.0));
        }
    }
    let title = format!(
        "{files} files, {} MiB of memory, {ROUNDS} rounds at least {} s apart",
        memory >> 20,
        pace.as_secs()
    );
    record.show(&format!("## Rounds: {title}"), &table);
    let labels = (1..=ROUNDS).map(|number| {
        let minutes = (START + number * STEP) / 60 % 1440;
        // Full hours.
        if minutes % 60 == 0 { format!("{:02}:00", minutes / 60) } else { String::new() }
    });
    let drawn: Vec<Line> = lines
        .iter()
        .map(|(name, rounds)| Line {
            name: (*name).into(),
            values: rounds.iter().map(|r| r.seconds).collect(),
        })
        .collect();
    let plot = Plot {
        title: &title,
        axis: "seconds until a round is complete",
        below: "end of the round, UTC",
        scale: Scale::Even,
        labels: labels.collect(),
        lines: &drawn,
    };
    record.store("rounds.svg", &plot.svg())
}
