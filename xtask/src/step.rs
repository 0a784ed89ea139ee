//! One step of a chore: a command with its environment. Announces it, runs it in the project's root, and
//! times it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::skipped;

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
    let mut child = Command::new(program);
    child.args(words).envs(env.iter().copied()).current_dir(root());
    child.env(skipped::VARIABLE, skipped::file());
    let shown = format!("{program} {}", words.join(" "));
    eprintln!("\n== {}", shown.trim());
    let start = Instant::now();
    let status = child.status().map_err(|e| format!("cannot run {program}: {e}"))?;
    eprintln!("== {:.0} s: {}", start.elapsed().as_secs_f64(), shown.trim());
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown.trim())) }
}
