//! The local sockets of this process: where they go, and how they are bound.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use khz_door::LocalSocket;

use crate::config::{Plan, places};
use crate::show::outcome::sentence;

/// Every user may look for a socket in this folder. The socket grants rights by the user's role.
const RUN_DIR_MODE: u32 = 0o755;

/// Our own local socket. Without one, readers use TCP; the reason is only logged.
pub fn bind(plan: &Plan, name: &str) -> Option<LocalSocket> {
    let path = path(plan, name)?;
    match LocalSocket::bind(&path) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::info!("there is no local socket: {}", sentence(&error));
            None
        }
    }
}

/// The path of a local socket of ours, in a folder that exists.
pub fn path(plan: &Plan, name: &str) -> Option<PathBuf> {
    Some(run_dir(plan)?.join(name))
}

/// The folder of our local sockets and run keys; it exists.
pub fn run_dir(plan: &Plan) -> Option<PathBuf> {
    let folder = places::run_dirs(plan).into_iter().next()?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(RUN_DIR_MODE).create(&folder);
    if let Err(error) = made {
        tracing::info!("there are no local sockets: cannot make {}: {error}", folder.display());
        return None;
    }
    // Where every user can write, another user may have made the folder first.
    if !khz_client::place::is_safe(&folder) {
        tracing::warn!("there are no local sockets: {} is another user's", folder.display());
        return None;
    }
    Some(folder)
}

/// The listener of a local socket, for a thread of its own; where there is none, the reason is only logged.
pub fn listener(socket: &mut LocalSocket) -> Option<UnixListener> {
    socket.std_listener().unwrap_or_else(|error| {
        tracing::info!("there is no local socket: {error}");
        None
    })
}
