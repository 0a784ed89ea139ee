//! The thread that evaluates. It runs the query and the templates of one rule at a time, which may take minutes. The thread that
//! judges passes it a rule, and handles the rows of nodes meanwhile. It changes nothing, and decides nothing.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use khz_promql::Engine;
use khz_rules::{Answered, Asking, RuleId};

use super::turns::Turn;
use crate::show::outcome::Failure;

/// A rule that is to be evaluated.
pub(super) struct Job {
    pub id: RuleId,
    /// The pass of its group.
    pub turn: Turn,
    pub asking: Asking,
    pub engine: Engine,
}

/// A rule that was evaluated.
pub(super) struct Done {
    pub id: RuleId,
    pub turn: Turn,
    pub answered: Answered,
    pub took: Duration,
}

/// The thread.
pub(super) struct Asker {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    /// Starts it. It wakes the thread that judges when a rule is evaluated.
    pub fn start(judge: Thread) -> Result<Self, Failure> {
        let (jobs, work) = sync_channel::<Job>(1);
        let (results, done) = sync_channel(1);
        let work = move || {
            while let Ok(Job { id, turn, asking, engine }) = work.recv() {
                let begin = Instant::now();
                let answered = asking.ask(&turn.passing, &engine, &turn.source, &mut || begin.elapsed());
                if results.send(Done { id, turn, answered, took: begin.elapsed() }).is_err() {
                    break;
                }
                judge.unpark();
            }
        };
        let thread = std::thread::Builder::new().name("rules-query".into()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::work(format!("cannot start to evaluate rules: {error}")))?;
        Ok(Asker { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// Starts the evaluation of a rule. Only one runs at a time.
    pub fn begin(&self, job: Job) {
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        assert_eq!(sent, Some(true), "BUG: the thread that evaluates rules has ended");
    }

    /// The rule that was evaluated; `None`: it still runs.
    pub fn done(&self) -> Option<Done> {
        match self.done.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("BUG: the thread that evaluates rules has ended"),
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}
