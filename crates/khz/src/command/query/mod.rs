//! `khz query`: its flags, and the question that they ask. `print.rs` prints the answer, `store.rs` answers out of the files
//! of a store, `unknown.rs` says which names nobody has.

pub(in crate::command) mod print;
mod store;
mod unknown;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::Args;
use khz_ask::{AskError, PromqlAnswer};
use khz_model::Nanos;
use serde_json::Value;

use self::store::When;
use crate::command::past::{self, now};
use crate::command::target::Target;
use crate::config::{NodeFlags, Plan, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::remark;

/// Examples for `khz query --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz query up                      which nodes are there
  khz query 'topk(5, rate(node_network_receive_bytes_total[1m]))'
                                    the five busiest interfaces
  khz query 'avg by (instance) (node_load1)' --range 1h
                                    an hour, drawn here with characters
  khz query 'avg by (instance) (node_load1)' --range 10m --step 1m --json
                                    one object a line, for programs
  khz query 'node_load1' --at -5m   as it was five minutes ago
  khz query '{\"net.rx_bytes\"}'      by khz's own name, in khz's own unit
  khz query 'sum(node_load1)' --url http://victoria:8428
                                    ask another engine instead of a khz
  khz query up --store /var/lib/khz/store
                                    reads the files of a store; no khz need run

PromQL in one minute:
  node_load1                        the last sample of each series
  node_load1{instance=\"node7\"}      only those of node7; also =~ != !~
  rate(node_forks_total[5m])        growth a second over five minutes
  sum by (instance) (...)           one number a node; also avg, max, topk(3, ...)

If no series has a sample, stderr says so and the exit code is 0, because
`up == 0` has no answer while all is well. If a part of the past could not be
read, stderr names it and the exit code is 3.

A plot has a row of blocks for each series. A column stands for some points; its
height is their largest value. The number at the left of a row is the value of
`_`: 0, or the lowest value if one is below 0. `·` is a time without a sample
that can be drawn.

docs/promql.md says which parts of the language khz has. `khz catalog --json`
has the names of series at Prometheus.";

/// `khz query`.
#[derive(Debug, Args)]
pub struct QueryFlags {
    /// The question, in PromQL. Quote it, or the shell takes its brackets.
    #[arg(value_name = "EXPR")]
    pub query: String,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Over this time until now (or --at), as a plot: 1h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub range: Option<Nanos>,
    /// The time between two points of --range [default: a two-hundredth of it, in whole seconds].
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "range")]
    pub step: Option<Nanos>,
    /// At this moment instead of now: '2026-11-21 14:03:20' (local time), 2026-11-21T14:03:20Z, or -1h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Ask this engine with Prometheus' interface, which may be below a path. It is not shown khz's token: a khz that wants it is asked
    /// with --server.
    #[arg(long, visible_alias = "from", value_name = "URL", conflicts_with = "server")]
    pub url: Option<String>,
    /// Ask the khz at this address only.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Ask nobody: read the files of the store in this directory, also while a hub writes it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "url"])]
    pub store: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// People wait this long without a word.
const SAID_AFTER: Duration = Duration::from_secs(3);
/// Points of a plot, unless `--step` says otherwise: about the columns of a wide terminal.
pub(in crate::command) const POINTS: u64 = 200;

/// A duration as the query itself may have it, too: `3w`, `1h30m`.
fn duration(text: &str) -> Result<Nanos, String> {
    let is_end = |(digit, next): (char, char)| !digit.is_ascii_digit() && next.is_ascii_digit();
    let ends = text.char_indices().zip(text.chars().skip(1));
    let mut ends: Vec<usize> = ends
        .filter(|((_, here), next)| *here != '.' && is_end((*here, *next)))
        .map(|((at, here), _)| at + here.len_utf8())
        .collect();
    ends.push(text.len());
    let (mut from, mut sum) = (0, 0u64);
    for end in ends {
        let part = &text[from..end];
        let (number, factor) =
            part.strip_suffix('w').map_or((part.to_owned(), 1), |weeks| (format!("{weeks}d"), 7));
        let one = number.parse::<Nanos>().map_err(|_| {
            format!("'{text}' is no duration; write a number and a unit: 90s, 15m, 6h, 2d, 3w, 1h30m")
        })?;
        let longer = one.0.checked_mul(factor).and_then(|nanos| sum.checked_add(nanos));
        sum = longer.ok_or_else(|| format!("'{text}' is longer than any time"))?;
        from = end;
    }
    Ok(Nanos(sum))
}

/// Asks and prints.
pub fn run(flags: QueryFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let at = flags.at.as_deref().map(|text| past::moment("at", text)).transpose()?;
    let end = at.unwrap_or_else(now);
    let (_, plan) = super::plan(flags.settings.clone().over(outer))?;
    let when = match flags.range {
        None => When::At(end),
        Some(range) => {
            When::Range(Nanos(end.0.saturating_sub(range.0)), end, flags.step.unwrap_or(step(range)))
        }
    };
    let answer = match &flags.store {
        Some(directory) => of_store(directory, &flags, &plan, when)?,
        None => of_server(&flags, &plan, when)?,
    };
    for note in answer.warnings.iter().chain(&answer.infos) {
        remark!("{note}");
    }
    let span = flags.range.map(|range| (Nanos(end.0.saturating_sub(range.0)), range));
    print::print(&flags.query, &answer.data, span, flags.json, out)?;
    Ok(match answer.warnings.iter().any(|warning| is_of_source(warning)) {
        true => Done::Partly { missing: Vec::new() },
        false => Done::Wholly,
    })
}

/// True for a warning that something could not be read: those about the query itself begin with these words, as Prometheus' do.
fn is_of_source(warning: &str) -> bool {
    !warning.starts_with("PromQL warning: ") && !warning.ends_with(" warning annotations omitted")
}

fn of_store(directory: &Path, flags: &QueryFlags, plan: &Plan, when: When) -> Result<PromqlAnswer, Failure> {
    let _asking = Asking::begin(directory.display().to_string());
    store::ask(directory, &plan.job, &flags.query, when, flags.at.is_some())
}

/// The answer of the khz or the engine that the flags name.
fn of_server(flags: &QueryFlags, plan: &Plan, when: When) -> Result<PromqlAnswer, Failure> {
    let target = Target { server: flags.server.clone(), direct: false };
    let server = match &flags.url {
        Some(url) => target.engine(url, plan)?,
        None => target.running(plan)?,
    };
    let asking = Asking::begin(server.url().to_owned());
    let answer = match when {
        When::At(end) => server.promql(&flags.query, &seconds(end)),
        When::Range(start, end, step) => {
            server.promql_range(&flags.query, &seconds(start), &seconds(end), &seconds(step))
        }
    };
    drop(asking);
    let answer = answer.map_err(|error| match error {
        AskError::BadRequest(problem) => Failure::usage(problem_of(&flags.query, &problem)),
        error if flags.url.is_some() => Failure::from(of_engine(error)),
        error => Failure::from(error),
    })?;
    // Another engine has no such catalogue.
    if answer.data.is_empty() && flags.url.is_none() {
        let catalogue = server.catalogue().unwrap_or_default();
        let name = |entry: &Value, at: &str| entry.pointer(at)?.as_str().map(str::to_owned);
        let names = catalogue.iter().flat_map(|it| [name(it, "/name"), name(it, "/exposition/name")]);
        let known: Vec<String> = names.flatten().collect();
        if !known.is_empty() {
            unknown::sentences(&flags.query, &known, "now").iter().for_each(|sentence| remark!("{sentence}"));
        }
    }
    Ok(answer)
}

/// An error of an engine that is no khz.
fn of_engine(error: AskError) -> AskError {
    match error {
        AskError::NobodyThere { url, reason } => AskError::Unanswered { url, reason },
        AskError::NotKhz { url, .. } => {
            let reason = "what it says is no answer of Prometheus' interface; is this the address of the engine, with its path?";
            AskError::Unanswered { url, reason: reason.to_owned() }
        }
        error => error,
    }
}

/// A question that is being asked: after a while somebody at a terminal reads where. Dropped when there is an answer.
struct Asking {
    _over: Sender<()>,
}

impl Asking {
    fn begin(url: String) -> Self {
        let (over, is_over) = channel();
        if std::io::stderr().is_terminal() {
            std::thread::spawn(move || {
                if is_over.recv_timeout(SAID_AFTER) == Err(RecvTimeoutError::Timeout) {
                    remark!("asking {url} ...");
                }
            });
        }
        Asking { _over: over }
    }
}

/// Seconds with three places, as Prometheus reads them.
pub(in crate::command) fn seconds(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000)
}

