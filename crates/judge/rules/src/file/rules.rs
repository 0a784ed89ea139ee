//! One rule of a file: Prometheus' demands on it, and the places of errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::Labels;
use khz_promql::{METRIC_NAME, ResultType};

use super::fields::{Fields, Report, texts};
use crate::ACTIONS_ANNOTATION;
use crate::finding::{Place, Severity};
use crate::limits::{NAME_BYTES_MAX, RULE_LABELS_MAX};
use crate::rule::{Alerting, ExprPlace, Rule, RuleKind};
use crate::template::Template;
use crate::yaml::{Key, Scalar, Source, Value};

const RULE_KEYS: [&str; 7] = ["record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"];

/// Names, texts, and where each text stands.
pub(super) type Texts = Vec<(Key, Scalar, Place)>;

/// Reads and checks a rule; `None`: there are errors.
pub(super) fn rule(
    value: &Value,
    source: &Source,
    of_group: &Texts,
    report: &mut Report<'_>,
) -> Option<Rule> {
    let mut fields = Fields::of(value, "a rule", report)?;
    let record = fields.text("record", report).filter(|(name, _)| !name.is_empty());
    let alert = fields.text("alert", report).filter(|(name, _)| !name.is_empty());
    let expr = expr(&mut fields, source, report);
    let hold = optional(&mut fields, "for", record.is_some(), report);
    let keep_firing = optional(&mut fields, "keep_firing_for", record.is_some(), report);
    let labels = labels(fields.take("labels"), "labels", report);
    let annotations = labels_of(&mut fields, record.is_some(), report);
    fields.refuse_others(&RULE_KEYS, report);
    let (name, is_record) = match (record, alert) {
        (Some((_, record)), Some((_, alert))) => {
            let problem =
                format!("a rule has either record or alert, and this one has both (alert at {alert})");
            report.error(record, &problem);
            return None;
        }
        (None, None) => {
            report.error(value.place, "a rule needs a name: write record: NAME or alert: NAME");
            return None;
        }
        (Some((name, place)), None) => {
            check_record(&name, place, report);
            (name, true)
        }
        (None, Some((name, _))) => (name, false),
    };
    if name.len() > NAME_BYTES_MAX {
        report.error(value.place, &format!("a name has at most {NAME_BYTES_MAX} bytes"));
    }
    let kind = if is_record {
        let merged = merged(of_group, &labels);
        RuleKind::Record {
            labels: merged.into_iter().map(|(name, (scalar, ..))| (name, scalar.text.clone())).collect(),
        }
    } else {
        let labels = templates(merged(of_group, &labels), source, "label", report);
        let annotations = templates(merged(&Vec::new(), &annotations), source, "annotation", report);
        RuleKind::Alert(Arc::new(Alerting { hold, keep_firing, labels, annotations }))
    };
    let expr_at = expr?;
    Some(Rule { name, expr: expr_at.scalar.text.clone(), kind, place: value.place, expr_at })
}

/// A duration that a recording rule does not have.
fn optional(fields: &mut Fields, key: &'static str, is_record: bool, report: &mut Report<'_>) -> i64 {
    let place = fields.place;
    let duration = fields.duration(key, report).unwrap_or(0);
    if is_record && duration != 0 {
        report.error(place, &format!("a recording rule has no {key}: only alerts wait"));
    }
    duration
}

fn labels_of(fields: &mut Fields, is_record: bool, report: &mut Report<'_>) -> Texts {
    let annotations = fields.texts("annotations", report);
    check_count(&annotations, "annotations", report);
    if let (true, Some((key, ..))) = (is_record, annotations.first()) {
        report.error(key.place, "a recording rule has no annotations: write labels");
    }
    let is_made = |(key, scalar, _): &&(Key, Scalar, Place)| {
        &*key.text == ACTIONS_ANNOTATION && scalar.text.contains("{{")
    };
    for (_, _, place) in annotations.iter().filter(is_made) {
        report.error(
            *place,
            "khz_actions names actions as they are, without a template: else who publishes a label could choose one",
        );
    }
    for (key, ..) in annotations.iter().filter(|(key, ..)| key.text.is_empty()) {
        report.error(key.place, "an annotation needs a name");
    }
    annotations
}

