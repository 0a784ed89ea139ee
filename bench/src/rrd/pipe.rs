//! rrdtool, or ours, in its pipe mode: it does one command after the other. Dropping it ends it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::BenchError;
use crate::program::failed;

/// The program.
pub struct Pipe {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Pipe {
    /// Starts this command line.
    pub fn start(words: &[impl AsRef<OsStr>]) -> Result<Self, BenchError> {
        let name = || words.iter().map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut process = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(name(), error))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(name(), "no pipes"));
        };
        Ok(Pipe { process, input: Some(input), output: BufReader::new(output) })
    }

    /// Updates a file with this sample.
    pub fn update(&mut self, path: &Path, sample: &str) -> Result<(), BenchError> {
        self.line(&format!("update {} {sample}", path.display()))
    }

    /// Does a command, and waits for its last line.
    pub fn line(&mut self, line: &str) -> Result<(), BenchError> {
        let Some(input) = &mut self.input else { return Err(failed("a pipe", "has ended")) };
        writeln!(input, "{line}").map_err(BenchError::file("the pipe"))?;
        loop {
            let mut answer = String::new();
            let length = self.output.read_line(&mut answer).map_err(BenchError::file("the pipe"))?;
            if answer.starts_with("OK") {
                return Ok(());
            }
            // Before it come the lines that the command prints.
            if length == 0 || answer.starts_with("ERROR") {
                return Err(BenchError::Reply(format!("{line}: {}", answer.trim())));
            }
        }
    }

    /// The bytes that the disk has read for it until now.
    pub fn bytes_read(&self) -> Result<u64, BenchError> {
        let io = format!("/proc/{}/io", self.process.id());
        let text = fs::read_to_string(&io).map_err(BenchError::file(&io))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
        bytes.ok_or_else(|| BenchError::Reply(format!("{io} has no read_bytes")))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.input = None; // it ends with its input
        let _ = self.process.wait();
    }
}
