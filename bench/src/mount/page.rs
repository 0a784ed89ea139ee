//! A value from shared memory, as programs read it, while its agent writes ten rows a second; beside a single
//! system call that reads a local file.

use std::time::Duration;

use khz_ring::Snapshot;

use super::site::{Class, Site};
use crate::error::BenchError;
use crate::pairs::{Contender, interleave};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// The most nanoseconds of a read.
const NANOS_MAX: f64 = 100.0;

/// Reads in one call of a contender, so that the cost of the call disappears.
const READS: u64 = 64;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &[])?;
    let path = site.snapshot("n1");
    site.wait_for(&path)?;
    let snapshot = Snapshot::open(&path).map_err(|e| failed("the snapshot", e))?;
    let slot = snapshot.find("mem.free").ok_or_else(|| failed("the snapshot", "it has no mem.free"))?;
    let of_row: Vec<u32> = (0..snapshot.slots()).filter(|&slot| is_of_memory(&snapshot, slot)).collect();
    let group = snapshot.names()[slot as usize].group;
    let file = std::fs::File::open("/proc/meminfo").map_err(BenchError::file("/proc/meminfo"))?;
    let mut room = vec![0; 64 << 10];
    let mut row = Vec::new();
    let wrong = |e: khz_ring::Unsettled| failed("the snapshot", e);
    let mut contenders = [
        Contender::call("one value", || {
            for _ in 0..READS {
                std::hint::black_box(snapshot.read(std::hint::black_box(slot)).map_err(wrong)?);
            }
            Ok(())
        }),
        Contender::call("all of meminfo", || {
            for _ in 0..READS {
                row.clear();
                std::hint::black_box(snapshot.read_row(group, &of_row, &mut row).map_err(wrong)?);
            }
            Ok(())
        }),
        Contender::call("/proc/meminfo kept open", || {
            for _ in 0..READS {
                use std::os::unix::fs::FileExt;
                file.read_at(&mut room, 0).map_err(BenchError::file("/proc/meminfo"))?;
            }
            Ok(())
        }),
    ];
    let span = Duration::from_millis(record.effort.of(200, 50));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    drop(contenders);
    record.turns("shm", "read", &turns);
    let mut table = Table::new(&["read", "ns", "quartiles"]);
    let nanos =
        |turn: &crate::pairs::Turns| turn.map(|batch| batch.wall_ns as f64 / (batch.calls * READS) as f64);
    for turn in &turns {
        let Some(spread) = Spread::of(nanos(turn)) else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([turn.name.clone(), figure(spread.median), quartiles]);
    }
    record.show("## The snapshot in shared memory, its agent writing ten times a second", &table);
    record.say(&format!("All of meminfo: {} values at one instant.\n", of_row.len()));
    record.verdict(
        "a value out of shared memory, ns",
        Spread::of(nanos(&turns[0])),
        Bound::AtMost(NANOS_MAX),
    );
    Ok(())
}

fn is_of_memory(snapshot: &Snapshot, slot: u32) -> bool {
    snapshot.names().get(slot as usize).is_some_and(|name| name.name.starts_with("mem."))
}
