//! `khz ring rm`: removes what agents have left in shared memory. What a running agent writes stays.

use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

use khz_model::NodeName;
use khz_ring::{Folder, RingError};

use super::place::{self, RingPlace};
use crate::config::Plan;
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Examples for `khz ring rm --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz ring rm old1                  what an agent called old1 has left here
  khz ring rm old1 old2 --dir /srv/rings";

/// `khz ring rm`.
#[derive(Debug, Args)]
pub struct RingRmFlags {
    /// The nodes whose rings to remove.
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Where the rings are.
    #[command(flatten)]
    pub place: RingPlace,
}

/// Removes the rings of the nodes that are named. Those that cannot be removed are named on stderr.
pub fn rm(flags: &RingRmFlags, plan: &Plan, out: &mut impl Write) -> Outcome {
    let places = place::places(place::chosen(&flags.place, plan));
    let nodes = flags.nodes.iter().map(|name| NodeName::new(name).map_err(Failure::usage));
    let nodes: Vec<NodeName> = nodes.collect::<Result<_, _>>()?;
    let (mut removed, mut problems) = (0, Vec::new());
    for node in &nodes {
        let folders = folders(&places, node.as_str());
        if folders.is_empty() {
            problems.push(place::nothing(&places, Some(node.as_str())));
        }
        for folder in folders {
            match remove(&folder) {
                Ok(()) => {
                    removed += 1;
                    writeln!(out, "removed {}", folder.display())?;
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    out.flush()?;
    match (removed, problems.is_empty()) {
        (_, true) => Ok(Done::Wholly),
        (0, false) => Err(Failure::Work(problems.join("; "))),
        (_, false) => {
            problems.iter().for_each(|problem| crate::show::table::say(problem));
            Ok(Done::Partly { missing: Vec::new() })
        }
    }
}

/// The directories of a node: below the places, or one of the places itself.
fn folders(places: &[PathBuf], node: &str) -> Vec<PathBuf> {
    let itself = places.iter().filter(|place| place.ends_with(node)).cloned();
    let below = places.iter().map(|place| place.join(node));
    let mut folders: Vec<PathBuf> = itself.chain(below).collect();
    folders.sort();
    folders.dedup();
    folders.retain(|folder| folder.symlink_metadata().is_ok_and(|about| about.is_dir()) && has_rings(folder));
    folders
}

/// True for a directory with files of an agent. Other directories are not removed, whatever their name.
fn has_rings(folder: &Path) -> bool {
    let names =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    names.into_iter().any(|name| khz_ring::is_of_agents(name.as_encoded_bytes()))
}

fn remove(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    match Folder::lock_existing(folder).and_then(|locked| locked.remove(false)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{shown} stays: files that are not an agent's are in it")),
        Err(RingError::Locked { pid, .. }) => {
            let by = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
            Err(format!("{shown} stays: a running khz{by} writes it; stop that first"))
        }
        Err(error) => Err(sentence(&error)),
    }
}
