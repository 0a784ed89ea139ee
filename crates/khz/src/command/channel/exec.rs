//! A program that is run for each row, one at a time, with the row as JSON on its stdin. Rows wait while it runs, up to a limit. Its
//! first failure is printed, the others are counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_model::Nanos;

use crate::command::watch::{Change, Line, Printer, row_json};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{json_line, remark};

/// Rows that wait while the program runs; of more, the oldest are left out.
const ROWS_WAITING_MAX: usize = 64;

/// How long the program may take for the rows that wait when the command ends: who writes `--for 10s` does not want to wait for
/// minutes.
const END_MAX: Duration = Duration::from_secs(10);

/// The program, and the rows that wait for it.
pub struct Exec {
    program: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Default)]
struct Waiting {
    rows: VecDeque<String>,
    counts: Counts,
    /// No further row comes.
    is_over: bool,
    /// The program has a row, and in which process as soon as there is one.
    has_row: bool,
    process: Option<u32>,
}

/// What became of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// The program had them.
    run: u64,
    /// The program could not be run for them, or has failed.
    failed: u64,
    /// They waited too long.
    left_out: u64,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next row; `None`: there is none any more.
    fn next(&self) -> Option<String> {
        let idle = |waiting: &mut Waiting| waiting.rows.is_empty() && !waiting.is_over;
        let waited = self.bell.wait_while(self.waiting(), idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let row = waiting.rows.pop_front();
        waiting.has_row = row.is_some();
        row
    }

    /// Runs the program for each row, until there is none any more.
    fn run_all(&self, program: &str, arguments: &[String]) {
        while let Some(row) = self.next() {
            let problem = match run_once(program, arguments, &row, |id| self.waiting().process = Some(id)) {
                Ok(None) => None,
                Ok(Some(problem)) => Some(format!("{program} {problem}")),
                Err(error) => Some(format!("cannot run {program}: {error}")),
            };
            let mut waiting = self.waiting();
            (waiting.has_row, waiting.process) = (false, None);
            waiting.counts.run += 1;
            if let Some(problem) = problem {
                waiting.counts.failed += 1;
                if waiting.counts.failed == 1 {
                    remark!("{problem}; further failures are counted");
                }
            }
            self.bell.notify_all();
        }
    }
}

impl Exec {
    /// A program with its arguments; a single word with spaces is split at them.
    pub fn new(words: &[String]) -> Result<Self, Failure> {
        let words: Vec<String> = match words {
            [one] => one.split_whitespace().map(str::to_owned).collect(),
            several => several.to_vec(),
        };
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::usage("--exec needs a program"));
        };
        let (program, arguments) = (program.clone(), arguments.to_vec());
        let shared = Arc::new(Shared::default());
        let (rows, name) = (shared.clone(), program.clone());
        let runner =
            std::thread::Builder::new().name("exec".into()).spawn(move || rows.run_all(&program, &arguments));
        runner.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
        Ok(Exec { program: name, shared })
    }

    /// Gives the program some time for the rows that wait. Returns how the command ends, which followed the rows so far with this
    /// outcome.
    pub fn end(self, outcome: Outcome) -> Outcome {
        self.end_within(END_MAX, outcome)
    }

    fn end_within(self, time: Duration, outcome: Outcome) -> Outcome {
        let until = Instant::now() + time;
        let mut waiting = self.shared.waiting();
        waiting.is_over = true;
        self.shared.bell.notify_all();
        let is_busy = |waiting: &Waiting| !waiting.rows.is_empty() || waiting.has_row;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !is_busy(&waiting) || left.is_zero() {
                break;
            }
            let waited = self.shared.bell.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.counts.left_out += waiting.rows.drain(..).count() as u64;
        let running =
            waiting.has_row.then(|| waiting.process.map_or(String::new(), |id| format!(" (process {id})")));
        let counts = waiting.counts;
        drop(waiting);
        self.ended(counts, running, outcome)
    }

    /// How the command ends: rows for which the program failed are worse than those that it did not get.
    fn ended(&self, counts: Counts, running: Option<String>, outcome: Outcome) -> Outcome {
        let Counts { run, failed, left_out } = counts;
        let mut parts = Vec::new();
        if failed > 0 {
            parts.push(format!("{} could not be run or has failed for {failed} of {run} rows", self.program));
        }
        if left_out > 0 {
            parts
                .push(format!("{left_out} rows were left out: {} takes longer than they come", self.program));
        }
        if let Some(process) = running {
            parts.push(format!("{} still has a row, and goes on{process}", self.program));
        }
        let sentence = parts.join("; ");
        match outcome {
            Ok(Done::Wholly) if failed > 0 => Err(Failure::Work(sentence)),
            Ok(Done::Wholly) if !sentence.is_empty() => Ok(Done::Lacking { sentence }),
            outcome => {
                if !sentence.is_empty() {
                    remark!("{sentence}");
                }
                outcome
            }
        }
    }
}

