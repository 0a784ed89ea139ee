//! The directories that khz uses when no setting names one: for local sockets, rings, the list of a hub's nodes, and stored
//! rows. Makes none of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use khz_model::NodeName;

use super::Plan;
use super::plan::{RingDir, StateDir};

/// The rings of the machine's agent: root's, or that of the user who owns the directory (`packaging/tmpfiles.d`).
pub const SHARED_RINGS: &str = "/dev/shm/khz";

/// Directories that may hold local sockets; ours go into the first.
pub fn run_dirs(plan: &Plan) -> Vec<PathBuf> {
    khz_client::place::run_dirs(plan.run_dir.as_deref())
}

/// The directory of rings when no setting names one: the machine's, for root and for its owner, else the user's own.
pub fn usual_ring_dir() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() || belongs_to(Path::new(SHARED_RINGS), user.as_raw()) {
        return SHARED_RINGS.into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("khz"),
        None => format!("{SHARED_RINGS}-{}", user.as_raw()).into(),
    }
}

/// A link belongs to its maker, wherever it points; therefore it is not followed.
fn belongs_to(folder: &Path, user: u32) -> bool {
    folder.symlink_metadata().is_ok_and(|about| about.is_dir() && about.uid() == user)
}

/// The directory of this node's rings; `None`: they are in memory without a name.
pub fn rings_of(place: &RingDir, node: &NodeName) -> Option<PathBuf> {
    match place {
        RingDir::Usual => Some(usual_ring_dir().join(node.as_str())),
        RingDir::Nowhere => None,
        RingDir::Below(path) => Some(path.join(node.as_str())),
    }
}

/// True where the directory of all nodes may be removed with the last node: root's, and a user's own. False for one that
/// was made for a user, who could not make it again with the same owner and mode, and for one that a setting names.
pub fn may_remove_ring_dir(place: &RingDir) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    *place == RingDir::Usual && (is_root || usual_ring_dir() != Path::new(SHARED_RINGS))
}

/// Where a hub keeps the list of its nodes; `Ok(None)`: nowhere, as the setting says; `Err`: no environment variable says
/// where.
pub fn state_dir(place: &StateDir) -> Result<Option<PathBuf>, NoStateDir> {
    match place {
        StateDir::Nowhere => Ok(None),
        StateDir::Here(directory) => Ok(Some(directory.clone())),
        StateDir::Usual => usual_state_dir().map(Some).ok_or(NoStateDir),
    }
}

/// Where a hub stores rows: as `store` says, else below the directory of its list. The results are those of [`state_dir`].
pub fn store_dir(plan: &Plan) -> Result<Option<PathBuf>, NoStateDir> {
    match &plan.store.dir {
        StateDir::Usual => Ok(state_dir(&plan.state_dir)?.map(|directory| directory.join("store"))),
        place => state_dir(place),
    }
}

/// Neither HOME nor XDG_STATE_HOME says where a hub may keep its list.
#[derive(Debug)]
pub struct NoStateDir;

/// The directory of a hub's list when no setting names one: the service's, root's, or the user's own.
pub fn usual_state_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // Set by systemd for a unit with StateDirectory=.
    if let Some(folder) = absolute("STATE_DIRECTORY") {
        return Some(folder);
    }
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/khz".into());
    }
    let folder = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    folder.map(|folder| folder.join("khz"))
}
