//! Single courses of events, step by step: storms, reminders, lost answers, restarts, and what each way then sends. The time is
//! the test's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::alert::{Alert, Told};
use crate::answer::Answer;
use crate::core::{Core, Kept};
use crate::digest::{Digest, Job, Pace};
use crate::now::Now;
use crate::queue::{Batch, Queue};

const MINUTE: u64 = 60_000;

fn told<C: Core>(core: &mut C, alerts: &[Alert], now: Now) {
    alerts.iter().for_each(|alert| core.take(&mut Told::new(alert), now));
    core.end_of_pass(now);
}

fn at(steady: u64) -> Now {
    Now { steady, wall: steady as i64 }
}

fn named(name: &str, number: usize) -> Alert {
    let labels = [("alertname", name.to_owned()), ("n", number.to_string())];
    Alert { labels: labels.map(|(name, value)| (name.to_owned(), value)).into(), ..Alert::default() }
}

/// Runs a core for this long and returns what it sends.
fn sent<C: Core>(core: &mut C, from: u64, until: u64) -> Vec<(u64, C::Job)>
where
    C::Job: Clone,
{
    let (mut jobs, mut steady) = (Vec::new(), from);
    while steady < until {
        while let Some(job) = core.next(at(steady)) {
            jobs.push((steady, job.clone()));
            core.done(job, &Answer::Taken(String::new()), at(steady));
        }
        steady = core.due().unwrap_or(until).max(steady + 1);
    }
    jobs
}

#[test]
fn a_storm_of_4096_nodes_is_64_requests_to_an_alertmanager_and_one_message_to_people() {
    let storm: Vec<Alert> = (0..4_096).map(|number| named("Down", number)).collect();
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &storm, at(0));
    let jobs = sent(&mut queue, 0, 1);
    assert_eq!(jobs.iter().map(|(_, job)| job.alerts.len()).collect::<Vec<_>>(), [64; 64]);
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &storm, at(0));
    let jobs = sent(&mut digest, 0, 3_600_000);
    let [(when, Job { message, .. })] = &jobs[..] else { panic!("{} messages", jobs.len()) };
    assert_eq!((*when, message.firing, message.alerts.len(), message.left_out), (10_000, 4_096, 64, 4_032));
    assert_eq!(message.title(), "[FIRING: 4096] Down");
}

#[test]
fn a_message_that_has_waited_at_another_hub_waits_for_the_rest_only() {
    for (since, due) in [(1_000_000 - 4_000, 6_000), (1_000_000 - 60_000, 0), (2_000_000, 10_000)] {
        let mut digest = Digest::new(Pace::default(), Vec::new(), at(1_000_000));
        let taken_over = Alert { waits_since: Some(since), ..named("Down", 1) };
        told(&mut digest, &[named("Down", 0)], at(1_000_000));
        told(&mut digest, &[named("Down", 0), taken_over], at(1_000_000));
        let jobs = sent(&mut digest, 1_000_000, 1_100_000);
        let [(when, Job { message, .. })] = &jobs[..] else { panic!("{} messages", jobs.len()) };
        assert_eq!((*when, message.firing), (1_000_000 + due, 2));
    }
}

#[test]
fn a_storm_of_4096_names_is_60_messages_and_a_summary_that_counts_the_rest() {
    let storm: Vec<Alert> = (0..4_096).map(|number| named(&format!("rule{number:04}"), number)).collect();
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &storm, at(0));
    let jobs = sent(&mut digest, 0, 3_600_000);
    assert_eq!(jobs.len(), 61);
    let Job { message, .. } = &jobs[60].1;
    assert_eq!((message.firing, message.alerts.len(), message.left_out), (4_036, 64, 3_972));
    assert_eq!(message.title(), "[FIRING: 4036] many alerts");
    let over: Vec<Alert> = storm.into_iter().map(|alert| Alert { ends_at: Some(1), ..alert }).collect();
    told(&mut digest, &over, at(3_000_000));
    let jobs = sent(&mut digest, 3_000_000, 4 * 3_600_000);
    assert_eq!(jobs.len(), 1, "the hour is full: what waits comes at its end, in one");
    assert_eq!((jobs[0].1.message.resolved, jobs[0].1.message.firing), (4_096, 0));
    assert_eq!(jobs[0].0, 10_000 + 3_600_000);
}

