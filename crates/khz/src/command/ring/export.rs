//! `khz ring export`: the rows of a ring as CSV, JSON, a table or a trace. Values are the kernel's own, digit for digit.

use clap::Args;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::trace;
use khz_model::{Misses, Nanos, Pattern, Reading, Series};
use khz_ring::Reader;
use serde_json::{Map, Value, json};

use super::place::{NodeRings, RingPlace, chosen, find};
use super::rows::{Recording, Row};
use crate::config::Plan;
use crate::show::misses::{self, Listed};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{cell, cell_json, csv};
use crate::show::table::{Side, Table, json_line};

/// Examples for `khz ring export --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz ring export --last 30s 'cpu.all.*'    the last half minute, also of an
                                            agent that has died
  khz ring export --lane local load.1m      ten times a second
  khz ring export --json -o rows.jsonl      everything, one object a row
  khz ring export --trace -o idle.khzt      the blocks themselves, as a trace

Ten rows of `khz ring export --csv --last 10s load.1m kernel.forks 'net.rx_bytes[lo]'`:
  time,boot,kernel.forks,load.1m,net.rx_bytes[lo]
  1795257001.000213671,3061.482917320,48213,0.52,7120945
  1795257002.000190418,3062.482894067,48213,0.52,7121201
  1795257003.000186127,3063.482889776,48215,0.48,7121201
  1795257004.000178530,3064.482882179,48219,0.48,7129873
  1795257005.000201882,3065.482905531,48219,0.48,7130129
  1795257006.000186440,3066.482890089,48220,0.48,7130129
  1795257007.000195104,3067.482898753,48220,0.48,7130385
  1795257008.000187265,3068.482890914,48226,0.44,7130385
  1795257009.000190871,3069.482894520,48226,0.44,7130641
  1795257010.000188093,3070.482891742,48226,0.44,7130641";

/// `khz ring export`.
#[derive(Debug, Args)]
pub struct RingExportFlags {
    /// Which series: METRIC[INSTANCE], as 'net.rx_*[eth0]'; none means all.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only rows this far back from the newest: 30s, 10m.
    #[arg(long, value_name = "DURATION")]
    pub last: Option<String>,
    /// Which lane: base (everything, 1 Hz), local (10 Hz), or what `khz ring show` lists.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub lane: String,
    /// The rings of this node [default: the only one, or this one].
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Comma-separated values.
    #[arg(long, group = "form")]
    pub csv: bool,
    /// One JSON object a row.
    #[arg(long, group = "form")]
    pub json: bool,
    /// A table for people.
    #[arg(long, group = "form")]
    pub table: bool,
    /// Schema and whole blocks as they are, of the newest start of the agent (docs/block.md).
    #[arg(long, group = "form")]
    pub trace: bool,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

/// Writes the rows to `out`, or to the file that the flags name.
pub fn export(flags: &RingExportFlags, plan: &Plan, width: Option<usize>, out: &mut impl Write) -> Outcome {
    let patterns = flags.patterns.iter().map(|text| Pattern::new(text).map_err(Failure::usage));
    let patterns: Vec<Pattern> = patterns.collect::<Result<_, _>>()?;
    let span: Option<Nanos> = flags.last.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let found = find(chosen(&flags.place, plan), flags.node.as_deref())?;
    let node = choose(found, plan.node.as_str())?;
    let reader = lane(&node, &flags.lane)?;
    let ours = of_node(&patterns, &node.node)?;
    let misses = misses_of(&reader, &node.node, &patterns);
    let recording = Recording::of(reader, &ours, span);
    let sentences = misses::sentences(&misses, "in this ring");
    if recording.columns.is_empty() && !patterns.is_empty() {
        return Err(Failure::Work(sentences.join("; ")));
    }
    for sentence in &sentences {
        crate::show::table::remark!("{}", sentence);
    }
    let written = match &flags.output {
        None => write(flags, &recording, &node.node, width, out),
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))?;
            write(flags, &recording, &node.node, None, &mut BufWriter::new(file))
        }
    };
    misses::partly(&misses, written)
}

/// The patterns that select nothing in the ring.
fn misses_of(reader: &Reader, node: &str, patterns: &[Pattern]) -> Misses {
    let all = Recording::of(reader.clone(), &[], None);
    Listed::new([(node, all.columns)]).misses(patterns)
}

/// The only node, else this one.
fn choose(mut nodes: Vec<NodeRings>, this_node: &str) -> Result<NodeRings, Failure> {
    let at = nodes.iter().position(|rings| rings.node == this_node);
    match (nodes.len(), at) {
        (1, _) => Ok(nodes.remove(0)),
        (_, Some(at)) => Ok(nodes.remove(at)),
        _ => {
            let names: Vec<&str> = nodes.iter().map(|rings| rings.node.as_str()).collect();
            Err(Failure::usage(format!("there are rings of {}: choose one with --node", names.join(", "))))
        }
    }
}

