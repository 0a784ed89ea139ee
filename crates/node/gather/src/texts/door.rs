//! Opens one kernel file: finds it by its name without leaving `/proc`, checks the name that it has after all
//! links were followed, and reads it whole. No file is opened for reading before the check.

use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::allow::{AllowList, is_numbered, is_relative};
use super::{KERNEL_TEXT_MAX, TextError};

/// The room for the first read: most texts fit.
const FIRST_BYTES: usize = 16 << 10;

/// The `/proc` below a root, and the list of files that may be shown.
#[derive(Debug)]
pub(super) struct TextDoor {
    root: PathBuf,
    pub allow: AllowList,
}

/// The open `/proc` directory.
pub(super) struct Proc {
    pub folder: OwnedFd,
    /// Its own path, as the kernel shows it.
    name: String,
    /// The target of its `self`: this process's number there.
    own: Option<String>,
}

impl TextDoor {
    pub fn new(root: PathBuf, allow: AllowList) -> Self {
        TextDoor { root, allow }
    }

    /// Opens the directory.
    pub fn proc(&self) -> Result<Proc, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(self.root.join("proc"), flags, Mode::empty())?;
        let name = name_of(&folder)?;
        let own = rustix::fs::readlinkat(&folder, "self", Vec::new()).ok();
        let own = own.and_then(|own| own.into_string().ok());
        Ok(Proc { folder, name, own })
    }

    /// Finds a file by its name and checks it; the file is not open for reading yet.
    pub fn find(&self, proc: &Proc, path: &str) -> Result<OwnedFd, TextError> {
        let refused = || TextError::NotAllowed(path.to_owned());
        // A process number must not lead to a file, not even this process's number to a file that all
        // processes share.
        if !is_relative(path) || is_numbered(path) {
            return Err(refused());
        }
        // Stay beneath /proc, and follow no magic link, such as those in fd/ or a process's root.
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = match rustix::fs::openat2(&proc.folder, path, flags, Mode::empty(), how) {
            Ok(file) => file,
            Err(Errno::XDEV | Errno::LOOP) => return Err(refused()),
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(TextError::Missing(path.to_owned())),
            Err(errno) => return Err(TextError::Failed { path: path.to_owned(), errno }),
        };
        let canonical = name_of(&file).ok().and_then(|name| proc.below(&name)).ok_or_else(refused)?;
        if !self.allow.allows(&canonical) || !is_plain_file(&file) {
            return Err(refused());
        }
        Ok(file)
    }

    /// Reads a whole file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, TextError> {
        let failed = |errno| TextError::Failed { path: path.to_owned(), errno };
        let proc = self.proc().map_err(failed)?;
        let found = self.find(&proc, path)?;
        // Opens exactly the file that was checked, even if another file has taken its name since.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(way_to(&found), flags, Mode::empty()).map_err(failed)?;
        read_whole(&file).map_err(|errno| match errno {
            Errno::FBIG => TextError::TooLong { path: path.to_owned() },
            errno => failed(errno),
        })
    }
}

impl Proc {
    /// The path below `/proc` of the file with this absolute path; `None` if it is not below.
    fn below(&self, name: &str) -> Option<String> {
        let below = name.strip_prefix(&self.name)?.strip_prefix('/')?;
        let (first, rest) = below.split_once('/').unwrap_or((below, ""));
        match self.own.as_deref() == Some(first) && !rest.is_empty() {
            true => Some(format!("self/{rest}")),
            false => Some(below.to_owned()),
        }
    }
}

/// The path through which this process opens a descriptor again.
fn way_to(file: &OwnedFd) -> String {
    use rustix::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The path of a descriptor's file, as the kernel shows it.
fn name_of(file: &OwnedFd) -> Result<String, Errno> {
    let name = rustix::fs::readlink(way_to(file), Vec::new())?;
    name.into_string().map_err(|_| Errno::ILSEQ)
}

fn is_plain_file(file: &OwnedFd) -> bool {
    let seen = rustix::fs::statat(file, "", AtFlags::EMPTY_PATH);
    seen.is_ok_and(|seen| FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile)
}

/// The kernel hands out a file of many records a page at a time, however large the room; so read until
/// nothing comes.
fn read_whole(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut text = vec![0; FIRST_BYTES];
    let mut length = 0;
    loop {
        match rustix::io::read(file, &mut text[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        if length > KERNEL_TEXT_MAX {
            return Err(Errno::FBIG);
        }
        if text.len() - length < FIRST_BYTES {
            text.resize(text.len() * 2, 0);
        }
    }
    text.truncate(length);
    Ok(text)
}
