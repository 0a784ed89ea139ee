//! The results of an evaluation, or of a node's word: logs and records them, and turns them into alerts for people.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use khz_hub::RecordedSeries;
use khz_notify::Labels;
use khz_promql::LabelSet;
use khz_rules::limits::{LOGGED_ERROR_BYTES_MAX, LOGGED_VALUE_BYTES_MAX};
use khz_rules::{Alert, Change, Group, Pass, RuleId};

use super::groups::Unfit;
use super::numbers::Numbers;

/// The most changes of alerts that are logged for each evaluation. One line counts the others.
pub(super) const LOGGED_MAX: usize = 20;

/// How often a lasting problem is logged.
pub(super) const REPEATED_AFTER: Duration = Duration::from_secs(60);

/// An evaluation, with the group's name for those who record it.
pub(super) struct Passed {
    /// The number of the group.
    pub number: usize,
    pub name: String,
    pub group: Arc<Group>,
    pub pass: Pass,
    /// All rules were evaluated.
    pub is_whole: bool,
}

/// When a lasting problem of a group was logged last.
#[derive(Default)]
pub(super) struct Complaint(Option<Instant>);

impl Complaint {
    /// True if it is time to log it.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|logged| logged.elapsed() >= REPEATED_AFTER);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }

    /// The problem is over. True if there was one.
    pub fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// A text for the log, not longer than a line may be.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(LOGGED_ERROR_BYTES_MAX);
    match end < text.len() {
        true => format!("{}... ({} bytes)", &text[..end], text.len()),
        false => text.to_owned(),
    }
}

/// The labels of an alert for the log. Each long value is cut, so that there is room for the others.
pub(super) fn shown_labels(labels: &LabelSet) -> String {
    let shown = labels.iter().map(|(name, value)| {
        let end = value.floor_char_boundary(LOGGED_VALUE_BYTES_MAX);
        let more = if end < value.len() { "..." } else { "" };
        (name.clone(), format!("{}{more}", &value[..end]))
    });
    bounded(&khz_promql::label_text(&LabelSet::new(shown)))
}

