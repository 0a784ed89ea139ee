//! Surveys with made-up steps that block until the test lets them go: what is stuck is left out, and everything else goes on.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::threads::Turn;
use super::*;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a step may take in these tests. A busy machine may hold a thread up for longer; then it comes back.
const SOON: Nanos = Nanos::from_millis(50);

/// The items that block, until they are taken out; and those that have answered once.
#[derive(Clone, Default)]
struct Blocked(Arc<(Mutex<BTreeSet<&'static str>>, Condvar)>, Arc<Mutex<BTreeSet<String>>>);

impl Blocked {
    fn of(items: &[&'static str]) -> Self {
        let blocked = Blocked::default();
        blocked.block(items);
        blocked
    }

    fn block(&self, items: &[&'static str]) {
        self.0.0.lock().unwrap().extend(items);
    }

    fn answer(&self, item: &str) {
        self.1.lock().unwrap().insert(item.to_owned());
    }

    fn has_answered(&self, item: &str) -> bool {
        self.1.lock().unwrap().contains(item)
    }

    fn wait_for(&self, item: &str) {
        let (blocked, bell) = &*self.0;
        drop(bell.wait_while(blocked.lock().unwrap(), |blocked| blocked.contains(item)).unwrap());
    }

    fn release(&self, items: &[&str]) {
        self.0.0.lock().unwrap().retain(|item| !items.contains(item));
        self.0.1.notify_all();
    }
}

/// Makes a text with a line for each item: `a`, or `a stuck`, or nothing if its answer is waited for. Of an item with a `!` the whole
/// survey waits for the answer.
fn text_of(course: &mut Course<'_>, items: &[&str], blocked: &Blocked) -> Result<Answer, Abandoned> {
    let mut text = String::new();
    for item in items {
        let turn = match item.starts_with('!') {
            true if course.begin(item.as_bytes())? => Turn::Take,
            true => Turn::Leave,
            false => course.begin_apart(item.as_bytes())?.0,
        };
        match turn {
            Turn::Take => blocked.wait_for(item),
            Turn::Leave => {
                text += &format!("{item} stuck\n");
                continue;
            }
            Turn::Keep(_) if !blocked.has_answered(item) => continue,
            Turn::Keep(_) => {}
        }
        blocked.answer(item);
        text += &format!("{item}\n");
    }
    Ok(Ok(text.into_bytes()))
}

/// The clock is surveyed beside the items, and has no step.
fn survey_of(items: &'static [&'static str], blocked: &Blocked) -> Arc<Survey> {
    let blocked = blocked.clone();
    let surveyor = move |course: &mut Course<'_>| match course.subject() {
        Subject::Clock => Ok(Ok(b"clock\n".to_vec())),
        _ => text_of(course, items, &blocked),
    };
    Survey::with([Subject::FileSystems, Subject::Clock], Box::new(surveyor))
}

fn surveys(survey: &Arc<Survey>) -> Surveys {
    let plan = |subject: &Subject| SubjectPlan { subject: *subject, period: Nanos(0), budget: None };
    let mut surveys = Surveys::new(survey.clone(), survey.subjects.iter().map(plan), Nanos(0));
    surveys.stuck_after = SOON;
    // As often as the test looks.
    surveys.due.iter_mut().for_each(|due| (due.period, due.next) = (Nanos(0), Nanos(0)));
    surveys.find_next();
    surveys
}

/// Looks, as the gather thread does at its ticks, until the latest answer is this one.
fn until(surveys: &mut Surveys, subject: Subject, expected: Result<&str, Errno>) {
    let (begun, mut text) = (Instant::now(), SurveyText::new(&surveys.survey, subject));
    let mut buffer = Vec::new();
    loop {
        surveys.look(crate::clock::boot());
        let answer =
            text.read(&mut buffer).map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned());
        if answer.as_deref().map_err(|errno| *errno) == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_stuck_is_left_out_and_everything_else_goes_on() {
    let blocked = Blocked::of(&["b"]);
    let survey = survey_of(&["a", "b", "c"], &blocked);
    let mut surveys = surveys(&survey);
    until(&mut surveys, Subject::FileSystems, Ok("a\nb stuck\nc\n"));
    until(&mut surveys, Subject::Clock, Ok("clock\n"));
    assert!(survey.counts.stuck.load(Ordering::Relaxed) >= 1);
    blocked.release(&["b"]);
    until(&mut surveys, Subject::FileSystems, Ok("a\nb\nc\n"));
    let begun = Instant::now();
    while survey.counts.stuck.load(Ordering::Relaxed) != 0 {
        assert!(begun.elapsed() < PATIENCE, "a thread that came back counts as stuck");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A time at which each step is slow, and none is stuck.
fn later() -> (Nanos, Nanos) {
    let stuck_after = Nanos::from_secs(3_600);
    (Nanos(crate::clock::boot().0 + stuck_after.0 / SLOW_PART), stuck_after)
}

/// Looks at such a time until the latest answer is this one.
fn until_slow(survey: &Arc<Survey>, subject: Subject, expected: &str) {
    let (begun, mut text) = (Instant::now(), SurveyText::new(survey, subject));
    let mut buffer = Vec::new();
    loop {
        let (now, stuck_after) = later();
        survey.look_for_stuck(now, stuck_after);
        let found =
            text.read(&mut buffer).map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned());
        if found.as_deref() == Ok(expected) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_step_keeps_neither_other_subjects_nor_other_steps_waiting_and_its_answer_counts() {
    let blocked = Blocked::of(&["b", "d"]);
    let survey = survey_of(&["a", "b", "c", "d"], &blocked);
    survey.want(u64::MAX);
    until_slow(&survey, Subject::Clock, "clock\n");
    until_slow(&survey, Subject::FileSystems, "a\nc\n");
    assert_eq!(survey.lock().threads.stuck(), 0);
    assert!(!survey.wait(Duration::ZERO), "two answers are waited for");
    // Nobody has asked again: the answer itself makes another text.
    blocked.release(&["b"]);
    until_slow(&survey, Subject::FileSystems, "a\nb\nc\n");
    blocked.release(&["d"]);
    assert!(survey.wait(PATIENCE));
    until_slow(&survey, Subject::FileSystems, "a\nb\nc\nd\n");
    // What has answered before is written while it is slow.
    blocked.block(&["a", "c"]);
    let made = survey.versions[0].load(Ordering::Acquire);
    while !survey.want(u64::MAX) {}
    let begun = Instant::now();
    while survey.versions[0].load(Ordering::Acquire) == made {
        let (now, stuck_after) = later();
        survey.look_for_stuck(now, stuck_after);
        assert!(begun.elapsed() < PATIENCE);
    }
    until_slow(&survey, Subject::FileSystems, "a\nb\nc\nd\n");
    blocked.release(&["a", "c"]);
    assert!(survey.wait(PATIENCE));
    survey.end();
}

#[test]
fn while_a_whole_survey_is_slow_the_other_subjects_are_surveyed_and_it_is_ended_by_its_own_thread() {
    let blocked = Blocked::of(&["!b"]);
    let survey = survey_of(&["a", "!b", "c"], &blocked);
    survey.want(1);
    // The second thread comes when there is something to do for it, and not before.
    let begun = Instant::now();
    while survey.lock().threads.has_taker() {
        let (now, stuck_after) = later();
        survey.look_for_stuck(now, stuck_after);
        assert!(begun.elapsed() < PATIENCE);
    }
    for _ in 0..3 {
        let made = survey.versions[1].load(Ordering::Acquire);
        while !survey.want(u64::MAX) {}
        let begun = Instant::now();
        while survey.versions[1].load(Ordering::Acquire) == made {
            assert!(begun.elapsed() < PATIENCE, "the clock waits");
        }
    }
    assert_eq!(survey.versions[0].load(Ordering::Acquire), 0);
    blocked.release(&["!b"]);
    assert!(survey.wait(PATIENCE));
    until_slow(&survey, Subject::FileSystems, "a\n!b\nc\n");
    // One thread is left.
    let begun = Instant::now();
    while Arc::strong_count(&survey) > 2 {
        assert!(begun.elapsed() < PATIENCE);
    }
    survey.end();
}

/// How often the kernel has put a thread of this process on a CPU or taken it away, once it sleeps.
fn switches(thread: i32) -> u64 {
    let begun = Instant::now();
    loop {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        if value("State:").starts_with('S') {
            let number = |name: &str| value(name).parse::<u64>().unwrap();
            return number("voluntary_ctxt_switches:") + number("nonvoluntary_ctxt_switches:");
        }
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}

/// A starter that makes no thread while it is told so, and counts how often it was asked for one meanwhile.
fn refusing(is_refused: &Arc<AtomicBool>, asked: &Arc<AtomicU64>) -> Box<Starter> {
    let (is_refused, asked) = (is_refused.clone(), asked.clone());
    Box::new(move |survey, number| match is_refused.load(Ordering::Relaxed) {
        false => worker::start(survey, number),
        true => {
            asked.fetch_add(1, Ordering::Relaxed);
            Err(Errno::AGAIN.into())
        }
    })
}

#[test]
fn where_no_thread_can_be_made_what_waits_is_failed_and_never_old() {
    let (is_refused, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let blocked = Blocked::of(&["!hangs"]);
    let at = blocked.clone();
    let surveyor = move |course: &mut Course<'_>| match course.subject() {
        Subject::Clock => Ok(Ok(b"clock\n".to_vec())),
        _ => text_of(course, &["!hangs"], &at),
    };
    let subjects = [Subject::FileSystems, Subject::Clock];
    let survey = Survey::with_threads_of(refusing(&is_refused, &asked), subjects, Box::new(surveyor));
    let mut surveys = surveys(&survey);
    until(&mut surveys, Subject::Clock, Ok("clock\n"));
    // The only thread hangs, and the kernel makes no other.
    is_refused.store(true, Ordering::Relaxed);
    until(&mut surveys, Subject::Clock, Err(Errno::TIMEDOUT));
    until(&mut surveys, Subject::FileSystems, Err(Errno::TIMEDOUT));
    // Also those that are wanted from now on: none becomes what it was.
    let mut text = SurveyText::new(&survey, Subject::Clock);
    for _ in 0..100 {
        surveys.look(crate::clock::boot());
        assert_eq!(text.read(&mut Vec::new()), Err(Errno::TIMEDOUT));
    }
    assert!(asked.load(Ordering::Relaxed) > 0);
    is_refused.store(false, Ordering::Relaxed);
    until(&mut surveys, Subject::Clock, Ok("clock\n"));
    blocked.release(&["!hangs"]);
    until(&mut surveys, Subject::FileSystems, Ok("!hangs\n"));
}

#[test]
fn where_no_thread_can_be_made_from_the_start_nothing_is_waited_for_longer_than_for_a_step() {
    let (is_refused, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let survey = Survey::with_threads_of(
        refusing(&is_refused, &asked),
        [Subject::Clock],
        Box::new(|_: &mut Course<'_>| Ok(Ok(Vec::new()))),
    );
    survey.ask(Subject::Clock);
    survey.wait_and_give_up(SOON, Nanos::from_secs(60));
    assert!(!survey.is_busy());
    assert_eq!(SurveyText::new(&survey, Subject::Clock).read(&mut Vec::new()), Err(Errno::TIMEDOUT));
    // The kernel is asked again after a while, not at each tick of the gather thread.
    let (now, before) = (crate::clock::boot(), asked.load(Ordering::Relaxed));
    for tick in 0..200 {
        survey.ask(Subject::Clock);
        survey.look_for_stuck(Nanos(now.0 + tick * 1_000), SOON);
    }
    assert!(asked.load(Ordering::Relaxed) <= before + 200 && !survey.is_busy());
}

#[test]
fn where_nothing_hangs_there_is_one_thread_and_it_sleeps_until_there_is_work() {
    let threads = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = threads.clone();
    let surveyor = move |course: &mut Course<'_>| {
        seen.lock().unwrap().insert(rustix::thread::gettid().as_raw_nonzero().get());
        course.begin_apart(b"a")?;
        Ok(Ok(b"whole\n".to_vec()))
    };
    let survey = Survey::with([Subject::FileSystems, Subject::Clock], Box::new(surveyor));
    let plan = |subject: &Subject| SubjectPlan { subject: *subject, period: Nanos(0), budget: None };
    let start = crate::clock::boot();
    let mut surveys = Surveys::new(survey.clone(), survey.subjects.iter().map(plan), start);
    for _ in 0..100 {
        while !survey.want(u64::MAX) {}
        assert!(survey.wait(PATIENCE));
    }
    assert_eq!(threads.lock().unwrap().len(), 1);
    let thread = *threads.lock().unwrap().first().unwrap();
    let before = switches(thread);
    let ticks = 1..SURVEY_PERIOD_MIN.0 / 1_000;
    ticks.for_each(|tick| surveys.look(Nanos(start.0 + tick * 1_000)));
    assert_eq!(switches(thread), before);
}

/// One more than may be stuck at one subject while all others are asked.
const TOO_MANY: [&str; SURVEYS_STUCK_OF_SUBJECT_MAX + 1] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
/// What answers before them, and after them.
const ALL: [&str; SURVEYS_STUCK_OF_SUBJECT_MAX + 6] =
    ["p", "q", "r", "s", "a", "b", "c", "d", "e", "f", "g", "h", "i", "z"];

#[test]
fn beyond_the_limit_of_one_subject_what_has_answered_since_is_asked_on() {
    let blocked = Blocked::of(&TOO_MANY);
    let survey = survey_of(&ALL, &blocked);
    let mut surveys = surveys(&survey);
    let stuck = "p\nq\nr\ns\na stuck\nb stuck\nc stuck\nd stuck\ne stuck\nf stuck\ng stuck\nh stuck\n";
    let crowded = stuck.to_owned() + "i stuck\nz stuck\n";
    until(&mut surveys, Subject::FileSystems, Ok(&crowded));
    // All are surveyed as often as before.
    let made: Vec<u64> = survey.versions.iter().map(|made| made.load(Ordering::Acquire)).collect();
    let begun = Instant::now();
    while survey.versions.iter().zip(&made).any(|(now, made)| now.load(Ordering::Acquire) < made + 20) {
        surveys.look(crate::clock::boot());
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(survey.lock().threads.stuck(), SURVEYS_STUCK_OF_SUBJECT_MAX);
    until(&mut surveys, Subject::FileSystems, Ok(&crowded));
    // One of those that are asked on hangs, too: the others are still asked.
    blocked.block(&["q"]);
    until(&mut surveys, Subject::FileSystems, Ok(&crowded.replace("q\n", "q stuck\n")));
    blocked.release(&["q", "a", "i"]);
    until(&mut surveys, Subject::FileSystems, Ok(&(stuck.replace("a stuck", "a") + "i\nz\n")));
    blocked.release(&TOO_MANY);
    until(&mut surveys, Subject::FileSystems, Ok("p\nq\nr\ns\na\nb\nc\nd\ne\nf\ng\nh\ni\nz\n"));
}

/// More mounts of one file system than threads may be stuck, between two others.
const MOUNTS: [&str; SURVEYS_STUCK_OF_SUBJECT_MAX + 4] = [
    "0:4\0a", "0:5\0b", "0:5\0c", "0:5\0d", "0:5\0e", "0:5\0f", "0:5\0g", "0:5\0h", "0:5\0i", "0:5\0j",
    "0:5\0k", "0:6\0l",
];

#[test]
fn mounts_of_one_file_system_that_hangs_take_two_threads_however_many_they_are() {
    let hang = &MOUNTS[1..MOUNTS.len() - 1];
    let blocked = Blocked::of(hang);
    let survey = survey_of(&MOUNTS, &blocked);
    let mut surveys = surveys(&survey);
    let all = |is_stuck: &dyn Fn(&str) -> bool| -> String {
        MOUNTS
            .iter()
            .map(|mount| format!("{mount}{}\n", if is_stuck(mount) { " stuck" } else { "" }))
            .collect()
    };
    until(&mut surveys, Subject::FileSystems, Ok(&all(&|mount| hang.contains(&mount))));
    assert_eq!(survey.lock().threads.stuck(), 2);
    blocked.release(hang);
    until(&mut surveys, Subject::FileSystems, Ok(&all(&|_| false)));
    // One alone says nothing of the others: the path to it may hang.
    blocked.block(&hang[..1]);
    until(&mut surveys, Subject::FileSystems, Ok(&all(&|mount| mount == hang[0])));
    blocked.release(hang);
}

#[test]
fn when_those_that_were_asked_on_hang_too_only_this_subject_is_not_surveyed_until_one_comes_back() {
    let blocked = Blocked::of(&TOO_MANY);
    let survey = survey_of(&ALL, &blocked);
    let mut surveys = surveys(&survey);
    let crowded = "p\nq\nr\ns\na stuck\nb stuck\nc stuck\nd stuck\ne stuck\nf stuck\ng stuck\nh stuck\ni stuck\nz stuck\n";
    until(&mut surveys, Subject::FileSystems, Ok(crowded));
    blocked.block(&["p", "q", "r", "s"]);
    until(&mut surveys, Subject::FileSystems, Err(Errno::TIMEDOUT));
    assert_eq!(survey.lock().threads.stuck(), SURVEYS_STUCK_OF_SUBJECT_END);
    let made = survey.versions[1].load(Ordering::Acquire);
    let begun = Instant::now();
    while survey.versions[1].load(Ordering::Acquire) < made + 20 {
        surveys.look(crate::clock::boot());
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    until(&mut surveys, Subject::FileSystems, Err(Errno::TIMEDOUT));
    blocked.release(&ALL);
    until(&mut surveys, Subject::FileSystems, Ok(&crowded.replace(" stuck", "")));
}

#[test]
fn beyond_the_limit_of_all_stuck_threads_nothing_is_surveyed_until_one_comes_back() {
    // As many subjects as it takes.
    let subjects = [Subject::FileSystems, Subject::Sensors, Subject::Disks, Subject::Clock];
    let blocked = Blocked::of(&ALL);
    let blocker = blocked.clone();
    let surveyor = move |course: &mut Course<'_>| match course.subject() {
        Subject::Clock => Ok(Ok(b"whole\n".to_vec())),
        _ => text_of(course, &ALL, &blocker).map(|text| text.map(|_| b"whole\n".to_vec())),
    };
    let survey = Survey::with(subjects, Box::new(surveyor));
    let mut surveys = surveys(&survey);
    for subject in subjects {
        until(&mut surveys, subject, Err(Errno::TIMEDOUT));
    }
    assert_eq!(survey.lock().threads.stuck(), SURVEYS_STUCK_MAX);
    blocked.release(&ALL);
    for subject in subjects {
        until(&mut surveys, subject, Ok("whole\n"));
    }
}

#[test]
fn who_has_no_gather_thread_waits_and_gives_up_what_is_stuck() {
    let blocked = Blocked::of(&["b"]);
    let survey = survey_of(&["a", "b"], &blocked);
    survey.want(u64::MAX);
    survey.wait_and_give_up(SOON, Nanos::from_secs(60));
    let mut buffer = Vec::new();
    let mut text = |subject| {
        let length = SurveyText::new(&survey, subject).read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!((text(Subject::FileSystems), text(Subject::Clock)), ("a\nb stuck\n".into(), "clock\n".into()));
    blocked.release(&["b"]);
}

#[test]
fn a_text_is_fresh_until_it_is_read_and_nothing_is_surveyed_before_it_is_due() {
    let survey = survey_of(&["a"], &Blocked::default());
    let mut text = SurveyText::new(&survey, Subject::FileSystems);
    assert!(!text.is_fresh());
    assert_eq!(text.read(&mut Vec::new()), Err(Errno::AGAIN));
    survey.want(u64::MAX);
    assert!(survey.wait(PATIENCE));
    let mut other = text.clone();
    let mut buffer = Vec::new();
    assert!(text.is_fresh() && other.is_fresh());
    assert_eq!((text.read(&mut buffer), &buffer[..2]), (Ok(2), &b"a\n"[..]));
    assert!(!text.is_fresh() && other.is_fresh(), "each reader reads for itself");
    assert!(other.read(&mut buffer).is_ok() && !other.is_fresh());
    let period = Nanos::from_secs(10);
    let mut surveys = Surveys::new(
        survey.clone(),
        [SubjectPlan { subject: Subject::FileSystems, period, budget: None }],
        Nanos::SECOND,
    );
    let made = || survey.versions[0].load(Ordering::Acquire);
    (1..11).for_each(|second| surveys.look(Nanos::from_secs(second)));
    assert_eq!((made(), survey.lock().threads.is_busy()), (1, false));
    surveys.look(Nanos::from_secs(11));
    assert!(survey.wait(PATIENCE));
    assert_eq!(made(), 2);
}

#[test]
fn no_subject_is_surveyed_more_often_than_once_a_second() {
    let surveys = Surveys::new(
        survey_of(&[], &Blocked::default()),
        [SubjectPlan { subject: Subject::Clock, period: Nanos(1), budget: None }],
        Nanos(0),
    );
    assert_eq!(surveys.due[0].period, SURVEY_PERIOD_MIN);
}

#[test]
fn the_thread_ends_with_the_gather_thread() {
    let survey = survey_of(&["a"], &Blocked::default());
    let surveys = surveys(&survey);
    survey.want(u64::MAX);
    assert!(survey.wait(PATIENCE));
    drop(surveys);
    let begun = Instant::now();
    // The thread holds one of the two.
    while Arc::strong_count(&survey) > 1 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_costs_more_than_its_budget_is_surveyed_less_often() {
    let survey = survey_of(&[], &Blocked::default());
    let plan = |subject, budget| SubjectPlan { subject, period: Nanos::SECOND, budget };
    let plans = [plan(Subject::FileSystems, None), plan(Subject::Clock, Some(0.5))];
    let mut surveys = Surveys::new(survey.clone(), plans, Nanos(0));
    survey.costs.iter().for_each(|cost| cost.store(Nanos::from_millis(200).0, Ordering::Relaxed));
    surveys.ask(Nanos::SECOND);
    let next: Vec<u64> = surveys.due.iter().map(|due| due.next.0 / Nanos::SECOND.0).collect();
    // 0.2 s of CPU are a hundredth of 20 s; half of a core pays for them each second.
    assert_eq!(next, [21, 2]);
}
