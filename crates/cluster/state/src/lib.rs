//! A small file of a state directory, `NAME.jsonl`: the roster of a hub, its channels. One process writes it, and it is replaced
//! as a whole: at every moment it has the old text or the new one, even if the machine stops. Does not know what is in it.

#![forbid(unsafe_code)]

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// A text that could not be written is to be written again after this time: somebody may have made room.
const WRITTEN_AGAIN: Duration = Duration::from_secs(2);

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or directory cannot be used.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process writes the file in this directory.
    #[error("another khz of this machine uses {}; give this one another --state-dir", .0.display())]
    Shared(PathBuf),
}

/// The file. It is this process's as long as this lives.
#[derive(Debug)]
pub struct StateFile {
    directory: PathBuf,
    name: Box<str>,
    /// When its newest text was not written; `None`: the file has it.
    failed: Mutex<Option<Instant>>,
    _lock: File,
}

impl StateFile {
    /// The file `NAME.jsonl` of a directory, which is made if it does not exist. Locks `NAME.lock`.
    ///
    /// # Errors
    /// Returns why the directory cannot be used, or that another process uses it.
    pub fn open(directory: &Path, name: &str) -> Result<Self, StateError> {
        let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(directory);
        made.map_err(failed("make", directory))?;
        let path = directory.join(format!("{name}.lock"));
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
        let lock = lock.map_err(failed("write", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(StateFile {
                directory: directory.to_owned(),
                name: name.into(),
                failed: Mutex::default(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StateError::Shared(directory.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.jsonl", self.name))
    }

    /// The place of a damaged file.
    pub fn aside(&self) -> PathBuf {
        self.directory.join(format!("{}.jsonl.damaged", self.name))
    }

    /// The file's bytes, one more than `max` at most; `None`: there is no file yet.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    pub fn read(&self, max: u64) -> Result<Option<Vec<u8>>, StateError> {
        let path = self.path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        Ok(Some(bytes))
    }

    /// Moves the file out of the way, to [`StateFile::aside`].
    ///
    /// # Errors
    /// Returns why it cannot be moved.
    pub fn put_aside(&self) -> Result<(), StateError> {
        std::fs::rename(self.path(), self.aside()).map_err(failed("put aside", &self.path()))
    }

    /// Replaces the file. At every moment it has the old text or the new one, even if the machine stops.
    ///
    /// # Errors
    /// Returns why it cannot be written; it has the old text then, until the owner writes again ([`StateFile::is_due_again`]).
    pub fn write(&self, text: &str) -> Result<(), StateError> {
        let written = self.replace(text);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = written.is_err().then(Instant::now);
        written
    }

    /// True if the newest text could not be written, and it is time to write again.
    pub fn is_due_again(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| failed.elapsed() >= WRITTEN_AGAIN)
    }

    fn replace(&self, text: &str) -> Result<(), StateError> {
        let next = self.directory.join(format!("{}.jsonl.new", self.name));
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&next);
        let mut file = options.map_err(failed("write", &next))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &next))?;
        file.sync_all().map_err(failed("write", &next))?;
        std::fs::rename(&next, self.path()).map_err(failed("replace", &self.path()))?;
        let directory = File::open(&self.directory).map_err(failed("open", &self.directory))?;
        directory.sync_all().map_err(failed("write", &self.directory))
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::File { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_process_s_and_has_the_old_text_or_the_new_one() {
        let place = std::env::temp_dir().join(format!("khz-state-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let file = StateFile::open(&place.join("deep"), "list").unwrap();
        assert!(file.read(9).unwrap().is_none(), "there is none yet, and that is no error");
        assert!(matches!(StateFile::open(&place.join("deep"), "list"), Err(StateError::Shared(_))));
        assert!(StateFile::open(&place.join("deep"), "other").is_ok(), "each file has its own lock");
        file.write("one").unwrap();
        // A directory in the way: also root cannot write there.
        std::fs::create_dir(place.join("deep/list.jsonl.new")).unwrap();
        let failure = file.write("two").unwrap_err().to_string();
        assert!(failure.starts_with("cannot write ") && failure.contains("list.jsonl.new"), "{failure}");
        assert_eq!(file.read(9).unwrap().unwrap(), b"one");
        assert!(!file.is_due_again(), "not at once");
        *file.failed.lock().unwrap() = Instant::now().checked_sub(WRITTEN_AGAIN);
        assert!(file.is_due_again());
        std::fs::remove_dir(place.join("deep/list.jsonl.new")).unwrap();
        file.write("two").unwrap();
        assert!(!file.is_due_again(), "it has the newest text");
        file.write("one").unwrap();
        assert_eq!(file.read(1).unwrap().unwrap(), b"on", "a byte more tells that it is too long");
        file.put_aside().unwrap();
        assert!(file.read(9).unwrap().is_none());
        assert_eq!(std::fs::read(file.aside()).unwrap(), b"one");
        std::fs::remove_dir_all(place).unwrap();
    }
}
