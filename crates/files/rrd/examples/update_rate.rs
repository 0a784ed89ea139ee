//! Updates a directory of MRTG-like files round by round and prints the rate of each round:
//! `update_rate DIR FILES ROUNDS VALUES_A_CALL [keep]`. With `keep` the files stay open between rounds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use khz_rrd::create::{self, Plan};
use khz_rrd::file::{self, Access, Rrd};
use khz_rrd::update::{Failure, Options};

const START: i64 = 1_000_000_200;

fn create_all(paths: &[PathBuf]) -> khz_rrd::Result<()> {
    let mut seed = 1u64;
    for path in paths.iter().filter(|path| !path.exists()) {
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        let mut plan = Plan::default();
        plan.source("in:COUNTER:600:0:U")?;
        plan.source("out:COUNTER:600:0:U")?;
        for function in ["AVERAGE", "MAX"] {
            for (points, rows) in [(1, 600), (6, 700), (24, 775), (288, 797)] {
                plan.archive(&format!("{function}:0.5:{points}:{rows}"), 300, 0)?;
            }
        }
        let header = create::header(plan.definition(300)?, START, |_, rows| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % rows
        })?;
        file::create(path, &header, std::iter::empty(), true)?;
    }
    Ok(())
}

fn main() -> khz_rrd::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let number =
        |at: usize, default: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (files, rounds, values) = (number(2, 1000), number(3, 5), number(4, 1));
    let directory = Path::new(words.get(1).map_or("/tmp/rrd-rate", String::as_str));
    let path = |index: usize| directory.join((index / 1000).to_string()).join(format!("{index}.rrd"));
    let paths: Vec<PathBuf> = (0..files).map(path).collect();
    create_all(&paths)?;
    let options = Options {
        name: "",
        template: None,
        skip_past: false,
        now: file::clock(),
        failure: Failure::ChangesNothing,
        record: false,
    };
    let mut kept: Vec<Rrd> = vec![];
    if words.get(5).is_some_and(|word| word == "keep") {
        kept = paths.iter().map(|path| Rrd::open(path, Access::Write)).collect::<khz_rrd::Result<_>>()?;
    }
    let mut time = Rrd::open(&paths[0], Access::Read)?.header.last_update();
    for round in 0..rounds {
        let samples: Vec<String> = (0..values)
            .map(|_| {
                time += 300;
                format!("{time}:{}:{}", time % 1_000_000 * 1000, time % 1_000_000 * 77)
            })
            .collect();
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        let started = Instant::now();
        if kept.is_empty() {
            for path in &paths {
                Rrd::open(path, Access::Write)?.update(&samples, &options)?;
            }
        } else {
            for rrd in &mut kept {
                rrd.update(&samples, &options)?;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!("round {round}: {:.0} updates/s", (files * values) as f64 / seconds);
    }
    Ok(())
}
