//! Events that last as long as a series is there: alerts that fire, and lanes that were opened for somebody.

use khz_model::exposed::{INSTANCE, JOB};
use khz_promql::{LabelSet, METRIC_NAME, is_stale};

use crate::events::list::List;
use crate::events::{Event, EventKind, Watch};
use crate::limits::{EVENT_TEXT_CHARS_MAX, EVENTS_EARLIER};

/// How lanes are called that nobody has without asking for them.
const LANES: [&str; 2] = ["boost", "channel."];

/// A span that goes on.
#[derive(Debug)]
struct Open {
    begin: i64,
    is_earlier: bool,
    text: String,
}

impl Open {
    /// It begins with this sample. One that comes soon after the time from which on samples are read may not be the first one.
    fn new(begin: i64, after: i64, text: String) -> Self {
        Open { begin, is_earlier: begin.saturating_sub(after) <= EVENTS_EARLIER / 2, text }
    }

    fn close(self, kind: EventKind, end: Option<i64>, list: &mut List) {
        let Open { begin, is_earlier, text } = self;
        list.push(Event { kind, begin, end, is_earlier, text });
    }
}

/// `ALERTS` of one alert while it fires.
#[derive(Debug)]
pub(super) struct AlertSpans {
    text: String,
    after: i64,
    open: Option<Open>,
}

impl AlertSpans {
    /// For the series with these labels, if it is of an alert that fires.
    pub fn of(labels: &LabelSet, after: i64) -> Option<Self> {
        (labels.get("alertstate") == "firing").then(|| AlertSpans { text: told(labels), after, open: None })
    }
}

impl Watch for AlertSpans {
    fn sample(&mut self, time: i64, value: f64, list: &mut List) {
        if !is_stale(value) {
            self.open.get_or_insert_with(|| Open::new(time, self.after, self.text.clone()));
        } else if let Some(open) = self.open.take() {
            open.close(EventKind::Alert, Some(time), list);
        }
    }

    fn finish(self, list: &mut List) {
        if let Some(open) = self.open {
            open.close(EventKind::Alert, None, list);
        }
    }
}

/// "DiskFull (critical) mountpoint=/var"
fn told(labels: &LabelSet) -> String {
    let mut text = labels.get("alertname").to_owned();
    let severity = labels.get("severity");
    if !severity.is_empty() {
        text.push_str(&format!(" ({severity})"));
    }
    let known = [METRIC_NAME, INSTANCE, JOB, "alertname", "alertstate", "severity"];
    for (name, value) in labels.iter().filter(|(name, _)| !known.contains(&&***name)) {
        text.push_str(&format!(" {name}={value}"));
    }
    match text.char_indices().nth(EVENT_TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The period of one lane that somebody has asked for.
#[derive(Debug)]
pub(super) struct BoostSpans {
    lane: String,
    after: i64,
    period: f64,
    open: Option<Open>,
}

impl BoostSpans {
    /// For the series with these labels, if it is of such a lane.
    pub fn of(labels: &LabelSet, after: i64) -> Option<Self> {
        let lane = labels.get("lane");
        let is_asked_for = LANES.iter().any(|name| lane.starts_with(name));
        is_asked_for.then(|| BoostSpans { lane: lane.to_owned(), after, period: 0.0, open: None })
    }

    fn close(&mut self, end: Option<i64>, list: &mut List) {
        if let Some(open) = self.open.take() {
            open.close(EventKind::Boost, end, list);
        }
    }
}

impl Watch for BoostSpans {
    fn sample(&mut self, time: i64, value: f64, list: &mut List) {
        // A lane with another rate is another one, also if it has the same name.
        if is_stale(value) || value != self.period {
            self.close(Some(time), list);
        }
        if !is_stale(value) && self.open.is_none() {
            self.period = value;
            let text = format!("{}: {}", self.lane, rate(value));
            self.open = Some(Open::new(time, self.after, text));
        }
    }

    fn finish(mut self, list: &mut List) {
        self.close(None, list);
    }
}

/// How often a lane with this period (s) has a row.
fn rate(period: f64) -> String {
    match period > 0.0 && period <= 1.0 {
        true => format!("{:.0} Hz", 1.0 / period),
        false => format!("a row every {period} s"),
    }
}
