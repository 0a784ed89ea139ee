//! A mount in the background: the same command again as a process of its own, which reports when the mount is ready.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::show::outcome::{Done, Failure, Outcome};

/// The line by which the process in the background reports that the mount is ready.
pub const READY: &str = "mounted";

/// Starts this command again as a process of its own, and waits until it reports that the mount is ready.
pub fn start() -> Outcome {
    let failed = |error: std::io::Error| Failure::work(format!("cannot start a process: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.trim_end() == READY {
        return Ok(Done::Wholly);
    }
    let mut problem = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            problem = line.strip_prefix("khz: ").unwrap_or(&line).to_owned();
        }
    }
    let _ = child.wait();
    if problem.is_empty() {
        problem = "the process in the background has ended, and gave no reason".to_owned();
    }
    Err(Failure::work(problem))
}
