//! Rule files and files of tests: refused with places in the file, or read; what is read is evaluated.

#![no_main]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, Limits};
use khz_rules::{Evaluator, Memory, Placement, RuleSet, RulesError, TestFile, place};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("a.yml");
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
    match RuleSet::parse(path, bytes) {
        Err(RulesError::Refused(findings)) => {
            let places = findings.iter().filter_map(|finding| finding.place);
            places.for_each(|place| assert!(place.line <= lines && place.column > 0, "{place} of {lines}"));
        }
        Err(error) => panic!("{error}"),
        Ok(set) => {
            let limits = Limits { bytes: 1 << 20, time: Duration::from_secs(1), ..Limits::default() };
            let engine = Engine::new(limits);
            for group in set.groups().take(3).filter(|group| group.rules.len() < 10) {
                for rule in &group.rules {
                    if let Placement::AtHub(hub) = place(group, rule, &|name| name.len() < 4) {
                        assert!(hub.place.line <= lines);
                    }
                }
                let mut evaluator = Evaluator::new(group.clone(), Arc::default());
                let pass = evaluator.evaluate(&engine, &Memory::default(), 60_000, &mut || Duration::ZERO);
                assert_eq!(pass.rules.len(), group.rules.len());
            }
        }
    }
    let _ = TestFile::parse(path, bytes);
});
