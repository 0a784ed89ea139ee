//! Bytes a second for sizes from 64 B to 64 kB: copying memory, a row from shared memory, a mounted text from
//! the page cache, a local kernel file, and a daemon at a socket.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use khz_ring::Snapshot;

use super::answer::Daemon;
use super::site::{Class, Site};
use crate::error::BenchError;
use crate::pairs::{Batch, Contender, interleave};
use crate::program::failed;
use crate::record::Record;
use crate::spread::Spread;
use crate::table::{Table, figure};

const SIZES: [usize; 6] = [64, 256, 1_024, 4_096, 16_384, 65_536];
/// Bytes of a slot in shared memory.
const SLOT: usize = 16;
/// Mounted texts, the longest first; sizes beyond a text's length are not measured.
const TEXTS: [&str; 4] = ["vmstat", "interrupts", "stat", "meminfo"];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &[])?;
    let tree = site.mount()?;
    site.wait_for(&tree.join("n1/metrics/mem/free"))?;
    let path = site.snapshot("n1");
    let snapshot = Snapshot::open(&path).map_err(|e| failed("the snapshot", e))?;
    let mut daemon = Daemon::start(site.folder())?;
    let text = longest(&tree.join("n1/proc"));
    let local = longest(Path::new("/proc"));
    let mut table = Table::new(&["bytes", "memcpy", "shared memory", "mounted text", "local file", "socket"]);
    for size in SIZES {
        let megabytes = of_size(record, size, &snapshot, [&text, &local], &mut daemon)?;
        table.row([size.to_string()].into_iter().chain(megabytes));
    }
    record.show("## MB/s over sizes", &table);
    let name = |known: &Option<(PathBuf, usize)>| match known {
        Some((path, length)) => format!("{} ({length} B)", path.display()),
        None => "none".to_owned(),
    };
    record.say(&format!(
        "A batch reads the same bytes again and again. Shared memory: {SLOT} bytes a value, as values, under the sequence lock. \
         Texts: {} and {}, kept open, up to their lengths.\n",
        name(&text).replace(&*site.folder().to_string_lossy(), ""),
        name(&local)
    ));
    Ok(())
}

/// MB/s of every contender at one size; `-` where it has fewer bytes.
fn of_size(
    record: &mut Record,
    size: usize,
    snapshot: &Snapshot,
    texts: [&Option<(PathBuf, usize)>; 2],
    daemon: &mut Daemon,
) -> Result<Vec<String>, BenchError> {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    let slots: Vec<u32> = (0..snapshot.slots().max(1)).cycle().take(size / SLOT).collect();
    let mut row = Vec::with_capacity(slots.len());
    let mut contenders = vec![
        Contender::call("memcpy", || {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
            Ok(())
        }),
        Contender::call("shared memory", || {
            let stamp = snapshot.read_row(0, &slots, &mut row).map_err(|e| failed("the snapshot", e))?;
            std::hint::black_box((stamp, &row));
            Ok(())
        }),
    ];
    let mut places = vec![Some(0), Some(1)];
    for (text, name) in texts.into_iter().zip(["mounted text", "local file"]) {
        let Some((path, _)) = text.as_ref().filter(|(_, length)| *length >= size) else {
            places.push(None);
            continue;
        };
        let (file, mut room) = (File::open(path).map_err(BenchError::file(path))?, vec![0u8; size]);
        places.push(Some(contenders.len()));
        contenders.push(Contender::call(name, move || {
            file.read_at(&mut room, 0).map(drop).map_err(BenchError::file("a text"))
        }));
    }
    places.push(Some(contenders.len()));
    contenders.push(Contender::call("socket", || daemon.ask(size)));
    let span = Duration::from_millis(record.effort.of(50, 20));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    record.turns("throughput", &size.to_string(), &turns);
    let rate = |batch: Batch| size as f64 * batch.calls as f64 * 1e3 / batch.wall_ns as f64;
    let shown = |place: Option<usize>| {
        place
            .and_then(|at| Spread::of(turns[at].map(rate)))
            .map_or("-".to_owned(), |found| figure(found.median))
    };
    Ok(places.into_iter().map(shown).collect())
}

/// The longest of the known texts in a folder, and its length.
fn longest(folder: &Path) -> Option<(PathBuf, usize)> {
    let texts = TEXTS.iter().map(|name| folder.join(name));
    let known = texts.filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?.len())));
    known.max_by_key(|(_, length)| *length)
}