#[test]
fn firing_alerts_are_sent_again_each_minute_and_resolved_ones_for_a_quarter_of_an_hour() {
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &[named("Down", 1)], at(0));
    let times = |jobs: &[(u64, Batch)]| jobs.iter().map(|(when, _)| *when).collect::<Vec<_>>();
    let jobs = sent(&mut queue, 0, 3 * MINUTE);
    assert_eq!(times(&jobs), [0, MINUTE, 2 * MINUTE]);
    assert_eq!(jobs[1].1.believed_until, 5 * MINUTE as i64);
    let over = Alert { ends_at: Some(3 * MINUTE as i64), ..named("Down", 1) };
    told(&mut queue, &[over], at(3 * MINUTE));
    let jobs = sent(&mut queue, 3 * MINUTE, 60 * MINUTE);
    assert_eq!(jobs.len(), 16, "at once, and fifteen times");
    assert_eq!(queue.due(), None, "nothing is left to do");
    assert_eq!(queue.numbers(), (0, 0));
}

#[test]
fn what_an_alertmanager_refuses_is_not_sent_again_before_its_time() {
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &[named("Down", 1)], at(0));
    let job = queue.next(at(0)).unwrap();
    queue.done(job, &Answer::Refused("status 400".into()), at(0));
    assert_eq!(queue.due(), Some(MINUTE));
}

/// The requests, as numbers of alerts, that an Alertmanager gets at one moment which refuses those with certain names.
fn requests(
    queue: &mut Queue,
    steady: u64,
    is_unfit: impl Fn(&Alert) -> bool,
) -> (Vec<usize>, BTreeSet<String>) {
    let (mut sizes, mut taken) = (Vec::new(), BTreeSet::new());
    while let Some(job) = queue.next(at(steady)) {
        sizes.push(job.alerts.len());
        let answer = match job.alerts.iter().any(|(_, alert)| is_unfit(alert)) {
            true => Answer::Unfit("status 400".into()),
            false => Answer::Taken("status 200".into()),
        };
        if matches!(answer, Answer::Taken(_)) {
            taken.extend(job.alerts.iter().map(|(_, alert)| alert.name().to_owned()));
        }
        queue.done(job, &answer, at(steady));
    }
    (sizes, taken)
}

#[test]
fn an_alert_that_an_alertmanager_does_not_want_takes_no_other_one_with_it() {
    let alerts: Vec<Alert> = (0..200).map(|number| named(&format!("Rule{number:03}"), number)).collect();
    let unfit = ["Rule007", "Rule071", "Rule072"];
    let is_unfit = |alert: &Alert| unfit.contains(&alert.name());
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &alerts, at(0));
    let (sizes, taken) = requests(&mut queue, 0, is_unfit);
    assert_eq!(taken.len(), 197);
    assert!(sizes.len() <= 4 + 2 * 3 * 7, "{sizes:?}");
    assert!(queue.has_refused());
    assert_eq!(queue.numbers(), (0, 0), "each had its answer");
    // From then on, each that is not wanted goes alone, and all others together.
    let (sizes, taken) = requests(&mut queue, MINUTE, is_unfit);
    assert_eq!((sizes.len(), taken.len()), (3 + sizes.iter().filter(|&&size| size > 1).count(), 197));
    assert!(sizes.len() <= 3 + 4 + 3, "{sizes:?}");
    let (sizes, taken) = requests(&mut queue, 2 * MINUTE, |_| false);
    assert_eq!((sizes.iter().sum::<usize>(), taken.len()), (200, 200));
    assert!(!queue.has_refused());
    assert_eq!(requests(&mut queue, 3 * MINUTE, |_| false).0.len(), 4, "all are sent together again");
}

