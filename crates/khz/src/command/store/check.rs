//! `khz store check`: reads everything that a store has, and names what is damaged.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_store::log::LogView;
use khz_store::{LOG_FOLDER, StoreError, StoreReader};

use super::files;
use crate::config::StoreFlags;
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Examples for `khz store check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store check                   the store of this machine's hub
  khz store check /srv/khz          another one";

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

/// Checks a store, and prints a line for each damaged part, and for each file that is none of the store's.
pub fn check(directory: &Path, out: &mut impl Write) -> Outcome {
    let store = StoreReader::open(directory).map_err(|error| Failure::work(sentence(&error)))?;
    let (mut found, mut remarks): (Vec<String>, _) = (Vec::new(), Vec::new());
    let log = LogView::check(&directory.join(LOG_FOLDER)).map_err(|error| Failure::work(sentence(&error)))?;
    for damage in log.iter().chain(store.damage()).map(|error| sentence(error)) {
        if !found.contains(&damage) {
            found.push(damage);
        }
    }
    for error in store.shelf().check() {
        match error {
            StoreError::Foreign { .. } | StoreError::SetAside { .. } => remarks.push(sentence(&error)),
            damage => found.push(sentence(&damage)),
        }
    }
    for line in found.iter().chain(&remarks) {
        writeln!(out, "{line}")?;
    }
    let files: usize = store.shelf().facts().iter().map(|tier| tier.files).sum();
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
