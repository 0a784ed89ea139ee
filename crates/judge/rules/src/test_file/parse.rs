//! Reads a file of tests: its keys, and what each may have.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_promql::{LabelSet, label_text};

use super::{AlertTest, ExprTest, Test, TestFile, Texts};
use crate::file::{Fields, Report, document};
use crate::finding::{Findings, Place, Severity};
use crate::rule::ExprPlace;
use crate::series;
use crate::yaml::{Kind, Scalar, Source, Value};

const FILE_KEYS: [&str; 5] =
    ["rule_files", "evaluation_interval", "group_eval_order", "tests", "fuzzy_compare"];
const TEST_KEYS: [&str; 8] = [
    "name",
    "interval",
    "input_series",
    "alert_rule_test",
    "promql_expr_test",
    "external_labels",
    "external_url",
    "start_timestamp",
];

/// The interval of a file that names none (ms), as in promtool.
const INTERVAL: i64 = 60_000;

pub(super) fn parse(path: &Path, text: &[u8], findings: &mut Findings) -> TestFile {
    let report = &mut Report { path, findings };
    let mut file = TestFile { path: path.to_owned(), evaluation_interval: INTERVAL, ..TestFile::default() };
    let Some((value, source)) = document(text, report) else { return file };
    let Some(mut fields) = Fields::of(&value, "a file of tests", report) else { return file };
    file.rule_files = words(fields.list("rule_files", report), report)
        .into_iter()
        .map(|(word, _)| PathBuf::from(&*word))
        .collect();
    let interval = fields.duration("evaluation_interval", report);
    file.evaluation_interval = interval.filter(|interval| *interval > 0).unwrap_or(INTERVAL);
    for (name, place) in words(fields.list("group_eval_order", report), report) {
        if file.group_eval_order.contains(&name) {
            report.error(place, &format!("the group '{name}' is in the order twice"));
        }
        file.group_eval_order.push(name);
    }
    file.is_fuzzy = fields.flag("fuzzy_compare", report).unwrap_or(false);
    let tests = fields.list("tests", report);
    fields.refuse_others(&FILE_KEYS, report);
    for (number, value) in tests.iter().enumerate() {
        file.tests.extend(test(value, number, file.evaluation_interval, &source, report));
    }
    file
}

fn words(values: Vec<Value>, report: &mut Report<'_>) -> Vec<(Arc<str>, Place)> {
    let mut all = Vec::new();
    for value in values {
        match &value.kind {
            Kind::Scalar(scalar) => all.push((scalar.text.clone(), value.place)),
            _ => report.error(value.place, &format!("this is a name, and not {}", value.noun())),
        }
    }
    all
}

fn test(
    value: &Value,
    number: usize,
    interval: i64,
    source: &Source,
    report: &mut Report<'_>,
) -> Option<Test> {
    let mut fields = Fields::of(value, "a test", report)?;
    let name = fields.text("name", report).filter(|(name, _)| !name.is_empty());
    let name = name.map_or_else(|| format!("unnamed#{number}"), |(name, _)| name.to_string());
    let interval = fields.duration("interval", report).filter(|interval| *interval > 0).unwrap_or(interval);
    let start = fields.text("start_timestamp", report).and_then(|(text, place)| {
        let start = start(&text);
        if start.is_none() {
            report.error(
                place,
                &format!("'{text}' is no time: write seconds since 1970 or 2026-01-31T12:00:00Z"),
            );
        }
        start
    });
    let series = fields.list("input_series", report);
    let series = inputs(&series, source, report);
    let labels = fields.texts("external_labels", report);
    let external_labels =
        labels.into_iter().map(|(key, scalar, _)| (key.text.to_string(), scalar.text.to_string()));
    let external_labels = external_labels.collect();
    let external_url =
        fields.text("external_url", report).map(|(url, _)| url.to_string()).unwrap_or_default();
    let alerts = fields.list("alert_rule_test", report);
    let alerts = alerts.iter().filter_map(|value| alert(value, report)).collect();
    let expressions = fields.list("promql_expr_test", report);
    let expressions = expressions.iter().filter_map(|value| expression(value, source, report)).collect();
    fields.refuse_others(&TEST_KEYS, report);
    let (place, start) = (value.place, start.unwrap_or(0));
    Some(Test { name, place, interval, start, series, external_labels, external_url, alerts, expressions })
}

