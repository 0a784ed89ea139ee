//! One file that grows by whole chunks: buffered, written at least once a second. When the disk is full, the file is cut back to its
//! last whole chunk. Bytes without room wait, up to a limit.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use khz_block::trace::{self, Sealed};

use crate::{RecordError, packing};

/// Bytes of one write.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes that wait while the disk is full. Beyond this, blocks are dropped, but lanes and schemas are not, since later
/// blocks need them.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// A chunk as it is written: a piece of a schema is packed where that makes it smaller.
fn packed(chunk: &Sealed<'_>) -> Option<(u32, u32, u64, Vec<u8>)> {
    let &Sealed::Schema { lane, generation, offset, bytes } = chunk else { return None };
    Some((lane, generation, offset, packing::pack(bytes)?))
}

/// A trace that is being written.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    file: File,
    /// Bytes in the file, all of them whole chunks.
    written: u64,
    buffer: Vec<u8>,
    /// Where chunks end in the buffer.
    ends: Vec<usize>,
    /// The last write failed: the next flush tries again, not each chunk.
    has_failed: bool,
    /// It has a name, which somebody could take away. A pipe has none.
    has_name: bool,
}

/// True while another recorder writes this file.
pub fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

impl TraceFile {
    /// Begins a file. An existing file is replaced, unless another recorder writes it.
    pub fn create(path: &Path, note: &str) -> Result<Self, RecordError> {
        let failed = |source| RecordError::File { what: "create", path: path.to_owned(), source };
        // It is emptied only when nobody else writes it.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        // A file that cannot be locked, such as on some network file systems, is written without a lock.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(RecordError::Busy { path: path.to_owned() });
        }
        let about = file.metadata().map_err(failed)?;
        if about.is_file() {
            file.set_len(0).map_err(failed)?;
        }
        let has_name = about.is_file() && about.nlink() > 0;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        trace::begin_sealed(note, &mut buffer);
        let ends = vec![buffer.len()];
        let (path, has_failed) = (path.to_owned(), false);
        let mut file = TraceFile { path, file, written: 0, buffer, ends, has_failed, has_name };
        match file.flush() {
            Ok(()) => Ok(file),
            Err(error) => {
                if has_name {
                    // An empty file says nothing to anybody.
                    let _ = std::fs::remove_file(&file.path);
                }
                Err(error)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far, including those in the buffer.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn put(&mut self, chunk: &Sealed<'_>) -> Result<(), RecordError> {
        match packed(chunk) {
            Some((lane, generation, offset, packed)) => {
                Sealed::PackedSchema { lane, generation, offset, packed: &packed }.put(&mut self.buffer);
            }
            None => chunk.put(&mut self.buffer),
        }
        self.ends.push(self.buffer.len());
        if self.buffer.len() >= BUFFER_BYTES && !self.has_failed { self.flush() } else { Ok(()) }
    }

    /// False while the disk is full and as much waits as may.
    pub fn has_room(&self) -> bool {
        self.buffer.len() < WAITING_BYTES_MAX
    }

    /// Writes the buffer to the file, where others can read it. After an error it is still in the buffer.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        self.still_has_bytes()?;
        let mut done = 0;
        while done < self.buffer.len() {
            match self.file.write(&self.buffer[done..]) {
                Ok(0) => return Err(self.cut_back(done, io::ErrorKind::WriteZero.into())),
                Ok(length) => done += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cut_back(done, error)),
            }
        }
        self.written += done as u64;
        self.buffer.clear();
        self.ends.clear();
        self.has_failed = false;
        self.still_has_name()
    }

    /// If somebody has cut the file shorter, a write leaves a hole where the lost bytes were.
    fn still_has_bytes(&self) -> Result<(), RecordError> {
        let is_short = self.has_name && self.file.metadata().is_ok_and(|about| about.len() < self.written);
        if is_short { Err(RecordError::Removed { path: self.path.clone() }) } else { Ok(()) }
    }

    /// Rows that are written into a file without a name are lost when it is closed.
    fn still_has_name(&self) -> Result<(), RecordError> {
        let is_gone = self.has_name && self.file.metadata().is_ok_and(|about| about.nlink() == 0);
        if is_gone { Err(RecordError::Removed { path: self.path.clone() }) } else { Ok(()) }
    }

    /// The file keeps the whole chunks that were written; the other chunks go back into the buffer.
    fn cut_back(&mut self, done: usize, source: io::Error) -> RecordError {
        let chunks = self.ends.partition_point(|&end| end <= done);
        let whole = chunks.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.written += whole as u64;
        self.buffer.drain(..whole);
        self.ends.drain(..chunks);
        self.ends.iter_mut().for_each(|end| *end -= whole);
        self.has_failed = true;
        // If that fails, as with a pipe, readers find a chunk that is cut off, and stop there.
        let _ = self.file.set_len(self.written).and_then(|()| self.file.seek(SeekFrom::Start(self.written)));
        RecordError::Full { path: self.path.clone(), kept: self.written, source }
    }

    /// Removes the file; a pipe has none.
    pub fn discard(self) {
        if self.has_name {
            // If that fails, a short recording stays, which can be read.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Writes the buffer, and waits until it is on the disk. After [`RecordError::Full`], call it again later; after another
    /// error, the content of the file is unknown.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.flush()?;
        match self.file.sync_all() {
            Ok(()) => Ok(()),
            // A pipe has nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            Err(source) => Err(RecordError::File { what: "sync", path: self.path.clone(), source }),
        }
    }

    /// Ends the file: everything is on the disk.
    pub fn close(mut self) -> Result<u64, RecordError> {
        self.sync().map(|()| self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("khz-trace-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_file_that_is_being_written_is_not_written_by_another_recorder() {
        let path = path("busy");
        let first = TraceFile::create(&path, "{}").unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(is_being_written(&path) && length > 0);
        let second = TraceFile::create(&path, "{}").unwrap_err();
        assert!(matches!(second, RecordError::Busy { .. }), "{second}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "it is as it was");
        drop(first);
        assert!(!is_being_written(&path));
        TraceFile::create(&path, "{}").unwrap().close().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!is_being_written(&path), "there is none");
    }

    #[test]
    fn a_file_that_somebody_has_cut_shorter_is_noticed_and_gets_no_hole() {
        let path = path("short");
        let mut file = TraceFile::create(&path, "{}").unwrap();
        let begun = std::fs::metadata(&path).unwrap().len();
        for left in [begun - 1, 0] {
            File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
            file.put(&Sealed::Note("{}")).unwrap();
            assert!(matches!(file.flush(), Err(RecordError::Removed { .. })), "{left}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), left);
        }
        assert!(matches!(file.close(), Err(RecordError::Removed { .. })));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_somebody_has_removed_or_replaced_is_noticed() {
        let path = path("gone");
        let mut file = TraceFile::create(&path, "{}").unwrap();
        file.flush().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(file.flush(), Err(RecordError::Removed { .. })));
        let file = TraceFile::create(&path, "{}").unwrap();
        let other = path.with_extension("other");
        std::fs::write(&other, "x").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(matches!(file.close(), Err(RecordError::Removed { .. })));
        std::fs::remove_file(&path).unwrap();
    }
}
