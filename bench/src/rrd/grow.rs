//! The paper's growing run: 160,000 files, and 20,000 more every twenty simulated minutes, until rounds no longer fit,
//! for each way to update them. The paper's answer is a factor: with all of its means a machine holds three times as
//! many files.
//!
//! A simulated five minutes is shorter than five minutes, since this disk is faster than that of 2007; what a round may
//! take is stated. What the factor says does not depend on it much.

use std::time::Duration;

use super::cgroup::Group;
use super::course::{Course, Pace, Round};
use super::disk::Disk;
use super::drawn::{self, Ended};
use super::kept::Kept;
use super::rounds::{forget_pages, set_back};
use super::tree::{START, STEP, Shape, Tree};
use super::updater::{Updater, looping};
use super::way::Way;
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::table::{Table, figure, thousands};

/// The ways, each with one thing more than the one before it.
const WAYS: [Way; 6] = [Way::Nothing, Way::Advice, Way::Sorting, Way::Cache, Way::Spreading, Way::Rrdcached];

/// Rounds of twenty simulated minutes.
const ROUNDS: i64 = 4;

/// The paper's factor.
const FACTOR: f64 = 3.0;

/// How it grows.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// The files of the first step without advice, which cannot hold as many as the others.
    fewest: usize,
    first: usize,
    more: usize,
    most: usize,
    memory: u64,
    pace: Pace,
    /// What a round may take, in the middle of a step.
    fits: Duration,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    looping()?;
    let scale = |full: usize, quick: usize| record.effort.of(full, quick);
    let growth = Growth {
        fewest: scale(40_000, 500),
        first: scale(160_000, 1_000),
        more: scale(20_000, 500),
        most: scale(480_000, 2_000),
        memory: record.effort.of(10_000_000_000, 62_500_000),
        pace: Pace {
            round: Duration::from_secs(record.effort.of(15, 1)),
            give_up: Duration::from_secs(record.effort.of(90, 5)),
            enough: Duration::MAX,
        },
        fits: Duration::from_secs(record.effort.of(30, 2)),
    };
    let kept = Kept::open("grow", &format!("{growth:?}"))?;
    let mut courses = Vec::new();
    for way in WAYS {
        courses.push(kept.or_run(record, way.name(), || grown(record, way, growth))?);
    }
    show(record, growth, &courses)?;
    kept.forget()?;
    if record.effort.quick { Ok(()) } else { Tree::give_back(record, Shape::MRTG) }
}

/// A way, with more and more files until its rounds do not fit.
fn grown(record: &Record, way: Way, growth: Growth) -> Result<Ended, BenchError> {
    let first = if way == Way::Nothing { growth.fewest } else { growth.first };
    let mut tree = set_back(record, first, Shape::MRTG)?;
    let disk = Disk::of(&tree.directory)?;
    let group = Group::limited(growth.memory)?;
    let wrapper = group.wrapper();
    let paths = way.order(tree.paths());
    let updater = way.start(&paths, &wrapper, growth.pace.round)?;
    let mut course = Course { name: way.name(), updater, paths, disk: &disk, pace: growth.pace };
    let (mut rounds, mut time): (Vec<Round>, i64) = (Vec::new(), START);
    loop {
        let step = course.rounds(record, time, ROUNDS)?;
        time += ROUNDS * STEP;
        let fits = fits(&step, growth.fits);
        rounds.extend(step);
        if !fits || tree.files + growth.more > growth.most {
            break;
        }
        more(record, &mut tree, growth.more, time)?;
        course.paths = way.order(tree.paths());
        if matches!(course.updater, Updater::Loops(_)) {
            course.updater = way.start(&course.paths, &wrapper, growth.pace.round)?;
        }
    }
    Ok(Ended { name: way.name().to_owned(), rounds, figures: Vec::new() })
}

