//! What compaction costs beside a cluster that never stops: ten minutes of 4,096 nodes become columns, again and again, and
//! an hour that is over is rolled up and merged.

use std::fs;
use std::path::Path;

use khz_model::{ByteSize, Nanos};
use khz_store::{Keep, Store};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::nodes::{BEGIN, MOVING, Model, NODES, SLOTS, nodes};
use crate::table::{Table, figure, thousands};

/// The time of a segment, and segments of an hour.
const SEGMENT: u64 = 600;
const SEGMENTS: u64 = 6;
/// When an hour has been merged for sure.
const AFTER: u64 = 900;
const DAY: u64 = 86_400;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-compact-{}", std::process::id()));
    let mut table = Table::new(&["slots", "step", "CPU s", "of a core, %", "memory, kB", "bytes/value"]);
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

fn play(
    record: &mut Record,
    folder: &Path,
    slots: usize,
    moving: usize,
    table: &mut Table,
) -> Result<Done, BenchError> {
    let store_failed = |error: khz_store::StoreError| failed("the store", error);
    let _ = fs::remove_dir_all(folder);
    let model = Model::new(slots, moving);
    let second = |second: u64| Nanos(BEGIN + second * Nanos::SECOND.0);
    let days = |days: u64| Nanos(days * DAY * Nanos::SECOND.0);
    let keep = Keep { size: ByteSize(1 << 40), raw: days(21), minute: days(90), hour: days(3_650) };
    let (store, intake, _) = Store::open(folder, keep, second(0)).map_err(store_failed)?;
    let mut nodes = nodes(&model, &intake)?;
    let (mut cpu, mut seconds, mut memory) = (0, 0, 0.0f64);
    let segments = record.effort.of(SEGMENTS, 1);
    for segment in 0..segments {
        record.progress(&format!("{slots} slots, ten minutes {} of {segments}", segment + 1));
        for now in segment * SEGMENT..(segment + 1) * SEGMENT {
            nodes.iter_mut().for_each(|node| node.step(&model, &intake));
            store.commit(second(now)).map_err(store_failed)?;
        }
        seconds += SEGMENT;
        store.seal();
        let step = compact(&store, second((segment + 1) * SEGMENT))?;
        cpu += step.cpu_ns;
        memory = memory.max(step.memory_kb);
        row(table, slots, "ten minutes into columns", &step, SEGMENT, bytes_a_value(&store, slots, seconds));
    }
    if segments == SEGMENTS {
        record.progress(&format!("{slots} slots, the hour is merged"));
        let step = compact(&store, second(SEGMENTS * SEGMENT + AFTER))?;
        cpu += step.cpu_ns;
        memory = memory.max(step.memory_kb);
        let hour = SEGMENTS * SEGMENT;
        row(
            table,
            slots,
            "the hour rolled up and merged",
            &step,
            hour,
            bytes_a_value(&store, slots, seconds),
        );
    }
    Ok(Done { share: 100.0 * cpu as f64 / 1e9 / seconds as f64, memory_mb: memory / 1e3 })
}

/// CPU time of some steps, and how much the process's peak of memory grew.
struct Step {
    cpu_ns: u64,
    memory_kb: f64,
}

/// Compacts until nothing is left to do.
fn compact(store: &Store, now: Nanos) -> Result<Step, BenchError> {
    // Writing 5 makes the kernel count the peak from now on (proc_pid_clear_refs(5)).
    let clear = Path::new("/proc/self/clear_refs");
    fs::write(clear, "5").map_err(BenchError::file(clear))?;
    let (before, start) = (peak_kb()?, thread_cpu_ns());
    while !store.tick_compaction(now).map_err(|error| failed("compaction", error))?.is_idle() {}
    Ok(Step { cpu_ns: thread_cpu_ns() - start, memory_kb: peak_kb()? - before })
}

fn peak_kb() -> Result<f64, BenchError> {
    let path = Path::new("/proc/self/status");
    let status = fs::read_to_string(path).map_err(BenchError::file(path))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kb.ok_or_else(|| failed("/proc/self/status", "it has no VmHWM"))
}

fn bytes_a_value(store: &Store, slots: usize, seconds: u64) -> f64 {
    store.shelf().bytes() as f64 / (NODES * slots) as f64 / seconds as f64
}

fn row(table: &mut Table, slots: usize, what: &str, step: &Step, seconds: u64, bytes: f64) {
    let cpu = step.cpu_ns as f64 / 1e9;
    table.row([
        thousands(slots as f64),
        what.to_owned(),
        figure(cpu),
        figure(100.0 * cpu / seconds as f64),
        thousands(step.memory_kb),
        figure(bytes),
    ]);
}
