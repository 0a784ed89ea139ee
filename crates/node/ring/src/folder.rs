//! The directory with the rings of one node: which files there are, and when a file is continued, put aside
//! or removed. `directory.rs` does so safely. An agent holds a lock on it for its whole life. It creates
//! the files, continues the rings of the agent before it, and puts aside the rings that it cannot continue.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_model::Nanos;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, ftruncate};
use rustix::io::Errno;

use crate::bytes::RingBytes;
use crate::directory::Directory;
use crate::error::RingError;
use crate::layout::{Areas, DATA_MIN, Label, PAGE_BYTES};
use crate::memory::{Memory, allocate};
use crate::reader::Reader;
use crate::recover::{Recovered, recover};
use crate::schema_area::{Pages, SCHEMA_STEP};
use crate::snapshot::{SNAPSHOT_FILE, SnapshotLabel, SnapshotWriter};
use crate::writer::{Ring, data_bytes};

/// Readers hold the lock for a moment to check whether a writer lives. After this many attempts, the lock
/// counts as held by another agent.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// At most this many ring files are read: an agent has fewer lanes.
const RINGS_MAX: usize = 256;

/// A file of this name keeps the rings after a clean end, also after a successor's.
const KEPT: &str = "kept";

/// A directory that this process holds locked.
#[derive(Debug)]
pub struct Folder {
    directory: Directory,
}

/// What was found in the place of a ring.
#[derive(Debug)]
pub enum Found {
    /// No ring.
    Nothing,
    /// A ring, which this one continues.
    TakenUp,
    /// A ring that could not be continued; it is now `.ring.old`. The text is the reason.
    PutAside(String),
}

