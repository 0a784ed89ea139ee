//! `/api/v1/rules` and `/api/v1/alerts` in Prometheus' form: what rules said last. They evaluate nothing: the board has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use khz_model::calendar::Civil;
use khz_promql::LabelSet;
use khz_rules::{Alert, AlertState, GroupStanding, RuleKind, RuleStanding, Standing};

use crate::json;
use crate::pages::Writer;
use crate::prometheus::answer::{self, Notes};
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::prometheus::wanted_rules::{Wanted, token};
use crate::refusal::Refusal;
use crate::routes::App;

/// `/api/v1/rules`
pub(crate) async fn rules(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let wanted = Wanted::of(Form::of(request).await?).await?;
    let version = app.standings.pay(&app.answers, app.rules.standing(), Standing::bytes)?;
    let standing = version.value.clone();
    let notes = notes(&standing);
    let begin = match &wanted.first {
        None => 0,
        Some(first) => standing.groups.iter().position(|group| token(group) == *first).ok_or_else(|| {
            let problem = format!("invalid group_next_token '{first}'. were rule groups changed?");
            Failure::parameter("group_next_token", problem)
        })?,
    };
    let write = async move |mut writer: Writer| {
        writer.share(version.bytes());
        writer.page().push_str("{\"groups\":[");
        let (mut count, mut next) = (0, None);
        for group in standing.groups[begin..].iter().filter(|group| wanted.group(group)) {
            let rules: Vec<usize> =
                (0..group.rules.len()).filter(|at| wanted.rule(&group.group.rules[*at])).collect();
            if rules.is_empty() {
                continue;
            }
            if wanted.most == Some(count) {
                next = Some(token(group));
                break;
            }
            json::next(writer.page(), count);
            count += 1;
            writer = write_group(writer, group, &rules, wanted.with_alerts).await?;
        }
        writer.page().push(']');
        if let Some(next) = next {
            writer.page().push_str(",\"groupNextToken\":");
            json::text(writer.page(), &next);
        }
        writer.page().push('}');
        Ok(writer)
    };
    answer::success(&app, notes, write).await
}

/// Why the newest files are not in use, if so, and which groups are late.
fn notes(standing: &Standing) -> Notes {
    let mut warnings = match standing.refused.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "the rule files have errors, and those that were loaded before are in use: {}",
            standing.refused
        )],
    };
    warnings.extend(late(standing));
    Notes { warnings, ..Notes::default() }
}

/// Which groups were not evaluated for long, if there are some.
fn late(standing: &Standing) -> Option<String> {
    let age = |group: &GroupStanding| {
        group.at.map_or(0, |at| i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX))
    };
    let is_late = |group: &&Arc<GroupStanding>| {
        age(group) > group.interval.saturating_mul(LATE_INTERVALS).max(LATE_MIN)
    };
    let late: Vec<&Arc<GroupStanding>> = standing.groups.iter().filter(is_late).collect();
    let worst = late.iter().max_by_key(|group| age(group))?;
    Some(format!(
        "{} of {} groups are late: {} was evaluated {} s ago, and is due every {}; the hub's log names slow rules",
        late.len(),
        standing.groups.len(),
        worst.group.name,
        age(worst) / 1_000,
        khz_rules::duration_text(worst.interval),
    ))
}

/// A group is late after this many of its intervals, and after this time (ms) at least: a hub waits as long after a restart.
const LATE_INTERVALS: i64 = 3;
const LATE_MIN: i64 = 15_000;

async fn write_group(
    mut writer: Writer,
    group: &GroupStanding,
    rules: &[usize],
    with_alerts: bool,
) -> Result<Writer, Refusal> {
    let out = writer.page();
    out.push_str("{\"name\":");
    json::text(out, &group.group.name);
    out.push_str(",\"file\":");
    json::text(out, &group.group.file);
    out.push_str(",\"rules\":[");
    for (number, &at) in rules.iter().enumerate() {
        json::next(writer.page(), number);
        writer = write_rule(writer, group, at, with_alerts).await?;
    }
    let out = writer.page();
    out.push_str("],\"interval\":");
    seconds(out, group.interval as f64 / 1e3);
    out.push_str(",\"limit\":");
    json::number(out, group.group.limit.unwrap_or(0) as u64);
    evaluated(out, group.duration.as_secs_f64(), group.last);
    out.push('}');
    Ok(writer)
}

