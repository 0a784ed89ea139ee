//! Whether a restart would find the log, and how the log restarts where it would not; knows nothing of what records say.
//!
//! An open file takes records even after its name is gone, and then no start finds them. So after each write, before an
//! answer, the name is checked.
//!
//! - If it leads to the segment again (a directory renamed back, a file system unmounted), the log goes on.
//! - If it leads nowhere, the log begins a new segment ([`Log::restart`]), and the cache logs all that waits once more.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use super::commit::REST;
use super::{Left, Log, Shared, Tail, lock, lock_directory};
use khz_rrd::error::{Error, Result, os_text, refused};
use khz_rrd::text;

/// A log that a restart would not find.
#[derive(Debug, Clone)]
pub struct Gone {
    /// What is wrong, for messages and answers.
    pub why: String,
    /// Part of it is lost for good: it is whole only when all that waits is logged once more.
    pub is_lost: bool,
}

impl Shared {
    /// Whether the segment that grows has its name, and the first `length` bytes.
    ///
    /// # Errors
    /// What is wrong; it is remembered.
    pub fn check_segment(&self, tail: &Tail, length: u64) -> std::result::Result<(), String> {
        let name = self.current().path(&self.settings.directory);
        match tail.segment.is_at(&name, length) {
            Ok(()) => {
                let mut gone = lock(&self.gone);
                if gone.as_ref().is_some_and(|gone| !gone.is_lost) {
                    *gone = None;
                }
                Ok(())
            }
            Err(error) => Err(self.lose(&name, &os_text(&error), false)),
        }
    }

    fn lose(&self, name: &Path, what: &str, is_lost: bool) -> String {
        let why = format!("the log would not be found after a restart: '{}': {what}", text::name(name));
        let mut gone = lock(&self.gone);
        let is_lost = is_lost || gone.as_ref().is_some_and(|gone| gone.is_lost);
        *gone = Some(Gone { why: why.clone(), is_lost });
        why
    }
}

impl Log {
    /// Why a restart would not find all of the log, if so.
    pub fn gone(&self) -> Option<Gone> {
        lock(&self.shared.gone).clone()
    }

    /// Checks that a restart would find every segment; if not, [`Log::gone`] says why.
    pub fn check_presence(&self) {
        let tail = lock(&self.shared.tail);
        if self.shared.check_segment(&tail, tail.length).is_err() {
            self.shared
                .refuse(Some(Instant::now() + REST), self.gone().map_or(String::new(), |gone| gone.why));
            return;
        }
        let current = self.current();
        for (segment, size) in tail.sizes.iter().filter(|(segment, _)| **segment != current) {
            let name = segment.path(&self.shared.settings.directory);
            match std::fs::metadata(&name) {
                Ok(there) if there.len() >= *size => {}
                Ok(_) => drop(self.shared.lose(&name, "it was cut", true)),
                Err(error) => drop(self.shared.lose(&name, &os_text(&error), true)),
            }
        }
    }

    /// Begins a new segment where the log belongs: in its directory, in a new one if that is gone, or in an empty one
    /// in its place. The caller logs all that waits once more, and then calls [`Log::made_whole`].
    ///
    /// # Errors
    /// Something else is there, which may go away again, or what the system says.
    pub fn restart(&self) -> Result<()> {
        if let Some(why) = self.shared.stopped() {
            return refused(why);
        }
        let mut tail = lock(&self.shared.tail);
        let directory = &self.shared.settings.directory;
        let failed = |action| move |error| Error::io(action, directory, error);
        let mut locked = lock(&self.directory);
        if !directory.exists() {
            std::fs::create_dir(directory).map_err(failed("creating"))?;
        }
        let (_, found) = Left::find(directory)?;
        relock(directory, &mut locked, found.is_empty())?;
        let last = found.keys().next_back().copied();
        let next = last.map_or(self.current(), |last| last.max(self.current())).next();
        let file = self.shared.settings.storage.create(&next.path(directory));
        let file = file.map_err(failed("creating a file in"))?;
        tail.sizes = found;
        self.shared.grow(&mut tail, next, file);
        if let Some(gone) = &mut *lock(&self.shared.gone) {
            gone.is_lost = true;
        }
        *lock(&self.shared.refusal) = None;
        Ok(())
    }

    /// All that waits is in the log again.
    pub fn made_whole(&self) {
        // That includes what was given up and whose owners have not asked yet.
        lock(&self.shared.tail).lost.clear();
        *lock(&self.shared.gone) = None;
    }
}

/// Makes `locked` the directory that has the log's name now, unless it is.
///
/// # Errors
/// It is on another disk or, with a log in it (not `is_empty`), another directory, or another daemon has it.
fn relock(directory: &Path, locked: &mut File, is_empty: bool) -> Result<()> {
    let failed = |error| Error::io("stating", directory, error);
    let (there, own) = (directory.metadata().map_err(failed)?, locked.metadata().map_err(failed)?);
    if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
        return Ok(());
    }
    if there.dev() != own.dev() {
        return refused(format!("another file system is mounted over '{}'", text::name(directory)));
    }
    if !is_empty {
        return refused(format!("'{}' is another directory with a log in it", text::name(directory)));
    }
    *locked = lock_directory(directory)?;
    Ok(())
}

/// Whether `file` is called `name` and has at least `length` bytes.
///
/// # Errors
/// The system's error about the name, or that it belongs to another file.
pub fn is_at(file: &File, name: &Path, length: u64) -> std::io::Result<()> {
    use rustix::fs::{AtFlags, CWD, StatxFlags};
    // No times: after a query for them the next write is more expensive.
    let wanted = StatxFlags::INO | StatxFlags::SIZE;
    let there = rustix::fs::statx(CWD, name, AtFlags::empty(), wanted)?;
    let own = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let identity = |of: &rustix::fs::Statx| (of.stx_dev_major, of.stx_dev_minor, of.stx_ino);
    if identity(&there) != identity(&own) {
        return Err(std::io::Error::other("another file has its name"));
    }
    if there.stx_size < length {
        return Err(std::io::Error::other("it was cut"));
    }
    Ok(())
}
