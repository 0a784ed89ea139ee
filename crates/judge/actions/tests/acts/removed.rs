//! Somebody removes the state directory of a running hub, replaces it, or a file in it: no action runs without a line in a log that the
//! next start finds.

use super::*;

/// What is done to the directory.
const REMOVALS: [&str; 5] = [
    "rm -r \"$1\"",
    "rm \"$1/actions.jsonl\" \"$1/actions.lock\"",
    "mv \"$1\" \"$1-moved\"",
    "mv \"$1\" \"$1-moved\"; mkdir -m 750 \"$1\"; echo nonsense > \"$1/actions.jsonl\"",
    "touch \"$1/empty\"; mv \"$1/empty\" \"$1/actions.jsonl\"",
];

fn shell(script: &str, place: &Path) {
    let status = std::process::Command::new("/bin/sh").args(["-c", script, "sh"]).arg(place).status();
    assert!(status.unwrap().success(), "{script}");
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_action_finds_its_line_on_the_disk_and_the_next_start_knows_all() {
    for removal in REMOVALS {
        let place = Place::new("removed");
        let script = place.script(
            "act",
            "d=$(dirname $0); echo $KHZ_ALERT_NAME >> $d/done; grep -c begin $d/state/actions.jsonl >> $d/seen",
        );
        let actions = [exec("act", &script)];
        let actor = place.actor(&actions);
        let before = alert("Before", "n1", 1, "act");
        actor.tell(std::slice::from_ref(&before));
        ended(&actor, 1);
        shell(removal, &place.state());
        let after = alert("After", "n1", 1, "act");
        actor.tell(std::slice::from_ref(&after));
        ended(&actor, 2);
        assert_eq!(place.file("seen"), "1\n2\n", "{removal}: the log has all that was done before");
        drop(actor);
        let actor = place.actor(&actions);
        actor.tell(&[before, after, alert("Third", "n1", 1, "act")]);
        let runs = ended(&actor, 3);
        assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [1, 2, 3], "{removal}");
        drop(actor);
        assert_eq!(place.file("done"), "Before\nAfter\nThird\n", "{removal}");
        if removal.contains("nonsense") {
            assert_eq!(place.file("state/actions.jsonl.replaced"), "nonsense\n");
        }
    }
}

#[test]
fn the_log_is_there_again_also_if_nothing_is_done_and_with_the_older_file() {
    let place = Place::new("removed-idle");
    let script = place.script("act", "true");
    let actor = place.actor(&[exec("act", &script)]);
    actor.tell(&[alert("A", "n1", 1, "act")]);
    ended(&actor, 1);
    drop(actor);
    std::fs::copy(place.state().join("actions.jsonl"), place.state().join("actions.1.jsonl")).unwrap();
    let actor = place.actor(&[exec("act", &script)]);
    let (newer, older) = (place.file("state/actions.jsonl"), place.file("state/actions.1.jsonl"));
    assert!(!older.is_empty());
    std::fs::remove_dir_all(place.state()).unwrap();
    wait_until("both files are there again", || {
        place.file("state/actions.jsonl") == newer && place.file("state/actions.1.jsonl") == older
    });
    drop(actor);
}

#[test]
fn without_a_place_for_the_log_nothing_is_done_and_no_line_says_otherwise() {
    let place = Place::new("removed-hindered");
    let script = place.script("act", "echo $KHZ_ALERT_NAME >> $(dirname $0)/done");
    let actions = [exec("act", &script)];
    let actor = place.actor(&actions);
    // The directory cannot be made: there is a file in its place.
    std::fs::remove_dir_all(place.state()).unwrap();
    std::fs::write(place.state(), "").unwrap();
    let (stays, goes) = (alert("Stays", "n1", 5, "act"), alert("Goes", "n1", 5, "act"));
    actor.tell(&[stays.clone(), goes.clone()]);
    let failed = || actor.actions()[0].counts.failed.load(std::sync::atomic::Ordering::Relaxed);
    wait_until("both have failed", || failed() == 2);
    actor.tell(&[stays, Alert { ends_at: Some(9), ..goes }]);
    assert_eq!(place.file("done"), "");
    std::fs::remove_file(place.state()).unwrap();
    wait_until("it is done", || place.file("done") == "Stays\n");
    ended(&actor, 1);
    drop(actor);
    let log = place.file("state/actions.jsonl");
    assert_eq!(log.matches("\"event\":\"begin\"").count(), 1, "{log}");
}
