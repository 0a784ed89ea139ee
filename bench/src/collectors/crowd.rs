//! A crowd of processes that sleep, in control groups of their own where that is asked for. It ends when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::BenchError;
use crate::program::failed;

/// The processes, and the groups in which they are.
pub struct Crowd {
    sleepers: Vec<Child>,
    groups: Vec<PathBuf>,
}

impl Crowd {
    /// So many processes.
    pub fn of_processes(count: usize) -> Result<Self, BenchError> {
        let mut crowd = Crowd { sleepers: Vec::new(), groups: Vec::new() };
        for _ in 0..count {
            crowd.sleepers.push(sleeper()?);
        }
        Ok(crowd)
    }

    /// So many control groups, with a process in each.
    pub fn of_groups(count: usize) -> Result<Self, BenchError> {
        let top = khz_gather::control_groups_folder(Path::new("/"))
            .ok_or_else(|| failed("control groups", "there is no cgroup v2"))?;
        let mut crowd = Crowd { sleepers: Vec::new(), groups: Vec::new() };
        for number in 0..count {
            let group = top.join(format!("khz-bench-{}-{number}", std::process::id()));
            fs::create_dir(&group).map_err(BenchError::file(&group))?;
            crowd.groups.push(group.clone());
            let child = sleeper()?;
            let entered = fs::write(group.join("cgroup.procs"), child.id().to_string());
            crowd.sleepers.push(child);
            entered.map_err(BenchError::file(&group))?;
        }
        Ok(crowd)
    }
}

fn sleeper() -> Result<Child, BenchError> {
    let mut command = Command::new("sleep");
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| failed("sleep", error))
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.sleepers {
            let _ = child.kill();
        }
        for child in &mut self.sleepers {
            let _ = child.wait();
        }
        for group in &self.groups {
            let _ = fs::remove_dir(group);
        }
    }
}
