//! A hub that keeps the scores of its rules: what fires, which node goes down, and what remains of it when the hub is killed.

use std::time::Duration;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;
use crate::text::free_port;

const PATIENCE: Duration = Duration::from_secs(180);

/// One that is true as soon as a node is there, one that never is, and one about no node.
const RULES: &str = "groups:
- name: all
  interval: 1s
  rules:
  - {alert: HasMemory, expr: 'sum by (instance) (node_memory_MemTotal_bytes) > 0'}
  - {alert: Never, expr: 'node_load1 < 0'}
  - {alert: Always, expr: 'vector(1)'}
";

fn start(place: &Place, link: &str) -> Running {
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file("rules/all.yml", RULES);
    let (rules, state) = (place.0.join("rules"), place.0.join("state"));
    let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub", "--store", "none"];
    let more = ["--rules", rules.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let mut command = khz(&[&words[..], &more].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

fn scores(hub: &Running) -> serde_json::Value {
    serde_json::from_str(&get_at(hub, "/khz/v1/rules/score")).unwrap()
}

/// Makes the scores begin an hour earlier, and the nodes of the roster be heard last a quarter of an hour after that. Returns when the
/// scores begin (ms since 1970).
fn age(place: &Place) -> i64 {
    let mut since = 0;
    let change = |name: &str, change: &mut dyn FnMut(&mut serde_json::Value)| {
        let path = place.0.join("state").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = text.lines().map(|line| {
            let mut line = serde_json::from_str(line).unwrap();
            change(&mut line);
            line.to_string() + "\n"
        });
        std::fs::write(&path, changed.collect::<String>()).unwrap();
    };
    change("scores.jsonl", &mut |line| {
        since = line["since"].as_i64().unwrap() - 3_600_000;
        line["since"] = since.into();
    });
    change("roster.jsonl", &mut |line| {
        if line.get("heard").is_some() {
            line["heard"] = format!("{}.000000000", since / 1_000 + 900).into();
        }
    });
    since
}

/// One count of a rule.
fn count(scores: &serde_json::Value, rule: &str, what: &str) -> u64 {
    let rules = scores["rules"].as_array().unwrap();
    let found = rules.iter().find(|one| one["rule"] == rule);
    found.unwrap_or_else(|| panic!("no score of {rule}: {scores}"))[what].as_u64().unwrap()
}

#[test]
fn a_hub_keeps_the_scores_of_its_rules_over_a_kill_and_shows_what_became_of_their_nodes() {
    let (place, link) = (Place::new("scores"), free_port());
    let hub = start(&place, &link);
    let agent = place.agent(&link, "n1");
    until(PATIENCE, "a warning of the node is open", || count(&scores(&hub), "HasMemory", "open") == 1);
    let before = scores(&hub);
    assert_eq!(["fired", "elsewhere", "open"].map(|what| count(&before, "Always", what)), [1, 1, 0]);
    assert_eq!(count(&before, "Never", "fired"), 0, "a rule in use that never fired is there, too");

    // It is killed, and has forgotten nothing; what fires still does not count again. Its roster may be some seconds old then.
    drop(hub);
    let since = age(&place);
    let hub = start(&place, &link);
    until(PATIENCE, "the alert goes on", || get_at(&hub, "/api/v1/alerts").contains("HasMemory"));
    let after = scores(&hub);
    for what in ["fired", "warnings", "open"] {
        assert_eq!(count(&after, "HasMemory", what), 1, "{what}: {after}");
    }
    assert_eq!(after["since"].as_str().unwrap().split('.').next(), Some(&*(since / 1_000).to_string()));
    assert_eq!((after["failures"].as_u64(), after["unforetold"].as_array().unwrap().len()), (Some(0), 0));

    // The node dies without a word, and is silent for a minute.
    until(PATIENCE, "the node is back", || get_at(&hub, "/khz/v1/nodes").contains("\"up\":true"));
    drop(agent);
    until(PATIENCE, "its failure was foretold", || scores(&hub)["foretold"] == 1);
    let last = scores(&hub);
    assert_eq!(["down", "open", "nothing"].map(|what| count(&last, "HasMemory", what)), [1, 0, 0], "{last}");
    assert_eq!((last["failures"].as_u64(), last["unforetold"].as_array().unwrap().len()), (Some(1), 0));

    let shown = out(&hub.beside(&["rules", "score", "--server", &hub.url]).output().unwrap());
    assert!(shown.contains("1 of 1 failures of nodes within the last"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("HasMemory")).unwrap();
    assert!(row.contains(" to "), "how much earlier it fired: {row}");
    let one = out(&hub.beside(&["rules", "score", "Never", "--server", &hub.url]).output().unwrap());
    assert!(one.contains("  fired               0"), "{one}");
    let unknown = hub.beside(&["rules", "score", "Other", "--server", &hub.url]).output().unwrap();
    assert_eq!(code(&unknown), 1);
    assert!(err(&unknown).contains("no alerting rule has the name \"Other\""), "{}", err(&unknown));
    let json = out(&hub.beside(&["rules", "score", "--json", "--server", &hub.url]).output().unwrap());
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["failures"]), (4, &serde_json::json!(1)));
}
