//! `khz` alone as a process: it announces itself, answers `get` and `watch`, and ends at a signal.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::process::{Running, code, err, khz, out, run};

/// A host of our own making, with only a meminfo and a uptime.
fn small_host(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    std::fs::write(root.join("proc/meminfo"), "MemTotal:       1000 kB\nMemFree:         123 kB\n").unwrap();
    std::fs::write(root.join("proc/uptime"), "350735.47 234388.90\n").unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), "captured one\n").unwrap();
    root
}

#[test]
fn it_says_where_it_is_and_ends_cleanly_on_sigterm_and_ctrl_c() {
    for signal in ["TERM", "INT"] {
        let running = Running::start(&[]);
        assert!(
            running.line.starts_with("Kilohertz is watching n1 at http://127.0.0.1:"),
            "{}",
            running.line
        );
        assert_eq!(running.end(signal), (Some(0), String::new()), "nothing periodic off a terminal");
    }
}

#[test]
fn a_port_in_use_is_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["--listen", &address]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    let message = err(&output);
    assert!(
        message.starts_with(&format!("khz: {address} is in use")) && message.lines().count() == 1,
        "{message}"
    );
}

#[test]
fn a_root_without_proc_is_one_sentence() {
    for arguments in [
        &["--root", "/nonexistent", "--listen", "127.0.0.1:0"][..],
        &["check", "--root", "/nonexistent"],
        &["get", "mem.free", "--direct", "--root", "/nonexistent"],
    ] {
        let output = run(arguments);
        let message = err(&output);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{arguments:?}: {message}");
        assert!(message.contains("/nonexistent") && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn a_captured_host_is_read_exactly() {
    let root = small_host("captured");
    let output = run(&["get", "mem.free", "uptime*", "--direct", "--json", "--root", root.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let lines: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let free = lines.iter().find(|line| line["name"] == "mem.free").unwrap();
    assert_eq!((free["value"].as_str(), free["node"].as_str()), (Some("125952"), Some("captured-one")));
    assert!(lines.iter().any(|line| line["value"] == "350735.47"), "{lines:?}");
}

#[test]
fn what_is_absent_is_no_property() {
    let root = small_host("properties");
    let output =
        run(&["get", "mem.*", "--direct", "--format", "properties", "--root", root.to_str().unwrap()]);
    let properties = out(&output);
    assert!(properties.contains("\nmem.free=125952\n"), "{properties}");
    assert!(properties.contains("\n# mem.cached absent: "), "{properties}");
    assert!(!properties.contains("\nmem.cached="), "{properties}");
    assert!(err(&output).contains("left out"), "{}", err(&output));
}

#[test]
fn get_asks_the_running_khz_and_reads_the_kernel_itself_when_none_runs() {
    let root = small_host("fallback");
    let running = Running::start(&["--root", root.to_str().unwrap()]);
    let address = running.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let get = || run(&["get", "mem.free", "--json", "--listen", &address]);
    // The one that runs is called n1 and reads our small host; this process would read the real one.
    let asked = out(&get());
    assert!(asked.contains(r#""node":"n1""#) && asked.contains(r#""value":"125952""#), "{asked}");
    assert_eq!(running.end("TERM").0, Some(0));
    let read = get();
    assert_eq!((code(&read), err(&read).as_str()), (0, ""));
    let read: serde_json::Value = serde_json::from_str(out(&read).trim()).unwrap();
    assert_ne!(read["node"], "n1");
    assert!(read["value"].is_string());
}

#[test]
fn unknown_nodes_are_named() {
    let running = Running::start(&[]);
    let output = run(&["get", "n[1-2]:mem.free", "--server", &running.url, "--json"]);
    assert_eq!(code(&output), 3, "{}", err(&output));
    assert_eq!(out(&output).lines().count(), 1);
    assert_eq!(err(&output), "khz: no node is called n2\n");
}

#[test]
fn what_only_other_nodes_know_is_not_read_here() {
    for arguments in [&["get", "n7:mem.free"][..], &["watch", "n7:mem.free"]] {
        let output = run(&[arguments, &["--direct", "--node", "n1"]].concat());
        assert_eq!((code(&output), out(&output).as_str()), (1, ""));
        assert_eq!(err(&output), "khz: this node is n1, not n7\n");
    }
}

#[test]
fn watch_reads_the_kernel_itself_with_direct() {
    let output = run(&["watch", "uptime*", "--rate", "100", "--exact", "--count", "5", "--json", "--direct"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output).lines().count(), 5);
}

#[test]
fn watch_follows_for_as_many_rows_as_asked() {
    let running = Running::start(&[]);
    let arguments =
        ["watch", "uptime*", "mem.free", "--rate", "100", "--exact", "--count", "20", "--json", "--raw"];
    let output = run(&[&arguments[..], &["--server", &running.url]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let rows: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 20);
    let times: Vec<&str> = rows.iter().map(|row| row["time"].as_str().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "each row is a later instant: {times:?}");
    assert!(rows.iter().all(|row| row["values"]["mem.free"].is_string()));
}

#[test]
fn watch_ends_after_its_time() {
    let running = Running::start(&[]);
    let output =
        run(&["watch", "kernel.interrupts", "--rate", "50", "--for", "300ms", "--server", &running.url]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).starts_with("# n1 at "), "{}", out(&output));
}

#[test]
fn watch_says_when_the_watched_one_has_ended_and_asks_again() {
    let running = Running::start(&[]);
    let mut watch = khz(&["watch", "mem.free", "--rate", "50", "--exact", "--server", &running.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(running.end("TERM").0, Some(0), "a reader does not keep it from ending");
    line.clear();
    BufReader::new(watch.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("has ended; khz asks again until it is back"), "{line}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn what_matches_nothing_is_an_error_and_no_empty_table() {
    let running = Running::start(&[]);
    for arguments in [
        &["get", "zebra.*", "--server", &running.url][..],
        &["watch", "zebra.*", "--server", &running.url],
        &["get", "zebra.*", "--direct"],
        &["watch", "zebra.*", "--direct"],
    ] {
        let output = run(arguments);
        assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{arguments:?}");
        assert!(err(&output).contains("zebra.*"), "{}", err(&output));
    }
}

#[test]
fn a_rate_above_the_ceiling_is_wrong_usage() {
    let running = Running::start(&["--rate-max", "100Hz"]);
    let output = run(&["watch", "mem.free", "--rate", "200", "--server", &running.url]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("ceiling of 100Hz"), "{}", err(&output));
}

#[test]
fn check_tells_what_works_and_what_does_not() {
    let root = small_host("check");
    let output = run(&["check", "--json", "--root", root.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let sources: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let source = |name: &str| sources.iter().find(|source| source["source"] == name).unwrap();
    assert_eq!(source("meminfo")["outcome"], "works");
    assert_eq!(source("meminfo")["bytes"], 48);
    assert_eq!(source("stat")["outcome"], "absent");
}

#[test]
fn the_process_stays_small_and_starts_two_threads_beside_its_own() {
    let running = Running::start(&[]);
    let output = run(&["get", "*", "--server", &running.url, "--json"]);
    assert_eq!(code(&output), 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let number = |key: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // The gatherer, the surveys and the doors. Hub and link start when a reader comes.
    assert_eq!(number("Threads:"), 3, "{status}");
    // The rings are shared memory. The loader writes addresses into the program's constants, 0.6 MB of a release build and 2 MB of
    // this one: they are left out here.
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", running.child.id())).unwrap();
    let (mut is_program, mut relocated) = (false, 0);
    for line in smaps.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(size) if is_program => {
                relocated += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
            }
            Some(_) => {}
            // The head of a mapping begins with its addresses, and ends with its file.
            None if line.split(' ').next().is_some_and(|word| word.contains('-')) => {
                is_program = line.ends_with("/khz");
            }
            None => {}
        }
    }
    assert!(relocated > 100, "{smaps}");
    // Where many processes run, what is known of them takes some 100 kB.
    assert!(number("RssAnon:") - relocated <= 3_100, "{relocated} kB of addresses; {status}");
}
