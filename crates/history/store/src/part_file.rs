//! A column file on its way to the disk: written under a name of its own (`.part`), synced, and renamed. It knows no contents.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use khz_model::Nanos;

use crate::StoreError;
use crate::disk::{Disk, failed, part_of};
use crate::room::{Out, RoomFile};
use crate::writer::{Writer, Written};

/// A column file that is being written under a name of its own (`.part`).
pub(crate) struct PartFile<'a> {
    disk: &'a Disk,
    path: PathBuf,
    part: PathBuf,
    writer: Writer<Out>,
}

impl<'a> PartFile<'a> {
    pub fn create(disk: &'a Disk, path: &Path, resolution: Nanos) -> Result<Self, StoreError> {
        let part = part_of(path);
        let file = disk.create(&part)?;
        let out = BufWriter::new(RoomFile::new(file, disk.room()));
        let writer = Writer::new(out, resolution).map_err(failed("write", &part))?;
        Ok(PartFile { disk, path: path.to_owned(), part, writer })
    }

    /// Writes to it. After an error it can only be removed.
    pub fn write<T>(
        &mut self,
        fill: impl FnOnce(&mut Writer<Out>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        fill(&mut self.writer).map_err(|error| match error {
            StoreError::Write(source) => failed("write", &self.part)(source),
            error => error,
        })
    }

    /// Writes the rest, and waits until the file is on the disk. After an error it is gone.
    pub fn complete(self) -> Result<WholeFile<'a>, StoreError> {
        let PartFile { disk, path, part, writer } = self;
        match finish_writing(disk, &part, writer) {
            Ok(written) => Ok(WholeFile { disk, path, part, written, is_named: false }),
            Err(error) => {
                remove(disk, &part);
                Err(error)
            }
        }
    }

    /// The same, and gives the file its name.
    pub fn finish(self) -> Result<Written, StoreError> {
        self.complete()?.name(|| Ok(()))
    }

    /// Gives up.
    pub fn remove(self) {
        remove(self.disk, &self.part);
    }
}

/// A column file whose bytes are on the disk. Dropped before it has its name, it is gone.
pub(crate) struct WholeFile<'a> {
    disk: &'a Disk,
    path: PathBuf,
    part: PathBuf,
    written: Written,
    is_named: bool,
}

impl WholeFile<'_> {
    /// Calls `before`, and gives the file its name.
    pub fn name(mut self, before: impl FnOnce() -> Result<(), StoreError>) -> Result<Written, StoreError> {
        before()?;
        self.disk.rename(&self.part, &self.path)?;
        self.is_named = true;
        Ok(self.written)
    }
}

impl Drop for WholeFile<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            remove(self.disk, &self.part);
        }
    }
}

fn finish_writing(disk: &Disk, part: &Path, writer: Writer<Out>) -> Result<Written, StoreError> {
    let (file, written) = writer.finish().map_err(failed("write", part))?;
    let file = file.into_inner().map_err(|error| failed("write", part)(error.into_error()))?;
    disk.sync(part, &file.into_file())?;
    Ok(written)
}

fn remove(disk: &Disk, part: &Path) {
    // If that fails too, a file is left whose name says that it is not whole.
    let _ = disk.remove(part);
}

/// Writes a file, and gives it its name when it is whole and on the disk.
pub(crate) fn write_file(
    disk: &Disk,
    path: &Path,
    resolution: Nanos,
    fill: impl FnOnce(&mut Writer<Out>) -> Result<(), StoreError>,
) -> Result<Written, StoreError> {
    let mut file = PartFile::create(disk, path, resolution)?;
    match file.write(fill) {
        Ok(()) => file.finish(),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}