fn step(range: Nanos) -> Nanos {
    Nanos::from_secs((range.0 / 1_000_000_000).div_ceil(POINTS).max(1))
}

/// What is wrong with the query, and what to write instead, if that is known.
pub(in crate::command) fn problem_of(query: &str, problem: &str) -> String {
    let pointed = pointed(query, problem);
    match quoted_names(query) {
        Some(instead) => format!("{pointed}\n{instead}"),
        None => pointed,
    }
}

/// The problem, and where the engine says the place in the query, that line with a caret under it.
fn pointed(query: &str, problem: &str) -> String {
    if query.trim().is_empty() {
        return "the query is empty".to_owned();
    }
    let said = problem.strip_prefix("invalid parameter \"query\": ").unwrap_or(problem);
    // The words of Prometheus, for people who write the URL.
    let said = &said.replace("(?step=XX)", "(--step)");
    let mut words = said.splitn(3, ':');
    let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).filter(|number| *number > 0);
    let place = number().zip(number());
    let line = place.and_then(|(line, column)| Some((query.lines().nth(line - 1)?, column)));
    match line.zip(words.next()) {
        Some(((line, column), sentence)) if line.is_char_boundary(column - 1) => {
            // The engine counts bytes.
            let column = line[..column - 1].chars().count() + 1;
            let line = crate::show::table::printable(line);
            format!("{} (column {column})\n  {line}\n  {:>column$}", sentence.trim(), '^')
        }
        _ => said.to_owned(),
    }
}

