//! `khz store`: what a store holds, whether it is whole, and work on one that no hub writes. It reads the files themselves,
//! also while a hub writes them.

mod check;
mod compact;
mod export;
mod files;
mod import;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use khz_store::log::Intake;
use khz_store::{Store, StoreError};

use self::check::StoreCheckFlags;
use self::compact::StoreCompactFlags;
use self::export::StoreExportFlags;
use self::import::StoreImportFlags;
use self::show::StoreShowFlags;
use crate::config::{NodeFlags, Plan, places};
use crate::role::store;
use crate::show::outcome::{Failure, Outcome, sentence};
use crate::show::table::say;
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
    /// Do at once what a hub does in time: make columns of the log, merge, roll up, remove what is too old or too much.
    ///
    /// It is refused while a hub writes to the store.
    #[command(after_help = compact::EXAMPLES)]
    Compact(StoreCompactFlags),
    /// Write a span of a store into a recording, which `khz export`, `khz plot` and `khz correlate` read.
    #[command(after_help = export::EXAMPLES)]
    Export(StoreExportFlags),
    /// Take recordings into a store.
    ///
    /// A store has one lane of each node: of several in a recording, the slowest is taken in. It is refused while a hub writes to the store. Rows that the store has already come once. Rows older than those that
    /// the store keeps (--store-raw) are left out.
    #[command(after_help = import::EXAMPLES)]
    Import(StoreImportFlags),
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
        StoreCommand::Compact(flags) => {
            let (_, plan) = super::plan(flags.settings.over(outer))?;
            compact::compact(&directory(flags.dir, &plan)?, &plan, out)
        }
        StoreCommand::Export(flags) => {
            let (_, plan) = super::plan(flags.settings.clone().over(outer))?;
            export::export(&flags, &directory(flags.dir.clone(), &plan)?, out)
        }
        StoreCommand::Import(flags) => {
            let (_, plan) = super::plan(flags.settings.over(outer))?;
            import::import(&flags.files, &plan, out)
        }
    }
}

/// The directory that is named, or that of this machine's hub.
fn named(dir: Option<PathBuf>, plan: &Plan) -> Result<PathBuf, Failure> {
    let usual = || places::store_dir(plan).ok().flatten();
    dir.or_else(usual).ok_or_else(|| Failure::usage("nothing says where the store is: name its directory"))
}

/// The same, where there is a store.
fn directory(dir: Option<PathBuf>, plan: &Plan) -> Result<PathBuf, Failure> {
    let found = named(dir, plan)?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(Failure::usage(format!(
            "there is no store in {}: name its directory, or start `khz hub`",
            found.display()
        ))),
    }
}

/// Opens a store to change it; refused while a hub writes there.
fn open(directory: &Path, plan: &Plan) -> Result<(Store, Intake), Failure> {
    let opened = Store::open(directory, store::keep(&plan.store), store::now());
    let (store, intake, damage) = opened.map_err(|error| match error {
        StoreError::InUse { .. } => Failure::usage(sentence(&error)),
        error => Failure::work(sentence(&error)),
    })?;
    damage.iter().for_each(|error| say(&sentence(error)));
    Ok((store, intake))
}
