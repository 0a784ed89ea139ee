//! What is wrong in rule files is named with file, line and column, and all of it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use khz_rules::{RuleSet, RulesError};

fn problems(text: &str) -> String {
    match RuleSet::parse(Path::new("a.yml"), text.as_bytes()) {
        Ok(set) => set.warnings.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_error_of_a_file_is_named_with_its_place() {
    let text = "\
groups:
- name: g
  interval: 5x
  rule: []
  rules:
  - alert: A
    expr: |
      sum by (instance) (
        rate(x[5m]
      ) > 1
    for: 5
    annotation: {}
    labels:
      __name__: x
  - record: 'r{a=\"b\"}'
    expr: >-
      up
      ==
    annotations: {a: b}
  - alert: B
    expr: up
    annotations:
      text: >
        on {{ $labels.instance }}
        it is {{ humanise $value }}
- name: g
";
    let expected = "\
a.yml:3:13: interval: \"5x\" has the unknown unit \"x\": the units are y, w, d, h, m, s, ms
a.yml:4:3: a group has no key 'rule' (did you mean 'rules'?)
a.yml:8:25: parse error: '(' is never closed
a.yml:11:10: for: \"5\" has no unit: write it as 30s, 5m or 1h30m
a.yml:12:5: a rule has no key 'annotation' (did you mean 'annotations'?)
a.yml:14:7: a label cannot be __name__: that is the name of a series
a.yml:15:13: 'r{a=\"b\"}' is no name of a series: labels belong to labels, conditions to expr
a.yml:18:9: parse error: unexpected end of the query
a.yml:19:19: a recording rule has no annotations: write labels
a.yml:25:18: annotation 'text': there is no function 'humanise' (did you mean 'humanize'?)
a.yml:26:3: the group 'g' is there twice (first at 2:3): give each its own name";
    assert_eq!(problems(text), expected);
}

#[test]
fn actions_are_named_and_no_label_chooses_one() {
    let text = "groups: [{name: g, rules: [{alert: A, expr: up, annotations: {khz_actions: 'look, {{ $labels.x }}'}}]}]";
    let expected = "a.yml:1:76: khz_actions names actions as they are, without a template: else who publishes a label could choose one";
    assert_eq!(problems(text), expected);
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let text = "\
groups:
- name: g
  labels: {a: '{{ $x }}', __a: x}
  rules:
  - {record: r, expr: 'up[5m]'}
  - {record: r, expr: up}
  - {alert: A, expr: up}
  - {alert: B, expr: up, labels: {__b: x, ok: x, 'C=1': x}}
  - {alert: C, expr: up}
  - {record: one, expr: 'sum(two) + three'}
  - {record: two, expr: 'rate(three[5m])'}
  - {record: three, expr: 'one or up'}
  - {record: own, expr: own + 1}
  - {record: ALERTS, expr: '2'}
  - {record: up, expr: '1'}
---
";
    let unrecorded = "is not the name of a label: it has up to 128 letters, digits and '_', and begins with a letter, or '_' and \
                      another character than '_'. The hub does not record series with it, ALERTS among them";
    let expected = format!(
        "\
a.yml:3:19: warning: label 'a': there is no variable $x
a.yml:3:27: warning: '__a' {unrecorded}
a.yml:5:23: warning: this expression gives a range: the rule will fail, it needs series or a number
a.yml:6:5: warning: another rule of the name 'r' has the same labels (5:5): their results may mix
a.yml:8:35: warning: '__b' {unrecorded}
a.yml:8:50: warning: 'C=1' {unrecorded}
a.yml:16:1: warning: only the first document of a file is read
a.yml:14:5: warning: khz itself writes series of the name ALERTS: record another name
a.yml:15:5: warning: khz itself writes series of the name up: record another name
a.yml:10:5: warning: these records need each other in a circle: one needs two needs three needs one. One of them sees values of the evaluation before
a.yml:13:5: warning: own needs itself: it sees its value of the evaluation before"
    );
    assert_eq!(problems(text), expected);
}

#[test]
fn two_thousand_records_that_need_each_other_are_one_circle_and_a_chain_of_them_is_none() {
    let file = |last: &str| {
        let rules: String =
            (0..1_999).map(|at| format!("  - {{record: 'r{at}', expr: 'r{}'}}\n", at + 1)).collect();
        problems(&format!("groups:\n- name: g\n  rules:\n{rules}  - {{record: r1999, expr: {last}}}\n"))
    };
    assert_eq!(file("up"), "");
    let circle = file("r0");
    assert_eq!(circle.lines().count(), 1, "{circle}");
    assert!(circle.contains(": r0 needs r1 needs") && circle.contains("r7 needs ... needs r0."), "{circle}");
}

#[test]
fn a_record_with_the_name_of_a_gathered_metric_is_a_warning() {
    let text = "groups: [{name: g, rules: [{record: node_load1, expr: up}, {alert: node_load5, expr: up}]}]";
    let mut set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap();
    set.warn_of_gathered(&|name| name.starts_with("node_"));
    let warnings = set.warnings.to_string();
    assert!(warnings.starts_with("a.yml:1:28: warning: nodes gather node_load1: "), "{warnings}");
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
}

#[test]
fn a_file_that_is_no_text_too_long_or_no_yaml_is_refused_with_its_place() {
    let refused = |text: &[u8]| RuleSet::parse(Path::new("a.yml"), text).unwrap_err().to_string();
    assert_eq!(refused(b"groups:\n- \xff"), "a.yml:2:3: the file is no UTF-8");
    assert!(refused(&vec![b'#'; (4 << 20) + 1]).contains("may have 4194304"));
    let error = refused(b"groups: [{a: b, c: [\n");
    assert!(error.starts_with("a.yml:") && error.contains(": this is no YAML: "), "{error}");
    assert!(refused(b"groups: &a [*a]").contains("1:13: an alias cannot stand within"));
}

#[test]
fn a_directory_is_loaded_whole_or_not_at_all_and_all_errors_are_named() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rules-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner.yml")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let load = || RuleSet::load(std::slice::from_ref(&folder));
    write("b.yml", "groups: [{name: g, rules: [{record: r, expr: up}]}]");
    write("a.rules", "groups: [{name: g, rules: [{record: s, expr: up}]}]");
    write("notes.txt", "no rules");
    write(".hidden.yml", "no rules");
    let set = load().unwrap();
    let warnings = set.warnings.to_string();
    assert!(warnings.contains("inner.yml: warning: it is not a regular file, and is left out"), "{warnings}");
    let names: Vec<PathBuf> = set.files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, [folder.join("a.rules"), folder.join("b.yml")]);
    write("c.yaml", "groups: [{name: g, rules: [{record: r}]}]");
    write("d.yaml", "group: []");
    let Err(RulesError::Refused(findings)) = load() else { panic!("it was taken") };
    let named: Vec<String> = findings
        .of(khz_rules::Severity::Error)
        .map(|finding| finding.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(named, ["c.yaml", "d.yaml"]);
    std::fs::remove_dir_all(&folder).unwrap();
    let error = load().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: it cannot be read: No such file", folder.display())), "{error}");
}

#[test]
fn a_pipe_is_no_rule_file_and_nobody_waits_for_its_writer() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rules-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.yml"), "groups: []").unwrap();
    let pipe = folder.join("pipe.yml");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let set = RuleSet::load(std::slice::from_ref(&folder)).unwrap();
    assert_eq!(set.files.len(), 1);
    assert!(set.warnings.to_string().contains("pipe.yml: warning: it is not a regular file"));
    for named in [pipe, PathBuf::from("/dev/zero")] {
        let Err(RulesError::Refused(findings)) = RuleSet::load(&[named]) else { panic!("it was taken") };
        assert!(findings.to_string().contains("it is not a regular file"), "{findings}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn of_a_file_that_is_too_large_the_real_size_is_said() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("large-{}.yml", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(10 << 20).unwrap();
    let error = RuleSet::load(std::slice::from_ref(&path)).unwrap_err().to_string();
    assert!(error.contains("the file has 10485760 bytes, and may have 4194304"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn intervals_that_nobody_means_and_offsets_to_before_1970_are_refused_with_their_place() {
    let text = "groups:\n- name: g\n  interval: 1ms\n  query_offset: 200y\n  rules: []\n";
    let said = problems(text);
    assert!(said.contains("a.yml:3:13: a group is evaluated at most every 10 ms"), "{said}");
    assert!(said.contains("a.yml:4:17: a query_offset is at most 50y"), "{said}");
    assert_eq!(problems("groups: [{name: g, interval: 10ms, query_offset: 50y, rules: []}]"), "");
}

#[test]
fn a_link_that_leads_nowhere_is_named_beside_the_errors_of_the_other_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rules-link-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all.yml", folder.join("a.yml")).unwrap();
    std::fs::write(folder.join("b.yml"), "groups: [{name: g, rules: [{alert: A, expr: '1 +'}]}]").unwrap();
    let error = RuleSet::load(std::slice::from_ref(&folder)).unwrap_err().to_string();
    assert!(error.contains("a.yml: it cannot be read: No such file"), "{error}");
    assert!(error.contains("b.yml:1:"), "{error}");
    // The same if it is named, and if a directory is missing.
    let named = ["a.yml", "b.yml", "c.yml"].map(|name| folder.join(name));
    let error = RuleSet::load(&named).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let has = |name: &str, text: &str| {
        lines.iter().filter(|line| line.contains(name) && line.contains(text)).count()
    };
    assert_eq!((lines.len(), has("a.yml", "cannot be read"), has("b.yml:1:", "")), (3, 1, 1), "{error}");
    assert_eq!(has("c.yml", "it cannot be read: No such file"), 1, "{error}");
    let error = khz_rules::TestFile::load(&folder.join("none.yml")).unwrap_err();
    assert!(matches!(error, RulesError::Refused(_)), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn whole_numbers_have_the_bases_of_yaml_and_empty_entries_are_left_out_as_at_prometheus() {
    let group = |limit: &str| {
        let text =
            format!("groups:\n- name: g\n  limit: {limit}\n  rules:\n  -\n  - {{record: a, expr: b}}\n-\n");
        RuleSet::parse(Path::new("a.yml"), text.as_bytes()).map(|set| {
            let groups: Vec<_> = set.groups().cloned().collect();
            assert_eq!((groups.len(), groups[0].rules.len()), (1, 1), "{limit}");
            (groups[0].limit, set.warnings.to_string())
        })
    };
    // promtool takes and refuses the same.
    let numbers = [
        ("0x10", Some(16)),
        ("0X1f", Some(31)),
        ("010", Some(8)),
        ("0o17", Some(15)),
        ("0b101", Some(5)),
        ("1_000", Some(1_000)),
        ("+7", Some(7)),
        ("0", None),
        ("-0x10", None),
        ("08", Some(8)),
    ];
    for (limit, number) in numbers {
        let (got, warnings) = group(limit).unwrap_or_else(|error| panic!("{limit}: {error}"));
        assert_eq!(got, number, "{limit}");
        let expected = "a.yml:5:4: warning: an entry of rules is empty; it is left out\na.yml:7:2: warning: an entry of groups is empty; it is left out";
        assert_eq!(warnings, expected);
    }
    for limit in ["0x", "0b2", "++1", "1e", "'7'", "0x1ffffffffffffffff"] {
        assert!(group(limit).is_err(), "{limit}");
    }
}

#[test]
fn rules_of_two_files_that_give_the_same_alert_are_named() {
    let place = std::env::temp_dir().join(format!("khz-rules-same-labels-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    let file = |name: &str, rules: &str| {
        std::fs::write(place.join(name), format!("groups:\n- name: g\n  rules:\n{rules}")).unwrap();
    };
    file(
        "a.yml",
        "  - {alert: A, expr: a, labels: {s: x}}\n  - {alert: B, expr: a}\n  - {record: r, expr: a}\n",
    );
    file(
        "b.yml",
        "  - {alert: A, expr: b, labels: {s: x}}\n  - {alert: B, expr: b, labels: {s: x}}\n  - {record: r, expr: b}\n",
    );
    let set = RuleSet::load(std::slice::from_ref(&place)).unwrap();
    let (one, two) = (place.join("a.yml"), place.join("b.yml"));
    let (one, two) = (one.display(), two.display());
    assert_eq!(
        set.warnings.to_string(),
        format!(
            "{two}:4:5: warning: another rule of the name 'A' has the same labels ({one}:4:5): people get alerts with the same labels as one alert\n\
             {two}:6:5: warning: another rule of the name 'r' has the same labels ({one}:6:5): their results may mix"
        )
    );
    std::fs::remove_dir_all(place).unwrap();
}
