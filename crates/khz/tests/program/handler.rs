//! `khz handler`, as an author of programs uses it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::channels::{agent, ask};
use crate::exposition::get_at;
use crate::process::{Ended, Running, code, err, out, run, until};

/// A folder with a module and a recording; removed at the end.
struct Desk(PathBuf);

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Desk {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-handler-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Desk(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A module in its text form.
    fn module(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), wat::parse_str(text).unwrap()).unwrap();
        self.path(name)
    }
}

fn sampler() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("examples/handlers/sampler.wat")).unwrap()
}

#[test]
fn a_program_is_tried_on_a_recording() {
    let desk = Desk::new("tried");
    let (module, recording) = (desk.module("sampler.wasm", &sampler()), desk.path("run.khzt"));
    let made = run(&[
        "record",
        "--direct",
        "uptime.up",
        "--rate",
        "10Hz",
        "--for",
        "2s",
        "-o",
        &recording,
        "--node",
        "n1",
    ]);
    assert!(made.status.success(), "{made:?}");
    let tried = run(&["handler", "test", &module, "--on", &recording, "-m", "uptime.up", "--json"]);
    let text = String::from_utf8(tried.stdout).unwrap();
    let said = String::from_utf8(tried.stderr).unwrap();
    assert!(tried.status.success(), "{text}\n{said}");
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The first row comes out, since nothing was sent before it.
    assert!(
        !rows.is_empty() && rows[0]["node"] == "n1" && rows[0]["values"]["value"].as_f64() > Some(0.0),
        "{text}"
    );
    assert!(said.contains("1 series") && said.contains("rows in") && said.contains("of 2000000"), "{said}");
}

#[test]
fn a_program_that_fails_is_told_with_its_row_and_the_next_one_goes_on() {
    let desk = Desk::new("fails");
    // The fourth row of each program fails.
    let counts = sampler().replace(
        "(local $value f64)",
        "(local $value f64) (global.set $rows (i32.add (global.get $rows) (i32.const 1)))
         (if (i32.ge_u (global.get $rows) (i32.const 5)) (then (unreachable)))",
    );
    let (module, recording) = (desk.module("fails.wasm", &counts), desk.path("run.khzt"));
    let made = run(&[
        "record",
        "--direct",
        "uptime.up",
        "--rate",
        "10Hz",
        "--for",
        "1s",
        "-o",
        &recording,
        "--node",
        "n1",
    ]);
    assert!(made.status.success(), "{made:?}");
    let tried = run(&["handler", "test", &module, "--on", &recording, "-m", "uptime.up"]);
    let said = String::from_utf8(tried.stderr).unwrap();
    assert_eq!(tried.status.code(), Some(1), "{said}");
    assert!(
        said.contains("after the first row: the program failed: ") && said.contains("it failed "),
        "{said}"
    );
}

#[test]
fn what_is_no_program_is_said() {
    let desk = Desk::new("none");
    let text = |words: &[&str]| {
        let done = run(words);
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    std::fs::write(desk.path("empty.wasm"), b"").unwrap();
    let (code, _, said) = text(&["handler", "check", &desk.path("empty.wasm")]);
    assert!(code == Some(1) && said.contains("no WebAssembly module"), "{said}");
    let (code, _, said) = text(&["handler", "check", &desk.path("missing.wasm")]);
    assert!(code == Some(1) && said.contains("missing.wasm: No such file"), "{said}");
    let (code, shown, said) = text(&["handler", "check", &desk.module("good.wasm", &sampler())]);
    assert!(code == Some(0) && shown.starts_with("hash    ") && shown.lines().count() == 3, "{shown}{said}");
    let (code, shown, _) = text(&["handler", "header"]);
    assert!(code == Some(0) && shown.contains("struct khz_room"));
}

/// A program whose value `n` counts its rows, up or down.
fn counter(step: &str) -> String {
    format!(
        r#"(module
(import "khz" "output" (func $output (param i32 i32) (result i32)))
(import "khz" "put" (func $put (param i32 f64)))
(memory (export "memory") 1)
(global $n (mut f64) (f64.const 0))
(data (i32.const 0) "\00\04\00\00\80\08\00\00\10\00\00\00")
(data (i32.const 2560) "n")
(func (export "khz_version") (result i32) (i32.const 1))
(func (export "khz_room") (result i32) (i32.const 0))
(func (export "khz_begin") (param i32) (result i32)
  (drop (call $output (i32.const 2560) (i32.const 1))) (i32.const 0))
(func (export "khz_row") (result i32)
  (global.set $n (f64.add (global.get $n) (f64.const {step})))
  (call $put (i32.const 0) (global.get $n)) (i32.const 1)))"#
    )
}

