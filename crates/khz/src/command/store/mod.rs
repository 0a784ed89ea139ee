//! `khz store`: what a store holds, and whether it is whole. It reads the files themselves, also while a hub writes them.

mod check;
mod files;
mod show;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use self::check::StoreCheckFlags;
use self::show::StoreShowFlags;
use crate::config::{NodeFlags, Plan, places};
use crate::show::outcome::{Failure, Outcome};
use crate::show::terminal;

/// `khz store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show how much a store holds of each resolution, from when to when, and how long each lasts.
    ///
    /// LASTS is how far each resolution will reach back once the store is full, if rows go on coming as they do now. The
    /// oldest hours go first when the store is larger than --keep; then what is older than its keeping time.
    #[command(after_help = show::EXAMPLES)]
    Show(StoreShowFlags),
    /// Read everything, and name what is damaged, with file and offset. The exit code is 1 if anything is.
    #[command(after_help = check::EXAMPLES)]
    Check(StoreCheckFlags),
}

/// Runs one of them.
pub fn run(command: StoreCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        StoreCommand::Show(flags) => {
            let (_, plan) = super::plan(flags.settings.over(outer))?;
            show::show(&directory(flags.dir, &plan)?, flags.json, &plan, terminal::width(), out)
        }
        StoreCommand::Check(flags) => {
            let (_, plan) = super::plan(flags.settings.over(outer))?;
            check::check(&directory(flags.dir, &plan)?, out)
        }
    }
}

/// The directory that is named, or that of this machine's hub.
fn directory(named: Option<PathBuf>, plan: &Plan) -> Result<PathBuf, Failure> {
    let usual = || places::store_dir(plan).ok().flatten();
    let found = named.or_else(usual);
    let found = found.ok_or_else(|| Failure::usage("no directory says where the store is: name one"))?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(Failure::usage(format!(
            "there is no store in {}: name its directory, or start `khz hub`",
            found.display()
        ))),
    }
}
