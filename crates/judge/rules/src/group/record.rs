//! The samples of rules: recorded series, and the states of alerts as series.

use std::collections::BTreeSet;
use std::sync::Arc;

use khz_promql::{LabelSet, METRIC_NAME, VectorSample};

use super::Recorded;
use crate::alert::{ALERT_NAME, Alert};

/// The series of active alerts.
const ALERTS: &str = "ALERTS";
/// The series with the time since when an alert is active.
const ALERTS_FOR_STATE: &str = "ALERTS_FOR_STATE";
/// The label with what an alert does.
const ALERT_STATE: &str = "alertstate";

/// The series of a result under the name and with the labels of a rule.
pub(super) fn record(
    name: &Arc<str>,
    labels: &[(Arc<str>, Arc<str>)],
    vector: Vec<VectorSample>,
    time: i64,
    limit: Option<usize>,
) -> Result<Vec<Recorded>, String> {
    let named = |sample: VectorSample| {
        let own = sample.labels.iter().map(|(name, value)| (name.clone(), value.clone()));
        let all = own.chain([(Arc::from(METRIC_NAME), name.clone())]).chain(labels.iter().cloned());
        Recorded { labels: LabelSet::new(all), time, value: sample.value }
    };
    let samples: Vec<Recorded> = vector.into_iter().map(named).collect();
    let mut seen = BTreeSet::new();
    if !samples.iter().all(|sample| seen.insert(&sample.labels)) {
        return Err(String::from(
            "vector contains metrics with the same labelset after applying rule labels",
        ));
    }
    match limit.filter(|limit| samples.len() > *limit) {
        Some(limit) => Err(format!("exceeded limit of {limit} with {} series", samples.len())),
        None => Ok(samples),
    }
}

/// The two series of an active alert.
pub(super) fn states(name: &Arc<str>, alert: &Alert, time: i64) -> [Recorded; 2] {
    let labels = alert.labels.with(ALERT_NAME, name);
    let state = labels.with(METRIC_NAME, ALERTS).with(ALERT_STATE, alert.state.as_str());
    let since = labels.with(METRIC_NAME, ALERTS_FOR_STATE);
    let seconds = alert.active_at.div_euclid(1_000) as f64;
    [Recorded { labels: state, time, value: 1.0 }, Recorded { labels: since, time, value: seconds }]
}
