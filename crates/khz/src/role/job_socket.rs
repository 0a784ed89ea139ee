//! The datagram socket at which jobs publish their own numbers (`docs/publish.md`). The gatherer reads what arrives there.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_gather::JobDoor;
use khz_trust::{Door, Way, standing};

use crate::config::Plan;
use crate::role::local_socket;

/// Its name in the run directory.
pub const PUBLISH_SOCKET: &str = "publish.sock";

/// The mode of the socket. The table of roles says who may publish. The gatherer limits how much.
fn mode() -> u32 {
    let others = standing(Door::Publish, Way::LocalOther, None).may_publish();
    if others { 0o666 } else { 0o600 }
}

/// The bound socket. Its file is removed with it.
pub struct JobSocket {
    path: PathBuf,
    door: Arc<JobDoor>,
}

impl JobSocket {
    /// Binds the socket; `None` where it cannot be bound, which is only logged.
    pub fn open(plan: &Plan) -> Option<Self> {
        let path = local_socket::path(plan, PUBLISH_SOCKET)?;
        match bind(&path).and_then(JobDoor::new) {
            Ok(door) => Some(JobSocket { path, door }),
            Err(error) => {
                tracing::info!("jobs cannot publish at {}: {error}", path.display());
                None
            }
        }
    }

    /// The socket for the gatherer.
    pub fn door(&self) -> Arc<JobDoor> {
        self.door.clone()
    }
}

impl Drop for JobSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Replaces the socket of a process that has ended.
fn bind(path: &Path) -> io::Result<UnixDatagram> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::other("it is there, and is no socket"));
        }
        Ok(_) => match UnixDatagram::unbound()?.connect(path) {
            Ok(()) => return Err(io::Error::other("it is in use by another khz")),
            Err(_) => fs::remove_file(path)?,
        },
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode()))?;
    Ok(socket)
}
