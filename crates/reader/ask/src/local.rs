//! The local sockets for HTTP: their names, and which of them commands try first to find a khz that runs on this machine.

use std::path::{Path, PathBuf};

use khz_client::place;

/// The local socket of a khz that runs alone.
pub const ALONE_SOCKET: &str = "khz.sock";
/// The local socket of an agent.
pub const AGENT_SOCKET: &str = "agent.sock";
/// The local socket of a hub.
pub const HUB_SOCKET: &str = "hub.sock";
/// What commands try, the best first: a hub knows every node.
const SOCKETS: [&str; 3] = [HUB_SOCKET, ALONE_SOCKET, AGENT_SOCKET];

/// The best local socket at which a khz answers: in `run_dir`, or in the usual directories.
pub fn find(run_dir: Option<&Path>) -> Option<PathBuf> {
    let sockets = |folder: PathBuf| SOCKETS.map(|name| folder.join(name));
    place::run_dirs(run_dir).into_iter().flat_map(sockets).find(|path| place::listens(path))
}
