//! A recording, opened for a command: its files, their contents, the chosen span and series. Damage is reported on stderr
//! and makes the exit code 1. A last chunk that is cut off is reported too, and is no damage.

use clap::Args;
use std::cell::Cell;
use std::path::PathBuf;

use khz_model::{Nanos, Pattern};
use khz_record::{RecordError, Recording, Survey};

use crate::command::past::Span;
use crate::show::misses::{self, Listed};
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Which recording, and what of it.
#[derive(Debug, Args)]
pub struct Chosen {
    /// The recording: one file, or those of a rotation in their order.
    #[arg(value_name = "FILE", required_unless_present = "from")]
    pub files: Vec<PathBuf>,
    /// Only these series: [NODES:]METRIC[INSTANCE]; may be given several times.
    #[arg(short = 'm', long = "match", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only from this time after the first row on: 5s. Without a FILE: from this moment on.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only to this time after the first row: 20s. Without a FILE: to this moment.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
}

impl Chosen {
    /// The span of the past that is asked for where no recording is named.
    pub fn past(&self) -> Result<Option<Span>, Failure> {
        match (&self.from, self.files.is_empty()) {
            (Some(from), true) => Span::of(from, self.to.as_deref()).map(Some),
            _ => Ok(None),
        }
    }
}

/// An opened recording.
pub struct Opened {
    /// The files.
    pub recording: Recording,
    /// What they hold.
    pub survey: Survey,
    /// The series; none means all.
    pub patterns: Vec<Pattern>,
    /// Only rows from here on, by the wall clock, and to here.
    pub from: Nanos,
    /// See `from`.
    pub to: Nanos,
    /// A part of it is damaged.
    is_damaged: bool,
    /// A pattern selects nothing in it; stderr has said so.
    is_partly: Cell<bool>,
}

/// Reads the recording once, and reports on stderr what cannot be read.
pub fn open(chosen: &Chosen) -> Result<Opened, Failure> {
    if chosen.files.is_empty() {
        return Err(Failure::usage("name a recording: this command does not read the store"));
    }
    let patterns = crate::command::patterns(&chosen.patterns)?;
    let recording = Recording::of(&chosen.files);
    let survey = Survey::of(&recording).map_err(of_error)?;
    for problem in survey.problems() {
        crate::show::table::remark!("{problem}");
    }
    let Some((first, last)) = survey.span() else {
        let names: Vec<String> = chosen.files.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::work(format!("{}: there are no rows in it", names.join(", "))));
    };
    let after = |text: &Option<String>| -> Result<Option<Nanos>, Failure> {
        let span: Option<Nanos> = text.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
        Ok(span.map(|span| Nanos(first.0.saturating_add(span.0))))
    };
    let (from, to) = (after(&chosen.from)?.unwrap_or(first), after(&chosen.to)?.unwrap_or(last));
    if from >= to && first != last {
        return Err(Failure::usage("--from must be before --to, and before the recording's end"));
    }
    let is_damaged = survey.reached.iter().any(|(_, reach)| reach.damages > 0);
    let opened = Opened { recording, survey, patterns, from, to, is_damaged, is_partly: Cell::new(false) };
    opened.check(&opened.patterns)?;
    Ok(opened)
}

/// The failure of a command whose file cannot be read or written.
pub fn of_error(error: RecordError) -> Failure {
    Failure::work(sentence(&error))
}

impl Opened {
    /// Checks that the patterns select something. Those that select nothing are named on stderr.
    pub fn check(&self, patterns: &[Pattern]) -> Result<(), Failure> {
        self.check_beside(patterns, &[])
    }

    /// The same, where other patterns select something already.
    pub fn check_beside(&self, patterns: &[Pattern], others: &[Pattern]) -> Result<(), Failure> {
        if patterns.is_empty() {
            return Ok(());
        }
        let listed =
            Listed::new(self.survey.lanes.iter().map(|lane| (&*lane.lane.node, lane.series.clone())));
        let misses = listed.misses(patterns);
        let sentences = misses::sentences(&misses, "in this recording");
        if listed.has_none(patterns) && others.is_empty() {
            return Err(Failure::Work(sentences.join("; ")));
        }
        for sentence in &sentences {
            crate::show::table::remark!("{}", sentence);
        }
        self.is_partly.set(self.is_partly.get() || !sentences.is_empty());
        Ok(())
    }

    /// True for a moment inside the chosen span.
    pub fn holds(&self, moment: Nanos) -> bool {
        self.from <= moment && moment <= self.to
    }

    /// How the command ends.
    pub fn end(&self) -> Outcome {
        if self.is_damaged {
            return Err(Failure::work("parts of the recording are damaged and were left out"));
        }
        match self.is_partly.get() {
            true => Ok(Done::Partly { missing: Vec::new() }),
            false => Ok(Done::Wholly),
        }
    }
}
