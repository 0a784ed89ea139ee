//! Any directory, by its handle. Files in it are made, opened, renamed and removed relative to the handle, and
//! no link is followed. So another user who can write to a directory on the path cannot make khz write
//! elsewhere. It knows nothing of rings; `folder.rs` does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::RingError;

/// The group of the agent's user may read.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o750);
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);

/// Bits of a mode. OTHERS_WRITE: others may write. STICKY: only the owner of a file may rename or remove it.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    /// The parent directory, and the name of this one in it.
    above: Option<(Box<Directory>, OsString)>,
}

impl Directory {
    /// Opens a directory into which only this user can put files. Creates it and its parent if they are
    /// missing. Refuses both if they are links or belong to another user (the parent may belong to root).
    pub fn make(path: &Path) -> Result<Self, RingError> {
        Directory::walk(path, true)?.ours()
    }

    /// The same for a directory that exists.
    pub fn open_own(path: &Path) -> Result<Self, RingError> {
        Directory::walk(path, false)?.ours()
    }

    fn ours(self) -> Result<Self, RingError> {
        let own = rustix::process::geteuid().as_raw();
        self.check(|owner, mode| owner == own && mode & OTHERS_WRITE == 0)?;
        let Some((above, _)) = &self.above else { return Ok(self) };
        // In a directory such as /dev/shm everybody may write, but may rename only files of his own.
        above.check(|owner, mode| {
            (owner == own || owner == 0) && (mode & OTHERS_WRITE == 0 || mode & STICKY != 0)
        })?;
        Ok(self)
    }

    /// Opens a directory that exists, even one of another user.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        Directory::walk(path, false)
    }

    /// Opens the directory and its parent, neither of them through a link. Links further up in the path are
    /// followed.
    fn walk(path: &Path, make: bool) -> Result<Self, RingError> {
        let (above_path, name) = parts(path);
        let Some(name) = name else { return Directory::start(path) };
        let (further, above_name) = parts(&above_path);
        let above = match above_name {
            None => Directory::start(&above_path)?,
            Some(above_name) => {
                if make {
                    let mode = DIRECTORY_MODE.as_raw_mode();
                    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&further);
                    made.map_err(RingError::file("create", &further))?;
                }
                Directory::start(&further)?.below(above_name, &above_path, make)?
            }
        };
        above.below(name, path, make)
    }

    /// Opens the first directory of a path; links in it are followed.
    fn start(path: &Path) -> Result<Self, RingError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty());
        let fd = fd.map_err(|source| RingError::File { what: "open", path: path.into(), source })?;
        Ok(Directory { fd, path: path.into(), above: None })
    }

    fn below(self, name: OsString, path: &Path, make: bool) -> Result<Self, RingError> {
        let failed = |what, source| RingError::File { what, path: path.into(), source };
        if make {
            match rustix::fs::mkdirat(&self.fd, &name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(source) => return Err(failed("create", source)),
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.fd, &name, flags, Mode::empty()) {
            Ok(fd) => Ok(Directory { fd, path: path.into(), above: Some((Box::new(self), name)) }),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let problem = "it is a link or a file, not a directory: remove it".into();
                Err(RingError::Unsafe { path: path.into(), problem })
            }
            Err(source) => Err(failed("open", source)),
        }
    }

    fn check(&self, is_safe: impl Fn(u32, u32) -> bool) -> Result<(), RingError> {
        let about = self.about()?;
        let (owner, mode) = (about.st_uid, about.st_mode & 0o7777);
        if is_safe(owner, mode) {
            return Ok(());
        }
        let problem =
            format!("it belongs to user {owner} and has mode {mode:o}; only this user may write into it");
        Err(RingError::Unsafe { path: self.path.clone(), problem })
    }

    fn about(&self) -> Result<Stat, RingError> {
        rustix::fs::fstat(&self.fd).map_err(|source| self.failed("examine", OsStr::new(""), source))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The handle, for locks.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// False after the directory was removed: files made in it would be lost.
    pub fn is_there(&self) -> bool {
        self.about().is_ok_and(|about| about.st_nlink > 0)
    }

    /// Opens a file to read and write; `None` if it does not exist.
    pub fn file(&self, name: &str) -> Result<Option<OwnedFd>, RingError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(source) => Err(self.failed("open", OsStr::new(name), source)),
        }
    }

    /// Creates a file that does not exist yet.
    pub fn create(&self, name: &str) -> Result<OwnedFd, RingError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&self.fd, name, flags, FILE_MODE)
            .map_err(|source| self.failed("create", OsStr::new(name), source))
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), RingError> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to)
            .map_err(|source| self.failed("rename", OsStr::new(from), source))
    }

    /// Removes a name if it exists. A link is removed, not its target.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), RingError> {
        match rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(source) => Err(self.failed("remove", name.as_ref(), source)),
        }
    }

    /// True when `name` is exactly this file.
    pub fn has(&self, name: &str, file: &OwnedFd) -> bool {
        let there = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        match (there, rustix::fs::fstat(file)) {
            (Ok(there), Ok(ours)) => (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino),
            _ => false,
        }
    }

    /// The names of its files and links.
    pub fn names(&self) -> Result<Vec<Vec<u8>>, RingError> {
        let failed = |source| self.failed("read", OsStr::new(""), source);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type() != FileType::Directory {
                names.push(entry.file_name().to_bytes().to_vec());
            }
        }
        Ok(names)
    }

    /// Removes the directory itself and returns its parent. `None`: the directory is not empty, or it has no
    /// parent here.
    pub fn remove_itself(self) -> Result<Option<Self>, RingError> {
        let Some((above, name)) = self.above else { return Ok(None) };
        match rustix::fs::unlinkat(&above.fd, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(Some(*above)),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(None),
            Err(source) => Err(RingError::File { what: "remove", path: self.path, source }),
        }
    }

    /// The user that it belongs to.
    pub fn owner(&self) -> Option<u32> {
        self.about().ok().map(|about| about.st_uid)
    }

    fn failed(&self, what: &'static str, name: &OsStr, source: Errno) -> RingError {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        RingError::File { what, path, source }
    }
}

/// The parent of a path, and the name in it; `.` and no name if the path has none.
fn parts(path: &Path) -> (PathBuf, Option<OsString>) {
    let name = path.file_name().map(ToOwned::to_owned);
    let above = path.parent().filter(|_| name.is_some());
    let above = above
        .map_or(path, |above| if above.as_os_str().as_bytes().is_empty() { Path::new(".") } else { above });
    (above.to_path_buf(), name)
}
