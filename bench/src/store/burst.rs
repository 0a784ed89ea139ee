//! A minute of 4,096 nodes at 100 Hz, handed over as quickly as a hub would do it: a hundred times a second a row of each
//! node, with a commit each second on another thread. All rows must be in the log afterwards; the memory is stated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_model::Nanos;
use khz_store::log::{Commit, Intake, Log};
use khz_store::{Store, StoreError};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::folder::{self, Scratch};
use crate::store::memory::Peak;
use crate::store::nodes::{BLOCK_ROWS, Nodes, SLOTS};
use crate::store::ranges::keep;
use crate::table::{Table, figure, thousands};

/// Slots that move from row to row at 100 Hz: 90 bytes a row, as recordings of a busy machine have.
const MOVING: usize = 40;
/// The same of 1,000 slots.
const MOVING_MANY: usize = 133;
const RATE: u64 = 100;
const COMMIT: Duration = Duration::from_secs(1);

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let heads = ["slots", "took s", "rows, M", "lost", "hand ns", "commit ns", "max ms", "MB"];
    let mut table = Table::new(&heads);
    let cases = [(SLOTS, MOVING, record.effort.of(60, 6)), (1_000, MOVING_MANY, record.effort.of(15, 3))];
    for (turn, (slots, moving, seconds)) in cases.into_iter().enumerate() {
        record.progress(&format!("{slots} slots, {seconds} s"));
        let done = play(slots, moving, seconds)?;
        let case = format!("4096 x {RATE} x {slots}");
        for (what, value) in [
            ("took_s", done.took),
            ("rows", done.rows as f64),
            ("rows_lost", done.lost as f64),
            ("handing_ns", done.handing),
            ("commit_ns", done.commits),
            ("longest_ms", done.longest_ms),
            ("memory_mb", done.memory_mb),
            ("bytes", done.bytes as f64),
        ] {
            record.sample(["burst", &case, "khz"], turn, what, value);
        }
        table.row([
            format!("{} x {seconds} s", thousands(slots as f64)),
            figure(done.took),
            figure(done.rows as f64 / 1e6),
            thousands(done.lost as f64),
            figure(done.handing),
            figure(done.commits),
            figure(done.longest_ms),
            thousands(done.memory_mb),
        ]);
        let is_usual = slots == SLOTS;
        let bound = if is_usual { Bound::AtMost(0.0) } else { Bound::Stated };
        record.verdict(&format!("burst, {slots} slots: rows lost"), Spread::of([done.lost as f64]), bound);
        let late = done.took - seconds as f64;
        record.verdict(&format!("burst, {slots} slots: s behind"), Spread::of([late]), Bound::Stated);
        let memory = Spread::of([done.memory_mb]);
        record.verdict(&format!("burst, {slots} slots: memory, MB"), memory, Bound::Stated);
    }
    record.show(&format!("## A burst of 4,096 nodes at {RATE} Hz"), &table);
    record.say(
        "Lost: rows that were handed over and that the log, read again after its end, does not have. Handing and\n\
         commit: CPU a row, each on its thread. MB: how much the process's peak grew, with the open blocks that a hub has anyway.\n\
         Compaction did not run.\n",
    );
    Ok(())
}

struct Done {
    took: f64,
    rows: u64,
    lost: u64,
    handing: f64,
    commits: f64,
    longest_ms: f64,
    memory_mb: f64,
    bytes: u64,
}

/// What the thread that commits has seen.
#[derive(Default)]
struct Commits {
    cpu_ns: u64,
    longest_ms: f64,
}

fn wrong(error: StoreError) -> BenchError {
    failed("the store", error)
}

fn play(slots: usize, moving: usize, seconds: u64) -> Result<Done, BenchError> {
    let scratch = Scratch::new("burst")?;
    let folder = scratch.at("store");
    let (store, intake, _) = Store::open(&folder, keep(), Nanos(0)).map_err(wrong)?;
    let nodes = Nodes::new(slots, moving, &intake)?;
    commit(&store)?;
    let before: u64 = nodes.counts().iter().sum();
    let (peak, is_over, start) = (Peak::begin()?, AtomicBool::new(false), Instant::now());
    let (handing, commits) = std::thread::scope(|scope| {
        let commits = scope.spawn(|| commit_each_second(&store, &is_over));
        let handing = hand_over(&nodes, &intake, seconds, start);
        is_over.store(true, Ordering::Release);
        (handing, commits.join())
    });
    let took = start.elapsed().as_secs_f64();
    let commits = commits.map_err(|_| failed("the thread that commits", "it panicked"))??;
    let memory_mb = peak.grown_kb()? / 1e3;
    let rows: u64 = nodes.counts().iter().sum::<u64>() - before;
    for _ in 0..BLOCK_ROWS {
        nodes.step(&intake);
        commit(&store)?;
    }
    let bytes = folder::bytes(&folder)?;
    drop((store, intake));
    Ok(Done {
        took,
        rows,
        lost: missing(&folder, &nodes)?,
        handing: handing as f64 / rows as f64,
        commits: commits.cpu_ns as f64 / rows as f64,
        longest_ms: commits.longest_ms,
        memory_mb,
        bytes,
    })
}

/// Hands over the rows of each tick when it is due, or as soon as possible. Returns the CPU time in ns.
fn hand_over(nodes: &Nodes, intake: &Intake, seconds: u64, start: Instant) -> u64 {
    let mut cpu = 0;
    for tick in 0..seconds * RATE {
        let due = start + Duration::from_secs(1) / RATE as u32 * tick as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        nodes.rows();
        let before = thread_cpu_ns();
        nodes.hand(intake);
        cpu += thread_cpu_ns() - before;
    }
    cpu
}

fn commit_each_second(store: &Store, is_over: &AtomicBool) -> Result<Commits, BenchError> {
    let mut commits = Commits::default();
    let mut is_last = false;
    while !is_last {
        is_last = is_over.load(Ordering::Acquire);
        let (cpu, wall) = (thread_cpu_ns(), Instant::now());
        commit(store)?;
        commits.cpu_ns += thread_cpu_ns() - cpu;
        commits.longest_ms = commits.longest_ms.max(wall.elapsed().as_secs_f64() * 1e3);
        if !is_last {
            std::thread::sleep(COMMIT);
        }
    }
    Ok(commits)
}

fn commit(store: &Store) -> Result<Commit, BenchError> {
    store.commit(Nanos(0)).map_err(wrong)
}

/// Rows that the log does not have when it is opened again.
fn missing(folder: &std::path::Path, nodes: &Nodes) -> Result<u64, BenchError> {
    let (log, intake, damage) = Log::open(&folder.join("log")).map_err(wrong)?;
    if let Some(damage) = damage.first() {
        return Err(failed("the log", damage));
    }
    let missing = nodes.missing_in(&intake);
    drop(log);
    Ok(missing)
}
