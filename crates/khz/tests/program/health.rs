//! `khz health`: an agent's shared memory says whether the node is healthy; where nothing is known, it is not.

use std::process::Output;
use std::time::Duration;

use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;

const PATIENCE: Duration = Duration::from_secs(60);

fn health(place: &Place, words: &[&str]) -> Output {
    let mut command = khz(&[&["health"], words].concat());
    command.env("KHZ_NODE", "n1").env("KHZ_RING_DIR", place.0.join("rings")).output().unwrap()
}

/// An agent whose hub is not there: nobody needs one.
fn agent(place: &Place) -> Running {
    let words = ["agent", "--node", "n1", "--hub", "127.0.0.1:9", "--sources", "loadavg,meminfo,uptime"];
    let mut command = khz(&words);
    command.env("KHZ_RING_DIR", place.0.join("rings")).env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

#[test]
fn a_node_is_healthy_if_all_conditions_are_true_of_its_latest_values() {
    let place = Place::new("health");
    let nobody = health(&place, &[]);
    assert_eq!(code(&nobody), 3, "without an agent nothing is known: {}", out(&nobody));
    assert!(out(&nobody).starts_with("unknown: no agent: "), "{}", out(&nobody));
    // Other agents may have their shared memory at the usual places: they are not this node.
    let mut elsewhere = khz(&["health", "--node", "nobody-has-this-name"]);
    let elsewhere = elsewhere.env_remove("KHZ_RING_DIR").output().unwrap();
    assert_eq!(code(&elsewhere), 3);
    assert!(out(&elsewhere).contains("/nobody-has-this-name/snapshot"), "{}", out(&elsewhere));
    let agent = agent(&place);
    until(PATIENCE, "the node is healthy", || code(&health(&place, &[])) == 0);
    let well = health(&place, &["mem.available > 1KiB and load.1m >= 0", "--json"]);
    assert_eq!(code(&well), 0, "{}", out(&well));
    assert!(out(&well).contains("\"health\":\"healthy\""), "{}", out(&well));
    let ill = health(&place, &["mem.available > 1KiB", "mem.total < 1KiB"]);
    assert_eq!(code(&ill), 1, "{}", out(&ill));
    assert!(
        out(&ill).starts_with("unhealthy: mem.total is ") && out(&ill).contains("(must be mem.total < 1KiB)"),
        "{}",
        out(&ill)
    );
    assert_eq!(out(&ill).lines().count(), 1);
    // What is not there is neither.
    let no_series = ["disk.io_now[nosuch] < 9"];
    assert_eq!(code(&health(&place, &no_series)), 3);
    assert_eq!(code(&health(&place, &["disk.io_now[nosuch] < 9", "--unknown", "unhealthy"])), 1);
    assert_eq!(code(&health(&place, &["disk.io_now[nosuch] < 9", "--unknown", "healthy"])), 0);
    let both = health(&place, &["disk.io_now[nosuch] < 9", "mem.total < 1KiB", "--unknown", "healthy"]);
    assert_eq!(code(&both), 1, "what is false decides: {}", out(&both));
    let wrong = health(&place, &["mem.total"]);
    assert!(code(&wrong) == 2 && err(&wrong).contains("compares nothing"), "{}", err(&wrong));
    let late = out(&health(&place, &["mem.total > 1KiB", "--age", "1us"]));
    assert!(
        late.contains("ms old, and may be 1us old") || late.contains("s old, and may be 1us old"),
        "{late}"
    );
    assert!(!late.contains("is 0s old"), "{late}");
    // An agent that has ended says nothing any more.
    agent.end("TERM");
    let after = health(&place, &[]);
    assert_eq!(code(&after), 3, "{}", out(&after));
}

#[test]
fn a_file_system_that_is_full_or_read_only_makes_a_node_unhealthy() {
    let place = Place::new("health-fs");
    let root = place.0.join("host");
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::create_dir_all(root.join("survey")).unwrap();
    std::fs::write(root.join("proc/loadavg"), "0.52 0.58 0.59 1/389 12345\n").unwrap();
    let line = |place: &str, read_only: u8, free: u64| {
        format!(
            "mountpoint {place} device=/dev/sda1 fstype=ext4 read_only={read_only} error=0 size=9000000 free={free} \
             available={free} files=64 files_free=60\n"
        )
    };
    let text = line("/", 0, 5_000_000) + &line("/scratch", 1, 20_000);
    std::fs::write(root.join("survey/filesystem"), text).unwrap();
    let words = ["agent", "--node", "n1", "--hub", "127.0.0.1:9", "--sources", "loadavg,filesystem"];
    let mut command = khz(&[&words[..], &["--root", root.to_str().unwrap()]].concat());
    command.env("KHZ_RING_DIR", place.0.join("rings")).env("KHZ_RUN_DIR", place.0.join("run"));
    let _agent = Running::of(command);
    let well = ["fs.available[%2F] > 1MB and fs.read_only[%2F] < 1"];
    until(PATIENCE, "the node is healthy", || code(&health(&place, &well)) == 0);
    for condition in ["fs.available[*] > 1MB", "fs.read_only[%2Fscratch] < 1"] {
        let ill = health(&place, &[condition]);
        assert_eq!(code(&ill), 1, "{}", out(&ill));
        assert!(out(&ill).contains("[/scratch] is "), "{}", out(&ill));
    }
}

#[test]
fn an_unhealthy_node_drains_by_a_configured_action_which_is_dry_unless_it_says_otherwise() {
    let place = Place::new("health-drain");
    let scontrol = place.file(
        "scontrol",
        "#!/bin/sh\ncase \"$*\" in *'show node n1') echo NodeName=n1 State=IDLE ;; *) echo \"$@\" >> \"$0.told\" ;; esac\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&scontrol, mode).unwrap();
    let text = |dry: bool| {
        format!(
            "[health]\nconditions = [\"mem.total < 1KiB\"]\non_unhealthy = \"out\"\n\
             [actions.out]\ndrain = {{ scontrol = \"{scontrol}\" }}\ndry_run = {dry}\n"
        )
    };
    let _agent = agent(&place);
    let told = || std::fs::read_to_string(format!("{scontrol}.told")).unwrap_or_default();
    let config = place.file("khz.toml", &text(true));
    until(PATIENCE, "the node is unhealthy", || code(&health(&place, &["--config", &config])) == 1);
    let dry = health(&place, &["--config", &config]);
    assert!(err(&dry).contains("out: would run "), "{}", err(&dry));
    assert_eq!(told(), "");
    let config = place.file("khz.toml", &text(false));
    let done = health(&place, &["--config", &config]);
    assert_eq!(code(&done), 1, "{}", err(&done));
    assert!(err(&done).contains("out: n1 drains: khz: mem.total is "), "{}", err(&done));
    assert!(told().starts_with("update NodeName=n1 State=DRAIN Reason=khz: mem.total is "), "{}", told());
    let unknown = health(&place, &["--on-unhealthy", "nobody"]);
    assert!(code(&unknown) == 2 && err(&unknown).contains("no [actions.nobody]"), "{}", err(&unknown));
}
