//! The local socket: a door that only this machine has, where the kernel says who comes. It refuses to take
//! another process' place, and leaves nothing behind.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use khz_trust::Place;
use tokio::net::{UnixListener, UnixStream};

/// Everybody may connect: who he is decides what he may do.
const MODE: u32 = 0o666;

/// A bound socket in the file system; its file goes with it.
#[derive(Debug)]
pub struct LocalSocket {
    listener: Option<net::UnixListener>,
    path: PathBuf,
}

/// Why there is no local socket.
#[derive(Debug, thiserror::Error)]
pub enum LocalSocketError {
    /// Another process answers there.
    #[error("{path} is in use by another khz")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has that name.
    #[error("{path} is there, and is no socket")]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot listen on {path}")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl LocalSocket {
    /// Binds `path`; a socket there that nobody answers on any more is taken over.
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

    /// The socket itself, for a runtime; once.
    pub fn listener(&mut self) -> io::Result<Option<UnixListener>> {
        self.std_listener()?.map(UnixListener::from_std).transpose()
    }

    /// The same for a thread without a runtime; it does not block.
    pub fn std_listener(&mut self) -> io::Result<Option<net::UnixListener>> {
        let Some(listener) = self.listener.take() else { return Ok(None) };
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Who is at the other end: root and our own user own this process.
pub fn place(socket: &UnixStream) -> Place {
    let own = rustix::process::geteuid().as_raw();
    match socket.peer_cred() {
        Ok(peer) if peer.uid() == 0 => Place::LocalRoot,
        Ok(peer) if peer.uid() == own => Place::LocalOwn,
        Ok(_) | Err(_) => Place::LocalOther,
    }
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