/// A series, with its value in each interval.
type Input = (LabelSet, Vec<Option<f64>>);

/// The input series of a test. Of one that is there twice the last one counts, as in promtool.
fn inputs(values: &[Value], source: &Source, report: &mut Report<'_>) -> Vec<Input> {
    let mut all: Vec<Input> = Vec::new();
    let mut known: HashMap<LabelSet, (usize, Place)> = HashMap::new();
    for value in values {
        let Some(input) = input(value, source, report) else { continue };
        let Some((at, first)) = known.get(&input.0) else {
            known.insert(input.0.clone(), (all.len(), value.place));
            all.push(input);
            continue;
        };
        let name = label_text(&input.0);
        let problem =
            format!("the input series {name} is there twice (first at {first}): the last one counts");
        report.add(Severity::Warning, Some(value.place), problem);
        all[*at] = input;
    }
    all
}

fn input(value: &Value, source: &Source, report: &mut Report<'_>) -> Option<Input> {
    let mut fields = Fields::of(value, "an input series", report)?;
    let name = fields.scalar("series", report);
    let labels = labels(name, value.place, source, report);
    let values = fields.scalar("values", report);
    fields.refuse_others(&["series", "values"], report);
    let values = match &values {
        None => Vec::new(),
        Some((scalar, begin)) => match series::values(&scalar.text) {
            Ok(values) => values,
            Err((at, problem)) => {
                report.error(source.place_in(scalar, *begin, at), &problem);
                return None;
            }
        },
    };
    Some((labels?, values))
}

fn alert(value: &Value, report: &mut Report<'_>) -> Option<AlertTest> {
    let mut fields = Fields::of(value, "a test of alerts", report)?;
    let at = fields.duration("eval_time", report).unwrap_or(0);
    let name = fields.text("alertname", report).filter(|(name, _)| !name.is_empty());
    let mut expected = Vec::new();
    for alert in fields.list("exp_alerts", report) {
        let Some(mut fields) = Fields::of(&alert, "an expected alert", report) else { continue };
        let texts = |key, fields: &mut Fields, report: &mut Report<'_>| -> Texts {
            let all = fields.texts(key, report).into_iter();
            all.map(|(key, scalar, _)| (key.text.to_string(), scalar.text.to_string())).collect()
        };
        let labels = texts("exp_labels", &mut fields, report);
        expected.push((labels, texts("exp_annotations", &mut fields, report)));
        fields.refuse_others(&["exp_labels", "exp_annotations"], report);
    }
    fields.refuse_others(&["eval_time", "alertname", "exp_alerts"], report);
    let Some((name, _)) = name else {
        report.error(value.place, "a test of alerts needs the name of the alert: write alertname: NAME");
        return None;
    };
    Some(AlertTest { place: value.place, at, name, expected })
}

/// The labels of a series; `None`: they are wrong, and that is reported at its place.
fn labels(
    named: Option<(Scalar, Place)>,
    place: Place,
    source: &Source,
    report: &mut Report<'_>,
) -> Option<LabelSet> {
    let Some((scalar, begin)) = named else {
        report.error(place, "a series needs a name: write series: NAME{LABEL=\"VALUE\"}");
        return None;
    };
    let words = match series::labels(&scalar.text) {
        Ok(labels) => return Some(labels),
        Err(words) => words,
    };
    match khz_promql::place(&words) {
        Some(((line, column), problem)) => {
            let at = ExprPlace { source: source.clone(), scalar, begin };
            report.error(at.place(line, column), &problem);
        }
        None => report.error(begin, &words),
    }
    None
}

