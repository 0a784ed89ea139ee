//! A program that is run for each row, one at a time, with the row as JSON on its stdin. Rows wait while it runs, up to a limit.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use khz_model::Nanos;

use crate::command::watch::{Change, Line, Printer, row_json};
use crate::show::outcome::Failure;
use crate::show::table::{json_line, remark};

/// Rows that wait while the program runs; of more, the oldest are left out.
const ROWS_WAITING_MAX: usize = 64;

/// The program, and the rows that wait for it.
pub struct Exec {
    shared: Arc<Shared>,
    runner: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Default)]
struct Waiting {
    rows: VecDeque<String>,
    left_out: u64,
    is_over: bool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next row; `None`: there is none any more. Also returns how many were left out before it.
    fn next(&self) -> Option<(String, u64)> {
        let idle = |waiting: &mut Waiting| waiting.rows.is_empty() && !waiting.is_over;
        let waited = self.bell.wait_while(self.waiting(), idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let row = waiting.rows.pop_front()?;
        Some((row, std::mem::take(&mut waiting.left_out)))
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
        let rows = shared.clone();
        let run = move || {
            while let Some((row, left_out)) = rows.next() {
                if left_out > 0 {
                    remark!("{left_out} rows were left out: {program} takes longer than they come");
                }
                match run_once(&program, &arguments, &row) {
                    Ok(None) => {}
                    Ok(Some(problem)) => remark!("{program} {problem}"),
                    Err(error) => remark!("cannot run {program}: {error}"),
                }
            }
        };
        let runner = std::thread::Builder::new().name("exec".into()).spawn(run);
        let runner = runner.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
        Ok(Exec { shared, runner: Some(runner) })
    }

    /// Waits until the program has taken the last row.
    pub fn end(mut self) {
        self.shared.waiting().is_over = true;
        self.shared.bell.notify_all();
        if let Some(runner) = self.runner.take() {
            // A panic of the thread was printed when it happened.
            let _ = runner.join();
        }
    }
}

/// Runs the program for a row. Returns how it failed, if it did.
fn run_once(program: &str, arguments: &[String], row: &str) -> io::Result<Option<String>> {
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()?;
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
            waiting.left_out += 1;
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

    fn line(time: u64) -> Line<'static> {
        Line { node: "n1", time: Nanos::from_secs(time), columns: &[], shown: &[], lost: 0, rate: "1Hz" }
    }

    #[test]
    fn rows_run_one_after_the_other_and_the_oldest_are_left_out() {
        let path = std::env::temp_dir().join(format!("khz-exec-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let words = ["tee", "-a", path.to_str().unwrap()].map(str::to_owned);
        let mut exec = Exec::new(&words).unwrap();
        for time in 0..10 {
            exec.print(&line(time)).unwrap();
        }
        exec.end();
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
        let mut exec = Exec::new(&["true --ignored".to_owned()]).unwrap();
        exec.print(&line(1)).unwrap();
        exec.end();
        assert!(Exec::new(&[" ".to_owned()]).is_err());
    }

    #[test]
    fn of_too_many_rows_the_oldest_are_left_out() {
        let shared = Arc::new(Shared::default());
        let mut exec = Exec { shared: shared.clone(), runner: None };
        for time in 0..ROWS_WAITING_MAX as u64 + 3 {
            exec.print(&line(time)).unwrap();
        }
        let (first, left_out) = shared.next().unwrap();
        assert!(left_out == 3 && first.contains("\"3.000000000\""), "{first}");
        exec.end();
    }
}
