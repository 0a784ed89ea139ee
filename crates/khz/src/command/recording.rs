//! A recording, opened for a command: its files, their contents, the chosen span and series. Damage is reported on stderr
//! and makes the exit code 1. A last chunk that is cut off is reported too, and is no damage.

use clap::Args;
use std::cell::Cell;
use std::path::PathBuf;

use khz_model::{Nanos, Pattern};
use khz_record::{ClockSet, RecordError, Recording, Survey};

use crate::command::job_nodes::{self, Named};
use crate::command::past::Span;
use crate::show::misses::{self, Listed};
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::quantities::{of_span, of_whole_span};

/// Clocks that were set are named up to this many.
const CLOCKS_SAID_MAX: usize = 10;

/// Which recording, and what of it.
#[derive(Debug, Args)]
pub struct Chosen {
    /// The recording: one file, or those of a rotation in their order.
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "patterns"])]
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
    /// True if the past is asked for, of a store: no recording is named, and a time is, or a job, which has a time.
    pub fn is_past(&self) -> bool {
        self.files.is_empty() && (self.from.is_some() || job_nodes::are_named(&self.patterns))
    }

    /// The span of the past that is asked for; without a time, that of the jobs.
    pub fn span(&self, named: &Named) -> Result<Span, Failure> {
        match (&self.from, named.span()) {
            (Some(from), _) => Span::of(from, self.to.as_deref()),
            (None, Some(span)) => match &self.to {
                Some(to) => Span::of(&span.from.seconds_text(), Some(to)),
                None => Ok(span),
            },
            (None, None) => Err(Failure::usage("say from when on, with --from")),
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
    let is_damaged = report(&survey).1;
    let Some((first, last)) = survey.span() else {
        return Err(without_rows(&chosen.files, is_damaged));
    };
    let after = |text: &Option<String>| -> Result<Option<Nanos>, Failure> {
        let span: Option<Nanos> = text.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
        Ok(span.map(|span| Nanos(first.0.saturating_add(span.0))))
    };
    let (from, to) = (after(&chosen.from)?.unwrap_or(first), after(&chosen.to)?.unwrap_or(last));
    if from >= to && first != last {
        return Err(Failure::usage("--from must be before --to, and before the recording's end"));
    }
    let opened = Opened { recording, survey, patterns, from, to, is_damaged, is_partly: Cell::new(false) };
    opened.check(&opened.patterns)?;
    Ok(opened)
}

/// Says on stderr what cannot be read; returns the first problem, and whether something is damaged.
pub fn report(survey: &Survey) -> (Option<String>, bool) {
    let problems: Vec<String> = survey.problems().into_iter().map(|problem| problem.to_string()).collect();
    for problem in &problems {
        crate::show::table::remark!("{problem}");
    }
    clocks(survey).iter().for_each(|line| crate::show::table::remark!("{line}"));
    let is_damaged = survey.reached.iter().any(|(_, reach)| reach.damages > 0);
    (problems.into_iter().next(), is_damaged)
}

/// A line for each clock that was set while a recording was made, and one for all that are too many.
fn clocks(survey: &Survey) -> Vec<String> {
    let Some((first, _)) = survey.span() else { return Vec::new() };
    let line = |set: &ClockSet| {
        let way = if set.ahead > 0 { "ahead of" } else { "behind" };
        let by = of_whole_span(Nanos(set.ahead.unsigned_abs()).as_secs_f64());
        let until = of_span(set.until.since(first).as_secs_f64());
        let node = &set.node;
        format!(
            "{node}: until {until} after the first row its clock was {by} {way} what it was set to; all times are by that"
        )
    };
    let mut lines: Vec<String> = survey.clocks.iter().take(CLOCKS_SAID_MAX).map(line).collect();
    if let more @ 1.. = survey.clocks.len().saturating_sub(CLOCKS_SAID_MAX) {
        lines.push(format!("{more} more clocks were set while this was recorded"));
    }
    lines
}

/// The failure of a command that has left damaged parts out.
pub fn damaged() -> Failure {
    Failure::work("parts of the recording are damaged and were left out")
}

/// The failure of a command whose recording has no row that can be read.
pub fn without_rows(files: &[PathBuf], is_damaged: bool) -> Failure {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let why = if is_damaged { "no row of it can be read: it is damaged" } else { "there are no rows in it" };
    Failure::work(format!("{}: {why}", names.join(", ")))
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
            return Err(damaged());
        }
        match self.is_partly.get() {
            true => Ok(Done::Partly { missing: Vec::new() }),
            false => Ok(Done::Wholly),
        }
    }
}
