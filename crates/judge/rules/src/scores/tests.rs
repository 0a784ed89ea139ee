//! Courses of nodes and rules, minute by minute, and what the scores say of them.

use super::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const BEGIN: i64 = 1_763_690_000_000;

/// Looks at one node every minute: until it is up, then down, and so on.
fn look_for(scores: &mut Scores, from: i64, minutes: i64, seen: Seen) -> i64 {
    for minute in 0..minutes {
        scores.look(from + minute * MINUTE, [("n1", seen), ("n2", Seen::Up)]);
    }
    from + minutes * MINUTE
}

fn begun() -> Scores {
    let mut scores = Scores::default();
    scores.look(BEGIN, [("n1", Seen::Up), ("n2", Seen::Up)]);
    scores
}

/// fired, late, down, drained, acted, nothing, unknown, open
fn counts(scores: &Scores, rule: &str) -> [u64; 8] {
    let rules = scores.rules();
    let (_, score, open) = rules.iter().find(|(name, ..)| *name == rule).unwrap();
    [score.fired, score.late, score.down, score.drained, score.acted, score.nothing, score.unknown, *open]
}

#[test]
fn a_rule_that_fires_hours_before_its_node_fails_has_foretold_it_and_the_lead_time_is_that_of_its_first_firing()
 {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN + MINUTE);
    scores.fired("Leak", Some("n1"), BEGIN + 30 * MINUTE);
    scores.fired("Leak", Some("n2"), BEGIN + MINUTE);
    let now = look_for(&mut scores, BEGIN + MINUTE, 180, Seen::Up);
    assert_eq!(counts(&scores, "Leak"), [3, 0, 0, 0, 0, 0, 0, 2]);
    look_for(&mut scores, now, 3, Seen::Down(now));
    assert_eq!(counts(&scores, "Leak"), [3, 0, 1, 0, 0, 0, 0, 1]);
    assert_eq!((scores.failures(), scores.unforetold().count()), ((1, 1), 0));
    let rules = scores.rules();
    assert_eq!(rules[0].1.leads(), Some((180 * MINUTE, 180 * MINUTE, 180 * MINUTE)));
}

#[test]
fn a_warning_after_which_nothing_happens_for_a_day_was_for_nothing() {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN);
    let now = look_for(&mut scores, BEGIN, 24 * 60 + 1, Seen::Up);
    assert_eq!(counts(&scores, "Leak"), [1, 0, 0, 0, 0, 0, 0, 1]);
    let now = look_for(&mut scores, now, 1, Seen::Up);
    assert_eq!(counts(&scores, "Leak"), [1, 0, 0, 0, 0, 1, 0, 0]);
    // A failure a moment later was not foretold.
    look_for(&mut scores, now, 2, Seen::Down(now));
    assert_eq!(scores.failures(), (1, 0));
    assert_eq!(scores.unforetold().map(|one| &*one.node).collect::<Vec<_>>(), ["n1"]);
}

