//! The thread that finds jobs that were not announced. It reads the control groups of all nodes every ten seconds. A batch system
//! that announces its jobs is faster and knows more, so its word wins.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use khz_job::{Jobs, Seen};
use khz_model::{Nanos, Pattern, Query, Reading};

use crate::show::outcome::{Failure, sentence};

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// What groups of jobs are called, with those of their steps.
const GROUPS: &str = "cgroup.info[slurm/*]";

/// The running thread; it ends when this is dropped.
pub struct SeenJobs {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SeenJobs {
    /// Starts to look.
    pub fn start(jobs: Arc<Jobs>, query: Arc<dyn Query>) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = std::thread::Builder::new().name("jobs".into()).spawn(move || {
            let (mut seen, mut failed) = (Seen::default(), None);
            while !is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK);
                let looked = look(&jobs, &*query, &mut seen).map_err(|error| sentence(&error)).err();
                // Once is enough: a disk that is full stays full for a while.
                if let Some(error) = looked.as_ref().filter(|_| failed.is_none()) {
                    tracing::warn!("jobs that control groups show are not kept: {error}");
                }
                failed = looked;
            }
        });
        let thread =
            thread.map_err(|error| Failure::work(format!("cannot start to look for jobs: {error}")))?;
        Ok(SeenJobs { stop, thread: Some(thread) })
    }
}

impl Drop for SeenJobs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

/// Looks once.
fn look(jobs: &Jobs, query: &dyn Query, seen: &mut Seen) -> Result<(), khz_job::JobError> {
    let patterns: Vec<Pattern> = Pattern::new(GROUPS).into_iter().collect();
    let mut latest = pin!(query.latest(&patterns, Nanos(u64::MAX)));
    // A hub answers at once, from its memory.
    let Poll::Ready(answer) = latest.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        return Ok(());
    };
    let nodes = answer.map(|snapshot| snapshot.nodes).unwrap_or_default();
    let named = nodes.iter().flat_map(|(node, samples)| {
        let is_there = |reading: Reading| matches!(reading, Reading::Labels(_) | Reading::Present(_));
        let there = samples.iter().filter(move |sample| is_there(sample.reading));
        there.filter_map(move |sample| Some((node, sample.series.instance.as_ref()?.primary()?)))
    });
    let named: Vec<_> = named.collect();
    // The last row of a node that is down says nothing about now.
    let up: HashSet<_> = match named.is_empty() {
        true => HashSet::new(),
        false => query.status().into_iter().filter(|status| status.up).map(|status| status.node).collect(),
    };
    let groups = named.into_iter().filter(|(node, _)| up.contains(*node));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    seen.take(jobs, groups.map(|(node, group)| (node.as_str(), group)), now)
}
