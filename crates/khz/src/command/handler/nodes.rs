//! `khz handler push`, `list` and `rm`: programs on their way to nodes, as channels with a program. The hub checks them again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use khz_ask::{Answer, AskError, Channel, Server};
use khz_channel::{Definition, program_text};
use khz_model::Pattern;
use khz_program::ProgramHash;
use serde_json::json;

use crate::command::channel::{Whom, hash_of as hash_of_text};
use crate::config::NodeFlags;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{of_bytes, of_count, of_time};
use crate::show::table::{Side, Table, json_line, printable};
use crate::show::terminal;

pub const PUSH_EXAMPLES: &str = "\
Examples:
  khz handler push mean.wasm --to busy 'disk.io_time[*]' --rate 10Hz
                                    all nodes execute it; a channel 'busy'
  khz handler push mean.wasm --to busy 'node[1-8]:disk.io_time[*]'
  khz handler push better.wasm --to busy
                                    the same series, another program
  khz channel watch busy            the rows that come out

For operators. A node executes programs if its configuration says
handlers = \"programs\". docs/handlers.md is for authors.";

pub const LIST_EXAMPLES: &str = "\
Examples:
  khz handler list                  each program, on each node that executes it
  khz handler list --json";

pub const RM_EXAMPLES: &str = "\
Examples:
  khz handler rm busy               the channel goes, and with it its program";

