//! The control group of the recorded program. It is made for the program, so that its resource use can be told from that of others,
//! and removed afterwards. If the user may not make a group, the program runs in the usual one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;

use khz_model::Nanos;

/// The prefix of the group's name. The process number of the recorder follows.
const BEGIN: &str = "khz-record-";

/// A group for one program.
pub struct Group {
    folder: PathBuf,
    /// The group in which this process is.
    own: PathBuf,
    /// Its path below the root of all groups, which is its name in khz.
    name: String,
}

/// What a program has used, as far as the kernel says so.
#[derive(Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time.
    pub cpu: Option<Nanos>,
    /// The most memory at a time, in bytes.
    pub memory: Option<u64>,
}

impl Group {
    /// Makes a group below the nearest parent group without tasks of its own, since only there the kernel counts memory and I/O per
    /// group. Without such a parent, it lies below the own group.
    ///
    /// # Errors
    /// There is no cgroup v2, or the user may not make a group.
    pub fn make() -> io::Result<Self> {
        let top = khz_gather::control_groups_folder(Path::new("/"))
            .ok_or_else(|| io::Error::other("there is no cgroup v2"))?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let own = top.join(path);
        let above = own.ancestors().skip(1).take_while(|folder| folder.starts_with(&top));
        let is_free = |folder: &&Path| *folder == top || has_no_tasks(folder);
        let mut refused = None;
        for folder in above.filter(is_free).chain([own.as_path()]) {
            remove_left_over(folder);
            let made = folder.join(format!("{BEGIN}{}", std::process::id()));
            match fs::create_dir(&made) {
                Ok(()) => {
                    let name = made.strip_prefix(&top).unwrap_or(&made).to_string_lossy().into_owned();
                    return Ok(Group { folder: made, own: own.clone(), name });
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::Error::other("there is no place for a group")))
    }

    /// What khz calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a program in the group. This process enters it for a moment, so that all children of the program are inside.
    ///
    /// # Errors
    /// The program cannot be started. If only entering the group fails, the program runs outside.
    pub fn start(&self, start: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
        let entered = enter(&self.folder);
        let child = start();
        if let Err(error) = entered.and_then(|()| enter(&self.own)) {
            tracing::warn!("the program may not be in its control group: {error}");
        }
        child
    }

    /// The resources that its programs have used so far.
    pub fn used(&self) -> Used {
        let cpu = fs::read_to_string(self.folder.join("cpu.stat")).ok();
        let cpu = cpu.as_deref().and_then(cpu_time);
        let memory = fs::read_to_string(self.folder.join("memory.peak")).ok();
        Used { cpu, memory: memory.and_then(|text| text.trim().parse().ok()) }
    }

    /// Removes the group. `false`: something still runs in it.
    pub fn remove(&self) -> bool {
        fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes empty groups of ended recorders whose programs ran on at that time.
fn remove_left_over(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let recorder = name.to_str().and_then(|name| name.strip_prefix(BEGIN)?.parse::<u32>().ok());
        if recorder.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // The kernel refuses as long as there is a task in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

fn has_no_tasks(group: &Path) -> bool {
    fs::read(group.join("cgroup.procs")).is_ok_and(|tasks| tasks.is_empty())
}

/// `usage_usec 1234` of cpu.stat.
fn cpu_time(text: &str) -> Option<Nanos> {
    let micros: u64 = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok())?;
    Some(Nanos::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_much_cpu_time_a_group_used() {
        assert_eq!(cpu_time("usage_usec 1500\nuser_usec 1000\n"), Some(Nanos::from_micros(1_500)));
        assert_eq!(cpu_time("user_usec 1000\n"), None);
    }
}
