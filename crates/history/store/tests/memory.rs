//! Compaction holds one node at a time. `KHZ_STORE_NODES=4096` measures a cluster; it takes 2 GB of disk.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use common::stored::{BEGIN, HOUR, SECOND, everything, hand_over, open_store};
use common::{folder, metric, node};
use khz_block::{Encoder, Header};
use khz_model::{Columns, Nanos, Reading, Series, Stamp, ValueType};
use khz_store::log::LoggedBlock;

/// Beyond what the process has when the store is open.
const MEMORY_MAX: u64 = 64 << 20;
/// The child process compacts this folder, and says how much memory that took.
const FOLDER: &str = "KHZ_STORE_FOLDER";
const SERIES: usize = 300;
const ROWS: u64 = 600;
const BLOCK_ROWS: u64 = 60;

/// A line of this process's status, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// Two segments of ten minutes; a third of the series changes with each row, and a third now and then.
fn fill(folder: &Path, nodes: usize) {
    let (store, intake) = open_store(folder, everything(), BEGIN);
    let series: Vec<Series> = (0..SERIES)
        .map(|number| Series {
            metric: metric(&format!("test.series{number:03}"), ValueType::Unsigned, 0),
            instance: None,
        })
        .collect();
    let schema: Arc<dyn Columns> = Arc::new(series);
    let mut encoders: Vec<Encoder> = (0..nodes).map(|_| Encoder::new(0, 1, Nanos::SECOND)).collect();
    for first in (0..2 * ROWS).step_by(BLOCK_ROWS as usize) {
        for (number, encoder) in encoders.iter_mut().enumerate() {
            let mut bytes = Vec::new();
            let mut last = Stamp::default();
            for row in first..first + BLOCK_ROWS {
                last = Stamp { boot: Nanos((row + 1) * SECOND), real_offset: BEGIN as i64 };
                let reading = |slot: usize| {
                    let bits = match slot % 3 {
                        0 => slot as u64,
                        1 => row / 60 * slot as u64,
                        _ => row * 977 + (row * slot as u64 + number as u64) % 613,
                    };
                    (Reading::Present(bits).state(), bits)
                };
                match row - first {
                    0 => encoder.key_row(last, SERIES, reading, &mut bytes),
                    _ => encoder.delta_row(last, 0..SERIES, reading, &mut bytes),
                }
            }
            encoder.close();
            let header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
            let block = LoggedBlock {
                header,
                rows: BLOCK_ROWS as u32,
                schema: schema.clone(),
                schema_hash: [1; 16],
                bytes: Arc::new(bytes),
                last: last.real(),
                shift: 0,
            };
            hand_over(&intake, number, block);
            if number % 256 == 0 {
                store.commit(Nanos(BEGIN)).unwrap();
            }
        }
        store.commit(Nanos(BEGIN)).unwrap();
        if first + BLOCK_ROWS == ROWS {
            store.seal();
        }
    }
    assert!(store.log().nodes(None).contains(&node(nodes - 1)));
}

/// Compacts a store until nothing is left to do. Prints how much memory that took.
fn compact(folder: &Path) {
    let (store, _intake) = open_store(folder, everything(), BEGIN);
    // From now on the peak is that of compaction.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let begin = std::time::Instant::now();
    let steps = common::stored::settle(&store, BEGIN + 3 * HOUR);
    println!("took {} bytes", status("VmHWM").saturating_sub(before));
    println!("{} s; {steps:?}", begin.elapsed().as_secs_f64());
}

#[test]
fn compaction_holds_one_node_at_a_time() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return compact(&PathBuf::from(folder));
    }
    let nodes = std::env::var("KHZ_STORE_NODES").map_or(24, |nodes| nodes.parse().unwrap());
    let folder = folder("memory");
    fill(&folder, nodes);
    // Another process: this one has the memory of what filled the log.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "compaction_holds_one_node_at_a_time", "--nocapture"])
        .env(FOLDER, &folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let taken = said.lines().find_map(|line| line.strip_prefix("took ")?.strip_suffix(" bytes"));
    let taken: u64 = taken.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    println!("{said}");
    assert!(taken > 0 && taken < MEMORY_MAX, "{taken} bytes");
    std::fs::remove_dir_all(folder).unwrap();
}