/// Runs the program for a row. Returns how it failed, if it did.
fn run_once(
    program: &str,
    arguments: &[String],
    row: &str,
    started: impl Fn(u32),
) -> io::Result<Option<String>> {
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()?;
    started(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        // A program may end without reading.
        let _ = writeln!(stdin, "{row}");
    }
    let ended = child.wait()?;
    Ok((!ended.success()).then(|| format!("has failed ({ended})")))
}

impl Printer for Exec {
    fn window_min(&self) -> Nanos {
        Nanos(0)
    }

    fn print(&mut self, line: &Line<'_>) -> io::Result<()> {
        let row = json_line(&row_json(line));
        let mut waiting = self.shared.waiting();
        if waiting.rows.len() == ROWS_WAITING_MAX {
            waiting.rows.pop_front();
            waiting.counts.left_out += 1;
            if waiting.counts.left_out == 1 {
                remark!(
                    "a row was left out: {} takes longer than they come; further ones are counted",
                    self.program
                );
            }
        }
        waiting.rows.push_back(row);
        self.shared.bell.notify_all();
        Ok(())
    }

    fn change(&mut self, _: &Change<'_>) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::outcome::exit;

    fn line(time: u64) -> Line<'static> {
        Line { node: "n1", time: Nanos::from_secs(time), columns: &[], shown: &[], lost: 0, rate: "1Hz" }
    }

    fn exec(words: &[&str], rows: u64) -> Exec {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut exec = Exec::new(&words).unwrap();
        (0..rows).for_each(|time| exec.print(&line(time)).unwrap());
        exec
    }

    #[test]
    fn rows_run_one_after_the_other_and_all_of_them_before_the_end() {
        let path = std::env::temp_dir().join(format!("khz-exec-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let outcome = exec(&["tee", "-a", path.to_str().unwrap()], 10).end(Ok(Done::Wholly));
        assert_eq!(outcome.unwrap(), Done::Wholly);
        let text = std::fs::read_to_string(&path).unwrap();
        let _ = std::fs::remove_file(&path);
        let times: Vec<String> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].as_str().unwrap().into()
            })
            .collect();
        let expected: Vec<String> = (0..10).map(|time| Nanos::from_secs(time).seconds_text()).collect();
        assert_eq!(times, expected);
    }

    #[test]
    fn a_single_word_is_split_and_none_is_wrong_usage() {
        assert_eq!(exec(&["true --ignored"], 1).end(Ok(Done::Wholly)).unwrap(), Done::Wholly);
        assert!(Exec::new(&[" ".to_owned()]).is_err());
    }

    #[test]
    fn a_program_that_fails_or_cannot_be_run_is_the_end_with_exit_code_1() {
        for program in ["false", "/nonexistent/program"] {
            let (code, sentence) = exit(exec(&[program], 3).end(Ok(Done::Wholly)));
            assert_eq!(code, 1);
            let expected = format!("{program} could not be run or has failed for 3 of 3 rows");
            assert_eq!(sentence, Some(expected));
        }
        // What went wrong before stays the reason.
        let (_, sentence) = exit(exec(&["false"], 1).end(Err(Failure::work("the hub has gone"))));
        assert_eq!(sentence.as_deref(), Some("the hub has gone"));
    }

    #[test]
    fn a_program_that_takes_too_long_at_the_end_goes_on_and_the_rows_after_it_are_left_out() {
        let exec = exec(&["sleep", "1000"], 3);
        let shared = exec.shared.clone();
        let deadline = Instant::now() + Duration::from_secs(60);
        let id = loop {
            // The lock is let go before the next try.
            let running = shared.waiting().process;
            match running {
                Some(id) => break id,
                None => assert!(Instant::now() < deadline, "the program does not begin"),
            }
            std::thread::yield_now();
        };
        let (code, sentence) = exit(exec.end_within(Duration::ZERO, Ok(Done::Wholly)));
        assert_eq!(code, 3);
        let sentence = sentence.unwrap();
        assert!(sentence.starts_with("2 rows were left out"), "{sentence}");
        assert!(sentence.ends_with(&format!("and goes on (process {id})")), "{sentence}");
        assert!(Command::new("kill").arg(id.to_string()).status().unwrap().success());
    }

    #[test]
    fn of_too_many_rows_the_oldest_are_left_out() {
        let shared = Arc::new(Shared::default());
        let mut exec = Exec { program: "true".to_owned(), shared: shared.clone() };
        for time in 0..ROWS_WAITING_MAX as u64 + 3 {
            exec.print(&line(time)).unwrap();
        }
        let first = shared.next().unwrap();
        assert!(first.contains("\"3.000000000\""), "{first}");
        assert_eq!(shared.waiting().counts.left_out, 3);
    }
}
