//! Numbers of a job on their way from `khz publish` to readers.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::exposition::{found_at, get_at, promtool_is_content_with};
use crate::process::{Ended, Running, code, err, first_line, khz, out, run, until};
use crate::text::{ask, connect, described_with, text_door};
use crate::watched::signal;

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let message = piped.wait_with_output().unwrap();
    assert_eq!(code(&message), 1);
    let message = err(&message);
    assert!(message.contains("'nonsense' has no value") && message.contains("1 of the lines"), "{message}");
    assert!(got(&place, "job.steps").contains("\"6\""));
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(!place.0.join("publish.sock").exists(), "its file goes with it");
}

#[test]
fn lines_of_a_pipe_travel_together_and_all_of_them_are_taken() {
    let place = Place::new("pipe");
    let _running = Running::start(&["--run-dir", place.dir()]);
    let mut piped = khz(&["publish", "-", "--run-dir", place.dir()]);
    let mut piped = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: String = (1..=3_000).map(|n| format!("steps[{}]={n} kind=counter\n", n % 50)).collect();
    piped.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ended = piped.wait_with_output().unwrap();
    assert_eq!((code(&ended), err(&ended)), (0, String::new()));
    let number = |name: &str| -> u64 {
        let found = got(&place, name);
        let line: serde_json::Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
        line["value"].as_str().unwrap().parse().unwrap()
    };
    let begun = Instant::now();
    while number("khz.publish.values") < 3_000 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!((number("khz.publish.values"), number("khz.publish.dropped")), (3_000, 0));
    assert!(number("khz.publish.datagrams") < 1_500, "lines that wait share one");
    assert!(got(&place, "job.steps[0]").contains("\"3000\""));
}

#[test]
fn a_wrong_line_and_a_missing_agent_are_errors() {
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

#[test]
fn a_job_that_publishes_lines_goes_on_with_the_next_agent() {
    let place = Place::new("next");
    let agent = Running::start(&["--run-dir", place.dir()]);
    let mut command = khz(&["publish", "-", "--run-dir", place.dir()]);
    let mut job = Ended::start(command.stdin(Stdio::piped()));
    let mut lines = job.0.stdin.take().unwrap();
    let is_at_an_agent =
        |value: &str| out(&run(&["get", "job.phase", "--json", "--run-dir", place.dir()])).contains(value);
    writeln!(lines, "phase=1").unwrap();
    until(PATIENCE, "the first line is there", || is_at_an_agent("\"1\""));
    agent.end("TERM");
    writeln!(lines, "phase=2").unwrap();
    let told = first_line(job.0.stderr.as_mut().unwrap());
    assert!(told.contains("cannot publish at") && told.contains("waits until it is back"), "{told}");
    let _next = Running::start(&["--run-dir", place.dir()]);
    until(PATIENCE, "the second line is there", || is_at_an_agent("\"2\""));
    drop(lines);
    assert_eq!(job.end().0, 0);
}

#[test]
fn a_job_goes_on_while_its_agent_stands_still_and_hears_how_many_lines_were_left_out() {
    const LINES: u64 = 40_000;
    let place = Place::new("still");
    let agent = Running::start(&["--run-dir", place.dir()]);
    let mut command = khz(&["publish", "-", "--run-dir", place.dir()]);
    let mut job = Ended::start(command.stdin(Stdio::piped()));
    let mut lines = job.0.stdin.take().unwrap();
    signal(&agent.child, "STOP");
    // More than the socket, the pipe and the lines that wait can hold: a job that had to wait would wait here for ever.
    for phase in 1..=LINES {
        writeln!(lines, "phase={phase}").unwrap();
    }
    let told = first_line(job.0.stderr.as_mut().unwrap());
    assert!(told.contains("its khz stands still; khz waits until it goes on"), "{told}");
    signal(&agent.child, "CONT");
    drop(lines);
    let (code, _, err) = job.end();
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("numbers are taken again") && err.contains("lines were left out"), "{err}");
    let newest = format!("\"{LINES}\"");
    let is_there = || out(&run(&["get", "job.phase", "--json", "--run-dir", place.dir()])).contains(&newest);
    until(PATIENCE, "the newest line is there", is_there);
}

/// Values and labels as jobs publish them, and as `/metrics` shows them.
const TYPED: [(&str, &str); 6] = [
    ("queue[worker 3,rank=1,gpu=0]=-17", "khz_job_queue{part=\"worker 3\",gpu=\"0\",rank=\"1\"} -17"),
    ("queue[rank=2]=5", "khz_job_queue{rank=\"2\"} 5"),
    ("drift=-0.25 unit=seconds", "khz_job_drift_seconds -0.25"),
    ("loss=2.5e-7 type=float", "khz_job_loss 2.5e-7"),
    ("score=NaN type=float", "khz_job_score NaN"),
    ("steps=18446744073709551615 kind=counter", "khz_job_steps_total 18446744073709551615"),
];

