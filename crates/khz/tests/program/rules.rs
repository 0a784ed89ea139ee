//! A hub that judges: rules of a directory are evaluated, recorded and shown; people are told; alerts outlive a killed hub; files with
//! errors leave those before in use.

use std::time::Duration;

use serde_json::Value;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;
use crate::text::free_port;
use crate::watched::signal;

const PATIENCE: Duration = Duration::from_secs(60);

/// An alert that is true as soon as the node is there, and one that is not. The first uses what a rule before it has recorded.
const RULES: &str = "groups:
- name: memory
  interval: 1s
  rules:
  - record: instance:memory:bytes
    expr: max by (instance) (node_memory_MemTotal_bytes)
  - alert: HasMemory
    expr: instance:memory:bytes > 0
    for: 1s
    labels: {severity: info}
    annotations: {summary: '{{ $labels.instance }} has {{ $value | humanize1024 }}B'}
  - alert: Nothing
    expr: node_load1 < 0
";

/// A program that keeps each message that it gets, unless it is away.
fn keeps(place: &Place) -> String {
    let (told, away) = (place.0.join("told"), place.0.join("away"));
    let script = format!("test -e {1} && exit 75; cat >> {0}", told.display(), away.display());
    format!(
        "[[notify.exec]]\nname = \"keep\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\nwait = \"100ms\"\n"
    )
}

/// How often the program was told of an alert in this state: of its name and its severity.
fn told(place: &Place, name: &str, severity: &str, status: &str) -> usize {
    let text = std::fs::read_to_string(place.0.join("told")).unwrap_or_default();
    let messages = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let alerts =
        messages.filter_map(Result::ok).flat_map(|one| one["alerts"].as_array().cloned().unwrap_or_default());
    let is_meant = |alert: &serde_json::Value| {
        let labels = &alert["labels"];
        alert["status"] == status && labels["alertname"] == name && labels["severity"] == severity
    };
    alerts.filter(is_meant).count()
}

fn start(place: &Place, link: &str) -> Running {
    start_with(place, link, &keeps(place))
}

