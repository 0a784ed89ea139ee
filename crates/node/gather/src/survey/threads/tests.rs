//! Threads whose steps hang and come back in any order: there are never too many, each subject is surveyed, and no answer is lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SUBJECTS: usize = 4;
const STEPS: usize = 14;
const SLOW: Nanos = Nanos(10);
const STUCK: Nanos = Nanos(250);

/// A step of a subject.
type Item = (usize, usize);

/// A thread, with the place in its survey.
struct Hand {
    number: u64,
    place: Place,
    course: Option<Course>,
}

struct Course {
    index: usize,
    /// The step that it is in.
    at: Option<usize>,
    next: usize,
    /// What it writes of each step.
    text: Vec<(usize, Turn)>,
}

#[derive(Default)]
struct World {
    hands: Vec<Hand>,
    hanging: BTreeSet<Item>,
    /// The steps whose answers are kept.
    kept: BTreeSet<Item>,
    /// The latest text of each subject.
    made: HashMap<usize, Vec<(usize, Turn)>>,
    now: u64,
}

/// Every fourth step is one for which the whole survey waits.
fn is_apart(step: usize) -> bool {
    step % 4 != 3
}

fn name(step: usize) -> Step {
    (vec![step as u8], 0)
}

impl World {
    fn start(&mut self, threads: &mut Threads) {
        if threads.has_work()
            && let Some(number) = threads.next_thread(Nanos(self.now))
        {
            self.hands.push(Hand { number, place: Place::default(), course: None });
        }
    }

    fn look(&mut self, threads: &mut Threads) {
        let now = Nanos(self.now);
        if let Some(slow) = threads.slow(now, SLOW) {
            threads.overtake(slow);
        }
        while let Some(stuck) = threads.overdue(now, STUCK) {
            threads.give_up(stuck);
        }
        self.start(threads);
    }

    /// Lets a thread do what it can until its next step. `false`: it can do nothing.
    fn run(&mut self, threads: &mut Threads, which: usize) -> bool {
        let (at, now) = (which % self.hands.len().max(1), Nanos(self.now));
        let Some(hand) = self.hands.get_mut(at) else { return false };
        let number = hand.number;
        let Some(course) = &mut hand.course else {
            return match threads.take(number, &hand.place) {
                Ok(Some(index)) => {
                    hand.course = Some(Course { index, at: None, next: 0, text: Vec::new() });
                    true
                }
                Ok(None) => false,
                Err(()) => {
                    threads.has_left(number);
                    self.hands.remove(at);
                    true
                }
            };
        };
        let index = course.index;
        if let Some(step) = course.at {
            if self.hanging.contains(&(index, step)) {
                return false;
            }
            course.at = None;
            if is_apart(step) {
                self.kept.insert((index, step));
            }
        }
        let step = course.next;
        course.next += 1;
        let turn = match step < STEPS {
            true => threads.begin(number, name(step), is_apart(step), None, now),
            false => None,
        };
        let Some(turn) = turn else {
            let text = hand.course.take().map(|course| course.text).unwrap_or_default();
            if threads.end(number, None) {
                assert_eq!(text.len(), STEPS, "BUG: a survey ends only after its last step");
                self.made.insert(index, text);
            }
            return true;
        };
        if turn == Turn::Take {
            course.at = Some(step);
        }
        let turn = match turn {
            Turn::Keep(_) if !self.kept.contains(&(index, step)) => Turn::Leave,
            other => other,
        };
        course.text.push((step, turn));
        true
    }

    /// Lets time pass until no thread can do anything.
    fn settle(&mut self, threads: &mut Threads) {
        for _ in 0..200 {
            self.look(threads);
            let mut ran = true;
            while ran {
                ran = false;
                for which in 0..self.hands.len() {
                    ran |= self.run(threads, which);
                    self.check(threads);
                }
            }
            self.now += STUCK.0;
        }
    }

