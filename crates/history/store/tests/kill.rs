//! kill -9 of a process that writes to a store, at any moment: every row that it has called stored is there, once and with
//! its values, and the next process goes on after it. Compaction runs beside the commits, as in a hub.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::folder;
use common::open::Open;
use common::sender::{BLOCK_ROWS, Sender, check, time};
use common::stored::*;
use khz_model::Nanos;
use khz_store::StoreReader;
use khz_store::range::{ColumnFiles, RangeReader};
use khz_store::shelf::Tier;

/// The process that is killed writes to this folder.
const FOLDER: &str = "KHZ_STORE_TEST_FOLDER";
/// After each kill the rows of this time before the last ones are compared, and all of them at the end.
const WINDOW_ROWS: u64 = 2 * HOUR / common::sender::PERIOD;
/// A killed process has written at most this many lines since it was last read.
const LINES_MAX: u64 = 9;
/// The longest time between the last line that is waited for and the kill.
const DELAY_MAX: Duration = Duration::from_millis(8);

/// Not a test by itself: the process that the tests kill. It says after each commit what is stored.
#[test]
fn writer_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (store, intake) = open_store(Path::new(&folder), everything(), BEGIN);
    store.bundle_from(2);
    let open = Open::of(&intake);
    let mut senders: Vec<Sender> = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
    let now = Arc::new(AtomicU64::new(time(senders[0].next)));
    let (store, clock) = (Arc::new(store), now.clone());
    let compacted = store.clone();
    std::thread::spawn(move || {
        loop {
            let tick = compacted.tick_compaction(Nanos(clock.load(Ordering::Relaxed))).unwrap();
            assert!(tick.damage.is_empty(), "{:?}", tick.damage);
            if tick.is_idle() {
                std::thread::yield_now();
            }
        }
    });
    println!();
    for turn in 0.. {
        // A block ends with some commits, and with others two.
        senders.iter_mut().for_each(|sender| sender.send(&intake, 1 + turn * 7 % BLOCK_ROWS));
        let newest = senders.iter().map(|sender| time(sender.next)).min().unwrap();
        now.store(newest, Ordering::Relaxed);
        store.commit(Nanos(newest)).unwrap();
        let stored: Vec<String> =
            senders.iter().map(|sender| sender.lane.stored_until().to_string()).collect();
        println!("stored {}", stored.join(" "));
        std::io::stdout().flush().unwrap();
    }
}

fn start(folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer_process", "--nocapture"]).env(FOLDER, folder);
    let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// The next line that says what is stored; `None`: the process has ended.
fn stored(output: &mut BufReader<ChildStdout>) -> Option<Vec<u64>> {
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            return None;
        }
        if let Some(numbers) = line.trim_end().strip_prefix("stored ") {
            return Some(numbers.split(' ').map(|number| number.parse().unwrap()).collect());
        }
    }
}

/// What another process finds, from this row on.
fn found(folder: &Path, from: u64) -> Vec<u64> {
    let reader = StoreReader::open(folder).unwrap();
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    let ranges = RangeReader::new(reader.shelf().clone(), Some(reader.log()), Arc::new(()));
    check(&ranges, NODES, from)
}

/// Kills a writer `times` times, each at another moment.
fn kill(times: u32, name: &str) {
    let folder: PathBuf = folder(name);
    let (mut safe, mut random, mut early) = (vec![0; NODES], 0x2545_F491_4F6C_DD1D_u64, 0);
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    // The folder must be a store before another process can read it.
    drop(open_store(&folder, everything(), BEGIN));
    for round in 0..times {
        let (mut child, mut output) = start(&folder);
        let mut said = None;
        for _ in 0..below(LINES_MAX) {
            said =
                Some(stored(&mut output).unwrap_or_else(|| panic!("round {round}: it has ended by itself")));
        }
        let end = Instant::now() + Duration::from_micros(below(DELAY_MAX.as_micros() as u64));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(later) = stored(&mut output) {
            said = Some(later);
        }
        early += u32::from(said.is_none());
        let said = said.unwrap_or_else(|| safe.clone());
        let from = said.iter().min().unwrap().saturating_sub(WINDOW_ROWS);
        let now = found(&folder, from);
        assert!(said.iter().zip(&now).all(|(said, now)| said <= now), "round {round}: {said:?}, {now:?}");
        assert!(safe.iter().zip(&now).all(|(safe, now)| safe <= now), "round {round}: {safe:?}, {now:?}");
        safe = now;
    }
    println!("{safe:?} rows; {early} of {times} were killed before they had stored anything");
    let (store, _intake) = open_store(&folder, everything(), BEGIN);
    let last = time(*safe.iter().max().unwrap());
    // Late rows of an hour wait for others.
    (3..6).for_each(|hours| _ = settle(&store, last + hours * HOUR));
    let ranges = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    assert_eq!(check(&ranges, NODES, 0), safe);
    assert!(store.shelf().hours(Nanos(0), Nanos(u64::MAX)).iter().all(|hour| hour.is_settled));
    check_roll_ups(store.shelf(), BEGIN, last - last % HOUR + HOUR);
    assert!(store.shelf().check().is_empty(), "nothing is left over");
    let merged = store.shelf().facts().into_iter().find(|facts| facts.tier == Tier::Raw).unwrap().files;
    assert!(merged > 1, "hours were merged: {merged}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_hundred_kills_lose_no_row_that_was_stored() {
    kill(100, "kill");
}

#[test]
#[ignore = "slow: a thousand kills"]
fn a_thousand_kills_lose_no_row_that_was_stored() {
    kill(1_000, "kill-slow");
}