fn expression(value: &Value, source: &Source, report: &mut Report<'_>) -> Option<ExprTest> {
    let mut fields = Fields::of(value, "a test of an expression", report)?;
    let (expr, _) = fields.text("expr", report).unwrap_or((Arc::from(""), value.place));
    let at = fields.duration("eval_time", report).unwrap_or(0);
    let mut expected = Vec::new();
    for sample in fields.list("exp_samples", report) {
        let Some(mut fields) = Fields::of(&sample, "an expected sample", report) else { continue };
        let named = fields.scalar("labels", report);
        let number = fields.scalar("value", report);
        if let Some(histogram) = fields.take("histogram") {
            report.error(histogram.place, "native histograms are not there");
        }
        fields.refuse_others(&["labels", "value", "histogram"], report);
        let value = match number {
            None => Some(0.0),
            Some((scalar, place)) => {
                let value = yaml_number(&scalar.text).filter(|_| scalar.is_plain());
                if value.is_none() {
                    report.error(
                        place,
                        &format!("value is a number without quotes, and '{}' is none", scalar.text),
                    );
                }
                value
            }
        };
        let labels = match named {
            Some(_) => labels(named, sample.place, source, report),
            None => Some(LabelSet::default()),
        };
        expected.extend(labels.zip(value));
    }
    fields.refuse_others(&["expr", "eval_time", "exp_samples"], report);
    Some(ExprTest { place: value.place, at, expr, expected })
}

/// A number as YAML has it.
fn yaml_number(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => {
            let plain = text.replace('_', "");
            let is_number =
                plain.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
            match plain.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).ok().map(|number| number as f64),
                None => plain.parse().ok().filter(|_| is_number),
            }
        }
    }
}

/// A time in ms since 1970: seconds, or a date such as `2026-01-31T12:00:00Z`.
fn start(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Some((seconds * 1_000.0).round()).filter(|ms| ms.abs() < 1e15).map(|ms| ms as i64);
    }
    let (date, rest) = text.split_once(['T', 't'])?;
    let number =
        |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let mut parts = date.splitn(3, '-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let minutes = match zone.get(1..).filter(|zone| !zone.is_empty()) {
        None => 0,
        Some(offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let minutes = number(hours)? * 60 + number(minutes)?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second: f64 = parts.next()?.parse().ok()?;
    let is_date = (0..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || !(0.0..60.0).contains(&second) || minutes.abs() > 24 * 60 {
        return None;
    }
    // Days of the civil calendar; years begin with March, so that the leap day is the last one.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let ms = (second * 1_000.0).round() as i64;
    Some(((days * 24 + hour) * 60 + minute - minutes) * 60_000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RulesError;

    #[test]
    fn a_start_is_seconds_or_a_date() {
        for (text, ms) in [
            ("0", Some(0)),
            ("1.5", Some(1_500)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:30:01.5Z", Some(951_827_401_500)),
            ("2000-02-29T12:30:00+02:30", Some(951_818_400_000)),
            ("2000-13-01T00:00:00Z", None),
            ("yesterday", None),
            ("2000-01-01T00:00:00", None),
        ] {
            assert_eq!(start(text), ms, "{text}");
        }
    }

    #[test]
    fn a_wrong_series_has_one_place_and_of_one_that_is_there_twice_the_last_counts() {
        let text = "\
tests:
- input_series:
  - {series: 'a{x=}', values: '1'}
  - series: a{x!='1'}
    values: '1'
  promql_expr_test:
  - {expr: a, exp_samples: [{labels: 'b{', value: 1}]}
";
        let Err(RulesError::Refused(findings)) = TestFile::parse(Path::new("t.yml"), text.as_bytes()) else {
            panic!("it is refused");
        };
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let begins = ["t.yml:3:15: parse error", "t.yml:4:13: the series", "t.yml:7:40: parse error"];
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{lines:?}");
        }
        assert_eq!(lines.len(), 3, "{lines:?}");
        let text = "\
tests:
- input_series:
  - {series: 'a{x=\"1\"}', values: '1 2 3'}
  - {series: 'a{x=\"2\"}', values: '1'}
  - {series: '{\"a\", x=\"1\"}', values: '_ 5'}
";
        let file = TestFile::parse(Path::new("t.yml"), text.as_bytes()).unwrap();
        let values: Vec<&[Option<f64>]> =
            file.tests[0].series.iter().map(|(_, values)| values.as_slice()).collect();
        assert_eq!(values, [&[None, Some(5.0)][..], &[Some(1.0)][..]]);
        let warnings = file.warnings.to_string();
        assert!(
            warnings.starts_with(
                "t.yml:5:5: warning: the input series {__name__=\"a\", x=\"1\"} is there twice (first at 3:5)"
            ),
            "{warnings}"
        );
    }
}
