//! Alerts as JSON for other programs: Alertmanager's API v2, and the body of its webhooks, version 4. Times are RFC 3339.

use std::collections::BTreeMap;

use khz_model::Nanos;
use khz_model::calendar::Civil;
use serde::Serialize;

use crate::alert::{ALERT_NAME, Alert, Labels, with_external};
use crate::message::Message;
use crate::queue::Batch;

/// Go's zero time.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// An alert of `POST /api/v2/alerts`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Posted<'a> {
    labels: Texts<'a>,
    annotations: &'a Labels,
    starts_at: String,
    ends_at: String,
    #[serde(rename = "generatorURL", skip_serializing_if = "str::is_empty")]
    generator_url: &'a str,
}

/// The body of `POST /api/v2/alerts`.
pub(crate) fn batch(batch: &Batch, external: &Labels) -> Vec<u8> {
    let alerts = batch.alerts.iter().map(|(_, alert)| {
        let ends_at = alert.ends_at.unwrap_or(batch.believed_until);
        Posted {
            labels: with_external(&alert.labels, external),
            annotations: &alert.annotations,
            starts_at: time(begin(alert, ends_at)),
            ends_at: time(ends_at),
            generator_url: &alert.generator_url,
        }
    });
    json(&alerts.collect::<Vec<_>>())
}

/// An alert of a webhook's body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hooked<'a> {
    status: &'static str,
    labels: Texts<'a>,
    annotations: &'a Labels,
    starts_at: String,
    ends_at: String,
    #[serde(rename = "generatorURL")]
    generator_url: &'a str,
    fingerprint: String,
}

/// A webhook's body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hook<'a> {
    receiver: &'a str,
    status: &'static str,
    alerts: Vec<Hooked<'a>>,
    group_labels: Texts<'a>,
    common_labels: Texts<'a>,
    common_annotations: Labels,
    #[serde(rename = "externalURL")]
    external_url: &'a str,
    version: &'static str,
    group_key: String,
    truncated_alerts: u64,
}

/// The body of a webhook of Alertmanager, version 4. `receiver` is the way's name.
pub(crate) fn webhook(message: &Message, receiver: &str, external: &Labels) -> Vec<u8> {
    let group: Texts<'_> = message.name.as_deref().map(|name| (ALERT_NAME, name)).into_iter().collect();
    let key = message.name.as_ref().map_or("{}".to_owned(), |name| format!("{{{ALERT_NAME}={name:?}}}"));
    let common = message.common_labels();
    json(&Hook {
        receiver,
        status: status(message.is_firing()),
        alerts: message.alerts.iter().map(|alert| hooked(alert, external)).collect(),
        group_labels: group,
        common_labels: with_external(&common, external),
        common_annotations: message.common_annotations(),
        external_url: "",
        version: "4",
        group_key: format!("{{}}:{key}"),
        truncated_alerts: message.left_out,
    })
}

fn hooked<'a>(alert: &'a Alert, external: &'a Labels) -> Hooked<'a> {
    Hooked {
        status: status(alert.is_firing()),
        labels: with_external(&alert.labels, external),
        annotations: &alert.annotations,
        starts_at: time(begin(alert, alert.ends_at.unwrap_or(i64::MAX))),
        ends_at: alert.ends_at.map_or(NO_TIME.to_owned(), time),
        generator_url: &alert.generator_url,
        fingerprint: format!("{:016x}", alert.fingerprint(external)),
    }
}

/// The start of the alert. If the hub's clock was set back, the start may be later than the end, and Alertmanager would refuse the
/// alert.
fn begin(alert: &Alert, end: i64) -> i64 {
    alert.starts_at.min(end)
}

/// Prometheus' word.
pub(crate) fn status(is_firing: bool) -> &'static str {
    if is_firing { "firing" } else { "resolved" }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("BUG: texts cannot be written as JSON")
}

