//! `khz top`: its flags, and what it begins with. `run.rs` is the loop, `app.rs` the state, `draw.rs` the picture; `feed.rs` brings
//! live rows, `past.rs` those of the past.

mod app;
mod curve;
mod draw;
mod feed;
mod keys;
mod list;
mod list_screen;
mod look;
mod measures;
mod node;
mod node_screen;
mod numbers;
mod odd;
mod past;
mod pen;
mod processes;
mod prompt;
mod run;
mod series;
mod stderr;
mod table;
mod tape;
mod terminal;
#[cfg(test)]
mod tests;
mod waterfall;
mod world;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use khz_model::fold::by_name;
use khz_record::Recording;

use self::app::{App, Origin};
use self::look::Look;
use self::past::Source;
use self::run::{Begin, Run};
use crate::command::past::moment;
use crate::command::target::Target;
use crate::config::{NodeFlags, Plan, ReaderFlags};
use crate::role::apart;
use crate::show::outcome::{Failure, Outcome};
use crate::show::terminal as size;

const EXAMPLES: &str = "\
Examples:
  khz top                           this node, or the nodes of the hub here
  khz top node7                     one node of the cluster
  khz top 'node[1-8]' --server http://127.0.0.1:7070
                                    these nodes of a hub
  khz top run.khzt                  step through a recording
  khz top node7 --at '2026-11-21 14:03'
                                    that node at that time
  khz top --once --size 120x40      one picture as text, for a file or a mail

Without a terminal, and with --once, one picture is printed.

Variables: NO_COLOR (no colours), COLORTERM and TERM (how many there are),
LC_ALL, LC_CTYPE and LANG (without UTF-8 the charts are ASCII).";

/// What follows the flags in the help: the examples, and the keys.
pub fn help() -> String {
    format!("{EXAMPLES}\n\n{}", keys::text())
}

/// `khz top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// Nodes (node7, 'gpu*', node[1-8]), or the files of a recording.
    #[arg(value_name = "NODES|FILE")]
    pub what: Vec<String>,
    /// Samples of a node a second, at the start: 1, 10, 100 or 1000.
    #[arg(long, value_name = "RATE", default_value_t = 10, value_parser = rate)]
    pub rate: u16,
    /// Begin at this moment of the past: 14:03, '2026-11-21 14:03:20' (local time), -10m.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Print one picture as text, and end.
    #[arg(long)]
    pub once: bool,
    /// The size of that picture [default: of the terminal, or 80x24].
    #[arg(long, value_name = "COLUMNSxLINES", requires = "once", value_parser = picture_size)]
    pub size: Option<(u16, u16)>,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

fn rate(text: &str) -> Result<u16, String> {
    let number = text.strip_suffix("Hz").unwrap_or(text);
    match number.parse() {
        Ok(rate @ (1 | 10 | 100 | 1_000)) => Ok(rate),
        _ => Err("write 1, 10, 100 or 1000".to_owned()),
    }
}

/// The largest picture; no terminal is larger.
const SIDE_MAX: u16 = 1_000;

fn picture_size(text: &str) -> Result<(u16, u16), String> {
    let sides = text.split_once('x').and_then(|(wide, high)| Some((wide.parse().ok()?, high.parse().ok()?)));
    match sides {
        Some((wide @ 1..=SIDE_MAX, high @ 1..=SIDE_MAX)) => Ok((wide, high)),
        _ => Err(format!("write 80x24; a side has {SIDE_MAX} at most")),
    }
}

/// Finds out what is shown, and shows it.
pub fn run(flags: TopFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let at = flags.at.as_deref().map(at_moment).transpose()?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let look = Look::of(|name| std::env::var(name).ok());
    let is_screen = !flags.once && size::size().is_some();
    if is_screen && std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        let why = "this terminal (TERM=dumb) cannot be filled";
        return Err(Failure::usage(format!(
            "{why}: `khz top --once` prints one picture, `khz watch` prints rows"
        )));
    }
    let begin = match recording(&flags.what)? {
        Some(files) => of_recording(look, files)?,
        None => {
            // Before the terminal is taken: two processes would draw on it.
            apart::or_here(&plan.root)?;
            of_target(look, &flags.what, flags.target, plan)?
        }
    };
    let run = Run::new(begin, flags.rate, at)?;
    match is_screen {
        true => run.fill_terminal(),
        false => {
            let side = |side: usize| u16::try_from(side).unwrap_or(SIDE_MAX);
            let of_terminal = size::size().map_or((80, 24), |(wide, high)| (side(wide), side(high)));
            run.print_once(flags.size.unwrap_or(of_terminal), out)
        }
    }
}

