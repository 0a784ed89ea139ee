//! A rule file: its keys, and what each may have. All errors of a file are found, not only the first.

mod fields;
mod rules;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use khz_model::text_place::line_and_column;

pub(crate) use fields::{Fields, Report};

use crate::finding::{Findings, Place, Severity};
use crate::limits::{FILE_BYTES_MAX, GROUPS_MAX, INTERVAL_MIN, NAME_BYTES_MAX, QUERY_OFFSET_MAX, RULES_MAX};
use crate::rule::{Group, Rule, RuleFile};
use crate::yaml::{self, Source, Value};

const GROUP_KEYS: [&str; 6] = ["name", "interval", "query_offset", "limit", "labels", "rules"];

/// Reads and checks the text of a rule file. Errors and warnings go to `findings`. The file is usable if there is no error.
pub fn parse(path: &Path, text: &[u8], findings: &mut Findings) -> RuleFile {
    let before = findings.count();
    let mut report = Report { path, findings };
    let mut file = RuleFile { path: path.to_owned(), groups: Vec::new() };
    if let Some((value, source)) = document(text, &mut report) {
        file.groups = groups(&value, &source, &mut report);
    }
    report_duplicates(&file, &mut report);
    findings.sort_from(before);
    file
}

/// The first document of a text, if it can be read and is not empty.
pub(crate) fn document(text: &[u8], report: &mut Report<'_>) -> Option<(Value, Source)> {
    if text.len() > FILE_BYTES_MAX {
        report.whole(format!("the file has {} bytes, and may have {FILE_BYTES_MAX}: divide it", text.len()));
        return None;
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let before = String::from_utf8_lossy(&text[..error.valid_up_to()]);
            let (line, column) = line_and_column(&before, before.len());
            report.error(Place { line, column }, "the file is no UTF-8");
            return None;
        }
    };
    let document = match yaml::parse(text) {
        Ok(document) => document,
        Err(fault) => {
            report.add(Severity::Error, fault.place, fault.problem);
            return None;
        }
    };
    if let Some(place) = document.more {
        report.add(Severity::Warning, Some(place), "only the first document of a file is read".to_owned());
    }
    document.value.filter(|value| !value.is_null()).map(|value| (value, Source::new(text)))
}

fn groups(value: &Value, source: &Source, report: &mut Report<'_>) -> Vec<Arc<Group>> {
    let Some(mut top) = Fields::of(value, "a rule file", report) else { return Vec::new() };
    let list = top.list("groups", report);
    top.refuse_others(&["groups"], report);
    let mut names: HashMap<Arc<str>, Place> = HashMap::new();
    let mut groups = Vec::new();
    for value in &list {
        if groups.len() >= GROUPS_MAX {
            report.error(value.place, &format!("a set may have {GROUPS_MAX} groups"));
            break;
        }
        let Some(group) = group(value, source, report) else { continue };
        if let Some(first) = names.insert(group.name.clone(), group.place) {
            let problem = format!(
                "the group '{}' is there twice (first at {first}): give each its own name",
                group.name
            );
            report.error(group.place, &problem);
        }
        groups.push(Arc::new(group));
    }
    groups
}

fn group(value: &Value, source: &Source, report: &mut Report<'_>) -> Option<Group> {
    let mut fields = Fields::of(value, "a group", report)?;
    let (name, name_at) =
        fields.text("name", report).map_or((Arc::from(""), value.place), |text| (text.0, text.1));
    if name.is_empty() {
        report.error(name_at, "a group needs a name: write name: NAME");
    } else if name.len() > NAME_BYTES_MAX {
        report.error(name_at, &format!("a name has at most {NAME_BYTES_MAX} bytes"));
    }
    let interval_at = fields.place_of("interval").unwrap_or(value.place);
    let interval = fields.duration("interval", report).filter(|interval| *interval > 0);
    if interval.is_some_and(|interval| interval < INTERVAL_MIN) {
        report.error(interval_at, &format!("a group is evaluated at most every {INTERVAL_MIN} ms"));
    }
    let offset_at = fields.place_of("query_offset").unwrap_or(value.place);
    let query_offset = fields.duration("query_offset", report);
    if query_offset.is_some_and(|offset| offset > QUERY_OFFSET_MAX) {
        report.error(offset_at, "a query_offset is at most 50y: there is nothing before 1970");
    }
    let limit = fields.count("limit", report).filter(|limit| *limit > 0);
    let labels = rules::labels(fields.take("labels"), "labels", report);
    let list = fields.list("rules", report);
    fields.refuse_others(&GROUP_KEYS, report);
    if list.len() > RULES_MAX {
        report.error(value.place, &format!("the group has {} rules; a set may have {RULES_MAX}", list.len()));
        return None;
    }
    let rules = list.iter().filter_map(|value| rules::rule(value, source, &labels, report)).collect();
    let file = Arc::from(&*report.path.to_string_lossy());
    Some(Group { file, name, interval, query_offset, limit, rules, place: value.place })
}

/// Warns of rules of two files that give the same series. Rules of one file are reported when it is read.
pub(crate) fn warn_of_same_labels(files: &[RuleFile], findings: &mut Findings) {
    let mut seen: HashMap<_, (&Path, Place)> = HashMap::new();
    for file in files {
        let mut here = HashMap::new();
        for rule in file.groups.iter().flat_map(|group| &group.rules) {
            let key = (&*rule.name, rule.alerting().is_some(), rule.label_texts().collect::<Vec<_>>());
            if let Some((path, place)) = seen.get(&key) {
                let problem = same_labels(rule, &format!("{}:{place}", path.display()));
                findings.add(Severity::Warning, &file.path, Some(rule.place), problem);
            }
            here.entry(key).or_insert((&*file.path, rule.place));
        }
        for (key, first) in here {
            seen.entry(key).or_insert(first);
        }
    }
}

fn same_labels(rule: &Rule, first: &str) -> String {
    let name = &rule.name;
    let what = match rule.alerting() {
        Some(_) => "people get alerts with the same labels as one alert",
        None => "their results may mix",
    };
    format!("another rule of the name '{name}' has the same labels ({first}): {what}")
}

/// Two rules of a file that give the same series, as promtool reports them.
fn report_duplicates(file: &RuleFile, report: &mut Report<'_>) {
    let mut seen = HashMap::new();
    let mut duplicates = Vec::new();
    for rule in file.groups.iter().flat_map(|group| &group.rules) {
        match seen.entry((&*rule.name, rule.label_texts().collect::<Vec<_>>())) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(rule.place);
            }
            std::collections::hash_map::Entry::Occupied(first) => {
                duplicates.push((rule, *first.get()));
            }
        }
    }
    for (rule, first) in duplicates {
        report.add(Severity::Warning, Some(rule.place), same_labels(rule, &first.to_string()));
    }
}
