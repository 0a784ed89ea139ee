//! `khz ring`: what the rings of this machine's agents hold, while they run and after they have died. It reads the
//! files themselves.

mod export;
pub mod place;
mod remove;
mod rows;
mod show;

pub use rows::{Recording, newest_stamp};

use std::io::Write;

use clap::Subcommand;

use self::export::RingExportFlags;
use self::remove::RingRmFlags;
use self::show::RingShowFlags;
use crate::config::NodeFlags;
use crate::show::outcome::Outcome;
use crate::show::terminal;

/// `khz ring`.
#[derive(Debug, Subcommand)]
pub enum RingCommand {
    /// Show what each ring holds: rate, rows, minutes now and when it is full, newest row, its writer.
    #[command(after_help = show::EXAMPLES)]
    Show(RingShowFlags),
    /// Print the rows of a ring: exact decimals, counters as totals.
    ///
    /// On a terminal it is a table, otherwise CSV: the time (seconds since 1970), the time since boot, which no clock
    /// setting moves, and a column for each series. An absent value is empty, a failed one the word "failed".
    #[command(after_help = export::EXAMPLES)]
    Export(RingExportFlags),
    /// Remove the rings and the snapshot of agents that have ended. Those of a running agent stay.
    #[command(after_help = remove::EXAMPLES)]
    Rm(RingRmFlags),
}

/// Runs one of them.
pub fn run(command: RingCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = super::plan(outer)?;
    match command {
        RingCommand::Show(flags) => show::show(&flags, &plan, terminal::width(), out),
        RingCommand::Export(flags) => export::export(&flags, &plan, terminal::width(), out),
        RingCommand::Rm(flags) => remove::rm(&flags, &plan, out),
    }
}
