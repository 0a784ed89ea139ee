//! The one process that keeps the snapshots of a directory. It holds a locked file with its number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// Name of that file. Node names cannot begin with a dot.
const FILE: &str = ".keeper";

/// A keeper ends within this time after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// The right to keep a directory. It ends when this is dropped.
pub struct Keeper {
    _locked: File,
    path: PathBuf,
}

impl Keeper {
    /// Takes the directory. The inner `Err` has the process that keeps it, where its number can be read.
    pub fn take(directory: &Path) -> io::Result<Result<Self, Option<Pid>>> {
        let path = directory.join(FILE);
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o640).open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(written(&path))),
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Ok(Keeper { _locked: file, path }))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The process that the file names.
fn written(path: &Path) -> Option<Pid> {
    fs::read_to_string(path).ok()?.trim().parse().ok().and_then(Pid::from_raw)
}

/// Ends the keeper of a directory and waits for that; false where there is no keeper, or one that we may not signal.
pub fn end(directory: &Path) -> bool {
    let path = directory.join(FILE);
    let is_kept = || match File::open(&path) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(_) => false,
    };
    // Only while the file is locked its number is a keeper's; afterwards another process may have that number.
    let keeper = written(&path).filter(|_| is_kept());
    let Some(keeper) = keeper.filter(|&keeper| kill_process(keeper, Signal::TERM).is_ok()) else {
        return false;
    };
    let until = Instant::now() + PATIENCE;
    while is_kept() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    tracing::debug!("process {} has ended", keeper.as_raw_nonzero());
    !is_kept()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_keeper_who_is_named() {
        let directory = std::env::temp_dir().join(format!("khz-keeper-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let first = Keeper::take(&directory).unwrap().ok();
        assert!(first.is_some());
        let other = Keeper::take(&directory).unwrap().err().unwrap();
        assert_eq!(other.map(|pid| pid.as_raw_nonzero().get() as u32), Some(std::process::id()));
        drop(first);
        assert!(!directory.join(FILE).exists());
        // The file of a killed keeper is no obstacle, and its number is not signalled.
        fs::write(directory.join(FILE), "1\n").unwrap();
        assert!(!end(&directory));
        assert!(Keeper::take(&directory).unwrap().is_ok());
        fs::remove_dir_all(&directory).unwrap();
    }
}
