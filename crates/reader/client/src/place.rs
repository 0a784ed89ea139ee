//! Where a running khz is found on this machine: the directories of its sockets, and the socket with the link
//! protocol. Creates none of them.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};

/// A hub's local socket for the link protocol.
pub const HUB_LINK_SOCKET: &str = "hub-link.sock";
/// The same of a khz that runs alone.
pub const ALONE_LINK_SOCKET: &str = "khz-link.sock";

/// Directories that may hold local sockets and run keys, the user's own first; or only the given one.
pub fn run_dirs(told: Option<&Path>) -> Vec<PathBuf> {
    const SYSTEM: &str = "/run/khz";
    if let Some(folder) = told {
        return vec![folder.to_owned()];
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd sets it for a unit with RuntimeDirectory=.
    let of_service = absolute("RUNTIME_DIRECTORY");
    let is_root = rustix::process::geteuid().is_root();
    let own = (!is_root).then(|| match absolute("XDG_RUNTIME_DIR").filter(|folder| is_safe(folder)) {
        Some(folder) => folder.join("khz"),
        // Without a login session, as under su or in a container.
        None => std::env::temp_dir().join(format!("khz-{}", rustix::process::geteuid().as_raw())),
    });
    // In a directory that all users can write to, another user may have made this one.
    let own = own.filter(|folder| !folder.exists() || is_safe(folder));
    let mut folders: Vec<PathBuf> = of_service.into_iter().chain(own).collect();
    if !folders.iter().any(|folder| folder == Path::new(SYSTEM)) {
        folders.push(SYSTEM.into());
    }
    folders
}

/// True for a directory in which only its owner can make files, where the owner is us or root (for root: any
/// user).
pub fn is_safe(folder: &Path) -> bool {
    let own = rustix::process::geteuid();
    std::fs::metadata(folder).is_ok_and(|about| {
        let is_ours = own.is_root() || about.uid() == own.as_raw() || about.uid() == 0;
        is_ours && about.is_dir() && about.mode() & 0o022 == 0
    })
}

/// The best local socket for the link protocol: a hub's, since a hub knows every node.
pub fn link_socket(told: Option<&Path>) -> Option<PathBuf> {
    let of_folder = |folder: PathBuf| [HUB_LINK_SOCKET, ALONE_LINK_SOCKET].map(|name| folder.join(name));
    run_dirs(told).into_iter().flat_map(of_folder).find(|path| listens(path))
}

/// True where a process listens at a local socket, even one that is stopped and whose queue is full.
pub fn listens(path: &Path) -> bool {
    // This short wait is enough for a process that answers, and for the kernel to report a full queue.
    match connect(path, Some(Duration::from_millis(1))) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// Connects to a local socket. If the listening process is stopped and its queue is full, waits for at most
/// this time.
///
/// # Errors
/// The kernel's error; `WouldBlock` when the time is over.
pub fn connect(path: &Path, wait: Option<Duration>) -> std::io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, wait)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

/// Directories in which agents of this machine keep rings and snapshots, the user's own first; each has a
/// directory for each node.
pub fn snapshot_dirs() -> Vec<PathBuf> {
    const SHARED: &str = "/dev/shm/khz";
    let own = rustix::process::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let mut folders: Vec<PathBuf> = Vec::new();
    if !own.is_root() {
        folders.extend(runtime.map(|path| path.join("khz")));
        folders.push(format!("{SHARED}-{}", own.as_raw()).into());
    }
    folders.push(SHARED.into());
    folders
}

/// The snapshots in these directories.
pub fn snapshots() -> Vec<PathBuf> {
    let entries = snapshot_dirs().into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let files = entries.filter_map(|entry| Some(entry.ok()?.path().join(khz_ring::SNAPSHOT_FILE)));
    files.filter(|file| file.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_with_a_full_queue_counts_as_listening_and_delays_nobody() {
        let folder = std::env::temp_dir().join(format!("khz-queue-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("still.sock");
        assert!(!listens(&path), "there is no socket");
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert!(!listens(&path), "nobody listens");
        rustix::net::listen(&socket, 1).unwrap();
        let queued: Vec<UnixStream> =
            std::iter::from_fn(|| connect(&path, Some(Duration::from_millis(1))).ok()).take(10).collect();
        assert!((1..10).contains(&queued.len()), "{}", queued.len());
        assert!(listens(&path), "its queue is full");
        let _ = std::fs::remove_dir_all(&folder);
    }
}
