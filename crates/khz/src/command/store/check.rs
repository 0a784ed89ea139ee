//! `khz store check`: reads everything that a store has, and names what is damaged.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_store::{StoreError, StoreReader};

use super::files;
use crate::config::StoreFlags;
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Examples for `khz store check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store check                   the store of this machine's hub
  khz store check /srv/khz          another store";

/// `khz store check`.
#[derive(Debug, Args)]
pub struct StoreCheckFlags {
    /// The directory of the store [default: that of this machine's hub].
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Checks a store, and prints a line for each damaged part. So it does for each file that is none of the store's, and for the
/// end of a log that is not whole; these are no damage.
pub fn check(directory: &Path, out: &mut impl Write) -> Outcome {
    let failed = |error| Failure::work(sentence(&error));
    let store = StoreReader::open(directory).map_err(failed)?;
    let shelf = store.shelf().clone();
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for error in store.check().map_err(failed)? {
        match error {
            StoreError::Foreign { .. } | StoreError::SetAside { .. } | StoreError::Unfinished { .. } => {
                remarks.push(sentence(&error))
            }
            damage => found.push(sentence(&damage)),
        }
    }
    for line in found.iter().chain(&remarks) {
        writeln!(out, "{line}")?;
    }
    let files: usize = shelf.facts().iter().map(|tier| tier.files).sum();
    let segments = files::segments(directory)?.0;
    if found.is_empty() {
        writeln!(out, "{segments} segments of the log and {files} column files are whole")?;
    }
    out.flush()?;
    match found.len() {
        0 => Ok(Done::Wholly),
        1 => Err(Failure::work("one part is damaged; readers use what is whole")),
        parts => Err(Failure::work(format!("{parts} parts are damaged; readers use what is whole"))),
    }
}
