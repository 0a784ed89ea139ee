//! `khz why`: which node held a job up, and by what. `grid.rs` has the numbers of its nodes, `resources.rs` what they are, `finding.rs` who
//! is far from his peers, and `evidence.rs` the chart.

mod evidence;
mod finding;
mod grid;
mod resources;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use khz_ask::JobAnswer;
use khz_job::pattern;
use khz_model::calendar::utc;
use khz_model::{Nanos, Pattern, RangeShape};
use khz_view::Shape;
use serde_json::{Value, json};

use self::finding::{Finding, NODES_MIN, findings};
use self::grid::{Filling, Grid};
use self::resources::{Form, PUBLISHED, SERIES};
use crate::command::job_nodes;
use crate::command::past::{Asked, Span, now};
use crate::command::plot;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::of_whole_span;
use crate::show::table::{json_line, printable, remark};
use crate::show::terminal;

/// Examples for `khz why --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz why 4711                      in words, with the evidence in characters
  khz why 4711 -o why.html          the evidence as a page
  khz why 4711 --from -10m          only the last ten minutes of the job
  khz why 4711 --json               one object a line: the job, then each
                                    finding

A job needs three nodes: of two, nobody knows which one is odd.

Exit codes: 0 done, also if nothing was found; 1 the hub knows no such job, or
has no rows of its nodes; 2 wrong usage; 3 some of its nodes have no rows.";

/// Parts into which the time is divided, at most: minutes of two hours.
const PARTS_MAX: u64 = 120;
/// Points for each part that the store is asked for: its points do not begin where parts do.
const POINTS_A_PART: u64 = 4;
/// The shortest part: a survey of disks or control groups may be as old as that.
const PART_SECONDS_MIN: u64 = 10;
/// Findings that are printed.
const SHOWN_MAX: usize = 10;
/// Columns of a picture in characters, where the width of the terminal is unknown.
const COLUMNS: usize = 80;

/// `khz why`.
#[derive(Debug, Args)]
pub struct WhyFlags {
    /// The id of the job.
    #[arg(value_name = "JOB")]
    id: String,
    /// Only from this time on [default: the begin of the job].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only to this time [default: the end of the job, or now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Write the evidence into this file: .html, .svg or .png.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Where to ask.
    #[command(flatten)]
    target: Target,
    /// The settings.
    #[command(flatten)]
    settings: ReaderFlags,
}

/// Compares the nodes of the job, and says what it found.
pub fn run(flags: WhyFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let form = flags.output.as_deref().map(plot::Form::of).transpose()?;
    let (_, plan) = crate::command::plan(flags.settings.clone().over(outer))?;
    let job = job_nodes::last_run(&flags.target, &plan, &flags.id)?;
    let nodes = job_nodes::nodes(&job)?;
    if nodes.len() < NODES_MIN {
        let (count, id) = (nodes.len(), &job.id);
        return Err(Failure::work(format!(
            "job {id} has {count} nodes, and nodes are compared with their peers: {NODES_MIN} are needed (khz job top {id} shows its nodes)"
        )));
    }
    let span = span(&flags, &job)?;
    let seconds = span.to.since(span.from).0 / Nanos::SECOND.0;
    let parts = (seconds / PART_SECONDS_MIN).clamp(2, PARTS_MAX);
    // Minutes where that is possible: people read them.
    let parts = if seconds >= 1_800 { (seconds / 60).min(PARTS_MAX) } else { parts };
    let wanted = wanted(&job.id, &nodes)?;
    let shape = RangeShape::Points(u32::try_from(parts * POINTS_A_PART).unwrap_or(u32::MAX));
    let mut asked = Asked::ask(&flags.target, &plan, &wanted, span, shape)?;
    let parts = usize::try_from(parts).unwrap_or(2);
    let mut filling = Filling::new(&nodes, span, parts);
    while let Some(part) = asked.next_part()? {
        filling.take(&part);
    }
    let grid = filling.grid();
    if grid.rows.is_empty() {
        return Err(Failure::work(format!(
            "the hub has no rows of the nodes of job {} in its time: {} to {}",
            job.id,
            utc(span.from),
            utc(span.to)
        )));
    }
    let found = findings(&grid);
    let said = Said { job: &job, grid: &grid, span, parts };
    let chart = evidence::chart(&job.id, &grid, &found, span);
    match flags.json {
        true => said.objects(&found, out)?,
        false => said.words(&found, out)?,
    }
    match (&chart, form, &flags.output) {
        (Some(chart), Some(form), Some(path)) => {
            let bytes = form.write(chart, Shape::default())?;
            std::fs::write(path, bytes)
                .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))?;
        }
        (None, _, Some(path)) => remark!("{} is not written: there is nothing to show", path.display()),
        (Some(chart), ..) if !flags.json => {
            let width = terminal::width().unwrap_or(COLUMNS).min(200);
            write!(out, "\n{}", khz_view::strips(chart, width))?;
        }
        _ => {}
    }
    out.flush()?;
    let away = said.away();
    if away.is_empty() { Ok(Done::Wholly) } else { Ok(Done::Partly { missing: away }) }
}

