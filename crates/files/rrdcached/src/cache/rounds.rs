//! Writing: queued files in rounds, by threads that call [`Cache::work`], and one file at once for FLUSH.

use khz_rrd::error::{Result, refused};

use super::Cache;
use super::backlog::{FileId, Flags};
use super::effects::{Effects, Wake};
use super::job::Job;

impl Cache {
    /// Queues every file with samples.
    pub fn flush_all(&self) {
        let wake = self.lock().enqueue_all();
        self.carry_out(wake.into());
    }

    /// Files in the queue with the number of their samples, in the order of their writing.
    pub fn queue(&self) -> Vec<(u32, String)> {
        let state = self.lock();
        let file = |id| (state.backlog.file(id).count(), state.backlog.name(id).to_string());
        state.queue.ids().map(file).collect()
    }

    /// Writes what waits for the file called `name` and returns when it is in the file. `None` where nothing was known
    /// of it.
    ///
    /// # Errors
    /// - The write failed; the samples are kept and tried again.
    /// - The file is suspended, and not written.
    /// - The file refused samples for good, and they are dropped.
    pub fn flush(&self, name: &str) -> Result<Option<()>> {
        let claim = self.claim(name);
        let mut state = self.lock();
        state.counters.flushes += 1;
        let Some(id) = claim.id() else { return Ok(None) };
        let file = state.backlog.file(id);
        if file.count() == 0 {
            return Ok(file.is(Flags::KNOWN).then_some(()));
        }
        drop(state);
        match self.write_claimed(id)? {
            Some(dropped) => refused(dropped),
            None => Ok(Some(())),
        }
    }

    /// Writes what waits for a claimed file; returns what of it was dropped, in words.
    pub(super) fn write_claimed(&self, id: FileId) -> Result<Option<String>> {
        let mut state = self.lock();
        let file = state.backlog.file(id);
        if file.count() == 0 {
            return Ok(None);
        }
        if file.is(Flags::SUSPENDED) {
            return refused(format!("{} is suspended", state.backlog.name(id)));
        }
        while state.writes.is_paused() {
            state = self.shared.wait(state);
        }
        let mut job = state.begin_write(id);
        drop(state);
        // The claim outlives the write.
        job.ends_claim = false;
        let mut jobs = vec![job];
        self.files.write(&mut jobs);
        self.finish(&mut jobs);
        jobs.pop().map_or(Ok(None), Job::dropped)
    }

    /// Writes queued files until the daemon ends.
    pub fn work(&self) {
        let mut state = self.lock();
        while !state.is_over() {
            let mut jobs = state.begin_writes(self.now());
            if jobs.is_empty() {
                state = self.shared.wait_for_work(state);
                continue;
            }
            let has_more = state.queue.has_more();
            drop(state);
            if has_more {
                self.carry_out(Wake::One.into());
            }
            self.files.write(&mut jobs);
            // Failures are kept with their files and shown by messages, FLUSH and STATS.
            self.finish(&mut jobs);
            state = self.lock();
        }
        drop(state);
        self.carry_out(Wake::All.into());
    }

    /// Accounts for writes.
    fn finish(&self, jobs: &mut [Job]) {
        let now = self.now();
        let mut effects = Effects::changed();
        let mut state = self.lock();
        for job in jobs {
            effects.add(state.finish_write(job, &self.limits, now));
        }
        drop(state);
        self.carry_out(effects);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::{Path, PathBuf};

    use khz_rrd::create::{Plan, header};

    use super::super::{Limits, Update};
    use super::*;
    use crate::base::Base;
    use crate::messages::Messages;

    fn cache(name: &str, limits: Limits) -> (PathBuf, Cache) {
        let dir = std::env::temp_dir().join(format!("khz-rrd-queue-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let cache = Cache::new(Base::new(&dir, false).unwrap(), limits, None, false, Messages::none());
        (dir, cache)
    }

    /// Makes a small file.
    pub fn file(dir: &Path, index: usize) -> String {
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
        let (dir, cache) = cache("places", Limits { timeout: 0, ..Limits::default() });
        let names: Vec<String> = (0..60).map(|index| file(&dir, index)).collect();
        // They come in another order.
        for index in 0..60 {
            let update = Update { file: &names[index * 37 % 60], samples: "1000000300:1" };
            assert_eq!(cache.update(&[update]).remove(0).unwrap(), 1);
        }
        let mut state = cache.lock();
        let mut jobs = state.begin_writes(cache.now());
        let places: Vec<_> = jobs.iter().map(|job| state.backlog.file(job.id).place()).collect();
        drop(state);
        assert_eq!(places.len(), 60);
        assert!(places.is_sorted() && places.first() < places.last(), "{places:?}");
        cache.files.write(&mut jobs);
        assert!(jobs.iter().all(|job| job.outcome.is_ok()));
        cache.finish(&mut jobs);
        let stats = cache.stats();
        assert_eq!((stats.waiting, stats.sets_written), (0, 60));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_comes_while_a_file_is_written_waits_for_the_next_write() {
        let (dir, cache) = cache("meanwhile", Limits { timeout: 0, ..Limits::default() });
        let name = file(&dir, 0);
        let update = |samples: &str| cache.update(&[Update { file: &name, samples }]).remove(0);
        let begin = || cache.lock().begin_writes(cache.now());
        let finish = |mut jobs: Vec<Job>| {
            cache.files.write(&mut jobs);
            cache.finish(&mut jobs);
            jobs.remove(0).dropped()
        };
        update("1000000300:1").unwrap();
        let jobs = begin();
        // Acknowledged during the write: rrdcached's journal race.
        update("1000000600:2").unwrap();
        finish(jobs).unwrap();
        assert_eq!(cache.pending(&name).unwrap(), ["1000000600:2"]);
        let jobs = begin();
        // A write that fails puts its samples before those.
        update("1000000900:3").unwrap();
        let away = dir.join("away");
        std::fs::rename(&name, &away).unwrap();
        assert!(finish(jobs).is_err());
        assert_eq!(cache.pending(&name).unwrap(), ["1000000600:2", "1000000900:3"]);
        std::fs::rename(&away, &name).unwrap();
        cache.flush(&name).unwrap();
        assert_eq!(cache.last(&name).unwrap(), 1_000_000_800);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn each_file_is_delayed_by_its_own_share() {
        let limits = Limits { timeout: 0, delay: 1000, sweep: 0, ..Limits::default() };
        let (dir, cache) = cache("delay", limits);
        let names: Vec<String> = (0..40).map(|index| file(&dir, index)).collect();
        for name in &names {
            cache.update(&[Update { file: name, samples: "1000000300:1" }]).remove(0).unwrap();
        }
        // Nor does the sweep for silent files queue them all.
        cache.tick();
        assert!(cache.queue().len() < 5, "each is due at once with a chance of one in a thousand");
        cache.flush_all();
        assert_eq!(cache.queue().len(), 40);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
