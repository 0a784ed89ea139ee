//! Whether the log is where a restart will look for it, and how it begins again where it is not; knows nothing of what
//! records say.
//!
//! An open file takes records also after its name is gone, and then no start finds them. So each write is followed by a
//! look at the name, before anybody is answered. Where it leads to the segment again (a directory renamed back, a file
//! system unmounted), the log goes on. Where it leads nowhere, the log begins again ([`Log::begin_again`]), and
//! [`crate::renew`] logs all that waits once more.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::commit::{REST, Shared, Tail, lock, path};
use crate::left::Left;
use crate::log::{Log, lock_directory};
use khz_rrd::error::{Error, Result, os_text, refused};
use khz_rrd::text;

/// A log that a restart would not find.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    /// What is wrong, for messages and answers.
    pub(super) why: String,
    /// Part of it is lost for good: it is whole only when all that waits is logged once more.
    pub(super) is_lost: bool,
}

impl Shared {
    /// Whether the segment that grows has its name, and the first `length` bytes.
    ///
    /// # Errors
    /// What is wrong; it is remembered.
    pub(super) fn reach(&self, tail: &Tail, length: u64) -> std::result::Result<(), String> {
        let name = path(&self.settings.directory, self.current.load(Ordering::Acquire));
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
    pub(super) fn gone(&self) -> Option<Gone> {
        lock(&self.shared.gone).clone()
    }

    /// Looks whether every segment is where a restart will look for it.
    pub(super) fn look(&self) {
        let tail = lock(&self.shared.tail);
        if self.shared.reach(&tail, tail.length).is_err() {
            self.shared
                .refuse(Some(Instant::now() + REST), self.gone().map_or(String::new(), |gone| gone.why));
            return;
        }
        let current = self.current();
        for (number, size) in tail.sizes.iter().filter(|(number, _)| **number != current) {
            let name = path(&self.shared.settings.directory, *number);
            match std::fs::metadata(&name) {
                Ok(there) if there.len() >= *size => {}
                Ok(_) => drop(self.shared.lose(&name, "it was cut", true)),
                Err(error) => drop(self.shared.lose(&name, &os_text(&error), true)),
            }
        }
    }

    /// Begins a new segment where the log belongs: in its directory, in a new one if that is gone, or in an empty one
    /// that stands in its place. What waits is to be logged once more, then [`Log::made_whole`] is due.
    ///
    /// # Errors
    /// Something else is there, which may go away again, or what the system says.
    pub(super) fn begin_again(&self) -> Result<()> {
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
        let (there, own) =
            (directory.metadata().map_err(failed("stating"))?, locked.metadata().map_err(failed("stating"))?);
        let (_, found) = Left::find(directory)?;
        if (there.dev(), there.ino()) != (own.dev(), own.ino()) {
            if there.dev() != own.dev() {
                return refused(format!("another file system lies over '{}'", text::name(directory)));
            }
            if !found.is_empty() {
                return refused(format!("'{}' is another directory with a log in it", text::name(directory)));
            }
            *locked = lock_directory(directory)?;
        }
        let next = found.keys().next_back().copied().unwrap_or(0).max(self.current()) + 1;
        let segment = self.shared.settings.storage.create(&path(directory, next));
        tail.segment = segment.map_err(failed("creating a file in"))?;
        (tail.length, tail.sizes) = (0, found);
        tail.sizes.insert(next, 0);
        tail.rotations += 1;
        self.shared.current.store(next, Ordering::Release);
        if let Some(gone) = &mut *lock(&self.shared.gone) {
            gone.is_lost = true;
        }
        *lock(&self.shared.refusing) = None;
        Ok(())
    }

    /// All that waits is in the log again.
    pub(super) fn made_whole(&self) {
        // What those who have not asked yet had staged in vain is there as well.
        lock(&self.shared.tail).lost.clear();
        *lock(&self.shared.gone) = None;
    }
}

/// Whether `file` is called `name` and has at least `length` bytes.
///
/// # Errors
/// What the system says of the name, or that it is another file's.
pub(super) fn is_at(file: &File, name: &Path, length: u64) -> std::io::Result<()> {
    use rustix::fs::{AtFlags, CWD, StatxFlags};
    // No times: asking for them makes the next write dearer.
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
