//! What keeps memory and log small: a look about once a second at silent files and limits, and checkpoints, after which
//! the log may forget; writes no file.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use crate::log::Log;
use crate::nodes::{Flags, Id};
use crate::pending::Pending;
use crate::record::Entry;
use crate::state::State;
use khz_rrd::error::{Result, os_text};

/// Bytes of log that are worth a checkpoint when nothing waits.
const IDLE_LOG: u64 = 1 << 16;

/// A disk written to, kept from before the first write on: the kernel tells a handle of what was lost since it was opened,
/// and each but once.
#[derive(Clone)]
pub(super) struct Handle {
    file: Arc<File>,
    /// The file it is of.
    name: String,
    /// Whether there were writes since the last checkpoint began.
    written: bool,
}

/// What is wrong where the disk of the file called `name` could not be synced.
pub(super) fn unsynced(name: &str, error: &std::io::Error) -> String {
    format!("the disk of '{name}' could not be synced: {}", os_text(error))
}

/// A checkpoint under way.
struct Begun {
    epoch: u64,
    /// What the log may let go of after it.
    unsynced: BTreeMap<u32, u64>,
    handles: Vec<Handle>,
}

impl Pending {
    /// What is to be done about once a second: old samples of silent files, limits, the log's end.
    pub fn tick(&self) {
        let now = self.now();
        let state = self.lock();
        if state.replaying {
            return;
        }
        drop(state);
        self.look_after_log();
        let mut state = self.lock();
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

    /// Has the next checkpoint sync the disk `device`, which the file called `name` lies on and is to be written to.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn note_disk(&self, device: u64, name: &str) -> Result<()> {
        let mut state = self.lock();
        if let Some(handle) = state.queue.handles.get_mut(&device) {
            handle.written = true;
            return Ok(());
        }
        drop(state);
        // Opened anew: a duplicate would keep the lock.
        let file = Arc::new(self.base.open(name, false)?);
        let mut state = self.lock();
        let handle = Handle { file, name: name.into(), written: true };
        state.queue.handles.entry(device).or_insert(handle).written = true;
        Ok(())
    }

    /// Syncs the disks written to now; lets nothing go.
    pub(super) fn sync_disks(&self) {
        let Some(log) = &self.log else { return };
        let handles: Vec<Handle> = self.lock().queue.handles.values().cloned().collect();
        self.sync_all(log, handles.iter().filter(|handle| handle.written));
    }

    /// Whether all of `handles` could be synced; nothing is let go any more if not.
    fn sync_all<'a>(&self, log: &Log, handles: impl Iterator<Item = &'a Handle>) -> bool {
        let mut synced = true;
        for handle in handles {
            if let Err(error) = log.storage().sync_disk(&handle.file) {
                self.distrust(log, unsynced(&handle.name, &error));
                synced = false;
            }
        }
        synced
    }

    /// Files have lost nobody knows what, and `why`. Asked again the kernel would say that all is well, so the log keeps
    /// everything until a restart puts headers back and offers all samples again.
    pub(super) fn distrust(&self, log: &Log, why: String) {
        let text = format!("{why}; the log keeps all updates until a restart puts back what is lost");
        self.messages.error(&text);
        log.keep_all(text);
    }

    /// Syncs the disks written to, then lets the log forget what is in their files.
    pub fn checkpoint(&self) {
        let Some(log) = &self.log else { return };
        let Some(begun) = self.begin_checkpoint(log) else { return };
        let synced = self.sync_all(log, begun.handles.iter());
        let record = Entry::Checkpoint { sequence: begun.epoch };
        let told = synced && log.stage(&record).and_then(|ticket| log.harden(ticket)).is_ok();
        self.end_checkpoint(log, begun.unsynced, synced, told);
        let mut state = self.lock();
        state.queue.checkpointing = false;
        self.tell(&state);
    }

    /// Waits for the writes under way; those that begin from now on are not part of the checkpoint. `None` where nothing is
    /// to be let go any more.
    fn begin_checkpoint(&self, log: &Log) -> Option<Begun> {
        let mut state = self.lock();
        // Another one under way has taken what is written: a second would be done before it, and lie.
        while state.queue.checkpointing {
            state = self.wait(state);
        }
        if log.kept().is_some() {
            return None;
        }
        state.queue.checkpointing = true;
        state.queue.paused = true;
        while state.queue.writing > 0 {
            state = self.wait(state);
        }
        state.queue.paused = false;
        state.queue.epoch += 1;
        let written = state.queue.handles.values_mut().filter(|handle| handle.written);
        let handles =
            written.map(|handle| std::mem::replace(&mut handle.written, false).then(|| handle.clone()));
        let handles = handles.flatten().collect();
        let begun =
            Begun { epoch: state.queue.epoch, unsynced: std::mem::take(&mut state.queue.unsynced), handles };
        self.tell(&state);
        self.work.notify_all();
        Some(begun)
    }

    fn end_checkpoint(&self, log: &Log, unsynced: BTreeMap<u32, u64>, synced: bool, told: bool) {
        let mut state = self.lock();
        // Where the log's disk is full it cannot tell of the checkpoint; if nothing waits, all of it can go instead.
        // Under the lock: what is staged from now on lies in the new segment.
        let emptied = !told && synced && state.holds == unsynced && log.clear();
        if !told && !emptied {
            // The log keeps them, and replay finds them applied or applies them.
            if synced {
                self.messages
                    .error("files are synced, but the log cannot tell of it and keeps their updates");
            }
            for (segment, count) in unsynced {
                *state.queue.unsynced.entry(segment).or_default() += count;
            }
            return;
        }
        for (segment, count) in unsynced {
            (0..count).for_each(|_| state.let_go(segment));
        }
        if emptied {
            return;
        }
        let first = state.holds.keys().next().copied();
        if first.is_none()
            && let Err(error) = log.rotate()
        {
            self.messages.error(&error.to_string());
        }
        drop(state);
        log.remove_before(first.unwrap_or_else(|| log.current()));
    }
}
