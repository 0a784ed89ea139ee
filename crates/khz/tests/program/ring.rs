//! The rings of a real agent: shown and exported while it runs, after it was killed, and by the next one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Running, code, err, khz, out, run};

/// A host with a meminfo and an uptime, and a directory for rings.
fn place(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-ring-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::write(root.join("proc/meminfo"), "MemTotal:       1000 kB\nMemFree:         123 kB\n").unwrap();
    std::fs::write(root.join("proc/uptime"), "350735.47 234388.90\n").unwrap();
    root
}

fn start(root: &Path) -> Running {
    let (root, rings) = (root.to_str().unwrap(), root.join("rings"));
    Running::start(&[
        "--root",
        root,
        "--ring-dir",
        rings.to_str().unwrap(),
        "--base-rate",
        "50Hz",
        "--local-rate",
        "100Hz",
        "--ring",
        "1MiB",
    ])
}

/// What a command prints about the rings, one JSON object a line.
fn lines(root: &Path, command: &str, more: &[&str]) -> Vec<Value> {
    let rings = root.join("rings");
    let output = run(&[&["ring", command, "--json", "--dir", rings.to_str().unwrap()], more].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until the base lane has this many rows. The limit only ends a hanging test.
fn wait_for_rows(root: &Path, rows: u64) -> Value {
    let start = Instant::now();
    loop {
        let base = lines(root, "show", &[]).into_iter().find(|lane| lane["lane"] == "base").unwrap();
        if base["rows"].as_u64().unwrap() >= rows {
            return base;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{base}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rows_are_shown_and_exported_while_the_agent_runs_and_after_it_was_killed() {
    let root = place("killed");
    let mut running = start(&root);
    let base = wait_for_rows(&root, 20);
    assert_eq!((base["node"].as_str(), base["rate"].as_str()), (Some("n1"), Some("50Hz")));
    assert_eq!(base["writer"]["alive"], true);
    assert_eq!(base["writer"]["pid"], running.child.id());
    assert_eq!(base["generation"], 1);
    let full: f64 = base["held_seconds_full"].as_str().unwrap().parse().unwrap();
    assert!(full > 0.1, "{base}");

    let live = lines(&root, "export", &["mem.free", "mem.high_total", "uptime.up"]);
    assert!(live.len() >= 20);
    for (at, row) in live.iter().enumerate() {
        assert_eq!(row["row"], at);
        assert_eq!(row["values"]["mem.free"], "125952");
        assert_eq!(row["values"]["uptime.up"], "350735.47");
        assert_eq!(row["values"]["mem.high_total"]["absent"], "this kernel does not print it");
    }
    running.child.kill().unwrap();
    running.child.wait().unwrap();

    let dead = lines(&root, "export", &["mem.free"]);
    let text = |rows: &[Value]| -> Vec<String> { rows.iter().map(|row| row["time"].to_string()).collect() };
    assert_eq!(text(&dead)[..live.len()], text(&live), "nothing that was there is gone");
    assert_eq!(lines(&root, "show", &[])[0]["writer"]["alive"], false);

    // The next agent continues after the last row.
    let again = start(&root);
    let more = wait_for_rows(&root, dead.len() as u64 + 10);
    assert_eq!((&more["epoch"], more["generation"].as_u64()), (&base["epoch"], Some(2)));
    let both = lines(&root, "export", &["mem.free"]);
    assert!(both.iter().enumerate().all(|(at, row)| row["row"] == at));
    assert!(both.iter().all(|row| row["values"]["mem.free"] == "125952"));
    drop(again);
}

#[test]
fn csv_and_tables_hold_exact_decimals_and_nothing_where_nothing_is() {
    let root = place("csv");
    let mut running = start(&root);
    wait_for_rows(&root, 40);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let rings = root.join("rings/n1");
    let export = |more: &[&str]| {
        let arguments = ["ring", "export", "--dir", rings.to_str().unwrap()];
        let output = run(&[&arguments[..], more].concat());
        assert_eq!((code(&output), err(&output).as_str()), (0, ""));
        out(&output)
    };
    let wanted = ["mem.free", "mem.high_total", "uptime.up", "--last", "200ms"];
    let csv = export(&wanted);
    let mut rows = csv.lines();
    // In slot order, whatever the order of the patterns.
    assert_eq!(rows.next(), Some("time,boot,mem.free,mem.high_total,uptime.up"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    // Those, and only those, that came within 200 ms of the newest.
    let nanos = |row: &[&str]| row[1].replace('.', "").parse::<u64>().unwrap();
    let all = export(&["mem.free"]);
    let all: Vec<u64> = all.lines().skip(1).map(|row| nanos(&row.split(',').collect::<Vec<_>>())).collect();
    let newest = *all.last().unwrap();
    let expected: Vec<u64> = all.into_iter().filter(|&boot| boot > newest - 200_000_000).collect();
    assert_eq!(rows.iter().map(|row| nanos(row)).collect::<Vec<_>>(), expected);
    for row in &rows {
        assert_eq!(row[2..], ["125952", "", "350735.47"]);
        assert!(row[..2].iter().all(|time| time.split_once('.').unwrap().1.len() == 9), "{row:?}");
    }
    let local = export(&["--lane", "local", "--csv", "uptime.up"]);
    assert!(local.lines().count() > 30);
    let table = export(&["--table", "mem.high_total", "mem.free", "--last", "1s"]);
    let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[1..], ["125952", "absent"]);

    let file = root.join("rows.csv");
    assert_eq!(export(&["mem.free", "-o", file.to_str().unwrap()]), "");
    assert!(std::fs::read_to_string(file).unwrap().starts_with("time,boot,mem.free\n"));
}

#[test]
fn a_trace_is_the_schema_and_the_blocks() {
    let root = place("trace");
    let running = start(&root);
    wait_for_rows(&root, 30);
    let output = khz(&["ring", "export", "--trace", "--dir", root.join("rings").to_str().unwrap()]).output();
    let trace = output.unwrap().stdout;
    assert_eq!(trace[..5], *b"khzT\x01");
    // First a chunk with the schema, then blocks: kind and length, as in docs/block.md.
    let length = u32::from_le_bytes(trace[9..13].try_into().unwrap()) as usize;
    assert_eq!((trace[8], &trace[13..17], trace[13 + length]), (1, &b"khzS"[..], 2));
    drop(running);
}

#[test]
fn a_second_agent_of_the_same_name_names_the_first() {
    let root = place("second");
    let running = start(&root);
    let rings = root.join("rings");
    let output = run(&[
        "--node",
        "n1",
        "--listen",
        "127.0.0.1:0",
        "--root",
        root.to_str().unwrap(),
        "--ring-dir",
        rings.to_str().unwrap(),
    ]);
    let message = err(&output);
    assert_eq!((code(&output), message.lines().count()), (2, 1), "{message}");
    assert!(message.contains(&format!("(process {})", running.child.id())), "{message}");
    assert!(message.contains("--ring-dir"), "{message}");
}

#[test]
fn what_does_not_exist_is_named() {
    let root = place("nothing");
    let rings = root.join("rings");
    let rings = rings.to_str().unwrap();
    let output = run(&["ring", "show", "--dir", rings]);
    assert_eq!((code(&output), err(&output)), (1, format!("khz: no rings in {rings}\n")));

    let running = start(&root);
    wait_for_rows(&root, 1);
    for (more, part) in [
        (&["--lane", "boost9"][..], "n1 has no lane boost9; it has base, local"),
        (&["zebra"], "nothing in this ring matches zebra"),
        (&["n2:mem.free"], "these rings are of n1"),
        (&["--node", "n2"], "no rings of n2 in "),
    ] {
        let output = run(&[&["ring", "export", "--dir", rings], more].concat());
        assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{more:?}");
        assert!(err(&output).contains(part), "{}", err(&output));
    }
    let output = run(&["ring", "export", "--dir", rings, "--last", "5"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    drop(running);
}

#[test]
fn a_ring_can_be_asked_for_by_its_time() {
    let root = place("span");
    let rings = root.join("rings");
    let running = Running::start(&[
        "--root",
        root.to_str().unwrap(),
        "--ring-dir",
        rings.to_str().unwrap(),
        "--ring",
        "2h",
        "--base-rate",
        "50Hz",
    ]);
    wait_for_rows(&root, 60);
    let lanes: HashMap<String, Value> = lines(&root, "show", &[])
        .into_iter()
        .map(|lane| (lane["lane"].as_str().unwrap().to_owned(), lane))
        .collect();
    let full: f64 = lanes["base"]["held_seconds_full"].as_str().unwrap().parse().unwrap();
    assert!(full >= 7_200.0, "{}", lanes["base"]);
    drop(running);
}

/// In a mount namespace of its own, where the rings' file system has 3 MiB.
#[test]
fn where_shared_memory_is_full_the_rings_are_smaller_and_a_line_says_so() {
    let root = place("full");
    let rings = root.join("rings");
    std::fs::create_dir_all(&rings).unwrap();
    let script =
        format!("mount -t tmpfs -o size=3m,mode=750 none {rings} && exec \"$@\"", rings = rings.display());
    let can = Command::new("unshare").args(["-rm", "true"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return khz_skip::skip("no mount namespace can be made here");
    }
    let inner = khz(&["--listen", "127.0.0.1:0", "--node", "n1", "--ring", "64MiB"]);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.args(["--root", root.to_str().unwrap(), "--ring-dir", rings.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    // It runs; its rings are seen through its own root.
    let inside = format!("/proc/{}/root{}", child.id(), rings.display());
    let output = run(&["ring", "show", "--json", "--dir", &inside]);
    child.kill().unwrap();
    let ended = child.wait_with_output().unwrap();
    let message = err(&ended);
    assert!(line.starts_with("Kilohertz is watching n1"), "{message}");
    assert!(message.contains("no room for a ring of "), "{message}");
    assert!(message.contains("has a ring of 2MiB instead of 16MiB"), "{message}");
    assert!(message.contains("lane local is recorded in memory without a name"), "{message}");
    assert_eq!(out(&output).lines().count(), 1, "{}", err(&output));
}
