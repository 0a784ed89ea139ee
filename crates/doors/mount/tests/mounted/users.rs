//! Several users in one tree: what one of them may set for the others.

use std::os::unix::process::CommandExt;
use std::process::Command;

use khz_model::Rate;

use crate::lab::{Lab, wait_until};

const VALUE: &str = "n0000/metrics/mem/free";
const NOBODY: u32 = 65_534;

/// `echo LINE > FILE` by a user; true when it succeeds.
fn echo(lab: &Lab, user: u32, line: &str, file: &str) -> bool {
    let file = lab.path(file);
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo \"$0\" 2>/dev/null > \"$1\"", line]).arg(file).uid(user).gid(user);
    shell.status().unwrap().success()
}

#[test]
fn root_and_the_mounts_owner_set_what_holds_for_everybody() {
    let lab = Lab::mounted_by(1_234, 1, |options| {
        options.ceiling = (Rate::from_hz(1_000).unwrap(), "operator".to_owned());
    });
    lab.read(VALUE).unwrap();
    let control = |name: &str| format!("n0000/.control/metrics/mem/free/{name}");
    let error = || lab.read(".control/error").unwrap();
    assert!(!echo(&lab, NOBODY, "1000Hz", &control("rate")), "others are readers");
    assert!(error().contains("1000Hz is beyond what this mount may ask for"), "{}", error());
    for (name, line) in [("rate", "50Hz"), ("range", "0 1"), ("change", "5%")] {
        let none = lab.read(&control(name)).unwrap();
        assert!(echo(&lab, NOBODY, line, &control(name)), "every user may write a line");
        wait_until("the error says so", || error().contains(&format!("{name}: only root")));
        assert_eq!(lab.read(&control(name)).unwrap(), none);
    }
    for (user, line) in [(0, "500Hz\n"), (1_234, "400Hz\n")] {
        assert!(echo(&lab, user, line.trim_end(), &control("rate")));
        wait_until("it holds", || lab.read(&control("rate")).unwrap() == line);
    }
    assert!(echo(&lab, NOBODY, "default", &control("rate")));
    wait_until("the error says so", || error().contains("rate: only root"));
    assert_eq!(lab.read(&control("rate")).unwrap(), "400Hz\n", "nor may they remove it");
}

#[test]
fn texts_that_are_made_at_a_read_can_be_copied() {
    let lab = Lab::new(1, |_| {});
    lab.read(VALUE).unwrap();
    let copy = std::env::temp_dir().join(format!("khz-mount-copy-{}", std::process::id()));
    for name in ["n0000/status", ".mount/stats", "n0000/.control/rate"] {
        // sendfile(2) asks how long a file is.
        std::fs::copy(lab.path(name), &copy).unwrap();
        let (copied, read) = (std::fs::read_to_string(&copy).unwrap(), lab.read(name).unwrap());
        assert_eq!(copied.lines().count(), read.lines().count(), "{name}: {copied:?}");
    }
    std::fs::remove_file(&copy).unwrap();
}
