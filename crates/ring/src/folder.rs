//! The directory with the rings of one node. An agent holds it locked as long as it lives: it makes the files,
//! takes up those of the agent before it, and puts aside what it cannot go on with.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, ftruncate};
use rustix::io::Errno;

use crate::error::RingError;
use crate::layout::{DATA_AT, Label, PAGE_BYTES, SCHEMA_AT};
use crate::memory::{Memory, allocate};
use crate::reader::Reader;
use crate::recover::{Recovered, recover};
use crate::store::Store;
use crate::writer::{Pages, Ring, SCHEMA_STEP, data_bytes};

/// Readers hold the lock for a moment to see whether a writer lives: it is asked for this often before it counts
/// as held by another agent.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// More files than an agent has lanes are not looked at.
const RINGS_MAX: usize = 256;

/// A directory that is ours as long as this lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _locked: OwnedFd,
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
        make(path)?;
        let fd = open_directory(path)?;
        for attempt in 0..LOCK_TRIES {
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Folder { path: path.into(), _locked: fd }),
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
        &self.path
    }

    /// The ring of a lane: taken up where the label and the size allow, else new. The size is rounded down to a power
    /// of two.
    pub fn ring(&self, label: Label, bytes: u64) -> Result<(Ring, Found), RingError> {
        let size = data_bytes(bytes);
        let path = self.path.join(file_name(&label.lane));
        let found = match open_existing(&path)? {
            None => Found::Nothing,
            Some(file) => match take_up(file, &label, size) {
                Ok(ring) => return Ok((ring, Found::TakenUp)),
                Err(why) => {
                    rename(&path, &path.with_extension("ring.old"))?;
                    Found::PutAside(why)
                }
            },
        };
        Ok((self.create(&path, label, size)?, found))
    }

    fn create(&self, path: &Path, label: Label, size: u64) -> Result<Ring, RingError> {
        let new = path.with_extension("ring.new");
        let failed = |what| {
            let path = new.clone();
            move |source| RingError::File { what, path, source }
        };
        // What a start that failed has left behind.
        remove(&new)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&new, flags, Mode::from_raw_mode(0o640)).map_err(failed("create"))?;
        let ring = fill(file, &label, size).map_err(|source| {
            let _ = remove(&new);
            match source {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
                    RingError::NoRoom { path: path.into(), bytes: size, source }
                }
                source => RingError::File { what: "allocate", path: path.into(), source },
            }
        })?;
        rename(&new, path)?;
        Ok(ring)
    }

    /// Gives up the rings that were put aside: they take the room that a new one needs. `true` when there were some.
    pub fn remove_old(&self) -> Result<bool, RingError> {
        let old = files(&self.path, "old")?;
        old.iter().try_for_each(|path| remove(path))?;
        Ok(!old.is_empty())
    }
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

fn open_existing(path: &Path) -> Result<Option<OwnedFd>, RingError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(source) => Err(RingError::File { what: "open", path: path.into(), source }),
    }
}

/// Goes on with the ring in a file, or says why not.
fn take_up(file: OwnedFd, wanted: &Label, size: u64) -> Result<Ring, String> {
    let errno = |errno: Errno| errno.to_string();
    let length = rustix::fs::fstat(&file).map_err(errno)?.st_size as u64;
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
    let entries = std::fs::read_dir(folder).map_err(io("read", folder))?;
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

/// The directory and its parents, mode 0750. Whoever else may write into it could give us files of his own.
fn make(path: &Path) -> Result<(), RingError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(io("create", path))?;
    let own = rustix::process::geteuid().as_raw();
    check(path, |owner, mode| owner == own && mode & 0o022 == 0)?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // In a directory such as /dev/shm everybody may write, but nobody renames what is not his.
        Some(parent) => check(parent, |owner, mode| {
            (owner == own || owner == 0) && (mode & 0o022 == 0 || mode & 0o1000 != 0)
        }),
        None => Ok(()),
    }
}

fn check(path: &Path, is_safe: impl Fn(u32, u32) -> bool) -> Result<(), RingError> {
    let about = std::fs::symlink_metadata(path).map_err(io("look at", path))?;
    let (owner, mode) = (about.uid(), about.mode() & 0o7777);
    if about.is_dir() && is_safe(owner, mode) {
        return Ok(());
    }
    let kind = if about.is_dir() { "directory" } else { "file" };
    let problem = format!("a {kind} of user {owner}, mode {mode:o}; nobody but us may write into it");
    Err(RingError::Unsafe { path: path.into(), problem })
}

fn rename(from: &Path, to: &Path) -> Result<(), RingError> {
    std::fs::rename(from, to).map_err(io("rename", from))
}

fn remove(path: &Path) -> Result<(), RingError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn io(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> RingError {
    let path = path.to_path_buf();
    move |error| RingError::File {
        what,
        path: path.clone(),
        source: error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
    }
}
