//! The run key: the key of one run of a hub. The hub makes it at its start and removes it at its end. Only
//! the hub's user and root can read its files; a process that has read one proves with it, over loopback too,
//! that it runs as one of these two. This file opens no socket.
//!
//! There is one file for each address that this machine reaches over loopback, so a process shows the key
//! only to the hub that holds that address. The hub locks the file as long as it lives: a file without a lock
//! is left over, and nobody believes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::cluster_key::{ClusterKey, from_hex};
use crate::error::TrustError;

/// The digits of the key, and the name of a socket, fit into this.
const FILE_BYTES_MAX: u64 = 512;

/// The key of this run, held by its hub. Dropping it removes its files.
#[derive(Debug)]
pub struct RunKey {
    key: ClusterKey,
    folder: PathBuf,
    files: Vec<Made>,
}

/// A file that we made. Its lock ends with the process, however that ends.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    locked: File,
}

/// The run key of a running hub of this machine, found by the hub's user or by root.
#[derive(Debug)]
pub struct RunKeyFile {
    /// Makes the token for the identity that we present.
    pub key: ClusterKey,
    /// The hub's local socket, if it has one.
    pub socket: Option<PathBuf>,
}

impl RunKey {
    /// Makes a key and, in `run_dir`, a file with it for each of these addresses that this machine reaches
    /// over loopback. `socket` names the hub's local socket in the same directory.
    ///
    /// # Errors
    /// The kernel gives no random bytes, or a file cannot be written.
    pub fn make(run_dir: &Path, addresses: &[SocketAddr], socket: Option<&str>) -> Result<Self, TrustError> {
        let mut run = RunKey { key: ClusterKey::generate()?, folder: run_dir.to_owned(), files: Vec::new() };
        let text = format!("{}\n{}\n", run.key.to_hex(), socket.unwrap_or_default());
        for address in addresses.iter().copied().filter_map(near).flat_map(held) {
            let path = run_dir.join(file_name(address));
            run.files.push(Made::write(path, text.as_bytes())?);
        }
        Ok(run)
    }

    /// True where there is a file that others can find.
    pub fn is_shown(&self) -> bool {
        !self.files.is_empty()
    }

    /// The directory of its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key; tokens of any role are derived from it.
    pub fn key(&self) -> &ClusterKey {
        &self.key
    }
}

