//! Which files are written when: in rounds, sorted by their place on disk; knows nothing of how a file is written.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::Duration;

use crate::checkpoint::Handle;
use crate::nodes::{Flags, Id};
use crate::pending::Pending;
use crate::retry::Retries;
use crate::state::State;
use crate::writer::Job;
use khz_rrd::error::{Result, refused};

/// Files one thread takes from a round at once.
const CHUNK: usize = 256;
/// How often a thread looks whether something is due to be tried again.
const TICK: Duration = Duration::from_secs(1);

/// How the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When all that waits is written.
    Written,
    /// As soon as the writes under way are done.
    Now,
}

/// Files to be written.
#[derive(Default)]
pub(super) struct Queue {
    list: Vec<Id>,
    /// The round under way, the last first.
    round: Vec<Id>,
    /// Files to be tried again.
    pub(super) retries: Retries,
    /// Writes under way.
    pub(super) writing: usize,
    /// No write may begin.
    pub(super) paused: bool,
    /// Numbers the checkpoints; what is imaged now is void after the next.
    pub(super) epoch: u64,
    /// A checkpoint is under way.
    pub(super) checkpointing: bool,
    /// Writes done and not synced, by the log's oldest segment they need.
    pub(super) unsynced: BTreeMap<u32, u64>,
    /// The disks written to.
    pub(super) handles: HashMap<u64, Handle>,
    pub(super) swept: u32,
    end: Option<End>,
}

impl Queue {
    /// Files that wait.
    pub(super) fn len(&self) -> usize {
        self.list.len() + self.round.len() + self.retries.len()
    }

    /// Whether nothing waits but files to be tried again.
    pub(super) fn is_idle(&self) -> bool {
        self.list.is_empty() && self.round.is_empty()
    }

    /// Every file that waits.
    fn ids(&self) -> impl Iterator<Item = Id> {
        self.round.iter().rev().chain(&self.list).copied().chain(self.retries.ids())
    }
}

impl Pending {
    pub(super) fn enqueue(&self, state: &mut State, id: Id) {
        state.nodes[id].set(Flags::QUEUED, true);
        if state.queue.list.is_empty() {
            self.work.notify_one();
        }
        state.queue.list.push(id);
    }

    /// Queues every file with samples.
    pub fn flush_all(&self) {
        let mut state = self.lock();
        self.enqueue_all(&mut state);
    }

    pub(super) fn enqueue_all(&self, state: &mut State) {
        let waits = |id: &Id| {
            let node = &state.nodes[*id];
            node.count > 0 && !node.is(Flags::QUEUED) && !node.is(Flags::SUSPENDED)
        };
        let ids: Vec<Id> = state.nodes.ids().filter(waits).collect();
        for id in ids {
            self.enqueue(state, id);
        }
        self.work.notify_all();
    }

    /// Files in the queue with the number of their samples, in the order of their writing.
    pub fn queue(&self) -> Vec<(u32, String)> {
        let state = self.lock();
        state.queue.ids().map(|id| (state.nodes[id].count, state.nodes.name(id).to_string())).collect()
    }

    /// Writes what waits for the file called `name` and returns when it is in the file. `None` where nothing was known
    /// of it.
    ///
    /// # Errors
    /// Why the write failed; the samples are kept and tried again. A suspended file is not written. Or what was
    /// dropped of them, because the file refuses it for good.
    pub fn flush(&self, name: &str) -> Result<Option<()>> {
        let claim = self.claim(name);
        let mut state = self.lock();
        state.stats.flushes += 1;
        let Some(id) = claim.id else { return Ok(None) };
        let node = &state.nodes[id];
        if node.count == 0 {
            return Ok(node.is(Flags::KNOWN).then_some(()));
        }
        drop(state);
        match self.write_claimed(id)? {
            Some(dropped) => refused(dropped),
            None => Ok(Some(())),
        }
    }

    /// Writes what waits for a claimed file; returns what of it was dropped, in words.
    pub(super) fn write_claimed(&self, id: Id) -> Result<Option<String>> {
        let mut state = self.lock();
        let node = &state.nodes[id];
        if node.count == 0 {
            return Ok(None);
        }
        if node.is(Flags::SUSPENDED) {
            return refused(format!("{} is suspended", state.nodes.name(id)));
        }
        while state.queue.paused {
            state = self.wait(state);
        }
        let mut job = self.begin(&mut state, id);
        // The claim outlives the write.
        job.ends_claim = false;
        drop(state);
        let mut jobs = vec![job];
        self.perform(&mut jobs);
        self.finish(jobs)
    }

