//! The sole right to work on a file, and what is done with it: looking, forgetting, replacing, changing; takes no
//! updates.

use std::path::Path;

use crate::log::Ticket;
use crate::nodes::{Flags, Id};
use crate::packed::unpack;
use crate::pending::Pending;
use crate::record::Entry;
use crate::restore::overlay;
use crate::stamp::stamp;
use crate::state::State;
use khz_rrd::error::{Error, Result};
use khz_rrd::file::Rrd;
use khz_rrd::text;

/// The sole right to work on a file.
pub(super) struct Claim<'a> {
    pending: &'a Pending,
    /// None where nothing is known of the file.
    pub(super) id: Option<Id>,
}

/// A file with what waits for it laid over.
pub struct View<'a> {
    /// The file.
    pub rrd: Rrd,
    _claim: Claim<'a>,
}

impl Pending {
    /// Claims the file called `name`, once replay is done and nobody else has it.
    pub(super) fn claim(&self, name: &str) -> Claim<'_> {
        let mut state = self.lock();
        loop {
            if !state.replaying {
                let Some(id) = state.nodes.find(name) else { return Claim { pending: self, id: None } };
                if !state.nodes[id].is(Flags::CLAIMED) {
                    state.nodes[id].set(Flags::CLAIMED, true);
                    return Claim { pending: self, id: Some(id) };
                }
            }
            state = self.wait(state);
        }
    }

    /// The file called `name` as it will be when all is written.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn view(&self, name: &str) -> Result<View<'_>> {
        let claim = self.claim(name);
        let mut rrd = Rrd::over(self.base.open(name, false)?, &text::path(name))?;
        let samples = {
            let state = self.lock();
            if let Some(images) = state.torn.get(name) {
                overlay(images, &mut rrd)?;
            }
            claim.id.map_or(vec![], |id| self.samples(&state, id))
        };
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        if !samples.is_empty() && rrd.preview(&samples, &crate::writer::options(name)).is_err() {
            // One of them is no reading: the others are shown.
            for sample in samples {
                let _ = rrd.preview(&[sample], &crate::writer::options(name));
            }
        }
        Ok(View { rrd, _claim: claim })
    }

    /// The samples that wait for a file.
    pub(super) fn samples(&self, state: &State, id: Id) -> Vec<String> {
        let mut bytes = vec![];
        state.cells.read(state.nodes[id].chain, &mut bytes);
        unpack(&bytes).collect()
    }

    /// The samples that wait for the file called `name`; `None` where nothing is known of it.
    pub fn pending(&self, name: &str) -> Option<Vec<String>> {
        let claim = self.claim(name);
        let id = claim.id?;
        let state = self.lock();
        let node = &state.nodes[id];
        (node.is(Flags::KNOWN) || node.count > 0).then(|| self.samples(&state, id))
    }

    /// Drops what waits for the file called `name`; whether anything was known of it.
    ///
    /// # Errors
    /// The log failed; nothing is dropped then.
    pub fn forget(&self, name: &str) -> Result<bool> {
        let claim = self.claim(name);
        let Some(id) = claim.id else { return Ok(false) };
        // What was written and came back from the log goes, too: not where the header counts on it.
        self.mend(name)?;
        self.drop_samples(id)
    }

    /// Drops what waits for a claimed file and all that is known of it.
    fn drop_samples(&self, id: Id) -> Result<bool> {
        let mut state = self.lock();
        let mut ticket = None;
        let first = self.samples(&state, id).first().map(|sample| stamp(sample).unwrap_or(i64::MIN));
        if let (Some(log), Some(from)) = (&self.log, first) {
            ticket = Some(log.stage(&Entry::Forget { file: state.nodes.name(id), from })?);
        }
        let known = state.nodes[id].is(Flags::KNOWN) || first.is_some();
        state.forget(id, self.now());
        drop(state);
        self.open.close(id);
        self.commit(ticket)?;
        Ok(known)
    }

    fn commit(&self, ticket: Option<Ticket>) -> Result<()> {
        match (&self.log, ticket) {
            (Some(log), Some(ticket)) => self.commit_or_renew(log, ticket),
            _ => Ok(()),
        }
    }

    /// Has `make` put a new file in the place of the one called `name`; nothing that was meant for the old one
    /// reaches it.
    ///
    /// # Errors
    /// What `make` says, or the log failed.
    pub fn replace(&self, name: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let _claim = self.claim(name);
        make()?;
        let mut ticket = None;
        if let Some(log) = &self.log {
            self.sync(name)?;
            let state = self.lock();
            ticket = Some(log.stage(&Entry::Forget { file: name, from: i64::MIN })?);
            drop(state);
        }
        let mut state = self.lock();
        let id = state.nodes.find(name);
        if let Some(id) = id {
            state.forget(id, self.now());
        }
        state.torn.remove(name);
        drop(state);
        id.into_iter().for_each(|id| self.open.close(id));
        self.commit(ticket)
    }

    /// Has `change` work on the file called `name` with all in it that waits, while nobody else does.
    ///
    /// # Errors
    /// What waits could not be written, what `change` says, or the log failed.
    pub fn change(&self, name: &str, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let claim = self.claim(name);
        self.mend(name)?;
        if let Some(id) = claim.id {
            self.write_claimed(id)?;
            self.open.close(id);
            // Older images are made void below.
            self.lock().nodes[id].imaged = 0;
        }
        change()?;
        if let Some(id) = claim.id {
            // Looked at anew: it may have other sources now.
            self.lock().nodes[id].set(Flags::KNOWN, false);
        }
        let Some(log) = &self.log else { return Ok(()) };
        // An older header must not come back.
        self.sync(name)?;
        self.commit_or_renew(log, log.stage(&Entry::Forget { file: name, from: i64::MAX })?)
    }

    /// Has the file called `name` and its name on disk.
    fn sync(&self, name: &str) -> Result<()> {
        let failed = |error| Error::io("syncing", name, error);
        self.base.open(name, false)?.sync_all().map_err(failed)?;
        let parent = self.base.parent(name)?;
        let directory = parent.path.parent().unwrap_or(Path::new("/"));
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    /// The end of the newest primary point of a file, with what waits for it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last(&self, name: &str) -> Result<i64> {
        {
            let claim = self.claim(name);
            let state = self.lock();
            let known = claim.id.map(|id| &state.nodes[id]).filter(|node| node.is(Flags::KNOWN));
            let shape = known.and_then(|node| state.shapes.get(usize::from(node.shape)));
            if let (Some(node), Some(shape)) = (known, shape) {
                let seconds = node.last.div_euclid(1_000_000);
                return Ok(seconds - seconds.rem_euclid(shape.step.max(1) as i64));
            }
        }
        let header = self.view(name)?.rrd.header;
        Ok(header.last_update() - header.last_update().rem_euclid(header.step() as i64))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.pending.lock();
            state.nodes[id].set(Flags::CLAIMED, false);
            self.pending.tell(&state);
        }
    }
}
