//! Rules for labels, in Prometheus' own words (`write_relabel_configs`), because who has a receiver knows them: which series
//! are sent, and what they are called. Labels for all series come first.

use std::collections::BTreeMap;

use khz_promql::{Expression, ExpressionError};
use regex::Regex;

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the target label to the replacement, where the expression fits the source labels.
    Replace,
    /// Drops series that do not fit.
    Keep,
    /// Drops series that fit.
    Drop,
    /// Copies labels whose name fits to the name that the replacement says.
    LabelMap,
    /// Removes labels whose name fits.
    LabelDrop,
    /// Removes labels whose name does not fit.
    LabelKeep,
}

impl Action {
    /// All of them with their names.
    pub const ALL: [(&'static str, Action); 6] = [
        ("replace", Action::Replace),
        ("keep", Action::Keep),
        ("drop", Action::Drop),
        ("labelmap", Action::LabelMap),
        ("labeldrop", Action::LabelDrop),
        ("labelkeep", Action::LabelKeep),
    ];
}

/// A rule as it is written, with Prometheus' defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Labels whose values are joined.
    pub source_labels: Vec<String>,
    /// The text between two values.
    pub separator: String,
    /// What must fit.
    pub regex: String,
    /// The label that is set.
    pub target_label: String,
    /// The new value; `$1` stands for the match of the expression's first group.
    pub replacement: String,
    /// What is done.
    pub action: Action,
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            source_labels: Vec::new(),
            separator: ";".into(),
            regex: "(.*)".into(),
            target_label: String::new(),
            replacement: "$1".into(),
            action: Action::Replace,
        }
    }
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The expression is none.
    #[error("the regular expression {0:?} cannot be used: {1}")]
    Regex(String, ExpressionError),
    /// `replace` without a target.
    #[error("a rule that replaces needs a target_label")]
    NoTarget,
}

#[derive(Clone, Debug)]
struct Compiled {
    rule: Rule,
    expression: Expression,
    /// The same expression where its groups are used.
    groups: Option<Regex>,
}

/// Labels for all series, and rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    external: Vec<(String, String)>,
    rules: Vec<Compiled>,
}

impl Rules {
    /// Labels that every series gets which does not have them, and rules, which come after that in their order.
    pub fn new(external: BTreeMap<String, String>, rules: Vec<Rule>) -> Result<Self, RuleError> {
        let compiled = |rule: Rule| {
            if rule.action == Action::Replace && rule.target_label.is_empty() {
                return Err(RuleError::NoTarget);
            }
            let refused = |error| RuleError::Regex(rule.regex.clone(), error);
            let expression = Expression::new(&rule.regex).map_err(refused)?;
            let has_groups = matches!(rule.action, Action::Replace | Action::LabelMap);
            let groups = has_groups.then(|| Expression::regex(&rule.regex)).transpose().map_err(refused)?;
            Ok(Compiled { rule, expression, groups })
        };
        let rules = rules.into_iter().map(compiled).collect::<Result<_, _>>()?;
        Ok(Rules { external: external.into_iter().collect(), rules })
    }

    /// Applies them to the labels of a series, and calls `each` with the result, sorted by name, unless the series is dropped.
    /// Labels without a value are left out.
    pub(crate) fn apply<'a>(
        &'a self,
        labels: &mut Vec<(&'a str, &'a str)>,
        each: impl FnOnce(&[(&str, &str)]),
    ) {
        for (name, value) in &self.external {
            if !labels.iter().any(|(known, _)| known == name) {
                labels.push((name, value));
            }
        }
        if self.rules.is_empty() {
            labels.retain(|(_, value)| !value.is_empty());
            labels.sort_unstable();
            return each(labels);
        }
        let mut changed: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        for rule in &self.rules {
            if !rule.apply(&mut changed) {
                return;
            }
        }
        // Names like these are for rules only, except the name of the metric.
        changed.retain(|name, value| !value.is_empty() && (!name.starts_with("__") || name == "__name__"));
        if !changed.is_empty() {
            let all: Vec<(&str, &str)> = changed.iter().map(|(name, value)| (&**name, &**value)).collect();
            each(&all);
        }
    }
}

impl Compiled {
    /// False: the series is dropped.
    fn apply(&self, labels: &mut BTreeMap<String, String>) -> bool {
        let Compiled { rule, expression, groups } = self;
        match rule.action {
            Action::Keep => expression.fits(&rule.source(labels)),
            Action::Drop => !expression.fits(&rule.source(labels)),
            Action::Replace => {
                let source = rule.source(labels);
                if let Some(found) = groups.as_ref().and_then(|groups| groups.captures(&source)) {
                    let (mut target, mut value) = (String::new(), String::new());
                    found.expand(&rule.target_label, &mut target);
                    found.expand(&rule.replacement, &mut value);
                    match value.is_empty() {
                        true => labels.remove(&target),
                        false => labels.insert(target, value),
                    };
                }
                true
            }
            Action::LabelMap => {
                let mapped = |(name, value): (&String, &String)| {
                    let mut to = String::new();
                    groups.as_ref()?.captures(name)?.expand(&rule.replacement, &mut to);
                    Some((to, value.clone()))
                };
                let mapped: Vec<_> = labels.iter().filter_map(mapped).collect();
                labels.extend(mapped);
                true
            }
            Action::LabelDrop => {
                labels.retain(|name, _| !expression.fits(name));
                true
            }
            Action::LabelKeep => {
                labels.retain(|name, _| expression.fits(name));
                true
            }
        }
    }
}

