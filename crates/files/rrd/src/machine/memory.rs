//! The memory for pages of files: the kernel's available memory, within the limits of this process's control groups.

use super::number_in;

/// Where the control groups of version 2 are, and the memory controller of version 1.
const UNIFIED: &str = "/sys/fs/cgroup";
const CONTROLLER: &str = "/sys/fs/cgroup/memory";
/// From this limit on, a control group of version 1 has none: the kernel prints the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// Memory for pages of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// Whether a control group gives less than the machine has.
    pub is_of_group: bool,
}

/// The memory available to this process; `None` if the kernel does not say.
pub fn available() -> Option<Memory> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text))?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(smaller(machine, of_groups(&groups)))
}

fn smaller(machine: u64, group: Option<u64>) -> Memory {
    match group {
        Some(bytes) if bytes < machine => Memory { bytes, is_of_group: true },
        _ => Memory { bytes: machine, is_of_group: false },
    }
}

/// `MemAvailable` of a text of /proc/meminfo.
fn of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that a group of this process, or one above it, leaves; `None` without a limit.
fn of_groups(groups: &str) -> Option<u64> {
    let (version_2, version_1) = paths(groups);
    let unified = version_2.iter().flat_map(|path| above(path));
    let unified = unified.filter_map(|path| {
        let limit = number_in(&format!("{UNIFIED}{path}/memory.max"))?;
        left(limit, &format!("{UNIFIED}{path}/memory.stat"), "anon")
    });
    let controller = version_1.iter().flat_map(|path| above(path));
    let controller = controller.filter_map(|path| {
        let limit = number_in(&format!("{CONTROLLER}{path}/memory.limit_in_bytes"))?;
        let limit = Some(limit).filter(|limit| *limit < NO_LIMIT)?;
        left(limit, &format!("{CONTROLLER}{path}/memory.stat"), "total_rss")
    });
    unified.chain(controller).min()
}

/// A limit without the memory of programs, which no page of a file can take.
fn left(limit: u64, statistics: &str, programs: &str) -> Option<u64> {
    let text = std::fs::read_to_string(statistics).unwrap_or_default();
    Some(limit.saturating_sub(counted(&text, programs).unwrap_or(0)))
}

/// The count called `name` in a text of memory.stat.
fn counted(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// The groups of /proc/self/cgroup: of version 2, and that of the memory controller of version 1.
fn paths(text: &str) -> (Option<&str>, Option<&str>) {
    let group = |wanted: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(path)
        })
    };
    let is_memory = |controllers: &str| controllers.split(',').any(|name| name == "memory");
    (group(&|controllers| controllers.is_empty()), group(&is_memory))
}

/// `/a/b`, `/a` and the root: a limit of each holds. A container may see only the root, as which its own group appears.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|cut| &path[..cut]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_machine_and_group_counts() {
        assert_eq!(smaller(100, Some(60)), Memory { bytes: 60, is_of_group: true });
        assert_eq!(smaller(100, Some(600)), Memory { bytes: 100, is_of_group: false });
        assert_eq!(smaller(100, None), Memory { bytes: 100, is_of_group: false });
    }

    #[test]
    fn meminfo_gives_what_is_available() {
        let text = "MemTotal:       24684084 kB\nMemAvailable:   23971840 kB\n";
        assert_eq!(of_machine(text), Some(23_971_840 * 1024));
        assert_eq!(of_machine("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let both = "9:name=systemd:/\n4:memory:/api/55\n1:cpu:/\n0::/user.slice\n";
        assert_eq!(paths(both), (Some("/user.slice"), Some("/api/55")));
        assert_eq!(paths("0::/\n"), (Some("/"), None));
        assert_eq!(above("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(above("/").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn memory_of_programs_is_not_for_pages() {
        let text = "anon 4096\nfile 8192\nanon_thp 1\n";
        assert_eq!((counted(text, "anon"), counted(text, "total_rss")), (Some(4096), None));
    }
}