impl Made {
    /// Locks the file before it has its name, so that nobody ever finds it unlocked.
    fn write(path: PathBuf, bytes: &[u8]) -> Result<Self, TrustError> {
        let failed = |source| TrustError::Write { path: path.clone(), source };
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        // A killed process with our process ID left this file.
        let _ = fs::remove_file(&beside);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
        let placed = file
            .write_all(bytes)
            .and_then(|()| file.try_lock().map_err(io::Error::from))
            .and_then(|()| fs::rename(&beside, &path));
        if let Err(error) = placed {
            let _ = fs::remove_file(&beside);
            return Err(failed(error));
        }
        Ok(Made { path, locked: file })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Another hub may have taken the name meanwhile: two namespaces can share a directory.
        let same = |ours: fs::Metadata, there: fs::Metadata| ours.ino() == there.ino();
        let ours = self.locked.metadata().ok().zip(fs::symlink_metadata(&self.path).ok());
        if ours.is_some_and(|(ours, there)| same(ours, there)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl RunKeyFile {
    /// The key of the hub that listens at this loopback address, from the first of these directories that has
    /// it. `None`: no such hub runs as our user, and we are not root.
    pub fn find(run_dirs: &[PathBuf], address: SocketAddr) -> Option<Self> {
        let names = names(near(address)?);
        run_dirs.iter().flat_map(|dir| names.iter().map(move |name| (dir, name))).find_map(|(dir, name)| {
            let text = read(dir, name)?;
            let (digits, socket) = text.split_once('\n')?;
            let key = ClusterKey::from_bytes(from_hex(digits.as_bytes())?);
            let socket = socket.trim_end();
            let is_name = !socket.is_empty() && !socket.contains('/');
            Some(RunKeyFile { key, socket: is_name.then(|| dir.join(socket)) })
        })
    }
}

/// The text of a file, if a living hub holds it and our own user owns it; for root, the owner of the
/// directory must own it.
fn read(dir: &Path, name: &str) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(dir.join(name)).ok()?;
    let about = file.metadata().ok()?;
    let own = rustix::process::geteuid();
    let is_ours = about.uid() == own.as_raw()
        || own.is_root() && fs::metadata(dir).is_ok_and(|dir| dir.uid() == about.uid());
    if !about.is_file() || about.mode() & 0o077 != 0 || !is_ours {
        return None;
    }
    // Its hub holds the lock. If we can take the lock, that hub no longer lives.
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The address, if it is a loopback address of this machine or all its addresses.
fn near(address: SocketAddr) -> Option<SocketAddr> {
    let ip = address.ip().to_canonical();
    (ip.is_loopback() || ip.is_unspecified()).then(|| SocketAddr::new(ip, address.port()))
}

/// The addresses that a socket at this address holds. One for all of IPv6 holds all of IPv4 too, unless the
/// kernel is set up otherwise.
fn held(address: SocketAddr) -> Vec<SocketAddr> {
    let both = address.ip() == Ipv6Addr::UNSPECIFIED
        && fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "0");
    let too = both.then(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()));
    std::iter::once(address).chain(too).collect()
}

/// The files of hubs that hold this address: one for the address itself, one for all addresses of its kind.
fn names(address: SocketAddr) -> [String; 2] {
    let any: IpAddr = match address.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    [address.ip(), any].map(|ip| file_name(SocketAddr::new(ip, address.port())))
}

fn file_name(address: SocketAddr) -> String {
    format!("hub-link-{address}.key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory for this test alone.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("khz-run-key-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Dir(path)
        }

        fn find(&self, address: &str) -> Option<RunKeyFile> {
            RunKeyFile::find(std::slice::from_ref(&self.0), address.parse().unwrap())
        }

        fn make(&self, address: &str) -> RunKey {
            RunKey::make(&self.0, &[address.parse().unwrap()], Some("hub-link.sock")).unwrap()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_key_of_a_hub_is_found_at_its_address_and_nowhere_else() {
        let dir = Dir::new("found");
        let hub = dir.make("127.0.0.1:7071");
        let found = dir.find("127.0.0.1:7071").unwrap();
        assert_eq!(found.key.to_hex(), hub.key().to_hex());
        assert_eq!(found.socket, Some(dir.0.join("hub-link.sock")));
        for other in ["127.0.0.1:7072", "127.0.0.2:7071", "[::1]:7071", "10.0.0.1:7071"] {
            assert!(dir.find(other).is_none(), "{other}");
        }
        let file = fs::read_dir(&dir.0).unwrap().next().unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let all = dir.make("0.0.0.0:7072");
        assert_eq!(dir.find("127.0.0.9:7072").unwrap().key.to_hex(), all.key().to_hex());
        assert!(dir.find("[::1]:7072").is_none(), "another process may hold that");
        assert!(!RunKey::make(&dir.0, &["10.0.0.1:7073".parse().unwrap()], None).unwrap().is_shown());
    }

    #[test]
    fn a_key_ends_with_its_hub_and_a_left_over_one_is_not_believed() {
        let dir = Dir::new("gone");
        let address = "127.0.0.1:7071";
        drop(dir.make(address));
        assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0, "its file goes with it");
        // As after kill -9: the file exists, the lock does not.
        let left = dir.0.join(file_name(address.parse().unwrap()));
        fs::write(&left, format!("{}\n\n", "0f".repeat(32))).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(dir.find(address).is_none());
        let next = dir.make(address);
        assert_eq!(dir.find(address).unwrap().key.to_hex(), next.key().to_hex());
        // A second hub that takes the name keeps it.
        let second = dir.make(address);
        drop(next);
        assert_eq!(dir.find(address).unwrap().key.to_hex(), second.key().to_hex());
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_no_file_is_not_believed() {
        let dir = Dir::new("open");
        let address = "127.0.0.1:7071";
        let hub = dir.make(address);
        let path = dir.0.join(file_name(address.parse().unwrap()));
        for (mode, is_found) in [(0o640, false), (0o604, false), (0o660, false), (0o600, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(dir.find(address).is_some(), is_found, "{mode:o}");
        }
        let moved = dir.0.join("moved");
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        assert!(dir.find(address).is_none(), "a link may lead anywhere");
        drop(hub);
    }

    #[test]
    fn a_file_of_another_user_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            return khz_skip::skip("only root can make another user's file");
        }
        let dir = Dir::new("owner");
        let address = "127.0.0.1:7071";
        let _hub = dir.make(address);
        let path = dir.0.join(file_name(address.parse().unwrap()));
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(dir.find(address).is_none(), "in a directory of ours");
        std::os::unix::fs::chown(&dir.0, Some(65_534), None).unwrap();
        assert!(
            dir.find(address).is_some(),
            "root owns what a user's hub has made in a directory of its own"
        );
    }
}