/// The time of the job, or the part of it that the flags say.
fn span(flags: &WhyFlags, job: &JobAnswer) -> Result<Span, Failure> {
    let whole = Span { from: job.begin_time(), to: job.end_time().unwrap_or_else(now) };
    let to = flags.to.as_deref();
    let asked = match (&flags.from, to) {
        (None, None) => whole,
        (Some(from), to) => Span::of(from, to)?,
        (None, Some(_)) => Span::of(&whole.from.seconds_text(), to)?,
    };
    let span = Span { from: asked.from.max(whole.from), to: asked.to.min(whole.to) };
    if span.to.0.saturating_sub(span.from.0) < 2 * PART_SECONDS_MIN * Nanos::SECOND.0 {
        return Err(Failure::work(format!(
            "job {} ran for less than {} s of that time: too short to compare its nodes",
            job.id,
            2 * PART_SECONDS_MIN
        )));
    }
    Ok(span)
}

/// What is asked for.
fn wanted(id: &str, nodes: &[String]) -> Result<Vec<Pattern>, Failure> {
    let names = SERIES.iter().map(|(name, _)| *name).chain([PUBLISHED]);
    let patterns = names.map(|name| pattern::of_nodes(id, nodes, name).map_err(Failure::usage));
    Ok(patterns.collect::<Result<Vec<_>, _>>()?.concat())
}

/// What is said of the findings.
struct Said<'a> {
    job: &'a JobAnswer,
    grid: &'a Grid,
    span: Span,
    parts: usize,
}

impl Said<'_> {
    /// Nodes of which nothing is known in the whole time.
    fn away(&self) -> Vec<String> {
        let is_away = |node: &usize| !self.grid.sent[*node].contains(&true);
        let nodes = 0..self.grid.nodes.len();
        nodes.filter(is_away).map(|node| self.grid.nodes[node].clone()).collect()
    }

    fn time(&self, part: usize) -> Nanos {
        let length = self.span.to.0 - self.span.from.0;
        Nanos(self.span.from.0 + length / self.parts as u64 * part as u64)
    }

    fn words(&self, found: &[Finding], out: &mut impl Write) -> Result<(), Failure> {
        let (job, seconds) = (self.job, self.span.to.since(self.span.from).as_secs_f64());
        let count = self.grid.nodes.len();
        let end = if job.end.is_some() { "" } else { " and runs" };
        writeln!(out, "job {}: {count} nodes, {}{end}", printable(&job.id), of_whole_span(seconds))?;
        let Some((first, others)) = found.split_first() else {
            let names: Vec<&str> = self.grid.rows.iter().map(|row| &*row.name).collect();
            writeln!(out, "no node is far from its peers in {}", names.join(", "))?;
            return Ok(());
        };
        writeln!(out, "{} held it up most: {}", self.grid.nodes[first.node], self.sentence(first))?;
        for finding in others.iter().take(SHOWN_MAX - 1) {
            writeln!(out, "also {}: {}", self.grid.nodes[finding.node], self.sentence(finding))?;
        }
        if found.len() > SHOWN_MAX {
            writeln!(out, "and {} findings more (--json has all)", found.len() - SHOWN_MAX)?;
        }
        Ok(())
    }

    /// `io pressure: 78.0 % of the time tasks waited for a disk (the others 1.2 %), from 14:03:00 to 14:31:00, 28 of 60 parts`
    fn sentence(&self, finding: &Finding) -> String {
        let (first, end) = finding.stretch;
        let (from, to) = (self.time(first), self.time(end));
        let until = if end == self.parts { "to the end".to_owned() } else { format!("to {}", clock(to)) };
        let lasted = of_whole_span(to.since(from).as_secs_f64());
        let when = format!("from {} {until} ({lasted})", clock(from));
        match finding.row.map(|row| &self.grid.rows[row]) {
            None => format!("it sent no rows {when}"),
            Some(row) => format!(
                "{}: {} {}; the others: {}; {when}",
                printable(&row.name),
                number(finding.number, row.form),
                row.words,
                number(finding.others, row.form)
            ),
        }
    }

    fn objects(&self, found: &[Finding], out: &mut impl Write) -> Result<(), Failure> {
        let compared: Vec<&str> = self.grid.rows.iter().map(|row| &*row.name).collect();
        let whole = json!({
            "job": self.job,
            "from": self.span.from.seconds_text(),
            "to": self.span.to.seconds_text(),
            "nodes": self.grid.nodes.len(),
            "compared": compared,
            "findings": found.len(),
        });
        writeln!(out, "{}", json_line(&whole))?;
        for finding in found {
            writeln!(out, "{}", json_line(&self.object(finding)))?;
        }
        Ok(())
    }

    fn object(&self, finding: &Finding) -> Value {
        let row = finding.row.map(|row| &self.grid.rows[row]);
        let (first, end) = finding.stretch;
        json!({
            "node": self.grid.nodes[finding.node],
            "resource": row.map_or("rows", |row| &*row.name),
            "unit": row.map(|row| match row.form {
                Form::Share => "share",
                Form::Plain(unit) => unit,
            }),
            "value": row.map(|_| finding.number.to_string()),
            "others": row.map(|_| finding.others.to_string()),
            "far": format!("{:.1}", finding.far),
            "since": self.time(first).seconds_text(),
            "until": self.time(end).seconds_text(),
            "parts": finding.parts,
            "of_parts": self.parts,
            "score": format!("{:.3}", finding.score),
        })
    }
}

fn number(number: f64, form: Form) -> String {
    match form {
        Form::Share => format!("{:.1} %", number * 100.0),
        Form::Plain(_) if number.abs() >= 100.0 => format!("{number:.0}"),
        Form::Plain(_) => format!("{number:.2}"),
    }
}

/// The time of day in UTC.
fn clock(time: Nanos) -> String {
    format!("{} UTC", time.time_of_day())
}
