//! Our files against rrdtool's, byte by byte, after every command.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
#[path = "oracle/cases.rs"]
mod random_cases;

use std::path::{Path, PathBuf};

use khz_rrd::create::{self, Plan};
use khz_rrd::file::{self, Access, Rrd};
use khz_rrd::sample::Stamp;
use khz_rrd::update::{Failure, Options};
use oracle::{Oracle, Random, first_difference};

/// Our `create`, with row positions taken from the file rrdtool made.
fn create_like(theirs: &Path, ours: &Path, name: &str, arguments: &[String]) -> khz_rrd::Result<()> {
    let judge = Rrd::open(theirs, Access::Read)?;
    let mut plan = Plan::default();
    let (start, step) = (arguments[1].parse().unwrap(), arguments[3].parse().unwrap());
    for argument in &arguments[4..] {
        if let Some(spec) = argument.strip_prefix("DS:") {
            plan.source(spec)?;
        } else if let Some(spec) = argument.strip_prefix("RRA:") {
            plan.archive(spec, step, khz_rrd::spec::season_hash(name))?;
        }
    }
    let header = create::header(plan.definition(step)?, start, |rra, _| judge.header.current_row(rra))?;
    file::create(ours, &header, std::iter::empty(), true)
}

fn our_update(path: &Path, samples: &[String], failure: Failure) -> khz_rrd::Result<()> {
    let mut rrd = Rrd::open(path, Access::Write)?;
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let options = Options {
        name: "t.rrd",
        template: None,
        skip_past: false,
        now: Stamp { seconds: 1_700_000_000, usec: 0 },
        failure,
        record: false,
    };
    rrd.update(&samples, &options).map(|_| ())
}

/// Doubles that are equal, both unknown, or within 1e-9 of each other.
fn near(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// Where two files differ by more than [`near`]: definitions and counts byte by byte, the rest as numbers.
fn far(a: &[u8], b: &[u8]) -> Option<usize> {
    if a.len() != b.len() {
        return Some(a.len().min(b.len()));
    }
    let word = |bytes: &[u8], at: usize| f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (0..a.len()).step_by(8).find(|&at| a[at..at + 8] != b[at..at + 8] && !near(word(a, at), word(b, at)))
}

/// How random databases are drawn, and how equal they must be.
struct Trial {
    name: &'static str,
    cases: u64,
    rounds: u64,
    forecasting: bool,
    /// Calls that are in time and sensible, of a hundred.
    steady_percent: u64,
    differ: fn(&[u8], &[u8]) -> Option<usize>,
}

/// One database on both sides.
struct Twins {
    theirs: PathBuf,
    ours: PathBuf,
    log: Vec<String>,
}

impl Twins {
    /// Compares the files; whether they are equal to the byte.
    fn compare(&self, trial: &Trial, seed: u64) -> bool {
        let (a, b) = (std::fs::read(&self.theirs).unwrap(), std::fs::read(&self.ours).unwrap());
        if let Some(at) = (trial.differ)(&a, &b) {
            let kept = format!("{}-seed{seed}", self.ours.display());
            std::fs::write(format!("{kept}-theirs.rrd"), &a).unwrap();
            std::fs::write(format!("{kept}-ours.rrd"), &b).unwrap();
            panic!("seed {seed}: bytes differ at {at} ({kept}-*)\n{}", self.log.join("\n"));
        }
        a == b
    }

    /// One call on both sides; whether it was refused, with the same message and, if asked for, without a change.
    fn update(&mut self, rrdtool: &mut Oracle, samples: &[String]) -> bool {
        let line = format!("update t.rrd {}", samples.join(" "));
        self.log.push(line.clone());
        let reply = rrdtool.run(&line);
        if reply.error.is_some() {
            let before = std::fs::read(&self.ours).unwrap();
            let outcome = our_update(&self.ours, samples, Failure::ChangesNothing);
            assert!(outcome.is_err(), "rrdtool refuses\n{}", self.log.join("\n"));
            assert!(std::fs::read(&self.ours).unwrap() == before, "a failing update changed the file");
        }
        let outcome = our_update(&self.ours, samples, Failure::KeepsWhatWasDone);
        let error = outcome.err().map(|error| error.to_string());
        assert_eq!(error, reply.error, "{}", self.log.join("\n"));
        reply.error.is_some()
    }
}

impl Trial {
    fn run(&self) {
        let dir = oracle::directory(self.name);
        let mut rrdtool = Oracle::start(&dir);
        let (mut updates, mut failures, mut equal) = (0u64, 0u64, 0u64);
        for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(self.cases) {
            let mut random = Random::new(seed);
            let database = random_cases::database(&mut random, self.forecasting);
            let line = format!("create t.rrd {}", database.arguments.join(" "));
            assert_eq!(rrdtool.run(&line).error, None, "seed {seed}: {line}");
            let mut twins = Twins { theirs: dir.join("t.rrd"), ours: dir.join("ours.rrd"), log: vec![line] };
            create_like(&twins.theirs, &twins.ours, "t.rrd", &database.arguments).unwrap();
            let mut feed = random_cases::Feed::new(&database);
            for _ in 0..self.rounds {
                equal += u64::from(twins.compare(self, seed));
                let samples = match random.chance(self.steady_percent) {
                    true => feed.steady(&mut random, &database),
                    false => feed.next(&mut random, &database),
                };
                failures += u64::from(twins.update(&mut rrdtool, &samples));
                updates += 1;
            }
            twins.compare(self, seed);
        }
        println!("{updates} updates compared, {failures} refused, {equal} files equal to the byte");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn creates_and_updates_leave_rrdtools_bytes() {
    let trial = Trial {
        name: "differential",
        cases: 400,
        rounds: 60,
        forecasting: false,
        steady_percent: 30,
        differ: first_difference,
    };
    trial.run();
}

#[test]
fn forecasts_stay_within_a_billionth() {
    let trial = Trial {
        name: "forecasts",
        cases: 200,
        rounds: 100,
        forecasting: true,
        steady_percent: 100,
        differ: far,
    };
    trial.run();
}
