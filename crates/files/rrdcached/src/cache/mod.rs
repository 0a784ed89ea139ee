//! The cache: updates wait in memory, survive in the log, and reach their files in rounds. [`Cache`] is what connections,
//! writers and the recorder call; its state is made of parts that take no lock and do no I/O.
//!
//! | part | owns |
//! |---|---|
//! | [`backlog`] | what is known of each file, its waiting samples, the log segments that hold them |
//! | [`queue`], [`retries`] | which files are to be written, in which order; those that failed |
//! | [`writes`] | which writes are in progress, and whether another may begin |
//! | [`torn`] | headers still to be put back |
//! | [`replay`] | what waits until the log of an earlier run is read |
//! | [`counters`] | events counted for STATS |
//! | [`schedule`] | when a file is due |
//!
//! A change of the state returns its follow-up actions as [`Effects`], and [`Cache::carry_out`] performs them.
//!
//! | operation | does |
//! |---|---|
//! | [`update`] | takes updates: memory, log, answer |
//! | [`rounds`] | writes queued files, and one at once for FLUSH |
//! | [`claim`] | gives one caller the sole right to a file: view, forget, replace, change |
//! | [`checkpoint`] | syncs disks, so that the log's segments may go |
//! | [`upkeep`] | once a second: sweeps, limits |
//! | [`recovery`] | reads the log of an earlier run, puts headers back |
//! | [`copy_forward`], [`rebuild`] | log again what cannot be written, or what a lost log had |

mod backlog;
mod checkpoint;
mod claim;
mod copy_forward;
mod counters;
mod effects;
mod images;
mod job;
mod queue;
mod rebuild;
mod recovery;
mod replay;
mod retries;
mod rounds;
pub mod sample;
mod schedule;
mod shared;
mod state;
mod torn;
mod update;
mod upkeep;
mod writes;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use khz_rrd::error::{Error, Result};

pub use backlog::{FileFacts, FileId, Shape};
pub use claim::View;
pub use counters::Stats;
use effects::Effects;
pub use job::{Job, Written};
use replay::Replay;
pub use schedule::Limits;
use shared::Shared;
use state::State;
pub use update::Update;
pub use writes::End;

use crate::base::Base;
use crate::disk::DiskFiles;
use crate::log::{Log, Ticket};
use crate::messages::Messages;

/// The cache of all files.
pub struct Cache {
    shared: Shared,
    files: DiskFiles,
    log: Option<Arc<Log>>,
    limits: Limits,
    messages: Arc<Messages>,
    /// Held while the log is rebuilt; true after a message has said that it is gone.
    rebuilding: Mutex<bool>,
    started: Instant,
}

impl Cache {
    /// An empty cache. With a log, `replaying` says that its older segments are going to be replayed.
    pub fn new(base: Base, limits: Limits, log: Option<Log>, replaying: bool, messages: Messages) -> Self {
        let (log, messages) = (log.map(Arc::new), Arc::new(messages));
        let state = State { replay: Replay::new(replaying), ..State::default() };
        Self {
            shared: Shared::new(state),
            files: DiskFiles::new(base, limits.open_max, log.clone(), messages.clone()),
            log,
            limits,
            messages,
            rebuilding: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// What names mean here.
    pub fn base(&self) -> &Base {
        self.files.base()
    }

    /// Tells the administrator of `error`.
    pub fn report(&self, error: &Error) {
        self.messages.error(&error.to_string());
    }

    /// The numbers of STATS.
    pub fn stats(&self) -> Stats {
        let mut state = self.lock();
        let counters = state.counters;
        let counts = self.log.as_ref().map(|log| log.counts()).unwrap_or_default();
        Stats {
            queue: state.queue.len() as u64,
            received: counters.received,
            flushes: counters.flushes,
            updates_written: counters.writes,
            sets_written: counters.samples_written,
            files: state.backlog.len() as u64,
            waiting: state.waiting(),
            age: u64::from(state.backlog.age(self.now())),
            memory: state.memory(),
            failures: counters.failures,
            failed_now: state.queue.failed_count() as u64,
            refused: counters.refused,
            log: self.log.as_ref().map_or(0, |log| log.bytes()),
            replaying: u64::from(state.replay.is_running()),
            log_written: counts.bytes,
            log_rotations: counts.rotations,
            is_log_in_trouble: self.log_trouble().is_some(),
        }
    }

    /// Why the log takes nothing at present, or lets nothing go.
    pub fn log_trouble(&self) -> Option<String> {
        self.log.as_ref().and_then(|log| log.trouble())
    }

    /// Files whose last write failed because they do not exist; each is returned once a failure.
    pub fn missing(&self) -> Vec<String> {
        let mut state = self.lock();
        let missing = state.queue.missing();
        missing.into_iter().map(|id| state.backlog.name(id).to_string()).collect()
    }

    /// Lets the writers end. A file that cannot be written is tried once more and then left to the log.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        state.writes.end(end);
        if end == End::Written {
            let _ = state.enqueue_all();
        }
        drop(state);
        self.carry_out(effects::Wake::All.into());
    }

    /// Ends the log's work: samples in files are synced and forgotten, and the rest is synced in the log.
    ///
    /// # Errors
    /// The log failed.
    pub fn close(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if !self.lock().replay.is_running() {
            self.checkpoint();
        }
        log.sync_all()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// The daemon's seconds; never 0, which stands for never.
    fn now(&self) -> u32 {
        1 + self.started.elapsed().as_secs() as u32
    }

    /// Does what is to be done after the state has changed. The lock must be free, because closing a file takes time.
    fn carry_out(&self, effects: Effects) {
        self.shared.wake(&effects);
        effects.close.iter().for_each(|id| self.files.close(*id));
        effects.errors.iter().for_each(|text| self.messages.error(text));
        effects.warnings.iter().for_each(|text| self.messages.warning(text));
    }

    /// Returns when what was staged up to `ticket` survives the process.
    ///
    /// # Errors
    /// The log failed; nothing is promised.
    fn commit(&self, ticket: Option<Ticket>) -> Result<()> {
        match (&self.log, ticket) {
            (Some(log), Some(ticket)) => self.commit_or_rebuild(log, ticket),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
