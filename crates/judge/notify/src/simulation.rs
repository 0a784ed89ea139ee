//! The cores of ways in a world of its own time: alerts that fire and are resolved, servers that are away or refuse, restarts. Once
//! the server is reachable it believes what is true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::core::Core;
use crate::digest::{Digest, Job, Pace};
use crate::now::Now;
use crate::queue::{Batch, Queue};

/// The time between two passes of the judge, in ms.
const PASS: u64 = 5_000;
const MINUTE: u64 = 60_000;

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// This alert begins to fire, if it does not.
    Fire(u8),
    /// This alert is resolved, if it fires.
    Resolve(u8),
    /// The server does not answer from now on, or answers again.
    Away(bool),
    /// Seconds go by.
    Wait(u16),
    /// The sender is killed and starts again, with what it has kept.
    Restart,
    /// The server is killed and starts again; an Alertmanager forgets.
    ServerRestart,
    /// Somebody sets the clock.
    Clock(i32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..6u8).prop_map(Step::Fire),
        5 => (0..6u8).prop_map(Step::Resolve),
        2 => any::<bool>().prop_map(Step::Away),
        4 => (1..2_000u16).prop_map(Step::Wait),
        1 => Just(Step::Restart),
        1 => Just(Step::ServerRestart),
        1 => (-7_200..7_200i32).prop_map(Step::Clock),
    ];
    proptest::collection::vec(step, 1..60)
}

fn alert(number: u8, starts_at: i64) -> Alert {
    let labels = [("alertname", format!("a{}", number % 2)), ("n", number.to_string())];
    let labels: Labels = labels.map(|(name, value)| (name.to_owned(), value)).into();
    Alert { labels, starts_at, ..Alert::default() }
}

/// A server, which believes something of each alert.
trait Server<C: Core>: Default {
    fn take(&mut self, job: &C::Job, now: Now);
    fn believes(&self, now: Now) -> Vec<Labels>;
    fn restart(&mut self);
    /// A new core, with what the old one has kept.
    fn core(old: Option<&mut C>, now: Now) -> C;
}

/// An Alertmanager: each alert with the time until which it is believed to fire.
#[derive(Default)]
struct Manager(BTreeMap<Labels, i64>);

impl Server<Queue> for Manager {
    fn take(&mut self, job: &Batch, now: Now) {
        assert!((1..=64).contains(&job.alerts.len()));
        for (_, alert) in &job.alerts {
            // Its own clock is right: it is that which is not set.
            let until = alert.ends_at.map_or(job.believed_until - now.wall, |_| 0);
            self.0.insert(alert.labels.clone(), now.steady as i64 + until);
        }
    }

    fn believes(&self, now: Now) -> Vec<Labels> {
        let firing = self.0.iter().filter(|(_, until)| **until > now.steady as i64);
        firing.map(|(labels, _)| labels.clone()).collect()
    }

    fn restart(&mut self) {
        self.0.clear();
    }

    fn core(_: Option<&mut Queue>, now: Now) -> Queue {
        Queue::new(MINUTE, now)
    }
}

/// People, who remember what they were told.
#[derive(Default)]
struct People {
    firing: BTreeMap<Labels, ()>,
    messages: Vec<u64>,
}

impl Server<Digest> for People {
    fn take(&mut self, job: &Job, now: Now) {
        self.messages.push(now.steady);
        for alert in &job.message.alerts {
            match alert.is_firing() {
                true => _ = self.firing.insert(alert.labels.clone(), ()),
                false => _ = self.firing.remove(&alert.labels),
            }
        }
        let listed = job.message.alerts.iter().filter(|alert| alert.is_firing()).count();
        assert!(
            job.message.name.is_none() || job.message.left_out > 0 || listed as u64 == job.message.firing
        );
    }

    fn believes(&self, _: Now) -> Vec<Labels> {
        self.firing.keys().cloned().collect()
    }

    fn restart(&mut self) {}

