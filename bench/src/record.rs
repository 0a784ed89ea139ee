//! The record of a run: everything printed is also written to `bench/runs/DATE-NAME/`, with every raw sample,
//! the machine and the versions. Never overwrites an earlier run.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use khz_model::calendar::Civil;

use crate::error::BenchError;
use crate::machine;
use crate::pairs::Turns;
use crate::progress::Progress;
use crate::section::{Section, in_words};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Most runs of one name in a day; beyond it somebody has to tidy up.
const RUNS_A_DAY_MAX: u32 = 1000;

/// The effort: a full run, or a quick one.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// A quick run: few pairs, short batches, never a claim.
    pub quick: bool,
}

impl Effort {
    /// How many pairs A B B A.
    pub fn pairs(self) -> usize {
        self.of(10, 3)
    }

    /// The value for a full run, or for a quick one.
    pub fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The bound that a promise sets for a ratio.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// The ratio must be at least this.
    AtLeast(f64),
    /// The ratio must be at most this.
    AtMost(f64),
    /// No promise; the figure is only stated.
    Stated,
}

/// A run that is being recorded.
pub struct Record {
    /// Full or quick.
    pub effort: Effort,
    directory: PathBuf,
    samples: BufWriter<File>,
    summary: String,
    verdicts: Vec<[String; 5]>,
    /// The same for programs: one line for each verdict, with unrounded figures.
    verdict_lines: String,
    section: &'static str,
    progress: Progress,
}

impl Record {
    /// Opens `runs/DATE-NAME/`, or `…-2` when that exists, and describes the machine there.
    pub fn open(runs: &Path, name: &str, effort: Effort) -> Result<Self, BenchError> {
        let date = today();
        let directory = fresh_directory(runs, &format!("{date}-{name}{}", effort.of("", "-quick")))?;
        let path = directory.join("samples.csv");
        let mut samples = BufWriter::new(File::create(&path).map_err(BenchError::file(&path))?);
        writeln!(samples, "section,case,who,turn,what,value").map_err(BenchError::file(&path))?;
        let mut record = Record {
            effort,
            directory,
            samples,
            summary: String::new(),
            verdicts: Vec::new(),
            verdict_lines: String::new(),
            section: "",
            progress: Progress::start(),
        };
        record.say(&format!("# {name}, {date}\n"));
        if effort.quick {
            record.say("A quick look: few pairs, short batches. Not a claim.\n");
        }
        let description = machine::describe();
        record.store("machine.json", &format!("{description:#}\n"))?;
        record.say(&machine::in_words(&description));
        Ok(record)
    }

    /// Writes another file beside the samples.
    pub fn store(&self, name: &str, text: &str) -> Result<(), BenchError> {
        let path = self.directory.join(name);
        fs::write(&path, text).map_err(BenchError::file(&path))
    }

    /// Prints a paragraph and keeps it.
    pub fn say(&mut self, text: &str) {
        println!("{text}");
        self.summary.push_str(text);
        self.summary.push('\n');
    }

    /// Runs section `number` of `of`, and prints how long it took and how long it states.
    pub fn run(&mut self, section: &Section, number: usize, of: usize) -> Result<(), BenchError> {
        let stated = self.effort.of(section.seconds.0, section.seconds.1);
        self.section = section.name;
        self.progress.section(section.name, number, of, stated);
        let start = std::time::Instant::now();
        (section.run)(self)?;
        let took = start.elapsed().as_secs();
        let longer = if took > stated { ": longer" } else { "" };
        self.say(&format!("{} took {took} s; it states {}{longer}.\n", section.name, in_words(stated)));
        Ok(())
    }

    /// Prints the progress of the section; not kept.
    pub fn progress(&self, text: &str) {
        self.progress.step(text);
    }

    /// Prints a table and keeps it.
    pub fn show(&mut self, title: &str, table: &Table) {
        let text = table.render();
        println!("{title}\n\n{text}");
        self.summary.push_str(&format!("{title}\n\n```\n{text}```\n\n"));
    }

    /// Keeps one raw sample. A comma in a name would break the columns: none of ours has one.
    pub fn sample(&mut self, [section, case, who]: [&str; 3], turn: usize, what: &str, value: f64) {
        // The buffer keeps a write error, which shows when the run is closed.
        let _ = writeln!(self.samples, "{section},{case},{who},{turn},{what},{value}");
    }

