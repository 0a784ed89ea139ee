//! Rules that nodes judge by themselves: they fire and are resolved at once, whatever the interval of their group is; nodes that do not
//! judge are judged by the hub; alerts outlive a killed hub.

use std::time::Duration;

use crate::exposition::get_at;
use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;
use crate::text::free_port;

/// A node of which the hub knows nothing yet says something within a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// The hub evaluates the first group only once an hour: what it fires, a node has judged.
const RULES: &str = "groups:
- name: slow
  interval: 1h
  rules:
  - alert: PhaseAtNode
    expr: '{\"job.phase\"} > 3'
    annotations: {summary: '{{ $labels.instance }} is in phase {{ $value }}'}
- name: quick
  interval: 1s
  rules:
  - alert: PhaseAnywhere
    expr: 'khz_job_phase > 3'
  - alert: PhaseTogether
    expr: 'sum({\"job.phase\"}) > 1000'
";

struct Stage {
    place: Place,
    http: String,
    link: String,
}

impl Stage {
    fn new(name: &str, interval: &str) -> Self {
        let place = Place::new(name);
        std::fs::create_dir_all(place.0.join("rules")).unwrap();
        place.file("rules/phase.yml", &RULES.replace("1h", interval));
        Stage { place, http: free_port(), link: free_port() }
    }

    fn hub(&self) -> Running {
        let path = |name: &str| self.place.0.join(name).to_str().unwrap().to_owned();
        let told = path("told");
        let keeps = format!(
            "[[notify.exec]]\nname = \"keep\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> {told}; echo >> {told}\"]\nwait = \"50ms\"\n"
        );
        let config = self.place.file("khz.toml", &keeps);
        let words = [
            "hub",
            "--config",
            &config,
            "--listen",
            &self.http,
            "--link-listen",
            &self.link,
            "--node",
            "hub",
        ];
        let (rules, state, store) = (path("rules"), path("state"), path("store"));
        let more = [
            "--rules",
            &rules,
            "--state-dir",
            &state,
            "--store",
            &store,
            "--rules-rate",
            "10Hz",
            "--insecure",
        ];
        let mut command = khz(&[&words[..], &more].concat());
        command.env("KHZ_RUN_DIR", path("run"));
        Running::of(command)
    }

    fn agent(&self, node: &str, more: &[&str]) -> Running {
        let words = ["agent", "--node", node, "--hub", &self.link, "--sources", "loadavg", "--ring", "4MiB"];
        let mut command = khz(&[&words[..], more].concat());
        command.env("KHZ_RUN_DIR", self.place.0.join(format!("run-{node}")));
        Running::of(command)
    }

    fn told(&self, what: &str) -> bool {
        std::fs::read_to_string(self.place.0.join("told")).is_ok_and(|told| told.contains(what))
    }
}

