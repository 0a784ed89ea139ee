//! Runs the tests of a file: loads the rules, evaluates them over the input series step by step, and compares.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, Limits, label_text, put_value};

use super::{AlertTest, ExprTest, Test, TestFile, Texts};
use crate::alert::{ALERT_NAME, AlertState};
use crate::duration::duration_text;
use crate::error::RulesError;
use crate::finding::Place;
use crate::group::{Evaluator, Settings, vector};
use crate::limits::EVALUATIONS_MAX;
use crate::memory::Memory;
use crate::rule::RuleSet;

/// What became of a test.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// The name of the test.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// What is not as expected; nothing: it passed.
    pub failures: Vec<TestFailure>,
}

/// Something that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFailure {
    /// Where the expectation stands.
    pub place: Place,
    /// What was expected, and what came; several lines.
    pub problem: String,
}

impl TestFile {
    /// Runs all tests whose name passes.
    ///
    /// # Errors
    ///
    /// If the rule files cannot be used.
    pub fn run(&self, passes: &dyn Fn(&str) -> bool) -> Result<Vec<TestOutcome>, RulesError> {
        let set = RuleSet::load(&self.rule_files)?;
        let chosen = self.tests.iter().filter(|test| passes(&test.name));
        Ok(chosen
            .map(|test| TestOutcome {
                name: test.name.clone(),
                place: test.place,
                failures: self.test(test, &set),
            })
            .collect())
    }

    fn test(&self, test: &Test, set: &RuleSet) -> Vec<TestFailure> {
        let mut stage = Stage::new(self, test, set);
        let mut failures = Vec::new();
        let last =
            test.alerts.iter().map(|alert| alert.at).chain(test.expressions.iter().map(|expr| expr.at)).max();
        let (last, step) = (last.unwrap_or(0), self.evaluation_interval);
        if last / step >= EVALUATIONS_MAX {
            let problem =
                format!("the test needs {} evaluations, and may need {EVALUATIONS_MAX}", last / step + 1);
            return vec![TestFailure { place: test.place, problem }];
        }
        for at in (0..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let errors = stage.pass(at);
            if !errors.is_empty() {
                let problem = errors.join("\n");
                failures.push(TestFailure { place: test.place, problem });
                return failures;
            }
            for alert in test.alerts.iter().filter(|alert| at <= alert.at && alert.at < at + step) {
                failures.extend(stage.alerts(alert));
            }
        }
        for expr in &test.expressions {
            failures.extend(stage.expression(expr, self.is_fuzzy));
        }
        failures
    }
}

/// A test while it runs.
struct Stage<'a> {
    test: &'a Test,
    engine: Engine,
    groups: Vec<Evaluator>,
    memory: Memory,
    /// The values of each series that were loaded.
    loaded: Vec<usize>,
}

impl<'a> Stage<'a> {
    fn new(file: &TestFile, test: &'a Test, set: &RuleSet) -> Self {
        let settings = Arc::new(Settings {
            interval: test.interval,
            external_labels: test.external_labels.iter().cloned().collect(),
            external_url: test.external_url.clone(),
            ..Settings::default()
        });
        let order = |name: &str| file.group_eval_order.iter().position(|known| &**known == name).unwrap_or(0);
        let mut groups: Vec<_> = set.groups().cloned().collect();
        groups.sort_by_key(|group| order(&group.name));
        let groups = groups.into_iter().map(|group| Evaluator::new(group, settings.clone())).collect();
        let engine = Engine::new(Limits { subquery_step: file.evaluation_interval, ..Limits::default() });
        Stage { test, engine, groups, memory: Memory::default(), loaded: vec![0; test.series.len()] }
    }

    /// Evaluates all groups (ms after the start), and returns the errors of rules.
    fn pass(&mut self, at: i64) -> Vec<String> {
        for ((labels, values), loaded) in self.test.series.iter().zip(&mut self.loaded) {
            while *loaded < values.len() && *loaded as i64 * self.test.interval <= at {
                if let Some(value) = values[*loaded] {
                    self.memory.add(labels, self.test.start + *loaded as i64 * self.test.interval, value);
                }
                *loaded += 1;
            }
        }
        let mut errors = Vec::new();
        for group in &mut self.groups {
            let pass =
                group.evaluate(&self.engine, &self.memory, self.test.start + at, &mut || Duration::ZERO);
            for sample in &pass.samples {
                self.memory.add(&sample.labels, sample.time, sample.value);
            }
            let rules = group.group().rules.iter().zip(&pass.rules);
            errors.extend(rules.filter_map(|(rule, report)| {
                let error = report.error.as_ref()?;
                Some(format!("rule {} at {}: {error}", rule.name, duration_text(at)))
            }));
        }
        errors
    }

