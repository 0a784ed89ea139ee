//! An `.rrd` file on disk: opens, locks, reads, writes in place, creates by rename; no arithmetic.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Advice, AtFlags, FileType, FlockOperation, StatxFlags};

use crate::error::{Error, Result, refused};
use crate::header::Header;
use crate::layout::{self, STAT_HEAD};
use crate::new_file::NewFile;
use crate::number::UNKNOWN;
use crate::sample::Stamp;
use crate::update::{self, Applied, Options, Values, Writes};

/// Bytes of the first read: the whole header, except of very wide files.
const FIRST_READ: usize = 4096;
/// Bytes of values written at once when a file is made.
const FILL_CHUNK: usize = 1 << 16;
/// How long [`Access::WriteWhenFree`] waits for the lock, and how long between two tries. A daemon holds it for the
/// milliseconds of one write.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Why a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read.
    Read,
    /// To change; takes rrdtool's lock on the whole file, or refuses as rrdtool does if somebody has it.
    Write,
    /// To change beside a daemon, which may still be writing: waits some seconds for the lock.
    WriteWhenFree,
}

/// An open file with its header.
#[derive(Debug)]
pub struct Rrd {
    path: PathBuf,
    file: File,
    /// The header as last read or written.
    pub header: Header,
    /// Rows that [`Rrd::preview`] applied and nobody wrote.
    unwritten: Writes,
    /// Part of a live header was written and could not be taken back.
    torn: bool,
}

/// The clock, with microseconds.
pub fn clock() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp { seconds: since.as_secs() as i64, usec: i64::from(since.subsec_micros()) }
}

