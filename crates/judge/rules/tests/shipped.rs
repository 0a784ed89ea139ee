//! The rules that khz ships (`packaging/rules`): each alert has a test in which it fires and one in which it does not, all tests pass,
//! and Debian's promtool says the same.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use khz_rules::{RuleSet, TestFile};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/rules").canonicalize().unwrap()
}

fn tests() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("tests")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn each_shipped_alert_fires_in_one_test_and_does_not_in_another() {
    let set = RuleSet::load(&[folder()]).unwrap();
    assert_eq!(set.warnings.iter().count(), 0, "{}", set.warnings);
    let alerts = set.groups().flat_map(|group| &group.rules).filter(|rule| rule.alerting().is_some());
    let mut tested: BTreeMap<String, (usize, usize)> =
        alerts.map(|rule| (rule.name.to_string(), (0, 0))).collect();
    for path in tests() {
        let file = TestFile::load(&path).unwrap();
        for outcome in file.run(&|_| true).unwrap() {
            let problems: Vec<&str> = outcome.failures.iter().map(|failure| &*failure.problem).collect();
            assert!(problems.is_empty(), "{}: {}: {problems:?}", path.display(), outcome.name);
        }
        for test in file.tests.iter().flat_map(|test| &test.alerts) {
            let counts = tested.get_mut(&*test.name).expect("a test of an alert that is not shipped");
            match test.expected.is_empty() {
                true => counts.1 += 1,
                false => counts.0 += 1,
            }
        }
    }
    let lacking: Vec<_> = tested.iter().filter(|(_, (fires, silent))| *fires == 0 || *silent == 0).collect();
    assert!(lacking.is_empty(), "alerts without a test that they fire, or that they do not: {lacking:?}");
}

#[test]
fn promtool_accepts_what_is_shipped() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return khz_skip::skip("promtool is not installed (package prometheus)");
    }
    let rules: Vec<PathBuf> =
        RuleSet::load(&[folder()]).unwrap().files.into_iter().map(|file| file.path).collect();
    for (verb, files) in [("check", rules), ("test", tests())] {
        let output = Command::new("promtool").args([verb, "rules"]).args(&files).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
        );
    }
}
