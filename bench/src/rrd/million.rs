//! A million files with two values each, in 4 GiB for the daemon and the pages of its files: two simulated hours with
//! two full hours and a midnight in them, each update durable before it is acknowledged. Then a kill in the middle of
//! the round of a full hour, and the time until all is answered and written again.
//!
//! The files are as small as they can be with archives that are longer than a page each: the pages that are touched
//! again and again are eight a file, as in the paper.

use std::time::{Duration, Instant};

use super::cgroup::Group;
use super::client::batches;
use super::course::{self, Course, Pace, Size};
use super::disk::Disk;
use super::drawn::{self, Ended};
use super::kept::Kept;
use super::rounds::set_back;
use super::tree::{START, STEP, Shape, Tree};
use super::updater::{Updater, looping};
use super::way::{WAIT_ROUNDS, Way};
use super::whole;
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};

/// Rounds of the two hours.
const ROUNDS: i64 = 24;

/// Files that are looked at after each round of the second hour: none may lack a value that is an hour old.
const LOOKED_AT: usize = 1_000;
const HOUR: i64 = 3_600;

/// The round of 23:00, in which the daemon is killed.
const KILLED_IN: i64 = 6;

/// What a round may take.
const ROUND_MAX: f64 = 75.0;

/// What the longest may take, as a multiple of the one in the middle.
const SWING_MAX: f64 = 2.0;

/// Bytes a file in the daemon.
const BYTES_MAX: f64 = 250.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    looping()?;
    let pace = Pace {
        round: Duration::from_secs(record.effort.of(60, 2)),
        give_up: Duration::from_secs(record.effort.of(150, 10)),
        enough: Duration::from_secs(record.effort.of(900, 60)),
    };
    let size = Size {
        files: record.effort.of(1_000_000, 4_000),
        shape: Shape::SMALL,
        memory: record.effort.of(4 << 30, 64 << 20),
        pace,
    };
    let kept = Kept::open("million", &format!("{size:?}"))?;
    let mut courses = vec![kept.or_run(record, Way::Spreading.name(), || ours(record, size))?];
    let killed = kept.or_run(record, "killed", || killed(record, size))?;
    for way in [Way::Rrdcached, Way::Advice] {
        courses.push(kept.or_run(record, way.name(), || course::whole(record, way, size, ROUNDS))?);
    }
    show(record, size, &courses, &killed)?;
    kept.forget()?;
    if record.effort.quick { Ok(()) } else { Tree::give_back(record, Shape::SMALL) }
}

/// Our daemon: its rounds, whether what is an hour old is in the files, and at the end everything.
fn ours(record: &Record, size: Size) -> Result<Ended, BenchError> {
    let way = Way::Spreading;
    let tree = set_back(record, size.files, Shape::SMALL)?;
    let disk = Disk::of(&tree.directory)?;
    let group = Group::limited(size.memory)?;
    let paths = tree.paths();
    let updater = way.start(&paths, &group.wrapper(), size.pace.round)?;
    let mut course = Course { name: way.name(), updater, paths, disk: &disk, pace: size.pace };
    let (mut rounds, mut old) = (Vec::new(), 0);
    for number in 1..=ROUNDS {
        let time = START + number * STEP;
        rounds.push(course.round(record, time)?);
        if number > 2 * WAIT_ROUNDS as i64 {
            old += whole::older(&tree, LOOKED_AT, time, HOUR)?;
        }
    }
    let mut figures = vec![("files without a value of an hour ago".to_owned(), old as f64)];
    let Updater::Daemon(daemon) = &mut course.updater else {
        return Ok(Ended { name: way.name().into(), rounds, figures });
    };
    record.progress("all that waits is being written");
    let pending = daemon.stat("UpdatesPending")?;
    let drained = drain(daemon)?;
    record.progress("all files are compared with what was acknowledged");
    let missing = whole::missing(&tree, START + ROUNDS * STEP)?;
    figures.push(("values that wait at the end, a file".to_owned(), pending as f64 / size.files as f64));
    figures.push(("until these are written, s".to_owned(), drained.as_secs_f64()));
    figures.push(("values missing".to_owned(), missing as f64));
    Ok(Ended { name: way.name().to_owned(), rounds, figures })
}