/// The labels of a group or of a rule.
pub(super) fn labels(value: Option<Value>, key: &'static str, report: &mut Report<'_>) -> Texts {
    let labels = texts(value, key, report);
    check_count(&labels, key, report);
    for (key, ..) in &labels {
        if key.text.is_empty() {
            report.error(key.place, "a label needs a name");
        } else if &*key.text == METRIC_NAME {
            report
                .error(key.place, &format!("a label cannot be {METRIC_NAME}: that is the name of a series"));
        } else if key.text.len() > NAME_BYTES_MAX {
            report.error(key.place, &format!("a name has at most {NAME_BYTES_MAX} bytes"));
        } else if let Err(error) = Labels::new([(&*key.text, "1")]) {
            // Prometheus takes it.
            let problem = format!("{error}. The hub does not record series with it, ALERTS among them");
            report.add(Severity::Warning, Some(key.place), problem);
        }
    }
    labels
}

fn check_count(texts: &Texts, key: &str, report: &mut Report<'_>) {
    if let Some((first, ..)) = texts.get(RULE_LABELS_MAX) {
        report.error(first.place, &format!("a rule has at most {RULE_LABELS_MAX} {key}"));
    }
}

fn check_record(name: &str, place: Place, report: &mut Report<'_>) {
    if name.contains(['{', '}']) {
        report.error(
            place,
            &format!("'{name}' is no name of a series: labels belong to labels, conditions to expr"),
        );
    }
}

/// The labels of a rule, and the group's labels that the rule does not replace.
fn merged<'a>(of_group: &'a Texts, own: &'a Texts) -> BTreeMap<Arc<str>, (&'a Scalar, Place, bool)> {
    let mut all = BTreeMap::new();
    for (key, scalar, place) in of_group {
        all.insert(key.text.clone(), (scalar, *place, false));
    }
    for (key, scalar, place) in own {
        all.insert(key.text.clone(), (scalar, *place, true));
    }
    all
}

fn templates(
    texts: BTreeMap<Arc<str>, (&Scalar, Place, bool)>,
    source: &Source,
    noun: &str,
    report: &mut Report<'_>,
) -> Vec<(Arc<str>, Template)> {
    let mut all = Vec::new();
    for (name, (scalar, begin, is_own)) in texts {
        let template = Template::parse(&scalar.text);
        if let Some(fault) = template.fault() {
            let place = source.place_in(scalar, begin, fault.at);
            let problem = format!("{noun} '{name}': {}", fault.problem);
            match is_own {
                true => report.error(place, &problem),
                // Prometheus accepts a group's label with a wrong template, and reports it in each alert.
                false => report.warn_once(place, problem),
            }
        }
        all.push((name, template));
    }
    all
}

/// The expression, if it is a query.
fn expr(fields: &mut Fields, source: &Source, report: &mut Report<'_>) -> Option<ExprPlace> {
    let begin = fields.place;
    let found = fields.scalar("expr", report).filter(|(scalar, _)| !scalar.text.is_empty());
    let Some((scalar, begin)) = found else {
        report.error(begin, "a rule needs an expression: write expr: QUERY");
        return None;
    };
    let at = ExprPlace { source: source.clone(), scalar, begin };
    match khz_promql::check(&at.scalar.text) {
        Ok(ResultType::Scalar | ResultType::Vector) => {}
        Ok(gives) => {
            let gives = if gives == ResultType::Text { "a text" } else { "a range" };
            let problem =
                format!("this expression gives {gives}: the rule will fail, it needs series or a number");
            report.add(Severity::Warning, Some(begin), problem);
        }
        Err(error) => {
            let words = error.to_string();
            let (place, problem) = match khz_promql::place(&words) {
                Some(((line, column), problem)) => (at.place(line, column), problem),
                None => (begin, words),
            };
            report.error(place, &problem);
            return None;
        }
    }
    Some(at)
}