fn start_with(place: &Place, link: &str, config: &str) -> Running {
    let (rules, state) = (place.0.join("rules"), place.0.join("state"));
    let (rules, state) = (rules.to_str().unwrap(), state.to_str().unwrap());
    let (config, store) = (place.file("khz.toml", config), place.0.join("store"));
    let words =
        ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
    let more = ["--rules", rules, "--state-dir", state, "--store", store.to_str().unwrap()];
    let mut command = khz(&[&words[..], &more].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

fn write_rules(place: &Place, text: &str) {
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file("rules/memory.yml", text);
}

fn fires(hub: &Running) -> bool {
    get_at(hub, "/api/v1/alerts").contains("\"state\":\"firing\"")
}

#[test]
fn a_hub_evaluates_rules_records_what_they_give_and_tells_people() {
    let (place, link) = (Place::new("rules"), free_port());
    write_rules(&place, RULES);
    let hub = start(&place, &link);
    let agent = place.agent(&link, "n1");
    until(PATIENCE, "the alert fires", || fires(&hub));
    let alerts = get_at(&hub, "/api/v1/alerts");
    assert!(alerts.contains("\"alertname\":\"HasMemory\"") && !alerts.contains("Nothing"), "{alerts}");
    let rules = get_at(&hub, "/api/v1/rules?type=alert");
    assert!(rules.contains("\"state\":\"inactive\",\"name\":\"Nothing\""), "{rules}");
    assert!(!rules.contains("\"type\":\"recording\""), "{rules}");
    let listed = out(&hub.beside(&["alerts", "--server", &hub.url]).output().unwrap());
    assert!(
        listed.contains("HasMemory") && listed.contains("firing") && listed.contains("n1 has "),
        "{listed}"
    );
    assert!(!listed.contains("firing, there"), "the hub says since when it fires: {listed}");
    let shown = hub.beside(&["alerts", "show", "HasMemory", "n1", "--server", &hub.url]).output().unwrap();
    let text = out(&shown);
    for part in [
        "HasMemory on n1",
        "fires since",
        "instance:memory:bytes > 0 (group memory)",
        "n1 has ",
        "(alert if > 0)",
    ] {
        assert!(text.contains(part), "{part}: {text}{}", err(&shown));
    }
    let json = hub.beside(&["alerts", "show", "HasMemory", "--json", "--server", &hub.url]).output().unwrap();
    let object: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(object["bound"], "0", "{object}");
    assert!(object["series"][0]["values"][0][1].is_string(), "the rows around it: {object}");
    for (words, problem) in [
        (&["alerts", "show", "Nobody"][..], "no alerting rule has the name \"Nobody\""),
        (&["alerts", "show", "Nothing"], "no alert Nothing fires or is pending"),
        (&["alerts", "show", "HasMemory", "n2"], "no alert HasMemory of n2 fires or is pending"),
    ] {
        let refused = hub.beside(&[words, &["--server", &hub.url]].concat()).output().unwrap();
        assert_eq!(code(&refused), 1, "{}", err(&refused));
        assert!(err(&refused).contains(problem), "{}", err(&refused));
    }
    for (query, part) in [
        ("instance:memory:bytes", "\"__name__\":\"instance:memory:bytes\""),
        ("ALERTS{alertstate=\"firing\"}", "\"severity\":\"info\""),
        ("ALERTS_FOR_STATE", "\"alertname\":\"HasMemory\""),
    ] {
        until(PATIENCE, query, || {
            get_at(&hub, &format!("/api/v1/query?query={}", coded(query))).contains(part)
        });
    }
    until(PATIENCE, "a program is told", || {
        std::fs::read_to_string(place.0.join("told")).is_ok_and(|told| told.contains("HasMemory"))
    });
    let nodes = out(&hub.beside(&["nodes", "--server", &hub.url]).output().unwrap());
    assert!(nodes.contains("1 node: 1 up"), "a group of rules is no node: {nodes}");
    let own = get_at(&hub, "/metrics");
    assert!(own.lines().any(|line| line == "khz_rules_firing 1"), "{own}");
    drop(agent);
    until(PATIENCE, "the alert is resolved when its node is down", || !fires(&hub));
}

/// Alerts that the hub judges: of a node, and of none.
const OF_HUB: &str = "groups:
- name: memory
  interval: 1s
  rules:
  - alert: OfNode
    expr: 'node_load1{instance=~\".+\"} >= 0'
    labels: {severity: info}
    annotations: {khz_actions: act}
  - alert: OfNone
    expr: 'sum(node_load1) >= 0'
    labels: {severity: info}
    annotations: {khz_actions: act}
";

/// What is added to the configuration for actions: each run leaves the name of its alert in a file.
fn acts(place: &Place) -> String {
    let acted = place.0.join("acted");
    format!(
        "[actions.act]\nexec = [\"/bin/sh\", \"-c\", \"echo $KHZ_ALERT_NAME >> {}\"]\nper_hour = 60\ncooldown = \"0s\"\n",
        acted.display()
    )
}

/// The alerts that were acted on, sorted.
fn acted(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.0.join("acted")).unwrap_or_default();
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// How often rules were evaluated.
fn evaluations(hub: &Running) -> u64 {
    let own = get_at(hub, "/metrics");
    let count = own.lines().find_map(|line| line.strip_prefix("khz_rules_evaluations_total ")?.parse().ok());
    count.unwrap_or_else(|| panic!("{own}"))
}

/// Waits until all rules were evaluated some times more.
fn evaluated(hub: &Running) {
    let before = evaluations(hub);
    until(PATIENCE, "rules are evaluated", || evaluations(hub) >= before + 8);
}

/// Each alert was told and acted on once, and nobody was told of an end.
fn goes_on(place: &Place) {
    for name in ["OfNode", "OfNone"] {
        assert_eq!(told(place, name, "info", "firing"), 1, "{name}");
        assert_eq!(told(place, name, "info", "resolved"), 0, "{name}");
    }
    assert_eq!(acted(place), ["OfNode", "OfNone"]);
}

/// A hub with two alerts that it judges, of which people were told.
fn firing(name: &str) -> (Place, Running, Running) {
    firing_at(name, &free_port())
}

/// The same, at this address of the hub.
fn firing_at(name: &str, link: &str) -> (Place, Running, Running) {
    let place = Place::new(name);
    write_rules(&place, OF_HUB);
    let hub = start_with(&place, link, &format!("{}{}", keeps(&place), acts(&place)));
    let agent = place.agent(link, "n1");
    until(PATIENCE, "both are told and acted on", || {
        told(&place, "OfNode", "info", "firing") + told(&place, "OfNone", "info", "firing") >= 2
            && acted(&place).len() >= 2
    });
    (place, hub, agent)
}

/// Lets a process stand still for longer than series live without rows, twice.
fn halts(process: &Running, hub: &Running) {
    for _ in 0..2 {
        signal(&process.child, "STOP");
        std::thread::sleep(Duration::from_secs(7));
        signal(&process.child, "CONT");
        evaluated(hub);
    }
}

#[test]
fn alerts_go_on_when_their_hub_stood_still_longer_than_series_live_without_rows() {
    let (place, hub, _agent) = firing("rules-halt");
    halts(&hub, &hub);
    goes_on(&place);
    let (_, log) = hub.end("TERM");
    assert!(log.contains("this hub stood still for"), "{log}");
}

#[test]
fn alerts_go_on_when_their_node_stood_still_for_less_than_ten_seconds() {
    let (place, hub, agent) = firing("rules-silent");
    halts(&agent, &hub);
    goes_on(&place);
    drop(agent);
    until(PATIENCE, "and they end when the node is gone", || {
        told(&place, "OfNode", "info", "resolved") + told(&place, "OfNone", "info", "resolved") >= 2
    });
}

/// A query as part of a URL.
fn coded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn alerts_outlive_a_killed_hub_and_files_with_errors_leave_those_before_in_use() {
    let (place, link) = (Place::new("rules-kill"), free_port());
    write_rules(&place, RULES);
    let hub = start(&place, &link);
    let _agent = place.agent(&link, "n1");
    until(PATIENCE, "the alert fires", || fires(&hub));
    let since = |hub: &Running| {
        let alerts = get_at(hub, "/api/v1/alerts");
        let (_, after) = alerts.split_once("\"activeAt\":\"").unwrap_or_default();
        after.split('"').next().unwrap_or_default().to_owned()
    };
    let before = since(&hub);
    drop(hub);
    let hub = start(&place, &link);
    until(PATIENCE, "the alert goes on", || fires(&hub));
    assert_eq!(since(&hub), before, "it fires since it began, not since the restart");

    write_rules(&place, &RULES.replace("max by (instance) (", "max by (instance ("));
    let refused = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(err(&refused).contains("memory.yml:6:"), "the place of the error: {}", err(&refused));
    let rules = get_at(&hub, "/api/v1/rules");
    assert!(rules.contains("\"warnings\"") && rules.contains("max by (instance) ("), "{rules}");
    assert!(fires(&hub), "those before are in use");

    write_rules(&place, &RULES.replace("instance:memory:bytes > 0", "instance:memory:bytes < 0"));
    let loaded = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!((code(&loaded), out(&loaded)), (0, "3 rules are in use, in 1 group\n".to_owned()));
    until(PATIENCE, "the alert is resolved by its new rule", || !fires(&hub));
    assert!(!get_at(&hub, "/api/v1/rules").contains("\"warnings\""));
}

#[test]
fn alerts_of_a_rule_that_was_removed_or_changed_are_over_for_people_at_once_and_over_a_killed_hub() {
    let (place, link) = (Place::new("rules-gone"), free_port());
    let both = format!("{RULES}  - {{alert: Always, expr: vector(1), labels: {{severity: info}}}}\n");
    write_rules(&place, &both);
    let hub = start(&place, &link);
    let agent = place.agent(&link, "n1");
    let fire = |severity: &str| {
        until(PATIENCE, "people are told", || {
            ["HasMemory", "Always"].iter().all(|name| told(&place, name, severity, "firing") == 1)
        });
    };
    fire("info");
    // Another name of the file changes nothing for people.
    let (file, renamed) = (place.0.join("rules/memory.yml"), place.0.join("rules/renamed.yml"));
    for (from, to) in [(&file, &renamed), (&renamed, &file)] {
        std::fs::rename(from, to).unwrap();
        let loaded = hub.beside(&["rules", "reload"]).output().unwrap();
        assert_eq!(code(&loaded), 0, "{}", err(&loaded));
        assert!(fires(&hub), "its alerts go on");
    }
    write_rules(&place, &both.replace("severity: info", "severity: page"));
    let loaded = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!(code(&loaded), 0, "{}", err(&loaded));
    fire("page");
    until(PATIENCE, "those with the old label are over", || {
        ["HasMemory", "Always"].iter().all(|name| told(&place, name, "info", "resolved") == 1)
    });

    // The program is away when a rule is removed, and the hub is killed before it is back.
    place.file("away", "");
    write_rules(&place, RULES.split("  - alert").next().unwrap());
    let loaded = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!((code(&loaded), out(&loaded)), (0, "1 rule is in use, in 1 group\n".to_owned()));
    assert!(!fires(&hub));
    drop((hub, agent));
    // While no hub is there, its group goes as well.
    write_rules(&place, "groups: []\n");
    let hub = start(&place, &link);
    std::fs::remove_file(place.0.join("away")).unwrap();
    until(PATIENCE, "both are over", || {
        ["HasMemory", "Always"].iter().all(|name| told(&place, name, "page", "resolved") == 1)
    });
    drop(hub);
    // Another hub mentions them again, and people have heard it.
    let hub = start(&place, &link);
    until(PATIENCE, "the hub runs", || get_at(&hub, "/api/v1/rules").contains("success"));
    for name in ["HasMemory", "Always"] {
        for (severity, status) in
            [("info", "firing"), ("info", "resolved"), ("page", "firing"), ("page", "resolved")]
        {
            assert_eq!(told(&place, name, severity, status), 1, "{name} {severity} {status}");
        }
    }
}

/// Two rules of one group, and one of another.
const CHOSEN: &str = "groups:
- name: one
  rules:
  - {alert: Red, expr: vector(1), labels: {severity: page, text: '{{ $value }}'}}
  - {record: red, expr: vector(1), labels: {severity: page}}
- name: two
  rules:
  - {alert: Blue, expr: vector(1), labels: {severity: info}}
";

#[test]
fn clients_choose_rules_by_their_labels_and_take_groups_in_parts() {
    let place = Place::new("rules-chosen");
    write_rules(&place, CHOSEN);
    let hub = start(&place, "127.0.0.1:0");
    let answer = |query: &str| -> Value {
        let answer: Value = serde_json::from_str(&get_at(&hub, &format!("/api/v1/rules?{query}"))).unwrap();
        answer["data"].clone()
    };
    let names = |data: &Value| -> Vec<String> {
        let rules =
            data["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        rules.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
    };
    for (selector, expected) in [
        ("{severity=\"page\"}", &["Red", "red"][..]),
        ("{severity=~\"i.*\"}", &["Blue"]),
        // A template is its text, as in Prometheus.
        ("{severity=\"page\",text=\"7\"}", &[]),
        ("{severity=\"page\",text=~\".*value.*\"}", &["Red"]),
        ("{severity=\"none\"}", &[]),
    ] {
        assert_eq!(names(&answer(&format!("match[]={}", coded(selector)))), expected, "{selector}");
    }
    let first = answer("group_limit=1");
    assert_eq!(names(&first), ["Red", "red"]);
    let token = first["groupNextToken"].as_str().unwrap();
    let second = answer(&format!("group_limit=1&group_next_token={token}"));
    assert_eq!((names(&second), second.get("groupNextToken")), (vec!["Blue".to_owned()], None));
    assert_eq!(answer("group_limit=2").get("groupNextToken"), None);
}

#[test]
fn the_end_of_a_hub_ends_the_program_of_a_message() {
    let (place, link) = (Place::new("rules-end"), free_port());
    write_rules(&place, "groups: [{name: g, interval: 1s, rules: [{alert: Always, expr: vector(1)}]}]\n");
    let pid = place.0.join("pid");
    // The shell gets no signal that it does not ignore, and must be killed.
    let script = format!(
        "trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; while true; do sleep 1; done",
        pid.display()
    );
    let config = format!(
        "[[notify.exec]]\nname = \"keep\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\nwait = \"50ms\"\ntimeout = \"100s\"\n"
    );
    let hub = start_with(&place, &link, &config);
    let pid: u32 = {
        until(PATIENCE, "the program runs", || pid.exists());
        std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap()
    };
    hub.end("TERM");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(stat.is_err() || stat.unwrap().contains(") Z "), "the program outlives the hub");
}

/// A group that is never done within its interval, and one that is quick.
const SLOW: &str = "groups:
- name: slow
  interval: 10ms
  rules:
  - {record: 'slow:one', expr: 'sum_over_time(vector(1)[3h:10ms])'}
  - {record: 'slow:two', expr: 'sum_over_time(vector(2)[3h:10ms])'}
- name: quick
  interval: 1s
  rules: [{alert: Always, expr: vector(1)}]
";

#[test]
fn a_group_that_is_always_late_hides_no_other_and_delays_neither_a_reload_nor_the_end() {
    let (place, link) = (Place::new("rules-late"), free_port());
    write_rules(&place, SLOW);
    let hub = start(&place, &link);
    until(PATIENCE, "the alert of the quick group fires", || fires(&hub));
    let number = |name: &str| {
        let own = get_at(&hub, "/metrics");
        let value = own.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("{name}: {own}"))
    };
    until(PATIENCE, "what the slow group misses is counted", || number("khz_rules_missed_total ") > 0);
    until(PATIENCE, "what fires is counted", || number("khz_rules_firing ") == 1);
    until(PATIENCE, "the slow group is shown, too", || {
        !get_at(&hub, "/api/v1/rules?rule_group[]=slow").contains("0001-01-01")
    });
    write_rules(&place, &SLOW.replace("vector(2)", "vector(3)").replace("alert: Always", "alert: Ever"));
    let loaded = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!((code(&loaded), out(&loaded)), (0, "3 rules are in use, in 2 groups\n".to_owned()));
    until(PATIENCE, "the new rules are used", || get_at(&hub, "/api/v1/alerts").contains("Ever"));
    let (exit, said) = hub.end("TERM");
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("group slow takes longer than its interval of 10ms"), "{said}");
    assert!(said.contains("its slowest rule, slow:"), "{said}");
}

#[test]
fn a_rule_file_is_checked_on_standard_input() {
    let checked = |text: &str, words: &[&str]| {
        let mut child = khz(&[&["rules", "check"], words].concat())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // One that refuses its words has not read them.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes());
        child.wait_with_output().unwrap()
    };
    let good = checked(RULES, &["-"]);
    assert_eq!((code(&good), out(&good)), (0, "standard input: 3 rules in 1 group\n".to_owned()));
    let bad = checked(&RULES.replace("for: 1s", "for: soon"), &["-"]);
    assert_eq!(code(&bad), 1);
    assert!(err(&bad).starts_with("standard input:9:10: "), "editors go to the place: {}", err(&bad));
    assert_eq!(code(&checked(RULES, &["-", "a.yml"])), 2);
}

#[test]
fn a_file_of_tests_without_tests_does_not_fail_and_a_name_that_no_test_has_does() {
    let place = Place::new("rules-no-tests");
    let file = place.file("none_test.yml", "tests: []\n");
    let none = khz(&["rules", "test", &file]).output().unwrap();
    assert_eq!((code(&none), err(&none)), (0, "khz: there are no tests in these files\n".to_owned()));
    let named = khz(&["rules", "test", &file, "--run", "full", "--run", "slow"]).output().unwrap();
    assert_eq!(
        (code(&named), err(&named)),
        (1, "khz: no test has a name with 'full' or 'slow'\n".to_owned())
    );
}

#[test]
fn a_hub_does_not_start_with_rules_that_have_errors() {
    let place = Place::new("rules-bad");
    write_rules(&place, &RULES.replace("for: 1s", "for: soon"));
    let rules = place.0.join("rules");
    let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--rules"];
    let ended = crate::process::run(&[&words[..], &[rules.to_str().unwrap()]].concat());
    assert_eq!(code(&ended), 2);
    assert!(err(&ended).contains("memory.yml:9:"), "{}", err(&ended));
}

/// Each is a message of its own, with labels that are longer than a line of a log.
const LONG: &str = "groups:
- name: long
  interval: 1s
  rules:
  - {alert: A, expr: 'vector(1)', labels: {long: '{{ printf \"%060000d\" 1 }}'}}
  - {alert: B, expr: 'vector(1)'}
  - {alert: C, expr: 'vector(1)'}
  - {alert: D, expr: 'vector(1)'}
";

#[test]
fn a_state_directory_that_takes_no_more_and_long_labels_do_not_fill_the_log() {
    let (place, link) = (Place::new("rules-log"), free_port());
    write_rules(&place, LONG);
    // Directories in the way: also root cannot write there.
    for name in ["notify", "scores"] {
        std::fs::create_dir_all(place.0.join(format!("state/{name}.jsonl.new"))).unwrap();
    }
    let hub = start(&place, &link);
    until(PATIENCE, "people are told of all that are short enough", || {
        ["B", "C", "D"].iter().all(|name| {
            let text = std::fs::read_to_string(place.0.join("told")).unwrap_or_default();
            text.contains(&format!("\"alertname\":\"{name}\""))
        })
    });
    let (_, log) = hub.end("TERM");
    let count = |words: &str| log.matches(words).count();
    assert!((1..=2).contains(&count("what people were told is not kept")), "{log}");
    assert!((1..=2).contains(&count("scores of rules would be older")), "{log}");
    assert_eq!(count("fires, at 1"), 4, "{log}");
    assert!(log.lines().all(|line| line.len() < 2_000), "{log}");
}

#[test]
fn what_could_not_be_written_is_written_as_soon_as_there_is_room_although_nothing_changes() {
    let (place, link) = (Place::new("rules-room"), free_port());
    write_rules(&place, RULES);
    let in_the_way =
        ["alerts", "notify", "scores"].map(|name| place.0.join(format!("state/{name}.jsonl.new")));
    in_the_way.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
    let hub = start(&place, &link);
    let _agent = place.agent(&link, "n1");
    until(PATIENCE, "people are told", || told(&place, "HasMemory", "info", "firing") > 0);
    let is_all_saved = || {
        get_at(&hub, "/metrics")
            .lines()
            .any(|line| line.starts_with("khz_rules_unsaved") && line.ends_with(" 0"))
    };
    assert!(!is_all_saved(), "it is said that alerts are not kept");
    in_the_way.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    let has = |name: &str| {
        let path = place.0.join(format!("state/{name}.jsonl"));
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("HasMemory"))
    };
    until(PATIENCE, "they are kept", || has("alerts") && has("notify") && has("scores") && is_all_saved());
    assert_eq!(told(&place, "HasMemory", "info", "firing"), 1, "nobody is told again");
}

