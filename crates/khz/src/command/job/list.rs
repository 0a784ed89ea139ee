//! `khz job list` and `khz job show`: the jobs of a hub, as a table, and one of them with its runs.

use std::io::Write;

use clap::Args;
use khz_ask::JobAnswer;
use khz_model::Nanos;
use khz_model::calendar::utc;
use khz_model::hostlist::Hostlist;
use serde_json::json;

use crate::command::past::{moment, now};
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Outcome};
use crate::show::quantities::of_whole_span;
use crate::show::table::{Side, Table, cut, json_line, printable, remark};
use crate::show::terminal;

/// Letters of a name or a list of nodes that a table shows; `--json` has all.
const NAME_CHARS_MAX: usize = 40;
/// The default number of listed jobs.
const LISTED: u64 = 100;

pub const LIST_EXAMPLES: &str = "\
Examples:
  khz job list                      the last 100 jobs, the newest first
  khz job list --running            only those that run
  khz job list --user ann --last 5  the last five of ann
  khz job list --on node7 --at '2026-11-21 14:03'
                                    what ran on node7 at that time
  khz job list --json               one object a line

A job that was requeued has a line for each run. RAN is how long it ran, or has
run until now. HOW says how it ended; `lost` means that nobody has said so, and
that a later run of this job began. Where the hub's configuration says
visible = \"own\", readers see only their own jobs.";

pub const SHOW_EXAMPLES: &str = "\
Examples:
  khz job show 4711                 nodes, user, times, how it ended
  khz job show 4711 --json          one object a run";

/// `khz job list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Only jobs of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only jobs on this node.
    #[arg(long, value_name = "NODE")]
    on: Option<String>,
    /// Only jobs that run.
    #[arg(long, conflicts_with = "ended")]
    running: bool,
    /// Only jobs that have ended.
    #[arg(long)]
    ended: bool,
    /// Only jobs that ran at this time: '2026-11-21 14:03:20' (local time), -1h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// At most this many, the newest ones.
    #[arg(long, value_name = "N", default_value_t = LISTED, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    last: u64,
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

/// `khz job show`.
#[derive(Debug, Args)]
pub struct ShowFlags {
    /// The id of the job.
    #[arg(value_name = "JOB")]
    id: String,
    /// One JSON object a run.
    #[arg(long)]
    json: bool,
    /// Where to ask.
    #[command(flatten)]
    target: Target,
    /// The settings.
    #[command(flatten)]
    settings: ReaderFlags,
}

/// Lists jobs.
pub fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let at = flags.at.as_deref().map(|text| moment("at", text)).transpose()?;
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let state = match (flags.running, flags.ended) {
        (true, _) => "running",
        (_, true) => "ended",
        _ => "all",
    };
    let mut parameters = vec![("state", state.to_owned()), ("last", flags.last.to_string())];
    parameters.extend(flags.user.map(|user| ("user", user)));
    parameters.extend(flags.on.map(|node| ("node", node)));
    parameters.extend(at.map(|at| ("at", at.seconds_text())));
    let answer = flags.target.running(&plan)?.jobs(&parameters)?;
    if flags.json {
        for job in &answer.jobs {
            writeln!(out, "{}", json_line(&json!(job)))?;
        }
    } else if answer.jobs.is_empty() {
        remark!("there is no such job: docs/jobs.md says how a hub hears of jobs");
    } else {
        write!(out, "{}", table(&answer.jobs, now()).render(terminal::width()))?;
    }
    out.flush()?;
    if !answer.kept {
        remark!("the hub forgets its jobs when it ends: it has no state directory (--state-dir)");
    }
    Ok(Done::Wholly)
}

