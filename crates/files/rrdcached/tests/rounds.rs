//! Two simulated hours in rounds of five minutes: how many pages of files each round changes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_rrdcached::log::{self, Disk, Log};
use khz_rrdcached::{Base, Cache, End, Limits, Messages, Update};

const FILES: usize = 150;
const PAGE: usize = 4096;
/// An hour before a midnight.
const START: i64 = 1_700_006_400 - 3600;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut rrdtool = oracle::Oracle::start(dir);
    // Archives of several pages each, so that none shares a page with another.
    let archives: String = ["AVERAGE", "MAX"]
        .iter()
        .flat_map(|function| [1, 6, 24, 288].map(|points| format!(" RRA:{function}:0.5:{points}:600")))
        .collect();
    (0..FILES)
        .map(|index| {
            let create = format!(
                "create {index}.rrd -b {START} -s 300 DS:a:GAUGE:900:U:U DS:b:GAUGE:900:U:U{archives}"
            );
            assert_eq!(rrdtool.run(&create).error, None);
            dir.join(format!("{index}.rrd"))
        })
        .collect()
}

/// Pages changed in each of two hours' rounds.
fn rounds(name: &str, spread: u32) -> Vec<usize> {
    let dir = oracle::directory(name).canonicalize().unwrap();
    let files = files(&dir);
    let (log, left) = Log::open(log::Settings {
        directory: dir.join("log"),
        window: Duration::from_millis(10),
        bytes_max: 1 << 30,
        boot: "boot".into(),
        storage: Arc::new(Disk),
    })
    .unwrap();
    // Due at once: only spreading holds a file back.
    let limits = Limits { timeout: 0, spread, ..Limits::default() };
    let cache = Cache::new(Base::new(&dir, false).unwrap(), limits, Some(log), true, Messages::none());
    cache.replay(&left).unwrap();
    let mut costs = vec![];
    std::thread::scope(|scope| {
        scope.spawn(|| cache.work());
        let read = || -> Vec<Vec<u8>> { files.iter().map(|file| std::fs::read(file).unwrap()).collect() };
        let mut before = read();
        for round in 1..=24 {
            let samples = format!("{}:{round}:{round}", START + 300 * round);
            let updates: Vec<Update<'_>> =
                files.iter().map(|file| Update { file: file.to_str().unwrap(), samples: &samples }).collect();
            assert!(cache.update(&updates).iter().all(Result::is_ok));
            while cache.stats().queue > 0 {
                std::thread::yield_now();
            }
            // Returns when no write is in progress.
            cache.checkpoint();
            let after = read();
            let changed = |(before, after): (&Vec<u8>, &Vec<u8>)| {
                before.chunks(PAGE).zip(after.chunks(PAGE)).filter(|(before, after)| before != after).count()
            };
            costs.push(before.iter().zip(&after).map(changed).sum());
            before = after;
        }
        cache.end(End::Written);
    });
    let last = START + 300 * 24;
    for file in &files {
        let rrd = khz_rrd::file::Rrd::open(file, khz_rrd::file::Access::Read).unwrap();
        assert_eq!(rrd.header.last_update(), last, "{}: the end writes what was held back", file.display());
    }
    std::fs::remove_dir_all(&dir).unwrap();
    costs
}

/// The most expensive round divided by the median.
fn ratio(costs: &[usize]) -> f64 {
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    *sorted.last().unwrap() as f64 / sorted[sorted.len() / 2] as f64
}

#[test]
fn no_round_costs_more_than_twice_the_median_even_at_midnight() {
    let spread = rounds("spread", Limits::default().spread);
    assert!(ratio(&spread) <= 2.0, "{spread:?}");
    // Without spreading midnight stands out, or this test would show nothing.
    let together = rounds("together", 0);
    assert!(ratio(&together) > 2.0, "{together:?}");
    // A file that is held back is written together with later samples: fewer pages in all.
    assert!(spread.iter().sum::<usize>() < together.iter().sum::<usize>());
}