fn publish(agent: &Running, value: &str) {
    let done = agent.beside(&["publish", value]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
}

/// Whether this alert fires on this node.
fn fires(hub: &Running, alert: &str, node: &str) -> bool {
    let listed = hub.beside(&["alerts", "--firing", "--json", "--server", &hub.url]).output().unwrap();
    out(&listed).lines().any(|line| {
        line.contains(&format!("\"alertname\":\"{alert}\""))
            && line.contains(&format!("\"instance\":\"{node}\""))
    })
}

/// Whether this many nodes judge this rule.
fn judged_of(hub: &Running, rule: &str, nodes: u64) -> bool {
    let shown = hub.beside(&["rules", "show", "--json", "--server", &hub.url]).output().unwrap();
    let is_so = |line: &str| line.contains(rule) && line.contains(&format!("\"at_nodes\":{nodes}"));
    out(&shown).lines().any(is_so)
}

/// On how many nodes these judge a rule, and on how many the hub does.
fn judged(hub: &Running, nodes: u64, at_hub: u64) -> bool {
    let shown = hub.beside(&["rules", "show", "--json", "--server", &hub.url]).output().unwrap();
    let is_so = |line: &str| {
        line.contains(&format!("\"at_nodes\":{nodes}")) && line.contains(&format!("\"at_hub\":{at_hub}"))
    };
    let text = out(&shown);
    let of_nodes: Vec<&str> = text.lines().filter(|line| !line.contains("PhaseTogether")).collect();
    of_nodes.len() == 2 && of_nodes.iter().all(|line| is_so(line))
}

#[test]
fn nodes_judge_what_they_can_at_once_and_the_hub_judges_those_that_refuse() {
    let stage = Stage::new("rules-at-nodes", "1h");
    let hub = stage.hub();
    let (judge, refuses) = (stage.agent("n1", &[]), stage.agent("n2", &["--handlers", "none"]));
    until(PATIENCE, "n1 judges, and n2 does not", || judged(&hub, 1, 1));
    let shown = out(&hub.beside(&["rules", "show", "--server", &hub.url]).output().unwrap());
    assert!(shown.lines().any(|line| line.contains("PhaseTogether") && line.ends_with("all")), "{shown}");
    // What is published is absent after half a minute: it is said again and again.
    let say = |of_n1: &str| {
        publish(&judge, of_n1);
        publish(&refuses, "phase=6");
    };
    until(PATIENCE, "n1 fires between two evaluations of the hub", || {
        say("phase=5");
        fires(&hub, "PhaseAtNode", "n1")
    });
    until(PATIENCE, "both fire in a group that the hub evaluates", || {
        say("phase=5");
        fires(&hub, "PhaseAnywhere", "n1") && fires(&hub, "PhaseAnywhere", "n2")
    });
    assert!(!fires(&hub, "PhaseAtNode", "n2"), "an hour has not passed");
    until(PATIENCE, "a program is told", || stage.told("n1 is in phase 5"));
    until(PATIENCE, "the alerts are recorded", || {
        say("phase=5");
        get_at(&hub, "/api/v1/query?query=count(ALERTS)").contains("\"value\"")
    });
    until(PATIENCE, "what n1 judges is resolved, and what the hub judges of n2 is not", || {
        say("phase=2");
        !fires(&hub, "PhaseAtNode", "n1")
            && !fires(&hub, "PhaseAnywhere", "n1")
            && fires(&hub, "PhaseAnywhere", "n2")
    });
    until(PATIENCE, "n1 fires again", || {
        say("phase=7");
        fires(&hub, "PhaseAnywhere", "n1")
    });
    // Of one row alone the hub would not know when the series ends: for five minutes it would still be there.
    let rows = "count_over_time({\"job.phase\",instance=\"n1\"}[1m]) > 3";
    let rows: String = rows.bytes().map(|byte| format!("%{byte:02X}")).collect();
    until(PATIENCE, "the hub has some rows of n1", || {
        say("phase=7");
        get_at(&hub, &format!("/api/v1/query?query={rows}")).contains("\"value\"")
    });
    drop(judge);
    until(PATIENCE, "the hub judges a node that is down, and its alert ends", || {
        judged(&hub, 0, 2) && !fires(&hub, "PhaseAnywhere", "n1")
    });
    let mut mine =
        hub.beside(&["channel", "create", "khz_rules_x", "--expr", "node_load1", "--server", &hub.url]);
    let refused = mine.output().unwrap();
    assert!(code(&refused) != 0 && err(&refused).contains("the hub's rules"), "{}", err(&refused));
}

/// A rule that is evaluated all the time, and takes all the time that it may.
const LONG: &str = "
- name: long
  interval: 5s
  rules:
  - {record: 'long:one', expr: 'sum_over_time(sum_over_time(vector(1)[3h:100ms])[3h:100ms])'}
";

#[test]
fn while_the_hub_evaluates_a_long_rule_people_hear_of_what_a_node_judges() {
    let stage = Stage::new("rules-at-nodes-long", "1h");
    let rules = std::fs::read_to_string(stage.place.0.join("rules/phase.yml")).unwrap();
    stage.place.file("rules/phase.yml", &format!("{rules}{LONG}"));
    let hub = stage.hub();
    let agent = stage.agent("n1", &[]);
    until(PATIENCE, "n1 judges", || judged_of(&hub, "PhaseAtNode", 1));
    // When the long rule was evaluated last: its next evaluation begins at once.
    let last = || -> String {
        let answer = get_at(&hub, "/api/v1/rules?rule_group[]=long&exclude_alerts=true");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["data"]["groups"][0]["lastEvaluation"].as_str().unwrap_or_default().to_owned()
    };
    until(PATIENCE, "the long rule was evaluated", || {
        let last = last();
        !last.is_empty() && !last.starts_with("0001-01-01")
    });
    let (mut is_high, mut times) = (false, 0);
    until(PATIENCE, "it fires or is over within one evaluation of the long rule", || {
        let begin = last();
        (is_high, times) = (!is_high, times + 1);
        let value = if is_high { "phase=5" } else { "phase=1" };
        until(PATIENCE, "the hub knows", || {
            publish(&agent, value);
            fires(&hub, "PhaseAtNode", "n1") == is_high
        });
        times > 2 && last() == begin
    });
}

#[test]
fn what_a_node_judges_goes_on_firing_when_its_hub_is_killed_and_is_resolved_by_the_next_one() {
    // A node says at this interval what is there: so long the next hub may have to wait.
    let stage = Stage::new("rules-at-nodes-kill", "15s");
    let hub = stage.hub();
    let agent = stage.agent("n1", &[]);
    until(PATIENCE, "n1 judges", || judged(&hub, 1, 0));
    let both_fire = |hub: &Running, value: &str| {
        publish(&agent, value);
        fires(hub, "PhaseAtNode", "n1") && fires(hub, "PhaseAnywhere", "n1")
    };
    until(PATIENCE, "n1 fires", || both_fire(&hub, "phase=5"));
    until(PATIENCE, "a program is told", || {
        publish(&agent, "phase=5");
        stage.told("PhaseAtNode") && stage.told("PhaseAnywhere")
    });
    drop(hub);
    publish(&agent, "phase=5");
    let hub = stage.hub();
    until(PATIENCE, "the next hub knows what fires", || both_fire(&hub, "phase=5"));
    until(PATIENCE, "n1 judges for the next hub", || {
        assert!(both_fire(&hub, "phase=5"), "it goes on firing");
        judged(&hub, 1, 0)
    });
    assert!(both_fire(&hub, "phase=5"));
    assert!(!stage.told("\"status\":\"resolved\""), "nobody was told that it is over");
    until(PATIENCE, "it is resolved", || {
        publish(&agent, "phase=1");
        !fires(&hub, "PhaseAtNode", "n1") && !fires(&hub, "PhaseAnywhere", "n1")
    });
    until(PATIENCE, "a program is told", || stage.told("\"status\":\"resolved\""));
}

/// Both are true of the same series; the labels of the second make one alert of all parts of a queue.
const MERGED: &str = "groups:
- name: merged
  interval: 1s
  rules:
  - {alert: Apart, expr: 'khz_job_queue > 0'}
  - {alert: Merged, expr: 'khz_job_queue > 0', labels: {part: any}}
";

#[test]
fn a_rule_whose_labels_replace_those_of_its_series_is_taken_over_by_the_hub_and_fails_when_alerts_collide() {
    let stage = Stage::new("rules-at-nodes-merged", "15s");
    stage.place.file("rules/phase.yml", MERGED);
    let hub = stage.hub();
    let agent = stage.agent("n1", &[]);
    until(PATIENCE, "n1 judges", || judged_of(&hub, "Apart", 1) && judged_of(&hub, "Merged", 1));
    until(PATIENCE, "one part is one alert", || {
        publish(&agent, "queue[a]=1");
        fires(&hub, "Apart", "n1") && fires(&hub, "Merged", "n1")
    });
    assert!(judged_of(&hub, "Apart", 1) && !judged_of(&hub, "Merged", 1));
    let rule = || -> serde_json::Value {
        let answer = get_at(&hub, "/api/v1/rules?rule_name[]=Merged");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["data"]["groups"][0]["rules"][0].clone()
    };
    assert_eq!(rule()["health"], "ok");
    until(PATIENCE, "another part is another alert with the same labels", || {
        publish(&agent, "queue[a]=1");
        publish(&agent, "queue[b]=1");
        rule()["health"] == "err"
    });
    let why = "vector contains metrics with the same labelset after applying alert labels";
    assert_eq!(rule()["lastError"], why);
    assert!(fires(&hub, "Apart", "n1"));
    let log = hub.end("TERM").1;
    for said in [
        "rule Merged of group merged: the hub judges it on all nodes from now on, as n1 shows: its label part replaces",
        why,
    ] {
        assert!(log.contains(said), "{log}");
    }
    assert!(!log.contains("rule Apart of group merged"), "{log}");
}

/// The second rule matches several series with one name and one set of labels as soon as there is a `b`.
const CONFLICT: &str = "groups:
- name: n
  interval: 1s
  rules:
  - alert: HighB
    expr: khz_job_b > 5
  - alert: Conflict
    expr: abs(khz_job_a or khz_job_b) > 50
";

#[test]
fn where_a_rule_cannot_take_a_new_series_the_hub_judges_all_rules_of_its_channel_on_this_node() {
    let stage = Stage::new("rules-conflict", "1h");
    stage.place.file("rules/phase.yml", CONFLICT);
    let hub = stage.hub();
    let agent = stage.agent("n1", &[]);
    until(PATIENCE, "n1 judges", || {
        publish(&agent, "a[x]=1");
        judged_of(&hub, "HighB", 1)
    });
    let say = || {
        publish(&agent, "a[x]=1");
        publish(&agent, "b[x]=9");
    };
    until(PATIENCE, "the rule that is well fires for the new series", || {
        say();
        fires(&hub, "HighB", "n1")
    });
    assert!(judged_of(&hub, "HighB", 0), "the hub judges");
    // The rule that was in the way is gone.
    stage.place.file("rules/phase.yml", &CONFLICT.replace("(khz_job_a or khz_job_b)", "(khz_job_a)"));
    let reloaded = hub.beside(&["rules", "reload"]).output().unwrap();
    assert_eq!(code(&reloaded), 0, "{}", err(&reloaded));
    until(PATIENCE, "n1 judges again", || {
        say();
        judged_of(&hub, "HighB", 1) && fires(&hub, "HighB", "n1")
    });
}
