//! `khz top`: its flags and its start. `run.rs` is the loop, `app.rs` the state, `draw.rs` the picture. `feed.rs` brings live rows,
//! `past.rs` past ones.

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
mod odd_times;
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
use self::past::{Recorded, Source};
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
  khz top run.khzt 'node[1-2]'      these nodes of it
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

/// Samples of a node a second, at the start.
pub const RATE: u16 = 10;

/// `khz top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// Nodes (node7, 'gpu*', node[1-8]), or the files of a recording, or both.
    #[arg(value_name = "NODES|FILE")]
    pub what: Vec<String>,
    /// Samples of a node a second, at the start: 1, 10, 100 or 1000.
    #[arg(long, value_name = "RATE", default_value_t = RATE, value_parser = rate)]
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

pub fn picture_size(text: &str) -> Result<(u16, u16), String> {
    let sides = text.split_once('x').and_then(|(wide, high)| Some((wide.parse().ok()?, high.parse().ok()?)));
    match sides {
        Some((wide @ 1..=SIDE_MAX, high @ 1..=SIDE_MAX)) => Ok((wide, high)),
        _ => Err(format!("write 80x24; a side has {SIDE_MAX} at most")),
    }
}

/// Decides what to show, and shows it.
pub fn run(flags: TopFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let at = flags.at.as_deref().map(|at| moment("at", at)).transpose()?;
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
        Some((files, nodes)) => of_recording(look, files, &nodes)?,
        None => {
            // This comes before the terminal is taken, since two processes would draw on it.
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

/// The files of a recording, and the nodes of it that are named beside them.
type FilesAndNodes = (Vec<PathBuf>, Vec<String>);

/// The files among the words; `None`: all words are nodes.
fn recording(words: &[String]) -> Result<Option<FilesAndNodes>, Failure> {
    let (files, nodes): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| PathBuf::from(word).is_file());
    let means_file = |word: &&String| word.contains('/') || word.ends_with(".khzt");
    match nodes.iter().find(means_file) {
        Some(other) if PathBuf::from(other).exists() => {
            Err(Failure::usage(format!("{other} is no file of a recording")))
        }
        Some(missing) => Err(Failure::usage(format!("{missing}: there is no such file"))),
        None if files.is_empty() => Ok(None),
        None => Ok(Some((files.iter().map(PathBuf::from).collect(), nodes))),
    }
}

/// A recording: all of its nodes, or those that are named.
fn of_recording(look: Look, files: Vec<PathBuf>, wanted: &[String]) -> Result<Begin, Failure> {
    let hosts = (!wanted.is_empty()).then(|| super::hostlist(wanted)).transpose()?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let bytes = past::bytes_of(&files);
    let survey =
        khz_record::Survey::of(&Recording::of(&files)).map_err(crate::command::recording::of_error)?;
    let (problem, is_damaged) = crate::command::recording::report(&survey);
    let Some(span) = survey.span() else {
        return Err(crate::command::recording::without_rows(&files, is_damaged));
    };
    let mut nodes: Vec<String> = survey.lanes.iter().map(|lane| lane.lane.node.to_string()).collect();
    nodes.sort_by(|a, b| by_name(a, b));
    nodes.dedup();
    if let Some(hosts) = &hosts {
        let (wanted, all) = (super::hosts(hosts)?, std::mem::take(&mut nodes));
        nodes.extend(all.iter().filter(|node| wanted.matches(node)).cloned());
        if nodes.is_empty() {
            let names = khz_model::fold::fold(&all);
            return Err(Failure::work(format!("no node of the recording is called {hosts}; it has {names}")));
        }
    }
    let focus = if nodes.len() == 1 { nodes.first().cloned() } else { None };
    let mut app = App::new(look, Origin::Recording, names.join(", "), focus, nodes.len() > 1);
    let recorded = Recorded::new(files, bytes, span);
    app.span = Some(recorded.span());
    if let Some(problem) = problem {
        app.say(problem);
    }
    Ok(Begin { app, hosts, source: Source::Recording(recorded), is_damaged })
}

fn of_target(look: Look, words: &[String], target: Target, plan: Plan) -> Result<Begin, Failure> {
    let hosts = (!words.is_empty()).then(|| super::hostlist(words)).transpose()?;
    hosts.as_deref().map(super::hosts).transpose()?;
    let known = match target.direct {
        true => None,
        false => target.nodes_if_running(&plan)?,
    };
    let Some(known) = known else {
        // No khz runs here, so this machine's kernel is read, which knows no other node.
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
            is_damaged: false,
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
    let time = feed::time_of_server(statuses.iter().map(|(status, _)| status));
    let now = time.unwrap_or_else(crate::command::past::now);
    app.clock_of_server(time);
    for (status, _) in &statuses {
        if focus.is_none() || focus == Some(status.node.as_str()) {
            app.state(&status.node, status.state(), feed::since(status, now));
        }
    }
    // A list of one node is not worth going back to.
    let hosts = hosts.filter(|_| focus.is_none());
    let source = Source::Server { target: Arc::new(target), plan: Arc::new(plan) };
    Ok(Begin { app, hosts, source, is_damaged: false })
}

#[cfg(test)]
mod catalogue {
    use khz_model::Pattern;

    use super::series;
    use crate::role::gatherer;

    #[test]
    fn every_series_that_is_asked_for_is_in_the_catalogue() {
        let known = gatherer::metrics();
        let of_nodes = series::of_node("n1", None).into_iter().chain(series::of_cluster(None));
        let patterns: Vec<Pattern> = of_nodes.chain(series::signs(None)).collect();
        for pattern in patterns {
            let metric = Pattern::new(pattern.metric()).unwrap();
            assert!(known.iter().any(|known| metric.matches_metric(&known.name)), "{pattern}");
        }
    }
}
