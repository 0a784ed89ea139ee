//! What holds for all rules, whatever is in their files and whatever the samples are.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, Limits};
use khz_rules::{
    AlertState, Evaluator, Memory, Pass, RuleSet, RulesError, Saved, Settings, Template, TestFile,
    duration_text, parse_duration,
};
use proptest::prelude::*;

const STEP: i64 = 10_000;

fn evaluator(text: &str, settings: Settings) -> Evaluator {
    let set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    Evaluator::new(set.groups().next().unwrap().clone(), Arc::new(settings))
}

/// A pass in which the series x has this value.
fn pass(evaluator: &mut Evaluator, step: usize, is_there: bool) -> Pass {
    let time = step as i64 * STEP;
    let mut memory = Memory::default();
    memory.add(&LabelSet::new([("__name__", "x")]), time, f64::from(u8::from(is_there)));
    evaluator.evaluate(&Engine::new(Limits::default()), &memory, time, &mut || Duration::ZERO)
}

fn state(evaluator: &Evaluator) -> AlertState {
    evaluator.alerts(0).next().map_or(AlertState::Inactive, |alert| alert.state)
}

/// The state after each step, found by looking back over all steps.
fn by_hand(there: &[bool], hold: usize, keep: usize) -> Vec<AlertState> {
    let (mut since, mut fires, mut seen) = (None, false, 0);
    let mut all = Vec::new();
    for (step, is_there) in there.iter().enumerate() {
        if *is_there {
            seen = step;
            let since = *since.get_or_insert(step);
            fires |= step - since >= hold;
        } else if !(fires && step - seen <= keep && keep > 0) {
            (since, fires) = (None, false);
        }
        all.push(match (since, fires) {
            (None, _) => AlertState::Inactive,
            (Some(_), false) => AlertState::Pending,
            (Some(_), true) => AlertState::Firing,
        });
    }
    all
}