/// A time in ms since 1970 as RFC 3339. Times before 1970 or after 2554, which nobody means, become the nearest valid time.
fn time(ms: i64) -> String {
    const LAST: u64 = u64::MAX / 1_000_000;
    let ms = u64::try_from(ms).unwrap_or(0).min(LAST);
    let Civil { year, month, day, hour, minute, second } = Civil::of(Nanos(ms * 1_000_000));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// A time for people.
pub(crate) fn time_for_people(ms: i64) -> String {
    let seconds = u64::try_from(ms).unwrap_or(0) / 1_000;
    khz_model::calendar::utc(Nanos(seconds.saturating_mul(1_000_000_000)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn alert(node: &str, ends_at: Option<i64>) -> Arc<Alert> {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Labels>()
        };
        Arc::new(Alert {
            labels: texts(&[("alertname", "Down"), ("node", node)]),
            annotations: texts(&[("summary", "it is \"down\"")]),
            starts_at: 1_700_000_000_123,
            ends_at,
            ..Alert::default()
        })
    }

    #[test]
    fn alertmanager_gets_what_prometheus_would_send() {
        let alerts = vec![(1, alert("n1", None)), (2, alert("n2", Some(1_700_000_060_000)))];
        let sent = Batch { alerts, believed_until: 1_700_000_240_000, has_parts: false };
        let external = [("cluster".to_owned(), "a".to_owned())].into();
        let expected = concat!(
            r#"[{"labels":{"alertname":"Down","cluster":"a","node":"n1"},"annotations":{"summary":"it is \"down\""},"#,
            r#""startsAt":"2023-11-14T22:13:20.123Z","endsAt":"2023-11-14T22:17:20.000Z"},"#,
            r#"{"labels":{"alertname":"Down","cluster":"a","node":"n2"},"annotations":{"summary":"it is \"down\""},"#,
            r#""startsAt":"2023-11-14T22:13:20.123Z","endsAt":"2023-11-14T22:14:20.000Z"}]"#
        );
        assert_eq!(String::from_utf8(batch(&sent, &external)).unwrap(), expected);
    }

    #[test]
    fn no_alert_begins_after_its_end_also_if_the_clock_was_set_back() {
        let ended = alert("n1", Some(1_699_999_000_000));
        let (firing, believed_until) = (alert("n2", None), 1_699_999_500_000);
        let sent = Batch { alerts: vec![(1, ended.clone()), (2, firing)], believed_until, has_parts: false };
        let sent: serde_json::Value = serde_json::from_slice(&batch(&sent, &Labels::new())).unwrap();
        for alert in sent.as_array().unwrap() {
            assert_eq!(alert["startsAt"], alert["endsAt"]);
        }
        let message = Message {
            name: None,
            firing: 0,
            resolved: 1,
            alerts: vec![ended],
            left_out: 0,
            is_repeat: false,
            at: 0,
        };
        let hook: serde_json::Value =
            serde_json::from_slice(&webhook(&message, "way", &Labels::new())).unwrap();
        assert_eq!(hook["alerts"][0]["startsAt"], hook["alerts"][0]["endsAt"]);
    }

    #[test]
    fn a_webhook_gets_what_alertmanager_would_send() {
        let message = Message {
            name: Some("Down".into()),
            firing: 1,
            resolved: 1,
            alerts: vec![alert("n1", None), alert("n2", Some(1_700_000_060_000))],
            left_out: 3,
            is_repeat: false,
            at: 0,
        };
        let body: serde_json::Value =
            serde_json::from_slice(&webhook(&message, "hook", &Labels::new())).unwrap();
        let expected = serde_json::json!({
            "receiver": "hook", "status": "firing", "version": "4", "truncatedAlerts": 3, "externalURL": "",
            "groupKey": "{}:{alertname=\"Down\"}", "groupLabels": {"alertname": "Down"},
            "commonLabels": {"alertname": "Down"}, "commonAnnotations": {"summary": "it is \"down\""},
            "alerts": [
                {"status": "firing", "labels": {"alertname": "Down", "node": "n1"},
                 "annotations": {"summary": "it is \"down\""}, "startsAt": "2023-11-14T22:13:20.123Z",
                 "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
                 "fingerprint": format!("{:016x}", alert("n1", None).fingerprint(&Labels::new()))},
                {"status": "resolved", "labels": {"alertname": "Down", "node": "n2"},
                 "annotations": {"summary": "it is \"down\""}, "startsAt": "2023-11-14T22:13:20.123Z",
                 "endsAt": "2023-11-14T22:14:20.000Z", "generatorURL": "",
                 "fingerprint": format!("{:016x}", alert("n2", None).fingerprint(&Labels::new()))},
            ],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn every_number_is_a_time() {
        assert_eq!(time(i64::MIN), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(i64::MAX), "2554-07-21T23:34:33.709Z");
    }
}
