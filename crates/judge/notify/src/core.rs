//! The common interface of both kinds of ways: a state that takes alerts and times, and says what to send and when. It does no I/O,
//! so a test can simulate days in no time.

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::hour::Sent;
use crate::known::Known;
use crate::now::Now;

/// The state of a way.
pub(crate) trait Core: Send + 'static {
    /// What is sent at a time.
    type Job: Send;

    /// Takes the newest state of an alert.
    fn take(&mut self, told: &mut Told<'_>, now: Now);

    /// All alerts of a pass were taken. Alerts that no pass has listed for long are no longer judged.
    fn end_of_pass(&mut self, now: Now);

    /// When something is due, on the steady clock; `None`: not before something new is taken.
    fn due(&self) -> Option<u64>;

    /// The next job, if it is time to send it.
    fn next(&mut self, now: Now) -> Option<Self::Job>;

    /// What came of it.
    fn done(&mut self, job: Self::Job, answer: &Answer, now: Now);

    /// Alerts of a job.
    fn alerts(job: &Self::Job) -> u64;

    /// The labels of its alert, for the log; `None`: it has several.
    fn only_alert(_job: &Self::Job) -> Option<&Labels> {
        None
    }

    /// The job is sent again in parts, so that only the unwanted alerts are refused.
    fn is_parted(_job: &Self::Job, _answer: &Answer) -> bool {
        false
    }

    /// The other side refuses something that still must be sent.
    fn has_refused(&self) -> bool {
        false
    }

    /// Alerts that wait to be sent, and alerts that were dropped since the last call.
    fn numbers(&mut self) -> (u64, u64);

    /// What people believe to fire, or may believe to fire. Empty for a way that resends alerts in any case.
    fn records(&mut self) -> Vec<Record> {
        Vec::new()
    }

    /// Another hub has told people this.
    fn adopt(&mut self, _record: Record, _now: Now) {}

    /// Another hub sends messages about these alerts from now on. They are forgotten without a message.
    fn release(&mut self, is_meant: &dyn Fn(&Labels) -> bool);

    /// What must survive a restart, if it has changed since the last call.
    fn record(&mut self, _now: Now) -> Option<Kept> {
        None
    }
}

/// The state of a way that survives a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub records: Vec<Record>,
    /// The messages of this hour; `None`: there were none.
    pub sent: Option<Sent>,
}

impl From<Vec<Record>> for Kept {
    fn from(records: Vec<Record>) -> Self {
        Kept { records, sent: None }
    }
}

/// The state of one alert that survives a restart: people know that it fires, or may know it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub alert: std::sync::Arc<Alert>,
    /// When people were told, in ms since 1970.
    pub told_at: i64,
    /// A message about it may have arrived or not.
    pub is_unsure: bool,
    /// The message was refused for good, so people know nothing of the alert.
    pub is_refused: bool,
}

impl Record {
    /// What people know.
    pub fn known(&self) -> Known {
        Known { told_at: Some(self.told_at), is_unsure: self.is_unsure, is_refused: self.is_refused }
    }
}

/// An alert that the judge has not listed in this time of passes, in ms, is no longer judged: its rule is gone, or its series were
/// lost in a restart.
pub(crate) const UNHEARD_MAX: u64 = 15 * 60_000;
/// The time between two searches for such alerts, in ms.
const SEARCH_EVERY: u64 = 60_000;
/// A longer pause between two passes, in ms, does not count as time of passes: the judge stood still, so its silence means nothing.
const PASS_EVERY_MAX: u64 = 60_000;

/// The time of passes.
#[derive(Debug)]
pub(crate) struct Passes {
    /// How long the judge has judged, in ms.
    pub time: u64,
    last: u64,
    searched: u64,
}

impl Passes {
    /// None yet.
    pub fn new(now: Now) -> Self {
        Passes { time: 0, last: now.steady, searched: 0 }
    }

    /// A pass has ended. Returns true if it is time to search for alerts that no pass lists.
    pub fn ended(&mut self, now: Now) -> bool {
        self.time += now.steady.saturating_sub(self.last).min(PASS_EVERY_MAX);
        self.last = now.steady;
        let is_due = self.time >= self.searched + SEARCH_EVERY;
        if is_due {
            self.searched = self.time;
        }
        is_due
    }
}
/// A resolved alert is repeated for this long, in ms, as Prometheus does.
pub(crate) const RESOLVED_KEPT: u64 = 15 * 60_000;
