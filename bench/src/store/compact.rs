//! What compaction costs beside a cluster that never stops: ten minutes of 4,096 nodes become columns, again and again, and
//! an hour that is over is rolled up and merged.

use std::fs;
use std::path::Path;

use khz_model::{ByteSize, Nanos};
use khz_store::compact::Step;
use khz_store::shelf::Tier;
use khz_store::{Keep, Store};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::memory::Peak;
use crate::store::nodes::{BEGIN, MOVING, NODES, Nodes, SLOTS};
use crate::table::{Table, figure, thousands};

/// The time in which rows come: an hour, and as long as it takes until that hour is merged; or one segment.
const SECONDS: u64 = 3_600 + 600;
const SECONDS_QUICK: u64 = 1_200;
/// How often compaction has its turn.
const TURN: u64 = 60;
const DAY: u64 = 86_400;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-compact-{}", std::process::id()));
    let mut table = Table::new(&["slots", "step", "steps", "CPU s", "of a core, %", "memory, kB"]);
    for (slots, moving, bound) in [(SLOTS, MOVING, Some(5.0)), (1_000, 433, None)] {
        if slots != SLOTS && record.effort.quick {
            continue;
        }
        let done = play(record, &folder, slots, moving, &mut table)?;
        let promise = format!("compaction of 4,096 nodes x {slots} slots: % of a core");
        let bound = bound.map_or(Bound::Stated, Bound::AtMost);
        record.verdict(&promise, Spread::of([done.share]), bound);
        let memory = format!("compaction, {slots} slots: memory, MB");
        record.verdict(&memory, Spread::of([done.memory_mb]), Bound::AtMost(64.0));
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## Compaction of 4,096 nodes at 1 Hz", &table);
    record.say(
        "The rows are made up and come as fast as the log takes them; the CPU time of compaction is held against the time in\n\
         which they would have come. Memory: how much the process's peak grew while it compacted.\n",
    );
    Ok(())
}

struct Done {
    share: f64,
    memory_mb: f64,
}

/// CPU time of some steps, how many they were, and how much the process's peak of memory grew.
#[derive(Default)]
struct Sum {
    cpu_ns: u64,
    steps: u64,
    memory_kb: f64,
}

fn play(
    record: &mut Record,
    folder: &Path,
    slots: usize,
    moving: usize,
    table: &mut Table,
) -> Result<Done, BenchError> {
    let store_failed = |error: khz_store::StoreError| failed("the store", error);
    let _ = fs::remove_dir_all(folder);
    let second = |second: u64| Nanos(BEGIN + second * Nanos::SECOND.0);
    let days = |days: u64| Nanos(days * DAY * Nanos::SECOND.0);
    let keep = Keep { size: ByteSize(1 << 40), raw: days(21), minute: days(90), hour: days(3_650) };
    let (store, intake, _) = Store::open(folder, keep, second(0)).map_err(store_failed)?;
    let nodes = Nodes::new(slots, moving, &intake)?;
    let steps =
        ["ten minutes into columns", "an hour merged and rolled up", "roll-ups merged", "bundles of the log"];
    let mut sums = steps.map(|what| (what, Sum::default()));
    let seconds = record.effort.of(SECONDS, SECONDS_QUICK);
    for now in 0..seconds {
        if now % 600 == 0 {
            record.progress(&format!("{slots} slots, minute {} of {}", now / 60, seconds / 60));
        }
        nodes.step(&intake);
        store.commit(second(now)).map_err(store_failed)?;
        if now % TURN == TURN - 1 {
            compact(&store, second(now), &mut sums)?;
        }
    }
    let values = (NODES * slots) as f64 * seconds as f64;
    for (what, sum) in &sums {
        table.row([
            thousands(slots as f64),
            (*what).to_owned(),
            sum.steps.to_string(),
            figure(sum.cpu_ns as f64 / 1e9),
            figure(100.0 * sum.cpu_ns as f64 / 1e9 / seconds as f64),
            thousands(sum.memory_kb),
        ]);
    }
    record.say(&format!(
        "{slots} slots: {} bytes of column files a value\n",
        figure(store.shelf().bytes() as f64 / values)
    ));
    let cpu: u64 = sums.iter().map(|(_, sum)| sum.cpu_ns).sum();
    let memory = sums.iter().map(|(_, sum)| sum.memory_kb).fold(0.0, f64::max);
    Ok(Done { share: 100.0 * cpu as f64 / 1e9 / seconds as f64, memory_mb: memory / 1e3 })
}

/// Compacts until nothing is left to do.
fn compact(store: &Store, now: Nanos, sums: &mut [(&str, Sum); 4]) -> Result<(), BenchError> {
    loop {
        let (peak, start) = (Peak::begin()?, thread_cpu_ns());
        let tick = store.tick_compaction(now).map_err(|error| failed("compaction", error))?;
        let kind = match tick.step {
            Step::Nothing | Step::Dropped { .. } | Step::NoRoom => return Ok(()),
            Step::Segment { .. } => 0,
            Step::Merged { unit, .. } if unit.tier == Tier::Raw => 1,
            Step::Merged { .. } => 2,
            Step::Bundled { .. } => 3,
        };
        let sum = &mut sums[kind].1;
        sum.cpu_ns += thread_cpu_ns() - start;
        sum.steps += 1;
        sum.memory_kb = sum.memory_kb.max(peak.grown_kb()?);
    }
}
