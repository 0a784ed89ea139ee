//! Remote write as a daemon does it: a thread for each receiver that reads the store as any query does, and two that send.
//! Neither the hub nor the store's own threads know of them, so a receiver that is slow or gone costs them nothing.

mod numbers;
mod opening;
mod place;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use khz_model::{Metric, Nanos, NodeName, Pattern, Repeats, Series, recorded};
use khz_remote::write::{Counts, Feed, Sender, Topic, World};
use khz_store::range::RangeReader;

use self::opening::Opening;
use self::place::Place;
use crate::config::remote::RemoteWrite;
use crate::role::gatherer;
use crate::role::store::now;
use crate::show::outcome::{Failure, sentence};

/// The folder of the cursors, below the store's.
const FOLDER: &str = "remote";
/// The prefix of the names that jobs give.
const JOBS: &str = "job.";

/// The threads that send. They end with this.
pub struct RemoteWriters {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    receivers: Vec<(RemoteWrite, Arc<Counts>)>,
}

impl RemoteWriters {
    /// Nothing is sent yet, and all counts are 0.
    pub fn new(receivers: &[RemoteWrite]) -> Self {
        let receivers = receivers.iter().map(|receiver| (receiver.clone(), Arc::default())).collect();
        RemoteWriters { is_over: Arc::default(), threads: Vec::new(), receivers }
    }

    /// Begins to send rows of the store in this folder. Returns an error if cursors are in use, or files of secrets are unreadable.
    /// `has_moved` says whether a node has gone to another hub.
    pub fn start(
        &mut self,
        folder: &Path,
        reader: &RangeReader,
        has_moved: impl Fn(&NodeName) -> bool + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        for (receiver, counts) in &self.receivers {
            let failed =
                |problem: String| Failure::usage(format!("remote_write '{}': {problem}", receiver.name));
            for pattern in unknown(&receiver.settings.patterns, &gatherer::metrics()) {
                tracing::warn!(
                    "remote_write '{}': match '{pattern}' selects no metric of this khz (`khz catalog` lists them): nothing of it is sent",
                    receiver.name
                );
            }
            let folder = folder.join(FOLDER);
            let opening = Opening::of(&folder, &receiver.name).map_err(|error| failed(sentence(&error)))?;
            let connections = [Place::new(receiver), Place::new(receiver)];
            let [one, two] = connections.map(|place| place.map_err(&failed));
            let connections = [one?, two?];
            let world = Daemon::new(receiver.name.clone(), self.is_over.clone());
            let (reader, counts, has_moved) = (reader.clone(), counts.clone(), has_moved.clone());
            let (settings, is_over) = (receiver.settings.clone(), self.is_over.clone());
            let thread = std::thread::Builder::new().name("remote".into()).spawn(move || {
                let Some(cursors) = opening.wait(&folder, &world, &counts) else { return };
                let feed = Feed::new(&reader, cursors, settings, counts.clone()).asking(Box::new(has_moved));
                Sender::new(feed, connections, world, counts, is_over).run();
            });
            let thread = thread.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// What each of them counts.
    pub fn counts(&self) -> Vec<(Series, Arc<AtomicU64>)> {
        let of = |(receiver, counts): &(RemoteWrite, Arc<Counts>)| numbers::of(&receiver.name, counts);
        self.receivers.iter().flat_map(of).collect()
    }
}

/// The patterns that match none of these metrics, and no metric that a job or a rule may create.
fn unknown<'a>(patterns: &'a [Pattern], metrics: &[Arc<Metric>]) -> Vec<&'a Pattern> {
    let may_be_made = |pattern: &Pattern| {
        let text = pattern.to_string();
        let metric = text.split('[').next().and_then(|text| text.rsplit(':').next()).unwrap_or_default();
        metric.starts_with(JOBS) || pattern.matches_metric(recorded::METRIC)
    };
    let is_known = |pattern: &Pattern| metrics.iter().any(|metric| pattern.matches_metric(&metric.name));
    patterns.iter().filter(|pattern| !is_known(pattern) && !may_be_made(pattern)).collect()
}

/// What senders count, for the page of metrics.
#[cfg(test)]
pub fn counts() -> Vec<(Series, Arc<AtomicU64>)> {
    numbers::of("victoria-8428", &Counts::default())
}

impl Drop for RemoteWriters {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.threads.iter().map(JoinHandle::thread).for_each(Thread::unpark);
        // A running request may take as long as its timeout, so nothing waits for it. Samples that were not acknowledged are sent
        // after the next start.
    }
}

/// The clock, the log, and pauses that end with the daemon.
struct Daemon {
    name: String,
    is_over: Arc<AtomicBool>,
    begin: Instant,
    /// For each topic.
    told: Mutex<[Repeats; 3]>,
}

impl Daemon {
    fn new(name: String, is_over: Arc<AtomicBool>) -> Self {
        Daemon { name, is_over, begin: Instant::now(), told: Mutex::default() }
    }
}

impl World for Daemon {
    fn now(&self) -> Nanos {
        now()
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over.load(Ordering::Acquire) {
                return;
            }
            std::thread::park_timeout(left.min(Duration::from_secs(1)));
        }
    }

    fn chance(&self) -> f64 {
        let mut bytes = [0; 4];
        // Without random bytes, the pauses are only less spread.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    }

    fn tell(&self, topic: Topic, problem: &str) {
        let now = Nanos(self.begin.elapsed().as_nanos() as u64);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = told[topic as usize].happened(now) {
            tracing::warn!("remote_write '{}': {problem}{times}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_selects_nothing_is_known_before_nothing_is_sent() {
        let patterns = "*, load.1m, n[1,2]:net.*, job.queue.delay, recorded[a%3A*], zzz.nope, n1:zzz.*";
        let patterns = Pattern::list(patterns).unwrap();
        let shown: Vec<String> =
            unknown(&patterns, &gatherer::metrics()).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["zzz.nope", "n1:zzz.*"]);
    }
}