impl Rrd {
    /// Opens `path` and reads its header. Readahead is switched off: an update touches about 3 pages of a file, and
    /// readahead would bring all of them.
    ///
    /// # Errors
    /// The system's error, a file that is no `.rrd` file, or a file that another process has locked.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let write = access != Access::Read;
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(path)
            .map_err(|error| Error::io("opening", path, error))?;
        match access {
            Access::Read => {}
            Access::Write => lock(&file, path)?,
            Access::WriteWhenFree => lock_when_free(&file, path)?,
        }
        Self::over(file, path)
    }

    /// Takes `file`, opened at `path`, and reads its header; takes no lock.
    ///
    /// # Errors
    /// As [`Rrd::open`].
    pub fn over(file: File, path: &Path) -> Result<Self> {
        let length = length(&file, path)?;
        // Advice is a hint: a file system that has none still works.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        let header = read_header(&file, length, path)?;
        Ok(Self { path: path.into(), file, header, unwritten: Writes::default(), torn: false })
    }

    /// The file itself, to lock or sync it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file alone, to be kept open. The header takes 3 KB, and has to be read again anyway.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Applies `samples` in memory and writes nothing. After that this must not update the file.
    ///
    /// # Errors
    /// The first sample that cannot be applied.
    pub fn preview(&mut self, samples: &[&str], options: &Options<'_>) -> Result<()> {
        let old = OldValues { file: &self.file, path: &self.path, unwritten: &self.unwritten };
        let applied = update::apply(&mut self.header, &old, samples, options);
        let applied = applied.map_err(|failed| failed.error)?;
        applied.writes.iter().for_each(|(offset, values)| {
            self.unwritten.push(offset, values.iter().copied());
        });
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Applies `samples` and writes what changed: rows first, the live header last.
    ///
    /// # Errors
    /// The first sample that cannot be applied; see [`update::Failure`] for what is left then.
    pub fn update(&mut self, samples: &[&str], options: &Options<'_>) -> Result<Applied> {
        let old = OldValues { file: &self.file, path: &self.path, unwritten: &self.unwritten };
        match update::apply(&mut self.header, &old, samples, options) {
            Ok(applied) => self.write(applied),
            Err(failed) => {
                if let Some(applied) = failed.applied {
                    self.write(applied)?;
                }
                Err(failed.error)
            }
        }
    }

    fn write(&mut self, applied: Applied) -> Result<Applied> {
        let failed = |error| Error::io("writing", &self.path, error);
        applied.writes.joined(|offset, bytes| self.file.write_all_at(bytes, offset)).map_err(failed)?;
        if applied.changed {
            let (live, at) = (self.header.live(), self.header.layout().live_head as u64);
            let written = write_counted(&self.file, live, at);
            written.map_err(|(count, error)| {
                self.take_back(applied.before.as_deref(), count);
                Error::io("writing", &self.path, error)
            })?;
        }
        Ok(applied)
    }

    /// Takes back the first `count` bytes of a live header, because the rest could not be written. With the new time and
    /// the old rows the file would refuse the samples that it lacks.
    fn take_back(&mut self, before: Option<&[u8]>, count: usize) {
        let Some(before) = before else { return };
        let at = self.header.layout().live_head as u64;
        self.header.restore_live(before);
        // A full disk does not matter here: these bytes have their place on it.
        self.torn = self.file.write_all_at(&before[..count], at).is_err();
    }

    /// Whether an update failed in the middle of the live header, and the part written could not be taken back.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Writes another live header, of the same length.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_live(&mut self, live: &[u8]) -> Result<()> {
        let at = self.header.layout().live_head as u64;
        self.file.write_all_at(live, at).map_err(|error| Error::io("writing", &self.path, error))?;
        self.header.restore_live(live);
        Ok(())
    }

    /// Writes a changed header of the same layout in place, and makes the seasonal coefficients of the sources
    /// `forgotten` unknown.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_header(&self, header: &Header, forgotten: impl Iterator<Item = usize>) -> Result<()> {
        let failed = |error| Error::io("writing", &self.path, error);
        for ds in forgotten {
            for (rra, archive) in header.archives().iter().enumerate() {
                for row in (0..archive.rows).filter(|_| archive.function.is_seasonal()) {
                    let at = header.row_offset(rra, row) + 8 * ds as u64;
                    self.file.write_all_at(&UNKNOWN.to_bits().to_le_bytes(), at).map_err(failed)?;
                }
            }
        }
        self.file.write_all_at(header.bytes(), 0).map_err(failed)
    }

    /// Reads `rows` rows of archive `rra` from row `first` on, wrapping at its end: a value per source each.
    ///
    /// # Errors
    /// What the system says.
    pub fn rows(&self, rra: usize, first: u64, rows: u64) -> Result<Vec<f64>> {
        let (all, sources) = (self.header.archives()[rra].rows, self.header.sources().len());
        let rows = rows.min(all);
        let first = first % all;
        let head = rows.min(all - first);
        let mut values = vec![0.0; rows as usize * sources];
        let (start, rest) = values.split_at_mut(head as usize * sources);
        let old = OldValues { file: &self.file, path: &self.path, unwritten: &self.unwritten };
        old.read(self.header.row_offset(rra, first), start)?;
        if !rest.is_empty() {
            old.read(self.header.row_offset(rra, 0), rest)?;
        }
        Ok(values)
    }

    /// All rows of archive `rra`, the oldest first.
    ///
    /// # Errors
    /// What the system says.
    pub fn rows_in_time(&self, rra: usize) -> Result<Vec<f64>> {
        self.rows(rra, self.header.current_row(rra) + 1, self.header.archives()[rra].rows)
    }
}

/// Takes rrdtool's lock (POSIX, whole file, exclusive, without waiting).
fn lock(file: &File, path: &Path) -> Result<()> {
    match rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => refused("could not lock RRD"),
        Err(error) => Err(Error::io("locking", path, error.into())),
    }
}

