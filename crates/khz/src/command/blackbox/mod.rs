//! `khz blackbox`: the freezes of a hub: the list, one freeze, its recording, its removal. It starts no freeze; `freeze.rs` does.

pub mod shown;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::command::past::now;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{json_line, printable, remark};
use crate::show::terminal;

const LIST_EXAMPLES: &str = "\
Examples:
  khz blackbox list                 each freeze, with its cause
  khz blackbox list --json          one object a line

`khz freeze`, rules and failing programs freeze rows: docs/blackbox.md.";

const SHOW_EXAMPLES: &str = "\
Examples:
  khz blackbox show 7               what its nodes did, and why some are missing

Exit codes: 0 its rows are whole, or it still runs, 1 there is no such freeze,
3 nodes or rows are missing.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  khz blackbox export 7 -o hang.khzt
  khz plot hang.khzt -m cpu.all.system -o hang.svg
  khz export hang.khzt --match 'node[1-4]:load.*' > load.csv

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nodes or rows are missing in it.";

const RM_EXAMPLES: &str = "\
Examples:
  khz blackbox rm 7                 its recording goes, too

Over the network you need an operator's token or certificate: docs/security.md.";

/// `khz blackbox`.
#[derive(Debug, Subcommand)]
pub enum BlackBoxCommand {
    /// List the freezes of a hub.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListFlags),
    /// Show one freeze: its cause, its times, and what its nodes did.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowFlags),
    /// Write the rows of a freeze into a recording.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportFlags),
    /// Remove a freeze and its recording.
    #[command(after_help = RM_EXAMPLES)]
    Rm(RmFlags),
}

/// `khz blackbox list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// `khz blackbox show`.
#[derive(Debug, Args)]
pub struct ShowFlags {
    /// The number of the freeze.
    #[arg(value_name = "ID")]
    pub id: u64,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// `khz blackbox export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// The number of the freeze.
    #[arg(value_name = "ID")]
    pub id: u64,
    /// The file.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// `khz blackbox rm`.
#[derive(Debug, Args)]
pub struct RmFlags {
    /// The number of the freeze.
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Runs one of them.
pub fn run(command: BlackBoxCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        BlackBoxCommand::List(flags) => list(flags, outer, out),
        BlackBoxCommand::Show(flags) => show(flags, outer, out),
        BlackBoxCommand::Export(flags) => export(flags, outer, out),
        BlackBoxCommand::Rm(flags) => remove(flags, outer, out),
    }
}

fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let freezes = flags.target.running(&plan)?.freezes()?;
    if flags.json {
        for freeze in &freezes {
            writeln!(out, "{}", json_line(&json!(freeze)))?;
        }
    } else if freezes.is_empty() {
        remark!("nothing was frozen; `khz freeze NODES` does it: docs/blackbox.md");
    } else {
        write!(out, "{}", shown::table(&freezes, now()).render(terminal::width()))?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn show(flags: ShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let freeze = flags.target.running(&plan)?.freeze_of(flags.id)?;
    match flags.json {
        true => writeln!(out, "{}", json_line(&json!(freeze)))?,
        false => write!(out, "{}", shown::whole(&freeze))?,
    }
    out.flush()?;
    // The nodes were named above.
    let is_whole = freeze.count(&["fetched"]) == freeze.nodes && freeze.problem.is_none();
    let is_partly = freeze.is_done() && !is_whole;
    Ok(if is_partly { Done::Partly { missing: Vec::new() } } else { Done::Wholly })
}

fn export(flags: ExportFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let server = flags.target.running(&plan)?;
    let freeze = server.freeze_of(flags.id)?;
    if freeze.is_done() && freeze.bytes == 0 {
        let why = freeze.problem.as_deref().unwrap_or("nothing was written");
        return Err(Failure::work(format!("freeze {} has no recording: {}", flags.id, printable(why))));
    }
    let mut rows = server.frozen_rows(flags.id)?;
    let path = flags.output.display();
    let failed = |error: std::io::Error| Failure::work(format!("cannot write {path}: {error}"));
    let mut file = File::create(&flags.output).map_err(failed)?;
    let (mut piece, mut bytes) = (Vec::new(), 0);
    while rows.read(&mut piece)? {
        file.write_all(&piece).map_err(failed)?;
        bytes += piece.len();
        piece.clear();
    }
    file.sync_all().map_err(failed)?;
    writeln!(out, "{path}: freeze {}, {bytes} bytes", flags.id)?;
    out.flush()?;
    if !freeze.is_done() {
        remark!("freeze {} is still being fetched: the file has what has come so far", flags.id);
    }
    Ok(shown::end(&freeze, true))
}

fn remove(flags: RmFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    flags.target.running(&plan)?.remove_freeze(flags.id)?;
    writeln!(out, "freeze {} is removed", flags.id)?;
    out.flush()?;
    Ok(Done::Wholly)
}