impl Folder {
    /// Creates the directory if it is missing, checks that only this user can put files into it, and locks
    /// it.
    pub fn lock(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::make)
    }

    /// Locks an existing directory of this user, in order to remove its files.
    pub fn lock_own(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::open_own)
    }

    /// Locks an existing directory, even of another user, in order to remove its files.
    pub fn lock_existing(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::open)
    }

    fn locked(path: &Path, open: impl Fn(&Path) -> Result<Directory, RingError>) -> Result<Self, RingError> {
        let mut directory = open(path)?;
        for attempt in 0..LOCK_TRIES {
            match flock(directory.fd(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if directory.is_there() => return Ok(Folder { directory }),
                // The process that held the lock has removed the directory: open it again.
                Ok(()) => directory = open(path)?,
                Err(Errno::WOULDBLOCK) if attempt + 1 < LOCK_TRIES => std::thread::sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK) => break,
                Err(source) => return Err(RingError::File { what: "lock", path: path.into(), source }),
            }
        }
        let pid =
            rings(path).ok().into_iter().flatten().find_map(|ring| Some(Reader::open(&ring).ok()?.pid()));
        Err(RingError::Locked { path: path.into(), pid })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes the rings outlive a clean end.
    pub fn keep(&self) -> Result<(), RingError> {
        match self.is_kept()? {
            true => Ok(()),
            false => self.directory.create(KEPT).map(drop),
        }
    }

    /// True if this agent or an earlier one called [`Folder::keep`].
    pub fn is_kept(&self) -> Result<bool, RingError> {
        Ok(self.directory.file(KEPT)?.is_some())
    }

    /// Removes everything that agents make here, and then the directory. With `with_above` it also removes
    /// the parent, if that is empty and belongs to this user. `false`: files of others are left in the
    /// directory.
    pub fn remove(self, with_above: bool) -> Result<bool, RingError> {
        for name in self.directory.names()?.iter().filter(|name| is_of_agents(name)) {
            self.directory.remove(OsStr::from_bytes(name))?;
        }
        let Some(above) = self.directory.remove_itself()? else { return Ok(false) };
        if with_above && above.owner() == Some(rustix::process::geteuid().as_raw()) {
            // A parent that is not empty has the directories of other nodes; it stays.
            above.remove_itself()?;
        }
        Ok(true)
    }

    /// Creates a snapshot beside the rings.
    pub fn snapshot(&self, label: &SnapshotLabel) -> Result<SnapshotWriter, RingError> {
        SnapshotWriter::create(&self.path().join(SNAPSHOT_FILE), label)
    }

    /// The ring of a lane: the existing one if label and size allow to continue it, or else a new one. The
    /// size is rounded down to a power of two.
    pub fn ring(&self, label: Label, bytes: u64) -> Result<(Ring, Found), RingError> {
        self.open(label, bytes, |_| Ok(()), || Ok(()))
    }

    /// The same for a lane with this period: all rows of an epoch have one rate.
    pub fn ring_at(&self, label: Label, bytes: u64, period: Nanos) -> Result<(Ring, Found), RingError> {
        self.open(label, bytes, |ring| at_period(ring, period), || Ok(()))
    }

    /// The same for the leading lane: if its ring is not continued, no other ring is. Readers move between lanes when the leading
    /// lane has another rate, and must not get the rows of one time from both.
    pub fn leading_ring(&self, label: Label, bytes: u64, period: Nanos) -> Result<(Ring, Found), RingError> {
        let name = file_name(&label.lane);
        let put_others_aside = || {
            let others = self.directory.names()?.into_iter().filter(|other| *other != name.as_bytes());
            let others = others.filter_map(|other| String::from_utf8(other).ok());
            let mut rings = others.filter(|other| other.ends_with(".ring"));
            rings.try_for_each(|other| self.put_aside(&other))
        };
        self.open(label, bytes, |ring| at_period(ring, period), put_others_aside)
    }

    /// Calls `before` if no existing ring is continued, and does so before a new ring replaces an existing one. If this process
    /// is killed meanwhile, the next process finds the existing ring and continues here.
    fn open(
        &self,
        label: Label,
        bytes: u64,
        may_continue: impl Fn(&Ring) -> Result<(), String>,
        before: impl Fn() -> Result<(), RingError>,
    ) -> Result<(Ring, Found), RingError> {
        let size = data_bytes(bytes, DATA_MIN);
        let name = file_name(&label.lane);
        let continued = |file| {
            let ring = take_up(file, &label, size)?;
            may_continue(&ring).map(|()| ring)
        };
        let found = match self.directory.file(&name)?.map(continued) {
            Some(Ok(ring)) => return Ok((ring, Found::TakenUp)),
            Some(Err(why)) => Found::PutAside(why),
            None => Found::Nothing,
        };
        before()?;
        if matches!(found, Found::PutAside(_)) {
            self.put_aside(&name)?;
        }
        Ok((self.create(&name, label, size)?, found))
    }

    fn put_aside(&self, name: &str) -> Result<(), RingError> {
        self.directory.rename(name, &format!("{name}.old"))
    }

    fn create(&self, name: &str, label: Label, size: u64) -> Result<Ring, RingError> {
        let new = format!("{name}.new");
        // An earlier attempt may have left an unfinished file.
        self.directory.remove(&new)?;
        let file = self.directory.create(&new)?;
        let ring = fill(file, &label, size).map_err(|source| {
            let _ = self.directory.remove(&new);
            let path = self.path().join(name);
            match source {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => RingError::NoRoom { path, bytes: size, source },
                source => RingError::File { what: "allocate", path, source },
            }
        })?;
        self.directory.rename(&new, name)?;
        Ok(ring)
    }

    /// Removes the rings that were put aside, because a new ring needs their room. `true` if there were any.
    pub fn remove_old(&self) -> Result<bool, RingError> {
        let names = self.directory.names()?;
        let mut old = names.iter().filter(|name| name.ends_with(b".ring.old")).peekable();
        let were_some = old.peek().is_some();
        old.try_for_each(|name| self.directory.remove(OsStr::from_bytes(name)))?;
        Ok(were_some)
    }
}

/// True for the names of files that agents make in their directory, unfinished ones included.
pub fn is_of_agents(name: &[u8]) -> bool {
    let ends = [&b".ring"[..], b".ring.old", b".ring.new"];
    let names = [SNAPSHOT_FILE.as_bytes(), b"snapshot.new", KEPT.as_bytes()];
    ends.iter().any(|end| name.ends_with(end)) || names.contains(&name)
}

