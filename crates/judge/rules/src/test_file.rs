//! Tests of rules in promtool's format: what a file says. `run.rs` runs it.

mod parse;
mod run;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_promql::LabelSet;

pub use run::{TestFailure, TestOutcome};

use crate::error::RulesError;
use crate::finding::{Findings, Place};
use crate::load::{Text, read, resolve};

/// A file of tests.
#[derive(Clone, Debug, Default)]
pub struct TestFile {
    /// The file.
    pub path: PathBuf,
    /// The rule files, found.
    pub rule_files: Vec<PathBuf>,
    /// How often rules are evaluated (ms).
    pub evaluation_interval: i64,
    /// Names of groups: those that are named are evaluated in this order.
    pub group_eval_order: Vec<Arc<str>>,
    /// Values may differ by the last bit.
    pub is_fuzzy: bool,
    /// The tests.
    pub tests: Vec<Test>,
    /// What is probably not meant so.
    pub warnings: Findings,
}

/// A test: series, and what rules make of them.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// The time between two values of a series (ms).
    pub interval: i64,
    /// When it begins (ms since 1970).
    pub start: i64,
    /// The series with their values.
    pub series: Vec<(LabelSet, Vec<Option<f64>>)>,
    /// Labels of the whole system, for templates.
    pub external_labels: Vec<(String, String)>,
    /// Where people find it, for templates.
    pub external_url: String,
    /// What is expected of alerts.
    pub alerts: Vec<AlertTest>,
    /// What is expected of expressions.
    pub expressions: Vec<ExprTest>,
}

/// Which alerts of a name are to fire at a time.
#[derive(Clone, Debug)]
pub struct AlertTest {
    /// Where it stands.
    pub place: Place,
    /// When (ms after the start).
    pub at: i64,
    /// The name.
    pub name: Arc<str>,
    /// Labels and annotations of each alert.
    pub expected: Vec<(Texts, Texts)>,
}

/// What an expression is to give at a time.
#[derive(Clone, Debug)]
pub struct ExprTest {
    /// Where it stands.
    pub place: Place,
    /// When (ms after the start).
    pub at: i64,
    /// The expression.
    pub expr: Arc<str>,
    /// Its samples.
    pub expected: Vec<(LabelSet, f64)>,
}

/// Names and texts.
pub type Texts = std::collections::BTreeMap<String, String>;

impl TestFile {
    /// Reads and checks a file of tests, and finds its rule files.
    ///
    /// # Errors
    ///
    /// Says all that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, RulesError> {
        let text = match read(path) {
            Text::Whole(text) => text,
            Text::Unfit(problem) => {
                let mut findings = Findings::default();
                findings.add(crate::Severity::Error, path, None, problem);
                return Err(RulesError::Refused(findings));
            }
        };
        let mut file = Self::parse(path, &text)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        for pattern in std::mem::take(&mut file.rule_files) {
            let found = resolve(&folder.join(&pattern))?;
            if found.is_empty() {
                let problem = format!("no rule file fits {}", pattern.display());
                file.warnings.add(crate::Severity::Warning, path, None, problem);
            }
            file.rule_files.extend(found);
        }
        Ok(file)
    }

    /// The text of a file of tests; its rule files are as they are written.
    ///
    /// # Errors
    ///
    /// Says all that is wrong with it.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, RulesError> {
        let mut findings = Findings::default();
        let mut file = parse::parse(path, text, &mut findings);
        if findings.is_refused() {
            return Err(RulesError::Refused(findings));
        }
        file.warnings = findings;
        Ok(file)
    }
}