#[test]
fn a_state_directory_that_somebody_removes_is_there_again_and_a_killed_hub_repeats_nothing() {
    let link = free_port();
    let (place, hub, _agent) = firing_at("rules-removed", &link);
    let state = place.0.join("state");
    let files = |folder: &std::path::Path| -> Vec<String> {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        // The list of jobs is written again with its next change, since it is looked at then.
        let is_meant = |name: &String| name.ends_with(".jsonl") && name != "jobs.jsonl";
        let mut names: Vec<String> = names.filter(is_meant).collect();
        names.sort();
        names
    };
    let all = ["actions.jsonl", "alerts.jsonl", "notify.jsonl", "roster.jsonl", "scores.jsonl"];
    until(PATIENCE, "all is kept", || files(&state) == all);
    evaluated(&hub);
    let before = std::fs::read_to_string(state.join("actions.jsonl")).unwrap();
    // At once: the hub writes meanwhile.
    std::fs::rename(&state, place.0.join("moved")).unwrap();
    std::fs::remove_dir_all(place.0.join("moved")).unwrap();
    until(PATIENCE, "all is there again", || files(&state) == all);
    assert_eq!(std::fs::read_to_string(state.join("actions.jsonl")).unwrap(), before);
    let own = get_at(&hub, "/metrics");
    let renewed = own.lines().find_map(|line| line.strip_prefix("khz_state_renewed_total ")?.parse().ok());
    assert!(renewed >= Some(all.len()), "{own}");
    // kill -9
    drop(hub);
    let hub = start_with(&place, &link, &format!("{}{}", keeps(&place), acts(&place)));
    until(PATIENCE, "the alerts go on", || fires(&hub));
    evaluated(&hub);
    goes_on(&place);
}

