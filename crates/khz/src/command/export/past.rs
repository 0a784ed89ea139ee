//! `khz export --from` without a recording: rows out of a hub's store, in the same forms.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use khz_ask::{Cell, PastPart};
use khz_model::RangeShape;
use khz_store::lane_of_metric;
use serde_json::{Map, Value, json};

use super::{ExportFlags, create};
use crate::command::job_nodes;
use crate::command::past::{Asked, Step, Within};
use crate::config::NodeFlags;
use crate::show::outcome::{Failure, Outcome};
use crate::show::quantities::{csv, labels_json};
use crate::show::table::{json_line, printable};

/// Prints the rows of this span, or writes them to the file that the flags name.
pub fn run(flags: &ExportFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.clone().over(outer))?;
    let named = job_nodes::patterns(&flags.chosen.patterns, &flags.target, &plan)?;
    let (span, patterns) = (flags.chosen.span(&named)?, named.patterns);
    let ask = |shape| Asked::ask(&flags.target, &plan, &patterns, span, shape);
    // A table needs all its columns before the first row.
    let columns = if flags.json {
        PastColumns::default()
    } else {
        let mut newest = ask(RangeShape::Newest)?;
        let columns = PastColumns::of(&mut newest)?;
        if columns.series.is_empty() {
            return newest.end(Within::Rows(span));
        }
        columns
    };
    let mut asked = ask(RangeShape::Rows)?;
    // Nothing is printed, and no file made, if there are only summaries.
    if asked.is_empty()? {
        return asked.end(Within::Rows(span));
    }
    match &flags.output {
        None => write(flags, &mut asked, &columns, out)?,
        Some(path) if flags.parquet => write_parquet(&mut asked, &columns, create(path)?)?,
        Some(path) => write(flags, &mut asked, &columns, &mut BufWriter::new(create(path)?))?,
    }
    asked.end(Within::Rows(span))
}

/// The columns of a table: the series of all nodes, each once. A series that nodes have in different formats is one column,
/// in the format that came first.
#[derive(Default)]
pub struct PastColumns {
    /// By name, the place of its column and a part that has it.
    series: BTreeMap<String, (usize, PastPart)>,
}

impl PastColumns {
    /// The columns of everything that an answer has.
    fn of(asked: &mut Asked) -> Result<Self, Failure> {
        let mut columns = PastColumns::default();
        while let Some(part) = asked.next_part()? {
            let empty = PastPart { rows: Vec::new(), points: Vec::new(), ..part };
            columns.series.entry(empty.series()).or_insert((0, empty));
        }
        columns.series.values_mut().enumerate().for_each(|(place, (known, _))| *known = place);
        Ok(columns)
    }

    /// In the order of the columns.
    #[cfg(feature = "parquet")]
    pub fn series(&self) -> impl Iterator<Item = &PastPart> {
        self.series.values().map(|(_, part)| part)
    }

    /// The column of each part of a step; `None`: it is too new to have one.
    pub fn places(&self, step: &Step) -> Vec<Option<usize>> {
        step.parts.iter().map(|part| Some(self.series.get(&part.series())?.0)).collect()
    }
}

fn write(
    flags: &ExportFlags,
    asked: &mut Asked,
    columns: &PastColumns,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if !flags.json {
        let names = columns.series.keys().map(|series| csv(series.clone()));
        let titles: Vec<String> =
            ["time", "boot", "node"].map(String::from).into_iter().chain(names).collect();
        writeln!(out, "{}", titles.join(","))?;
    }
    while let Some(step) = asked.next_step()? {
        if flags.json {
            write_json(&step, out)?;
        } else {
            write_csv(&step, columns, out)?;
        }
    }
    Ok(out.flush()?)
}

fn write_csv(step: &Step, columns: &PastColumns, out: &mut impl Write) -> std::io::Result<()> {
    let node = printable(&step.node.replace([',', '"', '\n'], "_"));
    let places = columns.places(step);
    step.rows(|time, boot, row| {
        let mut cells = vec![String::new(); columns.series.len()];
        for (part, reading) in row {
            if let Some(place) = places[*part] {
                cells[place] = csv(cell(&reading.cell));
            }
        }
        writeln!(out, "{},{},{node},{}", time.seconds_text(), boot.seconds_text(), cells.join(","))
    })
}

/// A cell as in the table of a recording: empty where it is absent.
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Absent(_) => String::new(),
        Cell::Failed(_) => "failed".to_owned(),
        value => value.text().unwrap_or_default(),
    }
}

fn write_json(step: &Step, out: &mut impl Write) -> std::io::Result<()> {
    let names: Vec<String> = step.parts.iter().map(PastPart::series).collect();
    step.rows(|time, boot, row| {
        let mut lanes: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (part, reading) in row {
            let lane = lane_of_metric(&step.parts[*part].name);
            lanes.entry(lane).or_default().insert(names[*part].clone(), cell_json(&reading.cell));
        }
        for (lane, values) in lanes {
            let object = json!({
                "node": step.node,
                "lane": lane,
                "time": time.seconds_text(),
                "boot": boot.seconds_text(),
                "values": values,
            });
            writeln!(out, "{}", json_line(&object))?;
        }
        Ok(())
    })
}

fn cell_json(cell: &Cell) -> Value {
    match cell {
        Cell::Info(labels) => json!({ "info": labels_json(labels) }),
        Cell::Absent(why) => json!({ "absent": why }),
        Cell::Failed(fault) => json!({ "failed": fault }),
        value => json!(value.text()),
    }
}

#[cfg(feature = "parquet")]
fn write_parquet(asked: &mut Asked, columns: &PastColumns, file: File) -> Result<(), Failure> {
    super::parquet::write_past(asked, columns, file)
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &mut Asked, _: &PastColumns, _: File) -> Result<(), Failure> {
    Err(Failure::usage(super::NO_PARQUET))
}
