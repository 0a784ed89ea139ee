//! One step of a chore: a command with its environment. Announces it, runs it in the project's root, and
//! times it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::skipped;

/// Lines of a program's output that are kept: what all tests print, and more.
const KEPT_LINES: usize = 100_000;
/// How long the last lines of a program that has ended may take.
const LAST_LINES: Duration = Duration::from_secs(5);

/// The project's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs `command` (words separated by blanks) with more words and environment; an error names it.
pub fn run(command: &str, more: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let mut words = command.split_whitespace();
    let program = words.next().ok_or("BUG: an empty step")?;
    let all: Vec<&str> = words.chain(more.iter().copied()).collect();
    run_program(program, &all, env)
}

/// The same for a program whose path may contain blanks.
pub fn run_program(program: &str, words: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let (mut command, shown) = announced(program, words, env);
    let start = Instant::now();
    let status = command.status().map_err(|e| format!("cannot run {program}: {e}"))?;
    eprintln!("== {:.0} s: {shown}", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

/// The same, and keeps the last lines that the program printed.
pub fn watched(
    program: &str,
    words: &[&str],
    env: &[(&str, &str)],
) -> Result<(ExitStatus, Vec<String>), String> {
    let (mut command, shown) = announced(program, words, env);
    let start = Instant::now();
    let failed = |e: std::io::Error| format!("cannot run {program}: {e}");
    // One pipe for both, so that their lines stay in order.
    let (output, end) = std::io::pipe().map_err(failed)?;
    command.stdout(end.try_clone().map_err(failed)?).stderr(end);
    let mut child = command.spawn().map_err(failed)?;
    // The command holds the ends for writing, and the output would have no end.
    drop(command);
    let kept = Arc::new(Mutex::new(VecDeque::new()));
    let reader = std::thread::spawn({
        let kept = kept.clone();
        move || show_and_keep(output, &kept)
    });
    let status = child.wait().map_err(failed)?;
    // A program that a test left running holds the pipe open, too.
    let ended = Instant::now();
    while !reader.is_finished() && ended.elapsed() < LAST_LINES {
        std::thread::sleep(Duration::from_millis(10));
    }
    eprintln!("== {:.0} s: {shown}", start.elapsed().as_secs_f64());
    let lines = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((status, lines.into()))
}

fn show_and_keep(output: impl Read, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        eprintln!("{line}");
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

fn announced(program: &str, words: &[&str], env: &[(&str, &str)]) -> (Command, String) {
    let mut command = Command::new(program);
    command.args(words).envs(env.iter().copied()).current_dir(root());
    command.env(skipped::VARIABLE, skipped::file());
    let shown = format!("{program} {}", words.join(" ")).trim().to_owned();
    eprintln!("\n== {shown}");
    (command, shown)
}
