//! Claims: the sole right to work on a file, and what is done with it - viewing, forgetting, replacing, changing. Takes no
//! updates.

use khz_rrd::error::Result;
use khz_rrd::file::Rrd;
use khz_rrd::text;

use super::Cache;
use super::backlog::{FileId, Flags};
use super::effects::Effects;
use super::sample::stamp;
use crate::disk::{overlay, update_options};
use crate::log::Record;

/// The sole right to work on a file.
pub struct Claim<'a> {
    cache: &'a Cache,
    /// None where nothing is known of the file.
    id: Option<FileId>,
}

impl Claim<'_> {
    /// The number of the file; none where nothing is known of it.
    pub fn id(&self) -> Option<FileId> {
        self.id
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.cache.lock().backlog.set(id, Flags::CLAIMED, false);
            self.cache.carry_out(Effects::changed());
        }
    }
}

/// A file with the samples that wait for it, as it will be when they are written.
pub struct View<'a> {
    /// The file.
    pub rrd: Rrd,
    _claim: Claim<'a>,
}

/// Claiming and viewing.
impl Cache {
    /// Claims the file called `name`, once replay is done and nobody else has it.
    pub(super) fn claim(&self, name: &str) -> Claim<'_> {
        let mut state = self.lock();
        loop {
            if !state.replay.is_running() {
                let id = state.backlog.find(name);
                let is_free = |id: FileId| !state.backlog.file(id).is(Flags::CLAIMED);
                if id.is_none_or(is_free) {
                    id.into_iter().for_each(|id| state.backlog.set(id, Flags::CLAIMED, true));
                    return Claim { cache: self, id };
                }
            }
            state = self.shared.wait(state);
        }
    }

    /// The file called `name` as it will be when all is written.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn view(&self, name: &str) -> Result<View<'_>> {
        let claim = self.claim(name);
        let mut rrd = Rrd::over(self.base().open(name, false)?, &text::path(name))?;
        let samples = {
            let state = self.lock();
            if let Some(images) = state.torn.get(name) {
                overlay(images, &mut rrd)?;
            }
            claim.id.map_or(vec![], |id| state.backlog.samples(id))
        };
        preview(&mut rrd, name, &samples);
        Ok(View { rrd, _claim: claim })
    }

    /// The samples that wait for the file called `name`; `None` where nothing is known of it.
    pub fn pending(&self, name: &str) -> Option<Vec<String>> {
        let id = self.claim(name).id?;
        let state = self.lock();
        let file = state.backlog.file(id);
        (file.is(Flags::KNOWN) || file.count() > 0).then(|| state.backlog.samples(id))
    }

    /// The stamp of the first sample that waits for the file called `name`, in microseconds. Also answers during replay.
    pub fn oldest(&self, name: &str) -> Option<i64> {
        let mut state = self.lock();
        loop {
            let id = state.backlog.find(name)?;
            if !state.backlog.file(id).is(Flags::CLAIMED) {
                return state.backlog.samples(id).first().and_then(|sample| stamp(sample));
            }
            state = self.shared.wait(state);
        }
    }

    /// The stamp of the newest sample of a file, with what waits for it, in microseconds. `None` while the log of an earlier run is
    /// read, and of a file that cannot be read.
    pub fn newest(&self, name: &str) -> Option<i64> {
        if self.lock().replay.is_running() {
            return None;
        }
        {
            let claim = self.claim(name);
            let state = self.lock();
            if let Some(id) = claim.id.filter(|id| state.backlog.file(*id).is(Flags::KNOWN)) {
                return Some(state.backlog.file(id).newest());
            }
        }
        let header = self.view(name).ok()?.rrd.header;
        Some(header.last_update() * 1_000_000 + header.last_update_usec())
    }

    /// The end of the newest primary point of a file, with what waits for it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last(&self, name: &str) -> Result<i64> {
        {
            let claim = self.claim(name);
            let state = self.lock();
            if let Some(id) = claim.id.filter(|id| state.backlog.file(*id).is(Flags::KNOWN)) {
                let seconds = state.backlog.file(id).newest().div_euclid(1_000_000);
                return Ok(seconds - seconds.rem_euclid(state.backlog.shape(id).step.max(1) as i64));
            }
        }
        let header = self.view(name)?.rrd.header;
        Ok(header.last_update() - header.last_update().rem_euclid(header.step() as i64))
    }

    /// The samples that wait for the file called `name`.
    pub(super) fn samples_of(&self, name: &str) -> Vec<String> {
        let state = self.lock();
        state.backlog.find(name).map_or(vec![], |id| state.backlog.samples(id))
    }
}