/// `1 rule`, `2 rules`.
pub(super) fn number(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The name under which a group's series are recorded: two files may have a group of the same name.
pub(super) fn name_of(group: &Group) -> String {
    format!("{};{}", group.file, group.name)
}

impl Passed {
    /// Logs which alerts have changed, and which rules fail with a new error.
    pub fn log(&self, errors: &mut Vec<Option<String>>) {
        self.log_alerts();
        if self.is_whole {
            self.log_errors(errors);
        }
    }

    fn log_alerts(&self) {
        let changed = self.pass.alerts.iter().filter_map(|passed| Some((&passed.alert, passed.change?)));
        // Alerts that only go on firing do not use up the lines for other changes.
        let (kept, changed): (Vec<_>, Vec<_>) =
            changed.partition(|(_, change)| matches!(change, Change::KeepsFiring | Change::Returned));
        for (alert, change) in kept.iter().take(LOGGED_MAX).chain(changed.iter().take(LOGGED_MAX)) {
            let labels = shown_labels(&alert.labels);
            match change {
                Change::Pending => tracing::debug!("alert {labels} is pending"),
                Change::Fired => tracing::warn!("alert {labels} fires, at {}", alert.value),
                Change::Resolved => tracing::info!("alert {labels} is resolved"),
                Change::Dropped => tracing::debug!("alert {labels} is not pending any more"),
                Change::KeepsFiring => {
                    tracing::debug!("the series of alert {labels} is gone; it fires on for keep_firing_for");
                }
                Change::Returned => tracing::debug!("the series of alert {labels} is back; it still fires"),
            }
        }
        if changed.len() > LOGGED_MAX {
            tracing::warn!(
                "group {}: {} more alerts have changed",
                self.group.name,
                changed.len() - LOGGED_MAX
            );
        }
    }

    fn log_errors(&self, errors: &mut Vec<Option<String>>) {
        for (at, (rule, report)) in self.group.rules.iter().zip(&self.pass.rules).enumerate() {
            let known = errors.get(at).and_then(Option::as_ref);
            match &report.error {
                Some(error) if Some(error) != known => {
                    tracing::warn!(
                        "rule {} of group {} fails: {}",
                        rule.name,
                        self.group.name,
                        bounded(error)
                    );
                }
                None if known.is_some() => {
                    tracing::warn!("rule {} of group {} does not fail any more", rule.name, self.group.name);
                }
                _ => {}
            }
        }
        *errors = self.pass.rules.iter().map(|report| report.error.clone()).collect();
    }

    /// The rules that no node can judge, according to this evaluation.
    pub fn unfit(&self) -> impl Iterator<Item = Unfit> {
        self.pass.rules.iter().enumerate().filter_map(|(rule, report)| {
            let (node, why) = report.unfit.clone()?;
            Some(Unfit { id: RuleId { group: self.number, rule }, node, why })
        })
    }

    /// Records what the rules gave.
    pub fn record(&self, recorded: &RecordedSeries, numbers: &Numbers, complaint: &mut Complaint) {
        if !self.is_whole {
            return;
        }
        // This also holds for a pass without samples. At the time of the pass, the end would come before the next samples of a
        // group with a `query_offset`, which are older.
        let time = self.pass.queried;
        let samples: Vec<(LabelSet, f64)> =
            self.pass.samples.iter().map(|sample| (sample.labels.clone(), sample.value)).collect();
        match recorded.append(&self.name, time, &samples) {
            Ok(appended) => {
                numbers.refused.fetch_add(appended.refused as u64, Ordering::Relaxed);
                if let Some(problem) = appended.problem.filter(|_| complaint.is_due()) {
                    tracing::warn!(
                        "group {}: {} samples were not recorded: {problem}",
                        self.group.name,
                        appended.refused
                    );
                }
            }
            Err(error) => {
                numbers.refused.fetch_add(samples.len() as u64, Ordering::Relaxed);
                if complaint.is_due() {
                    tracing::warn!("{error}");
                }
            }
        }
    }

    /// Firing and resolved alerts, for messages and actions.
    pub fn alerts(&self, external_url: &str) -> Vec<khz_notify::Alert> {
        self.pass
            .alerts
            .iter()
            .filter(|passed| passed.alert.fired_at.is_some())
            .map(|passed| for_people(&passed.alert, &self.group.rules[passed.rule].expr, external_url))
            .collect()
    }
}

/// An alert in the form for messages and actions.
pub(super) fn for_people(alert: &Alert, expr: &str, external_url: &str) -> khz_notify::Alert {
    let annotations = alert.annotations.iter().map(|(name, value)| (name.to_string(), value.clone()));
    khz_notify::Alert {
        labels: texts(&alert.labels),
        annotations: annotations.collect(),
        starts_at: alert.fired_at.unwrap_or(alert.active_at),
        fired_here_at: alert.fired_here_at,
        ended_before: alert.ended_before,
        went_on: alert.went_on,
        waits_since: None,
        ends_at: alert.resolved_at,
        generator_url: if expr.is_empty() { String::new() } else { link(external_url, expr) },
    }
}

/// Labels in the form for messages.
pub(super) fn texts(labels: &LabelSet) -> Labels {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The page of an expression.
fn link(external_url: &str, expr: &str) -> String {
    let mut link = format!("{external_url}/#query?expr=");
    for byte in expr.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                link.push(char::from(byte))
            }
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_logged_once_a_minute_and_a_long_error_is_cut_between_characters() {
        let mut complaint = Complaint::default();
        assert_eq!([complaint.is_due(), complaint.is_due()], [true, false]);
        assert_eq!(bounded("short"), "short");
        let long = "ü".repeat(LOGGED_ERROR_BYTES_MAX);
        let cut = bounded(&long);
        assert!(cut.len() < LOGGED_ERROR_BYTES_MAX + 32 && cut.ends_with("... (2048 bytes)"), "{cut}");
    }

    #[test]
    fn samples_that_are_older_than_their_pass_are_recorded_also_after_passes_without_any() {
        const BEGIN: i64 = 1_700_000_000_000;
        let rules = "groups: [{name: g, query_offset: 10s, rules: [{record: r, expr: a}]}]";
        let set = khz_rules::RuleSet::parse(std::path::Path::new("a.yml"), rules.as_bytes()).unwrap();
        let group = set.groups().next().unwrap().clone();
        let settings = khz_hub::Settings {
            name: "hub".into(),
            history: khz_model::ByteSize(0),
            rate_max: khz_model::Rate::from_hz(1_000).unwrap(),
        };
        let recorded = RecordedSeries::new(khz_hub::Cluster::new(settings, [7; 16]));
        let mut evaluator = khz_rules::Evaluator::new(group.clone(), Arc::default());
        let engine = khz_promql::Engine::new(khz_promql::Limits::default());
        let numbers = Numbers::default();
        // Its series is there in every second of these passes: an episode may be as short as a pass.
        for number in 0..8_i64 {
            let time = BEGIN + 5_000 * number;
            let mut source = khz_rules::Memory::default();
            if number % 2 == 1 {
                let labels = LabelSet::new([("__name__", "a"), ("x", "1")]);
                source.add(&labels, time - 10_000, 1.0);
            }
            let pass = evaluator.evaluate(&engine, &source, time, &mut || Duration::ZERO);
            assert_eq!((pass.time, pass.queried), (time, time - 10_000));
            let (name, group) = (name_of(&group), group.clone());
            let passed = Passed { number: 0, name, group, pass, is_whole: true };
            passed.record(&recorded, &numbers, &mut Complaint::default());
        }
        assert_eq!(numbers.refused.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn labels_of_any_length_are_a_short_line_of_the_log() {
        let labels = LabelSet::new([("a", "é".repeat(30_000)), ("alertname", "A".to_owned())]);
        let shown = shown_labels(&labels);
        assert!(shown.ends_with("é...\", alertname=\"A\"}"), "{shown}");
        assert!(shown.len() < 256, "{shown}");
        let many = LabelSet::new((0..64).map(|number| (format!("label{number}"), "v".repeat(60_000))));
        assert!(shown_labels(&many).len() < LOGGED_ERROR_BYTES_MAX + 32);
        let short = LabelSet::new([("alertname", "A"), ("instance", "n1")]);
        assert_eq!(shown_labels(&short), khz_promql::label_text(&short));
    }
}
