//! `khz export`: the rows of a recording as CSV or JSON, or given to [`parquet`]. Values are the kernel's own,
//! digit for digit; absent is empty and failed says so.

#[cfg(feature = "parquet")]
mod parquet;

use crate::command::recording::Chosen;
use clap::Args;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::path::PathBuf;

use khz_block::Decoder;
use khz_model::{Absence, Nanos, Reading, Series, Stamp};
use khz_record::{Event, Gap, LaneSurvey};
use serde_json::{Map, Value, json};

use crate::command::recording::{Opened, of_error, open};
use crate::command::ring::cell;
use crate::show::outcome::{Failure, Outcome};
use crate::show::table::{json_line, printable};

/// Examples for `khz export --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz export run.khzt                         everything, as CSV
  khz export run.khzt --match 'node[1-4]:load.*' -o load.csv
  khz export run.khzt --json | jq .values     one object a row
  khz export run.000*.khzt                    the files of a rotation
  khz export run.khzt --parquet -o run.parquet

Rows of a node come in order; nodes alternate block by block. Values are the
kernel's own decimals, counters as totals; absent is empty, failed is the word.
What of a damaged file is whole is printed; the damage is named with its place,
and the exit code is 1.";

/// `khz export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// What to print.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Values separated by commas: this is what comes without a flag.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// A Parquet file, if this program was built with it; needs --output.
    #[arg(long, conflicts_with_all = ["csv", "json"], requires = "output")]
    pub parquet: bool,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Prints the rows, or writes them to the file that the flags name.
pub fn run(flags: &ExportFlags, out: &mut impl Write) -> Outcome {
    if flags.parquet && !cfg!(feature = "parquet") {
        return Err(Failure::usage(NO_PARQUET));
    }
    let opened = open(&flags.chosen)?;
    match &flags.output {
        None => write(flags, &opened, out)?,
        Some(path) if flags.parquet => write_parquet(&opened, create(path)?)?,
        Some(path) => write(flags, &opened, &mut BufWriter::new(create(path)?))?,
    }
    opened.end()
}

const NO_PARQUET: &str = "this program was built without Parquet; one that has it is built with \
                          'cargo build --release -p khz --features parquet'";

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))
}

#[cfg(feature = "parquet")]
fn write_parquet(opened: &Opened, file: File) -> Result<(), Failure> {
    parquet::write(opened, file)
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &Opened, _: File) -> Result<(), Failure> {
    Err(Failure::usage(NO_PARQUET))
}

fn write(flags: &ExportFlags, opened: &Opened, out: &mut impl Write) -> Result<(), Failure> {
    let columns = Columns::of(opened);
    if !flags.json {
        let names = columns.series.iter().map(ToString::to_string);
        let titles: Vec<String> =
            ["time", "boot", "node"].map(String::from).into_iter().chain(names).collect();
        writeln!(out, "{}", titles.join(","))?;
    }
    let mut marks = Marks::of(opened);
    each_row(opened, &columns, |line| {
        for gap in marks.before(line.lane, line.number) {
            let marked = if flags.json { line.json_gap(&gap, out) } else { line.csv_gap(&gap, out) };
            marked.map_err(Failure::Output)?;
        }
        let written = if flags.json { line.json(out) } else { line.csv(out) };
        written.map_err(Failure::Output)
    })?;
    Ok(out.flush()?)
}

/// The gaps of each lane that were not marked yet, the first of them last.
struct Marks(Vec<Vec<Gap>>);

impl Marks {
    fn of(opened: &Opened) -> Self {
        let gaps = |lane: &LaneSurvey| lane.gaps().into_iter().rev().collect();
        Marks(opened.survey.lanes.iter().map(gaps).collect())
    }

    /// Those before this row of a lane, each once.
    fn before(&mut self, lane: usize, number: u64) -> Vec<Gap> {
        let gaps = &mut self.0[lane];
        let at = gaps.iter().position(|gap| gap.before <= number).unwrap_or(gaps.len());
        let mut due = gaps.split_off(at);
        due.reverse();
        // A row in the middle of a recording that is shown in part has no gap before it that anybody sees.
        due.retain(|gap| gap.before == number);
        due
    }
}

