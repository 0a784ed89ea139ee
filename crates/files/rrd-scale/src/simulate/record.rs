//! Traces of real updates: copies of files are updated through our engine, and the kernel says which of their pages that
//! brought into memory and changed.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use khz_rrd::error::refused;
use khz_rrd::file::{Access, Rrd};
use khz_rrd::page_cache::{self, Resident};
use khz_rrd::sample::Stamp;
use khz_rrd::update::{Failure, Options};
use khz_rrd::{Error, Result, text};

use super::chance;
use super::progress::Progress;
use super::trace::{COPIES_MAX, Copy, Trace, UPDATES_MAX, Update, Used};

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Tries to drop a file's pages; another process may just be looking at one.
const TRIES: usize = 3;
/// Files larger than this are not copied.
const LENGTH_MAX: u64 = 1 << 30;

/// What to record.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Copies of each; each begins its archives at rows of its own.
    pub copies: u32,
    /// Hours of updates.
    pub hours: u64,
    /// Where the copies are for the time of the recording: a folder that is there.
    pub folder: PathBuf,
    /// Which rows the copies begin at.
    pub seed: u64,
}

/// Records a trace.
///
/// # Errors
/// Files that cannot be read or have several steps; a file system or a kernel that cannot say what is needed; more copies or
/// updates than a trace has.
pub fn record(wanted: &Wanted) -> Result<Trace> {
    let step = common_step(&wanted.files)?;
    let updates = wanted.hours.saturating_mul(3_600) / step;
    let copies = wanted.files.len() as u64 * u64::from(wanted.copies);
    if copies == 0 || copies > COPIES_MAX as u64 {
        return refused(format!("{copies} copies; a trace has 1 to {COPIES_MAX}"));
    }
    if updates == 0 {
        return refused(format!("{} hours are less than one step of {step} s", wanted.hours));
    }
    if updates.saturating_mul(copies) > UPDATES_MAX as u64 {
        return refused(format!(
            "{copies} copies with {updates} updates each: a trace has at most {UPDATES_MAX}; record fewer --hours or --copies"
        ));
    }
    let page = rustix::param::page_size() as u64;
    let mut trace = Trace { page, step, copies: vec![], updates: vec![] };
    let progress = Progress::start("recording updates", updates * copies);
    let own = wanted.folder.join("copy.rrd");
    for file in &wanted.files {
        for _ in 0..wanted.copies {
            let number = trace.copies.len() as u32;
            let mut rrd = copy(file, &own, chance::number(wanted.seed, u64::from(number)))?;
            let known = catch_up(&mut rrd)?;
            drop(rrd);
            let header = known.header.layout().header_len as u64;
            trace.copies.push(Copy {
                pages: known.header.file_len().div_ceil(page) as u32,
                header: header.div_ceil(page) as u32,
                name: text::name(file),
            });
            for tick in 0..updates {
                let time = known.start + ((tick * step) as i64);
                let used = update(&own, known.header.readings(), time, tick)?;
                trace.updates.push(Update { copy: number, time: time as u64, used });
                progress.add(1);
            }
        }
    }
    Ok(trace)
}

fn common_step(files: &[PathBuf]) -> Result<u64> {
    let mut step = None;
    for path in files {
        let rrd = Rrd::open(path, Access::Read)?;
        if rrd.header.file_len() > LENGTH_MAX {
            return refused(format!(
                "'{}' is too large to be copied: {} bytes",
                text::name(path),
                rrd.header.file_len()
            ));
        }
        let own = rrd.header.step();
        if step.is_some_and(|step| step != own) {
            return refused(format!(
                "'{}' has a step of {own} s, and the files before it another one: record files of one step at a time",
                text::name(path)
            ));
        }
        step = Some(own);
    }
    match step {
        Some(step @ 1..=super::shape::STEP_MAX) => Ok(step),
        Some(step) => refused(format!("a step of {step} s is not simulated")),
        None => refused("no file to record: khz rrd simulate --record TRACE FILE..."),
    }
}