/// A moment as people write it while they look at a clock: a time without a date is the last one of that time.
pub fn at_moment(text: &str) -> Result<khz_model::Nanos, Failure> {
    let text = text.trim();
    let is_time = text.len() <= 12
        && text.contains(':')
        && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
    if !is_time {
        return moment("at", text);
    }
    let today = moment("at", &format!("today {text}"))?;
    if today <= crate::command::past::now() { Ok(today) } else { moment("at", &format!("yesterday {text}")) }
}

/// The files, if the words are files; `None`: they are nodes.
fn recording(words: &[String]) -> Result<Option<Vec<PathBuf>>, Failure> {
    let is_file = |word: &&String| PathBuf::from(word).is_file();
    let means_file = |word: &&String| word.contains('/') || word.ends_with(".khzt");
    match words.iter().find(|word| !is_file(word)) {
        None => Ok((!words.is_empty()).then(|| words.iter().map(PathBuf::from).collect())),
        Some(missing) if means_file(&missing) => {
            Err(Failure::usage(format!("{missing}: there is no such file")))
        }
        Some(other) => match words.iter().find(is_file) {
            Some(file) => Err(Failure::usage(format!(
                "{file} is a file, and {other} is none: name the files of a recording, or nodes"
            ))),
            None => Ok(None),
        },
    }
}

fn of_recording(look: Look, files: Vec<PathBuf>) -> Result<Begin, Failure> {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let recording = Recording::of(&files);
    let survey = khz_record::Survey::of(&recording).map_err(crate::command::recording::of_error)?;
    let Some((first, last)) = survey.span() else {
        return Err(Failure::work(format!("{}: there are no rows in it", names.join(", "))));
    };
    let mut nodes: Vec<String> = survey.lanes.iter().map(|lane| lane.lane.node.to_string()).collect();
    nodes.sort_by(|a, b| by_name(a, b));
    nodes.dedup();
    let focus = if nodes.len() == 1 { nodes.first().cloned() } else { None };
    let app = App::new(look, Origin::Recording, names.join(", "), focus, nodes.len() > 1);
    Ok(Begin { app, hosts: None, source: Source::Recording { recording, first, last } })
}

fn of_target(look: Look, words: &[String], target: Target, plan: Plan) -> Result<Begin, Failure> {
    let hosts = (!words.is_empty()).then(|| super::hostlist(words)).transpose()?;
    hosts.as_deref().map(super::hosts).transpose()?;
    let known = match target.direct {
        true => None,
        false => target.nodes_if_running(&plan)?,
    };
    let Some(known) = known else {
        // No khz runs here: this machine's kernel is read, which knows no other node.
        let own = plan.node.to_string();
        if let Some(other) = hosts.filter(|hosts| *hosts != own) {
            return Err(Failure::work(format!(
                "no khz answers here, and this node is {own}, not {other}: name the hub with --server"
            )));
        }
        let app = App::new(look, Origin::Kernel, own.clone(), Some(own), false);
        return Ok(Begin {
            app,
            hosts: None,
            source: Source::Server { target: Arc::new(target), plan: Arc::new(plan) },
        });
    };
    let mut statuses = known.statuses()?;
    let is_cluster = statuses.len() > 1;
    if let Some(hosts) = &hosts {
        let wanted = super::hosts(hosts)?;
        statuses.retain(|(status, _)| wanted.matches(status.node.as_str()));
        if statuses.is_empty() {
            let misses = khz_model::Misses::of_nodes(&wanted, &target.known_nodes(&plan)?);
            return Err(Failure::Work(misses.sentences().join("; ")));
        }
    }
    let names: Vec<&str> = statuses.iter().map(|(status, _)| status.node.as_str()).collect();
    let own = plan.node.as_str();
    let focus = match &hosts {
        Some(hosts) => names.iter().find(|name| *name == hosts).copied(),
        None if names.len() == 1 => names.first().copied(),
        None => names.iter().find(|name| **name == own && target.server.is_none()).copied(),
    };
    let source = target.running(&plan)?.url().to_owned();
    let mut app = App::new(look, Origin::Server, source, focus.map(str::to_owned), is_cluster);
    for (status, _) in &statuses {
        if focus.is_none() || focus == Some(status.node.as_str()) {
            app.state(&status.node, status.state(), None);
        }
    }
    // A list of one node is no list to go back to.
    let hosts = hosts.filter(|_| focus.is_none());
    Ok(Begin { app, hosts, source: Source::Server { target: Arc::new(target), plan: Arc::new(plan) } })
}

#[cfg(test)]
mod catalogue {
    use khz_model::Pattern;

    use super::series;
    use crate::role::gatherer;

    #[test]
    fn every_series_that_is_asked_for_is_in_the_catalogue() {
        let known = gatherer::metrics();
        let patterns: Vec<Pattern> =
            series::of_node("n1", None).into_iter().chain(series::of_cluster(None)).collect();
        for pattern in patterns {
            let metric = Pattern::new(pattern.metric()).unwrap();
            assert!(known.iter().any(|known| metric.matches_metric(&known.name)), "{pattern}");
        }
    }
}
