//! The ring files of this machine: one directory for each node, below a common one. Makes no directory.

use clap::Args;
use std::path::{Path, PathBuf};

use khz_ring::Reader;

use crate::config::Plan;
use crate::config::places::{SHARED_RINGS, usual_ring_dir};
use crate::config::plan::RingDir;
use crate::show::outcome::{Failure, sentence};

/// Where a command looks for rings.
#[derive(Debug, Args)]
pub struct RingPlace {
    /// A directory of rings, or of such directories [default: where the agents put them].
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// The directory in which a command looks for rings: that of its flag, else that of the configuration; `None`: the usual
/// ones.
pub fn chosen(flags: &RingPlace, plan: &Plan) -> Option<PathBuf> {
    let configured = match &plan.ring_dir {
        RingDir::Below(path) => Some(path),
        RingDir::Usual | RingDir::Nowhere => None,
    };
    flags.directory.as_ref().or(configured).cloned()
}

/// The directories that may hold rings.
pub fn places(chosen: Option<PathBuf>) -> Vec<PathBuf> {
    chosen.map_or_else(|| vec![usual_ring_dir(), SHARED_RINGS.into()], |place| vec![place])
}

/// The rings of one node.
pub struct NodeRings {
    /// The node, as its rings name it.
    pub node: String,
    /// An agent writes them now.
    pub is_written: bool,
    /// The lanes that can be read.
    pub lanes: Vec<(PathBuf, Reader)>,
}

/// The rings in `place` (the common directory, or that of one node), or in the usual places; of one node, where one is
/// named. Files that cannot be read are named on stderr and left out. No rings at all are an error.
pub fn find(place: Option<PathBuf>, node: Option<&str>) -> Result<Vec<NodeRings>, Failure> {
    let places = places(place);
    let mut folders: Vec<PathBuf> = places.iter().flat_map(|place| node_folders(place)).collect();
    folders.sort();
    folders.dedup();
    let mut found: Vec<NodeRings> = folders.iter().filter_map(|folder| read(folder)).collect();
    if let Some(node) = node {
        found.retain(|rings| rings.node == node);
    }
    if found.is_empty() {
        return Err(Failure::work(nothing(&places, node)));
    }
    Ok(found)
}

/// The sentence for no rings.
pub fn nothing(places: &[PathBuf], node: Option<&str>) -> String {
    let mut places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    places.dedup();
    let of = node.map_or(String::new(), |node| format!(" of {node}"));
    let hidden = places.iter().find_map(|place| {
        let error = std::fs::read_dir(place).err()?;
        (error.kind() == std::io::ErrorKind::PermissionDenied).then(|| format!(" ({place}: {error})"))
    });
    format!("no rings{of} in {}{}", places.join(" or "), hidden.unwrap_or_default())
}

/// The directory itself, where it holds rings, and those in it.
fn node_folders(place: &Path) -> Vec<PathBuf> {
    let inner = std::fs::read_dir(place).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let folders = inner.filter(|path| path.is_dir()).chain([place.to_path_buf()]);
    folders.filter(|folder| khz_ring::rings(folder).is_ok_and(|files| !files.is_empty())).collect()
}

fn read(folder: &Path) -> Option<NodeRings> {
    let mut lanes = Vec::new();
    for path in khz_ring::rings(folder).unwrap_or_default() {
        match Reader::open(&path) {
            Ok(reader) => lanes.push((path, reader)),
            Err(error) => crate::show::table::remark!("{}", sentence(&error)),
        }
    }
    lanes.sort_by_key(|(_, reader)| reader.label().number);
    let node = lanes.first()?.1.label().node.clone();
    Some(NodeRings { node, is_written: khz_ring::is_written(folder).unwrap_or(false), lanes })
}
