//! The latency of a local read beside processes that compute without end: a value that the mount has pushed into the
//! page cache, a file of a channel, a local kernel file, and a daemon at a socket. Each read comes after a pause, as
//! programs in real use read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::answer::Daemon;
use super::site::{Class, Site};
use super::timed::Times;
use crate::error::BenchError;
use crate::load::Load;
use crate::plot::{Line, Plot, Scale};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Processes that compute without end.
const HOGS: [usize; 4] = [0, 1, 4, 16];
const PAUSE: Duration = Duration::from_millis(1);
/// A value that changes with every row, ten times a second.
const VALUE: &str = "n1/metrics/kernel/context_switches";
const CHANNEL: &str = "local";
/// Longest wait for the first value of a channel.
const PATIENCE: Duration = Duration::from_secs(10);
/// The length of a value.
const ASKED: usize = 12;
const ROOM: usize = 4_096;

/// Who is read.
enum Read {
    File(File),
    Daemon(Daemon),
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &["--base-rate", "10Hz"])?;
    let tree = site.mount()?;
    let value = tree.join(VALUE);
    site.wait_for(&value)?;
    let open = |path: &Path| File::open(path).map_err(BenchError::file(path));
    let mut readers = vec![("pushed value", Read::File(open(&value)?))];
    match channel_file(&site, &tree)? {
        Some(path) => readers.push(("channel file", Read::File(open(&path)?))),
        None => record.say("This khz mounts no files of channels: they are left out.\n"),
    }
    readers.push(("/proc/meminfo", Read::File(open(Path::new("/proc/meminfo"))?)));
    readers.push(("daemon at a socket", Read::Daemon(Daemon::start(site.folder())?)));
    let mut table = Table::new(&["hogs, a read", "reads", "p50 us", "p99 us", "max us", "deviation us"]);
    let mut lines: Vec<[Line; 2]> = readers
        .iter()
        .map(|(name, _)| ["p50", "p99"].map(|q| Line { name: format!("{name}, {q}"), values: Vec::new() }))
        .collect();
    for hogs in HOGS {
        let _load = Load::of(&vec!["spin"; hogs])?;
        for (place, times) in turns(record, hogs, &mut readers)?.into_iter().enumerate() {
            let name = readers[place].0;
            let figures = [times.at(0.5), times.at(0.99), times.at(1.0), times.deviation()];
            let head = [format!("{hogs}, {name}"), times.count().to_string()];
            table.row(head.into_iter().chain(figures.map(figure)));
            for (line, value) in lines[place].iter_mut().zip(figures) {
                line.values.push(value);
            }
            for (what, value) in ["p50", "p99", "", "deviation"].into_iter().zip(figures) {
                if !what.is_empty() {
                    let promise = format!("local read, {name}, {hogs} hogs: {what}, us");
                    record.verdict(&promise, Spread::of([value]), Bound::Stated);
                }
            }
        }
    }
    record.show("## A local read beside processes that compute without end", &table);
    record.say(
        "Files are kept open and read with one pread, 1 ms after the read before. Only the read is timed, not the wake-up of its \
         program. The daemon has to be scheduled for each answer; a file has not. Its text is as long as the value.\n",
    );
    let lines: Vec<Line> = lines.into_iter().flatten().collect();
    let plot = Plot {
        title: "A local read, by load",
        axis: "us",
        below: "processes that compute without end",
        scale: Scale::Logarithmic,
        labels: HOGS.map(|hogs| hogs.to_string()).into(),
        lines: &lines,
    };
    record.store("local.svg", &plot.svg())
}

/// The times of each reader; they take turns.
fn turns(record: &mut Record, hogs: usize, readers: &mut [(&str, Read)]) -> Result<Vec<Times>, BenchError> {
    let mut found = vec![Vec::new(); readers.len()];
    let mut room = vec![0; ROOM];
    for pair in 0..record.effort.of(5, 1) {
        for who in (0..readers.len()).chain((0..readers.len()).rev()) {
            let (name, read) = &mut readers[who];
            record.progress(&format!("{hogs} hogs, pair {}: {name}", pair + 1));
            let times = Times::of(record.effort.of(200, 50), Some(PAUSE), || match read {
                Read::Daemon(daemon) => daemon.ask(ASKED),
                Read::File(file) => match file.read_at(&mut room, 0) {
                    Ok(0) => Err(failed(*name, "it is empty")),
                    Ok(_) => Ok(()),
                    Err(error) => Err(failed(*name, error)),
                },
            })?;
            for (turn, micros) in times.micros().iter().enumerate() {
                record.sample(["local", &format!("{hogs} hogs"), name], turn, "us", *micros);
            }
            found[who].extend_from_slice(times.micros());
        }
    }
    Ok(found.into_iter().map(Times::from).collect())
}

/// A file with a value of a channel; `None` if this mount has no channels.
fn channel_file(site: &Site, tree: &Path) -> Result<Option<PathBuf>, BenchError> {
    let channels = tree.join(".channels");
    if !channels.is_dir() {
        return Ok(None);
    }
    let done = Command::new(&site.program)
        .args(["channel", "create", CHANNEL, "kernel.context_switches", "--rate", "10Hz"])
        .env("KHZ_RUN_DIR", site.folder().join("run"))
        .output()
        .map_err(|error| failed("khz channel create", error))?;
    if !done.status.success() {
        return Err(failed("khz channel create", String::from_utf8_lossy(&done.stderr)));
    }
    // A listing subscribes to nothing, and so shows no value that nobody has asked for: the path is known.
    let (begun, path) = (Instant::now(), channels.join(CHANNEL).join("n1/kernel/context_switches"));
    while begun.elapsed() < PATIENCE {
        if std::fs::read(&path).is_ok_and(|text| !text.is_empty()) {
            return Ok(Some(path));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(failed(path.display().to_string(), format!("no value came within {PATIENCE:?}")))
}
