//! Two hubs with the same rules: alerts go on at the second one when the first is killed, and at the first one when it is back; people
//! are told once, and actions act once.

use std::time::Duration;

use serde_json::Value;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, until};
use crate::remote_write::Place;
use crate::text::free_port;
use crate::watched::signal;

const PATIENCE: Duration = Duration::from_secs(180);

/// Alerts that the node judges, that the hub judges, that wait for an hour, and that are of no node.
const RULES: &str = "groups:
- name: shared
  interval: 1s
  rules:
  - alert: AtNode
    expr: '{\"job.phase\"} > 3'
    annotations: {khz_actions: act}
  - alert: AtHub
    expr: 'count_over_time({\"job.phase\"}[10m]) > 0'
    keep_firing_for: 1h
    annotations: {khz_actions: act}
  - alert: Waits
    expr: '{\"job.phase\"} > 2'
    for: 1h
  - alert: OfNoNode
    expr: 'count({\"job.phase\"} > 3) > 0'
    annotations: {khz_actions: act}
";

/// An alert of no node, which each hub has of its own nodes.
pub const OF_BOTH: &str = "groups:
- name: shared
  interval: 1s
  rules:
  - alert: All
    expr: 'sum(node_load1) >= 0'
    annotations: {khz_actions: act}
";

/// Where two hubs are.
pub struct Stage {
    place: Place,
    http: [String; 2],
    link: [String; 2],
}

impl Stage {
    pub fn new(name: &str, rules: &str) -> Self {
        let place = Place::new(name);
        std::fs::create_dir_all(place.0.join("rules")).unwrap();
        place.file("rules/shared.yml", rules);
        Stage { place, http: [free_port(), free_port()], link: [free_port(), free_port()] }
    }

    pub fn path(&self, name: &str) -> String {
        self.place.0.join(name).to_str().unwrap().to_owned()
    }

    /// The first or the second hub.
    fn hub(&self, number: usize) -> Running {
        self.hub_with(number, &[])
    }

    /// The same with more flags.
    pub fn hub_with(&self, number: usize, flags: &[&str]) -> Running {
        let (told, acted) = (self.path(&format!("told-{number}")), self.path(&format!("acted-{number}")));
        let config = format!(
            "[[rules_peer]]\nurl = \"http://{}\"\n\
             [[notify.exec]]\nname = \"keep\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> {told}; echo >> {told}\"]\nwait = \"50ms\"\n\
             [actions.act]\nexec = [\"/bin/sh\", \"-c\", \"echo $KHZ_ALERT_NAME >> {acted}\"]\nper_hour = 60\ncooldown = \"0s\"\n",
            self.http[1 - number]
        );
        let config = self.place.file(&format!("khz-{number}.toml"), &config);
        let name = format!("hub{number}");
        let words = ["hub", "--config", &config, "--listen", &self.http[number], "--link-listen"];
        let (rules, state) = (self.path("rules"), self.path(&format!("state-{number}")));
        let store = self.path(&format!("store-{number}"));
        let more = ["--rules", &rules, "--state-dir", &state, "--store", &store, "--insecure"];
        let mut command = khz(&[&words[..], &[&self.link[number], "--node", &name], &more, flags].concat());
        command.env("KHZ_RUN_DIR", self.path(&format!("run-{number}")));
        Running::of(command)
    }

    fn agent(&self, node: &str, hubs: &[String]) -> Running {
        self.agent_back_after(node, hubs, "2s")
    }

    pub fn agent_back_after(&self, node: &str, hubs: &[String], back_after: &str) -> Running {
        let hubs = hubs.join(",");
        let words = ["agent", "--node", node, "--hub", &hubs, "--failback-after", back_after];
        let more = ["--sources", "loadavg", "--ring", "4MiB", "--insecure"];
        let mut command = khz(&[&words[..], &more].concat());
        command.env("KHZ_RUN_DIR", self.path(&format!("run-{node}")));
        Running::of(command)
    }

    /// Names of alerts of which people were told by a hub that they are firing or resolved.
    pub fn told(&self, number: usize, status: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(&format!("told-{number}"))).unwrap_or_default();
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let alerts = messages.flat_map(|message| message["alerts"].as_array().cloned().unwrap_or_default());
        let meant = alerts.filter(|alert| alert["status"] == status);
        let mut names: Vec<String> =
            meant.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    pub fn acted(&self, number: usize) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(&format!("acted-{number}"))).unwrap_or_default();
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

