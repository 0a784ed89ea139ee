//! Commands that read the kernel themselves, where a file system is mounted whose program answers nothing: they end.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::process::{err, khz, out};

/// The program's words, in namespaces of its own, beside a mounted file system that does not say its sizes. `None`: that cannot be had
/// here.
fn beside_hung_mount(name: &str, script: &str) -> Option<Output> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-hung-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let apart = ["-m", "-p", "-f", "--mount-proc", "--kill-child"];
    let can =
        Command::new("unshare").args(apart).args(["test", "-w", "/dev/fuse"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        khz_skip::skip("unshare or /dev/fuse: not allowed here");
        return None;
    }
    let own = khz(&[]);
    let mut command = Command::new("unshare");
    command.args(apart).args(["python3", "-B"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/hung_mount.py")).arg(&folder);
    command.args(["sh", "-c", script]).env("KHZ", env!("CARGO_BIN_EXE_khz")).env("FOLDER", &folder);
    let settings = own.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    command.envs(settings).stdin(Stdio::null());
    let output = command.output().unwrap();
    let _ = std::fs::remove_dir(&folder);
    Some(output)
}

/// None of the commands has left before the file system answers.
const LEFT: &str = "grep -l survey /proc/[0-9]*/task/*/comm | wc -l";

#[test]
fn commands_end_although_a_file_system_that_is_mounted_never_answers() {
    let script = format!(
        "$KHZ get load.1m --direct; echo code $?
         $KHZ watch load.1m --direct --for 100ms --json > /dev/null; echo code $?
         $KHZ check 'load.*' > /dev/null; echo code $?
         $KHZ record load.1m -o $FOLDER.khzt -- sh -c 'echo ran; exit 7'; echo code $?
         $KHZ record load.1m -o $FOLDER.2.khzt -- sh -c 'kill -TERM $$'; echo code $?
         {LEFT}; rm -f $FOLDER.khzt $FOLDER.2.khzt"
    );
    let Some(output) = beside_hung_mount("ends", &script) else { return };
    let printed = out(&output);
    assert!(output.status.success(), "{:?}: {printed}{}", output.status, err(&output));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[1].starts_with("load.1m"), "{printed}");
    let codes: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("code ")).collect();
    assert_eq!(codes, ["0", "0", "0", "7", "143"], "{printed}");
    assert!(lines.contains(&"ran"), "{printed}");
    let left: usize = lines.last().unwrap().parse().unwrap();
    assert!(left > 0, "nothing hangs in this test: {printed}");
}

#[test]
fn a_command_beside_such_a_file_system_says_what_does_not_answer() {
    let script = "$KHZ get \"fs.error[*$FOLDER*]\" --direct; echo code $?";
    let Some(output) = beside_hung_mount("says", script) else { return };
    let printed = out(&output);
    assert!(printed.contains("fs.error") && printed.ends_with("code 0\n"), "{printed}{}", err(&output));
    assert!(printed.lines().nth(1).unwrap().trim_end().ends_with(" 1"), "{printed}");
}