/// `base.ring`.
fn file_name(lane: &str) -> String {
    // khz chooses the lane names; still, no name may lead out of the directory.
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    format!("{}.ring", lane.chars().map(fits).collect::<String>())
}

/// Allocates the pages first, so that no store into them can fail, and then writes the first page.
fn fill(file: OwnedFd, label: &Label, size: u64) -> Result<Ring, Errno> {
    let areas = Areas::FILE;
    ftruncate(&file, areas.data + size)?;
    allocate(&file, 0, areas.schema + SCHEMA_STEP)?;
    allocate(&file, areas.data, size)?;
    let memory = Memory::of(&file, areas.data + size)?;
    memory.copy_in(0, &label.to_page(size));
    Ok(Ring::of(
        memory,
        areas,
        file,
        size,
        label.clone(),
        Pages::Allocated(SCHEMA_STEP),
        Recovered::default(),
    ))
}

/// An error if the rows of a ring come at another period. A ring without rows has none.
fn at_period(ring: &Ring, wanted: Nanos) -> Result<(), String> {
    match ring.reader.asked() {
        asked if asked == wanted || asked == Nanos(0) => Ok(()),
        asked => Err(format!("its rows come every {asked}, not every {wanted}")),
    }
}

/// Continues the ring in a file, or returns the reason why not.
fn take_up(file: OwnedFd, wanted: &Label, size: u64) -> Result<Ring, String> {
    let errno = |errno: Errno| errno.to_string();
    let about = rustix::fs::fstat(&file).map_err(errno)?;
    if !FileType::from_raw_mode(about.st_mode).is_file() {
        return Err("it is not a regular file".into());
    }
    let areas = Areas::FILE;
    let length = about.st_size as u64;
    let file = Arc::new(file);
    let mut page = Vec::new();
    if length != areas.data + size || !RingBytes::File(file.clone()).copy(0, PAGE_BYTES, &mut page) {
        return Err(format!("it has {length} bytes, not {}", areas.data + size));
    }
    let (label, its_size) = Label::from_page(&page)?;
    if its_size != size || !label.is_continued_by(wanted) {
        return Err("it belongs to another boot, node or lane".into());
    }
    // A file with holes would end this process at a store for which the file system has no room.
    allocate(&*file, 0, areas.schema + SCHEMA_STEP).map_err(errno)?;
    allocate(&*file, areas.data, size).map_err(errno)?;
    let memory = Arc::new(Memory::of(&*file, length).map_err(errno)?);
    let found = recover(&memory, size, &Arc::new(label.clone()))?;
    let there = found.schema_end.next_multiple_of(SCHEMA_STEP).max(SCHEMA_STEP);
    allocate(&*file, areas.schema, there).map_err(errno)?;
    let ours = "BUG: recovery still holds the ring's memory or file";
    let memory = Arc::into_inner(memory).expect(ours);
    let file = Arc::into_inner(file).expect(ours);
    Ok(Ring::of(memory, areas, file, size, label, Pages::Allocated(there), found))
}

/// The ring files in a directory, in name order, without those that were put aside.
pub fn rings(folder: &Path) -> Result<Vec<PathBuf>, RingError> {
    files(folder, "ring")
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, RingError> {
    let entries = std::fs::read_dir(folder).map_err(RingError::file("read", folder))?;
    let fits = |path: &PathBuf| path.extension().is_some_and(|e| e == extension);
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).take(RINGS_MAX).collect();
    found.sort();
    Ok(found)
}

/// True when an agent holds the lock of the directory.
pub fn is_written(folder: &Path) -> Result<bool, RingError> {
    let fd = open_directory(folder)?;
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(source) => Err(RingError::File { what: "test the lock of", path: folder.into(), source }),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, RingError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|source| RingError::File {
        what: "open",
        path: path.into(),
        source,
    })
}
