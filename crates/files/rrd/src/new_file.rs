//! A file that is being made. It has no name until it is whole, so a process that is killed meanwhile leaves nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::error::{Error, Result, os_text, refused};
use crate::file::clock;
use crate::text;

/// Names tried for a temporary file before giving up.
const TRIES: u32 = 100;
/// The mode of a new file.
const MODE: u32 = 0o644;

/// A file that is to be called `path`.
pub(crate) struct NewFile<'a> {
    path: &'a Path,
    file: File,
    /// A temporary name, where the file system has no files without a name; removed if the file is not finished.
    temporary: Option<PathBuf>,
}

impl<'a> NewFile<'a> {
    /// Begins a file of `bytes`.
    ///
    /// # Errors
    /// Something that is no file has the name, the disk has no room, or what the system says.
    pub(crate) fn begin(path: &'a Path, bytes: u64) -> Result<Self> {
        refuse_what_is_no_file(path)?;
        let (file, temporary) = match without_name(path) {
            Some(file) => (file, None),
            None => with_name(path).map(|(file, name)| (file, Some(name)))?,
        };
        let new = Self { path, file, temporary };
        let failed = |error: rustix::io::Errno| Error::io("asking for the room of", path, error.into());
        let disk = rustix::fs::fstatvfs(&new.file).map_err(failed)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        // A file system that counts no blocks is not full.
        if disk.f_blocks > 0 && bytes > free {
            let full = os_text(&io::Error::from_raw_os_error(libc::ENOSPC));
            return refused(format!(
                "writing '{}': {full}: it takes {bytes} bytes, and {free} are free",
                text::name(path)
            ));
        }
        Ok(new)
    }

    /// The file, to be filled.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The system's error; without `overwrite`, also an existing file of that name.
    pub(crate) fn finish(mut self, overwrite: bool) -> Result<()> {
        if self.temporary.is_none() {
            match link(&self.file, self.path) {
                Err(rustix::io::Errno::EXIST) if overwrite => {
                    let names = names(self.path).take(TRIES as usize);
                    let mut names = names.filter(|name| link(&self.file, name).is_ok());
                    self.temporary = names.next();
                }
                linked => return linked.map_err(|error| Error::io("creating", self.path, error.into())),
            }
        }
        let Some(temporary) = &self.temporary else { return refused("Cannot create temporary file") };
        std::fs::rename(temporary, self.path).map_err(|error| Error::io("renaming to", self.path, error))?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error that led here is the one to report; nothing can be done about the leftover.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// A new file would take the place of a device, pipe or socket: as root, that of /dev/null.
fn refuse_what_is_no_file(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !(there.is_file() || there.is_symlink() || there.is_dir()) => refused(format!(
            "creating '{}': a device, pipe or socket has this name: choose another",
            text::name(path)
        )),
        _ => Ok(()),
    }
}

/// A file without a name on the disk of `path`; `None` where there are no such files, or they cannot be named later.
fn without_name(path: &Path) -> Option<File> {
    if !Path::new("/proc/self/fd").is_dir() {
        return None;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::from_raw_mode(MODE)).ok().map(File::from)
}

fn link(file: &File, name: &Path) -> rustix::io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, own, CWD, name, AtFlags::SYMLINK_FOLLOW)
}

fn with_name(path: &Path) -> Result<(File, PathBuf)> {
    for name in names(path).take(TRIES as usize) {
        match OpenOptions::new().write(true).create_new(true).mode(MODE).open(&name) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => break,
        }
    }
    refused("Cannot create temporary file")
}

/// Unlikely names beside `path`.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut seed = clock().usec as u64 ^ (u64::from(std::process::id()) << 20);
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{:06x}", (seed >> 33) & 0xff_ffff));
        name.into()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_only_then() {
        let dir = std::env::temp_dir().join(format!("khz-rrd-new-file-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (path, names) = (dir.join("a"), || std::fs::read_dir(&dir).unwrap().count());
        // On file systems of either kind.
        for with_a_name in [false, true] {
            let begin = || {
                let mut new = NewFile::begin(&path, 5).unwrap();
                if with_a_name {
                    let (file, name) = with_name(&path).unwrap();
                    (new.file, new.temporary) = (file, Some(name));
                }
                new.file().write_all(b"whole").unwrap();
                new
            };
            drop(begin());
            assert_eq!(names(), 0);
            begin().finish(false).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"whole");
            std::fs::write(&path, "old").unwrap();
            begin().finish(true).unwrap();
            assert_eq!((std::fs::read(&path).unwrap().as_slice(), names()), (&b"whole"[..], 1));
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::write(&path, "old").unwrap();
        let new = NewFile::begin(&path, 5).unwrap();
        assert_eq!(
            new.finish(false).unwrap_err().to_string(),
            format!("creating '{}': File exists", path.display())
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_larger_than_its_disk_is_not_begun() {
        let path = std::env::temp_dir().join(format!("khz-rrd-too-large-{}", std::process::id()));
        let Err(error) = NewFile::begin(&path, 1 << 60) else { panic!("there is no such disk") };
        let told =
            format!("writing '{}': No space left on device: it takes {} bytes", path.display(), 1u64 << 60);
        assert!(error.to_string().starts_with(&told), "{error}");
        assert!(!path.exists());
    }
}