/// Our daemon is killed in the middle of a full hour's round, with all rounds before it in its log alone.
fn killed(record: &Record, size: Size) -> Result<Ended, BenchError> {
    let tree = set_back(record, size.files, Shape::SMALL)?;
    let group = Group::limited(size.memory)?;
    let paths = tree.paths();
    // Nothing is due before the kill.
    let Updater::Daemon(mut daemon) =
        Way::Spreading.start(&paths, &group.wrapper(), Duration::from_secs(HOUR as u64))?
    else {
        return Err(BenchError::Reply("BUG: our daemon is a loop".into()));
    };
    for number in 1..KILLED_IN {
        record.progress(&format!("round {number} of {KILLED_IN} before the kill"));
        daemon.send(&batches(paths.iter(), START + number * STEP), 4)?;
    }
    let last = batches(paths.iter(), START + KILLED_IN * STEP);
    record.progress("the daemon is killed in the middle of a round");
    let acknowledged = daemon.send_until_killed(&last, last.len() / 2)?;
    let setup = daemon.kill();
    record.progress("it starts again");
    let mut daemon = super::daemons::Daemon::start(setup)?;
    let first = daemon.first_answer.as_secs_f64();
    let again = daemon.send_again(&last[acknowledged..])?;
    let expected = size.files as u64 * KILLED_IN as u64;
    daemon.wait("UpdatesPending", |pending| pending >= expected)?;
    let replayed = daemon.started.elapsed().as_secs_f64();
    let memory = daemon.process.held()?.anonymous_kb as f64 * 1024.0;
    record.progress("all that waits is being written");
    drain(&mut daemon)?;
    let drained = daemon.started.elapsed().as_secs_f64();
    record.progress("all files are compared with what was acknowledged");
    let missing = whole::missing(&tree, START + KILLED_IN * STEP)?;
    let figures = [
        ("first answer after the kill, s", first),
        ("until all is back, s", replayed),
        ("until all is written, s", drained),
        ("bytes a file with six values that wait", memory / size.files as f64),
        ("updates that were there though they were not acknowledged", again as f64),
        ("values missing", missing as f64),
    ];
    let figures = figures.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok(Ended { name: "killed".to_owned(), rounds: Vec::new(), figures })
}

/// Makes a daemon write all that waits.
fn drain(daemon: &mut super::daemons::Daemon) -> Result<Duration, BenchError> {
    let start = Instant::now();
    daemon.connections[0].ask("FLUSHALL")?;
    daemon.wait("UpdatesPending", |pending| pending == 0)?;
    Ok(start.elapsed())
}

fn show(record: &mut Record, size: Size, courses: &[Ended], killed: &Ended) -> Result<(), BenchError> {
    let title = format!(
        "{} files of {}, {} MiB of memory, rounds at least {} s apart",
        size.files,
        Shape::SMALL.about,
        size.memory >> 20,
        size.pace.round.as_secs()
    );
    courses.iter().chain([killed]).for_each(|course| drawn::keep(record, "million", course));
    drawn::table(record, &format!("## {title}"), courses);
    drawn::plots(record, "million", &title, "end of the round, UTC", courses, |round| round.clock())?;
    let Some(ours) = courses.first() else { return Ok(()) };
    let one = |value: Option<f64>| Spread::of(value);
    let longest = ours.rounds.iter().map(|round| round.seconds).reduce(f64::max);
    record.verdict("longest round, seconds", one(longest), Bound::AtMost(ROUND_MAX));
    // The first rounds fill the cache of a new daemon; only afterwards writes are spread.
    let mut later: Vec<f64> =
        ours.rounds.iter().skip(2 * WAIT_ROUNDS as usize).map(|round| round.seconds).collect();
    later.sort_by(f64::total_cmp);
    let swing = later.last().map(|longest| longest / quantile(&later, 0.5));
    record.verdict("longest round to the median", one(swing), Bound::AtMost(SWING_MAX));
    let memory = ours.rounds.last().map(|round| round.memory_mb * 1e6 / size.files as f64);
    record.verdict("memory of the daemon, bytes a file", one(memory), Bound::AtMost(BYTES_MAX));
    for (name, bound) in [
        ("files without a value of an hour ago", Bound::AtMost(0.0)),
        ("values that wait at the end, a file", Bound::Stated),
        ("until these are written, s", Bound::Stated),
        ("values missing", Bound::AtMost(0.0)),
    ] {
        record.verdict(name, one(ours.figure(name)), bound);
    }
    for (name, bound) in [
        ("first answer after the kill, s", Bound::AtMost(1.0)),
        ("until all is back, s", Bound::Stated),
        ("until all is written, s", Bound::Stated),
        ("bytes a file with six values that wait", Bound::Stated),
        ("values missing", Bound::AtMost(0.0)),
    ] {
        record.verdict(&format!("killed: {name}"), one(killed.figure(name)), bound);
    }
    Ok(())
}