#[test]
fn published_values_below_zero_doubles_and_labels_look_alike_at_every_door() {
    let place = Place::new("typed");
    let mut running = Running::start(&["--run-dir", place.dir(), "--text-listen", "127.0.0.1:0"]);
    let address = text_door(&mut running);
    let lines = TYPED.map(|(line, _)| line);
    let published = run(&[&["publish", "--run-dir", place.dir()], &lines[..]].concat());
    assert_eq!((code(&published), err(&published)), (0, String::new()));
    let text = get_at(&running, "/metrics");
    for (_, shown) in TYPED {
        assert!(text.lines().any(|line| line == shown), "{shown}: {text}");
    }
    promtool_is_content_with(&text);

    let found = got(&place, "job.*");
    for value in ["-17", "-0.25", "2.5e-7", "NaN", "18446744073709551615"] {
        assert!(found.contains(&format!("\"{value}\"")), "{value}: {found}");
    }
    let labelled = get_at(&running, "/khz/v1/query?match=job.queue%5B*,rank=1%5D");
    assert!(labelled.contains("\"-17\"") && !labelled.contains("\"5\""), "{labelled}");

    let mut socket = connect(&address);
    described_with(&mut socket, "jobdrift");
    // A node that answers too late is left out of the answer, as on a busy machine.
    let begin = Instant::now();
    let mut status = ask(&mut socket, "0\nS");
    while status == "\n" && begin.elapsed() < PATIENCE {
        status = ask(&mut socket, "0\nS");
    }
    assert!(status.contains("n 1 jobdrift -0.25\n") && status.contains("n 1 jobloss 2.5e-7\n"), "{status}");
}

#[test]
fn published_types_and_labels_reach_the_readers_of_a_hub() {
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let agent =
        Running::of(hub.beside(&["agent", "--node", "lbp12", "--hub", &link, "--listen", "127.0.0.1:0"]));
    let lines = TYPED.map(|(line, _)| line);
    let published = agent.beside(&[&["publish"], &lines[..]].concat()).output().unwrap();
    assert_eq!((code(&published), err(&published)), (0, String::new()));
    until(Duration::from_secs(60), "the hub hears what the job published", || {
        found_at(&hub, "/khz/v1/query?match=*:job.steps")
            .is_some_and(|text| text.contains("\"18446744073709551615\""))
    });
    let text = get_at(&hub, "/metrics?node=lbp12");
    for (_, shown) in TYPED {
        assert!(text.lines().any(|line| line == shown), "{shown}: {text}");
    }
    let nodes = get_at(&hub, "/metrics?nodes=lbp12");
    let identified = "khz_job_queue{instance=\"lbp12\",job=\"node\",rank=\"2\"} 5";
    assert!(nodes.lines().any(|line| line == identified), "{nodes}");
    [text, nodes].iter().for_each(|text| promtool_is_content_with(text));
    let labelled = get_at(&hub, "/khz/v1/query?match=*:job.queue%5B*,rank=1%5D");
    assert!(labelled.contains("\"-17\"") && !labelled.contains("\"5\""), "{labelled}");
}

#[test]
fn what_an_agent_refuses_is_counted_by_its_reason() {
    let place = Place::new("refused");
    let running = Running::start(&["--run-dir", place.dir()]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = |seconds: i64| (now as i64 + seconds).to_string();
    let publish = |value: &str, time: &str| {
        let published = run(&["publish", value, "--time", time, "--run-dir", place.dir()]);
        assert_eq!((code(&published), err(&published)), (0, String::new()));
    };
    publish("level=2", &at(-1));
    publish("level=1", &at(-2));
    assert!(got(&place, "job.level").contains("\"2\""), "the later one stays");
    // `khz publish` would not send these: a program of its own does.
    let socket = UnixDatagram::unbound().unwrap();
    let lines = format!(
        "level=1 kind=counter\nlevel=NaN\nlevel=1 colour=red\na.b=1\na_b=2\nlevel=1 time={}\nlevel=1 time={}",
        at(-1_000),
        at(1_000)
    );
    socket.send_to(lines.as_bytes(), place.0.join("publish.sock")).unwrap();
    for reason in ["overtaken", "mismatched", "collided", "unfit", "bad_lines", "too_old", "too_new"] {
        until(Duration::from_secs(60), reason, || {
            got(&place, &format!("khz.publish.{reason}")).contains("\"1\"")
        });
    }
    let future = run(&["publish", "level=1", "--time", &at(3_600), "--run-dir", place.dir()]);
    assert_eq!(code(&future), 2);
    assert!(err(&future).contains("ahead of this node's clock"), "{}", err(&future));
    assert!(got(&place, "job.level").contains("\"2\""));
    let (_, log) = running.end("TERM");
    let reason =
        "job.a_b would be khz_job_a_b at Prometheus, and so is job.a.b, which came first: rename one of them";
    assert!(log.contains(reason), "{log}");
}

#[test]
fn two_names_that_are_one_at_prometheus_are_not_published_together() {
    let place = Place::new("two");
    let _running = Running::start(&["--run-dir", place.dir()]);
    let both = run(&["publish", "queue.length=1", "queue_length=2", "--run-dir", place.dir()]);
    assert_eq!(code(&both), 2);
    assert!(err(&both).contains("so is job.queue.length, which came first"), "{}", err(&both));
    let mut publish = khz(&["publish", "-", "--run-dir", place.dir()]);
    let mut publish =
        publish.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    publish.stdin.take().unwrap().write_all(b"a.b=1 unit=seconds\na.b=2\na_b_seconds=3\n").unwrap();
    let lines = publish.wait_with_output().unwrap();
    assert_eq!(code(&lines), 1);
    assert!(err(&lines).contains("job.a_b_seconds would be khz_job_a_b_seconds"), "{}", err(&lines));
    until(Duration::from_secs(60), "the others are published", || got(&place, "job.*").contains("\"2\""));
}