#[test]
fn a_file_that_is_missing_is_named_beside_the_errors_of_the_others_for_people_and_for_programs() {
    let place = Place::new("rules-missing");
    let bad = place.file("bad.yml", "groups: [{name: g, rules: [{alert: A, expr: '1 +'}]}]");
    let missing = place.0.join("missing.yml").to_str().unwrap().to_owned();
    for command in ["check", "show"] {
        let said = khz(&["rules", command, &missing, &bad]).output().unwrap();
        assert_eq!(code(&said), 1, "{command}");
        let lines = err(&said);
        assert!(lines.contains("missing.yml: it cannot be read: No such file"), "{command}: {lines}");
        assert!(lines.contains("bad.yml:1:"), "{command}: {lines}");
    }
    // A file of tests is read alone, and names rule files of its own.
    let none = place.0.join("none");
    std::fs::create_dir(&none).unwrap();
    for (words, paths) in [
        (&["check", &missing, &bad][..], &["missing.yml", "bad.yml"][..]),
        (&["show", &missing, &bad], &["missing.yml", "bad.yml"]),
        (&["test", &missing], &["missing.yml"]),
        (&["check", none.to_str().unwrap()], &[""]),
    ] {
        let said = khz(&[&["rules"], words, &["--json"]].concat()).output().unwrap();
        assert_eq!((code(&said), err(&said)), (1, String::new()), "{words:?}");
        let said = out(&said);
        let objects: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_of = |object: &Value, path: &str| object["path"].as_str().unwrap_or_default().ends_with(path);
        let named = objects.iter().zip(paths).all(|(object, path)| is_of(object, path));
        assert!(named && objects.len() == paths.len(), "{words:?}: {said}");
        assert!(objects.iter().all(|object| object["severity"] == "error"), "{words:?}: {said}");
    }
}