fn publish(agent: &Running, value: &str) {
    let done = agent.beside(&["publish", value]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
}

/// The alerts of a hub, each with its state and its times, sorted.
pub fn alerts(hub: &Running) -> Vec<String> {
    let Ok(answer) = serde_json::from_str::<Value>(&get_at(hub, "/api/v1/alerts")) else { return Vec::new() };
    let mut all: Vec<String> = answer["data"]["alerts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|alert| {
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let (name, state) = (text(&alert["labels"]["alertname"]), text(&alert["state"]));
            format!("{name} {state} {} {}", text(&alert["activeAt"]), text(&alert["firedAt"]))
        })
        .collect();
    all.sort();
    all
}

/// A number of a hub.
pub fn number(hub: &Running, name: &str) -> u64 {
    let own = get_at(hub, "/metrics");
    let value = own.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    value.unwrap_or_else(|| panic!("{name}: {own}"))
}

/// Whether one hub has heard the last word of the other.
pub fn has_heard(hub: &Running, other: &Running) -> bool {
    let word = |hub: &Running| -> Value {
        serde_json::from_str(&get_at(hub, "/khz/v1/rules/state?known=-")).unwrap_or_default()
    };
    let tag = word(other)["tag"].clone();
    tag.as_str().is_some_and(|tag| !tag.is_empty())
        && word(hub)["heard"].as_array().is_some_and(|heard| heard.contains(&tag))
}

/// Waits until a hub has evaluated all its rules some times more.
pub fn evaluated(hub: &Running, mut meanwhile: impl FnMut()) {
    let before = number(hub, "khz_rules_evaluations_total ");
    until(PATIENCE, "the rules are evaluated again", || {
        meanwhile();
        number(hub, "khz_rules_evaluations_total ") >= before + 16
    });
}

#[test]
fn alerts_move_with_their_node_to_the_second_hub_and_back_and_nobody_is_told_or_acted_on_twice() {
    let stage = Stage::new("rules-shared", RULES);
    let (first, second) = (stage.hub(0), stage.hub(1));
    let agent = stage.agent("n1", &stage.link);
    let all = ["AtHub", "AtNode", "OfNoNode"].map(str::to_owned).to_vec();
    until(PATIENCE, "three fire at the first hub, one waits, people are told, and actions act", || {
        publish(&agent, "phase=5");
        alerts(&first).len() == 4 && stage.told(0, "firing") == all && stage.acted(0) == all
    });
    let before = alerts(&first);
    assert!(before.iter().any(|alert| alert.starts_with("Waits pending")), "{before:?}");
    assert!(alerts(&second).is_empty(), "it has no node, and judges none");
    // What a hub does within two seconds before it is killed may be done twice (docs/rules.md, "Two hubs"): these alerts are older.
    evaluated(&first, || publish(&agent, "phase=5"));
    // The second hub knows all that is new.
    until(PATIENCE, "the second hub has heard the last word of the first", || {
        publish(&agent, "phase=5");
        has_heard(&second, &first)
    });
    drop(first);
    until(PATIENCE, "the alerts go on at the second hub, since when they were there", || {
        publish(&agent, "phase=5");
        alerts(&second) == before
    });
    evaluated(&second, || publish(&agent, "phase=5"));
    assert_eq!(alerts(&second), before);
    assert_eq!((stage.told(1, "firing"), stage.told(1, "resolved")), (vec![], vec![]), "people know it");
    assert!(stage.acted(1).is_empty(), "the first hub has acted");
    assert!(number(&second, "khz_rules_adopted_total ") >= 4);

    let of_n1 = |alerts: Vec<String>| -> Vec<String> {
        alerts.into_iter().filter(|alert| !alert.starts_with("OfNoNode")).collect()
    };
    let before = of_n1(before);
    let first = stage.hub(0);
    until(PATIENCE, "the alerts of the node are at the first hub again, and not at the second", || {
        publish(&agent, "phase=5");
        of_n1(alerts(&first)) == before && of_n1(alerts(&second)).is_empty()
    });
    evaluated(&first, || publish(&agent, "phase=5"));
    assert_eq!(of_n1(alerts(&first)), before);
    let is_of_n1 =
        |names: Vec<String>| -> Vec<String> { names.into_iter().filter(|name| name != "OfNoNode").collect() };
    let once = ["AtHub", "AtNode"].map(str::to_owned).to_vec();
    assert_eq!(is_of_n1(stage.told(0, "firing")), once, "nobody was told twice");
    assert_eq!(is_of_n1(stage.told(1, "firing")), Vec::<String>::new());
    for number in [0, 1] {
        assert!(is_of_n1(stage.told(number, "resolved")).is_empty(), "nobody was told that it is over");
    }
    assert_eq!((is_of_n1(stage.acted(0)), is_of_n1(stage.acted(1))), (once, vec![]));
    until(PATIENCE, "the first hub tells that it is over", || {
        publish(&agent, "phase=1");
        stage.told(0, "resolved").contains(&"AtNode".to_owned())
    });
    assert!(!stage.told(1, "resolved").contains(&"AtNode".to_owned()));
}

