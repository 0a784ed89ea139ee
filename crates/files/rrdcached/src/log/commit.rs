//! Brings staged records to the disk: the first thread that commits writes the records of all, and another thread syncs within the
//! window. It does not know the content of records.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use khz_rrd::error::{Error, Result, os_text, refused};
use khz_rrd::text;

use super::{Appended, Lost, Record, Refusal, Segment, Shared, Tail, Ticket, lock, record};

/// Bytes after which a new segment begins: small enough that space comes back, large enough that a busy
/// daemon opens few.
const SEGMENT_MAX: u64 = 64 << 20;
/// Segments a full log has at least: only whole ones can go.
const SEGMENTS_MIN: u64 = 8;
/// How long nothing is taken after a write failed; then it is tried again.
pub const REST: Duration = Duration::from_secs(1);
/// Failed commits remembered for those who have not asked yet.
const FAILURES_MAX: usize = 256;

impl Tail {
    /// Remembers that what was staged up to `upto` and not yet written never will be.
    fn give_up(&mut self, upto: u64, why: String) {
        match self.lost.back_mut() {
            Some(last) if last.upto == self.written && last.why == why => last.upto = upto,
            _ => self.lost.push_back(Lost { from: self.written, upto, why }),
        }
        if self.lost.len() > FAILURES_MAX {
            self.lost.pop_front();
        }
    }
}

impl Shared {
    /// The segment that grows.
    pub fn current(&self) -> Segment {
        Segment::new(self.current.load(Ordering::Acquire)).unwrap_or(Segment::FIRST)
    }

    /// The segment `next`, of length 0, grows from now on.
    pub fn grow(&self, tail: &mut Tail, next: Segment, file: std::sync::Arc<dyn Appended>) {
        tail.segment = file;
        tail.length = 0;
        tail.rotations += 1;
        tail.sizes.insert(next, 0);
        self.current.store(next.number(), Ordering::Release);
    }

    /// Returns when everything up to `ticket` is written.
    ///
    /// # Errors
    /// Why it was given up.
    pub fn write_up_to(&self, ticket: Ticket) -> Result<()> {
        let mut tail = lock(&self.tail);
        if tail.written < ticket.0 {
            self.write(&mut tail);
        }
        match tail.lost.iter().find(|lost| ticket.0 > lost.from && ticket.0 <= lost.upto) {
            Some(lost) => refused(lost.why.clone()),
            None => Ok(()),
        }
    }

    /// Writes the staged records. Records that cannot be written are given up, and [`Shared::write_up_to`] reports this to those
    /// who staged them.
    fn write(&self, tail: &mut Tail) {
        if tail.length >= SEGMENT_MAX.min(self.settings.bytes_max / SEGMENTS_MIN) {
            // The open segment grows on; [`Log::trouble`] says why.
            let _ = self.rotate(tail);
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

    /// The staged bytes, and the number of bytes ever staged. A segment begins with the boot it is written in.
    fn staged(&self, tail: &mut Tail) -> (Vec<u8>, u64) {
        let mut bytes = std::mem::take(&mut tail.spare);
        if tail.length == 0 {
            // BUG if it fails: a boot's name is short.
            let _ = record::encode(&Record::Boot { id: &self.settings.boot }, &mut bytes);
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
        if let Err(why) = appended.and_then(|()| self.check_segment(tail, tail.length + bytes.len() as u64)) {
            // Part of a record may be there; records after it would be found only by searching.
            let until = tail.segment.cut(tail.length).is_ok().then(|| Instant::now() + REST);
            self.refuse(until, why.clone());
            return Err(why);
        }
        lock(&self.refusal).take_if(|refusal| refusal.until.is_some());
        tail.length += bytes.len() as u64;
        tail.appended += bytes.len() as u64;
        tail.sizes.insert(self.current(), tail.length);
        let mut synced = lock(&self.synced);
        if synced.unsynced_since.is_none() {
            synced.unsynced_since = Some(Instant::now());
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Takes nothing until then, or until a restart. A refusal without end stays.
    pub fn refuse(&self, until: Option<Instant>, why: String) {
        let mut refusal = lock(&self.refusal);
        if refusal.as_ref().is_none_or(|refusal| refusal.until.is_some()) {
            *refusal = Some(Refusal { until, why });
        }
    }

    /// Why nothing is written any more until a restart.
    pub fn stopped(&self) -> Option<String> {
        lock(&self.refusal)
            .as_ref()
            .filter(|refusal| refusal.until.is_none())
            .map(|refusal| refusal.why.clone())
    }

    /// Syncs the segment that grows and begins the next.
    ///
    /// # Errors
    /// What the system says.
    pub fn rotate(&self, tail: &mut Tail) -> Result<()> {
        let failed = |error| Error::io("beginning a segment in", &self.settings.directory, error);
        self.sync(&*tail.segment)?;
        let next = self.current().next();
        let created = self.settings.storage.create(&next.path(&self.settings.directory)).map_err(failed);
        *lock(&self.stuck) = created.as_ref().err().map(ToString::to_string);
        self.grow(tail, next, created?);
        Ok(())
    }

    fn sync(&self, segment: &dyn Appended) -> Result<()> {
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

    /// Returns when everything written up to `ticket` is synced.
    ///
    /// # Errors
    /// The disk failed.
    pub fn sync_up_to(&self, ticket: Ticket) -> Result<()> {
        let alone = lock(&self.syncing);
        if lock(&self.synced).upto >= ticket.0 {
            return Ok(());
        }
        let (segment, written) = {
            let tail = lock(&self.tail);
            lock(&self.synced).unsynced_since = None;
            (tail.segment.clone(), tail.written)
        };
        let outcome = self.sync(&*segment);
        drop(alone);
        outcome?;
        lock(&self.synced).upto = written;
        Ok(())
    }

    /// Syncs when the oldest unsynced record has waited for the window.
    pub fn sync_loop(&self) {
        let mut synced = lock(&self.synced);
        while !synced.stopping {
            let Some(since) = synced.unsynced_since else {
                synced = self.changed.wait(synced).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let rest = self.settings.window.saturating_sub(since.elapsed());
            if !rest.is_zero() {
                synced = self.changed.wait_timeout(synced, rest).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(synced);
            // Clients learn of a failure by the refusals that follow.
            let _ = self.sync_up_to(Ticket(u64::MAX));
            synced = lock(&self.synced);
        }
    }
}