#[test]
fn an_alertmanager_that_refuses_everything_is_not_asked_for_each_of_thousands_alone() {
    let alerts: Vec<Alert> = (0..4_096).map(|number| named(&format!("Rule{number:04}"), number)).collect();
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &alerts, at(0));
    for minute in 0..3 {
        let (sizes, taken) = requests(&mut queue, minute * MINUTE, |_| true);
        assert!(sizes.len() <= 64 + 2 * 64 + 64 && taken.is_empty(), "{} requests", sizes.len());
    }
    queue.release(&|_| true);
    assert!(!queue.has_refused());
}

#[test]
fn a_resolved_alert_that_an_alertmanager_refuses_is_sent_once_however_often_it_is_mentioned() {
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &[named("Down", 1)], at(0));
    assert_eq!(sent(&mut queue, 0, 1).len(), 1);
    let mut requests = 0;
    for steady in (1_000..16 * MINUTE).step_by(1_000) {
        // As the judge does: for a quarter of an hour.
        if steady <= 15 * MINUTE {
            told(&mut queue, &[Alert { ends_at: Some(1_000), ..named("Down", 1) }], at(steady));
        }
        while let Some(job) = queue.next(at(steady)) {
            requests += 1;
            queue.done(job, &Answer::Refused("status 400".into()), at(steady));
        }
    }
    assert_eq!(requests, 1);
    told(&mut queue, &[named("Down", 1)], at(16 * MINUTE));
    assert_eq!(sent(&mut queue, 16 * MINUTE, 16 * MINUTE + 1).len(), 1, "it fires again, and that is news");
}

#[test]
fn a_resolved_alert_is_sent_for_a_quarter_of_an_hour_though_it_is_mentioned_longer() {
    let mut queue = Queue::new(MINUTE, at(0));
    told(&mut queue, &[named("Down", 1)], at(0));
    let mut requests = sent(&mut queue, 0, 1).len();
    for steady in (1_000..60 * MINUTE).step_by(1_000) {
        if steady <= 15 * MINUTE {
            told(&mut queue, &[Alert { ends_at: Some(1_000), ..named("Down", 1) }], at(steady));
        }
        requests += sent(&mut queue, steady, steady + 1).len();
    }
    assert_eq!(requests, 1 + 16, "firing, its end, and fifteen times");
    assert_eq!(queue.due(), None, "nothing is left to do");
}

#[test]
fn the_end_of_an_alert_that_was_perhaps_told_is_told_also_after_a_restart() {
    let over = Alert { ends_at: Some(1), ..named("Down", 1) };
    for restarts in [false, true] {
        let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
        told(&mut digest, &[named("Down", 1)], at(0));
        let job = digest.next(at(10_000)).unwrap();
        if restarts {
            // Killed while the message is on its way: what is kept says so already.
            digest = Digest::new(Pace::default(), digest.record(at(10_000)).unwrap(), at(20_000));
            assert!(sent(&mut digest, 20_000, MINUTE).is_empty(), "nobody has said that it still fires");
        } else {
            digest.done(job, &Answer::Unknown("no answer".into(), None), at(20_000));
        }
        told(&mut digest, std::slice::from_ref(&over), at(MINUTE));
        let jobs = sent(&mut digest, MINUTE, 10 * MINUTE);
        assert_eq!(jobs.iter().map(|(_, job)| job.message.resolved).collect::<Vec<_>>(), [1], "{restarts}");
        assert!(digest.record(at(10 * MINUTE)).unwrap().records.is_empty());
    }
}