    fn check(&self, threads: &Threads) {
        assert!(threads.at_work.len() <= SURVEYS_STUCK_MAX);
        for index in 0..SUBJECTS {
            let makes = |thread: &&Thread| thread.index == index && thread.part == Part::All;
            assert!(threads.at_work.iter().filter(makes).count() <= 1, "two threads make one survey");
            assert!(threads.stuck_at(index) <= SURVEYS_STUCK_OF_SUBJECT_END);
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Want(u64),
    Run(usize),
    Pass(u64),
    Hang(usize, usize),
    Answer(usize, usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let item = || (0..SUBJECTS, 0..STEPS);
    let one = prop_oneof![
        1 => (0..1_u64 << SUBJECTS).prop_map(Event::Want),
        12 => (0..8_usize).prop_map(Event::Run),
        3 => (0..2 * STUCK.0).prop_map(Event::Pass),
        2 => item().prop_map(|(subject, step)| Event::Hang(subject, step)),
        1 => item().prop_map(|(subject, step)| Event::Answer(subject, step)),
    ];
    prop::collection::vec(one, 0..400)
}

proptest! {
    #[test]
    fn whatever_hangs_and_comes_back_all_subjects_are_surveyed_by_few_threads(events in events()) {
        let (mut threads, mut world) = (Threads::of(SUBJECTS), World { now: 1, ..World::default() });
        for event in events {
            match event {
                Event::Want(subjects) => threads.want(subjects),
                Event::Run(which) => drop(world.run(&mut threads, which)),
                Event::Pass(time) => world.now += time,
                Event::Hang(subject, step) => drop(world.hanging.insert((subject, step))),
                Event::Answer(subject, step) => drop(world.hanging.remove(&(subject, step))),
            }
            world.look(&mut threads);
            world.check(&threads);
        }
        // What hangs is left out, and nobody waits for it.
        world.settle(&mut threads);
        threads.want(u64::MAX);
        world.settle(&mut threads);
        let is_at_end = |index: usize| threads.is_at_end(index) || threads.stuck() >= SURVEYS_STUCK_MAX;
        for index in (0..SUBJECTS).filter(|index| !is_at_end(*index)) {
            let made = &world.made[&index];
            for (step, turn) in made {
                let hangs = world.hanging.contains(&(index, *step));
                prop_assert!(!hangs || *turn == Turn::Leave, "{index}.{step}: {turn:?}");
                let is_crowded = threads.stuck_at(index) >= SURVEYS_STUCK_OF_SUBJECT_MAX;
                prop_assert!(hangs || is_crowded || *turn != Turn::Leave, "{index}.{step}: left out");
            }
        }
        // Everything answers: every subject is surveyed whole, by one thread.
        world.hanging.clear();
        world.settle(&mut threads);
        threads.want(u64::MAX);
        world.settle(&mut threads);
        for index in 0..SUBJECTS {
            prop_assert!(world.made[&index].iter().all(|(_, turn)| *turn != Turn::Leave));
        }
        prop_assert!(!threads.is_busy() && threads.stuck() == 0 && world.hands.len() <= 1);
    }
}

#[test]
fn steps_that_come_and_go_while_one_hangs_take_a_bounded_room() {
    let (mut threads, place) = (Threads::of(1), Place::default());
    let survey = |threads: &mut Threads, steps: &[Step]| {
        threads.want(1);
        let number = threads.next_thread(Nanos(1)).unwrap_or(threads.next);
        if threads.take(number, &place) == Ok(Some(0)) {
            for step in steps {
                assert_eq!(threads.begin(number, step.clone(), true, None, Nanos(2)), Some(Turn::Take));
            }
        }
        number
    };
    let hangs = survey(&mut threads, &[(b"hangs".to_vec(), 0)]);
    threads.overtake(hangs);
    threads.give_up(hangs);
    for round in 0..4 * SOUND_MAX / 1_000 {
        let steps: Vec<Step> = (0..1_000).map(|n| (format!("{round} {n}").into_bytes(), 0)).collect();
        let number = survey(&mut threads, &steps);
        threads.end(number, None);
        threads.has_left(number);
        assert!(threads.rounds[0].sound.len() <= SOUND_MAX + 1_000);
        assert!(threads.rounds[0].answered.len() <= 1_000);
    }
    assert_eq!(threads.stuck(), 1);
}
