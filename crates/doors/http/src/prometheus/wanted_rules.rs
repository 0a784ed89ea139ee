//! Which rules a client of `/api/v1/rules` wants: by name, group, file, kind and labels, and how many groups at a time. It writes
//! nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use khz_promql::{Matcher, QueryError};
use khz_rules::{GroupStanding, Rule};
use tokio::task::spawn_blocking;

use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::prometheus::series;

/// Parameters of `/api/v1/rules`, by which clients choose among rules.
pub(crate) const RULES_PARAMS: &[&str] = &[
    "type",
    "rule_name[]",
    "rule_group[]",
    "file[]",
    "match[]",
    "exclude_alerts",
    "group_limit",
    "group_next_token",
];

/// What a client wants to see.
pub(super) struct Wanted {
    alerting: bool,
    recording: bool,
    names: Vec<String>,
    groups: Vec<String>,
    files: Vec<String>,
    /// The rules that one of them selects by its labels; none: all rules.
    selectors: Vec<Vec<Matcher>>,
    pub with_alerts: bool,
    /// Groups in one answer; `None`: all.
    pub most: Option<usize>,
    /// The group with which the answer begins.
    pub first: Option<String>,
}

impl Wanted {
    pub async fn of(form: Form) -> Result<Self, Failure> {
        let kind = form.get("type").unwrap_or_default().to_owned();
        if !matches!(&*kind, "" | "alert" | "record") {
            return Err(Failure::parameter("type", format!("not supported value {kind:?}")));
        }
        let with_alerts = with_alerts(form.get("exclude_alerts").unwrap_or_default())?;
        let (most, first) = page(&form)?;
        let texts = form.selectors()?;
        let (mut names, mut groups, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in form.only(&["rule_name[]", "rule_group[]", "file[]"]) {
            match &*name {
                "rule_name[]" => names.push(value),
                "rule_group[]" => groups.push(value),
                _ => files.push(value),
            }
        }
        let selectors = match texts.is_empty() {
            true => Vec::new(),
            // Regular expressions may take a while.
            false => spawn_blocking(move || series::read(&texts, || Ok(())))
                .await
                .unwrap_or_else(|_| Err(QueryError::Bad("the selectors cannot be read".to_owned())))
                .map_err(|error| Failure::bad(error.to_string()))?,
        };
        let (alerting, recording) = (kind != "record", kind != "alert");
        Ok(Wanted { alerting, recording, names, groups, files, selectors, with_alerts, most, first })
    }

    pub fn group(&self, group: &GroupStanding) -> bool {
        let is_in = |all: &[String], text: &str| all.is_empty() || all.iter().any(|one| one == text);
        is_in(&self.groups, &group.group.name) && is_in(&self.files, &group.group.file)
    }

    pub fn rule(&self, rule: &Rule) -> bool {
        let is_kind = if rule.alerting().is_some() { self.alerting } else { self.recording };
        is_kind
            && (self.names.is_empty() || self.names.iter().any(|name| **name == *rule.name))
            && (self.selectors.is_empty() || self.selectors.iter().any(|one| selects(one, rule)))
    }
}

/// What `exclude_alerts` says; Prometheus' words, which are those of Go's `strconv.ParseBool`.
fn with_alerts(text: &str) -> Result<bool, Failure> {
    match &*text.to_lowercase() {
        "" | "0" | "f" | "false" => Ok(true),
        "1" | "t" | "true" => Ok(false),
        other => {
            let problem = format!(
                "error converting exclude_alerts: strconv.ParseBool: parsing {other:?}: invalid syntax"
            );
            Err(Failure::parameter("exclude_alerts", problem))
        }
    }
}

/// How many groups are wanted, and with which they begin.
fn page(form: &Form) -> Result<(Option<usize>, Option<String>), Failure> {
    let first = form.get("group_next_token").filter(|token| !token.is_empty()).map(str::to_owned);
    let Some(text) = form.get("group_limit").filter(|text| !text.is_empty()) else {
        return match first {
            Some(_) => Err(Failure::parameter(
                "group_next_token",
                "group_limit needs to be present in order to paginate over the groups",
            )),
            None => Ok((None, None)),
        };
    };
    let most: i64 = text.parse().map_err(|_| {
        Failure::parameter("group_limit", format!("group_limit needs to be a valid number: {text:?}"))
    })?;
    match usize::try_from(most) {
        Ok(most) if most > 0 => Ok((Some(most), first)),
        _ => Err(Failure::parameter("group_limit", "group_limit needs to be greater than 0")),
    }
}

/// True if the labels of a rule meet all conditions. As in Prometheus, these are the labels as they are written: a template is its text.
fn selects(matchers: &[Matcher], rule: &Rule) -> bool {
    let text = |name: &str| rule.label_texts().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    matchers.iter().all(|matcher| matcher.matches(text(&matcher.name)))
}

/// What stands for a group, for the client that goes on with it: names have any length, this has one.
pub(super) fn token(group: &GroupStanding) -> String {
    let mut hasher = DefaultHasher::new();
    (&group.group.file, &group.group.name).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use khz_rules::RuleSet;

    use super::*;

    #[test]
    fn exclude_alerts_is_read_as_prometheus_reads_it() {
        for text in ["", "0", "f", "F", "false", "False", "FALSE"] {
            assert!(with_alerts(text).unwrap(), "{text}");
        }
        for text in ["1", "t", "T", "true", "True", "TRUE", "tRuE"] {
            assert!(!with_alerts(text).unwrap(), "{text}");
        }
        for text in ["2", "yes", "true "] {
            assert!(with_alerts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_of_rules_sees_a_template_as_its_text() {
        let text = "groups: [{name: g, rules: [{alert: A, expr: up, labels: {node: '{{ $labels.x }}', severity: page}}]}]";
        let set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap();
        let rule = &set.groups().next().unwrap().rules[0];
        for (selector, expected) in [
            ("{severity=\"page\"}", true),
            ("{severity=\"page\", node=\"n1\"}", false),
            ("{severity=\"page\", node!=\"n1\"}", true),
            ("{node=~\".*labels.x.*\"}", true),
            ("{node=\"\", severity=\"page\"}", false),
        ] {
            let matchers = series::read(&[selector.to_owned()].into(), || Ok(())).unwrap();
            assert_eq!(selects(&matchers[0], rule), expected, "{selector}");
        }
    }
}
