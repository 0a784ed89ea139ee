//! The base directory: relative names in commands lie below it, and with `-B` all names do.
//!
//! A confining base resolves each name with `openat2(2)` from the directory that it opened at the start. So no symbolic
//! link leads out of it, not even one made a moment before.

use std::borrow::Cow;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// The base directory.
#[derive(Debug)]
pub struct Base {
    /// As the settings name it.
    given: String,
    /// Without symbolic links.
    directory: String,
    root: Option<OwnedFd>,
}

/// The directory of a file, held open, and a path to the file through it.
pub struct Parent {
    /// The directory that the path begins at.
    _directory: Option<OwnedFd>,
    /// The file's path.
    pub path: PathBuf,
}

/// Whether `whole` needs no change: no slash is followed by a slash or a dot.
fn is_plain(whole: &str) -> bool {
    let bytes = whole.as_bytes();
    memchr::memchr_iter(b'/', bytes).all(|at| !matches!(bytes.get(at + 1), Some(b'/' | b'.')))
}

fn denied<T>(name: &str) -> Result<T> {
    refused(format!("{name}: Permission denied"))
}

impl Base {
    /// The base `directory`; with `confine` every file must be below it.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn new(directory: &Path, confine: bool) -> Result<Self> {
        let failed = |error| Error::io("opening", directory, error);
        let real = directory.canonicalize().map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
        let open = || rustix::fs::open(&real, flags, Mode::empty()).map_err(|error| failed(error.into()));
        let root = confine.then(open).transpose()?;
        let text = |path: &Path| text::name(path).trim_end_matches('/').to_string();
        Ok(Self { given: text(directory), directory: text(&real), root })
    }

    /// The directory itself.
    pub fn directory(&self) -> Cow<'_, Path> {
        text::path(if self.directory.is_empty() { "/" } else { &self.directory })
    }

    /// Whether every file must be below it.
    pub fn confines(&self) -> bool {
        self.root.is_some()
    }

    /// The whole name, the same for each way to write it. Reads no directory.
    ///
    /// # Errors
    /// The name alone shows that the file lies outside a confining base.
    pub fn name<'a>(&self, name: &'a str) -> Result<Cow<'a, str>> {
        let mut whole = match name.starts_with('/') {
            true => Cow::Borrowed(name),
            false => Cow::Owned(format!("{}/{name}", self.directory)),
        };
        if is_plain(&whole) && (self.root.is_none() || self.holds(&whole)) {
            return Ok(whole);
        }
        while let Some(at) = whole.find("/./").or_else(|| whole.find("//")) {
            let skip = if whole[at..].starts_with("//") { 1 } else { 2 };
            whole.to_mut().replace_range(at..at + skip, "");
        }
        if self.root.is_some() {
            if whole.split('/').any(|part| part == "..") {
                return denied(&whole);
            }
            if !self.holds(&whole) {
                // The base may also be named by a symbolic link that leads to it.
                match whole.strip_prefix(self.given.as_str()).filter(|rest| rest.starts_with('/')) {
                    Some(rest) => whole = Cow::Owned(format!("{}{rest}", self.directory)),
                    None => return denied(&whole),
                }
            }
        }
        Ok(whole)
    }

    fn holds(&self, whole: &str) -> bool {
        whole.strip_prefix(self.directory.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Opens the file called `whole`.
    ///
    /// # Errors
    /// The system's error, or that the file lies outside.
    pub fn open(&self, whole: &str, write: bool) -> Result<File> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        // Opening a pipe must not wait for its other end.
        self.resolve(whole, access | OFlags::NONBLOCK | OFlags::NOCTTY).map(File::from)
    }

    fn resolve(&self, whole: &str, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let opened = match &self.root {
            None => rustix::fs::open(&*text::path(whole), flags, Mode::empty()),
            Some(root) => {
                let below = whole.strip_prefix(self.directory.as_str()).unwrap_or("").trim_start_matches('/');
                let below = if below.is_empty() { "." } else { below };
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                rustix::fs::openat2(root, &*text::path(below), flags, Mode::empty(), resolve)
            }
        };
        match (opened, &self.root) {
            (Err(rustix::io::Errno::XDEV), Some(root)) => self.resolve_links(root, whole, flags),
            (opened, _) => opened.map_err(|error| Error::io("opening", text::path(whole), error.into())),
        }
    }

    /// Opens a file whose name has absolute symbolic links. With `BENEATH`, the kernel does not follow absolute links, so they are
    /// resolved here. Then the kernel follows no link at all, so a link that was made in between is an error.
    fn resolve_links(&self, root: &OwnedFd, whole: &str, flags: OFlags) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| Error::io("opening", whole, error);
        let real = text::name(text::path(whole).canonicalize().map_err(failed)?);
        let below = match real.strip_prefix(self.directory.as_str()) {
            Some("") => ".",
            Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
            _ => return denied(whole),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(root, &*text::path(below), flags, Mode::empty(), resolve)
            .map_err(|error| failed(error.into()))
    }

    /// The directory of the file called `whole`, to make or replace the file in.
    ///
    /// # Errors
    /// As [`Base::open`].
    pub fn parent(&self, whole: &str) -> Result<Parent> {
        let Some((directory, name)) = whole.rsplit_once('/').filter(|_| self.root.is_some()) else {
            return Ok(Parent { _directory: None, path: text::path(whole).into_owned() });
        };
        let directory = self.resolve(directory, OFlags::DIRECTORY | OFlags::PATH)?;
        let path = text::path(&format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())).into_owned();
        Ok(Parent { _directory: Some(directory), path })
    }

    /// Makes the directories that `whole` lies in.
    ///
    /// # Errors
    /// The system's error, or that they lie outside.
    pub fn make_parents(&self, whole: &str) -> Result<()> {
        let mut at = self.directory.len() + 1;
        // Each directory is opened below the previous one, so a link among them cannot lead elsewhere.
        while let Some(length) = whole.get(at..).and_then(|rest| rest.find('/')) {
            let directory = &whole[..at + length];
            let parent = self.parent(directory)?;
            match std::fs::create_dir(&parent.path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("creating", text::path(directory), error));
                }
                _ => at += length + 1,
            }
        }
        Ok(())
    }

    /// The directory called `whole`, to list it.
    ///
    /// # Errors
    /// As [`Base::open`].
    pub fn listed(&self, whole: &str) -> Result<Parent> {
        let directory = self.resolve(whole, OFlags::DIRECTORY | OFlags::PATH)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        Ok(Parent { _directory: Some(directory), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_file_however_it_is_written() {
        let base = Base::new(Path::new("/usr"), true).unwrap();
        let name = |name| base.name(name).map_err(|error| error.to_string());
        for same in ["lib/a.rrd", "./lib//a.rrd", "/usr/lib/./a.rrd", "/usr///lib/a.rrd"] {
            assert_eq!(name(same).unwrap(), "/usr/lib/a.rrd");
        }
        for outside in ["../a.rrd", "/usr/lib/../../a", "/usrlocal/a", "/etc/a", "/usr", "lib/.."] {
            assert!(name(outside).unwrap_err().ends_with(": Permission denied"), "{outside}");
        }
        let open = Base::new(Path::new("/usr"), false).unwrap();
        assert_eq!(open.name("../a").unwrap(), "/usr/../a");
        assert_eq!(open.name("/etc/a").unwrap(), "/etc/a");
        for same in ["//.a", "/./.a", "///.a", "/.a"] {
            assert_eq!(open.name(same).unwrap(), "/.a");
        }
    }
}
