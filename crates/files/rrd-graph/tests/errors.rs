//! Wrong arguments beside rrdtool: what it prints, its error text and its exit code.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASES: &str = include_str!("errors.txt");
const RANGE: &str = "-s 1000200000 -e 1000230000 DEF:a=t.rrd:a:AVERAGE";

fn run(program: &str, folder: &Path, line: &str) -> Output {
    let mut command = Command::new(program);
    command.args(line.split(' ')).current_dir(folder).env("TZ", "UTC").env("LC_ALL", "C");
    command.env("FONTCONFIG_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fonts.conf"));
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; install Debian's package `rrdtool`"))
}

fn filled() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-errors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let create = "create t.rrd --start 1000200000 --step 300 DS:a:GAUGE:900:U:U RRA:AVERAGE:0.5:1:200";
    assert!(run("rrdtool", &folder, create).status.success());
    let sample = |row: u64| format!(" {}:{}", 1_000_200_000 + 300 * row, row * 7 % 41);
    let update = format!("update t.rrd{}", (1..100).map(sample).collect::<String>());
    assert!(run("rrdtool", &folder, &update).status.success());
    folder
}

/// What a program said, and how it ended. The time of a run may be in what is printed, so seconds are left out.
fn said(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn wrong_arguments_are_answered_as_by_rrdtool() {
    let folder = filled();
    let (mut compared, mut different) = (0, vec![]);
    for case in CASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (is_exception, line) = match case.strip_prefix("~ ").and_then(|rest| rest.split_once(" | ")) {
            Some((_, line)) => (true, line),
            None => (false, case),
        };
        let line = line.replace('@', RANGE);
        let ours = said(&run(env!("CARGO_BIN_EXE_khz-rrd-graph"), &folder, &line));
        compared += 1;
        if is_exception {
            assert!(ours.1.starts_with("ERROR: ") && ours.2 == Some(1), "{line}: {ours:?}");
            continue;
        }
        let theirs = said(&run("rrdtool", &folder, &line));
        if theirs != ours {
            different.push(format!("{line}\n  rrdtool: {theirs:?}\n     ours: {ours:?}"));
        }
    }
    assert!(compared > 300);
    assert!(different.is_empty(), "{} of {compared} differ\n{}", different.len(), different.join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}