    fn alerts(&self, test: &AlertTest) -> Option<TestFailure> {
        let mut got: Vec<(Texts, Texts)> = Vec::new();
        for group in &self.groups {
            for (number, _) in group
                .group()
                .rules
                .iter()
                .enumerate()
                .filter(|(_, rule)| rule.alerting().is_some() && rule.name == test.name)
            {
                let firing = group.alerts(number).filter(|alert| alert.state == AlertState::Firing);
                got.extend(firing.map(|alert| {
                    let labels =
                        alert.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                    let annotations =
                        alert.annotations.iter().map(|(name, text)| (name.to_string(), text.clone()));
                    (labels.collect(), annotations.collect())
                }));
            }
        }
        let mut expected = test.expected.clone();
        for (labels, _) in &mut expected {
            labels.insert(ALERT_NAME.to_owned(), test.name.to_string());
        }
        got.sort();
        expected.sort();
        if got == expected {
            return None;
        }
        let mut problem = format!(
            "alert {} at {}: {} expected, {} firing",
            test.name,
            duration_text(test.at),
            expected.len(),
            got.len()
        );
        let (missing, others) = difference(&expected, &got);
        for (word, alerts) in [("expected", missing), ("firing", others)] {
            for (labels, annotations) in alerts {
                let _ = write!(problem, "\n  {word}: {}", text(labels));
                for (name, annotation) in annotations {
                    let _ = write!(problem, "\n    {name}: {annotation}");
                }
            }
        }
        Some(TestFailure { place: test.place, problem })
    }

    fn expression(&self, test: &ExprTest, is_fuzzy: bool) -> Option<TestFailure> {
        let failed = |problem: String| {
            let problem = format!("expression {} at {}: {problem}", test.expr, duration_text(test.at));
            Some(TestFailure { place: test.place, problem })
        };
        let answer = self.engine.query(&self.memory, &test.expr, self.test.start + test.at);
        let got = match answer.map_err(|error| error.to_string()).and_then(|answer| vector(answer.value)) {
            Ok(got) => got,
            Err(error) => {
                return failed(match khz_promql::place(&error) {
                    // The place is one in the expression, and not in the file.
                    Some(((line, column), problem)) => {
                        format!("{problem} (line {line}, column {column} of the expression)")
                    }
                    None => error,
                });
            }
        };
        let mut got: Vec<(LabelSet, f64)> =
            got.into_iter().map(|sample| (sample.labels, sample.value)).collect();
        let mut expected = test.expected.clone();
        got.sort_by(|one, two| one.0.cmp(&two.0));
        expected.sort_by(|one, two| one.0.cmp(&two.0));
        let is_same =
            |one: f64, two: f64| one == two || (is_fuzzy && (one.next_up() == two || one.next_down() == two));
        let pairs = got.len() == expected.len()
            && got
                .iter()
                .zip(&expected)
                .all(|(got, expected)| got.0 == expected.0 && is_same(got.1, expected.1));
        if pairs {
            return None;
        }
        let mut problem = format!("{} expected, {} came", expected.len(), got.len());
        let (expected, got): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (expected.into_iter().collect(), got.into_iter().collect());
        for (word, one, two) in [("expected", &expected, &got), ("came", &got, &expected)] {
            for (labels, value) in one {
                if two.get(labels).is_none_or(|other| !is_same(*value, *other)) {
                    let mut number = String::new();
                    put_value(&mut number, *value);
                    let _ = write!(problem, "\n  {word}: {} {number}", label_text(labels));
                }
            }
        }
        failed(problem)
    }
}

/// Those of one sorted list that the other one has not, and the other way round.
#[allow(clippy::type_complexity)]
fn difference<'a, T: Ord>(one: &'a [T], two: &'a [T]) -> (Vec<&'a T>, Vec<&'a T>) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let (mut ones, mut twos) = (one.iter().peekable(), two.iter().peekable());
    loop {
        match (ones.peek(), twos.peek()) {
            (Some(a), Some(b)) if a == b => {
                ones.next();
                twos.next();
            }
            (Some(a), Some(b)) if a > b => right.extend(twos.next()),
            (Some(_), _) => left.extend(ones.next()),
            (None, Some(_)) => right.extend(twos.next()),
            (None, None) => return (left, right),
        }
    }
}

fn text(labels: &Texts) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", labels.join(", "))
}