#[test]
fn a_rule_that_fires_because_its_node_is_down_foretells_nothing() {
    let mut scores = begun();
    let down = BEGIN + MINUTE;
    scores.look(down + 10_000, [("n1", Seen::Down(down))]);
    // Before the silence is long enough to count, and after it.
    scores.fired("NodeDown", Some("n1"), down + 30_000);
    // Nobody had looked when this one fired.
    let mut unseen = begun();
    unseen.fired("NodeDown", Some("n1"), down + 30_000);
    for scores in [&mut scores, &mut unseen] {
        look_for(scores, down + 70_000, 3, Seen::Down(down));
        assert_eq!(counts(scores, "NodeDown"), [1, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(scores.failures(), (1, 0));
    }
}

#[test]
fn a_link_that_is_cut_for_a_moment_and_a_node_that_leaves_are_no_failures() {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN);
    scores.look(BEGIN + 10_000, [("n1", Seen::Down(BEGIN + 5_000))]);
    let now = look_for(&mut scores, BEGIN + MINUTE, 60, Seen::Up);
    let now = look_for(&mut scores, now, 24 * 60, Seen::Away);
    assert_eq!((scores.failures(), counts(&scores, "Leak")), ((0, 0), [1, 0, 0, 0, 0, 0, 1, 0]));
    // A node that is forgotten.
    scores.fired("Leak", Some("n3"), now);
    scores.look(now + SCORE_WINDOW + 1, [("n1", Seen::Up)]);
    assert_eq!(counts(&scores, "Leak")[6], 2);
}

#[test]
fn a_drain_confirms_other_rules_but_not_the_one_that_caused_it() {
    let mut scores = begun();
    scores.fired("Ecc", Some("n1"), BEGIN);
    scores.fired("Leak", Some("n1"), BEGIN + HOUR);
    scores.drained("n1", BEGIN + HOUR + 5_000, "Leak");
    assert_eq!(counts(&scores, "Ecc"), [1, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(counts(&scores, "Leak"), [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(scores.drained_to(), BEGIN + HOUR + 5_000);
    // Somebody switches the drained node off: that is no second failure.
    let now = look_for(&mut scores, BEGIN + HOUR + MINUTE, 60, Seen::Up);
    look_for(&mut scores, now, 5, Seen::Down(now));
    assert_eq!(scores.failures(), (0, 0));
}

#[test]
fn a_node_that_crashes_again_and_again_has_failed_once_a_day() {
    let mut scores = begun();
    let mut now = BEGIN;
    for _ in 0..5 {
        now = look_for(&mut scores, now, 10, Seen::Up);
        now = look_for(&mut scores, now, 10, Seen::Down(now));
    }
    assert_eq!(scores.failures(), (1, 0));
    now = look_for(&mut scores, now, 24 * 60, Seen::Up);
    look_for(&mut scores, now, 10, Seen::Down(now));
    assert_eq!(scores.failures(), (2, 0));
}

#[test]
fn nodes_that_were_down_before_the_scores_began_have_not_failed_now() {
    let mut scores = Scores::default();
    look_for(&mut scores, BEGIN, 10, Seen::Down(BEGIN - HOUR));
    assert_eq!(scores.failures(), (0, 0));
}

#[test]
fn alerts_about_no_node_and_several_of_one_node_at_one_time_count_once_each() {
    let mut scores = begun();
    scores.fired("Quiet", None, BEGIN);
    scores.fired("Disk", Some("n1"), BEGIN);
    scores.fired("Disk", Some("n1"), BEGIN);
    assert_eq!(counts(&scores, "Quiet"), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts(&scores, "Disk"), [1, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn after_a_kill_an_alert_that_still_fires_counts_once_and_a_pause_makes_open_warnings_unsure() {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN + MINUTE);
    assert!(scores.has_changed() && !scores.has_changed());
    let mut again = Scores::from_bytes(scores.to_text().as_bytes()).unwrap();
    assert_eq!(again.to_text(), scores.to_text());
    again.fires_still("Leak", Some("n1"), BEGIN + MINUTE);
    assert_eq!(counts(&again, "Leak")[0], 1, "it is counted already");
    again.fires_still("Swap", Some("n1"), BEGIN + 2 * MINUTE);
    assert_eq!(counts(&again, "Swap"), [1, 0, 0, 0, 0, 0, 0, 1], "the hub was killed before it was written");
    // An hour without a hub, then nothing happens.
    let now = look_for(&mut again, BEGIN + HOUR, 24 * 60, Seen::Up);
    assert_eq!(counts(&again, "Leak")[5..], [0, 1, 0]);
    assert_eq!(again.failures(), (0, 0));
    // A node that failed while nobody looked has failed when it fell silent, if it does not come back now.
    again.fired("Leak", Some("n2"), now);
    for later in [5 * HOUR, 5 * HOUR + DOWN_HOLD] {
        assert_eq!(again.failures(), (0, 0));
        again.look(now + later, [("n1", Seen::Up), ("n2", Seen::Down(now + 2 * HOUR))]);
    }
    let rules = again.rules();
    assert_eq!(rules[0].1.leads(), Some((2 * HOUR, 2 * HOUR, 2 * HOUR)));
}

/// How a hub that was killed at a time is followed by another one.
fn killed(scores: &Scores) -> Scores {
    Scores::from_bytes(scores.to_text().as_bytes()).unwrap()
}

#[test]
fn nodes_that_come_back_to_a_hub_that_was_killed_have_not_failed_however_old_the_roster_and_the_pause_are() {
    for (heard, pause) in
        [(BEGIN, 1_000), (BEGIN + 9 * MINUTE, 1_000), (BEGIN, 5 * HOUR), (BEGIN, 7 * MINUTE)]
    {
        let mut scores = begun();
        scores.fired("Leak", Some("n1"), BEGIN + MINUTE);
        let now = look_for(&mut scores, BEGIN + MINUTE, 10, Seen::Up) + pause;
        let mut again = killed(&scores);
        // Until they connect, the hub knows of its nodes what its roster says.
        let both = |seen: Seen| [("n1", seen), ("n2", seen)];
        again.look(now, both(Seen::Down(heard)));
        again.look(now + 10_000, both(Seen::Down(heard)));
        // What fires meanwhile is a warning like any other.
        again.fired("Swap", Some("n1"), now + 11_000);
        again.look(now + 20_000, both(Seen::Up));
        look_for(&mut again, now + MINUTE, 10, Seen::Up);
        assert_eq!(again.failures(), (0, 0), "{heard} {pause}");
        assert_eq!(counts(&again, "Leak"), [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts(&again, "Swap"), [1, 0, 0, 0, 0, 0, 0, 1]);
    }
}

#[test]
fn a_node_that_does_not_come_back_to_a_hub_that_was_killed_has_failed_after_it_was_seen_last() {
    let mut scores = begun();
    let now = look_for(&mut scores, BEGIN, 9, Seen::Up);
    scores.fired("Leak", Some("n1"), now - 2 * MINUTE);
    scores.look(now, [("n1", Seen::Up), ("n2", Seen::Up)]);
    // The roster is as old as the scores. The hub is killed twice, the second time while it waits for its nodes.
    let mut again = killed(&scores);
    again.look(now + 5_000, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Up)]);
    let mut again = killed(&again);
    for later in (10_000..=70_000).step_by(10_000) {
        assert_eq!(again.failures(), (0, 0), "{later}");
        again.look(now + later, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Up)]);
    }
    assert_eq!(again.failures(), (1, 1));
    let rules = again.rules();
    assert_eq!(rules[0].1.leads(), Some((2 * MINUTE, 2 * MINUTE, 2 * MINUTE)));
    // One that was silent before the kill fell silent then.
    let mut scores = begun();
    scores.look(BEGIN + 10_000, [("n1", Seen::Down(BEGIN + 5_000)), ("n2", Seen::Up)]);
    let mut again = killed(&scores);
    look_for(&mut again, BEGIN + HOUR, 2, Seen::Down(BEGIN + 4_000));
    assert_eq!(again.unforetold().map(|one| one.at).collect::<Vec<_>>(), [BEGIN + 5_000]);
}

#[test]
fn the_first_look_is_news_so_that_readers_hear_since_when_scores_are_kept() {
    let mut scores = begun();
    assert!(scores.has_changed());
    assert!(scores.sheet([]).head.contains("\"since\":\""), "{}", scores.sheet([]).head);
    scores.look(BEGIN + MINUTE, [("n1", Seen::Up)]);
    assert!(!scores.has_changed());
}

#[test]
fn a_rule_that_fires_at_a_silent_node_foretells_nothing_whenever_its_hub_is_killed_and_whenever_the_node_is_back()
 {
    let down = BEGIN + MINUTE;
    // Before anybody has looked, after that, and at the next hub.
    for fired in [down + 5_000, down + 35_000, down + 50_000] {
        for back in [down + 75_000, down + HOUR] {
            let mut scores = begun();
            scores.fired("Leak", Some("n1"), BEGIN + 30_000);
            scores.look(BEGIN + 40_000, [("n1", Seen::Up), ("n2", Seen::Up)]);
            let fire = |scores: &mut Scores, from: i64, to: i64| {
                if (from..to).contains(&fired) {
                    scores.fired("NodeDown", Some("n1"), fired);
                }
            };
            for at in (down + 10_000..down + 40_000).step_by(10_000) {
                fire(&mut scores, at - 10_000, at);
                scores.look(at, [("n1", Seen::Down(down)), ("n2", Seen::Up)]);
            }
            fire(&mut scores, down + 30_000, down + 40_000);
            // Killed twice; the roster is older than the silence.
            let mut again = killed(&scores);
            again.look(down + 42_000, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Up)]);
            let mut again = killed(&again);
            again.look(down + 45_000, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Up)]);
            fire(&mut again, down + 45_000, down + 55_000);
            for at in (down + 55_000..back).step_by(10_000) {
                again.look(at, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Up)]);
            }
            again.look(back, [("n1", Seen::Up), ("n2", Seen::Up)]);
            assert_eq!(
                counts(&again, "NodeDown"),
                [1, 1, 0, 0, 0, 0, 0, 0],
                "{} {}",
                fired - down,
                back - down
            );
            // One that fired before: nobody knows what it was worth if the node came back before this hub had looked for a minute.
            let is_known = back == down + HOUR;
            let leak = if is_known { [1, 0, 1, 0, 0, 0, 0, 0] } else { [1, 0, 0, 0, 0, 0, 1, 0] };
            assert_eq!(counts(&again, "Leak"), leak, "{}", back - down);
            assert_eq!(again.failures(), if is_known { (1, 1) } else { (0, 0) });
        }
    }
}