/// Makes further files. The pages that this leaves in memory are not the updater's.
fn more(record: &Record, tree: &mut Tree, more: usize, time: i64) -> Result<(), BenchError> {
    let before = tree.files;
    tree.ask_for_space(before + more)?;
    tree.grow(record, before + more, time)?;
    let new: Vec<_> = (before..tree.files).map(|index| tree.path(index)).collect();
    forget_pages(&new)
}

/// Whether a step fits: all its rounds were run, and the middle one was short enough.
fn fits(step: &[Round], fits: Duration) -> bool {
    let mut seconds: Vec<f64> = step.iter().map(|round| round.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    step.len() == ROUNDS as usize && quantile(&seconds, 0.5) <= fits.as_secs_f64()
}

/// The most files whose step fitted.
fn capacity(course: &Ended, growth: Growth) -> Option<usize> {
    let steps = course.rounds.chunk_by(|one, next| one.files == next.files);
    steps.filter(|step| fits(step, growth.fits)).map(|step| step[0].files).max()
}

fn show(record: &mut Record, growth: Growth, courses: &[Ended]) -> Result<(), BenchError> {
    let title = format!(
        "growing by {} files every twenty simulated minutes, {:.1} GB of memory; five minutes last {} s, a round may take {} s",
        growth.more,
        growth.memory as f64 / 1e9,
        growth.pace.round.as_secs(),
        growth.fits.as_secs()
    );
    let mut table = Table::new(&["way", "files that fit", "as a multiple", "ended"]);
    let base = courses.first().and_then(|course| capacity(course, growth));
    for course in courses {
        drawn::keep(record, "grow", course);
        let fit = capacity(course, growth);
        let factor = fit.zip(base).map(|(fit, base)| fit as f64 / base as f64);
        let last = course.rounds.last().map_or(0, |round| round.files);
        let ended =
            if fit == Some(last) { "all that were tried fit" } else { "its rounds did not fit any more" };
        table.row([
            course.name.clone(),
            fit.map_or_else(
                || format!("fewer than {}", course.rounds.first().map_or(0, |one| one.files)),
                |fit| thousands(fit as f64),
            ),
            factor.map_or(String::new(), figure),
            ended.to_owned(),
        ]);
        let bound = if course.name == Way::Spreading.name() { Bound::AtLeast(FACTOR) } else { Bound::Stated };
        record.verdict(&format!("{}: files that fit, as a multiple", course.name), Spread::of(factor), bound);
        record.verdict(
            &format!("{}: files that fit", course.name),
            Spread::of(fit.map(|fit| fit as f64)),
            Bound::Stated,
        );
    }
    record.show(&format!("## {title}"), &table);
    drawn::plots(record, "grow", "more and more files", "files", courses, |round| {
        thousands(round.files as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(files: usize, seconds: [f64; 4]) -> Vec<Round> {
        seconds.map(|seconds| Round { files, seconds, ..Round::default() }).to_vec()
    }

    #[test]
    fn the_capacity_is_that_of_the_last_step_whose_middle_round_fits() {
        let pace = Pace { round: Duration::ZERO, give_up: Duration::MAX, enough: Duration::MAX };
        let growth = Growth {
            fewest: 10,
            first: 10,
            more: 10,
            most: 40,
            memory: 0,
            pace,
            fits: Duration::from_secs(30),
        };
        let ended = |rounds: Vec<Vec<Round>>| Ended {
            name: "x".into(),
            rounds: rounds.concat(),
            figures: Vec::new(),
        };
        let grown = ended(vec![
            step(10, [1.0, 2.0, 3.0, 4.0]),
            step(20, [29.0, 29.0, 29.0, 99.0]),
            step(30, [31.0, 31.0, 31.0, 1.0]),
        ]);
        assert_eq!(capacity(&grown, growth), Some(20));
        assert_eq!(capacity(&ended(vec![step(10, [31.0; 4])]), growth), None);
        let mut cut = step(10, [1.0; 4]);
        cut.truncate(3);
        assert_eq!(capacity(&ended(vec![cut]), growth), None, "it gave up in the step");
    }
}