    /// Keeps all batches of all contenders.
    pub fn turns(&mut self, section: &str, case: &str, turns: &[Turns]) {
        for who in turns {
            for (turn, batch) in who.batches.iter().enumerate() {
                let place = [section, case, &*who.name];
                self.sample(place, turn, "calls", batch.calls as f64);
                self.sample(place, turn, "wall_ns", batch.wall_ns as f64);
                self.sample(place, turn, "cpu_ns", batch.cpu_ns as f64);
            }
        }
    }

    /// Compares a ratio with its promise: the median decides, the quartiles are shown.
    pub fn verdict(&mut self, promise: &str, reached: Option<Spread>, bound: Bound) {
        let (sign, limit) = match bound {
            Bound::AtLeast(limit) => (">=", limit),
            Bound::AtMost(limit) => ("<=", limit),
            Bound::Stated => ("stated", f64::NAN),
        };
        let shown = if limit.is_nan() { String::from(sign) } else { format!("{sign} {}", figure(limit)) };
        let bare = if limit.is_nan() { String::new() } else { limit.to_string() };
        let figures = reached.map(|one| format!("{},{},{}", one.median, one.lower, one.upper));
        let figures = figures.unwrap_or_else(|| String::from(",,"));
        self.verdict_lines.push_str(&format!("{},{sign},{bare},{figures},{promise}\n", self.section));
        let Some(reached) = reached else {
            return self.verdicts.push([
                promise.into(),
                shown,
                "-".into(),
                "-".into(),
                "not measured".into(),
            ]);
        };
        let kept = match bound {
            Bound::AtLeast(limit) => reached.median >= limit,
            Bound::AtMost(limit) => reached.median <= limit,
            Bound::Stated => true,
        };
        self.verdicts.push([
            promise.to_owned(),
            shown,
            figure(reached.median),
            format!("{}..{}", figure(reached.lower), figure(reached.upper)),
            if matches!(bound, Bound::Stated) {
                ""
            } else if kept {
                "yes"
            } else {
                "NO"
            }
            .to_owned(),
        ]);
    }

    /// Shows all verdicts and writes the summary.
    pub fn close(mut self) -> Result<(), BenchError> {
        if !self.verdicts.is_empty() {
            let mut table = Table::new(&["promise", "to reach", "reached", "quartiles", "kept"]);
            for verdict in std::mem::take(&mut self.verdicts) {
                table.row(verdict);
            }
            self.show("## What was to be reached", &table);
        }
        self.say(&machine::load_in_words("Load when the run ended"));
        self.samples.flush().map_err(BenchError::file(self.directory.join("samples.csv")))?;
        let heads = "section,sign,limit,median,lower,upper,promise\n";
        self.store("verdicts.csv", &format!("{heads}{}", self.verdict_lines))?;
        self.store("summary.md", &self.summary)?;
        println!("kept in {}", self.directory.display());
        Ok(())
    }
}

fn fresh_directory(runs: &Path, name: &str) -> Result<PathBuf, BenchError> {
    fs::create_dir_all(runs).map_err(BenchError::file(runs))?;
    for number in 1..RUNS_A_DAY_MAX {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let directory = runs.join(format!("{name}{suffix}"));
        match fs::create_dir(&directory) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            result => return result.map(|()| directory.clone()).map_err(BenchError::file(directory)),
        }
    }
    Err(BenchError::Reply(format!("{RUNS_A_DAY_MAX} runs called {name} lie in {} already", runs.display())))
}

/// The date of today as `2026-11-21`, in UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let Civil { year, month, day, .. } = Civil::of_utc(seconds.try_into().unwrap_or_default());
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_is_never_overwritten() {
        let runs = std::env::temp_dir().join(format!("khz-bench-runs-{}", std::process::id()));
        let first = fresh_directory(&runs, "day-x").unwrap();
        let second = fresh_directory(&runs, "day-x").unwrap();
        assert_eq!((first, second), (runs.join("day-x"), runs.join("day-x-2")));
        fs::remove_dir_all(runs).unwrap();
    }
}