#[test]
fn the_end_of_an_alert_whose_begin_was_refused_for_good_is_told_only_if_people_heard_of_it_since() {
    let over = |number| Alert { ends_at: Some(1), ..named("Down", number) };
    // Also after a restart, and at another hub.
    for (restarts, is_adopted) in [(false, false), (true, false), (false, true)] {
        let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
        told(&mut digest, &[named("Down", 1), named("Down", 2)], at(0));
        let job = digest.next(at(10_000)).unwrap();
        digest.done(job, &Answer::Refused("status 404".into()), at(10_000));
        if restarts {
            digest = Digest::new(Pace::default(), digest.record(at(MINUTE)).unwrap(), at(MINUTE));
        } else if is_adopted {
            let records = digest.records();
            digest = Digest::new(Pace::default(), Vec::new(), at(MINUTE));
            records.into_iter().for_each(|record| digest.adopt(record, at(MINUTE)));
        }
        told(&mut digest, &[named("Down", 1), named("Down", 2)], at(MINUTE));
        assert!(sent(&mut digest, MINUTE, 10 * MINUTE).is_empty(), "the message is not repeated");
        told(&mut digest, &[over(1)], at(11 * MINUTE));
        assert!(sent(&mut digest, 11 * MINUTE, 20 * MINUTE).is_empty(), "people never heard of it");
        assert_eq!(digest.record(at(20 * MINUTE)).unwrap().records.len(), 1);
        // The next message of this name lists the other one, so its end is told.
        told(&mut digest, &[named("Down", 2), named("Down", 3)], at(20 * MINUTE));
        let jobs = sent(&mut digest, 20 * MINUTE, 30 * MINUTE);
        assert_eq!(jobs.iter().map(|(_, job)| job.message.firing).collect::<Vec<_>>(), [2]);
        told(&mut digest, &[over(2)], at(30 * MINUTE));
        let jobs = sent(&mut digest, 30 * MINUTE, 40 * MINUTE);
        assert_eq!(jobs.iter().map(|(_, job)| job.message.resolved).collect::<Vec<_>>(), [1]);
        // It fires again: that is news.
        told(&mut digest, &[named("Down", 1)], at(40 * MINUTE));
        assert_eq!(sent(&mut digest, 40 * MINUTE, 50 * MINUTE).len(), 1);
    }
}

#[test]
fn a_begin_that_may_have_come_before_it_was_refused_has_an_end() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1)], at(0));
    let job = digest.next(at(10_000)).unwrap();
    digest.done(job, &Answer::Unknown("no answer".into(), None), at(20_000));
    let job = digest.next(at(MINUTE)).unwrap();
    digest.done(job, &Answer::Refused("status 404".into()), at(MINUTE));
    told(&mut digest, &[Alert { ends_at: Some(1), ..named("Down", 1) }], at(2 * MINUTE));
    assert_eq!(sent(&mut digest, 2 * MINUTE, 10 * MINUTE).len(), 1);
}

#[test]
fn what_was_not_taken_and_is_over_is_not_told() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1)], at(0));
    let job = digest.next(at(10_000)).unwrap();
    digest.done(job, &Answer::Later("away".into(), None), at(10_000));
    told(&mut digest, &[Alert { ends_at: Some(1), ..named("Down", 1) }], at(11_000));
    assert!(sent(&mut digest, 11_000, 10 * MINUTE).is_empty());
}

#[test]
fn a_reminder_whose_answer_is_lost_is_not_repeated() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1)], at(0));
    assert_eq!(sent(&mut digest, 0, MINUTE).len(), 1);
    let later = 10_000 + 4 * 3_600_000;
    let job = digest.next(at(later)).unwrap();
    assert!(job.message.is_repeat);
    digest.done(job, &Answer::Unknown("no answer".into(), None), at(later));
    assert!(digest.due().is_some_and(|due| due >= later + 4 * 3_600_000));
}

#[test]
fn people_are_reminded_after_hours_and_told_of_blips_never() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1)], at(0));
    told(&mut digest, &[named("Down", 1)], at(5_000));
    let jobs = sent(&mut digest, 0, 5 * 3_600_000);
    let repeats: Vec<(u64, bool)> = jobs.iter().map(|(when, job)| (*when, job.message.is_repeat)).collect();
    assert_eq!(repeats, [(10_000, false), (10_000 + 4 * 3_600_000, true)]);
    told(&mut digest, &[named("Blip", 1)], at(5 * 3_600_000));
    told(&mut digest, &[Alert { ends_at: Some(1), ..named("Blip", 1) }], at(5 * 3_600_000 + 9_000));
    assert!(sent(&mut digest, 5 * 3_600_000, 6 * 3_600_000).is_empty());
}

