//! An alert: what it does, since when, and what can happen to it. How it goes on is in `alerts.rs`.

use std::sync::Arc;

use khz_promql::LabelSet;

/// The label with the name of an alert.
pub const ALERT_NAME: &str = "alertname";

/// For how long a resolved alert is kept (ms), as in Prometheus: a sender may need that long to be sure that it arrived.
pub const RESOLVED_KEPT: i64 = 15 * 60_000;

/// What an alert does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlertState {
    /// It is resolved.
    Inactive,
    /// Its series is there, but not yet for long enough.
    Pending,
    /// It fires.
    Firing,
}

impl AlertState {
    /// The word for it, as Prometheus has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            AlertState::Inactive => "inactive",
            AlertState::Pending => "pending",
            AlertState::Firing => "firing",
        }
    }
}

/// An alert. Times are ms since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// What it does.
    pub state: AlertState,
    /// What it is known by, its name ([`ALERT_NAME`]) among them.
    pub labels: LabelSet,
    /// What people read, sorted by name.
    pub annotations: Arc<[(Arc<str>, String)]>,
    /// The value of its series when it was there last.
    pub value: f64,
    /// Since when its series is there.
    pub active_at: i64,
    /// Since when it fires.
    pub fired_at: Option<i64>,
    /// Since when it fires by what this hub has judged itself: later than `fired_at` if another hub saw it earlier, and `None` as long
    /// as only that one did. It never changes while the alert fires, so several hubs can tell by it which of them was first.
    pub fired_here_at: Option<i64>,
    /// When it was resolved.
    pub resolved_at: Option<i64>,
    /// When it was resolved the last time before it became active again: two hubs tell by it whether they speak of the same firing.
    pub ended_before: Option<i64>,
    /// Since when it fires only because of `keep_firing_for`.
    pub keep_firing_since: Option<i64>,
    /// Its nodes had gone to another hub when it lost its series, and it may go on there: if it is resolved, then here only, and that
    /// was no end of the firing.
    pub went_on: bool,
}

impl Alert {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        // Two pointers, and what their texts are counted with.
        let text = |name: &str, value: &str| 4 * size_of::<Arc<str>>() + name.len() + value.len();
        let labels: usize = self.labels.iter().map(|(name, value)| text(name, value)).sum();
        let annotations: usize = self.annotations.iter().map(|(name, value)| text(name, value)).sum();
        size_of::<Alert>() + labels + annotations
    }

    /// When it was resolved last, as far as that is known. That it went on elsewhere is no end.
    pub fn last_end(&self) -> Option<i64> {
        match self.state {
            AlertState::Inactive => self.resolved_at.filter(|_| !self.went_on),
            AlertState::Pending | AlertState::Firing => self.ended_before,
        }
    }
}

/// What an evaluation did to an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its series is new, and has to stay for some time.
    Pending,
    /// It fires now.
    Fired,
    /// It does not fire any more.
    Resolved,
    /// It was pending, and its series is gone.
    Dropped,
    /// Its series is gone, and it fires on because of `keep_firing_for`. Nobody is told, but it must be saved since when that is.
    KeepsFiring,
    /// It still fires, and its series is back.
    Returned,
}