async fn write_rule(
    mut writer: Writer,
    group: &GroupStanding,
    at: usize,
    with_alerts: bool,
) -> Result<Writer, Refusal> {
    let (rule, standing) = (&group.group.rules[at], &group.rules[at]);
    let out = writer.page();
    out.push('{');
    if rule.alerting().is_some() {
        out.push_str("\"state\":");
        json::text(out, standing.state().as_str());
        out.push(',');
    }
    out.push_str("\"name\":");
    json::text(out, &rule.name);
    out.push_str(",\"query\":");
    json::text(out, &rule.expr);
    match &rule.kind {
        RuleKind::Alert(alerting) => {
            out.push_str(",\"duration\":");
            seconds(out, alerting.hold as f64 / 1e3);
            out.push_str(",\"keepFiringFor\":");
            seconds(out, alerting.keep_firing as f64 / 1e3);
            out.push_str(",\"labels\":");
            json::pairs(out, alerting.labels.iter().map(|(name, value)| (&**name, value.text())));
            out.push_str(",\"annotations\":");
            json::pairs(out, alerting.annotations.iter().map(|(name, value)| (&**name, value.text())));
            if with_alerts {
                out.push_str(",\"alerts\":[");
                for (number, alert) in standing.alerts.iter().enumerate() {
                    json::next(writer.page(), number);
                    write_alert(writer.page(), alert);
                    writer.turn().await?;
                }
                writer.page().push(']');
            }
        }
        RuleKind::Record { labels } if !labels.is_empty() => {
            out.push_str(",\"labels\":");
            json::pairs(out, labels.iter().map(|(name, value)| (&**name, &**value)));
        }
        RuleKind::Record { .. } => {}
    }
    let out = writer.page();
    health(out, standing);
    let took = standing.report.as_ref().map_or(0.0, |report| report.duration.as_secs_f64());
    evaluated(out, took, standing.report.as_ref().and(group.last));
    if let Some(share) = &standing.share {
        // Prometheus has nothing like it; its clients pass over it.
        out.push_str(",\"judged\":{\"nodes\":");
        json::number(out, share.judging.len() as u64);
        out.push_str(",\"hub\":");
        json::number(out, share.left.as_ref().map_or(0, BTreeSet::len) as u64);
        out.push('}');
    }
    out.push_str(",\"type\":");
    out.push_str(if rule.alerting().is_some() { "\"alerting\"}" } else { "\"recording\"}" });
    writer.turn().await?;
    Ok(writer)
}

fn health(out: &mut String, standing: &RuleStanding) {
    let error = standing.report.as_ref().and_then(|report| report.error.as_deref());
    out.push_str(",\"health\":");
    out.push_str(match (&standing.report, error) {
        (None, _) => "\"unknown\"",
        (_, None) => "\"ok\"",
        (_, Some(_)) => "\"err\"",
    });
    if let Some(error) = error {
        out.push_str(",\"lastError\":");
        json::text(out, error);
    }
}

fn evaluated(out: &mut String, took: f64, last: Option<i64>) {
    out.push_str(",\"evaluationTime\":");
    seconds(out, took);
    out.push_str(",\"lastEvaluation\":");
    match last {
        Some(time) => date(out, time),
        None => out.push_str("\"0001-01-01T00:00:00Z\""),
    }
}

/// `/api/v1/alerts`
pub(crate) async fn alerts(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let version = app.standings.pay(&app.answers, app.rules.standing(), Standing::bytes)?;
    let notes = notes(&version.value);
    let write = async move |mut writer: Writer| {
        writer.share(version.bytes());
        writer.page().push_str("{\"alerts\":[");
        let rules = version.value.groups.iter().flat_map(|group| &group.rules);
        for (number, alert) in rules.flat_map(|rule| &rule.alerts).enumerate() {
            json::next(writer.page(), number);
            write_alert(writer.page(), alert);
            writer.turn().await?;
        }
        writer.page().push_str("]}");
        Ok(writer)
    };
    answer::success(&app, notes, write).await
}

fn write_alert(out: &mut String, alert: &Alert) {
    out.push_str("{\"labels\":");
    labels(out, &alert.labels);
    out.push_str(",\"annotations\":");
    json::pairs(out, alert.annotations.iter().map(|(name, value)| (&**name, &**value)));
    out.push_str(",\"state\":");
    json::text(out, alert.state.as_str());
    out.push_str(",\"activeAt\":");
    date(out, alert.active_at);
    // Prometheus does not tell it: since when an alert fires, not since when its series is there.
    if let (Some(since), AlertState::Firing) = (alert.fired_at, alert.state) {
        out.push_str(",\"firedAt\":");
        date(out, since);
    }
    if let (Some(since), AlertState::Firing) = (alert.keep_firing_since, alert.state) {
        out.push_str(",\"keepFiringSince\":");
        date(out, since);
    }
    out.push_str(",\"value\":");
    json::text(out, &exponent(alert.value));
    out.push('}');
}

fn labels(out: &mut String, labels: &LabelSet) {
    json::pairs(out, labels.iter().map(|(name, value)| (&**name, &**value)));
}

/// A time (ms since 1970) as a date with milliseconds.
fn date(out: &mut String, time: i64) {
    let Civil { year, month, day, hour, minute, second } = Civil::of_utc(time.div_euclid(1_000));
    let ms = time.rem_euclid(1_000);
    json::text(out, &format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"));
}

/// Seconds as a number of JSON.
fn seconds(out: &mut String, seconds: f64) {
    out.push_str(&format!("{seconds}"));
}

/// A value as Prometheus prints that of an alert: `1.5e+00`.
fn exponent(value: f64) -> String {
    if !value.is_finite() {
        let mut text = String::new();
        khz_promql::put_value(&mut text, value);
        return text;
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_dates_of_alerts_are_written_as_prometheus_writes_them() {
        // strconv.FormatFloat(value, 'e', -1, 64)
        for (value, text) in [
            (1.0, "1e+00"),
            (0.0, "0e+00"),
            (-12.5, "-1.25e+01"),
            (1e-7, "1e-07"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(exponent(value), text);
        }
        let mut out = String::new();
        date(&mut out, 1_763_690_000_007);
        assert_eq!(out, "\"2025-11-21T01:53:20.007Z\"");
    }
}