/// Gives every chosen row to `take`, until that fails.
pub fn each_row(
    opened: &Opened,
    columns: &Columns,
    mut take: impl FnMut(&Line<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut slots: Vec<Vec<Slot>> = vec![Vec::new(); opened.survey.lanes.len()];
    let mut problem: Option<Failure> = None;
    let read = opened.recording.read(|event| match event {
        _ if problem.is_some() => {}
        Event::Columns(lane, series) => slots[lane] = slots_of(opened, lane, &series, &columns.places),
        Event::Block(block) => {
            let lane = block.lane;
            block.rows(|number, row| {
                if problem.is_some() || slots[lane].is_empty() || !opened.holds(row.stamp().real()) {
                    return;
                }
                let line = Line { opened, lane, number, row, slots: &slots[lane], columns: &columns.series };
                problem = take(&line).err();
            });
        }
        _ => {}
    });
    match problem {
        Some(failure) => Err(failure),
        None => read.map(|_| ()).map_err(of_error),
    }
}

/// The series of all nodes, each once, and where it stands.
pub struct Columns {
    /// In the order of the columns.
    pub series: Vec<Series>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// What the flags choose.
    pub fn of(opened: &Opened) -> Self {
        let (mut columns, mut places) = (Vec::new(), HashMap::new());
        for lane in &opened.survey.lanes {
            for series in lane.series.iter().filter(|series| lane.selects(&opened.patterns, series)) {
                places.entry(series.to_string()).or_insert_with(|| {
                    columns.push(series.clone());
                    columns.len() - 1
                });
            }
        }
        Columns { series: columns, places }
    }
}

/// A chosen slot of a lane. Two nodes may publish a series of one name with decimal places of their own.
#[derive(Clone, Copy)]
struct Slot {
    slot: usize,
    column: usize,
    places: u8,
}

fn slots_of(opened: &Opened, lane: usize, series: &[Series], places: &HashMap<String, usize>) -> Vec<Slot> {
    let survey = &opened.survey.lanes[lane];
    let chosen = series.iter().enumerate().filter(|(_, series)| survey.selects(&opened.patterns, series));
    let slot = |(slot, series): (usize, &Series)| {
        let column = *places.get(&series.to_string())?;
        Some(Slot { slot, column, places: series.metric.places })
    };
    chosen.filter_map(slot).collect()
}

/// One row to be written.
pub struct Line<'a> {
    opened: &'a Opened,
    lane: usize,
    number: u64,
    row: &'a Decoder,
    slots: &'a [Slot],
    columns: &'a [Series],
}

impl Line<'_> {
    fn reading(&self, slot: usize) -> Reading {
        self.row.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// Whose row it is.
    #[cfg(feature = "parquet")]
    pub fn node(&self) -> &str {
        &self.opened.survey.lanes[self.lane].lane.node
    }

    /// When it was gathered.
    #[cfg(feature = "parquet")]
    pub fn stamp(&self) -> khz_model::Stamp {
        self.row.stamp()
    }

    /// What is known: the column, the raw value and its decimal places.
    #[cfg(feature = "parquet")]
    pub fn values(&self) -> impl Iterator<Item = (usize, u64, u8)> {
        self.slots
            .iter()
            .filter_map(|slot| Some((slot.column, self.reading(slot.slot).value()?, slot.places)))
    }

    /// Names cannot hold commas or quotes: `%XX` stands for them.
    fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let stamp = self.row.stamp();
        let node = &self.opened.survey.lanes[self.lane].lane.node;
        write!(
            out,
            "{},{},{}",
            stamp.real_text(),
            stamp.boot_text(),
            printable(&node.replace([',', '"', '\n'], "_"))
        )?;
        let mut cells = vec![String::new(); self.columns.len()];
        for slot in self.slots {
            cells[slot.column] = cell(slot.places, self.reading(slot.slot));
        }
        for cell in cells {
            write!(out, ",{cell}")?;
        }
        writeln!(out)
    }

    /// The moment of the first row that is missing, with the word in every column of the lane: no number stands for it.
    fn csv_gap(&self, gap: &Gap, out: &mut impl Write) -> io::Result<()> {
        let first = Stamp { boot: Nanos(gap.from.boot.0.saturating_add(gap.period.0)), ..gap.from };
        let node = &self.opened.survey.lanes[self.lane].lane.node;
        write!(
            out,
            "{},{},{}",
            first.real_text(),
            first.boot_text(),
            printable(&node.replace([',', '"', '\n'], "_"))
        )?;
        let mut cells = vec![""; self.columns.len()];
        self.slots.iter().for_each(|slot| cells[slot.column] = "missing");
        for cell in cells {
            write!(out, ",{cell}")?;
        }
        writeln!(out)
    }

    fn json_gap(&self, gap: &Gap, out: &mut impl Write) -> io::Result<()> {
        let lane = &self.opened.survey.lanes[self.lane].lane;
        let object = json!({
            "node": &*lane.node,
            "lane": &*lane.name,
            "gap": {
                "from": gap.from.real_text(),
                "to": gap.to.real_text(),
                "rows_missing": gap.rows,
                "ticks_without_row": gap.ticks,
            },
        });
        writeln!(out, "{}", json_line(&object))
    }

    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let lane = &self.opened.survey.lanes[self.lane].lane;
        let value = |slot: &Slot| {
            let (series, reading) = (&self.columns[slot.column], self.reading(slot.slot));
            let value = match reading {
                Reading::Present(_) => json!(cell(slot.places, reading)),
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
        writeln!(out, "{}", json_line(&object))
    }
}
