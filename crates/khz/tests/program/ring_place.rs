//! The directory of rings: what a clean end leaves, what `khz ring rm` removes, what happens where a directory cannot be used,
//! and what other users who can write there can do. `/dev/shm` is the test's own, in a mount namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, Running, code, err, khz, out, run};

/// The user nobody.
const OTHER: u32 = 65_534;

fn place(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-place-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::write(root.join("proc/meminfo"), "MemTotal:       1000 kB\nMemFree:         123 kB\n").unwrap();
    root
}

fn words<'a>(root: &'a Path, rings: &'a Path) -> Vec<&'a str> {
    let (root, rings) = (root.to_str().unwrap(), rings.to_str().unwrap());
    vec!["--root", root, "--ring-dir", rings, "--base-rate", "50Hz", "--ring", "1MiB"]
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    process::until(Duration::from_secs(40), what, is_so);
}

fn remove(rings: &Path, nodes: &[&str]) -> Output {
    run(&[&["ring", "rm", "--dir", rings.to_str().unwrap()], nodes].concat())
}

/// The base lane, as `khz ring show` has it.
fn shown(rings: &Path) -> Option<Value> {
    let output = run(&["ring", "show", "--json", "--dir", rings.to_str().unwrap()]);
    let text = out(&output);
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|lane| lane["lane"] == "base")
}

#[test]
fn a_clean_end_of_khz_alone_leaves_nothing_and_an_agents_rings_stay() {
    let root = place("clean");
    let rings = root.join("rings");
    let there = || fs::read_dir(rings.join("n1")).map(Iterator::count).unwrap_or(0);
    for signal in ["INT", "TERM", "HUP"] {
        let alone = Running::start(&words(&root, &rings));
        assert!(there() > 1);
        assert_eq!(alone.end(signal).0, Some(0));
        assert!(!rings.join("n1").exists());
    }
    // A crash leaves them, and the next clean end takes those along.
    let mut alone = Running::start(&words(&root, &rings));
    alone.child.kill().unwrap();
    alone.child.wait().unwrap();
    assert!(there() > 1);
    Running::start(&words(&root, &rings)).end("INT");
    assert!(!rings.join("n1").exists());

    // The rings of an agent stay after its end, and after the end of a khz that continued them.
    let mut agent =
        khz(&[&["agent", "--hub", "127.0.0.1:1", "--node", "n1"], &words(&root, &rings)[..]].concat());
    agent.env("KHZ_RING_DIR", &rings);
    Running::of(agent).end("TERM");
    Running::start(&words(&root, &rings)).end("INT");
    let base = shown(&rings).unwrap();
    assert_eq!((base["generation"].as_u64(), &base["writer"]["alive"]), (Some(2), &Value::Bool(false)));
    assert_eq!(code(&remove(&rings, &["n1"])), 0);
    assert!(!rings.join("n1").exists() && rings.exists());

    // They stay with --keep-rings too.
    let kept = [&words(&root, &rings)[..], &["--keep-rings"]].concat();
    Running::start(&kept).end("INT");
    assert!(shown(&rings).is_some());
}

#[test]
fn ring_rm_removes_the_rings_of_the_dead_and_leaves_those_of_the_living() {
    let root = place("rm");
    let rings = root.join("rings");
    let alone = Running::start(&[&words(&root, &rings)[..], &["--keep-rings"]].concat());
    let output = remove(&rings, &["n1"]);
    assert_eq!(code(&output), 1, "{}", out(&output));
    let message = err(&output);
    assert!(
        message.contains("stays: a running khz (process ") && message.contains("stop that first"),
        "{message}"
    );
    let base = shown(&rings).unwrap();
    assert_eq!(base["writer"]["alive"], true);
    alone.end("TERM");

    let second = rings.join("n2");
    fs::create_dir_all(&second).unwrap();
    fs::write(second.join("base.ring"), "damaged").unwrap();
    let output = remove(&rings, &["n1", "n3", "n2"]);
    assert_eq!(code(&output), 3, "one is not there");
    assert_eq!(out(&output).lines().count(), 2, "{}", out(&output));
    assert!(err(&output).contains("no rings of n3"), "{}", err(&output));
    assert_eq!(fs::read_dir(&rings).unwrap().count(), 0);

    // What is not an agent's stays, and names are no paths.
    let other = rings.join("n4");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("notes"), "mine").unwrap();
    assert_eq!(code(&remove(&rings, &["n4"])), 1);
    fs::write(other.join("base.ring"), "").unwrap();
    let output = remove(&rings, &["n4"]);
    assert!(code(&output) == 1 && err(&output).contains("not an agent's"), "{}", err(&output));
    assert_eq!(fs::read(other.join("notes")).unwrap(), b"mine");
    assert_eq!(code(&remove(&rings, &["../rings/n4"])), 2);
}

