//! The local socket: a door for this machine alone, where the kernel names the caller's user. It never takes
//! over the socket of a living process, and removes its file.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use khz_trust::Place;
use tokio::net::{UnixListener, UnixStream};

/// Every user may connect; the user decides the role.
const MODE: u32 = 0o666;

/// A bound socket in the file system; dropping it removes its file.
#[derive(Debug)]
pub struct LocalSocket {
    listener: Option<net::UnixListener>,
    path: PathBuf,
}

/// Why there is no local socket.
#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    /// Another process accepts connections there.
    #[error("{path} is in use by another khz")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A file that is no socket has that name.
    #[error("{path} is there, and is no socket")]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The kernel refused to bind it.
    #[error("cannot listen on {path}")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl LocalSocket {
    /// Binds `path`; replaces a socket on which nobody answers.
    pub fn bind(path: &Path) -> Result<Self, LocalSocketError> {
        let failed = |source| LocalSocketError::Bind { path: path.into(), source };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(about) if !about.file_type().is_socket() => {
                return Err(LocalSocketError::NoSocket { path: path.into() });
            }
            Ok(_) => match net::UnixStream::connect(path) {
                Ok(_) => return Err(LocalSocketError::InUse { path: path.into() }),
                Err(_) => fs::remove_file(path).map_err(failed)?,
            },
        }
        let listener = net::UnixListener::bind(path).map_err(failed)?;
        let socket = LocalSocket { listener: Some(listener), path: path.into() };
        fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
        Ok(socket)
    }

    /// The socket, for a runtime; `None` after the first call.
    pub fn listener(&mut self) -> io::Result<Option<UnixListener>> {
        self.std_listener()?.map(UnixListener::from_std).transpose()
    }

    /// The socket for a thread without a runtime, in non-blocking mode.
    pub fn std_listener(&mut self) -> io::Result<Option<net::UnixListener>> {
        let Some(listener) = self.listener.take() else { return Ok(None) };
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The place of the caller: this process belongs to root and to our own user.
pub fn place(socket: &UnixStream) -> Place {
    let own = rustix::process::geteuid().as_raw();
    match socket.peer_cred() {
        Ok(peer) if peer.uid() == 0 => Place::LocalRoot,
        Ok(peer) if peer.uid() == own => Place::LocalOwn,
        Ok(_) | Err(_) => Place::LocalOther,
    }
}

/// The number of the caller's user, as the kernel says it.
pub fn uid(socket: &UnixStream) -> Option<u32> {
    socket.peer_cred().ok().map(|peer| peer.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("khz-http-{}-{name}.sock", std::process::id()))
    }

    #[test]
    fn a_living_socket_is_left_alone_and_a_dead_one_taken_over() {
        let path = path("taken");
        let first = LocalSocket::bind(&path).unwrap();
        assert!(matches!(LocalSocket::bind(&path), Err(LocalSocketError::InUse { .. })));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        drop(first);
        assert!(!path.exists(), "its file goes with it");
        drop(net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as after kill -9");
        let again = LocalSocket::bind(&path).unwrap();
        drop(again);
    }

    #[test]
    fn a_file_is_not_removed() {
        let path = path("file");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(LocalSocket::bind(&path), Err(LocalSocketError::NoSocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(path).unwrap();
    }
}
