//! Rebuilding the log: where a restart would not find it, all that waits is logged once more in a new segment before
//! the next answer. Where no segment can be begun, everything is written to the files.

use std::sync::{MutexGuard, PoisonError};

use khz_rrd::error::{Result, refused};

use super::Cache;
use super::effects::{Effects, Wake};
use super::state::State;
use crate::log::{self, Log, Record, Ticket, WITHOUT_END};

/// Bytes of records put together before they are written.
const PIECE: usize = 4 << 20;

impl Cache {
    /// Returns when what was staged up to `ticket` survives the process, in the log or in a rebuilt one.
    ///
    /// # Errors
    /// The log failed; nothing is promised of what was staged.
    pub(super) fn commit_or_rebuild(&self, log: &Log, ticket: Ticket) -> Result<()> {
        match log.commit(ticket) {
            Ok(()) => Ok(()),
            Err(error) if log.gone().is_some() => self.rebuild(log).map_err(|_| error),
            // Another thread may have rebuilt it since.
            Err(_) => log.commit(ticket),
        }
    }

    /// Sees whether a restart would find the log, and rebuilds it if not.
    pub(super) fn check_log(&self) {
        let Some(log) = &self.log else { return };
        log.check_presence();
        if log.gone().is_some() {
            // A failure is reported by `rebuild`, and tried again the next time.
            let _ = self.rebuild(log);
        } else if std::mem::take(&mut *self.rebuilding()) {
            self.messages.error("the log is where it belongs again");
        }
    }

    /// Whether a message has said that the log is gone; nobody else rebuilds it while this is held.
    fn rebuilding(&self) -> MutexGuard<'_, bool> {
        self.rebuilding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs all that waits once more; where that fails, queues it to be written to the files.
    ///
    /// # Errors
    /// There is no place for the log, or it cannot be written. Nothing is taken then.
    fn rebuild(&self, log: &Log) -> Result<()> {
        let mut is_told = self.rebuilding();
        // Another thread may have done it meanwhile.
        let Some(gone) = log.gone() else { return Ok(()) };
        match self.restart_log(log) {
            Ok(()) => {
                *is_told = false;
                self.messages.error(&format!(
                    "{}; the log is rebuilt, and all that waits is logged once more",
                    gone.why
                ));
                // Older segments still have what was forgotten since; the checkpoint removes them.
                self.checkpoint();
                Ok(())
            }
            Err(why) => {
                if !std::mem::replace(&mut *is_told, true) {
                    self.messages.error(&format!("{}; {why}; what waits is written to the files", gone.why));
                }
                self.flush_all();
                Err(why)
            }
        }
    }

    fn restart_log(&self, log: &Log) -> Result<()> {
        let mut state = self.lock();
        if state.replay.is_running() {
            return refused("the log of the run before is still being read");
        }
        while state.writes.is_checkpoint_running() {
            state = self.shared.wait(state);
        }
        // Samples that are being written are neither in memory nor in their file.
        let mut state = self.shared.wait_for_writes(state);
        let restarted = self.log_all_again(log, &mut state);
        drop(state);
        self.carry_out(Effects { wake: Wake::All, ..Effects::changed() });
        restarted
    }

    /// Logs every sample and header that waits in a new segment.
    fn log_all_again(&self, log: &Log, state: &mut State) -> Result<()> {
        log.restart()?;
        let segment = log.current();
        let mut records = vec![];
        for (file, images) in state.torn.all() {
            for image in images {
                log::encode(&Record::Image { file, image: image.to_record(WITHOUT_END) }, &mut records)?;
            }
        }
        for id in state.backlog.ids() {
            if state.encode(id, &mut records).is_none() {
                let name = state.backlog.name(id);
                self.messages.error(&format!("BUG: {name}: what waits for it does not fit the log"));
            }
            if records.len() >= PIECE {
                log.commit(log.stage_all(&mut records))?;
            }
        }
        log.sync_up_to(log.stage_all(&mut records))?;
        state.backlog.rebuilt(segment);
        log.made_whole();
        Ok(())
    }
}