/// Suspending.
impl Cache {
    /// Suspends (or resumes) the writing of a file; whether that was new. `None` where nothing is known of it.
    pub fn suspend(&self, name: &str, suspended: bool) -> Option<bool> {
        let claim = self.claim(name);
        let id = claim.id?;
        let mut state = self.lock();
        if !state.backlog.file(id).is(Flags::KNOWN) {
            return None;
        }
        let is_new = state.backlog.file(id).is(Flags::SUSPENDED) != suspended;
        state.backlog.set(id, Flags::SUSPENDED, suspended);
        Some(is_new)
    }

    /// Suspends (or resumes) the writing of every file known; how many that changed.
    pub fn suspend_all(&self, suspended: bool) -> usize {
        let mut state = self.lock();
        let is_changed = |id: &FileId| {
            let file = state.backlog.file(*id);
            file.is(Flags::KNOWN) && file.is(Flags::SUSPENDED) != suspended
        };
        let changed: Vec<FileId> = state.backlog.ids().filter(is_changed).collect();
        changed.iter().for_each(|id| state.backlog.set(*id, Flags::SUSPENDED, suspended));
        changed.len()
    }
}

/// Changing files.
impl Cache {
    /// Drops what waits for the file called `name`; whether anything was known of it.
    ///
    /// # Errors
    /// The log failed; nothing is dropped then.
    pub fn forget(&self, name: &str) -> Result<bool> {
        let claim = self.claim(name);
        let Some(id) = claim.id else { return Ok(false) };
        // Samples that were written and came back from the log go as well. A torn header counts on them, so it comes first.
        self.mend(name)?;
        self.drop_samples(id)
    }

    /// Drops what waits for a claimed file and what is known of it.
    fn drop_samples(&self, id: FileId) -> Result<bool> {
        let mut state = self.lock();
        let first = state.backlog.samples(id).first().map(|sample| stamp(sample).unwrap_or(i64::MIN));
        let mut ticket = None;
        if let (Some(log), Some(from)) = (&self.log, first) {
            ticket = Some(log.stage(&Record::Forget { file: state.backlog.name(id), from })?);
        }
        let is_known = state.backlog.file(id).is(Flags::KNOWN) || first.is_some();
        state.forget(id, self.now());
        drop(state);
        self.files.close(id);
        self.commit(ticket)?;
        Ok(is_known)
    }

    /// Has `make` put a new file in the place of the one called `name`. Nothing that was meant for the old one reaches it.
    ///
    /// # Errors
    /// What `make` says, or the log failed.
    pub fn replace(&self, name: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let _claim = self.claim(name);
        make()?;
        let mut ticket = None;
        if let Some(log) = &self.log {
            self.files.sync_file(name)?;
            let state = self.lock();
            ticket = Some(log.stage(&Record::Forget { file: name, from: i64::MIN })?);
            drop(state);
        }
        let mut state = self.lock();
        let id = state.backlog.find(name);
        if let Some(id) = id {
            state.forget(id, self.now());
        }
        state.torn.remove(name);
        drop(state);
        id.into_iter().for_each(|id| self.files.close(id));
        self.commit(ticket)
    }

    /// Has `change` work on the file called `name` with all in it that waits, while nobody else does.
    ///
    /// # Errors
    /// Waiting samples could not be written, `change` failed, or the log failed.
    pub fn change(&self, name: &str, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let claim = self.claim(name);
        self.mend(name)?;
        if let Some(id) = claim.id {
            self.write_claimed(id)?;
            self.files.close(id);
            // The record below makes older images void.
            self.lock().backlog.void_image(id);
        }
        change()?;
        if let Some(id) = claim.id {
            // It may have other data sources now, and is inspected again.
            self.lock().backlog.set(id, Flags::KNOWN, false);
        }
        let Some(log) = &self.log else { return Ok(()) };
        // An older header must not come back.
        self.files.sync_file(name)?;
        self.commit_or_rebuild(log, log.stage(&Record::Forget { file: name, from: i64::MAX })?)
    }

    /// Puts back the torn header of the claimed file called `name`, if it has one.
    ///
    /// # Errors
    /// It cannot be done now.
    fn mend(&self, name: &str) -> Result<()> {
        let Some(images) = self.lock().torn.remove(name) else { return Ok(()) };
        let mended = self.files.mend(name, &images, self.samples_of(name));
        if mended.is_err() {
            self.lock().torn.insert(name, images);
        }
        mended
    }
}

/// Shows `samples` in `rrd`.
fn preview(rrd: &mut Rrd, name: &str, samples: &[String]) {
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let options = update_options(name);
    if !samples.is_empty() && rrd.preview(&samples, &options).is_err() {
        // One of them has no valid reading: the others are shown.
        for sample in samples {
            let _ = rrd.preview(&[sample], &options);
        }
    }
}