#[test]
fn a_node_that_another_hub_has_is_not_failed_and_what_becomes_of_it_there_is_not_known_here() {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN);
    scores.fired("Leak", Some("n2"), BEGIN);
    let now = BEGIN + MINUTE;
    // The hub is killed, and both go to the other one. It is started again, and hears that within a minute.
    let mut again = killed(&scores);
    for at in (now..now + 50_000).step_by(10_000) {
        again.look(at, [("n1", Seen::Down(BEGIN)), ("n2", Seen::Down(BEGIN))]);
    }
    for minute in 1..10 {
        again.look(now + minute * MINUTE, [("n1", Seen::Elsewhere), ("n2", Seen::Elsewhere)]);
    }
    assert_eq!((again.failures(), counts(&again, "Leak")), ((0, 0), [2, 0, 0, 0, 0, 0, 0, 2]));
    // One comes back soon, the other one late.
    let now = now + 10 * MINUTE;
    for minute in 0..24 * 60 - 11 {
        let late = if minute < 60 { Seen::Elsewhere } else { Seen::Up };
        again.look(now + minute * MINUTE, [("n1", Seen::Up), ("n2", late)]);
    }
    again.look(BEGIN + SCORE_WINDOW + 1, [("n1", Seen::Up), ("n2", Seen::Up)]);
    assert_eq!((again.failures(), counts(&again, "Leak")), ((0, 0), [2, 0, 0, 0, 0, 1, 1, 0]));
    // Here it can fail again.
    let now = BEGIN + 2 * SCORE_WINDOW;
    look_for(&mut again, now, 3, Seen::Up);
    look_for(&mut again, now + 3 * MINUTE, 3, Seen::Down(now + 3 * MINUTE));
    assert_eq!(again.failures(), (1, 0));
}