impl Rule {
    /// The values of its source labels, joined.
    fn source(&self, labels: &BTreeMap<String, String>) -> String {
        let value = |name: &String| labels.get(name).map_or("", String::as_str);
        self.source_labels.iter().map(value).collect::<Vec<_>>().join(&self.separator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rules: Vec<Rule>, labels: &[(&str, &str)]) -> Option<String> {
        let external = BTreeMap::from([("cluster".to_owned(), "c1".to_owned())]);
        let rules = Rules::new(external, rules).unwrap();
        let mut out = None;
        rules.apply(&mut labels.to_vec(), |labels| {
            let shown: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            out = Some(shown.join(" "));
        });
        out
    }

    fn rule(action: Action, source: &[&str], regex: &str) -> Rule {
        let source_labels = source.iter().map(|&name| name.to_owned()).collect();
        Rule { source_labels, regex: regex.into(), action, ..Rule::default() }
    }

    const LABELS: [(&str, &str); 4] = [("job", "khz"), ("instance", "n1"), ("__name__", "up"), ("empty", "")];

    #[test]
    fn external_labels_come_first_and_never_replace_one_of_the_series() {
        assert_eq!(applied(vec![], &LABELS).unwrap(), "__name__=up cluster=c1 instance=n1 job=khz");
        assert_eq!(applied(vec![], &[("cluster", "own")]).unwrap(), "cluster=own");
    }

    #[test]
    fn rules_do_what_they_do_in_prometheus() {
        use Action::{Drop, Keep, LabelDrop, LabelKeep, LabelMap, Replace};
        let all = "__name__=up cluster=c1 instance=n1 job=khz";
        for (rule, expected) in [
            (rule(Drop, &["__name__"], "u"), Some(all)),
            (rule(Drop, &["__name__"], "u."), None),
            (rule(Keep, &["job", "instance"], "khz;n[0-9]"), Some(all)),
            (rule(Keep, &["no"], ".+"), None),
            (rule(LabelDrop, &[], "inst.*|job"), Some("__name__=up cluster=c1")),
            (rule(LabelKeep, &[], "__name__|job"), Some("__name__=up job=khz")),
            (
                Rule { replacement: "my_$1".into(), ..rule(LabelMap, &[], "(job|cluster)") },
                Some("__name__=up cluster=c1 instance=n1 job=khz my_cluster=c1 my_job=khz"),
            ),
            (
                // As in Go, `$1_x` names a group that does not exist.
                Rule {
                    target_label: "node".into(),
                    replacement: "$1_x${1}".into(),
                    ..rule(Replace, &["instance"], "n(.)")
                },
                Some("__name__=up cluster=c1 instance=n1 job=khz node=1"),
            ),
            (
                Rule {
                    target_label: "node".into(),
                    replacement: "$1-x${1}".into(),
                    ..rule(Replace, &["instance"], "n(.)")
                },
                Some("__name__=up cluster=c1 instance=n1 job=khz node=1-x1"),
            ),
            (
                Rule {
                    target_label: "job".into(),
                    replacement: String::new(),
                    ..rule(Replace, &["job"], ".*")
                },
                Some("__name__=up cluster=c1 instance=n1"),
            ),
            (
                Rule { target_label: "__tmp".into(), replacement: "1".into(), ..rule(Replace, &[], ".*") },
                Some(all),
            ),
        ] {
            let shown = format!("{rule:?}");
            assert_eq!(applied(vec![rule], &LABELS), expected.map(str::to_owned), "{shown}");
        }
    }

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        for (regex, is_dropped) in [
            // Classes of the crate `regex` have intersections and differences; those of Go have not.
            ("n[0-1&&2]", true),
            ("n[0-9--1]", true),
            ("n[[1]", true),
            ("n[[2]]", false),
            ("\\Qn1\\E", true),
            ("n\\061", true),
            ("(?i)N1", true),
            ("n.?1", true),
        ] {
            let dropped = applied(vec![rule(Action::Drop, &["instance"], regex)], &LABELS).is_none();
            assert_eq!(dropped, is_dropped, "{regex}");
            let replaced = Rule {
                target_label: "fits".into(),
                replacement: "yes".into(),
                ..rule(Action::Replace, &["instance"], regex)
            };
            assert_eq!(applied(vec![replaced], &LABELS).unwrap().contains("fits=yes"), is_dropped, "{regex}");
        }
        let many: Vec<String> =
            (0..2_000).map(|n| format!("a-host-with-a-long-name-{n}.example.com")).collect();
        let kept = rule(Action::Keep, &["instance"], &many.join("|").replace('.', "\\."));
        assert!(applied(vec![kept.clone()], &LABELS).is_none());
        assert!(applied(vec![kept], &[("instance", &many[1_999])]).is_some());
    }

    #[test]
    fn a_rule_that_cannot_work_is_refused() {
        let refused = |rule| Rules::new(BTreeMap::new(), vec![rule]).unwrap_err().to_string();
        assert_eq!(refused(Rule::default()), "a rule that replaces needs a target_label");
        assert_eq!(
            refused(rule(Action::Drop, &[], "(")),
            "the regular expression \"(\" cannot be used: unclosed group"
        );
        assert!(Rules::new(BTreeMap::new(), vec![rule(Action::Drop, &[], "((a{100}){100}){100}")]).is_err());
    }
}
