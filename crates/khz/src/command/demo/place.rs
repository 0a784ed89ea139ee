//! The directory of a demo: its store, its sockets, its rules. It is removed when the demo ends; what a killed demo has left is removed
//! by the next one of the same user.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::show::outcome::Failure;
use crate::show::table::remark;

/// What the names of such directories begin with.
const PREFIX: &str = "khz-demo-";
/// What they end with until they are locked.
const UNLOCKED: &str = ".new";
/// A directory that is not locked yet after this time belongs to a demo that was killed.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// The running demo holds a lock on this file.
const LOCK: &str = "lock";

/// A directory that exists as long as this.
pub struct Place {
    path: PathBuf,
    _lock: File,
}

impl Place {
    /// Makes one in the system's directory for such things, and removes those of dead demos.
    pub fn make() -> Result<Self, Failure> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        make_in(&parent).map_err(|error| {
            Failure::work(format!(
                "the demo needs a directory for its store, and cannot make one in {}: {error}; TMPDIR names another place",
                parent.display()
            ))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            remark!("{} stays: {error}", self.path.display());
        }
    }
}

fn make_in(parent: &Path) -> io::Result<Place> {
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let path = parent.join(format!("{PREFIX}{}-{:08x}", std::process::id(), u32::from_le_bytes(random)));
    let unlocked = path.with_extension(&UNLOCKED[1..]);
    DirBuilder::new().mode(0o700).create(&unlocked)?;
    let lock = File::create_new(unlocked.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(&unlocked, &path)?;
    Ok(Place { path, _lock: lock })
}

/// Removes what demos of this user have left that do not run any more. What cannot be removed stays.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_left(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether this is the directory of a demo of this user that has ended.
fn is_left(path: &Path) -> bool {
    let Ok(about) = path.symlink_metadata() else { return false };
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        return false;
    }
    if path.as_os_str().as_encoded_bytes().ends_with(UNLOCKED.as_bytes()) {
        return about.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > MADE_WITHIN);
    }
    File::open(path.join(LOCK))
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for one test.
    struct Parent(PathBuf);

    impl Parent {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("khz-places-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Parent(path)
        }

        fn entries(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Parent {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_place_is_gone_with_its_demo() {
        let parent = Parent::new("gone");
        let place = make_in(&parent.0).unwrap();
        std::fs::create_dir_all(place.path().join("store/deep")).unwrap();
        assert_eq!(place.path().metadata().unwrap().mode() & 0o777, 0o700);
        drop(place);
        assert_eq!(parent.entries(), 0);
    }

    #[test]
    fn what_a_killed_demo_left_is_removed_and_nothing_else() {
        let parent = Parent::new("swept");
        let running = make_in(&parent.0).unwrap();
        let killed = make_in(&parent.0).unwrap();
        std::fs::write(killed.path().join("rows"), "").unwrap();
        let left = killed.path().to_owned();
        let Place { _lock: lock, .. } = &killed;
        // As if its process were gone: the lock is, the directory is not.
        flock(lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(killed);
        let foreign = parent.0.join("khz-demo-of-somebody");
        std::fs::create_dir(&foreign).unwrap();
        let link = parent.0.join("khz-demo-link");
        std::os::unix::fs::symlink(&left, &link).unwrap();
        let unlocked = parent.0.join("khz-demo-1.new");
        std::fs::create_dir(&unlocked).unwrap();
        sweep(&parent.0);
        assert!(!left.exists(), "the lock is free");
        assert!(running.path().exists(), "it runs");
        assert!(foreign.exists(), "it has no lock");
        assert!(link.symlink_metadata().is_ok(), "links are not followed");
        assert!(unlocked.exists(), "it may be about to be locked");
    }
}