#[test]
fn an_alert_of_no_node_is_told_and_acted_on_by_one_hub_also_when_that_one_is_killed() {
    let stage = Stage::new("rules-of-both", OF_BOTH);
    let hubs = [stage.hub(0), stage.hub(1)];
    let _agents = [0, 1].map(|at| stage.agent(&format!("n{at}"), &stage.link[at..=at]));
    let told = |status: &str| [0, 1].map(|number| stage.told(number, status).len());
    let acted = || [0, 1].map(|number| stage.acted(number).len());
    until(PATIENCE, "it fires at both, and one has told people and acted", || {
        hubs.iter().all(|hub| alerts(hub).len() == 1) && told("firing") != [0, 0] && acted() != [0, 0]
    });
    hubs.iter().for_each(|hub| evaluated(hub, || ()));
    until(PATIENCE, "each has heard the last word of the other", || {
        has_heard(&hubs[0], &hubs[1]) && has_heard(&hubs[1], &hubs[0])
    });
    let first = told("firing").iter().position(|count| *count > 0).unwrap();
    let once = [[1, 0], [0, 1]][first];
    assert_eq!((told("firing"), acted()), (once, once), "one hub does both");
    let [zero, one] = hubs;
    let (dead, other) = if first == 0 { (zero, one) } else { (one, zero) };
    drop(dead);
    until(PATIENCE, "the other hub knows that it is alone", || {
        number(&other, "khz_rules_peers_silent ") == 1
    });
    evaluated(&other, || ());
    assert_eq!(alerts(&other).len(), 1);
    assert_eq!((told("firing"), acted()), (once, once), "nobody is told again, and nothing is done again");
    stage.place.file("rules/shared.yml", "groups: []\n");
    let loaded = other.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!(code(&loaded), 0, "{}", err(&loaded));
    until(PATIENCE, "the other hub tells that it is over", || stage.told(1 - first, "resolved") == ["All"]);
}

#[test]
fn each_alert_of_no_node_is_told_and_acted_on_once_whichever_hub_saw_it_first_and_so_is_its_end() {
    let group = |number: usize| {
        format!(
            "- {{name: g{number}, interval: 1s, rules: [{{alert: M{number}, expr: vector(1), annotations: {{khz_actions: act}}}}]}}\n"
        )
    };
    let names: Vec<String> = (0..10).map(|number| format!("M{number}")).collect();
    let stage =
        Stage::new("shared-rules-first", &format!("groups:\n{}", (0..10).map(group).collect::<String>()));
    let both = |of: &dyn Fn(usize) -> Vec<String>| {
        let mut all = [of(0), of(1)].concat();
        all.sort();
        all
    };
    // The second one begins somewhat earlier: some alerts fire there first, and each hub hears of them when its own have just begun.
    let second = stage.hub(1);
    std::thread::sleep(Duration::from_millis(500));
    let first = stage.hub(0);
    until(PATIENCE, "all are acted on", || both(&|hub| stage.acted(hub)).len() >= names.len());
    until(PATIENCE, "people are told of all", || both(&|hub| stage.told(hub, "firing")).len() >= names.len());
    // Each hub hears what people were told.
    std::thread::sleep(Duration::from_secs(4));
    // Rules go at one hub, and some seconds later at the other one: the last one tells people.
    stage.place.file("rules/shared.yml", "groups: []\n");
    let reload = |hub: &Running| {
        let done = hub.beside(&["rules", "reload"]).output().unwrap();
        assert_eq!(code(&done), 0, "{}", err(&done));
    };
    reload(&first);
    std::thread::sleep(Duration::from_secs(5));
    reload(&second);
    until(PATIENCE, "people are told that all are over", || {
        both(&|hub| stage.told(hub, "resolved")).len() >= names.len()
    });
    // Nobody is told again.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(both(&|hub| stage.told(hub, "resolved")), names);
    assert_eq!(both(&|hub| stage.told(hub, "firing")), names);
    assert_eq!(both(&|hub| stage.acted(hub)), names);
    drop((first, second));
}

#[test]
fn two_hubs_that_start_together_do_not_say_that_the_other_one_has_no_rules() {
    let stage = Stage::new("rules-together", OF_BOTH);
    let hubs = std::thread::scope(|scope| {
        let starting = [0, 1].map(|number| {
            scope.spawn({
                let stage = &stage;
                move || stage.hub(number)
            })
        });
        starting.map(|hub| hub.join().unwrap())
    });
    until(PATIENCE, "each has heard the last word of the other", || {
        has_heard(&hubs[0], &hubs[1]) && has_heard(&hubs[1], &hubs[0])
    });
    for hub in hubs {
        let (_, log) = hub.end("TERM");
        assert!(!log.contains("judges no rules for others"), "{log}");
    }
}

