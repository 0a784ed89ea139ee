//! Surveys with made-up steps that block until the test lets them go: what is stuck is left out, and everything else goes on.

use std::collections::BTreeSet;
use std::time::Instant;

use super::*;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a step may take in these tests. A busy machine may hold a thread up for longer; then it comes back.
const SOON: Nanos = Nanos::from_millis(50);

/// The items that block, until they are taken out.
#[derive(Clone, Default)]
struct Blocked(Arc<(Mutex<BTreeSet<&'static str>>, Condvar)>);

impl Blocked {
    fn of(items: &[&'static str]) -> Self {
        let blocked = Blocked::default();
        blocked.0.0.lock().unwrap().extend(items);
        blocked
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

/// A survey whose text has a line for each item, `a` or, where another thread is stuck, `a stuck`.
fn survey_of(items: &'static [&'static str], blocked: &Blocked) -> Arc<Survey> {
    let blocked = blocked.clone();
    let surveyor = move |course: &mut Course<'_>| {
        if course.subject() == Subject::Clock {
            return Ok(Ok(b"clock\n".to_vec()));
        }
        let mut text = String::new();
        for item in items {
            if course.begin(item.as_bytes())? {
                blocked.wait_for(item);
                text += &format!("{item}\n");
            } else {
                text += &format!("{item} stuck\n");
            }
        }
        Ok(Ok(text.into_bytes()))
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

/// One more than may be stuck at one subject.
const TOO_MANY: [&str; SURVEYS_STUCK_OF_SUBJECT_MAX + 1] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

#[test]
fn beyond_the_limit_of_one_subject_only_this_one_is_not_surveyed_until_one_comes_back() {
    let blocked = Blocked::of(&TOO_MANY);
    let survey = survey_of(&TOO_MANY, &blocked);
    let mut surveys = surveys(&survey);
    until(&mut surveys, Subject::FileSystems, Err(Errno::TIMEDOUT));
    let made = survey.versions[1].load(Ordering::Acquire);
    until(&mut surveys, Subject::Clock, Ok("clock\n"));
    // The others are surveyed as often as before.
    let begun = Instant::now();
    while survey.versions[1].load(Ordering::Acquire) < made + 20 {
        surveys.look(crate::clock::boot());
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(survey.lock().stuck.len(), SURVEYS_STUCK_OF_SUBJECT_MAX);
    until(&mut surveys, Subject::FileSystems, Err(Errno::TIMEDOUT));
    blocked.release(&["a", "i"]);
    let stuck = "a\nb stuck\nc stuck\nd stuck\ne stuck\nf stuck\ng stuck\nh stuck\ni\n";
    until(&mut surveys, Subject::FileSystems, Ok(stuck));
    until(&mut surveys, Subject::Clock, Ok("clock\n"));
    blocked.release(&TOO_MANY);
    until(&mut surveys, Subject::FileSystems, Ok(&stuck.replace(" stuck", "")));
}

#[test]
fn beyond_the_limit_of_all_stuck_threads_nothing_is_surveyed_until_one_comes_back() {
    let blocked = Blocked::of(&TOO_MANY);
    let blocker = blocked.clone();
    let subjects = [Subject::FileSystems, Subject::Sensors, Subject::Clock];
    let surveyor = move |course: &mut Course<'_>| {
        for item in TOO_MANY.iter().filter(|_| course.subject() != Subject::Clock).collect::<Vec<_>>() {
            if course.begin(item.as_bytes())? {
                blocker.wait_for(item);
            }
        }
        Ok(Ok(b"whole\n".to_vec()))
    };
    let survey = Survey::with(subjects, Box::new(surveyor));
    let mut surveys = surveys(&survey);
    for subject in subjects {
        until(&mut surveys, subject, Err(Errno::TIMEDOUT));
    }
    assert_eq!(survey.lock().stuck.len(), SURVEYS_STUCK_MAX);
    assert!(!survey.lock().has_worker);
    blocked.release(&TOO_MANY);
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
    assert_eq!((made(), survey.lock().wanted), (1, 0));
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
