//! A message to people: the firing and resolved alerts of one name, or a summary if there are too many messages. It does not know
//! how the message is sent.

use std::sync::Arc;

use crate::alert::{ALERT_NAME, Alert, Labels};

/// The content of one message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The name that its alerts have in common; `None`: a summary of many names.
    pub name: Option<Arc<str>>,
    /// Alerts that fire now.
    pub firing: u64,
    /// Alerts that were resolved since the last message.
    pub resolved: u64,
    /// Some of its alerts, new ones first. In a summary, each stands for a name.
    pub alerts: Vec<Arc<Alert>>,
    /// The number of alerts, or of names in a summary, that are not in `alerts`.
    pub left_out: u64,
    /// Nothing is new: the message is a reminder.
    pub is_repeat: bool,
    /// When it was made, in ms since 1970.
    pub at: i64,
}

impl Message {
    /// True if something fires.
    pub fn is_firing(&self) -> bool {
        self.firing > 0
    }

    /// One line that says what it is about.
    pub fn title(&self) -> String {
        let name = match &self.name {
            Some(name) if name.is_empty() => "an alert without a name",
            Some(name) => name,
            None => "many alerts",
        };
        let again = if self.is_repeat { ", still" } else { "" };
        match (self.firing, self.resolved) {
            (0, resolved) => format!("[RESOLVED: {resolved}] {name}"),
            (firing, 0) => format!("[FIRING: {firing}{again}] {name}"),
            (firing, resolved) => format!("[FIRING: {firing}, resolved: {resolved}] {name}"),
        }
    }

    /// The labels that all of its alerts have in common.
    pub fn common_labels(&self) -> Labels {
        self.common(|alert| &alert.labels)
    }

    /// The annotations that all of its alerts have in common.
    pub fn common_annotations(&self) -> Labels {
        self.common(|alert| &alert.annotations)
    }

    fn common(&self, of: impl Fn(&Alert) -> &Labels) -> Labels {
        let mut alerts = self.alerts.iter();
        let mut common = alerts.next().map_or_else(Labels::new, |alert| of(alert).clone());
        for alert in alerts {
            common.retain(|name, value| of(alert).get(name) == Some(value));
        }
        common
    }
}

/// The alert of a summary that stands for all of this name.
pub(crate) fn summary_alert(name: &str, firing: u64, resolved: u64, now: i64) -> Arc<Alert> {
    let text = format!("{firing} fire, {resolved} were resolved");
    Arc::new(Alert {
        labels: [(ALERT_NAME.to_owned(), name.to_owned())].into(),
        annotations: [("summary".to_owned(), text)].into(),
        starts_at: now,
        ends_at: (firing == 0).then_some(now),
        ..Alert::default()
    })
}