/// Makes a copy whose archives stand at rows of its own. Their values are then those of other times, which matters to nobody.
fn copy(from: &Path, to: &Path, seed: u64) -> Result<Rrd> {
    std::fs::copy(from, to).map_err(|error| Error::io("copying", from, error))?;
    std::fs::set_permissions(to, Permissions::from_mode(0o600))
        .map_err(|error| Error::io("opening", to, error))?;
    let mut rrd = Rrd::open(to, Access::Write)?;
    let mut header = rrd.header.clone();
    for rra in 0..header.archives().len() {
        let row = chance::number(seed, rra as u64) % header.archives()[rra].rows;
        header.set_current_row(rra, row);
    }
    rrd.write_live(header.live())?;
    Ok(rrd)
}

/// A file that is ready to be recorded.
struct Known {
    header: khz_rrd::header::Header,
    /// The time of the first update to record.
    start: i64,
}

/// Updates a copy up to the first midnight after its last update, so that recorded updates are one step apart.
fn catch_up(rrd: &mut Rrd) -> Result<Known> {
    let (last, step) = (rrd.header.last_update().clamp(0, i64::MAX / 4), rrd.header.step() as i64);
    // In the middle of a step.
    let midnight = (last / DAY + 1) * DAY + step / 2;
    let readings = rrd.header.readings();
    apply(rrd, readings, midnight, 0)?;
    Ok(Known { header: rrd.header.clone(), start: midnight + step })
}

/// One update of the file at `path`, of which nothing is in memory before it: the pages that are there after it.
///
/// # Errors
/// What the system says; pages that cannot be dropped or told apart.
pub fn update(path: &Path, readings: usize, time: i64, number: u64) -> Result<Vec<Used>> {
    forget(path)?;
    let mut rrd = Rrd::open(path, Access::Write)?;
    apply(&mut rrd, readings, time, number + 1)?;
    drop(rrd);
    used(path)
}

fn apply(rrd: &mut Rrd, readings: usize, time: i64, value: u64) -> Result<()> {
    let sample = format!("{time}{}", format!(":{value}").repeat(readings));
    let name = text::name(rrd.path());
    let options = Options {
        name: &name,
        template: None,
        skip_past: false,
        now: Stamp { seconds: time, usec: 0 },
        failure: Failure::ChangesNothing,
        record: false,
    };
    rrd.update(&[&sample], &options).map(|_| ())
}

/// Writes the file's pages back and drops them.
fn forget(path: &Path) -> Result<()> {
    let mut left = 0;
    for _ in 0..TRIES {
        page_cache::drop_pages(path)?;
        left = page_cache::residency(path)?.count();
        if left == 0 {
            return Ok(());
        }
    }
    refused(format!(
        "{left} pages of '{}' stay in memory: a file system in memory, or a process that uses the file; write the trace to a \
         disk, where the copies are made, too",
        text::name(path)
    ))
}

/// The pages that are in memory, and which of them are changed.
fn used(path: &Path) -> Result<Vec<Used>> {
    let residency = page_cache::residency(path)?;
    let Resident::Each(pages) = &residency.resident else {
        return refused(format!(
            "the kernel does not say which pages of '{}' are in memory",
            text::name(path)
        ));
    };
    let file = OpenOptions::new().read(true).open(path).map_err(|error| Error::io("opening", path, error))?;
    let mut used = vec![];
    for page in pages.iter().enumerate().filter(|(_, is_there)| **is_there).map(|(page, _)| page as u64) {
        let counts = page_cache::cachestat_of(&file, page * residency.page, residency.page);
        let Some(counts) = counts else {
            return refused(
                "this kernel does not say which pages are changed (cachestat, Linux 6.5): record the trace on another machine",
            );
        };
        used.push(Used { page: page as u32, is_changed: counts.dirty + counts.writeback > 0 });
    }
    Ok(used)
}

/// A folder for copies, which is removed with all that is in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder beside `file`.
    ///
    /// # Errors
    /// What the system says.
    pub fn beside(file: &Path) -> Result<Self> {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".copies-{}", std::process::id()));
        let path = PathBuf::from(name);
        std::fs::create_dir(&path).map_err(|error| Error::io("creating", &path, error))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is a copy of a file; a failure here cannot be reported.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes `bytes` as the file at `path`, whole or not at all: an interrupted command leaves no trace that is cut short.
///
/// # Errors
/// What the system says.
pub fn write_whole(path: &Path, bytes: &[u8], folder: &Path) -> Result<()> {
    let whole = folder.join("trace");
    let write = || {
        let file = std::fs::File::create(&whole)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        std::fs::rename(&whole, path)
    };
    write().map_err(|error| Error::io("writing", path, error))
}
