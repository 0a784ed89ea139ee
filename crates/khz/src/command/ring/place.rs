//! Where the ring files of this machine are: one directory for each node below a common one. It knows the usual places
//! and makes none of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use khz_model::NodeName;
use khz_ring::Reader;

use crate::cli::RingPlace;
use crate::config::Plan;
use crate::config::plan::RingDir;
use crate::show::outcome::{Failure, sentence};

/// The rings of the machine's agent: root's, or that of the user to whom the place was given (`packaging/tmpfiles.d`).
const SHARED: &str = "/dev/shm/khz";

/// Where the rings go when nobody says where: the machine's place for whom it belongs to, else the user's own.
pub fn usual() -> PathBuf {
    let own = rustix::process::geteuid();
    if own.is_root() || belongs_to(Path::new(SHARED), own.as_raw()) {
        return SHARED.into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("khz"),
        None => format!("{SHARED}-{}", own.as_raw()).into(),
    }
}

/// A link belongs to whoever made it, wherever it leads.
fn belongs_to(folder: &Path, user: u32) -> bool {
    folder.symlink_metadata().is_ok_and(|there| there.is_dir() && there.uid() == user)
}

/// The directory of a node's rings, for the agent that writes them.
pub fn folder(place: &RingDir, node: &NodeName) -> Option<PathBuf> {
    match place {
        RingDir::Usual => Some(usual().join(node.as_str())),
        RingDir::Nowhere => None,
        RingDir::Below(path) => Some(path.join(node.as_str())),
    }
}

/// Where a command looks for rings: where it is told, else where the agents are told; `None`: in the usual places.
pub fn told(flags: &RingPlace, plan: &Plan) -> Option<PathBuf> {
    let configured = match &plan.ring_dir {
        RingDir::Below(path) => Some(path),
        RingDir::Usual | RingDir::Nowhere => None,
    };
    flags.directory.as_ref().or(configured).cloned()
}

/// Where rings are looked for.
pub fn places(told: Option<PathBuf>) -> Vec<PathBuf> {
    told.map_or_else(|| vec![usual(), SHARED.into()], |place| vec![place])
}

/// Whether the directory of all nodes may go with the last of them: a user's own, and root's. Not one that was made for a user who
/// could not make it again as it was, and none that somebody has named.
pub fn is_ours_to_remove(place: &RingDir) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    *place == RingDir::Usual && (is_root || usual() != Path::new(SHARED))
}

/// The rings of one node.
pub struct NodeRings {
    /// The node, as its rings name it.
    pub node: String,
    /// An agent writes them at this moment.
    pub is_written: bool,
    /// The lanes that can be read.
    pub lanes: Vec<(PathBuf, Reader)>,
}

/// The rings in `place` (the common directory, or that of one node), or in the usual places; of one node, if one is
/// named. Files that cannot be read are said on stderr and left out; nothing at all is an error.
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

/// There are no rings there, in words.
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
