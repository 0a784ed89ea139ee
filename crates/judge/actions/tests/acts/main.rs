//! Actions as a hub has them: real programs, a real log, restarts. Slurm is played by a script; the real one is in the tests of the
//! program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod removed;
mod retries;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use khz_actions::{ANNOTATION, Action, Actor, Boost, Freeze, Kind, Nodes, Outcome, Run, Settings, Slurm};
use khz_notify::Alert;

/// A folder of a test; removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("khz-acts-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        Place(place)
    }

    /// A program of these lines of shell.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        // Another thread of this process may be between fork and exec: then a file that is open for writing cannot be run. A child
        // writes it.
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(
            &mut child.stdin.take().unwrap(),
            format!("#!/bin/sh\n{text}\n").as_bytes(),
        )
        .unwrap();
        assert!(child.wait().unwrap().success());
        assert!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0);
        path.display().to_string()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    fn actor(&self, actions: &[Action]) -> Actor {
        // A program that another test starts at this moment has the lock of the one before, until it is executed.
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match Actor::new(Settings { actions: actions.to_vec() }, &self.state(), None) {
                Ok(actor) => return actor,
                Err(error) => {
                    assert!(error.to_string().contains("another") && Instant::now() < end, "{error}")
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn action(name: &str, kind: Kind) -> Action {
    Action {
        name: name.to_owned(),
        kind,
        dry_run: false,
        node_label: "instance".to_owned(),
        timeout: Duration::from_secs(60),
        retries: 0,
        retry_after: Duration::from_millis(10),
        cooldown: Duration::ZERO,
        per_hour: 60,
    }
}

fn exec(name: &str, script: &str) -> Action {
    action(name, Kind::Exec(vec![script.to_owned()]))
}

fn drain(scontrol: &str) -> Action {
    let squeue = format!("{scontrol}-squeue");
    let slurm =
        Slurm { scontrol: scontrol.to_owned(), squeue, conf: None, strips_domain: false, reason: None };
    action("drain", Kind::Drain(slurm))
}

/// An alert of a node.
fn alert(name: &str, node: &str, starts_at: i64, actions: &str) -> Alert {
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Alert {
        labels: [("alertname", name), ("instance", node)].map(text).into(),
        annotations: [(ANNOTATION, actions), ("summary", "it is broken")].map(text).into(),
        starts_at,
        ..Alert::default()
    }
}

/// Waits until this many runs have ended, and returns all.
fn ended(actor: &Actor, number: usize) -> Vec<Run> {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let runs = actor.runs_after(0, usize::MAX);
        if runs.iter().filter(|run| run.outcome.is_some()).count() >= number {
            return runs;
        }
        assert!(Instant::now() < end, "{runs:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn outcomes(runs: &[Run]) -> Vec<(&str, Option<Outcome>)> {
    runs.iter().map(|run| (run.action.as_str(), run.outcome)).collect()
}

#[test]
fn each_firing_acts_once_over_passes_and_restarts() {
    let place = Place::new("once");
    let script = place.script("act", "echo $KHZ_ALERT_NAME >> $(dirname $0)/done");
    let actions = [exec("act", &script)];
    let actor = place.actor(&actions);
    let first = alert("A", "n1", 5, "act");
    for _ in 0..10 {
        actor.tell(std::slice::from_ref(&first));
    }
    ended(&actor, 1);
    drop(actor);
    let actor = place.actor(&actions);
    actor.tell(&[first.clone(), alert("B", "n1", 5, "act")]);
    let runs = ended(&actor, 2);
    assert_eq!(place.file("done"), "A\nB\n");
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [1, 2], "numbers go on after a restart");
    // It is over, and fires again.
    actor.tell(&[Alert { ends_at: Some(9), ..first }]);
    actor.tell(&[alert("A", "n1", 10, "act")]);
    ended(&actor, 3);
    assert_eq!(place.file("done"), "A\nB\nA\n");
}

#[test]
fn an_alert_that_is_too_large_is_cut_for_its_action_and_if_its_labels_are_the_log_says_that_nothing_begins() {
    let place = Place::new("large");
    let script = place.script("act", "cat > $(dirname $0)/stdin; echo $KHZ_ALERT_NAME >> $(dirname $0)/done");
    let actions = [exec("act", &script), exec("next", &script)];
    let actor = place.actor(&actions);
    let mut long = alert("Long", "n1", 5, "act");
    for name in ["a", "b"] {
        long.annotations.insert(name.to_owned(), "x".repeat(40_000));
    }
    let (mut large, mut many) = (alert("Large", "n2", 5, "act,next"), alert("Many", "n3", 5, "act"));
    large.labels.insert("text".to_owned(), "x".repeat(70_000));
    many.labels.extend((0..200).map(|number| (format!("l{number}"), String::new())));
    for _ in 0..10 {
        actor.tell(&[long.clone(), large.clone(), many.clone()]);
    }
    let runs = ended(&actor, 4);
    let mut seen: Vec<_> =
        runs.iter().map(|run| (&*run.alert["alertname"], &*run.node, run.outcome)).collect();
    seen.sort_by_key(|one| (one.0, one.1));
    let (done, held) = (Some(Outcome::Done), Some(Outcome::Held));
    assert_eq!(
        seen,
        [("Large", "n2", held), ("Large", "n2", held), ("Long", "n1", done), ("Many", "n3", held)]
    );
    assert_eq!(place.file("done"), "Long\n");
    let stdin = place.file("stdin");
    assert!(stdin.contains("(cut: ") && stdin.contains("it is broken"), "{}", stdin.len());
    let texts: Vec<&str> = runs.iter().filter(|run| run.outcome == held).map(|run| &*run.text).collect();
    assert!(texts.iter().all(|text| text.starts_with("the alert is too large: ")), "{texts:?}");
    let held: u64 =
        actor.actions().iter().map(|one| one.counts.held.load(std::sync::atomic::Ordering::Relaxed)).sum();
    assert_eq!(held, 3);
    // Each has been in hand, over a restart too, until it is resolved.
    drop(actor);
    let actor = place.actor(&actions);
    actor.tell(&[long, large.clone(), many]);
    actor.tell(&[Alert { ends_at: Some(9), ..large.clone() }]);
    actor.tell(&[Alert { starts_at: 10, ..large }]);
    assert_eq!(ended(&actor, 6).len(), 6);
}

#[test]
fn a_firing_that_began_at_another_hub_is_left_to_it_also_after_a_restart_and_the_next_one_is_not() {
    let place = Place::new("adopted");
    let script = place.script("act", "echo $KHZ_ALERT_NAME >> $(dirname $0)/done");
    let actions = [exec("act", &script)];
    let actor = place.actor(&actions);
    let others = alert("Others", "n1", 5, "act, unknown");
    actor.adopt(std::slice::from_ref(&others));
    actor.tell(&[others.clone(), alert("A", "n1", 5, "act")]);
    ended(&actor, 1);
    drop(actor);
    let actor = place.actor(&actions);
    actor.tell(&[others.clone(), alert("B", "n1", 5, "act")]);
    ended(&actor, 2);
    assert_eq!(place.file("done"), "A\nB\n");
    actor.tell(&[Alert { ends_at: Some(9), ..others }]);
    actor.tell(&[alert("Others", "n1", 10, "act")]);
    ended(&actor, 3);
    assert_eq!(place.file("done"), "A\nB\nOthers\n");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children_and_holds_up_no_other_action() {
    let place = Place::new("hangs");
    let hangs = place.script("hangs", "sleep 1000 & echo $! > $(dirname $0)/child; wait");
    let other = place.script("other", "echo ok > $(dirname $0)/other-done");
    let mut slow = exec("slow", &hangs);
    slow.timeout = Duration::from_secs(2);
    let actor = place.actor(&[slow, exec("other", &other)]);
    actor.tell(&[alert("A", "n1", 1, "slow"), alert("B", "n1", 1, "other")]);
    let runs = ended(&actor, 2);
    let run = |name: &str| runs.iter().find(|run| run.action == name).unwrap();
    assert_eq!(run("other").outcome, Some(Outcome::Done));
    assert_eq!(run("slow").outcome, Some(Outcome::Failed));
    assert!(run("slow").text.contains("killed after 2 s"), "{}", run("slow").text);
    let child = place.file("child");
    let is_running = || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    let end = Instant::now() + Duration::from_secs(60);
    while is_running() {
        assert!(Instant::now() < end, "its child {child} runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_fails_is_tried_again_as_configured_and_never_more() {
    let place = Place::new("retries");
    let script = place.script("act", "echo x >> $(dirname $0)/tries; echo 'no such thing'; exit 3");
    let mut act = exec("act", &script);
    act.retries = 2;
    let next = place.script("next", "echo y >> $(dirname $0)/next-done");
    let actor = place.actor(&[act, exec("next", &next)]);
    let alert = alert("A", "n1", 1, "act,next");
    actor.tell(std::slice::from_ref(&alert));
    let end = Instant::now() + Duration::from_secs(60);
    while place.file("next-done").is_empty() {
        assert!(Instant::now() < end);
        actor.tell(std::slice::from_ref(&alert));
        std::thread::sleep(Duration::from_millis(10));
    }
    let runs = ended(&actor, 2);
    assert_eq!(place.file("tries"), "x\nx\nx\n", "once, and twice again");
    assert_eq!(outcomes(&runs), [("act", Some(Outcome::Failed)), ("next", Some(Outcome::Done))]);
    assert_eq!((runs[0].attempts, runs[0].text.as_str()), (3, "exit code 3: no such thing"));
    let counts = actor.counts();
    assert_eq!(counts[0].1.failed.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn nothing_of_an_alert_becomes_a_word_of_a_command_and_unknown_names_do_nothing() {
    let place = Place::new("words");
    let script = place.script(
        "act",
        "d=$(dirname $0); echo $# \"$@\" > $d/words; echo \"$KHZ_ALERT_LABEL_instance|$KHZ_ACTION_NODE\" > $d/env; cat > $d/stdin",
    );
    let act = action("act", Kind::Exec(vec![script.clone(), "fixed".to_owned()]));
    let actor = place.actor(&[act]);
    let node = "$(touch /tmp/khz-evil) -x; reboot";
    actor.tell(&[alert("A", node, 1, &format!("{script},/bin/reboot,act,nobody"))]);
    let runs = ended(&actor, 1);
    assert_eq!(outcomes(&runs), [("act", Some(Outcome::Done))]);
    assert_eq!(place.file("words"), "1 fixed\n");
    assert_eq!(place.file("env"), format!("{node}|{node}\n"));
    assert!(place.file("stdin").contains("\"action\":\"act\""), "{}", place.file("stdin"));
    assert!(!Path::new("/tmp/khz-evil").exists());
    assert_eq!(actor.unknown().load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn an_action_is_held_back_when_it_acted_too_often_or_too_soon() {
    let place = Place::new("held");
    let script = place.script("act", "echo $KHZ_ACTION_NODE >> $(dirname $0)/done");
    let mut act = exec("act", &script);
    (act.per_hour, act.cooldown) = (2, Duration::from_secs(3_600));
    let actions = [act];
    let actor = place.actor(&actions);
    actor.tell(&[alert("A", "n1", 1, "act")]);
    ended(&actor, 1);
    actor.tell(&[alert("A", "n1", 2, "act"), alert("A", "n2", 2, "act")]);
    ended(&actor, 3);
    // What it did before a restart counts, too.
    drop(actor);
    let actor = place.actor(&actions);
    actor.tell(&[alert("A", "n3", 3, "act")]);
    let runs = ended(&actor, 4);
    let held = |run: &Run| (run.node.clone(), run.outcome == Some(Outcome::Held));
    let expected = [("n1", false), ("n1", true), ("n2", false), ("n3", true)];
    assert_eq!(
        runs.iter().map(held).collect::<Vec<_>>(),
        expected.map(|(node, held)| (node.to_owned(), held))
    );
    assert!(runs[1].text.contains("cooldown is 3600 s"), "{}", runs[1].text);
    assert_eq!(runs[3].text, "2 within the last hour, and per_hour is 2");
    assert_eq!(place.file("done"), "n1\nn2\n");
}

#[test]
fn the_log_has_an_action_before_it_begins_and_one_that_was_cut_short_is_not_repeated() {
    let place = Place::new("log");
    let script = place.script(
        "act",
        "grep -c '\"event\":\"begin\"' $(dirname $0)/state/actions.jsonl >> $(dirname $0)/seen; sleep 1000",
    );
    let actions = [exec("act", &script)];
    let actor = place.actor(&actions);
    let alert = alert("A", "n1", 1, "act");
    actor.tell(std::slice::from_ref(&alert));
    let end = Instant::now() + Duration::from_secs(60);
    while place.file("seen").is_empty() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
    // What kill -9 leaves: the log, which has a beginning and no end.
    let left = std::fs::read(place.state().join("actions.jsonl")).unwrap();
    drop(actor);
    std::fs::write(place.state().join("actions.jsonl"), left).unwrap();
    let actor = place.actor(&actions);
    actor.tell(std::slice::from_ref(&alert));
    let runs = ended(&actor, 1);
    assert_eq!(outcomes(&runs), [("act", Some(Outcome::Interrupted))]);
    drop(actor);
    assert_eq!(place.file("seen"), "1\n", "the log had it before, and it ran once");
}

#[test]
fn what_found_no_room_in_the_log_is_done_when_there_is_some_if_its_alert_still_fires() {
    let place = Place::new("room");
    let script = place.script("act", "echo $KHZ_ALERT_NAME >> $(dirname $0)/done");
    let actions = [exec("act", &script)];
    let actor = place.actor(&actions);
    actor.adopt(&[alert("Others", "n1", 5, "act")]);
    drop(actor);
    // The file is full, and no other one can be begun.
    let log = place.state().join("actions.jsonl");
    let line = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, line.repeat((8 << 20) / line.len() + 1)).unwrap();
    let hindered = place.state().join("actions.jsonl.new");
    std::fs::create_dir(&hindered).unwrap();
    let actor = place.actor(&actions);
    let (stays, goes) = (alert("Stays", "n1", 5, "act"), alert("Goes", "n1", 5, "act"));
    actor.tell(&[stays.clone(), goes.clone()]);
    let end = Instant::now() + Duration::from_secs(120);
    while actor.actions()[0].counts.failed.load(std::sync::atomic::Ordering::Relaxed) < 2 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
    actor.tell(&[stays, Alert { ends_at: Some(9), ..goes }]);
    assert_eq!(place.file("done"), "");
    std::fs::remove_dir(&hindered).unwrap();
    ended(&actor, 1);
    assert_eq!(place.file("done"), "Stays\n");
}

#[test]
fn what_a_diagnosis_prints_is_kept_within_its_size() {
    let place = Place::new("output");
    let script = place
        .script("look", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo the end of $KHZ_ACTION_NODE");
    let actor = place.actor(&[action("look", Kind::Diagnose(vec![script]))]);
    actor.tell(&[alert("A", "n1:9100", 1, "look")]);
    let runs = ended(&actor, 1);
    assert!(runs[0].has_output && runs[0].node == "n1", "{runs:?}");
    let output = actor.output(runs[0].id).unwrap();
    assert!(output.ends_with("the end of n1\n"), "{}", &output[output.len() - 40..]);
    assert!(output.len() < khz_actions::limits::OUTPUT_BYTES_MAX + 200, "{}", output.len());
    assert_eq!(actor.output(99), None);
}

/// Plays `scontrol` of a cluster of n1 and of n2, which is drained; writes down its arguments.
const SCONTROL: &str = "
d=$(dirname $0)
case \"$*\" in
'-o show node n1') echo 'NodeName=n1 Arch=x86_64 State=IDLE ThreadsPerCore=1' ;;
'-o show node n2') echo 'NodeName=n2 State=IDLE+DRAIN Reason=State=IDLE' ;;
'-o show node n3') echo 'NodeName=n3 State=IDLE'; echo 'NodeName=n4 State=IDLE' ;;
'-o show '*) echo \"Node $4 not found\"; exit 1 ;;
*) for word; do echo \"$word\"; done >> $d/told ;;
esac";

#[test]
fn a_node_is_drained_only_if_slurm_knows_it_as_one_node_that_is_not_drained() {
    let place = Place::new("drain");
    let scontrol = place.script("scontrol", SCONTROL);
    let actor = place.actor(&[drain(&scontrol)]);
    let nodes = ["n1", "n2", "n3", "ALL", "n[1-2]", "n1 State=RESUME", "nobody", ""];
    let mut runs = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        actor.tell(&[alert("A", node, 1, "drain")]);
        runs = ended(&actor, at + 1);
    }
    let got: Vec<_> = runs.iter().map(|run| (run.outcome.unwrap().word(), run.text.as_str())).collect();
    let [first, second, third, rest @ ..] = &got[..] else { panic!("{got:?}") };
    assert_eq!(*first, ("done", "n1 drains: khz: A: it is broken"));
    assert_eq!(*second, ("nothing", "n2 is drained already (State=IDLE+DRAIN)"));
    assert!(third.0 == "failed" && third.1.contains("does not know 'n3' as one node"), "{third:?}");
    assert!(rest.iter().all(|(outcome, _)| *outcome == "failed"), "{rest:?}");
    assert_eq!(place.file("told"), "update\nNodeName=n1\nState=DRAIN\nReason=khz: A: it is broken\n");
    // Those who keep scores of rules learn of the one that was drained, once.
    let drains = actor.drains_after(0);
    let of: Vec<_> = drains.iter().map(|run| (run.node.as_str(), run.alert["alertname"].as_str())).collect();
    assert_eq!(of, [("n1", "A")]);
    assert!(actor.drains_after(drains[0].ended.unwrap()).is_empty());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let place = Place::new("dry");
    let scontrol = place.script("scontrol", SCONTROL);
    let script = place.script("act", "touch $(dirname $0)/told");
    let mut actions = [drain(&scontrol), exec("act", &script)];
    actions.iter_mut().for_each(|action| action.dry_run = true);
    let actor = place.actor(&actions);
    actor.tell(&[alert("A", "n1", 1, "drain,act")]);
    let runs = ended(&actor, 2);
    assert!(runs.iter().all(|run| run.outcome == Some(Outcome::DryRun)), "{runs:?}");
    let expected = format!("would run {scontrol} update NodeName=n1 State=DRAIN Reason=khz: A: it is broken");
    assert!(runs[0].text.starts_with(&expected), "{}", runs[0].text);
    assert!(!place.0.join("told").exists());
    assert!(actor.drains_after(0).is_empty(), "nothing was drained");
}

#[test]
fn a_slurm_that_is_missing_is_a_failure_with_its_reason() {
    let place = Place::new("absent");
    let actor = place.actor(&[drain("/nonexistent/scontrol")]);
    actor.tell(&[alert("A", "n1", 1, "drain")]);
    let runs = ended(&actor, 1);
    assert_eq!(runs[0].outcome, Some(Outcome::Failed));
    assert!(runs[0].text.starts_with("cannot run /nonexistent/scontrol: "), "{}", runs[0].text);
}

#[test]
fn a_slurm_that_refuses_is_a_failure_that_names_the_node() {
    let place = Place::new("refuses");
    let scontrol = place.script("scontrol", "echo slurm_load_node error: Access denied; exit 1");
    let actor = place.actor(&[drain(&scontrol)]);
    actor.tell(&[alert("A", "n1", 1, "drain")]);
    let text = ended(&actor, 1)[0].text.clone();
    assert!(text.contains("show node n1: ") && text.contains("Access denied"), "{text}");
}

struct Boosted;

impl Nodes for Boosted {
    fn freeze(&self, nodes: &str, freeze: &Freeze, cause: &str) -> Result<String, String> {
        match nodes {
            "n9" => Err("there is no n9".to_owned()),
            _ => Ok(format!("{nodes} keep {} s: {cause}", freeze.before.as_secs())),
        }
    }

    fn boost(&self, node: &str, boost: &Boost) -> Result<String, String> {
        match node {
            "n1" => Ok(format!("{node} samples {}", boost.series.join(", "))),
            _ => Err(format!("there is no {node}")),
        }
    }
}

#[test]
fn a_boost_is_asked_of_the_node_of_the_alert() {
    let place = Place::new("boost");
    let boost = Boost {
        series: vec!["cpu.*".to_owned()],
        rate: khz_model::Rate::from_hz(100).unwrap(),
        lasts: Duration::from_secs(1),
    };
    let settings = Settings { actions: vec![action("fast", Kind::Boost(boost))] };
    let actor = Actor::new(settings, &place.state(), Some(std::sync::Arc::new(Boosted))).unwrap();
    actor.tell(&[alert("A", "n1", 1, "fast"), alert("A", "n9", 1, "fast")]);
    let runs = ended(&actor, 2);
    assert_eq!((runs[0].outcome, runs[0].text.as_str()), (Some(Outcome::Done), "n1 samples cpu.*"));
    assert_eq!((runs[1].outcome, runs[1].text.as_str()), (Some(Outcome::Failed), "there is no n9"));
}

#[test]
fn a_freeze_is_of_the_node_of_the_alert_or_of_those_that_the_action_names() {
    let place = Place::new("freeze");
    let (before, after) = (Duration::from_secs(20), Duration::from_secs(5));
    let freeze =
        |nodes: Option<&str>| Kind::Freeze(Freeze { nodes: nodes.map(str::to_owned), before, after });
    let actions = vec![action("own", freeze(None)), action("all", freeze(Some("n*")))];
    let settings = Settings { actions };
    let actor = Actor::new(settings, &place.state(), Some(std::sync::Arc::new(Boosted))).unwrap();
    actor.tell(&[alert("A", "n1", 1, "own"), alert("A", "n9", 1, "own"), alert("B", "n2", 1, "all")]);
    let mut runs: Vec<(Option<Outcome>, String)> =
        ended(&actor, 3).into_iter().map(|run| (run.outcome, run.text)).collect();
    runs.sort_by(|a, b| a.1.cmp(&b.1));
    let done = |text: &str| (Some(Outcome::Done), text.to_owned());
    let failed = (Some(Outcome::Failed), "there is no n9".to_owned());
    assert_eq!(runs, [done("n* keep 20 s: alert B on n2"), done("n1 keep 20 s: alert A on n1"), failed]);
}

#[test]
fn of_two_hubs_that_judge_the_same_the_second_finds_the_node_drained() {
    let (place, other) = (Place::new("two"), Place::new("two-other"));
    let scontrol = place.script(
        "scontrol",
        "d=$(dirname $0)
case \"$*\" in
'-o show node n1') test -e $d/told && echo 'NodeName=n1 State=IDLE+DRAIN' || echo 'NodeName=n1 State=IDLE' ;;
*) echo \"$1\" >> $d/told ;;
esac",
    );
    let actions = [drain(&scontrol)];
    let (one, two) = (place.actor(&actions), other.actor(&actions));
    let alert = alert("A", "n1", 1, "drain");
    one.tell(std::slice::from_ref(&alert));
    assert_eq!(ended(&one, 1)[0].outcome, Some(Outcome::Done));
    two.tell(std::slice::from_ref(&alert));
    let runs = ended(&two, 1);
    assert_eq!(runs[0].outcome, Some(Outcome::Nothing), "{}", runs[0].text);
    assert_eq!(place.file("told"), "update\n", "Slurm was asked for it once");
    let refused = Actor::new(Settings { actions: actions.to_vec() }, &place.state(), None);
    assert!(refused.is_err_and(|error| error.to_string().contains("another khz")), "one log has one writer");
}
