//! The directory with the rings of one node. An agent holds it locked as long as it lives: it makes the files,
//! takes up those of the agent before it, and puts aside what it cannot go on with.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, ftruncate};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::RingError;
use crate::layout::{DATA_AT, Label, PAGE_BYTES, SCHEMA_AT};
use crate::memory::{Memory, allocate};
use crate::reader::Reader;
use crate::recover::{Recovered, recover};
use crate::snapshot::{SNAPSHOT_FILE, SnapshotLabel, SnapshotWriter};
use crate::store::Store;
use crate::writer::{Pages, Ring, SCHEMA_STEP, data_bytes};

/// Readers hold the lock for a moment to see whether a writer lives: it is asked for this often before it counts
/// as held by another agent.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// More files than an agent has lanes are not looked at.
const RINGS_MAX: usize = 256;

/// Its presence says that what is recorded here outlives a clean end, also that of a successor.
const KEPT: &str = "kept";

/// A directory that is ours as long as this lives.
#[derive(Debug)]
pub struct Folder {
    directory: Directory,
}

/// How a ring was found.
#[derive(Debug)]
pub enum Found {
    /// There was none.
    Nothing,
    /// Taken up where its last writer had stopped.
    TakenUp,
    /// Put aside as `.ring.old`, for this reason.
    PutAside(String),
}

