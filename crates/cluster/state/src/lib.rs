//! A small file of a state directory, `NAME.jsonl`: the roster of a hub, its channels. One process writes it, and it is replaced
//! as a whole: at every moment it has the old text or the new one, even if the machine stops. Does not know what is in it.
//!
//! [`NamedFile`] is a file that keeps its name whatever somebody does to its directory. [`Tended`] is looked at by one thread.

#![forbid(unsafe_code)]

mod named;
mod tend;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use named::NamedFile;
use named::{DIR_MODE, FILE_MODE};
pub use tend::{Tended, note_renewed, renewed, tend};

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

/// The file. It is this process's as long as this lives. If somebody removes it or its directory meanwhile, it is written again within
/// seconds, and with the next text.
#[derive(Debug)]
pub struct StateFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    name: Box<str>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// `None`: it is this process's no longer.
    lock: Option<File>,
    /// What it has; `None`: there is no file, as far as khz knows.
    written: Option<NamedFile>,
    /// When its newest text was not written; `None`: the file has it.
    failed: Option<Instant>,
    /// It is gone and cannot be written again, and the log says so.
    is_lost: bool,
}

impl StateFile {
    /// The file `NAME.jsonl` of a directory, which is made if it does not exist. Locks `NAME.lock`.
    ///
    /// # Errors
    /// Returns why the directory cannot be used, or that another process uses it.
    pub fn open(directory: &Path, name: &str) -> Result<Self, StateError> {
        let lock = Some(locked(directory, name)?);
        let held = Mutex::new(Held { lock, ..Held::default() });
        let inner = Arc::new(Inner { directory: directory.to_owned(), name: name.into(), held });
        tend(&inner);
        Ok(StateFile(inner))
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The place of a damaged file.
    pub fn aside(&self) -> PathBuf {
        self.0.directory.join(format!("{}.jsonl.damaged", self.0.name))
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
        (&file).take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        self.0.held().written = Some(NamedFile::new(path, file));
        Ok(Some(bytes))
    }

    /// Keeps the damaged file as [`StateFile::aside`], and replaces it by what of it can be read: the next start finds that. `None`:
    /// nothing of it can, and there is no file until the next write.
    ///
    /// # Errors
    /// Returns why it cannot be kept or replaced. It is as it was then.
    pub fn put_aside(&self, rest: Option<&str>) -> Result<(), StateError> {
        let (path, aside) = (self.path(), self.aside());
        let Some(rest) = rest else {
            self.0.held().written = None;
            return std::fs::rename(&path, &aside).map_err(failed("put aside", &path));
        };
        let _ = std::fs::remove_file(&aside);
        // Some file systems have no second names.
        let kept = std::fs::hard_link(&path, &aside).or_else(|_| std::fs::copy(&path, &aside).map(drop));
        kept.map_err(failed("put aside", &path))?;
        self.write(rest)
    }

    /// Replaces the file. At every moment it has the old text or the new one, even if the machine stops.
    ///
    /// # Errors
    /// Returns why it cannot be written; it has the old text then, until the owner writes again ([`StateFile::is_due_again`]).
    pub fn write(&self, text: &str) -> Result<(), StateError> {
        let mut held = self.0.held();
        let written = self.0.replace(&mut held, text);
        held.failed = written.is_err().then(Instant::now);
        written
    }

    /// True if the newest text could not be written, and it is time to write again.
    pub fn is_due_again(&self) -> bool {
        self.0.held().failed.is_some_and(|failed| failed.elapsed() >= WRITTEN_AGAIN)
    }

    /// Sees to it that the directory is there, and still this process's.
    ///
    /// # Errors
    /// Returns why the directory cannot be used, or that another process uses it.
    pub fn keep_lock(&self) -> Result<(), StateError> {
        self.0.keep_lock(&mut self.0.held())
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        // The thread that looks for it may have it for a moment longer.
        *self.0.held() = Held::default();
    }
}

impl Tended for Inner {
    fn tend(&self) {
        let mut held = self.held();
        if held.lock.is_none() {
            return;
        }
        let Err(error) = self.renew(&mut held) else {
            held.is_lost = false;
            return;
        };
        if !std::mem::replace(&mut held.is_lost, true) {
            tracing::warn!("a file that somebody has removed cannot be written again: {error}");
        }
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.jsonl", self.name))
    }

    /// Locks the directory again, if the name of the lock leads to another one, or to none.
    fn keep_lock(&self, held: &mut Held) -> Result<(), StateError> {
        let path = lock_path(&self.directory, &self.name);
        if !held.lock.as_ref().is_some_and(|lock| named::same(lock, &path)) {
            held.lock = Some(locked(&self.directory, &self.name)?);
        }
        Ok(())
    }

    /// Writes what the file has again, if it is gone.
    fn renew(&self, held: &mut Held) -> Result<(), StateError> {
        self.keep_lock(held)?;
        let Some(written) = held.written.as_mut().filter(|written| !written.is_there()) else {
            return Ok(());
        };
        written.renew().map_err(failed("write", &self.path()))?;
        note_renewed(&self.path());
        Ok(())
    }

    fn replace(&self, held: &mut Held, text: &str) -> Result<(), StateError> {
        self.keep_lock(held)?;
        let was_gone = held.written.as_ref().is_some_and(|written| !written.is_there());
        let next = self.directory.join(format!("{}.jsonl.new", self.name));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let mut file = options.open(&next).map_err(failed("write", &next))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &next))?;
        file.sync_all().map_err(failed("write", &next))?;
        std::fs::rename(&next, self.path()).map_err(failed("replace", &self.path()))?;
        held.written = Some(NamedFile::new(self.path(), file));
        if was_gone {
            note_renewed(&self.path());
        }
        let directory = File::open(&self.directory).map_err(failed("open", &self.directory))?;
        directory.sync_all().map_err(failed("write", &self.directory))
    }
}