#[test]
fn a_clock_that_is_set_neither_makes_failures_nor_hides_them() {
    let mut scores = begun();
    look_for(&mut scores, BEGIN, 10, Seen::Up);
    // Back by half an hour, and on by two.
    for now in [BEGIN - HOUR / 2, BEGIN + 2 * HOUR] {
        scores.look(now, [("n1", Seen::Down(now - 5_000)), ("n2", Seen::Up)]);
        scores.look(now + 10_000, [("n1", Seen::Up), ("n2", Seen::Up)]);
        assert_eq!(scores.failures(), (0, 0));
    }
    let now = BEGIN + HOUR;
    look_for(&mut scores, now, 3, Seen::Down(now));
    assert_eq!(scores.failures(), (1, 0));
}

#[test]
fn what_is_kept_has_limits_and_damaged_files_are_refused() {
    let mut scores = begun();
    for rule in 0..SCORED_RULES_MAX + 10 {
        scores.fired(&format!("r{rule}"), Some("n1"), BEGIN + rule as i64);
    }
    assert_eq!(scores.rules().len(), SCORED_RULES_MAX);
    assert!(scores.rules().iter().all(|(name, ..)| *name != "r0"), "the oldest is gone");
    for node in 0..OPEN_WARNINGS_MAX + 10 {
        scores.fired("all", Some(&format!("m{node}")), BEGIN + HOUR);
    }
    assert_eq!(scores.rules().iter().map(|(.., open)| open).sum::<u64>(), OPEN_WARNINGS_MAX as u64);
    assert!(scores.sheet([]).head.contains("\"unscored\":1033"), "{}", scores.sheet([]).head);
    let text = scores.to_text();
    assert!(text.len() < crate::limits::SCORES_BYTES_MAX / 2, "{}", text.len());
    assert_eq!(Scores::from_bytes(text.as_bytes()).unwrap().to_text(), text);
    for cut in (0..text.len() - 1).step_by(text.len() / 4) {
        assert!(Scores::from_bytes(&text.as_bytes()[..cut]).is_err());
    }
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    assert!(Scores::from_bytes(newer.as_bytes()).unwrap_err().contains("version 2"));
}

#[test]
fn lead_times_have_a_median_of_the_last_ones_and_words() {
    let mut score = Score::default();
    assert_eq!(score.leads(), None);
    [5, 1, 9].iter().for_each(|lead| score.lead(lead * 1_000));
    assert_eq!(score.leads(), Some((5_000, 1_000, 9_000)));
    score.lead(7_000);
    assert_eq!(score.leads(), Some((6_000, 1_000, 9_000)));
    let words = [0, 59, 60, 61, 3_600, 11_400, 86_400, 187_200].map(lead_text);
    assert_eq!(words, ["0 s", "59 s", "1 min", "1 min 1 s", "1 h", "3 h 10 min", "1 d", "2 d 4 h"]);
}

#[test]
fn rules_in_use_that_never_fired_are_on_the_sheet_too() {
    let mut scores = begun();
    scores.fired("Leak", Some("n1"), BEGIN);
    let sheet = scores.sheet(["Leak", "Never"]);
    assert_eq!(sheet.rules.len(), 2);
    assert!(sheet.rules[1].contains("\"rule\":\"Never\"") && sheet.rules[1].contains("\"last\":null"));
    let whole = format!("{{{},\"rules\":[{}]}}", sheet.head, sheet.rules.join(","));
    let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["rules"][0]["warnings"], 1);
    assert_eq!(ScoreSheet::default().rules.len(), 0);
}
