//! What a list of jobs has acknowledged is there after a restart, whatever happened to the process and to its files.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use khz_job::{End, Job, Jobs, Start, Viewer, Wanted};
use proptest::prelude::*;

fn place() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let place = std::env::temp_dir().join(format!("khz-jobs-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    place
}

fn all(jobs: &Jobs) -> Vec<Job> {
    jobs.find(&Wanted::default(), &Viewer::All)
}

fn start(id: &str, nodes: &str, add: bool) -> Start {
    Start { id: id.into(), nodes: nodes.into(), add, ..Start::default() }
}

/// What somebody does.
#[derive(Clone, Debug)]
enum Step {
    Start(u8, u8, bool),
    End(u8),
    /// The process is killed while it writes this many bytes of a line.
    Kill(u8),
    /// Somebody removes the directory.
    Remove,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..6, 1u8..5, any::<bool>()).prop_map(|(id, nodes, add)| Step::Start(id, nodes, add)),
        4 => (0u8..6).prop_map(Step::End),
        2 => any::<u8>().prop_map(Step::Kill),
        1 => Just(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_that_was_acknowledged_is_lost(steps in proptest::collection::vec(step(), 1..40)) {
        let place = place();
        let mut jobs = Jobs::open(&place).unwrap();
        for (now, step) in (1_000i64..).step_by(7).zip(steps) {
            match step {
                Step::Start(id, nodes, add) => {
                    let start = start(&id.to_string(), &format!("n[1-{nodes}]"), add);
                    let told = jobs.start(start, now).unwrap();
                    prop_assert_eq!(jobs.last(&told.id), Some(told));
                }
                Step::End(id) => {
                    let id = id.to_string();
                    let is_known = jobs.last(&id).is_some();
                    let end = End { id, outcome: Some("exit 0".into()), end_ms: None };
                    prop_assert_eq!(jobs.end(end, now).is_ok(), is_known);
                }
                Step::Kill(bytes) => {
                    let before = all(&jobs);
                    drop(jobs);
                    let line = br#"{"run":900,"id":"half","nodes":"n1","begin":5,"source":"told"}"#;
                    let half = &line[..usize::from(bytes) % line.len()];
                    let path = place.join("jobs.jsonl");
                    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(half).unwrap();
                    jobs = Jobs::open(&place).unwrap();
                    prop_assert_eq!(all(&jobs), before);
                }
                Step::Remove => {
                    std::fs::remove_dir_all(&place).unwrap();
                    // The next change is written with all others.
                    jobs.start(start("next", "n1", false), now).unwrap();
                }
            }
        }
        let before = all(&jobs);
        drop(jobs);
        prop_assert_eq!(all(&Jobs::open(&place).unwrap()), before);
        let _ = std::fs::remove_dir_all(&place);
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_changes_nothing() {
    let place = place();
    let jobs = Jobs::open(&place).unwrap();
    jobs.start(start("1", "n1", false), 1).unwrap();
    let before = all(&jobs);
    // The log is gone, and there is no room for another one: a directory in the way, which also root cannot write.
    std::fs::remove_file(place.join("jobs.jsonl")).unwrap();
    std::fs::create_dir(place.join("jobs.jsonl.new")).unwrap();
    for (id, nodes) in [("1", "n2"), ("2", "n1")] {
        let error = jobs.start(start(id, nodes, false), 2).unwrap_err().to_string();
        assert!(error.contains("nothing is changed"), "{error}");
    }
    assert!(jobs.end(End { id: "1".into(), ..End::default() }, 3).is_err());
    assert_eq!(all(&jobs), before);
    std::fs::remove_dir(place.join("jobs.jsonl.new")).unwrap();
    jobs.end(End { id: "1".into(), ..End::default() }, 4).unwrap();
    drop(jobs);
    assert_eq!(Jobs::open(&place).unwrap().last("1").unwrap().end, Some(4));
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn many_who_tell_at_once_are_all_heard() {
    let place = place();
    let jobs = Jobs::open(&place).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let jobs = Arc::clone(&jobs);
            scope.spawn(move || {
                for number in 0..200 {
                    let id = format!("{thread}_{number}");
                    jobs.start(Start { name: "x".repeat(100), ..start(&id, "n[1-64]", false) }, 1).unwrap();
                    jobs.end(End { id, ..End::default() }, 2).unwrap();
                }
            });
        }
    });
    let before = all(&jobs);
    assert_eq!((before.len(), before.iter().filter(|job| job.is_running()).count()), (3_200, 0));
    let before = all(&jobs);
    drop(jobs);
    assert_eq!(all(&Jobs::open(&place).unwrap()), before);
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn another_process_with_the_same_directory_is_refused() {
    let place = place();
    let _jobs = Jobs::open(&place).unwrap();
    let error = Jobs::open(&place).unwrap_err().to_string();
    assert!(error.contains("another khz"), "{error}");
    std::fs::remove_dir_all(&place).unwrap();
}
