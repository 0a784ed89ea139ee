//! Upkeep, about once a second: sees whether the log is in place, sweeps silent files, keeps memory and log below their
//! limits, and begins a checkpoint when one is worth it. Writes no file.

use super::Cache;
use super::effects::Effects;
use super::state::State;
use crate::log::Log;

/// Bytes of log that are worth a checkpoint when nothing waits.
const IDLE_LOG: u64 = 1 << 16;

/// Whether `used` is near its limit: above three quarters of it.
fn is_near(used: u64, most: u64) -> bool {
    used > most / 4 * 3
}

impl Cache {
    /// Does what is due.
    pub fn tick(&self) {
        let now = self.now();
        if self.lock().replay.is_running() {
            return;
        }
        self.check_log();
        let is_log_near = self.log.as_ref().is_some_and(|log| is_near(log.bytes(), log.bytes_max()));
        let mut state = self.lock();
        let mut effects = self.sweep_if_due(&mut state, now);
        effects.add(self.make_room(&mut state, is_log_near, now));
        effects.errors.extend(state.queue.summary(now));
        drop(state);
        self.carry_out(effects);
        if is_log_near {
            self.copy_forward();
        }
        if self.log.as_ref().is_some_and(|log| self.is_checkpoint_worth_it(log)) {
            self.checkpoint();
        }
    }

    /// Queues what has waited too long, forgets files that nobody updates, and begins a log segment.
    pub(super) fn sweep_if_due(&self, state: &mut State, now: u32) -> Effects {
        if now.saturating_sub(state.swept) < self.limits.sweep {
            return Effects::default();
        }
        state.swept = now;
        if let Some(log) = &self.log {
            self.rotate(log);
        }
        state.sweep(&self.limits, now)
    }

    /// Queues everything if memory or log are near their limits.
    fn make_room(&self, state: &mut State, is_log_near: bool, now: u32) -> Effects {
        let is_near = is_log_near || is_near(state.memory(), self.limits.memory_max);
        if !is_near || !state.queue.is_idle() {
            return Effects::default();
        }
        let mut effects = Effects::from(state.enqueue_all());
        state.queue.hurry(now);
        effects.warnings.push("near a limit of what may wait: everything is written now".into());
        effects
    }

    fn is_checkpoint_worth_it(&self, log: &Log) -> bool {
        let state = self.lock();
        let is_large = log.bytes() > IDLE_LOG.min(log.bytes_max() / 4) || log.trouble().is_some();
        let frees_all = state.backlog.is_all_written() && is_large;
        let frees_oldest = state.backlog.is_oldest_segment_written() && log.oldest() < log.current();
        frees_all || frees_oldest
    }
}
