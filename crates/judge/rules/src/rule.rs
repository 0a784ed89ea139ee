//! Rules and groups as their files define them, checked. Nothing here is evaluated.

use std::path::PathBuf;
use std::sync::Arc;

use crate::finding::{Findings, Place};
use crate::template::Template;
use crate::yaml::{Scalar, Source};

/// All files of a set.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The files, in the order in which they were named; those of a directory by name.
    pub files: Vec<RuleFile>,
    /// Warnings: what was probably not intended.
    pub warnings: Findings,
}

/// The groups of a file.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The file.
    pub path: PathBuf,
    /// Its groups.
    pub groups: Vec<Arc<Group>>,
}

/// Rules that are evaluated one after another, at the same times.
#[derive(Clone, Debug)]
pub struct Group {
    /// The file. Together with the name, it identifies the group.
    pub file: Arc<str>,
    /// Its name, unique in a file.
    pub name: Arc<str>,
    /// How often it is evaluated (ms); `None`: the program's default.
    pub interval: Option<i64>,
    /// How far back its queries ask (ms); `None`: the program's default.
    pub query_offset: Option<i64>,
    /// The most series or alerts that each of its rules may give; `None`: no limit.
    pub limit: Option<usize>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Where it begins.
    pub place: Place,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name of the alert, or of the recorded series.
    pub name: Arc<str>,
    /// The expression, as it is written.
    pub expr: Arc<str>,
    /// What it does with the result.
    pub kind: RuleKind,
    /// Where it begins.
    pub place: Place,
    pub(crate) expr_at: ExprPlace,
}

/// What a rule does with the result of its expression.
#[derive(Clone, Debug)]
pub enum RuleKind {
    /// Each series is recorded under the rule's name.
    Record {
        /// The labels that it adds, including those of the group, sorted.
        labels: Vec<(Arc<str>, Arc<str>)>,
    },
    /// Each series is an alert.
    Alert(Arc<Alerting>),
}

/// The settings of an alerting rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Alerting {
    /// For how long a series must be there before its alert fires (ms).
    pub hold: i64,
    /// For how long an alert goes on firing without its series (ms).
    pub keep_firing: i64,
    /// Labels of its alerts, including those of the group, sorted.
    pub labels: Vec<(Arc<str>, Template)>,
    /// Annotations of its alerts, sorted.
    pub annotations: Vec<(Arc<str>, Template)>,
}

impl Alerting {
    /// How long its alerts are pending, and fire on (ms). Both end earlier by the tolerance, at most by half of the group's
    /// interval (ms), since rows may come a little early or late.
    pub fn times(&self, tolerance: i64, interval: i64) -> (i64, i64) {
        let tolerance = tolerance.clamp(0, interval.max(0) / 2);
        let of = |time: i64| if time > 0 { time.saturating_sub(tolerance).max(1) } else { time };
        (of(self.hold), of(self.keep_firing))
    }
}

/// Where the expression stands.
#[derive(Clone, Debug)]
pub(crate) struct ExprPlace {
    pub source: Source,
    pub scalar: Scalar,
    pub begin: Place,
}

impl ExprPlace {
    /// The place in the file of a line and a column (bytes) of the expression.
    pub fn place(&self, line: usize, column: usize) -> Place {
        let text = &self.scalar.text;
        let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).nth(line - 1);
        self.source.place_in(&self.scalar, self.begin, begins.unwrap_or(text.len()) + column - 1)
    }
}

impl RuleSet {
    /// All groups of all files.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.files.iter().flat_map(|file| &file.groups)
    }
}

impl Rule {
    /// The settings of an alerting rule; `None`: it is a recording rule.
    pub fn alerting(&self) -> Option<&Arc<Alerting>> {
        match &self.kind {
            RuleKind::Alert(alerting) => Some(alerting),
            RuleKind::Record { .. } => None,
        }
    }

    /// The labels as they are written.
    pub fn label_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let (recorded, alerting): (&[_], &[_]) = match &self.kind {
            RuleKind::Record { labels } => (labels, &[]),
            RuleKind::Alert(alerting) => (&[], &alerting.labels),
        };
        let recorded = recorded.iter().map(|(name, value)| (&**name, &**value));
        recorded.chain(alerting.iter().map(|(name, value)| (&**name, value.text())))
    }
}

impl PartialEq for Rule {
    /// True if both have the same text, wherever they stand.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.expr, &self.kind) == (&other.name, &other.expr, &other.kind)
    }
}

impl PartialEq for RuleKind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (RuleKind::Record { labels: one }, RuleKind::Record { labels: two }) => one == two,
            (RuleKind::Alert(one), RuleKind::Alert(two)) => one == two,
            _ => false,
        }
    }
}

impl PartialEq for Group {
    /// True if both have the same text. Then the state of one can go on as that of the other.
    fn eq(&self, other: &Self) -> bool {
        (&self.file, &self.name, &self.rules) == (&other.file, &other.name, &other.rules)
            && (self.interval, self.query_offset, self.limit)
                == (other.interval, other.query_offset, other.limit)
    }
}
