//! Our files against rrdtool's, byte by byte, after every command.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
#[path = "oracle/cases.rs"]
mod random_cases;

use std::path::Path;

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

#[test]
fn creates_and_updates_leave_rrdtools_bytes() {
    let dir = oracle::directory("differential");
    let mut rrdtool = Oracle::start(&dir);
    let (theirs, ours) = (dir.join("t.rrd"), dir.join("ours.rrd"));
    let (mut updates, mut failures) = (0u64, 0u64);
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(400) {
        let mut random = Random::new(seed);
        let database = random_cases::database(&mut random, false);
        let line = format!("create t.rrd {}", database.arguments.join(" "));
        let mut log = vec![line.clone()];
        let reply = rrdtool.run(&line);
        assert_eq!(reply.error, None, "seed {seed}: {line}");
        create_like(&theirs, &ours, "t.rrd", &database.arguments).unwrap();
        let mut feed = random_cases::Feed::new(&database);
        for round in 0..60 {
            let (a, b) = (std::fs::read(&theirs).unwrap(), std::fs::read(&ours).unwrap());
            if let Some(at) = first_difference(&a, &b) {
                let kept = format!("{}/seed{seed}", dir.display());
                std::fs::write(format!("{kept}-theirs.rrd"), &a).unwrap();
                std::fs::write(format!("{kept}-ours.rrd"), &b).unwrap();
                panic!("seed {seed} round {round}: bytes differ at {at} ({kept}-*)\n{}", log.join("\n"));
            }
            let samples = match random.chance(30) {
                true => feed.steady(&mut random, &database),
                false => feed.next(&mut random, &database),
            };
            let line = format!("update t.rrd {}", samples.join(" "));
            log.push(line.clone());
            let reply = rrdtool.run(&line);
            if reply.error.is_some() {
                let outcome = our_update(&ours, &samples, Failure::ChangesNothing);
                assert!(outcome.is_err(), "seed {seed}: rrdtool refuses\n{}", log.join("\n"));
                assert_eq!(
                    std::fs::read(&ours).unwrap(),
                    b,
                    "seed {seed}: a failing update changed the file"
                );
            }
            let outcome = our_update(&ours, &samples, Failure::KeepsWhatWasDone);
            let error = outcome.err().map(|error| error.to_string());
            assert_eq!(error, reply.error, "seed {seed}\n{}", log.join("\n"));
            updates += 1;
            failures += u64::from(reply.error.is_some());
        }
    }
    println!("{updates} updates compared, {failures} of them failing");
    std::fs::remove_dir_all(&dir).unwrap();
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

#[test]
fn forecasts_stay_within_a_billionth() {
    let dir = oracle::directory("forecasts");
    let mut rrdtool = Oracle::start(&dir);
    let (theirs, ours) = (dir.join("t.rrd"), dir.join("ours.rrd"));
    let (mut updates, mut exact) = (0u64, 0u64);
    for seed in oracle::first_seed()..oracle::first_seed() + oracle::cases(200) {
        let mut random = Random::new(seed);
        let database = random_cases::database(&mut random, true);
        let line = format!("create t.rrd {}", database.arguments.join(" "));
        let mut log = vec![line.clone()];
        let reply = rrdtool.run(&line);
        assert_eq!(reply.error, None, "seed {seed}: {line}");
        create_like(&theirs, &ours, "t.rrd", &database.arguments).unwrap();
        let mut feed = random_cases::Feed::new(&database);
        for round in 0..100 {
            let (a, b) = (std::fs::read(&theirs).unwrap(), std::fs::read(&ours).unwrap());
            if let Some(at) = far(&a, &b) {
                let kept = format!("{}/seed{seed}", dir.display());
                std::fs::write(format!("{kept}-theirs.rrd"), &a).unwrap();
                std::fs::write(format!("{kept}-ours.rrd"), &b).unwrap();
                panic!("seed {seed} round {round}: differ at {at} ({kept}-*)\n{}", log.join("\n"));
            }
            exact += u64::from(a == b);
            let samples = feed.steady(&mut random, &database);
            let line = format!("update t.rrd {}", samples.join(" "));
            log.push(line.clone());
            let reply = rrdtool.run(&line);
            let outcome = our_update(&ours, &samples, Failure::KeepsWhatWasDone);
            let error = outcome.err().map(|error| error.to_string());
            assert_eq!(error, reply.error, "seed {seed}\n{}", log.join("\n"));
            updates += 1;
        }
    }
    println!("{updates} updates compared, {exact} of them equal to the byte");
    std::fs::remove_dir_all(&dir).unwrap();
}