/// What to write instead, if the query has one of khz's own names, in which dots stand: PromQL takes them in quotes only.
fn quoted_names(query: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let is_own = |word: &&str| {
        let is_part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric());
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.contains('.')
            && word.split('.').all(is_part)
    };
    // What is in quotes is right, or a value.
    let outside = query.split('"').step_by(2);
    let name = outside.flat_map(|text| text.split(|c| !is_letter(c))).find(is_own)?;
    Some(format!("a name with dots stands in quotes and braces: {{\"{name}\"}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_its_place_in_the_query() {
        let problem = "invalid parameter \"query\": 1:5: parse error: unexpected end of input";
        assert_eq!(
            pointed("sum(", problem),
            "parse error: unexpected end of input (column 5)\n  sum(\n      ^"
        );
        let problem = "2:1: parse error: no";
        assert_eq!(pointed("a +\nb", problem), "parse error: no (column 1)\n  b\n  ^");
        assert_eq!(pointed("é é", "1:4: parse error: no"), "parse error: no (column 3)\n  é é\n    ^");
        assert_eq!(pointed("x", "Try a longer step (?step=XX)"), "Try a longer step (--step)");
        assert_eq!(pointed("x", "9:9: no such place"), "9:9: no such place");
        assert_eq!(pointed("x", "invalid parameter \"query\": it is wrong"), "it is wrong");
        assert_eq!(pointed(" ", "invalid parameter \"query\": 1:1: parse error: "), "the query is empty");
    }

    #[test]
    fn an_error_at_a_name_of_our_own_says_how_it_is_written() {
        let of = |query: &str| quoted_names(query);
        let load = Some("a name with dots stands in quotes and braces: {\"load.1m\"}".to_owned());
        assert_eq!(of("load.1m"), load);
        assert_eq!(of("sum(rate(load.1m{a=\"b.c\"}[5m]))"), load);
        for right in ["{\"load.1m\"}", "up{host=\"n1.cluster\"} > 0.5", "x[1m] * 1.5e3", "a. b", "x ==.5"] {
            assert_eq!(of(right), None, "{right}");
        }
        assert!(problem_of("load.1m", "1:5: parse error: unexpected").ends_with("{\"load.1m\"}"));
    }

    #[test]
    fn a_warning_about_the_query_is_no_damage() {
        assert!(!is_of_source("PromQL warning: quantile value should be between 0 and 1, got 2 (1:1)"));
        assert!(!is_of_source("3 more warning annotations omitted"));
        assert!(is_of_source("/var/lib/khz/store/raw/2026-11-23T14.0.col: 20 bytes at 80 are damaged"));
    }

    #[test]
    fn a_duration_may_have_weeks_and_several_units_as_in_a_query() {
        let seconds = |text: &str| duration(text).map(|nanos| nanos.0 as f64 / 1e9);
        for (text, expected) in [
            ("1h", 3_600.0),
            ("3w", 1_814_400.0),
            ("1w2d", 777_600.0),
            ("1h30m", 5_400.0),
            ("1.5h", 5_400.0),
            ("250ms", 0.25),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "w", "5", "5x", "1h30", "-5m", "99999999999w", "é5m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_step_is_whole_seconds() {
        let step = |seconds| step(Nanos::from_secs(seconds)).0 / 1_000_000_000;
        assert_eq!((step(10), step(3_600), step(86_400)), (1, 18, 432));
        assert_eq!(seconds(Nanos(1_763_690_000_007_900_000)), "1763690000.007");
    }
}