/// The same, but waits until another process releases the lock. The kernel's own wait has no limit, so this tries again and again.
fn lock_when_free(file: &File, path: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        match lock(file, path) {
            Err(Error::Refused(_)) if start.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
}

/// Bytes of a file. No times: after a query for them the next write is more expensive.
fn length(file: &File, path: &Path) -> Result<u64> {
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE;
    let facts = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)
        .map_err(|error| Error::io("stating", path, error.into()))?;
    // The errors of rrdtool, which maps the file.
    let unmapped = |code| Err(Error::io("mmaping file", path, io::Error::from_raw_os_error(code)));
    if FileType::from_raw_mode(facts.stx_mode.into()).is_dir() {
        return unmapped(libc::ENODEV);
    }
    if facts.stx_size == 0 {
        return unmapped(libc::EINVAL);
    }
    Ok(facts.stx_size)
}

/// Writes `bytes`, or says how many of them were written before it failed.
fn write_counted(file: &File, bytes: &[u8], at: u64) -> std::result::Result<(), (usize, io::Error)> {
    let mut count = 0;
    while count < bytes.len() {
        match file.write_at(&bytes[count..], at + count as u64) {
            Ok(0) => return Err((count, io::ErrorKind::WriteZero.into())),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((count, error)),
        }
    }
    Ok(())
}

fn read_header(file: &File, length: u64, path: &Path) -> Result<Header> {
    let failed = |error| Error::io("reading", path, error);
    let mut bytes = vec![0; FIRST_READ.min(usize::try_from(length).unwrap_or(FIRST_READ))];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    let wanted = Header::length(&bytes, length, path)?;
    let have = bytes.len();
    if wanted > have {
        bytes.resize(wanted, 0);
        file.read_exact_at(&mut bytes[have..], have as u64).map_err(failed)?;
    }
    Header::parse(bytes, length, path)
}

/// The values of a file, with the previewed rows over them.
struct OldValues<'a> {
    file: &'a File,
    path: &'a Path,
    unwritten: &'a Writes,
}

impl Values for OldValues<'_> {
    fn read(&self, offset: u64, values: &mut [f64]) -> Result<()> {
        let mut bytes = vec![0; 8 * values.len()];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| Error::io("reading", self.path, error))?;
        for (index, value) in values.iter_mut().enumerate() {
            *value = layout::f64_at(&bytes, 8 * index);
        }
        self.unwritten.overlay(offset, values);
        Ok(())
    }
}

/// Writes a new file: `header`, then `values` of every row in file order (unknown where it ends early). The file
/// gets its name when it is whole.
///
/// # Errors
/// The system's error; then no file is left.
pub fn create(
    path: &Path,
    header: &Header,
    values: impl Iterator<Item = f64>,
    overwrite: bool,
) -> Result<()> {
    if !overwrite && path.symlink_metadata().is_ok() {
        return Err(Error::io("creating", path, io::Error::from_raw_os_error(libc::EEXIST)));
    }
    let new = NewFile::begin(path, header.file_len())?;
    fill(new.file(), header, values).map_err(|error| Error::io("writing", path, error))?;
    new.finish(overwrite)
}

fn fill(mut file: &File, header: &Header, mut values: impl Iterator<Item = f64>) -> io::Result<()> {
    file.write_all(header.bytes())?;
    let mut left = header.file_len() - header.bytes().len() as u64;
    let mut chunk = Vec::with_capacity(FILL_CHUNK);
    while left > 0 {
        chunk.clear();
        while chunk.len() < FILL_CHUNK && (chunk.len() as u64) < left {
            chunk.extend_from_slice(&values.next().unwrap_or(UNKNOWN).to_bits().to_le_bytes());
        }
        file.write_all(&chunk)?;
        left -= chunk.len() as u64;
    }
    file.flush()
}

/// Whether `bytes` could be an `.rrd` file of any kind.
pub fn looks_like_rrd(bytes: &[u8]) -> bool {
    bytes.len() >= STAT_HEAD && bytes[..4] == layout::MAGIC
}
