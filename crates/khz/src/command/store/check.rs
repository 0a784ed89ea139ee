//! `khz store check`: reads everything that a store has, and names what is damaged.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_model::Nanos;
use khz_store::StoreError;

use super::files::Files;
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

/// Checks a store, and prints a line for each damaged part.
pub fn check(directory: &Path, out: &mut impl Write) -> Outcome {
    let work = |error: StoreError| Failure::work(sentence(&error));
    let files = Files::of(directory).map_err(work)?;
    let mut damage: Vec<String> = files.damage.iter().map(|error| sentence(error)).collect();
    if let Some(log) = &files.log {
        for node in log.nodes(None) {
            let mut found = Vec::new();
            log.blocks(&node, None, Nanos(0), Nanos(u64::MAX), &mut found);
            damage.extend(found.iter().map(|error| sentence(error)));
        }
    }
    for file in files.tiers.iter().flat_map(|tier| &tier.files) {
        damage.extend(file.check().iter().map(|error| sentence(error)));
    }
    for line in &damage {
        writeln!(out, "{line}")?;
    }
    for path in &files.unknown {
        writeln!(out, "{}: no khz has put it there; it is left alone", path.display())?;
    }
    let count = files.log_files.count + files.tiers.iter().map(|tier| tier.part.count).sum::<u64>();
    if damage.is_empty() {
        writeln!(out, "{count} files are whole")?;
    }
    out.flush()?;
    match damage.len() {
        0 => Ok(Done::Wholly),
        parts => Err(Failure::work(format!(
            "{parts} of the parts in {count} files and more are damaged; readers use what is whole"
        ))),
    }
}
