//! One file that grows by whole chunks: buffered, written at least once a second, and cut back to its last whole chunk when
//! the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use khz_block::trace::{self, Sealed};

use crate::{RecordError, packing};

/// Bytes of one write.
const BUFFER_BYTES: usize = 1 << 20;

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
}

impl TraceFile {
    /// Begins a file. A file that is there already is replaced.
    pub fn create(path: &Path, note: &str) -> Result<Self, RecordError> {
        let file = File::create(path).map_err(|source| RecordError::File {
            what: "create",
            path: path.to_owned(),
            source,
        })?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        trace::begin_sealed(note, &mut buffer);
        let ends = vec![buffer.len()];
        let mut file = TraceFile { path: path.to_owned(), file, written: 0, buffer, ends };
        file.flush()?;
        Ok(file)
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
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer to the file, where others can read it.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        let mut done = 0;
        while done < self.buffer.len() {
            match self.file.write(&self.buffer[done..]) {
                Ok(0) => return Err(self.give_up(done, io::ErrorKind::WriteZero.into())),
                Ok(length) => done += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.give_up(done, error)),
            }
        }
        self.written += done as u64;
        self.buffer.clear();
        self.ends.clear();
        Ok(())
    }

    /// Keeps the chunks that are whole in the file.
    fn give_up(&mut self, done: usize, source: io::Error) -> RecordError {
        let whole = self.ends.iter().rev().find(|&&end| end <= done).copied().unwrap_or(0);
        self.written += whole as u64;
        self.buffer.clear();
        self.ends.clear();
        // If that fails too, readers find a chunk that is cut off, and stop there.
        let _ = self.file.set_len(self.written);
        RecordError::Full { path: self.path.clone(), kept: self.written, source }
    }

    /// Ends the file: everything is on the disk.
    pub fn close(mut self) -> Result<u64, RecordError> {
        self.flush()?;
        match self.file.sync_all() {
            Ok(()) => Ok(self.written),
            // A pipe has nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(self.written),
            Err(source) => Err(RecordError::Full { path: self.path, kept: self.written, source }),
        }
    }
}
