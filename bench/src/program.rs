//! The C programs: compiled here, kept running, and controlled line by line. Only programs built here are
//! compared.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::error::BenchError;
use crate::pairs::Batch;

/// How the C programs are compiled; also recorded in the description of the run.
pub const CC: [&str; 4] = ["cc", "-O2", "-Wall", "-Wextra"];

/// The folder of the C sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c")
}

/// Compiles `c/NAME.c` into `bench-c/` beside this program's own build and returns its path.
pub fn compile(name: &str) -> Result<PathBuf, BenchError> {
    compile_with(name, &[])
}

/// The same, linked with `libraries` (`-lNAME`).
pub fn compile_with(name: &str, libraries: &[&str]) -> Result<PathBuf, BenchError> {
    let directory = build_directory()?.join("bench-c");
    std::fs::create_dir_all(&directory).map_err(BenchError::file(&directory))?;
    let (source, target) = (sources().join(format!("{name}.c")), directory.join(name));
    let output = Command::new(CC[0])
        .args(&CC[1..])
        .arg("-o")
        .args([&target, &source])
        .args(libraries)
        .output()
        .map_err(|e| failed(format!("{} (Debian package gcc)", CC[0]), e))?;
    if !output.status.success() {
        return Err(failed(
            format!("{} {}", CC.join(" "), source.display()),
            String::from_utf8_lossy(&output.stderr),
        ));
    }
    Ok(target)
}

/// The directory `target/` of this program.
pub fn build_directory() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let profile = own.parent().and_then(Path::parent);
    Ok(profile.map(Path::to_path_buf).unwrap_or_else(std::env::temp_dir))
}

/// The error for a program that failed at its task.
pub fn failed(program: impl Into<String>, problem: impl ToString) -> BenchError {
    BenchError::Program { program: program.into(), problem: problem.to_string() }
}

/// A program that answers each line with a line. Dropping it ends it.
pub struct Program {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Compiles `c/NAME.c` and starts it.
    pub fn start(name: &str, arguments: &[&Path]) -> Result<Self, BenchError> {
        Self::start_with(name, arguments, &[])
    }

    /// The same for a program that needs `libraries` (`-lNAME`).
    pub fn start_with(name: &str, arguments: &[&Path], libraries: &[&str]) -> Result<Self, BenchError> {
        let path = compile_with(name, libraries)?;
        Self::of(name, Command::new(&path).args(arguments))
    }

    /// The same for a program in another language, which `command` starts.
    pub fn of(name: &str, command: &mut Command) -> Result<Self, BenchError> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| failed(name, e))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(name, "no pipes"));
        };
        let answers = BufReader::new(answers);
        Ok(Program { name: name.to_owned(), child, requests: Some(requests), answers })
    }

    /// Requests a batch of `request`, which takes `span`.
    pub fn batch(&mut self, request: &str, span: Duration) -> Result<Batch, BenchError> {
        let answer = self.ask(&format!("{request} {}", span.as_millis().max(1)))?;
        parse_batch(&answer).ok_or_else(|| self.refused(&answer))
    }

    /// Sends a line and returns the program's answer to it.
    pub fn ask(&mut self, request: &str) -> Result<String, BenchError> {
        let Some(requests) = self.requests.as_mut() else { return Err(failed(&self.name, "has ended")) };
        writeln!(requests, "{request}").map_err(|e| failed(&self.name, e))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|e| failed(&self.name, e))?;
        Ok(answer)
    }

    /// The error for an answer that is not of the form expected.
    pub fn refused(&self, answer: &str) -> BenchError {
        failed(&self.name, format!("answered '{}'", answer.trim()))
    }
}

/// Reads `CALLS WALL_NS CPU_NS`.
fn parse_batch(answer: &str) -> Option<Batch> {
    let mut numbers = answer.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let batch = Batch { calls: next()?, wall_ns: next()?, cpu_ns: next()? };
    (batch.calls > 0 && batch.cpu_ns > 0).then_some(batch)
}

impl Drop for Program {
    fn drop(&mut self) {
        self.requests = None; // the program ends with its input
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_three_numbers_or_nothing() {
        let batch = parse_batch("4173 1000000 999000\n").unwrap();
        assert_eq!((batch.calls, batch.wall_ns, batch.cpu_ns), (4173, 1_000_000, 999_000));
        for bad in ["", "1 2", "a b c", "0 1 1", "1 1 0"] {
            assert!(parse_batch(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_ladder_compiles_and_answers() {
        let mut ladder = Program::start("ladder", &[]).unwrap();
        for way in ["char", "block", "plain", "kept"] {
            let batch = ladder.batch(way, Duration::from_millis(2)).unwrap();
            assert!(batch.calls >= 8 && batch.wall_ns >= 2_000_000, "{way}: {batch:?}");
        }
        assert!(ladder.batch("fly", Duration::from_millis(1)).is_err());
    }
}
