//! The lock of a store: one process writes. The system gives it back when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::disk::{failed, is_in_place};

/// The file with the lock, and the number of the process that holds it.
const LOCK_FILE: &str = "lock";
/// A process number has at most ten digits.
const PROCESS_BYTES: u64 = 16;

/// The sole right to write to a store.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        // Not emptied: the process that holds the lock has written its number.
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => {
                let number = format!("{}\n", std::process::id());
                let written = file.set_len(0).and_then(|()| file.write_all(number.as_bytes()));
                written.map_err(failed("write", &path))?;
                Ok(Lock { file, path })
            }
            Err(TryLockError::WouldBlock) => {
                let mut number = String::new();
                // The process that holds the lock may not have written it yet.
                let _ = (&mut file).take(PROCESS_BYTES).read_to_string(&mut number);
                let process = number.trim_end().parse().ok();
                Err(StoreError::InUse { path: folder.to_owned(), process: Process(process) })
            }
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    /// False if somebody has removed or replaced the file: another process can then lock the new one.
    pub fn is_in_place(&self) -> bool {
        is_in_place(&self.file, &self.path)
    }
}

/// A process, if its number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub Option<u32>);

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => write!(f, "process {number}"),
            None => f.write_str("another process"),
        }
    }
}