#[test]
fn an_alert_that_is_resolved_while_its_message_is_on_its_way_is_told_to_be_over() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1)], at(0));
    let job = digest.next(at(10_000)).unwrap();
    told(&mut digest, &[Alert { ends_at: Some(1), ..named("Down", 1) }], at(10_001));
    digest.done(job, &Answer::Taken(String::new()), at(10_002));
    let jobs = sent(&mut digest, 10_002, MINUTE);
    assert_eq!(jobs.iter().map(|(_, job)| job.message.resolved).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_restart_tells_nothing_twice_and_what_is_no_longer_judged_is_over() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1), named("Down", 2)], at(0));
    assert_eq!(sent(&mut digest, 0, MINUTE).len(), 1);
    let mut digest = Digest::new(Pace::default(), digest.record(at(MINUTE)).unwrap(), at(MINUTE));
    let mut jobs = Vec::new();
    for minute in 1..40 {
        told(&mut digest, &[named("Down", 1)], at(minute * MINUTE));
        jobs.extend(sent(&mut digest, minute * MINUTE, (minute + 1) * MINUTE));
    }
    let [(when, job)] = &jobs[..] else { panic!("{} messages", jobs.len()) };
    assert!((16 * MINUTE..19 * MINUTE).contains(when), "{when}");
    assert_eq!((job.message.resolved, job.message.firing), (1, 1));
}

#[test]
fn after_a_restart_nobody_is_reminded_of_what_the_judge_then_says_is_over() {
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut digest, &[named("Down", 1), named("Up", 1)], at(0));
    assert_eq!(sent(&mut digest, 0, MINUTE).len(), 2);
    // Both are due to be repeated when it starts again.
    let later = 10 * 3_600_000;
    let mut digest = Digest::new(Pace::default(), digest.record(at(later)).unwrap(), at(later));
    let mut jobs = sent(&mut digest, later, later + 30_000);
    assert!(jobs.is_empty(), "the judge has said nothing so far");
    let over = Alert { ends_at: Some(1), ..named("Down", 1) };
    told(&mut digest, &[over, named("Up", 1)], at(later + 30_000));
    jobs.extend(sent(&mut digest, later + 30_000, later + 5 * MINUTE));
    let told: Vec<(u64, u64)> =
        jobs.iter().map(|(_, job)| (job.message.firing, job.message.resolved)).collect();
    assert_eq!(told, [(0, 1), (1, 0)]);
}

#[test]
fn an_hour_without_alertmanager_takes_no_more_room_and_the_newest_state_is_sent() {
    let mut queue = Queue::new(MINUTE, at(0));
    let mut steady = 0;
    while steady < 3_600_000 {
        let flaps = (steady / 1_000) % 2 == 0;
        let ends_at = (!flaps).then_some(steady as i64);
        let alerts: Vec<Alert> = (0..100).map(|n| Alert { ends_at, ..named("Flap", n) }).collect();
        told(&mut queue, &alerts, at(steady));
        if let Some(job) = queue.next(at(steady)) {
            queue.done(job, &Answer::Later("away".into(), None), at(steady));
        }
        steady += 1_000;
    }
    assert_eq!(queue.numbers(), (100, 0));
    let jobs = sent(&mut queue, steady + 30_000, steady + 30_001);
    let states: Vec<Arc<Alert>> =
        jobs.iter().flat_map(|(_, job)| job.alerts.iter().map(|(_, alert)| alert.clone())).collect();
    assert_eq!(states.len(), 100);
    assert!(states.iter().all(|alert| alert.ends_at == Some(3_599_000)));
}

