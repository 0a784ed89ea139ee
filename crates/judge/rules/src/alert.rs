//! An alert: its state, since when, and its possible changes. `alerts.rs` decides how it changes.

use std::sync::Arc;

use khz_promql::LabelSet;

/// The label with the name of an alert.
pub const ALERT_NAME: &str = "alertname";

/// How long a resolved alert is kept (ms), as in Prometheus. A sender may need this long to be sure that the message arrived.
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
    /// The labels that identify it, including its name ([`ALERT_NAME`]).
    pub labels: LabelSet,
    /// What people read, sorted by name.
    pub annotations: Arc<[(Arc<str>, String)]>,
    /// The last value of its series.
    pub value: f64,
    /// Since when its series is there.
    pub active_at: i64,
    /// Since when it fires.
    pub fired_at: Option<i64>,
    /// Since when it fires according to this hub's own evaluations: later than `fired_at` if another hub saw it earlier, and `None`
    /// while only that hub did. It never changes while the alert fires, so several hubs can see which of them was first.
    pub fired_here_at: Option<i64>,
    /// When it was resolved.
    pub resolved_at: Option<i64>,
    /// When it was last resolved before it became active again. Two hubs compare it to find out whether they mean the same firing.
    pub ended_before: Option<i64>,
    /// Since when it fires only because of `keep_firing_for`.
    pub keep_firing_since: Option<i64>,
    /// Its nodes had gone to another hub when it lost its series, so it may go on there. If it is resolved, then only here, and the
    /// firing has not ended.
    pub went_on: bool,
}

impl Alert {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        // Two pointers, and the counts of their texts.
        let text = |name: &str, value: &str| 4 * size_of::<Arc<str>>() + name.len() + value.len();
        let labels: usize = self.labels.iter().map(|(name, value)| text(name, value)).sum();
        let annotations: usize = self.annotations.iter().map(|(name, value)| text(name, value)).sum();
        size_of::<Alert>() + labels + annotations
    }

    /// When it was last resolved, as far as known. An alert that went on elsewhere has not ended.
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
    /// Its series is gone, and it fires on because of `keep_firing_for`. Nobody gets a message, but the time must be saved.
    KeepsFiring,
    /// It still fires, and its series is back.
    Returned,
}