fn texts() -> impl Strategy<Value = String> {
    let pieces = [
        "groups", "name", "rules", "alert", "record", "expr", "labels", ":", ": ", "\n", "\n  ", "\n- ",
        "- ", "[", "]", "{", "}", ",", "'", "\"", "|", ">", ">-", "&a ", "*a", "<<", "!!str ", "#", "x",
        "up == 0", "5m", "{{", "}}", " | ", "$value", "\\", "ä", "\t", "---", "?", "~",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn an_alert_does_what_a_look_over_its_whole_past_says(
        there in prop::collection::vec(any::<bool>(), 1..40), hold in 0..6_usize, keep in 0..6_usize,
    ) {
        let seconds = |steps: usize| steps * 10;
        let text = format!("groups: [{{name: g, rules: [{{alert: A, expr: x > 0, for: {}s, keep_firing_for: {}s}}]}}]", seconds(hold), seconds(keep));
        let mut evaluator = evaluator(&text, Settings::default());
        let mut states = Vec::new();
        for (step, is_there) in there.iter().enumerate() {
            pass(&mut evaluator, step, *is_there);
            states.push(state(&evaluator));
        }
        prop_assert_eq!(states, by_hand(&there, hold, keep));
    }

    #[test]
    fn a_group_that_was_saved_and_restored_without_a_pause_goes_on_as_if_nothing_was(
        there in prop::collection::vec(any::<bool>(), 2..30), cut in 0..30_usize, hold in 0..5_usize,
    ) {
        let settings = Settings { grace: 0, ..Settings::default() };
        let text = format!("groups: [{{name: g, rules: [{{alert: A, expr: x > 0, for: {}s}}, {{record: r, expr: x > 0}}]}}]", hold * 10);
        let (mut one, mut two) = (evaluator(&text, settings.clone()), evaluator(&text, settings.clone()));
        for (step, is_there) in there.iter().enumerate() {
            let (of_one, of_two) = (pass(&mut one, step, *is_there), pass(&mut two, step, *is_there));
            let bits = |pass: &Pass| -> Vec<_> {
                pass.samples.iter().map(|sample| (sample.labels.clone(), sample.time, sample.value.to_bits())).collect()
            };
            prop_assert_eq!(bits(&of_one), bits(&of_two));
            if step == cut {
                let saved = Saved::from_bytes(&Saved::new(vec![two.save().unwrap()]).to_bytes().0).unwrap();
                let group = two.group().clone();
                let now = step as i64 * STEP;
                two = Evaluator::restore(group.clone(), Arc::new(settings.clone()), saved.group(&group).unwrap(), now);
            }
        }
    }

    #[test]
    fn a_duration_is_read_as_it_is_printed(ms in 0..9_000_000_000_000_i64) {
        prop_assert_eq!(parse_duration(&duration_text(ms)), Ok(ms));
    }

    #[test]
    fn a_text_that_is_no_rule_file_is_refused_with_places_in_it(text in texts()) {
        let lines = text.matches('\n').count() + 1;
        for parsed in [RuleSet::parse(Path::new("a"), text.as_bytes()).err(), TestFile::parse(Path::new("a"), text.as_bytes()).err()] {
            match parsed {
                None => {}
                Some(RulesError::Refused(findings)) => {
                    for place in findings.iter().filter_map(|finding| finding.place) {
                        prop_assert!(place.line <= lines + 1 && place.line > 0 && place.column > 0, "{place} of {lines} lines: {text:?}");
                    }
                }
                Some(error) => prop_assert!(false, "{error}"),
            }
        }
        if let Some(fault) = Template::parse(&text).fault() {
            prop_assert!(fault.at <= text.len());
        }
    }
}

#[test]
fn what_loops_or_explodes_in_a_template_ends_at_a_limit() {
    let labels = LabelSet::default();
    let query = |_: &str| Ok(Vec::new());
    let data = khz_rules::TemplateData {
        labels: &labels,
        external_labels: &std::collections::BTreeMap::new(),
        external_url: "",
        value: 1.0,
        now: 0,
        query: &query,
    };
    for (text, problem) in [
        ("{{ range 1000000000 }}{{ end }}", "steps"),
        ("{{ range 1000000000 }}abcdefghijklmnopqrstuvwxyz{{ end }}", "bytes"),
        ("{{ $x := \"ab\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}", "bytes"),
        ("{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}", "deeper than 64"),
        ("{{ range 100 }}{{ $x := query \"up\" }}{{ end }}", "16 queries"),
        ("{{ printf \"%900000d\" 1 }}", "bytes"),
        ("{{ printf \"%.900000f\" 1.0 }}", "bytes"),
        ("{{ range 1000 }}{{ $x := match \"(a|b)*c{10}\" \"abc\" }}{{ end }}", "steps"),
        ("{{ reReplaceAll \"((a{100}){100}){100}\" \"\" \"\" }}", "limit"),
    ] {
        let template = Template::parse(text);
        assert_eq!(template.fault(), None, "{text}");
        let error = template.expand("t", &data).unwrap_err();
        assert!(
            error.contains(problem) && error.starts_with("error executing template t: 1:"),
            "{text}: {error}"
        );
    }
    // Go reads no width of more than a million.
    for format in ["%999999999d", "%.999999999d"] {
        let template = Template::parse(&format!("{{{{ printf \"{format}\" 1 }}}}"));
        assert_eq!(template.expand("t", &data).unwrap(), "%!(NOVERB)%!(EXTRA int=1)");
    }
    let deep = format!("{}1{}", String::from("{{ (") + &"(".repeat(5_000), ")".repeat(5_001) + " }}");
    assert!(Template::parse(&deep).fault().unwrap().problem.contains("nested deeper"));
    assert!(Template::parse(&"{{ if 1 }}".repeat(1_000)).fault().unwrap().problem.contains("nested deeper"));
    assert!(Template::parse(&"x".repeat(20_000)).fault().unwrap().problem.contains("16384"));
}