#[test]
fn what_another_hub_has_told_is_not_told_again_and_its_end_is() {
    let mut other = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut other, &[named("Down", 1), named("Down", 2)], at(0));
    assert_eq!(sent(&mut other, 0, MINUTE).len(), 1);
    let records = other.records();
    assert_eq!(records.len(), 2);
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(MINUTE));
    // Of one it hears from the judge first, of the other from the other hub.
    told(&mut digest, &[named("Down", 1)], at(MINUTE));
    records.into_iter().for_each(|record| digest.adopt(record, at(MINUTE)));
    assert_eq!(digest.records().len(), 2, "it survives a restart");
    told(&mut digest, &[named("Down", 1), named("Down", 2)], at(MINUTE));
    assert!(sent(&mut digest, MINUTE, 100 * MINUTE).is_empty());
    told(&mut digest, &[Alert { ends_at: Some(1), ..named("Down", 2) }], at(100 * MINUTE));
    let jobs = sent(&mut digest, 100 * MINUTE, 101 * MINUTE);
    assert_eq!(jobs.iter().map(|(_, job)| job.message.resolved).collect::<Vec<_>>(), [1]);
    // What was perhaps told is told once more, as after a restart.
    let mut other = Digest::new(Pace::default(), Vec::new(), at(0));
    told(&mut other, &[named("Down", 3)], at(0));
    assert!(other.next(at(MINUTE)).is_some(), "its answer never comes");
    other.records().into_iter().for_each(|record| digest.adopt(record, at(102 * MINUTE)));
    told(&mut digest, &[named("Down", 3)], at(102 * MINUTE));
    assert_eq!(sent(&mut digest, 102 * MINUTE, 103 * MINUTE).len(), 1);
}

#[test]
fn what_another_hub_tells_from_now_on_is_forgotten_without_a_word() {
    let is_first = |labels: &crate::alert::Labels| labels["n"] == "1";
    let mut digest = Digest::new(Pace::default(), Vec::new(), at(0));
    let mut queue = Queue::new(MINUTE, at(0));
    let both = [named("Down", 1), named("Down", 2)];
    told(&mut digest, &both, at(0));
    told(&mut queue, &both, at(0));
    assert_eq!((sent(&mut digest, 0, MINUTE).len(), sent(&mut queue, 0, 1).len()), (1, 1));
    // One message is on its way meanwhile.
    let batch = queue.next(at(MINUTE)).unwrap();
    digest.release(&is_first);
    queue.release(&is_first);
    queue.done(batch, &Answer::Taken(String::new()), at(MINUTE));
    assert_eq!(digest.records().len(), 1);
    for minute in 2..40 {
        told(&mut digest, &both[1..], at(minute * MINUTE));
        told(&mut queue, &both[1..], at(minute * MINUTE));
        assert!(sent(&mut digest, minute * MINUTE, (minute + 1) * MINUTE).is_empty(), "nothing is over");
        let named_ones = sent(&mut queue, minute * MINUTE, (minute + 1) * MINUTE);
        assert!(
            named_ones.iter().flat_map(|(_, job)| &job.alerts).all(|(_, alert)| alert.labels["n"] == "2")
        );
    }
}

#[test]
fn the_messages_of_an_hour_count_also_over_restarts_and_kills() {
    let pace = Pace { per_hour: 2, ..Pace::default() };
    let mut digest = Digest::new(pace, Vec::new(), at(0));
    let mut messages = 0;
    for number in 0..10_u64 {
        let now = number * MINUTE;
        told(&mut digest, &[named(&format!("rule{number}"), 1)], at(now));
        // It is killed while each other message is on its way: people may have got it.
        let later = at(now + 10_000);
        if let Some(job) = digest.next(later) {
            messages += 1;
            if number % 2 == 0 {
                digest.done(job, &Answer::Taken(String::new()), later);
            }
        }
        let kept = digest.record(later).unwrap_or_else(|| Kept {
            records: digest.records(),
            sent: Some(crate::hour::Sent { began: 10_000, messages }),
        });
        digest = Digest::new(pace, kept, later);
    }
    assert_eq!(messages, 3, "two, and a summary");
}
