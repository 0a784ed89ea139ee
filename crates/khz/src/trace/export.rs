//! `khz export`: the rows of a recording as CSV or JSON. Values are the kernel's own, digit for digit; absent is empty
//! and failed says so.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use khz_block::Decoder;
use khz_model::{Absence, Reading, Series};
use khz_record::Event;
use serde_json::{Map, Value, json};

use super::flags::ExportFlags;
use super::open::{Opened, of_error, open};
use crate::outcome::{Failure, Outcome};
use crate::ring::cell;

/// Prints the rows, or writes them to the file that the flags name.
pub fn export(flags: &ExportFlags, out: &mut impl Write) -> Outcome {
    let opened = open(&flags.chosen)?;
    match &flags.output {
        None => write(flags, &opened, out)?,
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))?;
            write(flags, &opened, &mut BufWriter::new(file))?;
        }
    }
    opened.end()
}

/// Where the columns of a lane stand: its chosen slots, each with its column.
type Slots = Vec<(usize, usize)>;

fn write(flags: &ExportFlags, opened: &Opened, out: &mut impl Write) -> Result<(), Failure> {
    let (columns, places) = columns(opened);
    if !flags.json {
        let names = columns.iter().map(ToString::to_string);
        let titles: Vec<String> =
            ["time", "boot", "node"].map(String::from).into_iter().chain(names).collect();
        writeln!(out, "{}", titles.join(","))?;
    }
    let mut slots: Vec<Slots> = vec![Slots::new(); opened.survey.lanes.len()];
    let mut problem: Option<io::Error> = None;
    let read = opened.recording.read(|event| match event {
        _ if problem.is_some() => {}
        Event::Columns(lane, series) => slots[lane] = slots_of(opened, lane, &series, &places),
        Event::Block(block) => {
            let lane = block.lane;
            block.rows(|number, row| {
                if problem.is_some() || slots[lane].is_empty() || !opened.holds(row.stamp().real()) {
                    return;
                }
                let line = Line { opened, lane, number, row, slots: &slots[lane], columns: &columns };
                let written = if flags.json { line.json(out) } else { line.csv(out) };
                problem = written.err();
            });
        }
        _ => {}
    });
    if let Some(error) = problem {
        return Err(Failure::Output(error));
    }
    read.map_err(of_error)?;
    Ok(out.flush()?)
}

/// The series of all nodes, each once, and where it stands.
fn columns(opened: &Opened) -> (Vec<Series>, HashMap<String, usize>) {
    let (mut columns, mut places) = (Vec::new(), HashMap::new());
    for lane in &opened.survey.lanes {
        for series in lane.series.iter().filter(|series| lane.selects(&opened.patterns, series)) {
            places.entry(series.to_string()).or_insert_with(|| {
                columns.push(series.clone());
                columns.len() - 1
            });
        }
    }
    (columns, places)
}

fn slots_of(opened: &Opened, lane: usize, series: &[Series], places: &HashMap<String, usize>) -> Slots {
    let survey = &opened.survey.lanes[lane];
    let chosen = series.iter().enumerate().filter(|(_, series)| survey.selects(&opened.patterns, series));
    chosen.filter_map(|(slot, series)| Some((slot, *places.get(&series.to_string())?))).collect()
}

/// One row to be written.
struct Line<'a> {
    opened: &'a Opened,
    lane: usize,
    number: u64,
    row: &'a Decoder,
    slots: &'a Slots,
    columns: &'a [Series],
}

impl Line<'_> {
    fn reading(&self, slot: usize) -> Reading {
        self.row.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// Names cannot hold commas or quotes: `%XX` stands for them.
    fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let stamp = self.row.stamp();
        let node = &self.opened.survey.lanes[self.lane].lane.node;
        write!(out, "{},{},{}", stamp.real_text(), stamp.boot_text(), node.replace([',', '"', '\n'], "_"))?;
        let mut cells = vec![String::new(); self.columns.len()];
        for &(slot, column) in self.slots {
            cells[column] = cell(&self.columns[column], self.reading(slot));
        }
        for cell in cells {
            write!(out, ",{cell}")?;
        }
        writeln!(out)
    }

    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let lane = &self.opened.survey.lanes[self.lane].lane;
        let value = |&(slot, column): &(usize, usize)| {
            let (series, reading) = (&self.columns[column], self.reading(slot));
            let value = match reading {
                Reading::Present(_) => json!(cell(series, reading)),
                Reading::Absent(why) => json!({ "absent": why.to_string() }),
                Reading::Failed(fault) => json!({ "failed": fault.to_string() }),
            };
            (series.to_string(), value)
        };
        let values: Map<String, Value> = self.slots.iter().map(value).collect();
        let stamp = self.row.stamp();
        let object = json!({
            "node": &*lane.node,
            "lane": &*lane.name,
            "row": self.number,
            "time": stamp.real_text(),
            "boot": stamp.boot_text(),
            "values": values,
        });
        writeln!(out, "{object}")
    }
}
