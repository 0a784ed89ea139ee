//! Random command lines, given to the installed rrdtool and to ours: output, exit codes, and the bytes of the files.
//! `KHZ_RRD_CASES` sequences from seed `KHZ_RRD_SEED` on; a failure prints the seed and the lines.
//!
//! [`known`] lists the differences that are allowed, as docs/rrd.md does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "fuzz/known.rs"]
mod known;
#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
#[path = "../../rrd/tests/sides/mod.rs"]
mod sides;
#[path = "fuzz/specs.rs"]
mod specs;
#[path = "fuzz/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use oracle::Random;
use sides::{Difference, Mode, Sides};
use words::Story;

/// Commands in a sequence.
const COMMANDS: u64 = 8;
/// Sequences by default.
const SEQUENCES: u64 = 500;

/// An unknown difference.
struct Found {
    seed: u64,
    text: String,
}

/// Runs one sequence; counts the known differences.
fn sequence(seed: u64, met: &mut BTreeMap<&'static str, u64>) -> Result<u64, Found> {
    let mut random = Random::new(seed);
    let mode = match random.below(10) {
        0..=5 => Mode::Pipe,
        6..=7 => Mode::Daemon,
        _ => Mode::Alone,
    };
    let mut story = Story::new(&mut random);
    let mut sides = Sides::start(env!("CARGO_BIN_EXE_khz-rrdcached"), seed, mode);
    let mut log = vec![];
    let mut is_aligned = true;
    for index in 0..COMMANDS {
        let words = match index {
            0 => story.first_command(&mut random),
            _ => story.command(&mut random),
        };
        log.push(sides::shown(&words));
        let Some(difference) = sides.compare(&words, &mut random) else {
            // rrdtool may have changed the file all the same, which does not show through a daemon.
            if mode == Mode::Daemon
                && sides.failed
                && ["tune", "update", "updatev"].contains(&words[0].as_str())
            {
                is_aligned = false;
                break;
            }
            continue;
        };
        judge(seed, mode, &words, &difference, &log, &sides, met)?;
        if !sides.align() || difference.theirs.code.is_none() {
            is_aligned = false;
            break;
        }
    }
    if let (Mode::Daemon, true) = (mode, is_aligned)
        && let Some(difference) = sides.compare_files()
    {
        let words = ["flushcached".to_string()];
        log.push(sides::shown(&words));
        judge(seed, mode, &words, &difference, &log, &sides, met)?;
    }
    sides.remove();
    Ok(log.len() as u64)
}

/// Counts a known difference; an unknown one is an error.
fn judge(
    seed: u64,
    mode: Mode,
    words: &[String],
    difference: &Difference,
    log: &[String],
    sides: &Sides,
    met: &mut BTreeMap<&'static str, u64>,
) -> Result<(), Found> {
    let Some(reason) = known::reason(mode, words, difference) else {
        let text = format!("{mode:?} in {}\n{}\n{difference}", sides.place(), log.join("\n"));
        return Err(Found { seed, text });
    };
    *met.entry(reason).or_default() += 1;
    Ok(())
}

#[test]
fn command_lines_do_what_rrdtools_do_except_for_what_is_listed() {
    let (first, count) = (oracle::first_seed(), oracle::cases(SEQUENCES));
    let next = AtomicU64::new(first);
    let (found, met, lines) = (Mutex::new(vec![]), Mutex::new(BTreeMap::new()), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut known = BTreeMap::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || found.lock().unwrap().len() >= most() {
                        break;
                    }
                    match sequence(seed, &mut known) {
                        Ok(count) => drop(lines.fetch_add(count, Ordering::Relaxed)),
                        Err(one) => found.lock().unwrap().push(one),
                    }
                }
                let mut met = met.lock().unwrap();
                known.into_iter().for_each(|(reason, count)| *met.entry(reason).or_insert(0u64) += count);
            });
        }
    });
    println!(
        "{count} sequences, {} command lines; known differences: {:#?}",
        lines.into_inner(),
        met.into_inner().unwrap()
    );
    let found = found.into_inner().unwrap();
    let told: Vec<String> =
        found.iter().map(|one| format!("KHZ_RRD_SEED={} {}", one.seed, one.text)).collect();
    assert!(told.is_empty(), "{} differences\n{}", told.len(), told.join("\n\n"));
}

/// Differences after which the test ends.
fn most() -> usize {
    std::env::var("KHZ_RRD_DIFFERENCES").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[test]
fn every_known_difference_stands_in_the_documentation() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/rrd.md")).unwrap();
    let listed = |reason: &&&str| !text.contains(&format!("`{reason}`"));
    let missing: Vec<_> = known::REASONS.iter().filter(listed).collect();
    assert!(missing.is_empty(), "not in docs/rrd.md: {missing:?}");
}