    /// Takes a claimed file's samples out to write them.
    fn begin(&self, state: &mut State, id: Id) -> Job {
        state.queue.writing += 1;
        Job::new(state, id)
    }

    /// Accounts for what was written; what was not is put back and tried again. Returns what was dropped, in words.
    fn finish(&self, jobs: Vec<Job>) -> Result<Option<String>> {
        let now = self.now();
        let mut outcome = Ok(None);
        let mut state = self.lock();
        for mut job in jobs {
            state.queue.writing -= 1;
            job.settle(&mut state);
            let (id, taken) = (job.id, &job.taken);
            match job.outcome {
                Ok(written) => {
                    let refused = u64::from(written.refused);
                    state.stats.refused += refused;
                    state.stats.updates_written += 1;
                    state.stats.sets_written += u64::from(taken.count).saturating_sub(refused);
                    state.stats.waiting = state.stats.waiting.saturating_sub(u64::from(taken.count));
                    if taken.oldest != 0 {
                        *state.queue.unsynced.entry(taken.oldest).or_default() += 1;
                    }
                    state.queue.retries.end(id);
                    let node = &mut state.nodes[id];
                    node.written = u32::try_from(written.newest / 1_000_000).unwrap_or(0);
                    if written.newest > node.last {
                        // Somebody else has written it: what is older must not be taken any more.
                        node.last = written.newest;
                        node.set(Flags::PACKED, false);
                    }
                    node.set(Flags::FAILED, false);
                    if node.count == 0 {
                        node.since = now;
                        node.set(Flags::REPLAYED, false);
                    }
                    if let (Some(why), Ok(dropped)) = (written.dropped, &mut outcome) {
                        let count = taken.count;
                        *dropped =
                            Some(format!("{}: {refused} of {count} updates are dropped: {why}", job.name));
                    }
                }
                Err(error) => {
                    state.put_back(id, taken);
                    state.stats.failures += 1;
                    let State { nodes, queue, .. } = &mut *state;
                    let node = &mut nodes[id];
                    node.set(Flags::FAILED, true);
                    if job.other_sources {
                        // Looked at anew before more is taken.
                        node.set(Flags::KNOWN, false);
                    }
                    if queue.retries.fail(id, &error) {
                        self.messages.error(&format!(
                            "{}: {} updates are kept and tried again: {error}",
                            job.name, taken.count
                        ));
                    }
                    if !node.is(Flags::QUEUED) && queue.end.is_none() {
                        node.set(Flags::QUEUED, true);
                        queue.retries.rest(id, now);
                    }
                    outcome = Err(error);
                }
            }
            if job.ends_claim {
                state.nodes[id].set(Flags::CLAIMED, false);
            }
            self.queue_if_due(&mut state, id, now);
        }
        self.tell(&state);
        outcome
    }

