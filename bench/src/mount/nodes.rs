//! The cost of the mount's process with 64 nodes that send 300 values ten times a second: while nobody reads,
//! while files are open, and while they are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::site::{Class, Site};
use crate::error::BenchError;
use crate::hub::cluster::{SLOTS, Simulation};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

const NODES: u64 = 64;
const RATE: u64 = 10;
/// The leases of files that were read before end within this time.
const LEASES: Duration = Duration::from_secs(17);
/// The share of a core, in percent, that it may take while nobody reads: housekeeping, and the link's beats.
const IDLE_PERCENT_MAX: f64 = 0.1;
/// File descriptors besides those of the files.
const DESCRIPTORS: u64 = 256;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    raise_descriptors(NODES * SLOTS + DESCRIPTORS)?;
    let mut site = Site::start(Class::Normal)?;
    let link = site.hub()?.link;
    let simulation = Simulation::start(&site.program, link, (NODES, RATE), 600, &[])?;
    simulation.wait_for_all()?;
    let tree = site.mount()?;
    let span = Duration::from_secs(record.effort.of(10, 3));
    let mut table = Table::new(&["64 nodes x 300 x 10 Hz", "CPU %", "pushes/s", "RssAnon kB"]);

    record.progress("nobody has read");
    let idle = phase(&site, &tree, span, || Ok(()))?;
    row(record, &mut table, "nobody reads", &idle);
    record.verdict(
        "mount's CPU while nobody reads, %",
        Spread::of([idle.percent]),
        Bound::AtMost(IDLE_PERCENT_MAX),
    );

    record.progress("every file is opened");
    let files = open_all(&tree)?;
    let one = &files[..1];
    let found = phase(&site, &tree, span, || Ok(()))?;
    row(record, &mut table, &format!("{} files open, unread", files.len()), &found);

    record.progress("every file is read");
    let mut reads = 0u64;
    let found = phase(&site, &tree, span, || {
        reads += 1;
        read_all(&files)
    })?;
    row(record, &mut table, "all read all the time", &found);
    let sweep = span.as_secs_f64() / reads.max(1) as f64;

    let found = phase(&site, &tree, span, || read_all(one))?;
    row(record, &mut table, "one read all the time", &found);

    drop(files);
    record.progress("leases run out");
    std::thread::sleep(LEASES);
    let found = phase(&site, &tree, span, || Ok(()))?;
    row(record, &mut table, "nobody reads any more", &found);
    record.verdict(
        "mount's CPU after all were closed, %",
        Spread::of([found.percent]),
        Bound::AtMost(IDLE_PERCENT_MAX),
    );
    record.show("## The mount's process", &table);
    record.say(&format!(
        "Reading all files once took {sweep:.2} s. Hub, simulation and reader share the processors with it; theirs is not counted.\n"
    ));
    Ok(())
}

/// What one span shows.
struct Found {
    percent: f64,
    pushes: f64,
    anonymous_kb: u64,
}

/// Watches the mount while an action is repeated.
fn phase(
    site: &Site,
    tree: &Path,
    span: Duration,
    mut act: impl FnMut() -> Result<(), BenchError>,
) -> Result<Found, BenchError> {
    let process: &Watched = site.mounted(0)?;
    let pushed = || pushes(tree);
    let (pushes, cpu, start) = (pushed()?, process.counted()?.cpu_ns, Instant::now());
    while start.elapsed() < span {
        act()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let (cpu, wall) = (process.counted()?.cpu_ns - cpu, start.elapsed());
    let pushes = (pushed()? - pushes) as f64 / wall.as_secs_f64();
    let percent = 100.0 * cpu as f64 / wall.as_nanos() as f64;
    Ok(Found { percent, pushes, anonymous_kb: process.held()?.anonymous_kb })
}

fn row(record: &mut Record, table: &mut Table, case: &str, found: &Found) {
    record.sample(["nodes", case, "khz mount"], 0, "cpu_percent", found.percent);
    record.sample(["nodes", case, "khz mount"], 0, "pushes_per_s", found.pushes);
    table.row([
        case.to_owned(),
        format!("{:.2}", found.percent),
        figure(found.pushes),
        thousands(found.anonymous_kb as f64),
    ]);
}

fn pushes(tree: &Path) -> Result<u64, BenchError> {
    let path = tree.join(".mount/stats");
    let text = std::fs::read_to_string(&path).map_err(BenchError::file(&path))?;
    let number = text.lines().find_map(|line| line.strip_prefix("values_pushed ")?.parse().ok());
    number.ok_or_else(|| failed("the mounted tree", "its stats have no values_pushed"))
}

/// Opens every value of every node; skips values that a node does not have.
fn open_all(tree: &Path) -> Result<Vec<File>, BenchError> {
    let mut files = Vec::new();
    for node in std::fs::read_dir(tree).map_err(BenchError::file(tree))?.flatten() {
        let metrics = node.path().join("metrics");
        if metrics.is_dir() {
            open_below(metrics, &mut files)?;
        }
    }
    match files.len() as u64 {
        0 => Err(failed("the mounted tree", "it has no values")),
        _ => Ok(files),
    }
}

fn open_below(top: PathBuf, files: &mut Vec<File>) -> Result<(), BenchError> {
    let mut folders = vec![top];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(BenchError::file(&folder))?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => files.extend(File::open(entry.path())),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

fn read_all(files: &[File]) -> Result<(), BenchError> {
    let mut room = [0; 64];
    for file in files {
        match file.read_at(&mut room, 0) {
            // The value is unknown at this moment.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NODATA.raw_os_error()) => {}
            read => drop(read.map_err(BenchError::file("a value"))?),
        }
    }
    Ok(())
}

fn raise_descriptors(wanted: u64) -> Result<(), BenchError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .map_err(BenchError::call("setrlimit (root may open enough files)"))
}