    fn core(old: Option<&mut Digest>, now: Now) -> Digest {
        let kept = old.map(Digest::records).unwrap_or_default();
        Digest::new(Pace { per_hour: 3_600, ..Pace::default() }, kept, now)
    }
}

/// A sender and its server.
struct World<C: Core, S: Server<C>> {
    now: Now,
    firing: BTreeMap<u8, i64>,
    resolved: BTreeMap<u8, (i64, i64)>,
    is_away: bool,
    core: C,
    server: S,
}

impl<C: Core, S: Server<C>> World<C, S> {
    fn new() -> Self {
        let now = Now { steady: 10 * MINUTE, wall: 1_700_000_000_000 };
        let core = S::core(None, now);
        let server = S::default();
        World { now, firing: BTreeMap::new(), resolved: BTreeMap::new(), is_away: false, core, server }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Fire(number) => {
                self.resolved.remove(&number);
                self.firing.entry(number).or_insert(self.now.wall);
            }
            Step::Resolve(number) => {
                if let Some(start) = self.firing.remove(&number) {
                    self.resolved.insert(number, (start, self.now.wall));
                }
            }
            Step::Away(is_away) => self.is_away = is_away,
            Step::Wait(seconds) => self.wait(u64::from(seconds) * 1_000),
            Step::Restart => self.core = S::core(Some(&mut self.core), self.now),
            Step::ServerRestart => self.server.restart(),
            Step::Clock(seconds) => self.now.wall += i64::from(seconds) * 1_000,
        }
        self.pass();
    }

    /// The judge tells what it has found, as rules do: all that fire, and for 15 minutes what was resolved.
    fn pass(&mut self) {
        let wall = self.now.wall;
        self.resolved.retain(|_, (_, end)| wall - *end <= 15 * MINUTE as i64);
        let firing = self.firing.iter().map(|(number, start)| alert(*number, *start));
        let resolved = self
            .resolved
            .iter()
            .map(|(number, (start, end))| Alert { ends_at: Some(*end), ..alert(*number, *start) });
        for alert in firing.chain(resolved).collect::<Vec<_>>() {
            self.core.take(&mut Told::new(&alert), self.now);
        }
        self.core.end_of_pass(self.now);
    }

    fn wait(&mut self, ms: u64) {
        let end = self.now.steady + ms;
        let mut next_pass = self.now.steady + PASS;
        while self.now.steady < end {
            let mut turns = 0;
            while let Some(job) = self.core.next(self.now) {
                turns += 1;
                assert!(turns < 1_000, "it never has enough");
                let answer = match self.is_away {
                    true => Answer::Later("away".into(), Some(Duration::from_secs(1))),
                    false => {
                        self.server.take(&job, self.now);
                        Answer::Taken(String::new())
                    }
                };
                self.core.done(job, &answer, self.now);
            }
            let due = self.core.due().unwrap_or(end).max(self.now.steady + 1);
            let next = due.min(next_pass).min(end);
            self.now.wall += (next - self.now.steady) as i64;
            self.now.steady = next;
            if self.now.steady >= next_pass {
                self.pass();
                next_pass += PASS;
            }
        }
    }

    fn check(mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(step));
        self.is_away = false;
        // What nobody mentions any more is resolved in a quarter of an hour; the search for it is once a minute.
        self.wait(20 * MINUTE);
        let truth: Vec<Labels> = self.firing.iter().map(|(number, at)| alert(*number, *at).labels).collect();
        let mut believed = self.server.believes(self.now);
        believed.sort();
        let mut truth = truth;
        truth.sort();
        assert_eq!(believed, truth);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_an_alertmanager_that_is_reachable_believes_what_is_true(steps in steps()) {
        World::<Queue, Manager>::new().check(&steps);
    }

    #[test]
    fn whatever_happens_people_who_are_reachable_believe_what_is_true(steps in steps()) {
        World::<Digest, People>::new().check(&steps);
    }
}

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
    let mut digest = Digest::new(Pace::default(), digest.record().unwrap(), at(MINUTE));
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