    /// Writes queued files until the daemon ends.
    pub fn work(&self) {
        let mut state = self.lock();
        loop {
            let ended = match state.queue.end {
                Some(End::Now) => true,
                Some(End::Written) => !state.replaying && state.queue.len() == 0 && state.queue.writing == 0,
                None => false,
            };
            if ended {
                self.work.notify_all();
                return;
            }
            let jobs = self.next_chunk(&mut state);
            if jobs.is_empty() {
                state = self.work.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if !state.queue.round.is_empty() {
                self.work.notify_one();
            }
            drop(state);
            let mut jobs = jobs;
            self.perform(&mut jobs);
            // Failures are kept with their files and told in the log, on FLUSH and in STATS.
            let _ = self.finish(jobs);
            state = self.lock();
        }
    }

    fn next_chunk(&self, state: &mut State) -> Vec<Job> {
        let mut jobs = vec![];
        if state.replaying || state.queue.paused {
            return jobs;
        }
        let now = self.now();
        let State { queue, nodes, .. } = state;
        queue.list.extend(queue.retries.ripe(now, queue.end.is_some()));
        if queue.round.is_empty() && !queue.list.is_empty() {
            queue.round = std::mem::take(&mut queue.list);
            queue.round.sort_unstable_by_key(|id| {
                let node = &nodes[*id];
                std::cmp::Reverse((node.disk, node.place))
            });
        }
        while jobs.len() < CHUNK {
            let Some(id) = state.queue.round.pop() else { break };
            let node = &mut state.nodes[id];
            if node.is(Flags::CLAIMED) {
                state.queue.retries.wait(id, now);
                continue;
            }
            node.set(Flags::QUEUED, false);
            if node.count > 0 && !node.is(Flags::SUSPENDED) {
                node.set(Flags::CLAIMED, true);
                jobs.push(self.begin(state, id));
            }
        }
        jobs
    }

    /// Lets the threads end: a file that cannot be written is tried once more and then left to the log.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        state.queue.end = Some(end);
        if end == End::Written {
            self.enqueue_all(&mut state);
        }
        self.work.notify_all();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::base::Base;
    use crate::messages::Messages;
    use crate::pending::{Limits, Update};
    use khz_rrd::create::{Plan, header};

    fn pending(name: &str, limits: Limits) -> (PathBuf, Pending) {
        let dir = std::env::temp_dir().join(format!("khz-rrd-queue-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let pending = Pending::new(Base::new(&dir, false).unwrap(), limits, None, false, Messages::none());
        (dir, pending)
    }

    /// Makes a small file.
    pub(crate) fn file(dir: &std::path::Path, index: usize) -> String {
        let mut plan = Plan::default();
        plan.source("x:GAUGE:600:U:U").unwrap();
        plan.archive("LAST:0.5:1:500", 300, 0).unwrap();
        let header = header(plan.definition(300).unwrap(), 1_000_000_000, |_, _| 0).unwrap();
        let path = dir.join(format!("{index}.rrd"));
        khz_rrd::file::create(&path, &header, std::iter::empty(), true).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn a_round_is_written_in_the_order_of_places_on_disk() {
        let (dir, pending) = pending("places", Limits { timeout: 0, ..Limits::default() });
        let names: Vec<String> = (0..60).map(|index| file(&dir, index)).collect();
        // Asked for in another order.
        for index in 0..60 {
            let update = Update { file: &names[index * 37 % 60], samples: "1000000300:1" };
            assert_eq!(pending.update(&[update]).remove(0).unwrap(), 1);
        }
        let mut state = pending.lock();
        let jobs = pending.next_chunk(&mut state);
        let places: Vec<_> =
            jobs.iter().map(|job| (state.nodes[job.id].disk, state.nodes[job.id].place)).collect();
        assert_eq!(places.len(), 60);
        assert!(places.is_sorted() && places.first() < places.last(), "{places:?}");
        drop(state);
        let mut jobs = jobs;
        pending.perform(&mut jobs);
        assert!(jobs.iter().all(|job| job.outcome.is_ok()));
        pending.finish(jobs).unwrap();
        assert_eq!((pending.stats().0.waiting, pending.stats().0.sets_written), (0, 60));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_comes_while_a_file_is_written_waits_for_the_next_write() {
        let (dir, pending) = pending("meanwhile", Limits { timeout: 0, ..Limits::default() });
        let name = file(&dir, 0);
        let update = |samples: &str| pending.update(&[Update { file: &name, samples }]).remove(0);
        update("1000000300:1").unwrap();
        let mut jobs = pending.next_chunk(&mut pending.lock());
        // Acknowledged while the write is under way: rrdcached's journal race.
        update("1000000600:2").unwrap();
        pending.perform(&mut jobs);
        pending.finish(jobs).unwrap();
        assert_eq!(pending.pending(&name).unwrap(), ["1000000600:2"]);
        let mut jobs = pending.next_chunk(&mut pending.lock());
        // A write that fails puts its samples in front of those.
        update("1000000900:3").unwrap();
        let away = dir.join("away");
        std::fs::rename(&name, &away).unwrap();
        pending.perform(&mut jobs);
        assert!(pending.finish(jobs).is_err());
        assert_eq!(pending.pending(&name).unwrap(), ["1000000600:2", "1000000900:3"]);
        std::fs::rename(&away, &name).unwrap();
        pending.flush(&name).unwrap();
        assert_eq!(pending.last(&name).unwrap(), 1_000_000_800);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn each_file_is_delayed_by_its_own_share() {
        let limits = Limits { timeout: 0, delay: 1000, sweep: 0, ..Limits::default() };
        let (dir, pending) = pending("delay", limits);
        let names: Vec<String> = (0..40).map(|index| file(&dir, index)).collect();
        for name in &names {
            pending.update(&[Update { file: name, samples: "1000000300:1" }]).remove(0).unwrap();
        }
        // Nor does the look for silent files bring them all.
        pending.tick();
        assert!(pending.queue().len() < 5, "each is due at once with a chance of one in a thousand");
        pending.flush_all();
        assert_eq!(pending.queue().len(), 40);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
