//! Checkpoints: the disks that files were written to are synced, and then the log's old segments may go.
//!
//! Writes go on during the sync; those that begin meanwhile belong to the next checkpoint. `upkeep.rs` decides once a second
//! whether a checkpoint begins.

use khz_rrd::error::Result;

use super::Cache;
use super::backlog::WrittenPins;
use super::effects::{Effects, Wake};
use crate::disk::Disk;
use crate::log::{Log, Record};

/// A running checkpoint.
struct Checkpoint {
    sequence: u64,
    /// What it releases.
    pins: WrittenPins,
    disks: Vec<Disk>,
}

/// How far a checkpoint came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A disk could not be synced.
    Unsynced,
    /// The disks are synced, but the log has no record of it.
    Unlogged,
    /// The disks are synced, and the log has a record of it.
    Logged,
}

impl Cache {
    /// Syncs the disks written to, then lets the log forget what is in their files.
    pub fn checkpoint(&self) {
        let Some(log) = &self.log else { return };
        let Some(checkpoint) = self.begin_checkpoint(log) else { return };
        let outcome = match self.files.sync(&checkpoint.disks) {
            true => log_checkpoint(log, checkpoint.sequence),
            false => Outcome::Unsynced,
        };
        self.end_checkpoint(log, checkpoint.pins, outcome);
        self.lock().writes.end_checkpoint();
        self.carry_out(Effects::changed());
    }

    /// Waits for the writes in progress. `None` after a failed sync, when the log keeps everything until
    /// a restart.
    fn begin_checkpoint(&self, log: &Log) -> Option<Checkpoint> {
        let mut state = self.lock();
        // A running checkpoint has taken the pins. A second one could end before it, and let segments go whose files are not
        // synced yet.
        while state.writes.is_checkpoint_running() {
            state = self.shared.wait(state);
        }
        if log.kept().is_some() {
            return None;
        }
        state.writes.begin_checkpoint();
        let mut state = self.shared.wait_for_writes(state);
        let checkpoint = Checkpoint {
            sequence: state.writes.next_epoch(),
            pins: state.backlog.begin_checkpoint(),
            disks: self.files.begin_checkpoint(),
        };
        drop(state);
        self.carry_out(Effects { wake: Wake::All, ..Effects::changed() });
        Some(checkpoint)
    }

    fn end_checkpoint(&self, log: &Log, pins: WrittenPins, outcome: Outcome) {
        let mut state = self.lock();
        // On a full disk the checkpoint's record cannot be written. If nothing waits, the whole log can go instead. This
        // happens under the lock, because what is staged afterwards lies in the new segment.
        let is_cleared = outcome == Outcome::Unlogged && state.backlog.is_nothing_but(&pins) && log.clear();
        let is_done = outcome == Outcome::Logged || is_cleared;
        state.backlog.end_checkpoint(pins, is_done);
        if outcome == Outcome::Unlogged && !is_done {
            // Replay finds the updates applied, or applies them.
            self.messages.error("files are synced, but the log cannot record it and keeps their updates");
        }
        if !is_done || is_cleared {
            return;
        }
        let first = state.backlog.oldest_segment();
        if first.is_none() {
            self.rotate(log);
        }
        drop(state);
        log.remove_before(first.unwrap_or_else(|| log.current()));
    }

    /// Begins a segment, so that old ones can go.
    pub(super) fn rotate(&self, log: &Log) {
        if let Err(error) = log.rotate() {
            self.report(&error);
        }
    }
}

fn log_checkpoint(log: &Log, sequence: u64) -> Outcome {
    let logged = || -> Result<()> { log.sync_up_to(log.stage(&Record::Checkpoint { sequence })?) };
    if logged().is_ok() { Outcome::Logged } else { Outcome::Unlogged }
}
