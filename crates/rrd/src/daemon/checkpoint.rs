//! What keeps memory and log small: a look about once a second at silent files and limits, and checkpoints, after which
//! the log may forget; writes no file.

use super::nodes::{Flags, Id};
use super::pending::Pending;
use super::record::Entry;
use super::state::State;

/// Bytes of log that are worth a checkpoint when nothing waits.
const IDLE_LOG: u64 = 1 << 16;

impl Pending {
    /// What is to be done about once a second: old samples of silent files, limits, the log's end.
    pub fn tick(&self) {
        let now = self.now();
        let mut state = self.lock();
        if state.replaying {
            return;
        }
        if now.saturating_sub(state.queue.swept) >= self.limits.sweep {
            state.queue.swept = now;
            self.sweep(&mut state, now);
        }
        let near_memory = state.memory() > self.limits.memory_max / 4 * 3;
        let near_log = self.log.as_ref().is_some_and(|log| log.bytes() > log.bytes_max() / 4 * 3);
        if (near_memory || near_log) && state.queue.is_idle() {
            self.messages.warning("near a limit of what may wait: everything is written now");
            self.enqueue_all(&mut state);
            state.queue.retries.hurry(now);
        }
        if let Some(text) = state.queue.retries.summary(now) {
            self.messages.error(&text);
        }
        if near_log {
            drop(state);
            self.carry();
            state = self.lock();
        }
        let Some(log) = &self.log else { return };
        // Whatever holds the oldest segment is written, so that syncing it would let the segment go.
        let first = state.holds.iter().next();
        let freed = first.is_none_or(|(segment, count)| state.queue.unsynced.get(segment) == Some(count));
        let worth = log.bytes() > IDLE_LOG.min(log.bytes_max() / 4) || log.trouble().is_some();
        let idle = state.holds == state.queue.unsynced && worth;
        drop(state);
        if idle || (freed && log.oldest() < log.current()) {
            self.checkpoint();
        }
    }

    /// Queues what has waited too long, forgets files that nobody updates, and begins a segment.
    fn sweep(&self, state: &mut State, now: u32) {
        let ids: Vec<Id> = state.nodes.ids().collect();
        for id in ids {
            let node = &state.nodes[id];
            let waited = now.saturating_sub(node.since);
            let busy = node.is(Flags::QUEUED) || node.is(Flags::CLAIMED) || node.is(Flags::SUSPENDED);
            if busy {
                continue;
            }
            if node.count > 0 && waited >= self.limits.longest() {
                self.enqueue(state, id);
            } else if node.count > 0 {
                // Not earlier than updates would have it written, or all files would be at this look.
                self.queue_if_due(state, id, now);
            } else if node.count == 0 && waited >= self.limits.sweep {
                state.nodes.remove(id);
                self.open.close(id);
            }
        }
        if let Some(log) = &self.log
            && let Err(error) = log.rotate()
        {
            self.messages.error(&error.to_string());
        }
    }

    /// Syncs the disks written to, then lets the log forget what is in their files.
    pub fn checkpoint(&self) {
        let Some(log) = &self.log else { return };
        let mut state = self.lock();
        state.queue.paused = true;
        while state.queue.writing > 0 {
            state = self.wait(state);
        }
        state.queue.paused = false;
        state.queue.sequence += 1;
        let sequence = state.queue.sequence;
        state.queue.checkpoint = sequence;
        let unsynced = std::mem::take(&mut state.queue.unsynced);
        let handles = std::mem::take(&mut state.queue.handles);
        self.tell(&state);
        self.work.notify_all();
        drop(state);
        let synced = handles.values().all(|file| rustix::fs::syncfs(file).is_ok());
        let told = synced
            && log
                .stage(&Entry::Checkpoint { sequence: u64::from(sequence) })
                .and_then(|ticket| log.harden(ticket))
                .is_ok();
        let mut state = self.lock();
        // Where the log's disk is full it cannot tell of the checkpoint; if nothing waits, all of it can go instead.
        let emptied = synced && state.holds == unsynced;
        if !told && !emptied {
            // Not known to be on disk: the log keeps them, and replay finds them applied or applies them.
            self.messages.error("files written could not be synced; the log keeps their updates");
            for (segment, count) in unsynced {
                *state.queue.unsynced.entry(segment).or_default() += count;
            }
            handles.into_iter().for_each(|(device, file)| {
                state.queue.handles.entry(device).or_insert(file);
            });
            return;
        }
        for (segment, count) in unsynced {
            (0..count).for_each(|_| state.let_go(segment));
        }
        let first = state.holds.keys().next().copied();
        // Under the lock: what is staged from now on lies in the new segment.
        if first.is_none()
            && let Err(error) = log.rotate()
        {
            self.messages.error(&error.to_string());
        }
        drop(state);
        log.remove_before(first.unwrap_or_else(|| log.current()));
    }
}
