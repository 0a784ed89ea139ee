//! What fails is tried again, also after a restart: never more often than configured, and never after the end of its alert.

use super::*;

/// Retries of the action in these tests.
const RETRIES: u32 = 2;

/// An action that always fails and writes down each attempt, and one that follows it.
fn actions(place: &Place, retry_after: Duration) -> Vec<Action> {
    let fails = place.script("fails", "echo $KHZ_ACTION_ATTEMPT >> $(dirname $0)/tries; exit 3");
    let next = place.script("next", "echo x >> $(dirname $0)/next-done");
    let fails = Action { retries: RETRIES, retry_after, ..exec("fails", &fails) };
    vec![fails, exec("next", &next)]
}

/// Waits until the action that follows has acted.
fn wait_for_next(place: &Place) {
    let end = Instant::now() + Duration::from_secs(120);
    while place.file("next-done").is_empty() {
        assert!(Instant::now() < end, "{}", place.file("state/actions.jsonl"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn attempts(log: &str) -> u32 {
    u32::try_from(log.matches("\"event\":\"begin\"").count()).unwrap()
}

#[test]
fn wherever_a_hub_is_killed_it_goes_on_with_the_attempts_that_are_left() {
    let first = Place::new("left");
    let broken = alert("A", "n1", 1, "fails,next");
    let actor = first.actor(&actions(&first, Duration::from_millis(10)));
    actor.tell(std::slice::from_ref(&broken));
    wait_for_next(&first);
    ended(&actor, 2);
    drop(actor);
    let log = first.file("state/actions.jsonl");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("\"run\":1,")).collect();
    assert_eq!(lines.len() as u32, 2 * (1 + RETRIES), "{log}");
    for killed_after in 0..=lines.len() {
        // The file of a hub that was killed at this point; a part of the next line may be there, too.
        let place = Place::new("killed");
        std::fs::create_dir_all(place.state()).unwrap();
        let mut left: String = lines[..killed_after].iter().map(|line| format!("{line}\n")).collect();
        left += lines.get(killed_after).map_or("", |line| &line[..line.len() / 9]);
        std::fs::write(place.state().join("actions.jsonl"), left).unwrap();
        let actor = place.actor(&actions(&place, Duration::from_millis(10)));
        for _ in 0..3 {
            actor.tell(std::slice::from_ref(&broken));
        }
        wait_for_next(&place);
        let runs = ended(&actor, 2);
        drop(actor);
        let is_cut = killed_after % 2 == 1;
        let begun = u32::try_from(killed_after.div_ceil(2)).unwrap();
        let (outcome, all) = match is_cut {
            true => (Outcome::Interrupted, begun),
            false => (Outcome::Failed, 1 + RETRIES),
        };
        let expected: String = (begun + 1..=all).map(|attempt| format!("{attempt}\n")).collect();
        assert_eq!(place.file("tries"), expected, "killed after {killed_after} lines");
        let log = place.file("state/actions.jsonl");
        assert_eq!(attempts(&log), all + 1, "killed after {killed_after} lines: {log}");
        let run = &runs[0];
        assert_eq!((run.id, run.attempts, run.outcome, run.again), (1, all, Some(outcome), None), "{runs:?}");
        assert_eq!(runs.len(), 2, "no other run was begun: {runs:?}");
    }
}

#[test]
fn a_hub_that_ends_while_it_waits_for_another_attempt_makes_it_at_its_time_and_people_see_when() {
    let place = Place::new("waits");
    let long = actions(&place, Duration::from_secs(3_600));
    let broken = alert("A", "n1", 1, "fails,next");
    let actor = place.actor(&long);
    actor.tell(std::slice::from_ref(&broken));
    let due = ended(&actor, 1)[0].again.unwrap();
    drop(actor);
    let actor = place.actor(&long);
    actor.tell(std::slice::from_ref(&broken));
    let runs = actor.runs_after(0, 9);
    assert_eq!(outcomes(&runs), [("fails", Some(Outcome::Failed))]);
    assert_eq!(runs[0].again, Some(due), "a restart does not change when it is due");
    assert_eq!(actor.actions()[0].counts.waiting.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!((place.file("tries"), place.file("next-done")), ("1\n".to_owned(), String::new()));
    drop(actor);
    // The time between attempts may be shorter now: it holds at most.
    let actor = place.actor(&actions(&place, Duration::from_millis(10)));
    actor.tell(std::slice::from_ref(&broken));
    wait_for_next(&place);
    assert_eq!(place.file("tries"), "1\n2\n3\n");
}

#[test]
fn no_attempt_is_made_after_the_end_of_the_alert_or_beyond_what_is_configured_and_the_log_says_so() {
    let broken = alert("A", "n1", 1, "fails");
    let over = Alert { ends_at: Some(9), ..broken.clone() };
    for (name, is_restarted, is_over) in
        [("over", false, true), ("over-after-a-restart", true, true), ("fewer", true, false)]
    {
        let place = Place::new(name);
        let mut actions = actions(&place, Duration::from_secs(3_600));
        let mut actor = place.actor(&actions);
        actor.tell(std::slice::from_ref(&broken));
        assert!(ended(&actor, 1)[0].again.is_some());
        if is_restarted {
            drop(actor);
            (actions[0].retries, actions[0].retry_after) =
                if is_over { (RETRIES, actions[0].retry_after) } else { (0, Duration::ZERO) };
            actor = place.actor(&actions);
        }
        actor.tell(std::slice::from_ref(if is_over { &over } else { &broken }));
        let end = Instant::now() + Duration::from_secs(60);
        while actor.runs_after(0, 9)[0].again.is_some() {
            assert!(Instant::now() < end, "{name}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = if is_over { "the alert is over" } else { "retries is 0 now" };
        let run = &actor.runs_after(0, 9)[0];
        assert_eq!(run.text, format!("exit code 3; not tried again: {why}"), "{name}");
        // Nothing is left of it for the next start.
        drop(actor);
        let actor = place.actor(&actions);
        actor.tell(std::slice::from_ref(&broken));
        assert_eq!(actor.runs_after(0, 9)[0].again, None);
        drop(actor);
        assert_eq!(attempts(&place.file("state/actions.jsonl")), 1, "{name}");
    }
}

#[test]
fn what_is_to_be_tried_again_is_not_forgotten_when_the_log_begins_new_files() {
    let place = Place::new("files");
    let long = actions(&place, Duration::from_secs(3_600));
    let broken = alert("A", "n1", 1, "fails,next");
    let actor = place.actor(&long);
    actor.tell(std::slice::from_ref(&broken));
    let run = ended(&actor, 1)[0].id;
    drop(actor);
    let log = place.state().join("actions.jsonl");
    for number in 0..2 {
        // The file is full of what another hub does: the next line begins a new file.
        let others = "{\"at\":1,\"run\":0,\"event\":\"kept\",\"key\":{\"action\":\"next\",\"fingerprint\":1,\"starts_at\":1}}\n";
        let full = place.file("state/actions.jsonl") + &others.repeat((8 << 20) / others.len() + 1);
        std::fs::write(&log, full).unwrap();
        let actor = place.actor(&long);
        actor.adopt(&[alert(&format!("Other{number}"), "n2", 5, "next")]);
    }
    let older = place.file("state/actions.1.jsonl");
    assert!(attempts(&(older + &place.file("state/actions.jsonl"))) == 0, "no line of it is left");
    let actor = place.actor(&actions(&place, Duration::from_millis(10)));
    actor.tell(std::slice::from_ref(&broken));
    wait_for_next(&place);
    let runs = ended(&actor, 2);
    assert_eq!((runs[0].id, runs[0].attempts, runs[0].again), (run, 1 + RETRIES, None), "{runs:?}");
    assert_eq!(place.file("tries"), "1\n2\n3\n");
}
