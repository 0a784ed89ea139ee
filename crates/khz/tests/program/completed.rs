//! Tab in real shells: words come from the running khz, mean to the shell what they are, and nothing of them is executed.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{Running, code, err, khz, out, until};

const PATIENCE: Duration = Duration::from_secs(120);
/// As bash has them by default.
const BREAKS: &str = " \t\n\"'@><=;|&(:";

fn offered(running: &Running, shell: &str, words: &[&str]) -> Vec<String> {
    let output = running.beside(&[&["complete", shell, "--"], words].concat()).output().unwrap();
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    out(&output).lines().map(str::to_owned).collect()
}

fn has(shell: &str) -> bool {
    let has = Command::new(shell).args(["-c", "true"]).stdin(Stdio::null()).status().is_ok();
    if !has {
        khz_skip::skip(format!("{shell} is not installed"));
    }
    has
}

/// The script for a shell, in a file.
fn script(shell: &str) -> PathBuf {
    let name = format!("{}-khz.{shell}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, khz(&["completions", shell]).output().unwrap().stdout).unwrap();
    path
}

/// The folder of the program in front of PATH.
fn path() -> String {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_khz"));
    format!("{}:{}", folder.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default())
}

/// What an interactive shell prints that reads these keys.
fn typed(running: &Running, shell: &[&str], keys: &str) -> String {
    let mut like = running.beside(&[]);
    like.env("PATH", path()).env("TERM", "dumb").env("PS1", "").env("HOME", env!("CARGO_TARGET_TMPDIR"));
    let mut command = Command::new("script");
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command
        .args(["-qfec", &shell.join(" "), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn words_of_a_tab_come_from_the_running_khz() {
    let running = Running::start(&[]);
    // A busy machine may not answer in time; then there are fewer words.
    let comes = |shell: &str, words: &[&str], expected: &str| {
        until(PATIENCE, &format!("{words:?} goes on with {expected}"), || {
            offered(&running, shell, words).iter().any(|word| word == expected)
        });
    };
    comes("zsh", &["khz", "get", "mem.fre"], "mem.free");
    comes("zsh", &["khz", "get", "net.rx_bytes["], "net.rx_bytes[lo]");
    comes("zsh", &["khz", "watch", "n1:mem.fre"], "n1:mem.free");
    comes("zsh", &["khz", "nodes", "n"], "n1");
    comes("zsh", &["khz", "nodes", "x,n"], "x,n1");
    comes("fish", &["khz", "get", "'net.rx_bytes[l"], "net.rx_bytes[lo]");
    comes("bash", &["khz get net.rx_bytes\\[", BREAKS], "net.rx_bytes\\[lo\\]");
    comes("bash", &["khz get n1:mem.fre", BREAKS], "mem.free");
    comes("bash", &["khz wat", BREAKS], "watch");
    comes("bash", &["khz watch --so", BREAKS], "--sort");
    comes("bash", &["khz watch --sort ", BREAKS], "value");
}

#[test]
fn a_tab_is_silent_and_ends_well_when_nothing_runs_and_whatever_is_typed() {
    let lines = [
        "khz get n1:mem.fre",
        "khz get --server http://127.0.0.1:1 net.rx_bytes[",
        "khz --config /nonexistent get mem.",
        "khz get '\u{202e}$(touch x)",
        "khz get \"`",
        "khz 'rules' \\",
        "",
    ];
    for line in lines {
        let output = khz(&["complete", "bash", "--", line, BREAKS]).output().unwrap();
        assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{line}");
    }
    let own = khz(&["complete", "bash", "--", "khz get mem.fre", BREAKS]).output().unwrap();
    assert_eq!(out(&own), "mem.free\n", "this program's own metrics");
    for shell in ["bash", "zsh", "fish"] {
        let output = khz(&["complete", shell]).output().unwrap();
        assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{shell}");
    }
}

#[test]
fn bash_completes_words_in_and_without_quotes() {
    let running = Running::start(&[]);
    let script = script("bash");
    for (keys, expected) in [
        ("khz get mem.fre\t", "<get><mem.free>"),
        ("khz get n1:mem.fre\t", "<get><n1:mem.free>"),
        ("khz get 'n1:mem.fre\t", "<get><n1:mem.free>"),
        ("khz get net.rx_bytes\\[l\t", "<get><net.rx_bytes[lo]>"),
        ("khz get \"net.rx_bytes[l\t", "<get><net.rx_bytes[lo]>"),
        ("khz get --format=prop\t", "<get><--format=properties>"),
    ] {
        let whole =
            format!("source {}\nkhz() {{ printf '<%s>' \"$@\"; echo; }}\n{keys}\nexit\n", script.display());
        let shell = ["bash", "--norc", "--noprofile", "-i"];
        until(PATIENCE, keys, || typed(&running, &shell, &whole).contains(expected));
    }
}

#[test]
fn zsh_completes_words_in_and_without_quotes() {
    if !has("zsh") {
        return;
    }
    let running = Running::start(&[]);
    let script = script("zsh");
    for (keys, expected) in [
        ("khz get mem.fre\t", "<get><mem.free>"),
        ("khz get n1:mem.fre\t", "<get><n1:mem.free>"),
        ("khz get 'net.rx_bytes[l\t", "<get><net.rx_bytes[lo]>"),
        ("khz get net.rx_bytes\\[l\t", "<get><net.rx_bytes[lo]>"),
    ] {
        let whole = format!(
            "autoload -Uz compinit; compinit -u -D; source {}\n\
             khz() {{ printf '<%s>' \"$@\"; echo }}\n{keys}\nexit\n",
            script.display()
        );
        until(PATIENCE, keys, || typed(&running, &["zsh", "-f", "-i"], &whole).contains(expected));
    }
}

#[test]
fn fish_completes_words() {
    if !has("fish") {
        return;
    }
    let running = Running::start(&[]);
    let script = script("fish");
    for (line, expected) in [("khz get mem.fre", "mem.free"), ("khz get n1:mem.fre", "n1:mem.free")] {
        until(PATIENCE, line, || {
            let mut fish = running.beside(&[]);
            let home = env!("CARGO_TARGET_TMPDIR");
            fish.env("PATH", path()).env("HOME", home);
            // Fish makes what is not there, and other tests need a folder that is not.
            fish.env("XDG_CONFIG_HOME", home).env("XDG_DATA_HOME", home).env("XDG_CACHE_HOME", home);
            let mut command = Command::new("fish");
            for (name, value) in fish.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            let asked = format!("source {}; complete -C '{line}'", script.display());
            let output = command.args(["--no-config", "-c", &asked]).output().unwrap();
            out(&output).lines().any(|word| word.split('\t').next() == Some(expected))
        });
    }
}
