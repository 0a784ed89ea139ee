//! The file operations of the store, one at a time, so that a test can stop between any two. The result of each is on the disk when
//! it returns.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::StoreError;
use crate::room::Room;

/// Others than the owner and the group have no business in a store.
const FOLDER_MODE: u32 = 0o750;

/// False if somebody has removed an open file, or put another one into its place.
pub(crate) fn is_in_place(file: &File, path: &Path) -> bool {
    let (open, named) = (file.metadata(), fs::symlink_metadata(path));
    matches!((open, named), (Ok(open), Ok(named)) if (open.dev(), open.ino()) == (named.dev(), named.ino()))
}

/// Called before each operation with what will be done, and to which file. An error stops the operation.
type Watch = dyn Fn(&'static str, &Path) -> io::Result<()> + Send + Sync;

/// Does operations on files.
#[derive(Clone, Default)]
pub struct Disk {
    watch: Option<Arc<Watch>>,
    room: Arc<Room>,
    removed: Arc<Mutex<HashSet<PathBuf>>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("is_watched", &self.watch.is_some()).finish()
    }
}

impl Disk {
    /// A disk on which `watch` sees every operation before it is done. For tests.
    pub fn watched(watch: impl Fn(&'static str, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Disk { watch: Some(Arc::new(watch)), ..Disk::default() }
    }

    /// The room that column files which are written now have together: all of it, unless a step of compaction says less.
    pub(crate) fn room(&self) -> Arc<Room> {
        self.room.clone()
    }

    /// The files that it has removed, or that have another name or other bytes now, since this was called last.
    pub(crate) fn take_removed(&self) -> HashSet<PathBuf> {
        std::mem::take(&mut *self.removed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_removed(&self, path: &Path) {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Does one operation.
    fn run<T>(
        &self,
        what: &'static str,
        path: &Path,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let watched = self.watch.as_ref().map_or(Ok(()), |watch| watch(what, path));
        watched.and_then(|()| operation()).map_err(failed(what, path))
    }

    /// Makes an empty file, or empties the one that is there.
    pub(crate) fn create(&self, path: &Path) -> Result<File, StoreError> {
        self.run("create", path, || File::create(path))
    }

    /// Waits until the bytes of a file are on the disk.
    pub(crate) fn sync(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        self.run("sync", path, || file.sync_all())
    }

    /// Gives a file another name in the same folder. A file that had the name is gone.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.run("rename", from, || {
            fs::rename(from, to)?;
            self.is_removed(from);
            self.is_removed(to);
            Ok(())
        })?;
        self.sync_folder(to)
    }

    /// Gives a file a second name in the same folder, unless that name is taken.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.run("link", from, || match fs::hard_link(from, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        })?;
        self.sync_folder(to)
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.run("remove", path, || match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.is_removed(path);
                Ok(())
            }
        })?;
        self.sync_folder(path)
    }

    /// Makes a folder and those above it, if they are not there.
    pub(crate) fn create_folder(&self, folder: &Path) -> Result<(), StoreError> {
        if folder.is_dir() {
            return Ok(());
        }
        let builder = || DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        self.run("create", folder, builder)?;
        self.sync_folder(folder)
    }

    /// Waits until the names in a file's folder are on the disk.
    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.run("sync", folder, || File::open(folder)?.sync_all())
    }
}

/// The name under which a file is written before it is whole.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

/// The error of an operation on a file.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::File { what, path: path.to_owned(), source }
}