impl Folder {
    /// Makes the directory where it is missing, checks that nobody else can put files into it, and locks it.
    pub fn lock(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::make)
    }

    /// Locks one that is there and ours: to remove what is in it.
    pub fn lock_own(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::open_own)
    }

    /// Locks one that is there, also one of another user: to remove what is in it.
    pub fn lock_existing(path: &Path) -> Result<Self, RingError> {
        Folder::locked(path, Directory::open)
    }

    fn locked(path: &Path, open: impl Fn(&Path) -> Result<Directory, RingError>) -> Result<Self, RingError> {
        let mut directory = open(path)?;
        for attempt in 0..LOCK_TRIES {
            match flock(directory.fd(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if directory.is_there() => return Ok(Folder { directory }),
                // The process that held the lock has removed the directory.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What is recorded here is to outlive a clean end.
    pub fn keep(&self) -> Result<(), RingError> {
        match self.is_kept()? {
            true => Ok(()),
            false => self.directory.create(KEPT).map(drop),
        }
    }

    /// True where somebody has said so: this agent or one before.
    pub fn is_kept(&self) -> Result<bool, RingError> {
        Ok(self.directory.file(KEPT)?.is_some())
    }

    /// Removes everything that agents make here, and the directory. The one above goes too where it is ours, and empty, and
    /// `with_above` says so. `false`: files of somebody else are left in it.
    pub fn remove(self, with_above: bool) -> Result<bool, RingError> {
        for name in self.directory.names()?.iter().filter(|name| is_of_agents(name)) {
            self.directory.remove(OsStr::from_bytes(name))?;
        }
        let Some(above) = self.directory.remove_itself()? else { return Ok(false) };
        if with_above && above.owner() == Some(rustix::process::geteuid().as_raw()) {
            // In one that is not empty other nodes have theirs.
            above.remove_itself()?;
        }
        Ok(true)
    }

    /// A snapshot beside the rings.
    pub fn snapshot(&self, label: &SnapshotLabel) -> Result<SnapshotWriter, RingError> {
        SnapshotWriter::create(&self.path().join(SNAPSHOT_FILE), label)
    }

    /// The ring of a lane: taken up where the label and the size allow, else new. The size is rounded down to a power
    /// of two.
    pub fn ring(&self, label: Label, bytes: u64) -> Result<(Ring, Found), RingError> {
        let size = data_bytes(bytes);
        let name = file_name(&label.lane);
        let found = match self.directory.file(&name)? {
            None => Found::Nothing,
            Some(file) => match take_up(file, &label, size) {
                Ok(ring) => return Ok((ring, Found::TakenUp)),
                Err(why) => {
                    self.directory.rename(&name, &format!("{name}.old"))?;
                    Found::PutAside(why)
                }
            },
        };
        Ok((self.create(&name, label, size)?, found))
    }

    fn create(&self, name: &str, label: Label, size: u64) -> Result<Ring, RingError> {
        let new = format!("{name}.new");
        // What a start that failed has left behind.
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

    /// Gives up the rings that were put aside: they take the room that a new one needs. `true` when there were some.
    pub fn remove_old(&self) -> Result<bool, RingError> {
        let names = self.directory.names()?;
        let mut old = names.iter().filter(|name| name.ends_with(b".ring.old")).peekable();
        let were_some = old.peek().is_some();
        old.try_for_each(|name| self.directory.remove(OsStr::from_bytes(name)))?;
        Ok(were_some)
    }
}

/// What an agent makes in its directory, now or when it could not finish.
pub fn is_of_agents(name: &[u8]) -> bool {
    let ends = [&b".ring"[..], b".ring.old", b".ring.new"];
    let names = [SNAPSHOT_FILE.as_bytes(), b"snapshot.new", KEPT.as_bytes()];
    ends.iter().any(|end| name.ends_with(end)) || names.contains(&name)
}

/// `base.ring`.
fn file_name(lane: &str) -> String {
    // Lane names come from us; still, none may leave the directory.
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    format!("{}.ring", lane.chars().map(fits).collect::<String>())
}

/// Pages first, so that no store into them can fail; then what stands on the first one.
fn fill(file: OwnedFd, label: &Label, size: u64) -> Result<Ring, Errno> {
    ftruncate(&file, DATA_AT + size)?;
    allocate(&file, 0, SCHEMA_AT + SCHEMA_STEP)?;
    allocate(&file, DATA_AT, size)?;
    let memory = Memory::of(&file, DATA_AT + size)?;
    memory.copy_in(0, &label.to_page(size));
    Ok(Ring::of(memory, file, size, label.clone(), Pages::Allocated(SCHEMA_STEP), Recovered::default()))
}

/// Goes on with the ring in a file, or says why not.
fn take_up(file: OwnedFd, wanted: &Label, size: u64) -> Result<Ring, String> {
    let errno = |errno: Errno| errno.to_string();
    let about = rustix::fs::fstat(&file).map_err(errno)?;
    if !FileType::from_raw_mode(about.st_mode).is_file() {
        return Err("it is no file".into());
    }
    let length = about.st_size as u64;
    let file = Arc::new(file);
    let mut page = Vec::new();
    if length != DATA_AT + size || !Store::File(file.clone()).copy(0, PAGE_BYTES, &mut page) {
        return Err(format!("it has {length} bytes, not {}", DATA_AT + size));
    }
    let (label, its_size) = Label::from_page(&page)?;
    if its_size != size || !label.is_continued_by(wanted) {
        return Err("it is of another boot, node or lane".into());
    }
    // A file with holes would end us at a store that finds no room.
    allocate(&*file, 0, SCHEMA_AT + SCHEMA_STEP).map_err(errno)?;
    allocate(&*file, DATA_AT, size).map_err(errno)?;
    let memory = Arc::new(Memory::of(&*file, length).map_err(errno)?);
    let found = recover(&memory, size, &Arc::new(label.clone()))?;
    let there = found.schema_end.next_multiple_of(SCHEMA_STEP).max(SCHEMA_STEP);
    allocate(&*file, SCHEMA_AT, there).map_err(errno)?;
    let ours = "BUG: recovering has kept the ring's memory or file";
    let memory = Arc::into_inner(memory).expect(ours);
    let file = Arc::into_inner(file).expect(ours);
    Ok(Ring::of(memory, file, size, label, Pages::Allocated(there), found))
}

/// The ring files in a directory, in name order; those put aside are not among them.
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

/// True when an agent holds the directory.
pub fn is_written(folder: &Path) -> Result<bool, RingError> {
    let fd = open_directory(folder)?;
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(source) => Err(RingError::File { what: "look at the lock of", path: folder.into(), source }),
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