#[test]
fn a_node_that_has_only_moved_to_the_other_hub_is_no_failure_at_the_hub_that_was_killed() {
    let stage = Stage::new("rules-moved", RULES);
    let (first, second) = (stage.hub(0), stage.hub(1));
    let _moves = stage.agent_back_after("n1", &stage.link, "10m");
    let dies = stage.agent("n2", &stage.link[..1]);
    let state = || std::fs::read_to_string(stage.path("state-0/alerts.jsonl")).unwrap_or_default();
    until(PATIENCE, "the first hub has both nodes, and has saved that", || {
        state().contains("\"nodes\":[\"n1\",\"n2\"]")
    });
    drop(first);
    drop(dies);
    until(PATIENCE, "one node is at the second hub", || number(&second, "khz_hub_nodes_up ") == 1);
    let first = stage.hub(0);
    let scores =
        || -> Value { serde_json::from_str(&get_at(&first, "/khz/v1/rules/score")).unwrap_or_default() };
    until(PATIENCE, "since when scores are kept is known at once", || scores()["since"].is_string());
    until(PATIENCE, "the node that is nowhere has failed", || scores()["failures"] != 0);
    let last = scores();
    assert_eq!((&last["failures"], &last["unforetold"][0]["node"]), (&1.into(), &"n2".into()), "{last}");
}

#[test]
fn a_hub_that_comes_back_alone_knows_what_the_other_one_has_told_and_done() {
    let stage = Stage::new("rules-both-down", RULES);
    let (first, second) = (stage.hub(0), stage.hub(1));
    let agent = stage.agent("n1", &stage.link);
    let all = ["AtHub", "AtNode", "OfNoNode"].map(str::to_owned).to_vec();
    until(PATIENCE, "three fire at the first hub, people are told, and actions act", || {
        publish(&agent, "phase=5");
        alerts(&first).len() == 4 && stage.told(0, "firing") == all && stage.acted(0) == all
    });
    let before = alerts(&first);
    evaluated(&first, || publish(&agent, "phase=5"));
    until(PATIENCE, "the second hub has heard the last word of the first", || {
        publish(&agent, "phase=5");
        has_heard(&second, &first)
    });
    // As when the power fails; the first hub never comes back.
    drop(second);
    drop(first);
    let second = stage.hub(1);
    until(PATIENCE, "the alerts go on at the second hub, since when they were there", || {
        publish(&agent, "phase=5");
        alerts(&second) == before
    });
    evaluated(&second, || publish(&agent, "phase=5"));
    assert_eq!((stage.told(1, "firing"), stage.acted(1)), (vec![], vec![]), "the first hub did both");
    until(PATIENCE, "the second hub tells that they are over", || {
        publish(&agent, "phase=1");
        stage.told(1, "resolved") == ["AtNode", "OfNoNode"]
    });
}

#[test]
fn a_hub_that_stood_still_asks_the_other_one_before_it_tells_anything() {
    let stage = Stage::new("rules-stood-still", RULES);
    let (first, second) = (stage.hub(0), stage.hub(1));
    let agent = stage.agent_back_after("n1", &stage.link, "10m");
    let all = ["AtHub", "AtNode", "OfNoNode"].map(str::to_owned).to_vec();
    until(PATIENCE, "three fire at the first hub, people are told, and actions act", || {
        publish(&agent, "phase=5");
        alerts(&first).len() == 4 && stage.told(0, "firing") == all && stage.acted(0) == all
    });
    evaluated(&first, || publish(&agent, "phase=5"));
    until(PATIENCE, "the second hub has heard the last word of the first", || {
        publish(&agent, "phase=5");
        has_heard(&second, &first)
    });
    signal(&first.child, "STOP");
    until(PATIENCE, "the second hub tells that they are over", || {
        publish(&agent, "phase=1");
        stage.told(1, "resolved") == ["AtNode", "OfNoNode"]
    });
    signal(&first.child, "CONT");
    until(PATIENCE, "the first hub answers again", || {
        publish(&agent, "phase=1");
        has_heard(&first, &second) && has_heard(&second, &first)
    });
    evaluated(&first, || publish(&agent, "phase=1"));
    // Messages wait for less.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(stage.told(0, "resolved"), Vec::<String>::new(), "the second hub has told people");
    let over = ["AtNode", "OfNoNode"].map(str::to_owned).to_vec();
    assert_eq!((stage.told(1, "firing"), stage.told(1, "resolved")), (vec![], over));
    assert_eq!((stage.told(0, "firing"), stage.acted(0), stage.acted(1)), (all.clone(), all, vec![]));
    let (_, log) = first.end("TERM");
    assert!(log.contains("this hub stood still for"), "{log}");
}
