//! Our program under the name `rrdtool` beside rrdtool, run once for each command: exit codes and both output streams,
//! which the pipe mode does not show.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output().unwrap()
}

/// Our program under the name `rrdtool`, in a directory of its own.
fn ours(folder: &Path) -> PathBuf {
    let program = folder.join("rrdtool");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_khz-rrd"), &program).unwrap();
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn listing_a_directory_is_rrdtools() {
    let folder = oracle::directory("list");
    let program = ours(&folder);
    for directory in ["d", "d/e", "d/e/f", "d/empty"] {
        std::fs::create_dir(folder.join(directory)).unwrap();
    }
    for file in ["x.rrd", "d/x.rrd", "d/y.txt", "d/e/z.rrd", "d/e/f/a.rrd"] {
        std::fs::write(folder.join(file), "").unwrap();
    }
    for arguments in [
        &["list", "/nope/nowhere"][..],
        &["list", "d/y.txt"],
        &["list", "d/x.rrd"],
        &["list", "./d/x.rrd"],
        &["list", "-r", "d/x.rrd"],
        &["list", "x.rrd"],
        &["list", "d/nope.rrd"],
        &["list", "-r", "/nope/nowhere"],
        &["list", "d"],
        &["list", "d/e/"],
        &["list", "-r", "d"],
        &["list", "--recursive", "d/e"],
        &["list", "d", "d"],
        &["list", "-x"],
    ] {
        let (theirs, ours) =
            (run(Path::new("rrdtool"), &folder, arguments), run(&program, &folder, arguments));
        assert_eq!(ours.status.code(), theirs.status.code(), "{arguments:?}");
        assert_eq!(text(&ours.stderr), text(&theirs.stderr), "{arguments:?}");
        // rrdtool's have the order of the directory.
        let sorted = |output: &Output| {
            let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_string).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&ours), sorted(&theirs), "{arguments:?}");
    }
    // Under its own name it says what failed, and fails.
    let said = run(Path::new(env!("CARGO_BIN_EXE_khz-rrd")), &folder, &["list", "/nope/nowhere"]);
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(text(&said.stderr), "ERROR: reading '/nope/nowhere': No such file or directory\n");
}

#[test]
fn an_unknown_command_fails() {
    let folder = oracle::directory("unknown");
    let program = ours(&folder);
    let own = Path::new(env!("CARGO_BIN_EXE_khz-rrd"));
    let said = |program: &Path, arguments: &[&str]| {
        let output = run(program, &folder, arguments);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for program in [program.as_path(), own] {
        for arguments in [&["graph"][..], &["graph", "a.png", "DEF:a=t.rrd:x:AVERAGE"], &["graphv", "--help"]]
        {
            let name = arguments[0];
            let told = format!("ERROR: {name} is in another crate; `khz rrd {name}` has it\n");
            assert_eq!(said(program, arguments), (Some(1), String::new(), told), "{arguments:?}");
        }
        let unknown = (Some(1), String::new(), "ERROR: unknown function 'foo'\n".to_string());
        assert_eq!(said(program, &["foo", "a"]), unknown);
    }
    assert_eq!(said(Path::new("rrdtool"), &["foo", "a"]).2, "ERROR: unknown function 'foo'\n");
    // For an unknown word alone rrdtool lists its commands, and so does ours under its name.
    assert_eq!(said(Path::new("rrdtool"), &["foo"]).0, Some(0));
    assert!(matches!(said(&program, &["foo"]), (Some(0), list, _) if list.contains("\n    create FILE ")));
    assert_eq!(said(own, &["foo"]).0, Some(1));
    for help in ["help", "--help", "-h"] {
        assert!(
            matches!(said(own, &[help]), (Some(0), list, _) if list.contains("\n    create FILE ")),
            "{help}"
        );
    }
}

#[test]
fn a_command_alone_prints_its_usage() {
    let folder = oracle::directory("usage");
    let program = ours(&folder);
    for arguments in [&["list"][..], &["create"], &["update"], &["help", "info"], &["help"], &[]] {
        let usage = |output: Output| {
            (output.status.code(), text(&output.stdout).lines().filter(|l| l.starts_with("Usage: ")).count())
        };
        let theirs = usage(run(Path::new("rrdtool"), &folder, arguments));
        assert_eq!(usage(run(&program, &folder, arguments)), theirs, "{arguments:?}");
    }
}

#[test]
fn the_pipe_answers_an_error_for_a_graph() {
    let folder = oracle::directory("pipe");
    let mut pipe = oracle::Oracle::start_program(env!("CARGO_BIN_EXE_khz-rrd"), &folder);
    for line in ["graph", "graph a.png DEF:a=t.rrd:x:AVERAGE"] {
        let reply = pipe.run(line);
        assert_eq!(
            reply.error.as_deref(),
            Some("graph is in another crate; `khz rrd graph` has it"),
            "{line}"
        );
        assert!(reply.output.is_empty(), "{line}");
    }
}

#[test]
fn a_new_file_never_takes_the_place_of_a_pipe() {
    use std::os::unix::fs::FileTypeExt;
    let folder = oracle::directory("pipe");
    let program = ours(&folder);
    let pipe = folder.join("p.rrd");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let create = ["create", "p.rrd", "--step", "1", "DS:a:GAUGE:2:U:U", "RRA:LAST:0:1:5"];
    let output = run(&program, &folder, &create);
    assert_eq!(output.status.code(), Some(1));
    let expected = "creating 'p.rrd': a device, pipe or socket has this name";
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
}
