//! The page-cache tools and the doctor as a user meets them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;

use std::path::Path;
use std::process::Command;

/// Exit code, output and errors of `khz-rrd` with `arguments`, run in `folder`.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    // A program that hangs must fail.
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_khz-rrd")]).args(arguments);
    let output = command.current_dir(folder).env("LC_ALL", "C").output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_that_is_not_ordinary_is_refused_at_once() {
    let folder = oracle::directory("fifo");
    make_fifo(&folder.join("fifo"));
    // Nobody writes into it: a tool that opens it like a file would wait for ever.
    for action in ["show", "drop"] {
        let told = run(&folder, &["cache", action, "fifo"]);
        assert_eq!(
            told,
            (Some(1), String::new(), "ERROR: 'fifo' is not an ordinary file\n".into()),
            "{action}"
        );
    }
    let (code, _, told) = run(&folder, &["cache", "show", "."]);
    assert_eq!((code, told.as_str()), (Some(1), "ERROR: '.' is not an ordinary file\n"));
}

#[test]
fn each_file_is_tried_and_each_failure_printed() {
    let folder = oracle::directory("each");
    std::fs::write(folder.join("a.rrd"), vec![1; 9000]).unwrap();
    let (code, shown, told) = run(&folder, &["cache", "show", "nope", "a.rrd", "nor this"]);
    assert_eq!(code, Some(1));
    assert!(shown.lines().count() == 1 && shown.ends_with("  a.rrd\n"), "{shown}");
    let missing = |name| format!("ERROR: opening '{name}': No such file or directory\n");
    assert_eq!(told, missing("nope") + &missing("nor this"));
}

#[test]
fn a_line_of_the_table_fits_a_terminal() {
    let folder = oracle::directory("width");
    std::fs::create_dir(folder.join("d")).unwrap();
    std::fs::write(folder.join("d/a.rrd"), vec![1; 400_000]).unwrap();
    let (code, shown, _) = run(&folder, &["cache", "show", "d/a.rrd"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains(" of ") && shown.trim_end().chars().count() <= 80, "{shown}");
}

#[test]
fn the_doctor_distinguishes_an_empty_directory_from_unreadable_files() {
    let folder = oracle::directory("doctor");
    let (code, told, _) = run(&folder, &["doctor", "."]);
    assert_eq!(code, Some(0));
    assert!(told.contains("there are no .rrd files here\n"), "{told}");
    std::fs::write(folder.join("a.rrd"), "no such thing").unwrap();
    let (_, told, _) = run(&folder, &["doctor", "."]);
    assert!(told.contains("there are 1 .rrd files; none of those opened could be read\n"), "{told}");
    assert_eq!(told.lines().find(|line| line.chars().count() > 80), None);
}