/// `khz` with these words as an operator: over the hub's local socket.
fn order(hub: &Running, words: &[&str]) -> std::process::Output {
    hub.beside(words).output().unwrap()
}

/// The values `n` of rows, with their nodes, of a channel that is watched.
fn watched(hub: &Running, channel: &str, rows: &str) -> Vec<(String, f64)> {
    let watched = ask(hub, &["channel", "watch", channel, "--count", rows, "--for", "60s", "--json"]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    let rows = out(&watched);
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).ok()?;
        let value = row["values"].as_object()?.values().next()?.to_string();
        Some((row["node"].as_str()?.to_owned(), value.trim_matches('"').parse().ok()?))
    };
    rows.lines().filter_map(row).collect()
}

#[test]
fn a_program_is_pushed_executed_on_each_node_replaced_listed_and_removed() {
    let desk = Desk::new("pushed");
    let hub = Running::start_hub(&[]);
    let _willing: Vec<_> = ["n1", "n2"].map(|node| agent(&hub, node, &["--handlers", "programs"])).into();
    let _other = agent(&hub, "n3", &[]);
    let one = desk.module("one.wasm", &counter("1"));
    let without = order(&hub, &["handler", "push", &one, "--to", "counted"]);
    assert!(
        code(&without) == 2 && err(&without).contains("has no series for a program"),
        "{}",
        err(&without)
    );
    let words = ["handler", "push", &one, "--to", "counted", "load.*", "--rate", "20Hz"];
    let reader = ask(&hub, &words);
    assert!(
        code(&reader) == 2 && err(&reader).contains("program: this is for operators"),
        "{}",
        err(&reader)
    );
    let pushed = order(&hub, &words);
    assert_eq!(code(&pushed), 0, "{}", err(&pushed));
    let rows = watched(&hub, "counted", "40");
    for node in ["n1", "n2"] {
        let of: Vec<f64> = rows.iter().filter(|(of, _)| of == node).map(|(_, value)| *value).collect();
        assert!(of.len() > 3 && of.windows(2).all(|two| two[1] == two[0] + 1.0), "{node}: {of:?}");
    }
    assert!(rows.iter().all(|(node, _)| node != "n3"));
    // What nodes refuse is known while somebody follows the channel.
    let _watcher = Ended::start_silent(&mut hub.beside(&["channel", "watch", "counted"]));
    until(Duration::from_secs(60), "the list has both nodes, and what the third one says", || {
        let list = ask(&hub, &["handler", "list"]);
        let (text, said) = (out(&list), err(&list));
        ["n1", "n2"]
            .iter()
            .all(|node| text.lines().any(|line| line.contains("counted") && line.contains(node)))
            && said.contains("n3: ")
            && said.contains("executes no programs")
    });
    // Another program for the same series, rate and nodes.
    let two = desk.module("two.wasm", &counter("-1"));
    assert_eq!(code(&order(&hub, &["handler", "push", &two, "--to", "counted"])), 0);
    let rows = watched(&hub, "counted", "10");
    assert!(rows.iter().all(|(_, value)| *value < 0.0), "{rows:?}");
    let shown = out(&ask(&hub, &["channel", "show", "counted"]));
    let hash = out(&run(&["handler", "check", &two])).lines().next().unwrap().replace("hash    ", "");
    assert!(shown.contains(&hash) && shown.contains("20Hz"), "{shown}");
    // What is no program, and a channel without one.
    let garbage = desk.path("garbage.wasm");
    std::fs::write(&garbage, "no module").unwrap();
    let refused = order(&hub, &["handler", "push", &garbage, "--to", "counted"]);
    assert!(code(&refused) == 1 && err(&refused).contains("no WebAssembly module"), "{}", err(&refused));
    assert_eq!(code(&ask(&hub, &["channel", "create", "plain", "load.*"])), 0);
    assert!(err(&order(&hub, &["handler", "rm", "plain"])).contains("has no program"));
    assert_eq!(code(&order(&hub, &["handler", "rm", "counted"])), 0);
    assert!(err(&ask(&hub, &["handler", "list"])).contains("there are no programs"));
}

