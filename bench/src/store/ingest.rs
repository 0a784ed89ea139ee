//! What the log takes for each row, on top of what a hub does anyway: saying that it has come, handing over its block, and
//! the commit, which copies and writes it, in a thread of its own in a hub.

use std::fs;
use std::path::Path;
use std::time::Instant;

use khz_store::log::Log;

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::nodes::{MOVING, NODES, Nodes, SLOTS};
use crate::table::{Table, figure, thousands};

/// The cost of one turn, in ns of CPU a row.
struct Turn {
    handing: f64,
    commits: f64,
    /// The longest commit by the clock, in ms.
    longest_ms: f64,
    /// Bytes of the log a row.
    bytes: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-store-{}", std::process::id()));
    let heads =
        ["slots x Hz", "turn", "handing, ns/row", "commit, ns/row", "both", "longest, ms", "bytes/row"];
    let mut table = Table::new(&heads);
    let cases = [(SLOTS, MOVING, 1, 120), (SLOTS, MOVING, 100, 4), (1_000, 433, 1, 60)];
    for (slots, moving, rate, seconds) in cases {
        let mut both = Vec::new();
        for number in 0..record.effort.of(10, 2) {
            record.progress(&format!("{slots} slots at {rate} Hz, turn {}", number + 1));
            let turn = play(&folder, slots, moving, rate, seconds)?;
            let case = format!("4096 x {rate} x {slots}");
            for (what, value) in [
                ("handing_ns", turn.handing),
                ("commit_ns", turn.commits),
                ("longest_ms", turn.longest_ms),
                ("bytes", turn.bytes),
            ] {
                record.sample(["ingest", &case, "khz"], number, what, value);
            }
            table.row([
                format!("{slots} x {rate}"),
                (number + 1).to_string(),
                figure(turn.handing),
                figure(turn.commits),
                figure(turn.handing + turn.commits),
                figure(turn.longest_ms),
                thousands(turn.bytes),
            ]);
            both.push((turn.handing + turn.commits) / 1e3);
        }
        let promise = format!("store: CPU a row of {slots} slots, {rate} Hz, us");
        let bound = if slots == SLOTS { Bound::AtMost(0.25) } else { Bound::Stated };
        record.verdict(&promise, Spread::of(both), bound);
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## 4,096 nodes hand over their rows", &table);
    record.say(
        "One thread does what the hub's thread and the log's thread do. Each node is at another place of its block. A commit\n\
         writes and syncs what a second brought: rows of open blocks, and the blocks that have ended.\n",
    );
    Ok(())
}

fn play(folder: &Path, slots: usize, moving: usize, rate: usize, seconds: usize) -> Result<Turn, BenchError> {
    let _ = fs::remove_dir_all(folder);
    let store = |error: khz_store::StoreError| failed("the log", error);
    let (mut log, intake, _) = Log::open(folder).map_err(store)?;
    let nodes = Nodes::new(slots, moving, &intake)?;
    log.commit().map_err(store)?;
    let before = log.bytes();
    let (mut handing, mut commits, mut longest) = (0, 0, 0.0f64);
    for _ in 0..seconds {
        for _ in 0..rate {
            nodes.rows();
            let start = thread_cpu_ns();
            nodes.hand(&intake);
            handing += thread_cpu_ns() - start;
        }
        let (start, wall) = (thread_cpu_ns(), Instant::now());
        log.commit().map_err(store)?;
        commits += thread_cpu_ns() - start;
        longest = longest.max(wall.elapsed().as_secs_f64() * 1e3);
    }
    let rows = (NODES * rate * seconds) as f64;
    Ok(Turn {
        handing: handing as f64 / rows,
        commits: commits as f64 / rows,
        longest_ms: longest,
        bytes: (log.bytes() - before) as f64 / rows,
    })
}