#[test]
fn without_a_hub_the_error_names_the_run_directory_that_was_meant() {
    let place = Place::new("rules-nobody");
    let directory = place.0.join("nobody");
    let mut command = khz(&["rules", "reload", "--run-dir", directory.to_str().unwrap()]);
    let said = command.env("KHZ_LISTEN", free_port()).output().unwrap();
    let text = err(&said);
    let expected = format!("nor at a local socket in {}", directory.display());
    assert!(code(&said) == 1 && text.contains(&expected), "{text}");
    let said = command.env("KHZ_LISTEN", "none").output().unwrap();
    let text = err(&said);
    assert!(text.contains(&format!("no khz answers at a local socket in {}", directory.display())), "{text}");
}

#[test]
fn a_daemon_without_an_http_address_answers_at_its_local_socket_only() {
    for words in [&["agent", "--hub", "127.0.0.1:1"][..], &["hub", "--link-listen", "127.0.0.1:0"], &[]] {
        let daemon = Running::of(khz(&[words, &["--node", "n1", "--listen", "none"]].concat()));
        assert!(!daemon.line.contains("http"), "{}", daemon.line);
        let said = daemon.beside(&["nodes"]).output().unwrap();
        assert_eq!(code(&said), 0, "{words:?}: {}", err(&said));
    }
    let refused = khz(&["hub", "--link-listen", "none"]).output().unwrap();
    assert!(err(&refused).contains("agents report there"), "{}", err(&refused));
}
