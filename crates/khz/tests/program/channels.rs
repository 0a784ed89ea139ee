//! `khz wait` and `khz channel`, against a hub with agents and against `khz` alone: what becomes true, what survives a hub, who may
//! do what.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::exposition::get_at;
use crate::process::{Ended, Running, code, err, khz, out, run, until};
use crate::text::free_port;
use crate::watched::signal;

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of one test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("channels-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a hub that may be killed: each time at the same ports, with the same state.
fn hub_in(place: &Place) -> impl Fn() -> Running {
    let (http, link) = (free_port(), free_port());
    let (state, run_dir) = (place.path("state"), place.path("run"));
    move || {
        let words =
            ["hub", "--listen", &http, "--link-listen", &link, "--state-dir", &state, "--node", "hub"];
        let mut command = khz(&words);
        command.env("KHZ_RUN_DIR", &run_dir);
        Running::of(command)
    }
}

/// An agent of this hub.
pub fn agent(hub: &Running, node: &str, more: &[&str]) -> Ended {
    let link = hub.link();
    let words = ["agent", "--node", node, "--hub", &link, "--ring", "4MiB"];
    let agent = Ended::start(&mut hub.beside(&[&words, more].concat()));
    until(PATIENCE, "the agent is up", || {
        let nodes = khz(&["nodes", node, "--json", "--server", &hub.url]).output().unwrap();
        out(&nodes).contains("\"state\":\"up\"")
    });
    agent
}

/// Publishes a number at the agent of this hub.
fn publish(hub: &Running, value: &str) {
    let done = hub.beside(&["publish", value]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
}

/// `khz` with these words, asking this one.
pub fn ask(khz: &Running, words: &[&str]) -> std::process::Output {
    run(&[words, &["--server", &khz.url]].concat())
}

#[test]
fn a_channel_that_waits_for_memory_comes_when_another_ends_and_the_node_gathers_on_meanwhile() {
    let hub = Running::start_hub(&[]);
    let _agent = agent(&hub, "n1", &[]);
    // Windows of five minutes at 100 Hz: a node has memory for five such channels of readers.
    let names = ["q1", "q2", "q3", "q4", "q5", "q6"];
    for name in names {
        let words = ["channel", "create", name, "mem.free", "mem.cached", "mem.available"];
        let more = ["--each", "quantile 0.5 5m", "--rate", "100Hz", "--exact", "--every", "1s"];
        let done = ask(&hub, &[&words[..], &more].concat());
        assert_eq!(code(&done), 0, "{}", err(&done));
    }
    let shown = |name: &str| -> Value {
        serde_json::from_str(&out(&ask(&hub, &["channel", "show", name, "--json"]))).unwrap()
    };
    let watch = |name: &str| Ended::start_silent(&mut khz(&["channel", "watch", name, "--server", &hub.url]));
    let mut watchers: Vec<Ended> = Vec::new();
    for name in &names[..5] {
        watchers.push(watch(name));
        until(PATIENCE, "it is executed", || shown(name)["cost"]["nodes"] == 1);
    }
    let _last = watch("q6");
    let is_refused = || shown("q6")["notices"].to_string().contains("tries again when others have ended");
    until(PATIENCE, "there is no memory left", is_refused);
    drop(watchers.remove(0));
    until(PATIENCE, "it has memory now", || shown("q6")["cost"]["nodes"] == 1);
    until(PATIENCE, "its rows come", || shown("q6")["rows"].as_u64() > Some(0));
    let nodes: Value = serde_json::from_str(&out(&ask(&hub, &["nodes", "n1", "--json"]))).unwrap();
    assert_eq!(nodes["connects"], 1, "it was never silent: {nodes}");
}

#[test]
fn a_wait_ends_when_a_program_publishes_what_it_waits_for() {
    let hub = Running::start_hub(&[]);
    let _agent = agent(&hub, "n1", &[]);
    let words =
        ["wait", "n1:job.phase >= 3 and load.1m >= 0", "--rate", "10Hz", "--json", "--server", &hub.url];
    let mut wait = Ended::start(&mut khz(&words));
    let mut said = BufReader::new(wait.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let hint = "no metric is called job.phase so far";
    assert!(said.any(|line| line.contains(hint)), "it says that nobody has published it yet");
    publish(&hub, "phase=2");
    publish(&hub, "phase=4");
    let mut out = String::new();
    wait.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(wait.0.wait().unwrap().code(), Some(0), "{:?}", said.collect::<Vec<_>>());
    let row: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(row["node"], "n1", "{out}");
    // The value of each part.
    let (phase, load) = ("channel.adhoc[metric=job.phase]", "channel.adhoc[metric=load.1m]");
    assert_eq!((&row["values"][phase], row["values"][load].is_string()), (&"4".into(), true), "{out}");
    assert_eq!(
        (&row["metrics"][phase], &row["metrics"][load]),
        (&"job.phase".into(), &"load.1m".into()),
        "{out}"
    );
}

#[test]
fn a_wait_that_does_not_come_true_in_time_has_the_exit_code_1_and_a_wrong_one_2() {
    let hub = Running::start_hub(&[]);
    let _agent = agent(&hub, "n1", &[]);
    let alone = Running::start(&[]);
    for (more, place) in [
        (&["--server", &hub.url][..], "a hub"),
        (&["--server", &alone.url], "khz alone"),
        (&["--direct"], "this machine's kernel"),
    ] {
        let wait = |words: &[&str]| run(&[&["wait"], words, more].concat());
        let now = wait(&["mem.available > 1KiB", "--timeout", "60s"]);
        assert_eq!(code(&now), 0, "{place}: {}", err(&now));
        assert!(out(&now).contains("mem.available is ") && out(&now).contains("iB"), "{}", out(&now));
        let both = wait(&["mem.available > 1KiB and load.1m >= 0", "--timeout", "60s"]);
        assert!(out(&both).contains(": mem.available is "), "{place}: {}", out(&both));
        assert!(out(&both).contains("iB, load.1m is "), "{place}: {}", out(&both));
        let rated = wait(&["mem.available > 1KiB and kernel.context_switches > 0/s", "--timeout", "60s"]);
        assert!(out(&rated).contains("iB, kernel.context_switches is "), "{place}: {}", out(&rated));
        assert!(out(&rated).trim_end().ends_with("/s"), "{place}: {}", out(&rated));
        let language =
            wait(&["--expr", "max(node_load1) >= 0", "--for", "1s", "--rate", "5Hz", "--timeout", "60s"]);
        assert_eq!(code(&language), 0, "{place}: {}", err(&language));
        let never = wait(&["mem.available < 1B", "--timeout", "1s"]);
        assert_eq!(code(&never), 1, "{place}");
        assert!(err(&never).contains("it did not come true within 1s"), "{}", err(&never));
        for wrong in
            ["mem.available", "mem.available < 1s", "load.1m > 5/s", "a:load.1m > 1 and b:load.1m > 1"]
        {
            assert_eq!(code(&wait(&[wrong])), 2, "{place}: {wrong}");
        }
        assert_eq!(code(&wait(&["--expr", "rate(node_load1[1h]) > 0"])), 2, "{place}");
        assert_eq!(code(&wait(&["load.1m >= 0", "--rate", "20kHz"])), 2, "{place}");
        let elsewhere = wait(&["load.1m >= 0", "--on", "n9"]);
        assert_eq!(code(&elsewhere), 2, "{place}");
        assert!(err(&elsewhere).contains("'n9:load.1m >= 0'"), "{}", err(&elsewhere));
    }
    // Of a node that does not exist, nobody knows when it comes.
    for khz in [&hub, &alone] {
        for strange in [&["n9:load.1m >= 0"][..], &["--expr", "node_load1 >= 0", "--on", "n9"]] {
            let strange = ask(khz, &[&["wait", "--timeout", "1s"], strange].concat());
            assert_eq!((code(&strange), out(&strange).as_str()), (1, ""), "{}", err(&strange));
            assert!(err(&strange).contains("no node is called n9"), "{}", err(&strange));
            assert!(err(&strange).contains("it did not come true within 1s"), "{}", err(&strange));
        }
        for fields in [&["--expr", "node_load1"][..], &["load.1m", "--each", "mean 1s"]] {
            let create = [&["channel", "set", "far", "--nodes", "n9", "--rate", "10Hz"], fields].concat();
            let first = [&["channel", "create", "far", "--nodes", "n9", "--rate", "10Hz"], fields].concat();
            if code(&ask(khz, &first)) != 0 {
                assert_eq!(code(&ask(khz, &create)), 0);
            }
            let watched = ask(khz, &["channel", "watch", "far", "--for", "1s"]);
            assert_eq!(out(&watched), "", "{}", err(&watched));
            assert!(err(&watched).contains("no node is called n9"), "{}", err(&watched));
        }
    }
    // Nor of an instance.
    let strange = ask(&hub, &["wait", "n1:net.rx_bytes[nosuch0] > 1", "--timeout", "1s"]);
    assert_eq!(code(&strange), 1);
    assert!(err(&strange).contains("nothing matches n1:net.rx_bytes[nosuch0]"), "{}", err(&strange));
    let elsewhere = ["channel", "create", "there", "load.1m", "--every", "1s", "--nodes", "n9"];
    let defined = ask(&hub, &elsewhere);
    assert_eq!(code(&defined), 0);
    assert!(err(&defined).contains("no node is called n9"), "{}", err(&defined));
}

#[test]
fn a_node_that_takes_no_handlers_says_so_and_nobody_waits_for_it() {
    let hub = Running::start_hub(&[]);
    let _stubborn = agent(&hub, "n1", &["--handlers", "none"]);
    let _willing = agent(&hub, "n2", &[]);
    let alone = ask(&hub, &["wait", "n1:load.1m >= 0", "--timeout", "60s"]);
    assert_eq!(code(&alone), 1, "{}", err(&alone));
    assert!(err(&alone).contains("this node takes no handlers"), "{}", err(&alone));
    assert!(err(&alone).contains("none of these nodes can judge"), "{}", err(&alone));
    let both = ask(&hub, &["wait", "n[1-2]:load.1m >= 0", "--timeout", "60s"]);
    assert_eq!(code(&both), 0, "{}", err(&both));
    assert!(out(&both).starts_with("n2 at "), "{}", out(&both));
    assert_eq!(code(&ask(&hub, &["channel", "create", "all", "load.1m", "--every", "1s"])), 0);
    let watching = Ended::start_silent(&mut khz(&["channel", "watch", "all", "--server", &hub.url]));
    let shown = || out(&ask(&hub, &["channel", "show", "all"]));
    until(PATIENCE, "a notice of one node, and rows of the other", || {
        let shown = shown();
        let is_said = shown.contains("notice    n1: ") && shown.contains("handlers = \"none\"");
        is_said && !shown.contains("sent      0 rows")
    });
    drop(watching);
    until(PATIENCE, "the reader's end", || shown().contains("readers   0"));
    let shown = shown();
    assert!(!shown.contains("notice") && !shown.contains("sent      0 rows"), "{shown}");
}

#[test]
fn a_khz_alone_that_takes_no_handlers_cannot_judge_either() {
    let alone = Running::start(&["--handlers", "none"]);
    let wait = ask(&alone, &["wait", "load.1m >= 0", "--timeout", "60s"]);
    assert_eq!(code(&wait), 1, "{}", err(&wait));
    assert!(err(&wait).contains("this node takes no handlers"), "{}", err(&wait));
}

#[test]
fn a_watcher_leaves_a_khz_that_stands_still_for_the_next_address_and_else_says_that_rows_may_be_missing() {
    let start = |node| Running::of(khz(&["--listen", "127.0.0.1:0", "--node", node]));
    let (first, second) = (start("a"), start("b"));
    let both = format!("{},{}", first.url, second.url);
    let words = ["watch", "load.1m", "--rate", "10Hz", "--json"];
    let mut moving = Ended::start(&mut khz(&[&words[..], &["--server", &both]].concat()));
    let mut lines = BufReader::new(moving.0.stdout.take().unwrap()).lines();
    let mut until_from = |node: &str| {
        let from = format!("\"node\":\"{node}\"");
        lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains(&from)).is_some()
    };
    let mut staying =
        Ended::start(&mut khz(&[&words[..], &["--for", "15s", "--server", &first.url]].concat()));
    let mut rows = BufReader::new(staying.0.stdout.take().unwrap()).lines();
    assert!(until_from("a") && rows.next().is_some());
    signal(&first.child, "STOP");
    assert!(until_from("b"), "the second one is asked");
    assert!(rows.any(|line| line.unwrap().contains("\"state\":\"silent\"")));
    let mut told = String::new();
    staying.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(staying.0.wait().unwrap().code(), Some(3), "{told}");
    assert!(told.contains("whether rows are missing is unknown"), "{told}");
    signal(&first.child, "CONT");
}

#[test]
fn channels_survive_a_hub_that_is_killed_and_a_wait_goes_on_with_the_next_one() {
    let place = Place::new("restart");
    let start = hub_in(&place);
    let mut hub = start();
    let _agent = agent(&hub, "n1", &[]);
    let create = ["channel", "create", "hot", "--expr", "node_load1 >= 0", "--rate", "10Hz"];
    assert_eq!(code(&ask(&hub, &create)), 0);
    assert_eq!(code(&ask(&hub, &["channel", "create", "cold", "load.1m"])), 0);
    assert_eq!(code(&ask(&hub, &["channel", "rm", "cold"])), 0);
    let before = out(&ask(&hub, &["channel", "show", "hot", "--json"]));
    let wait = Ended::start(&mut khz(&["wait", "n1:job.done == 1", "--server", &hub.url]));
    until(PATIENCE, "the wait has its stream", || {
        get_at(&hub, "/metrics").lines().any(|line| line == "khz_http_streams_open 1")
    });
    // The stream is counted before its answer begins. A request after that has its turn later.
    get_at(&hub, "/metrics");
    hub.child.kill().unwrap();
    hub.child.wait().unwrap();
    let hub = start();
    assert_eq!(out(&ask(&hub, &["channel", "show", "hot", "--json"])), before);
    let watched = ask(&hub, &["channel", "watch", "hot", "--count", "5", "--json"]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    // Its node may come back while it is watched: that is an event, and none of its rows.
    let printed = out(&watched);
    let rows: Vec<&str> = printed.lines().filter(|line| !line.starts_with("{\"event\"")).collect();
    assert_eq!((rows.len(), rows.iter().all(|row| row.contains("channel.hot"))), (5, true), "{printed}");
    let list = out(&ask(&hub, &["channel", "list"]));
    assert!(list.contains("hot") && !list.contains("cold"), "{list}");
    publish(&hub, "done=1");
    let (code, out, err) = wait.end();
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("job.done is 1"), "{out}");
    assert!(err.contains("asks again until it is back"), "{err}");
}

/// Time of a row, in nanoseconds.
fn nanos(row: &Value) -> u64 {
    row["time"].as_str().unwrap().replace('.', "").parse().unwrap()
}

/// Follows rows of 10 Hz while the hub is killed and started again. The rows go on, and what is missing is counted.
fn survives_a_hub(name: &str, words: &[&str]) {
    let place = Place::new(name);
    let start = hub_in(&place);
    let mut hub = start();
    let _agent = agent(&hub, "n1", &[]);
    assert_eq!(code(&ask(&hub, &["channel", "create", "loads", "load.1m", "--rate", "10Hz"])), 0);
    let more = ["--json", "--count", "60", "--server", &hub.url];
    let mut watch = Ended::start(&mut khz(&[words, &more[..]].concat()));
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut next = || lines.next().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let before: Vec<Value> = (0..10).filter_map(|_| next()).collect();
    hub.child.kill().unwrap();
    hub.child.wait().unwrap();
    // So long it is away.
    std::thread::sleep(Duration::from_secs(1));
    let _hub = start();
    let rest: Vec<Value> = std::iter::from_fn(next).collect();
    let mut err = String::new();
    watch.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(watch.0.wait().unwrap().code(), Some(3), "{err}");
    assert!(
        err.contains("khz asks again until it is back") && err.contains("the rows come again after"),
        "{err}"
    );
    let (events, after): (Vec<_>, Vec<_>) = rest.iter().partition(|line| line["event"].is_string());
    let outage =
        events.iter().find(|line| line["event"] == "outage").unwrap_or_else(|| panic!("{events:?} {err}"));
    let missing = outage["missing"].as_u64().unwrap();
    assert_eq!((missing > 0, &outage["unknown"]), (true, &serde_json::json!([])), "{outage} {err}");
    assert_eq!(after.last().unwrap()["lost"].as_u64(), Some(missing), "rows say it, too");
    // A row is missing for each tick between the last row before and the first one after, but for ticks that a busy node has missed.
    let rows: Vec<&Value> = before.iter().chain(after).collect();
    let ticks = (nanos(rows[rows.len() - 1]) - nanos(rows[0]) + 50_000_000) / 100_000_000;
    let counted = rows.len() as u64 - 1 + missing;
    assert!(counted <= ticks && ticks - counted <= ticks / 4, "{ticks} ticks, {counted}: {err}");
}

#[test]
fn a_watched_channel_goes_on_after_its_hub_was_killed_and_counts_what_is_missing() {
    survives_a_hub("watched-channel", &["channel", "watch", "loads"]);
}

#[test]
fn watched_series_go_on_after_their_hub_was_killed_and_count_what_is_missing() {
    survives_a_hub("watched-series", &["watch", "n1:load.1m", "--rate", "10Hz", "--exact"]);
}

#[test]
fn two_readers_follow_a_channel_and_a_program_runs_for_each_row() {
    let hub = Running::start_hub(&[]);
    let _agent = agent(&hub, "n1", &[]);
    let place = Place::new("exec");
    let create = ["channel", "create", "loads", "load.*", "--rate", "10Hz"];
    assert_eq!(code(&ask(&hub, &create)), 0);
    let words = ["channel", "watch", "loads", "--json", "--server", &hub.url];
    let mut other = Ended::start(&mut khz(&words));
    let mut rows = BufReader::new(other.0.stdout.take().unwrap()).lines();
    assert!(rows.next().unwrap().unwrap().contains("load.1m"));
    let file = place.path("rows");
    let words =
        ["channel", "watch", "loads", "--count", "5", "--server", &hub.url, "--exec", "tee", "-a", &file];
    let done = run(&words);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let text = std::fs::read_to_string(&file).unwrap();
    let times: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["time"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(times.len(), 5, "{text}");
    assert!(times.is_sorted(), "{times:?}");
    assert!(rows.next().unwrap().unwrap().contains("load.1m"), "the other one goes on");
    // Its program fails, and the rows go on.
    let failing =
        run(&["channel", "watch", "loads", "--count", "2", "--server", &hub.url, "--exec", "false"]);
    assert_eq!(code(&failing), 1);
    assert_eq!(err(&failing).matches("false has failed").count(), 1, "{}", err(&failing));
    assert!(err(&failing).contains("has failed for 2 of 2 rows"), "{}", err(&failing));
    // It is changed, and then removed, while somebody follows it.
    assert_eq!(code(&ask(&hub, &["channel", "set", "loads", "mem.free", "--rate", "10Hz"])), 0);
    let changed: Value = rows
        .by_ref()
        .map(|row| serde_json::from_str(&row.unwrap()).unwrap())
        .find(|row: &Value| row["event"] == "channel")
        .unwrap();
    assert_eq!(
        (&changed["channel"], &changed["definition"]["series"][0]),
        (&"loads".into(), &"mem.free".into())
    );
    assert!(rows.any(|row| row.unwrap().contains("mem.free")));
    assert_eq!(code(&ask(&hub, &["channel", "rm", "loads"])), 0);
    assert!(rows.all(|row| row.is_ok()), "the stream ends");
    let mut err = String::new();
    other.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(other.0.wait().unwrap().code(), Some(1));
    assert!(err.contains("channel 'loads' was changed; its rows are those of the new definition"), "{err}");
    assert!(err.contains("channel 'loads' was changed or removed"), "{err}");
    assert!(err.contains("; khz asks again\n"), "the khz is there: {err}");
    assert!(err.ends_with("khz: there is no channel 'loads'\n"), "{err}");
}

#[test]
fn readers_are_refused_what_is_for_operators_and_errors_say_what_to_do() {
    let hub = Running::start_hub(&[]);
    for (words, expected, message) in [
        (&["create", "fast", "mem.free", "--rate", "1kHz"][..], 2, "1000Hz is for operators"),
        (&["create", "Fast", "mem.free"], 2, "name: the name of a channel starts with a small letter"),
        (&["create", "x", "--expr", "sum("], 2, "expr: "),
        (&["create", "x", "mem.free", "--for", "5s"], 2, "for: there is no condition: give one with 'when'"),
        (&["create", "x", "mem.free", "--each", "average 1s"], 2, "each: 'average' is no function"),
        (&["create", "x", "mem.free"], 0, ""),
        (&["create", "x", "mem.free"], 0, ""),
        (
            &["create", "x", "mem.total"],
            1,
            "there is another channel 'x' already; `khz channel set` replaces it",
        ),
        (
            &["set", "xx", "mem.total"],
            1,
            "there is no channel 'xx' (did you mean 'x'?); `khz channel create`",
        ),
        (
            &["create", "z", "--expr", "nde_load1 > 1"],
            0,
            "no metric is called nde_load1 so far (did you mean 'node_load1'?)",
        ),
        (&["rm", "y", "z", "yy"], 1, "there is no channel 'yy'"),
        (&["rm", "z"], 1, "there is no channel 'z'"),
        (&["show", "y"], 1, "there is no channel 'y'"),
        (&["watch", "xx"], 1, "there is no channel 'xx' (did you mean 'x'?)"),
        (&["rm", "y"], 1, "there is no channel 'y'"),
        (&["rm", "x"], 0, ""),
    ] {
        let done = ask(&hub, &[&["channel"], words].concat());
        assert_eq!(code(&done), expected, "{words:?}: {}", err(&done));
        assert!(err(&done).contains(message), "{words:?}: {}", err(&done));
    }
    // By the hub's own socket its user is an operator.
    let by_socket = |words: &[&str]| hub.beside(words).output().unwrap();
    let fast = by_socket(&["channel", "create", "fast", "mem.free", "--rate", "1kHz"]);
    assert_eq!(code(&fast), 0, "{}", err(&fast));
    for words in [&["set", "fast", "mem.free"][..], &["rm", "fast"], &["watch", "fast"]] {
        let refused = ask(&hub, &[&["channel"], words].concat());
        assert_eq!(code(&refused), 2, "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains("operator"), "{}", err(&refused));
    }
    let list = out(&ask(&hub, &["channel", "list"]));
    assert!(list.contains("fast     operator  1kHz"), "{list}");
}

#[test]
fn an_upper_hub_has_the_rows_of_a_channel_of_nodes_of_the_hub_below_and_their_refusals() {
    let lower = Running::start_hub(&[]);
    let _willing = agent(&lower, "n1", &[]);
    let _stubborn = agent(&lower, "n2", &["--handlers", "none"]);
    let upper = crate::text::nested_hub("upper", "127.0.0.1:0", &lower.link());
    until(PATIENCE, "the nodes have come up above", || {
        let nodes = ask(&upper, &["nodes", "--json"]);
        out(&nodes).matches("\"state\":\"up\"").count() >= 2
    });
    let wait = ask(&upper, &["wait", "n1:load.1m >= 0", "--rate", "10Hz", "--timeout", "60s"]);
    assert_eq!(code(&wait), 0, "{}", err(&wait));
    assert!(out(&wait).starts_with("n1 at "), "{}", out(&wait));
    let refused = ask(&upper, &["wait", "n2:load.1m >= 0", "--timeout", "60s"]);
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(err(&refused).contains("this node takes no handlers"), "{}", err(&refused));
    assert_eq!(code(&ask(&upper, &["channel", "create", "loads", "load.*", "--rate", "10Hz"])), 0);
    let watched = ask(&upper, &["channel", "watch", "loads", "--count", "20", "--json"]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    let rows: Vec<Value> = out(&watched).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().filter(|row| row["node"] == "n1").count() >= 20, "{}", out(&watched));
    // With its last reader the channel ends at the hub below, and with it the lane of the node there.
    until(PATIENCE, "nobody follows it below", || {
        let nodes = ask(&lower, &["nodes", "n1", "--json"]);
        !out(&nodes).contains("channel.loads")
    });
}