#[test]
fn a_ring_that_is_cut_short_or_removed_under_a_running_khz_is_noticed_and_begun_again() {
    let root = place("cut");
    let rings = root.join("rings");
    let alone = Running::start(&words(&root, &rings));
    let pid = alone.child.id();
    let grown = |known: &Value| {
        let now = shown(&rings);
        now.is_some_and(|now| now["epoch"] != known["epoch"] && now["rows"].as_u64() > Some(10))
    };
    let mut known = shown(&rings).unwrap();
    let file = rings.join("n1/base.ring");
    for what in 0..3 {
        match what {
            0 => fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap(),
            1 => fs::remove_file(&file).unwrap(),
            _ => fs::remove_dir_all(rings.join("n1")).unwrap(),
        }
        until("a new ring is there", || grown(&known));
        known = shown(&rings).unwrap();
        assert_eq!(
            (known["writer"]["pid"].as_u64(), &known["writer"]["alive"]),
            (Some(pid.into()), &Value::Bool(true))
        );
    }
    // A snapshot is made again without anything else happening.
    let snapshot = rings.join("n1/snapshot");
    fs::OpenOptions::new().write(true).open(&snapshot).unwrap().set_len(0).unwrap();
    until("a new snapshot is there", || fs::metadata(&snapshot).is_ok_and(|about| about.len() > 0));
    assert_eq!(shown(&rings).unwrap()["epoch"], known["epoch"]);
    let (ended, message) = alone.end("TERM");
    assert_eq!(ended, Some(0), "{message}");
    assert!(message.contains("lane base: its ring is lost: somebody has cut it short"), "{message}");
    assert!(message.contains("lane base: its ring is lost: somebody has removed it"), "{message}");
    assert!(
        message.contains("the snapshot in shared memory is lost: somebody has cut it short"),
        "{message}"
    );
}

/// Runs `khz` in a mount namespace where a script has prepared `/dev/shm`, until it prints where it listens; then runs a second
/// script that lists `/dev/shm`. Returns the output of both; `None` where namespaces are not allowed.
fn in_own_shm(name: &str, prepare: &str, look: &str) -> Option<(String, String)> {
    let can = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !rustix::process::geteuid().is_root() || !can.is_ok_and(|status| status.success()) {
        khz_skip::skip("only root makes files of others and mounts");
        return None;
    }
    let root = place(name);
    let script = format!("mount -t tmpfs -o mode=1777 none /dev/shm && ({prepare}) && exec \"$@\"");
    let inner =
        khz(&["--listen", "127.0.0.1:0", "--node", "n1", "--ring", "1MiB", "--root", root.to_str().unwrap()]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) if name != "KHZ_RING_DIR" => command.env(name, value),
            _ => command.env_remove(name),
        };
    }
    let running = Running::of(command);
    let inside = format!("/proc/{}/root/dev", running.child.id());
    let looked = Command::new("sh").args(["-c", look]).current_dir(&inside).output().unwrap();
    let answer = running.beside(&["get", "--server", &running.url, "mem.free"]).output().unwrap();
    assert!(out(&answer).contains("125952"), "{}{}", out(&answer), err(&answer));
    let (ended, message) = running.end("TERM");
    assert_eq!(ended, Some(0), "{message}");
    Some((message, out(&looked)))
}

#[test]
fn where_shared_memory_cannot_be_used_khz_runs_without_files_and_says_what_is_lost() {
    let lost = "is recorded in memory without a name, which ends with this process: nothing is left to be read after a crash";
    for (name, prepare) in [
        ("read-only", "mount -o remount,ro /dev/shm"),
        ("no-folder", "umount /dev/shm && mount -t tmpfs -o ro none /dev"),
        ("full", "mount -o remount,size=16k /dev/shm"),
    ] {
        let Some((message, _)) = in_own_shm(name, prepare, "ls") else { return };
        assert!(message.contains(lost), "{name}: {message}");
    }
}

#[test]
fn another_user_who_was_first_in_dev_shm_neither_stops_roots_khz_nor_has_it_write_elsewhere() {
    let victim = place("victim");
    let precious = victim.join("precious");
    fs::create_dir_all(&precious).unwrap();
    let names = || fs::read_dir(&precious).unwrap().count();
    let (other, precious_text) = (OTHER, precious.to_str().unwrap());
    for (name, prepare) in [
        ("other-directory", format!("mkdir -m 777 /dev/shm/khz && chown {other} /dev/shm/khz")),
        ("other-node", format!("mkdir -p /dev/shm/khz/n1 && chown -R {other} /dev/shm/khz")),
        ("other-inner", format!("mkdir -p /dev/shm/khz/n1 && chown {other} /dev/shm/khz/n1")),
        ("link", format!("ln -s {precious_text} /dev/shm/khz && chown -h {other} /dev/shm/khz")),
        ("inner-link", format!("mkdir /dev/shm/khz && ln -s {precious_text} /dev/shm/khz/n1")),
        ("file", format!("touch /dev/shm/khz && chown {other} /dev/shm/khz")),
    ] {
        let Some((message, found)) =
            in_own_shm(name, &prepare, "find shm/ -type f -name '*.ring' 2>/dev/null")
        else {
            return;
        };
        assert!(
            message.contains("is not safe for rings") && message.contains("in memory without a name"),
            "{name}: {message}"
        );
        assert_eq!((names(), found.as_str()), (0, ""), "{name}");
    }
}

#[test]
fn without_older_rings_khz_uses_dev_shm_and_leaves_nothing_there() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("only root mounts");
    }
    let root = place("nobody");
    let message = root.join("said");
    let script = format!(
        "mount -t tmpfs -o mode=1777 none /dev/shm && {{ \"$@\" > {message} 2>&1 & }}
         khz=$!
         while kill -0 $khz && ! grep -q Kilohertz {message}; do sleep 0.05; done
         ls /dev/shm/khz/n1; kill -TERM $khz; wait $khz; echo ended $?; ls -A /dev/shm",
        message = message.display()
    );
    let inner =
        khz(&["--listen", "127.0.0.1:0", "--node", "n1", "--ring", "1MiB", "--root", root.to_str().unwrap()]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_remove("KHZ_RING_DIR").env("KHZ_RUN_DIR", root.join("run")).env("KHZ_TEXT_LISTEN", "none");
    let output = command.output().unwrap();
    let text = out(&output);
    assert_eq!(
        text.split_whitespace().collect::<Vec<_>>(),
        ["base.ring", "local.ring", "snapshot", "ended", "0"],
        "{}",
        err(&output)
    );
}