/// Shows a job.
pub fn show(flags: ShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    khz_job::check_id(&flags.id).map_err(crate::show::outcome::Failure::usage)?;
    let runs = flags.target.running(&plan)?.job(&flags.id)?;
    for (number, job) in runs.iter().enumerate() {
        if flags.json {
            writeln!(out, "{}", json_line(&json!(job)))?;
        } else {
            let gap = if number > 0 { "\n" } else { "" };
            write!(out, "{gap}{}", text(job, now()))?;
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn table(jobs: &[JobAnswer], now: Nanos) -> Table {
    let titles = [
        ("JOB", Side::Left),
        ("USER", Side::Left),
        ("NAME", Side::Left),
        ("COUNT", Side::Right),
        ("NODES", Side::Left),
        ("BEGAN", Side::Right),
        ("RAN", Side::Right),
        ("HOW", Side::Left),
    ];
    let mut table = Table::new(&titles, 4).yielding(2);
    for job in jobs {
        let began = now.since(job.begin_time()).as_secs_f64();
        table.row([
            id(job),
            cut(&job.user, NAME_CHARS_MAX).to_owned(),
            cut(&job.name, NAME_CHARS_MAX).to_owned(),
            count(job).to_string(),
            cut(&job.nodes, NAME_CHARS_MAX).to_owned(),
            format!("{} ago", of_whole_span(began)),
            ran(job, now),
            how(job),
        ]);
    }
    table
}

/// `4712 (4711_2)`: a task of an array.
fn id(job: &JobAnswer) -> String {
    if job.alias.is_empty() { job.id.clone() } else { format!("{} ({})", job.id, job.alias) }
}

fn count(job: &JobAnswer) -> u64 {
    Hostlist::new(&job.nodes).ok().and_then(|nodes| nodes.names()).unwrap_or_default()
}

fn ran(job: &JobAnswer, now: Nanos) -> String {
    of_whole_span(job.end_time().unwrap_or(now).since(job.begin_time()).as_secs_f64())
}

/// `running`, `exit 0`, `lost`, `ended`.
fn how(job: &JobAnswer) -> String {
    match (&job.end, &job.outcome) {
        (None, _) => "running".to_owned(),
        (Some(_), Some(outcome)) => outcome.clone(),
        (Some(_), None) => "ended".to_owned(),
    }
}

fn text(job: &JobAnswer, now: Nanos) -> String {
    let or = |text: &str| if text.is_empty() { "not known".to_owned() } else { printable(text) };
    let uid = job.uid.map(|uid| format!(" ({uid})")).unwrap_or_default();
    let end = job.end_time().map_or_else(
        || format!("it runs, for {}", ran(job, now)),
        |end| format!("{}, after {}: {}", utc(end), ran(job, now), how(job)),
    );
    let source = match &*job.source {
        "seen" => "control groups of its nodes",
        _ => "a start that the hub was told of",
    };
    let lines = [
        ("job", printable(&id(job))),
        ("name", or(&job.name)),
        ("user", format!("{}{uid}", or(&job.user))),
        ("nodes", format!("{} ({})", printable(&job.nodes), count(job))),
        ("began", utc(job.begin_time()).to_string()),
        ("ended", printable(&end)),
        ("known by", source.to_owned()),
    ];
    lines.iter().map(|(name, text)| format!("{name:<9} {text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobAnswer {
        JobAnswer {
            id: "4711".into(),
            alias: String::new(),
            run: 1,
            name: "solve".into(),
            user: "ann".into(),
            uid: Some(1_001),
            nodes: "n[1-8]".into(),
            begin: "1700000000.000".into(),
            end: None,
            outcome: None,
            source: "told".into(),
        }
    }

    #[test]
    fn a_job_is_a_line_with_its_age_and_how_it_ended() {
        let now = Nanos::from_secs(1_700_003_661);
        let ended = JobAnswer { end: Some("1700000060.000".into()), outcome: Some("exit 3".into()), ..job() };
        let text = table(&[job(), ended], now).render(Some(120));
        let lines: Vec<&str> = text.lines().collect();
        for word in ["4711", "ann", "solve", "8", "n[1-8]", "1h 1m ago", "running"] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
        assert!(lines[2].contains("exit 3") && lines[2].contains("1m"), "{text}");
        let task = JobAnswer { alias: "4710_2".into(), ..job() };
        assert!(table(&[task], now).render(Some(120)).contains("4711 (4710_2)"));
    }

    #[test]
    fn a_job_is_shown_with_what_is_known_of_it() {
        let now = Nanos::from_secs(1_700_000_090);
        let shown = text(&JobAnswer { name: String::new(), ..job() }, now);
        for line in [
            "job       4711",
            "name      not known",
            "user      ann (1001)",
            "nodes     n[1-8] (8)",
            "began     2023-11-14",
            "ended     it runs, for 1m 30s",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
}
