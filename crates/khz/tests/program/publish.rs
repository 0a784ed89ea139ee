//! Numbers of a job on their way from `khz publish` to those who ask.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use crate::process::{Running, code, err, khz, out, run};

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("publish-{name}-{}", std::process::id());
        Place(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn dir(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is asked for, as properties.
fn got(place: &Place, pattern: &str) -> String {
    let output = run(&["get", pattern, "--json", "--run-dir", place.dir()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output)
}

#[test]
fn what_a_job_publishes_is_asked_for_like_anything_else() {
    let place = Place::new("got");
    let running = Running::start(&["--run-dir", place.dir()]);
    let words = [
        "publish",
        "queue[w 1]=17",
        "--unit",
        "bytes",
        "--help-text",
        "What waits",
        "--run-dir",
        place.dir(),
    ];
    let published = run(&words);
    assert_eq!((code(&published), err(&published)), (0, String::new()));
    let found = got(&place, "job.*");
    assert!(found.contains("job.queue") && found.contains("\"17\"") && found.contains("bytes"), "{found}");
    let more = ["publish", "queue[w 1]=18", "latency=0.0125", "--run-dir", place.dir()];
    assert_eq!(code(&run(&more)), 0);
    assert!(got(&place, "job.latency").contains("\"0.0125\""));
    assert!(got(&place, "job.queue").contains("\"18\""));
    assert!(got(&place, "khz.publish.values").contains("\"3\""));
    let at = &["--run-dir", place.dir()];
    let listed = |words: &[&str]| out(&run(&[&["catalog"], words, at].concat()));
    let (found, all) = (listed(&["job.*"]), listed(&[]));
    assert!(found.contains("job.queue[") && found.contains("What waits"), "{found}");
    assert!(all.contains("mem.free") && all.contains("job.latency"), "{all}");
    let asked = out(&run(&["catalog", "job.queue", "--json", "--server", &running.url]));
    assert_eq!(asked, listed(&["job.queue", "--json"]), "the same khz, by its address");
    assert!(asked.contains(r#""unit":"bytes""#) && asked.contains(r#""rate_unit":null"#), "{asked}");
    let direct = run(&["catalog", "job.*", "--direct"]);
    assert_eq!(code(&direct), 1, "this program by itself knows of no job");
    let nobody = run(&["catalog", "--server", "http://127.0.0.1:1"]);
    assert_eq!(code(&nobody), 1, "{}", err(&nobody));

    let mut piped = khz(&["publish", "-", "--run-dir", place.dir()]);
    let mut piped = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"steps=5 kind=counter\n\nnonsense\nsteps=6\n").unwrap();
    let said = piped.wait_with_output().unwrap();
    assert_eq!(code(&said), 1);
    let said = err(&said);
    assert!(said.contains("'nonsense' has no value") && said.contains("1 of the lines"), "{said}");
    assert!(got(&place, "job.steps").contains("\"6\""));
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(!place.0.join("publish.sock").exists(), "its file goes with it");
}

#[test]
fn who_publishes_wrongly_or_to_nobody_is_told() {
    let place = Place::new("nobody");
    let nobody = run(&["publish", "a=1", "--run-dir", place.dir()]);
    assert_eq!(code(&nobody), 1);
    assert!(err(&nobody).contains("no khz takes numbers on this machine"), "{}", err(&nobody));
    let _running = Running::start(&["--run-dir", place.dir()]);
    for (value, problem) in [
        ("a=-1 kind=counter", "leave out kind=counter"),
        ("a=1e3", "type=float"),
        ("a=9223372036854775808", "63 bits"),
        ("A=1", "column"),
        ("a", "NAME=VALUE"),
        ("a[worker,3]=1", "write a[worker%2C3]=..."),
        ("a[b,job=1]=1", "such as my_job"),
        ("a=1 time=1000000000", "s ago"),
        ("a=1 time=9000000000000", "not milliseconds"),
    ] {
        let wrong = run(&["publish", value, "--run-dir", place.dir()]);
        assert_eq!(code(&wrong), 2, "{value}");
        assert!(err(&wrong).contains(problem), "{}", err(&wrong));
    }
    let period = run(&["publish", "a=1", "--every", "soon", "--run-dir", place.dir()]);
    assert_eq!(code(&period), 2, "{}", err(&period));
}