fn lock_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.lock"))
}

/// The lock of a file, whose directory is made if it does not exist.
fn locked(directory: &Path, name: &str) -> Result<File, StateError> {
    let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(directory);
    made.map_err(failed("make", directory))?;
    let path = lock_path(directory, name);
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
    let lock = lock.map_err(failed("write", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StateError::Shared(directory.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
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
        file.0.held().failed = Instant::now().checked_sub(WRITTEN_AGAIN);
        assert!(file.is_due_again());
        std::fs::remove_dir(place.join("deep/list.jsonl.new")).unwrap();
        file.write("two").unwrap();
        assert!(!file.is_due_again(), "it has the newest text");
        file.write("one").unwrap();
        assert_eq!(file.read(1).unwrap().unwrap(), b"on", "a byte more tells that it is too long");
        file.put_aside(None).unwrap();
        assert!(file.read(9).unwrap().is_none());
        assert_eq!(std::fs::read(file.aside()).unwrap(), b"one");
        std::fs::remove_dir_all(place).unwrap();
    }
    /// What it is about, and how it is done.
    type Removal<'a> = (&'static str, Box<dyn Fn() + 'a>);

    /// What somebody may do to the files of a running khz.
    fn removals(place: &Path) -> [Removal<'_>; 5] {
        let file = place.join("list.jsonl");
        [
            ("the directory", Box::new(move || std::fs::remove_dir_all(place).unwrap())),
            (
                "the directory's name",
                Box::new(move || {
                    let _ = std::fs::remove_dir_all(place.with_extension("moved"));
                    std::fs::rename(place, place.with_extension("moved")).unwrap();
                }),
            ),
            (
                "another directory",
                Box::new(move || {
                    // As a file system that is mounted over it.
                    let _ = std::fs::remove_dir_all(place.with_extension("moved"));
                    std::fs::rename(place, place.with_extension("moved")).unwrap();
                    std::fs::create_dir(place).unwrap();
                    std::fs::write(place.join("list.jsonl"), "of before").unwrap();
                }),
            ),
            (
                "the file",
                Box::new({
                    let file = file.clone();
                    move || std::fs::remove_file(&file).unwrap()
                }),
            ),
            (
                "another file",
                Box::new(move || {
                    std::fs::write(place.join("other"), "of somebody").unwrap();
                    std::fs::rename(place.join("other"), &file).unwrap();
                }),
            ),
        ]
    }

    #[test]
    fn a_file_that_is_gone_is_written_again_whatever_was_done_to_it_and_is_still_locked() {
        let place = std::env::temp_dir().join(format!("khz-state-gone-{}", std::process::id()));
        for at in 0..5 {
            let _ = std::fs::remove_dir_all(&place);
            let file = StateFile::open(&place, "list").unwrap();
            file.write("one").unwrap();
            let (what, remove) = &removals(&place)[at];
            // With the next text; and without one, by the thread.
            for is_written in [true, false] {
                let before = renewed().load(std::sync::atomic::Ordering::Relaxed);
                remove();
                match is_written {
                    true => file.write("two").unwrap(),
                    false => file.0.tend(),
                }
                assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "two", "{what}");
                assert!(renewed().load(std::sync::atomic::Ordering::Relaxed) > before, "{what}");
                let second = StateFile::open(&place, "list");
                assert!(matches!(second, Err(StateError::Shared(_))), "{what}");
            }
            assert_eq!(file.read(9).unwrap().unwrap(), b"two", "{what}");
        }
        assert_eq!(std::fs::read(place.join("list.jsonl.replaced")).unwrap(), b"of somebody");
        std::fs::remove_dir_all(&place).unwrap();
        let _ = std::fs::remove_dir_all(place.with_extension("moved"));
    }

    #[test]
    fn a_damaged_file_is_kept_and_what_of_it_can_be_read_is_there_at_each_later_start() {
        let place = std::env::temp_dir().join(format!("khz-state-aside-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        for damaged in ["whole\nrubbish\n", "whole\nother rubbish\n"] {
            let file = StateFile::open(&place, "list").unwrap();
            file.write(damaged).unwrap();
            file.put_aside(Some("whole\n")).unwrap();
            assert_eq!(std::fs::read_to_string(file.aside()).unwrap(), damaged);
            drop(file);
            let end = Instant::now() + Duration::from_secs(60);
            let file = loop {
                match StateFile::open(&place, "list") {
                    Ok(file) => break file,
                    Err(error) => assert!(Instant::now() < end, "{error}"),
                }
            };
            assert_eq!(file.read(100).unwrap().unwrap(), b"whole\n");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn the_thread_finds_what_is_gone_and_leaves_what_is_not_in_use_any_more() {
        let place = std::env::temp_dir().join(format!("khz-state-thread-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let open = |name| StateFile::open(&place, name).unwrap();
        let (stays, over) = (open("stays"), open("over"));
        [&stays, &over].iter().for_each(|file| file.write("text").unwrap());
        let path = over.path();
        drop(over);
        std::fs::remove_dir_all(&place).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(stays.path()).unwrap_or_default() != "text" {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!path.exists());
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_file_whose_directory_another_khz_has_made_its_own_is_not_written() {
        let place = std::env::temp_dir().join(format!("khz-state-other-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let file = StateFile::open(&place, "list").unwrap();
        file.write("one").unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        let other = StateFile::open(&place, "list").unwrap();
        assert!(matches!(file.write("two"), Err(StateError::Shared(_))));
        file.0.tend();
        assert!(!file.path().exists());
        drop(other);
        file.write("two").unwrap();
        std::fs::remove_dir_all(&place).unwrap();
    }
}
