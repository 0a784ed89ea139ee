//! How staged records get to the disk: whoever commits first writes what all have staged, and a thread syncs within the
//! window; knows nothing of what records say.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::log::{PREFIX, Settings, Ticket};
use crate::reach::Gone;
use crate::record::{self, Entry};
use crate::storage::Appended;
use khz_rrd::error::{Error, Result, os_text, refused};
use khz_rrd::text;

/// Bytes after which a new segment begins: small enough that space comes back, large enough that a busy
/// daemon opens few.
const SEGMENT_MAX: u64 = 64 << 20;
/// Segments a full log has at least: only whole ones can go.
const SEGMENTS_MIN: u64 = 8;
/// How long nothing is taken after a write failed; then it is tried again.
pub(super) const REST: Duration = Duration::from_secs(1);
/// Failed commits remembered for those who have not asked yet.
const FAILURES_MAX: usize = 256;

/// Records staged and not yet written.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) bytes: Vec<u8>,
    /// Bytes ever staged.
    pub(super) staged: u64,
}

/// The segment that grows.
pub(super) struct Tail {
    pub(super) segment: Arc<dyn Appended>,
    pub(super) length: u64,
    /// Of the bytes ever staged, how many were written or given up.
    pub(super) written: u64,
    /// Ranges of bytes given up.
    pub(super) lost: VecDeque<(u64, u64, String)>,
    pub(super) spare: Vec<u8>,
    pub(super) sizes: BTreeMap<u32, u64>,
    pub(super) appended: u64,
    pub(super) rotations: u64,
}

impl Tail {
    /// Remembers that what was staged up to `upto` and not yet written never will be.
    fn give_up(&mut self, upto: u64, why: String) {
        match self.lost.back_mut() {
            Some((_, end, before)) if *end == self.written && *before == why => *end = upto,
            _ => self.lost.push_back((self.written, upto, why)),
        }
        if self.lost.len() > FAILURES_MAX {
            self.lost.pop_front();
        }
    }
}

pub(super) struct Synced {
    pub(super) upto: u64,
    /// When the oldest unsynced byte was written.
    pub(super) dirty: Option<Instant>,
    pub(super) stopping: bool,
}

pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) outbox: Mutex<Outbox>,
    pub(super) tail: Mutex<Tail>,
    pub(super) synced: Mutex<Synced>,
    /// Taken while syncing: those who wait for it share the next sync.
    pub(super) syncing: Mutex<()>,
    pub(super) changed: Condvar,
    pub(super) current: AtomicU32,
    /// Until when nothing is taken, and why; no end where a sync failed.
    pub(super) refusing: Mutex<Option<(Option<Instant>, String)>>,
    /// Why no segment goes any more, whatever is in files.
    pub(super) kept: Mutex<Option<String>>,
    /// Why a restart would not find all of it, if so.
    pub(super) gone: Mutex<Option<Gone>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that died holding one left whole values: every change is made of assignments that stand alone.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{PREFIX}{number:016}"))
}

impl Shared {
    pub(super) fn write_up_to(&self, ticket: Ticket) -> Result<()> {
        let mut tail = lock(&self.tail);
        if tail.written < ticket.0 {
            self.write(&mut tail);
        }
        let lost = tail.lost.iter().find(|(from, upto, _)| ticket.0 > *from && ticket.0 <= *upto);
        match lost {
            Some((_, _, why)) => refused(why.clone()),
            None => Ok(()),
        }
    }

    /// Writes what is staged; what cannot be written is given up, and those who staged it are told.
    pub(super) fn write(&self, tail: &mut Tail) {
        if tail.length >= SEGMENT_MAX.min(self.settings.bytes_max / SEGMENTS_MIN)
            && let Err(error) = self.rotate(tail)
        {
            self.refuse(Some(Instant::now() + REST), error.to_string());
        }
        let (mut bytes, staged) = self.staged(tail);
        let outcome = match self.stopped() {
            Some(why) => Err(why),
            None => self.append(tail, &bytes),
        };
        if let Err(why) = outcome {
            tail.give_up(staged, why);
        }
        tail.written = staged;
        bytes.clear();
        tail.spare = bytes;
    }

