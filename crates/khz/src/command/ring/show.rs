//! `khz ring show`: what each ring holds, and how far it reaches back, as a table or as JSON.

use clap::Args;
use std::io::Write;
use std::path::Path;

use khz_model::{ByteSize, Nanos, Rate, Stamp};
use khz_ring::Reader;
use serde_json::json;

use super::place::{NodeRings, RingPlace, chosen, find};
use super::rows::{count, newest_stamp};
use crate::config::Plan;
use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Side, Table, json_line};

/// Examples for `khz ring show --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz ring show                     the agents of this machine, running or not
  khz ring show --node node7 --json
                                    one object a lane
  khz ring show --dir /srv/rings    rings that were kept somewhere else";

/// `khz ring show`.
#[derive(Debug, Args)]
pub struct RingShowFlags {
    /// Only the rings of this node.
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// One JSON object a lane.
    #[arg(long)]
    pub json: bool,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

/// Prints what the rings hold.
pub fn show(flags: &RingShowFlags, plan: &Plan, width: Option<usize>, out: &mut impl Write) -> Outcome {
    let nodes = find(chosen(&flags.place, plan), flags.node.as_deref())?;
    if flags.json {
        for (node, path, reader) in each(&nodes) {
            writeln!(out, "{}", json_line(&object(node, path, &Held::by(reader))))?;
        }
    } else {
        out.write_all(table(&nodes).render(width).as_bytes())?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn each(nodes: &[NodeRings]) -> impl Iterator<Item = (&NodeRings, &Path, &Reader)> {
    nodes.iter().flat_map(|node| node.lanes.iter().map(move |(path, reader)| (node, path.as_path(), reader)))
}

/// What a ring holds at this moment.
struct Held<'a> {
    reader: &'a Reader,
    slots: u32,
    rows: u64,
    first_row: u64,
    oldest: Option<Stamp>,
    newest: Option<Stamp>,
    used: u64,
}

impl<'a> Held<'a> {
    fn by(reader: &'a Reader) -> Self {
        let blocks = reader.blocks();
        let header = |at: Option<&u64>| at.and_then(|&at| reader.header(at));
        let (first, last) = (header(blocks.first()), header(blocks.last()));
        Held {
            reader,
            slots: last.map_or(0, |header| header.slots),
            rows: blocks.iter().map(|&at| count(reader, at)).sum(),
            first_row: first.map_or(0, |header| header.first_row),
            oldest: first.map(|header| header.stamp),
            newest: blocks.last().and_then(|&at| newest_stamp(reader, at)),
            used: reader.head().saturating_sub(reader.oldest()),
        }
    }

    /// Time between the oldest and the newest row.
    fn span(&self) -> Option<Nanos> {
        Some(self.newest?.boot.since(self.oldest?.boot))
    }

    /// How far a full ring reaches back, if its rows stay as large as they are.
    fn span_full(&self) -> Option<Nanos> {
        let rows = self.rows.checked_sub(1).filter(|&rows| rows > 0)?;
        let period = u128::from(self.reader.period().0);
        let nanos = u128::from(self.reader.size()) * u128::from(rows) * period / u128::from(self.used.max(1));
        Some(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn rate(&self) -> String {
        Rate::from_period(self.reader.period()).map_or("unknown".to_owned(), |rate| rate.to_string())
    }
}

fn table(nodes: &[NodeRings]) -> Table {
    let titles = [
        ("LANE", Side::Left),
        ("RATE", Side::Right),
        ("SLOTS", Side::Right),
        ("ROWS", Side::Right),
        ("MINUTES", Side::Right),
        ("FULL", Side::Right),
        ("USED", Side::Right),
        ("SIZE", Side::Right),
        ("NEWEST", Side::Right),
        ("WRITER", Side::Left),
    ];
    let mut table = Table::new(&titles, titles.len() - 1);
    for (node, _, reader) in each(nodes) {
        let held = Held::by(reader);
        table.row([
            if nodes.len() == 1 {
                reader.label().lane.clone()
            } else {
                format!("{}:{}", node.node, reader.label().lane)
            },
            held.rate(),
            held.slots.to_string(),
            held.rows.to_string(),
            held.span().map_or("-".to_owned(), minutes),
            held.span_full().map_or("-".to_owned(), minutes),
            bytes(held.used),
            bytes(reader.size()),
            held.newest.map_or("-".to_owned(), seconds),
            if node.is_written { "alive" } else { "dead" }.to_owned(),
        ]);
    }
    table
}

fn minutes(span: Nanos) -> String {
    format!("{:.1}", span.as_secs_f64() / 60.0)
}

/// To the second, since the table has 80 columns. JSON has the exact time.
fn seconds(stamp: Stamp) -> String {
    let text = stamp.real_text();
    text[..text.len() - 10].to_owned()
}

/// `64MiB`; `1.2MiB` where it is not a whole number of KiB.
fn bytes(count: u64) -> String {
    const MIB: u64 = 1 << 20;
    match count {
        count if count.is_multiple_of(1 << 10) => ByteSize(count).to_string(),
        count if count >= MIB => format!("{:.1}MiB", count as f64 / MIB as f64),
        count => format!("{:.1}KiB", count as f64 / 1024.0),
    }
}

fn object(node: &NodeRings, path: &Path, held: &Held<'_>) -> serde_json::Value {
    let reader = held.reader;
    let seconds = |span: Option<Nanos>| span.map(|span| format!("{:.3}", span.as_secs_f64()));
    json!({
        "node": node.node,
        "lane": reader.label().lane,
        "file": path.display().to_string(),
        "epoch": format!("{:016x}", reader.label().epoch),
        "generation": reader.generation(),
        "period_ns": reader.period().0,
        "rate": held.rate(),
        "slots": held.slots,
        "rows": held.rows,
        "first_row": held.first_row,
        "held_seconds": seconds(held.span()),
        "held_seconds_full": seconds(held.span_full()),
        "bytes_used": held.used,
        "bytes": reader.size(),
        "oldest": held.oldest.map(Stamp::real_text),
        "newest": held.newest.map(Stamp::real_text),
        "writer": {"pid": reader.pid(), "alive": node.is_written},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (count, shown) in [(64 << 20, "64MiB"), (0, "0B"), (1_300_000, "1.2MiB"), (1_500, "1.5KiB")] {
            assert_eq!(bytes(count), shown);
        }
    }

    #[test]
    fn minutes_have_one_place() {
        assert_eq!(minutes(Nanos::from_secs(90)), "1.5");
    }
}
