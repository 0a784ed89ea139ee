//! Renewing the log: where a restart would not find it, all that waits is logged once more in a new segment, before
//! anybody is answered; where no segment can be begun, everything is written to the files.

use std::sync::PoisonError;

use crate::log::{Log, Ticket};
use crate::nodes::Id;
use crate::pending::Pending;
use crate::record::{self, Entry, WITHOUT_END};
use crate::state::State;
use khz_rrd::error::Result;

/// Bytes of records put together before they are written.
const PIECE: usize = 4 << 20;

impl Pending {
    /// Returns when what was staged up to `ticket` survives the process, in the log or in a renewed one.
    ///
    /// # Errors
    /// The log failed; nothing is promised of what was staged.
    pub(super) fn commit_or_renew(&self, log: &Log, ticket: Ticket) -> Result<()> {
        let committed = log.commit(ticket);
        match committed {
            Err(error) if log.gone().is_some() => self.renew(log).map_err(|_| error),
            // Somebody else has renewed it since, or it is as before.
            Err(_) => log.commit(ticket),
            Ok(()) => Ok(()),
        }
    }

    /// Sees to a log that is gone, about once a second.
    pub(super) fn look_after_log(&self) {
        let Some(log) = &self.log else { return };
        log.look();
        if log.gone().is_some() {
            // Told by itself, and tried again at the next look.
            let _ = self.renew(log);
        } else if std::mem::take(&mut *self.renewing.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.messages.error("the log is where it belongs again");
        }
    }

    /// Begins the log again and logs all that waits once more; failing that, has it written to the files.
    ///
    /// # Errors
    /// There is no place for the log, or it cannot be written. Nothing is taken then.
    fn renew(&self, log: &Log) -> Result<()> {
        let mut told = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have done it meanwhile.
        let Some(gone) = log.gone() else { return Ok(()) };
        match self.begin_again(log) {
            Ok(()) => {
                *told = false;
                self.messages.error(&format!(
                    "{}; it is begun again, and all that waits is logged once more",
                    gone.why
                ));
                // Older segments have what was forgotten since; all that counts is in the new one, or in files.
                self.checkpoint();
                Ok(())
            }
            Err(why) => {
                if !std::mem::replace(&mut *told, true) {
                    self.messages.error(&format!("{}; {why}; what waits is written to the files", gone.why));
                }
                self.flush_all();
                Err(why)
            }
        }
    }

    fn begin_again(&self, log: &Log) -> Result<()> {
        let mut state = self.lock();
        if state.replaying {
            return khz_rrd::error::refused("the log of the run before is still being read");
        }
        // What is being written is neither in memory nor in its file.
        while state.queue.checkpointing {
            state = self.wait(state);
        }
        state.queue.paused = true;
        while state.queue.writing > 0 {
            state = self.wait(state);
        }
        state.queue.paused = false;
        self.tell(&state);
        self.work.notify_all();
        log.begin_again()?;
        let segment = log.current();
        self.log_all(log, &mut state)?;
        state.held_by(segment);
        log.made_whole();
        Ok(())
    }

    /// Logs every sample and header that waits.
    fn log_all(&self, log: &Log, state: &mut State) -> Result<()> {
        let ids: Vec<Id> = state.nodes.ids().collect();
        let mut records = vec![];
        for (file, images) in state.torn.all() {
            for image in images {
                record::encode(&Entry::Image { file, image: image.image(WITHOUT_END) }, &mut records)?;
            }
        }
        for id in ids {
            if state.encode(id, &mut records).is_none() {
                let name = state.nodes.name(id);
                self.messages.error(&format!("BUG: {name}: what waits for it does not fit the log"));
            }
            if records.len() >= PIECE {
                log.commit(log.stage_all(&mut records))?;
            }
        }
        log.harden(log.stage_all(&mut records))
    }
}

impl State {
    /// Everything that waits is in `segment` of the log, and no header is logged.
    fn held_by(&mut self, segment: u32) {
        self.holds.clear();
        self.queue.unsynced.clear();
        let ids: Vec<Id> = self.nodes.ids().collect();
        for id in ids {
            let node = &mut self.nodes[id];
            node.imaged = 0;
            node.oldest = if node.count > 0 { segment } else { 0 };
            if node.count > 0 {
                *self.holds.entry(segment).or_default() += 1;
            }
        }
    }
}