    /// What is staged, and how much ever was. A segment begins with the boot it is written in.
    fn staged(&self, tail: &mut Tail) -> (Vec<u8>, u64) {
        let mut bytes = std::mem::take(&mut tail.spare);
        if tail.length == 0 {
            // BUG if it fails: a boot's name is short.
            let _ = record::encode(&Entry::Boot { id: &self.settings.boot }, &mut bytes);
        }
        let mut outbox = lock(&self.outbox);
        match bytes.is_empty() {
            true => std::mem::swap(&mut outbox.bytes, &mut bytes),
            false => {
                bytes.extend_from_slice(&outbox.bytes);
                outbox.bytes.clear();
            }
        }
        (bytes, outbox.staged)
    }

    fn append(&self, tail: &mut Tail, bytes: &[u8]) -> std::result::Result<(), String> {
        let appended = tail.segment.append(bytes).map_err(|error| {
            let directory = text::name(&self.settings.directory);
            format!("the log in '{directory}' cannot be written: {}", os_text(&error))
        });
        if let Err(why) = appended.and_then(|()| self.reach(tail, tail.length + bytes.len() as u64)) {
            // Part of a record may be there; what follows it would be found only by searching.
            let until = tail.segment.cut(tail.length).is_ok().then(|| Instant::now() + REST);
            self.refuse(until, why.clone());
            return Err(why);
        }
        let mut refusing = lock(&self.refusing);
        if refusing.as_ref().is_some_and(|(until, _)| until.is_some()) {
            *refusing = None;
        }
        drop(refusing);
        tail.length += bytes.len() as u64;
        tail.appended += bytes.len() as u64;
        let (current, length) = (self.current.load(Ordering::Acquire), tail.length);
        tail.sizes.insert(current, length);
        let mut synced = lock(&self.synced);
        if synced.dirty.is_none() {
            synced.dirty = Some(Instant::now());
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Takes nothing until then, or ever; what has no end is not forgotten for what has.
    pub(super) fn refuse(&self, until: Option<Instant>, why: String) {
        let mut refusing = lock(&self.refusing);
        if refusing.as_ref().is_none_or(|(until, _)| until.is_some()) {
            *refusing = Some((until, why));
        }
    }

    /// Why nothing is written any more until a restart.
    pub(super) fn stopped(&self) -> Option<String> {
        lock(&self.refusing).as_ref().filter(|(until, _)| until.is_none()).map(|(_, why)| why.clone())
    }

    pub(super) fn rotate(&self, tail: &mut Tail) -> Result<()> {
        let failed = |error| Error::io("beginning a segment in", &self.settings.directory, error);
        self.sync(&*tail.segment)?;
        let next = self.current.load(Ordering::Acquire) + 1;
        tail.segment = self.settings.storage.create(&path(&self.settings.directory, next)).map_err(failed)?;
        tail.length = 0;
        tail.rotations += 1;
        tail.sizes.insert(next, 0);
        self.current.store(next, Ordering::Release);
        Ok(())
    }

    pub(super) fn sync(&self, segment: &dyn Appended) -> Result<()> {
        if let Some(why) = self.stopped() {
            return refused(why);
        }
        segment.sync().map_err(|error| {
            let why = format!(
                "the log in '{}' could not be synced: {}",
                text::name(&self.settings.directory),
                os_text(&error)
            );
            // After a failed sync the kernel may have dropped the pages: trying again would lie.
            self.refuse(None, why.clone());
            Error::Refused(why)
        })
    }

    pub(super) fn sync_up_to(&self, ticket: Ticket) -> Result<()> {
        let alone = lock(&self.syncing);
        if lock(&self.synced).upto >= ticket.0 {
            return Ok(());
        }
        let (segment, written) = {
            let tail = lock(&self.tail);
            lock(&self.synced).dirty = None;
            (tail.segment.clone(), tail.written)
        };
        let outcome = self.sync(&*segment);
        drop(alone);
        outcome?;
        lock(&self.synced).upto = written;
        Ok(())
    }

    /// Syncs when the oldest unsynced record has waited for the window.
    pub(super) fn sync_loop(&self) {
        let mut synced = lock(&self.synced);
        while !synced.stopping {
            let Some(dirty) = synced.dirty else {
                synced = self.changed.wait(synced).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let rest = self.settings.window.saturating_sub(dirty.elapsed());
            if !rest.is_zero() {
                synced = self.changed.wait_timeout(synced, rest).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(synced);
            // Told by what is refused from then on.
            let _ = self.sync_up_to(Ticket(u64::MAX));
            synced = lock(&self.synced);
        }
    }
}
