//! `khz export`: its flags. `rows.rs` reads the rows of a recording, `text.rs` writes CSV and JSON, `parquet.rs` Parquet.
//! `past.rs` does the same with rows out of a hub's store.
//! Values are the kernel's own, digit for digit.

#[cfg(feature = "parquet")]
mod parquet;
mod past;
mod rows;
mod text;

use crate::command::recording::Chosen;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::path::PathBuf;

use self::rows::{Columns, each_row};
use self::text::Marks;
use crate::command::recording::{Opened, open};
use crate::show::outcome::{Failure, Outcome};
use crate::show::quantities;

/// Examples for `khz export --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz export run.khzt                         everything, as CSV
  khz export run.khzt --match 'node[1-4]:load.*' -o load.csv
  khz export run.khzt --json | jq .values     one object a row
  khz export run.000*.khzt                    the files of a rotation
  khz export run.khzt --parquet -o run.parquet
  khz export --from '2026-11-21 14:00' --to '2026-11-21 15:00' -m 'node7:load.*'
                                              the same out of the hub's store
  khz export --from -1h -m mem.free --json    the last hour

Without a FILE, --from and --to are moments: a date and a time (local, or UTC
with a Z at the end; the date may be 'today' or 'yesterday'), seconds since
1970, or how long ago.

Rows of a node come in order; nodes alternate block by block. Values are the
kernel's own decimals, and counters are totals. An absent value is an empty
cell, a failed one the word 'failed'. If a file is damaged, khz prints the
undamaged parts, and names the place of each damage. The exit code is then 1.";

/// `khz export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// What to print.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Comma-separated values (the default).
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
    /// Whose store to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Prints the rows, or writes them to the file that the flags name.
pub fn run(flags: ExportFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    if flags.parquet && !cfg!(feature = "parquet") {
        return Err(Failure::usage(NO_PARQUET));
    }
    if flags.chosen.is_past() {
        return past::run(&flags, outer, out);
    }
    let flags = &flags;
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
        let names = columns.series.iter().map(|series| quantities::csv(series.to_string()));
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
