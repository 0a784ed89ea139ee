//! A control group with little memory, made for one process and removed after it. It includes page cache:
//! pages belong to the group of the process that first touches them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// The kernel removes a group only some time after its last process.
const PATIENCE: Duration = Duration::from_secs(10);

/// A control group; dropping it removes it.
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group below this process's own, with at most `bytes` of memory.
    ///
    /// # Errors
    /// Not root, or no memory controller here.
    pub fn limited(bytes: u64) -> Result<Self, BenchError> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(BenchError::file("/proc/self/cgroup"))?;
        let (parent, limit) = place(&own)
            .ok_or_else(|| BenchError::Reply("no memory controller in /proc/self/cgroup".into()))?;
        let path = parent.join(format!("khz-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(BenchError::file(&path))?;
        let group = Group { path };
        let limit = group.path.join(limit);
        fs::write(&limit, bytes.to_string()).map_err(BenchError::file(&limit))?;
        Ok(group)
    }

    /// The words before a command that make it run inside the group.
    pub fn wrapper(&self) -> Vec<OsString> {
        let script = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#;
        vec!["sh".into(), "-c".into(), script.into(), self.path.clone().into()]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = Instant::now();
        while fs::remove_dir(&self.path).is_err() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The memory controller's directory for the process that `/proc/self/cgroup` describes, and its limit file.
fn place(own: &str) -> Option<(PathBuf, &'static str)> {
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.trim_start_matches('/'));
        if controllers.split(',').any(|controller| controller == "memory") {
            return Some((Path::new("/sys/fs/cgroup/memory").join(path), "memory.limit_in_bytes"));
        }
        // Version 2 forbids groups below one that has processes; so it is made in the parent.
        let unified = Path::new("/sys/fs/cgroup").join(path);
        if controllers.is_empty() && unified.join("memory.max").exists() {
            return Some((unified.parent()?.to_path_buf(), "memory.max"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_of_version_1_is_found() {
        let own = "9:name=systemd:/\n4:memory:/a/b\n0::/\n";
        let (path, limit) = place(own).unwrap();
        assert_eq!(path, Path::new("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(limit, "memory.limit_in_bytes");
        assert_eq!(place("0::/no/such/group\n"), None);
    }
}