/// `khz handler push`.
#[derive(Debug, Args)]
pub struct PushFlags {
    /// The module.
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The channel that gets it; a new one needs series.
    #[arg(long, value_name = "CHANNEL", required = true)]
    pub to: String,
    /// The series of its rows: [NODES:]METRIC[INSTANCE]. Without any, those of the channel stay.
    #[arg(value_name = "PATTERN")]
    pub series: Vec<String>,
    /// On these nodes, as a hostlist [default: all].
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// How often a row comes: 100Hz, or a period: 5s [default: 1Hz].
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// The hub's store keeps the rows that come out for this long.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub keep: Option<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// `khz handler list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// One JSON object for each program of a node.
    #[arg(long)]
    pub json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// `khz handler rm`.
#[derive(Debug, Args)]
pub struct RemoveFlags {
    /// The channel.
    #[arg(value_name = "CHANNEL")]
    pub name: String,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// Gives a channel this program.
pub fn push(flags: PushFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let module = super::module(&flags.file)?;
    let failed = |problem| Failure::work(format!("{}: {problem}", flags.file.display()));
    let program = program_text(&module).map_err(failed)?;
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    let known = known(&server, &flags.to)?;
    let is_new = known.is_none();
    let before = known.unwrap_or_else(|| Definition { name: flags.to.clone(), ..Definition::default() });
    let series = if flags.series.is_empty() { before.series } else { flags.series };
    if series.is_empty() {
        let problem = format!(
            "channel '{}' has no series for a program: name some, as 'disk.io_time[*]'",
            printable(&flags.to)
        );
        return Err(Failure::usage(problem));
    }
    let definition = Definition {
        name: flags.to.clone(),
        series,
        program: Some(program),
        nodes: flags.nodes.or(before.nodes),
        rate: flags.rate.or(before.rate),
        exact: before.exact,
        keep: flags.keep.or(before.keep),
        to: before.to,
        ..Definition::default()
    };
    definition.interest().map_err(Failure::usage)?;
    server.define_channel(&flags.to, &definition.to_json(), is_new)?;
    let hash = ProgramHash::of(&module);
    writeln!(
        out,
        "channel {} has the program {hash}; `khz channel watch {0}` follows it",
        printable(&flags.to)
    )?;
    out.flush()?;
    Ok(Done::Wholly)
}

/// The definition of a channel; `None`: there is none of this name.
fn known(server: &Server, name: &str) -> Result<Option<Definition>, Failure> {
    let Some(channel) = server.channels()?.channels.into_iter().find(|channel| channel.name == name) else {
        return Ok(None);
    };
    let definition = Definition::from_json(channel.definition.to_string().as_bytes());
    definition.map(Some).map_err(|error| Failure::work(error.to_string()))
}

/// The hash of a channel's program; `None`: it has none.
fn hash_of(channel: &Channel) -> Option<ProgramHash> {
    hash_of_text(channel.definition.get("program")?.as_str()?)
}

/// Removes a channel with a program.
pub fn remove(flags: RemoveFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    let name = printable(&flags.name);
    match known(&server, &flags.name)? {
        None => return Err(Failure::work(format!("there is no channel '{name}'"))),
        Some(Definition { program: None, .. }) => {
            return Err(Failure::work(format!(
                "channel '{name}' has no program; `khz channel rm {name}` removes it"
            )));
        }
        Some(_) => server.remove_channel(&flags.name)?,
    }
    writeln!(out, "removed: {name}")?;
    out.flush()?;
    Ok(Done::Wholly)
}

/// What a program has taken on a node, by the last words of the metrics.
#[derive(Clone, Debug, Default, PartialEq)]
struct OnNode {
    numbers: BTreeMap<String, u64>,
    /// In seconds.
    time: f64,
}

impl OnNode {
    fn number(&self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// A part of each row.
    fn of_a_row(&self, all: f64) -> f64 {
        all / self.number("rows_in").max(1) as f64
    }
}

/// The metrics of a program, without their first words.
const NUMBERS: [&str; 8] =
    ["rows_in", "rows_out", "rows_lost", "failures", "fuel", "fuel_most", "time", "memory"];

/// Lists the programs and what they take.
pub fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    let channels: Vec<(Channel, ProgramHash)> = server
        .channels()?
        .channels
        .into_iter()
        .filter_map(|channel| hash_of(&channel).map(|hash| (channel, hash)))
        .collect();
    let patterns = NUMBERS.iter().map(|metric| Pattern::new(&format!("khz.program.{metric}[*]")));
    let patterns: Vec<Pattern> = patterns.collect::<Result<_, _>>().map_err(Failure::usage)?;
    let answer = match server.query(&patterns, None) {
        Ok(answer) => Some(answer),
        // No node executes any.
        Err(AskError::Refused(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut table = Table::new(
        &[
            ("CHANNEL", Side::Left),
            ("PROGRAM", Side::Left),
            ("NODE", Side::Left),
            ("ROWS IN", Side::Right),
            ("OUT", Side::Right),
            ("LOST", Side::Right),
            ("FAILED", Side::Right),
            ("FUEL", Side::Right),
            ("TIME", Side::Right),
            ("MEMORY", Side::Right),
        ],
        2,
    );
    for (channel, hash) in &channels {
        let nodes = answer.as_ref().map(|answer| on_nodes(answer, &channel.name)).unwrap_or_default();
        // What a node says that executes none is about all channels of the hub.
        let notices = server.channel(&channel.name).map(|channel| channel.notices).unwrap_or_default();
        if flags.json {
            for (node, on) in &nodes {
                let object = json!({"channel": channel.name, "program": hash.to_string(), "node": node,
                    "numbers": on.numbers, "time": on.time});
                writeln!(out, "{}", json_line(&object))?;
            }
            for notice in &notices {
                let object = json!({"channel": channel.name, "program": hash.to_string(),
                    "nodes": notice.nodes, "notice": notice.text});
                writeln!(out, "{}", json_line(&object))?;
            }
            continue;
        }
        let short = hash.to_string()[..12].to_owned();
        if nodes.is_empty() {
            let none = || "-".to_owned();
            let mut row = [(); 10].map(|()| none());
            (row[0], row[1], row[2]) = (channel.name.clone(), short.clone(), "no node now".to_owned());
            table.row(row);
        }
        for (node, on) in nodes {
            let count = |name: &str| of_count(on.number(name));
            table.row([
                channel.name.clone(),
                short.clone(),
                node,
                count("rows_in"),
                count("rows_out"),
                count("rows_lost"),
                count("failures"),
                of_count(on.of_a_row(on.number("fuel") as f64) as u64),
                of_time(std::time::Duration::from_secs_f64(on.of_a_row(on.time).clamp(0.0, 1e6))),
                of_bytes(on.number("memory") as f64, ""),
            ]);
        }
        for notice in notices {
            let nodes = khz_model::fold::fold(&notice.nodes);
            crate::show::table::remark!("{}: {nodes}: {}", printable(&channel.name), notice.text);
        }
    }
    if !flags.json {
        if channels.is_empty() {
            crate::show::table::remark!(
                "there are no programs; `khz handler push FILE.wasm --to CHANNEL PATTERN` makes one"
            );
        } else {
            write!(out, "{}", table.render(terminal::width()))?;
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// What a channel's program has taken on each node.
fn on_nodes(answer: &Answer, channel: &str) -> BTreeMap<String, OnNode> {
    let mut nodes: BTreeMap<String, OnNode> = BTreeMap::new();
    for node in &answer.nodes {
        for series in node.series.iter().filter(|series| series.instance.as_deref() == Some(channel)) {
            let (Some(value), Some(metric)) = (&series.value, series.name.strip_prefix("khz.program."))
            else {
                continue;
            };
            let on = nodes.entry(node.node.to_string()).or_default();
            match metric {
                "time" => on.time = value.parse().unwrap_or(0.0),
                other => _ = on.numbers.insert(other.to_owned(), value.parse().unwrap_or(0)),
            }
        }
    }
    nodes
}