fn lane(node: &NodeRings, name: &str) -> Result<Reader, Failure> {
    let is_it = |(_, reader): &&(_, Reader)| reader.label().lane == name;
    match node.lanes.iter().find(is_it) {
        Some((_, reader)) => Ok(reader.clone()),
        None => {
            let names: Vec<&str> =
                node.lanes.iter().map(|(_, reader)| reader.label().lane.as_str()).collect();
            Err(Failure::work(format!("{} has no lane {name}; it has {}", node.node, names.join(", "))))
        }
    }
}

/// The patterns that select this node. It is an error where patterns are given and none does.
fn of_node(patterns: &[Pattern], node: &str) -> Result<Vec<Pattern>, Failure> {
    let ours: Vec<Pattern> = patterns.iter().filter(|pattern| pattern.matches_node(node)).cloned().collect();
    if ours.is_empty() && !patterns.is_empty() {
        return Err(Failure::work(format!("these rings are of {node}, and no pattern selects it")));
    }
    Ok(ours)
}

fn write(
    flags: &RingExportFlags,
    recording: &Recording,
    node: &str,
    width: Option<usize>,
    out: &mut impl Write,
) -> Outcome {
    let lost = if flags.trace {
        write_trace(recording, out)?
    } else if flags.json {
        recording.each(|row| writeln!(out, "{}", json_line(&object(recording, node, &row))))?
    } else if flags.table || (!flags.csv && width.is_some()) {
        write_table(recording, width, out)?
    } else {
        write_csv(recording, out)?
    };
    out.flush()?;
    if lost > 0 {
        crate::show::table::remark!(
            "{lost} blocks were overwritten while they were read, or are damaged: their rows are missing"
        );
    }
    Ok(Done::Wholly)
}

fn write_csv(recording: &Recording, out: &mut impl Write) -> io::Result<usize> {
    let names: Vec<String> = recording.columns.iter().map(|series| csv(series.to_string())).collect();
    writeln!(out, "{}", [&["time".to_owned(), "boot".to_owned()], &names[..]].concat().join(","))?;
    recording.each(|row| {
        write!(out, "{},{}", row.stamp.real_text(), row.stamp.boot_text())?;
        for (series, reading) in recording.columns.iter().zip(&row.readings) {
            write!(out, ",{}", csv(cell(series.metric.format(), *reading)))?;
        }
        writeln!(out)
    })
}

fn write_table(recording: &Recording, width: Option<usize>, out: &mut impl Write) -> io::Result<usize> {
    let names: Vec<String> = recording.columns.iter().map(ToString::to_string).collect();
    let columns = names.iter().map(|name| (name.as_str(), Side::Right));
    let titles: Vec<_> = [("TIME", Side::Left)].into_iter().chain(columns).collect();
    let mut table = Table::new(&titles, 0);
    let lost = recording.each(|row| {
        let cells = recording.columns.iter().zip(&row.readings).map(|(series, reading)| match reading {
            Reading::Absent(_) => "absent".to_owned(),
            reading => cell(series.metric.format(), *reading),
        });
        table.row([row.stamp.real_text()].into_iter().chain(cells));
        Ok(())
    })?;
    out.write_all(table.render(width).as_bytes())?;
    Ok(lost)
}

fn object(recording: &Recording, node: &str, row: &Row) -> Value {
    let value = |(series, reading): (&Series, &Reading)| {
        (series.to_string(), cell_json(series.metric.format(), *reading))
    };
    let values: Map<String, Value> = recording.columns.iter().zip(&row.readings).map(value).collect();
    json!({
        "node": node,
        "lane": recording.reader().label().lane,
        "row": row.number,
        "time": row.stamp.real_text(),
        "boot": row.stamp.boot_text(),
        "values": values,
    })
}

/// The blocks of the newest generation, byte for byte, after their schema. A trace has only one schema.
fn write_trace(recording: &Recording, out: &mut impl Write) -> io::Result<usize> {
    let reader = recording.reader();
    let Some(newest) = recording.blocks.last().and_then(|&at| reader.header(at)) else {
        return Ok(recording.blocks.len());
    };
    let (mut bytes, mut piece) = (Vec::new(), Vec::new());
    trace::begin(&mut bytes);
    reader.schema(newest.generation, 0, SCHEMA_BYTES_MAX, &mut piece);
    trace::put_schema(&piece, &mut bytes);
    let mut lost = 0;
    for &at in &recording.blocks {
        piece.clear();
        match reader.block(at, &mut piece) {
            Some(header) if header.generation == newest.generation => trace::put_block(&piece, &mut bytes),
            Some(_) => {}
            None => lost += 1,
        }
        out.write_all(&bytes)?;
        bytes.clear();
    }
    Ok(lost)
}