/// The times of the rows that a command prints as JSON, in seconds.
fn times(printed: &str) -> Vec<f64> {
    let time = |line: &str| {
        let row: Value = serde_json::from_str(line).ok()?;
        row["values"].is_object().then(|| row["time"].as_str()?.parse().ok())?
    };
    printed.lines().filter_map(time).collect()
}

#[test]
fn a_program_is_replaced_again_and_again_and_no_row_is_lost_or_comes_twice() {
    let desk = Desk::new("replaced");
    let hub = Running::start_hub(&["--store", &desk.path("store")]);
    let _node = agent(&hub, "n1", &["--handlers", "programs"]);
    let push = |version: u32| {
        let module = desk.module("version.wasm", &counter(&version.to_string()));
        order(&hub, &["handler", "push", &module, "--to", "counted"])
    };
    let first = desk.module("first.wasm", &counter("1"));
    // Series that the kernel moves at each tick: a reader of them as they are has the same lane as the program.
    let words = ["handler", "push", &first, "--to", "counted", "cpu.all.*", "--rate", "20Hz", "--keep", "1h"];
    let pushed = order(&hub, &words);
    assert_eq!(code(&pushed), 0, "{}", err(&pushed));
    let follow = |words: &[&str]| {
        let mut follow = hub.beside(words);
        follow.args(["--for", "15s", "--json"]).stdout(std::process::Stdio::piped());
        follow.spawn().unwrap()
    };
    let rows = follow(&["watch", "n1:cpu.all.*", "--rate", "20Hz"]);
    let (one, other) = (follow(&["channel", "watch", "counted"]), follow(&["channel", "watch", "counted"]));
    std::thread::sleep(Duration::from_secs(3));
    for version in 2..10 {
        assert_eq!(code(&push(version)), 0);
        std::thread::sleep(Duration::from_millis(150 * u64::from(version)));
    }
    let printed = |child: std::process::Child| times(&out(&child.wait_with_output().unwrap()));
    let rows = printed(rows);
    for mut follower in [one, other].map(printed) {
        // All follow for about as long.
        let (begin, end) = (rows[0].max(follower[0]), rows[rows.len() - 1].min(follower[follower.len() - 1]));
        let between =
            |times: &[f64]| times.iter().copied().filter(|time| (begin..=end).contains(time)).collect();
        follower = between(&follower);
        let of_rows: Vec<f64> = between(&rows);
        assert_eq!(follower, of_rows, "no row lost, none twice");
        assert!(follower.len() > 200);
        // The store has the same.
        let span = ((end - begin) * 1e3) as u64 + 20;
        let query = format!("count_over_time(khz_channel_counted%5B{span}ms%5D)&time={:.3}", end + 0.01);
        until(Duration::from_secs(30), "the store has all of these rows, each once", || {
            let answer: Value =
                serde_json::from_str(&get_at(&hub, &format!("/api/v1/query?query={query}"))).unwrap();
            answer["data"]["result"][0]["value"][1].as_str() == Some(&follower.len().to_string())
        });
    }
}
