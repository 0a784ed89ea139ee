//! The cores of ways in a world of its own time: alerts that fire and are resolved, servers that are away or refuse, restarts. Once
//! the server is reachable it believes what is true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::core::{Core, Record};
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
    /// From now on, answers get lost: of what the server has taken, or of what it has not.
    Mute(Option<bool>),
    /// The sender is killed between sending something and noting what came of it.
    Kill,
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
        2 => any::<Option<bool>>().prop_map(Step::Mute),
        1 => Just(Step::Kill),
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
        Digest::new(Pace { per_hour: 100_000, ..Pace::default() }, kept, now)
    }
}

/// A sender and its server.
struct World<C: Core, S: Server<C>> {
    now: Now,
    firing: BTreeMap<u8, i64>,
    resolved: BTreeMap<u8, (i64, i64)>,
    is_away: bool,
    mute: Option<bool>,
    core: C,
    server: S,
}

impl<C: Core, S: Server<C>> World<C, S> {
    fn new() -> Self {
        let now = Now { steady: 10 * MINUTE, wall: 1_700_000_000_000 };
        let core = S::core(None, now);
        let server = S::default();
        let (firing, resolved) = (BTreeMap::new(), BTreeMap::new());
        World { now, firing, resolved, is_away: false, mute: None, core, server }
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
            Step::Mute(mute) => self.mute = mute,
            Step::Kill => {
                if let Some(job) = self.core.next(self.now)
                    && !self.is_away
                {
                    self.server.take(&job, self.now);
                }
                self.core = S::core(Some(&mut self.core), self.now);
            }
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
                if !self.is_away && self.mute != Some(false) {
                    self.server.take(&job, self.now);
                }
                let wish = Some(Duration::from_secs(1));
                let answer = match (self.is_away, self.mute) {
                    (true, _) => Answer::Later("away".into(), wish),
                    (false, Some(_)) => Answer::Unknown("no answer".into(), wish),
                    (false, None) => Answer::Taken(String::new()),
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
        (self.is_away, self.mute) = (false, None);
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

#[test]
fn a_message_names_as_firing_only_what_the_judge_has_said_since_another_hub_or_a_restart() {
    let at = |steady| Now { steady, wall: 1_700_000_000_000 + steady as i64 };
    // Both are called a0. Of the first one only a file, or another hub, has said something.
    let (told, new) = (alert(0, 1), alert(2, 1));
    let record = Record { alert: Arc::new(told.clone()), told_at: 5, is_unsure: false, is_refused: false };
    let listed = |digest: &mut Digest, now| {
        let job = digest.next(now).unwrap();
        let message = job.message.clone();
        digest.done(job, &Answer::Taken(String::new()), now);
        assert_eq!(message.left_out, 0);
        let firing = message.alerts.iter().filter(|alert| alert.is_firing());
        assert_eq!(firing.clone().count() as u64, message.firing);
        firing.map(|alert| alert.labels["n"].clone()).collect::<Vec<_>>()
    };
    let pace = Pace { wait: 0, ..Pace::default() };
    for is_restart in [true, false] {
        let records = if is_restart { vec![record.clone()] } else { Vec::new() };
        let mut digest = Digest::new(pace, records, at(0));
        if !is_restart {
            digest.adopt(record.clone(), at(0));
        }
        digest.take(&mut Told::new(&new), at(1));
        assert_eq!(listed(&mut digest, at(1)), ["2"]);
        assert_eq!(digest.records().len(), 2, "what people were told of it is not lost");
        // Now the judge says that it fires: it is no news, and it is named beside some.
        digest.take(&mut Told::new(&told), at(2));
        assert!(digest.next(at(2)).is_none());
        digest.take(&mut Told::new(&Alert { ends_at: Some(3), ..new.clone() }), at(3));
        assert_eq!(listed(&mut digest, at(3)), ["0"]);
        // And that it is over: people hear that.
        digest.take(&mut Told::new(&Alert { ends_at: Some(4), ..told.clone() }), at(4));
        assert!(listed(&mut digest, at(4)).is_empty());
        assert!(digest.records().is_empty());
    }
}
