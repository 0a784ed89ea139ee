//! A hub that acts on alerts: what it does is in its log before it is done, survives `kill -9`, and is shown to those who ask.

use std::time::Duration;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, out, run, until};
use crate::remote_write::Place;
use crate::text::free_port;

const PATIENCE: Duration = Duration::from_secs(60);

fn rules(actions: &str) -> String {
    format!(
        "groups:
- name: memory
  interval: 1s
  rules:
  - alert: HasMemory
    expr: max by (instance) (node_memory_MemTotal_bytes) > 0
    annotations:
      summary: '{{{{ $labels.instance }}}} has memory'
      khz_actions: '{actions}'
"
    )
}

/// A program that says whom it looks at and then waits; one that ends; and one that nobody has asked for.
fn config(place: &Place) -> String {
    let file = |name: &str| place.0.join(name).display().to_string();
    format!(
        "[actions.look]\ndiagnose = [\"/bin/sh\", \"-c\", \"echo looks at $KHZ_ACTION_NODE\"]\n\
         [actions.fast]\nboost = {{ series = [\"load.1m\"], rate = \"20Hz\", for = \"10m\" }}\n\
         [actions.hang]\nexec = [\"/bin/sh\", \"-c\", \"echo $KHZ_ACTION_NODE >> {}; exec sleep 200\"]\n\
         [actions.never]\nexec = [\"/usr/bin/touch\", \"{}\"]\n",
        file("hangs"),
        file("never"),
    )
}

fn start(place: &Place, link: &str) -> Running {
    let (config, rules, state) =
        (place.file("khz.toml", &config(place)), place.0.join("rules"), place.0.join("state"));
    let words =
        ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
    let more = ["--rules", rules.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let mut command = khz(&[&words[..], &more].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

fn log(hub: &Running) -> Vec<serde_json::Value> {
    let log = hub.beside(&["actions", "log", "--json"]).output().unwrap();
    assert_eq!(code(&log), 0, "{}", err(&log));
    out(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_killed_hub_knows_what_it_had_begun_and_does_it_once() {
    let (place, link) = (Place::new("actions"), free_port());
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file("rules/memory.yml", &rules("look, fast, hang, nobody"));
    let hub = start(&place, &link);
    let _agent = place.agent(&link, "n1");
    let hangs = || std::fs::read_to_string(place.0.join("hangs")).unwrap_or_default();
    until(PATIENCE, "the second action has begun", || hangs() == "n1\n");
    let runs = log(&hub);
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert_eq!((&runs[0]["outcome"], &runs[0]["output"]), (&"done".into(), &true.into()), "{runs:?}");
    assert_eq!(runs[1]["text"], "n1 samples load.1m at 20Hz for 600 s", "{runs:?}");
    assert!(runs[2]["outcome"].is_null() && runs[2]["action"] == "hang", "{runs:?}");
    until(PATIENCE, "the node samples faster", || get_at(&hub, "/khz/v1/nodes").contains("20Hz"));
    let printed = hub.beside(&["actions", "output", "1"]).output().unwrap();
    assert_eq!(out(&printed), "looks at n1\n");
    let none = hub.beside(&["actions", "output", "3"]).output().unwrap();
    assert!(code(&none) == 1 && err(&none).contains("no output of a run 3"), "{}", err(&none));
    let alerts = out(&hub.beside(&["alerts"]).output().unwrap());
    assert!(alerts.contains("hang: runs (run 3)"), "{alerts}");
    let own = get_at(&hub, "/metrics");
    for line in [
        "khz_actions_done_total{action=\"look\"} 1",
        "khz_actions_waiting{action=\"hang\"} 1",
        "khz_actions_unknown_total 1",
    ] {
        assert!(own.lines().any(|known| known == line), "{line}: {own}");
    }
    // kill -9
    drop(hub);
    let hub = start(&place, &link);
    until(PATIENCE, "the alert goes on", || get_at(&hub, "/api/v1/alerts").contains("\"state\":\"firing\""));
    let runs = log(&hub);
    assert_eq!((runs.len(), &runs[2]["outcome"]), (3, &"interrupted".into()), "{runs:?}");
    assert_eq!(hangs(), "n1\n", "it was done once");
    assert!(!place.0.join("never").exists());
    let recent = hub.beside(&["actions", "log", "--since", "1h"]).output().unwrap();
    assert_eq!(out(&recent).lines().count(), 4, "{}", out(&recent));
}

#[test]
fn a_check_of_rules_names_actions_that_the_configuration_does_not_define() {
    let place = Place::new("actions-check");
    let (rules, config) =
        (place.file("a.yml", &rules("look, drain-node")), place.file("khz.toml", &config(&place)));
    let without = run(&["rules", "check", &rules]);
    assert_eq!((code(&without), err(&without).as_str()), (0, ""));
    let with = run(&["rules", "check", &rules, "--config", &config]);
    assert_eq!(code(&with), 1, "{}", err(&with));
    let expected = "a.yml:5:5: alert HasMemory asks for the action 'drain-node', which the configuration does not define";
    assert!(err(&with).contains(expected), "{}", err(&with));
    assert!(!err(&with).contains("'look'"), "{}", err(&with));
}

#[test]
fn a_khz_without_actions_says_so() {
    let hub = Running::start_hub(&[]);
    for words in [["actions", "list"], ["actions", "log"]] {
        let said = hub.beside(&words).output().unwrap();
        assert!(code(&said) == 0 && err(&said).contains("does nothing about alerts"), "{}", err(&said));
    }
}
