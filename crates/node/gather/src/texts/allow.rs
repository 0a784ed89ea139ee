//! The allow list: which files a node shows as texts. The administrator gives patterns; some files are never
//! shown, whatever the patterns say. It judges names. `door.rs` first finds out which file a name really is.

use std::sync::LazyLock;

use khz_model::glob::Glob;

/// The files that are shown by default.
pub(super) const USUAL: &[&str] = &[
    "loadavg",
    "meminfo",
    "stat",
    "uptime",
    "vmstat",
    "diskstats",
    "cpuinfo",
    "version",
    "swaps",
    "interrupts",
    "mdstat",
    "softirqs",
    "filesystems",
    "mounts",
    "partitions",
    "pressure/*",
    "net/dev",
    "net/arp",
    "net/netstat",
    "net/snmp",
    "net/snmp6",
    "net/sockstat",
    "net/sockstat6",
    "net/rpc/nfs",
    "net/rpc/nfsd",
    "net/softnet_stat",
    "net/stat/nf_conntrack",
    "net/udp",
    "net/udp6",
    "schedstat",
    "sys/fs/file-nr",
    "sys/kernel/hostname",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
    "sys/kernel/random/entropy_avail",
    "sys/kernel/random/poolsize",
    "sys/net/netfilter/nf_conntrack_count",
    "sys/net/netfilter/nf_conntrack_max",
];

/// Files that are never shown, by the reason. The files of processes are refused by their path. A file is refused if its reader would
/// learn what the kernel tells only root, or nobody: addresses and contents of its memory, and secrets. Sockets (`net/tcp`) are not
/// refused: the kernel replaces their addresses by a secret code, or zeros, unless khz is root and kptr_restrict is 1.
const NEVER: &[(&str, &[&str])] = &[
    ("memory", &["kcore", "vmcore*", "kpage*"]),
    (
        "keys and secrets",
        &["keys", "key-users", "sys/net/ipv4/tcp_fastopen_key", "sys/net/ipv6/conf/*/stable_secret"],
    ),
    (
        "addresses of the kernel and of devices",
        &[
            "iomem",
            "ioports",
            "kallsyms",
            "latency_stats",
            "lock_stat",
            "lockdep*",
            "modules",
            "mtrr",
            "sched_debug",
            "slab_allocators",
            "timer_list",
            "tty/driver/*",
            "vmallocinfo",
        ],
    ),
    // It may have addresses, too.
    ("messages of the kernel", &["kmsg"]),
    (
        "what reading consumes or triggers",
        &["acpi/*", "fs/nfsd/*", "sys/kernel/random/uuid", "sys/vm/stat_refresh", "sysrq-trigger"],
    ),
    ("devices and drivers", &["bus/*", "bus/*/*", "bus/*/*/*", "dynamic_debug/*"]),
];

/// The same as patterns, one glob for each name in the path: every access to a file is checked against them.
static NEVER_PATTERNS: LazyLock<Vec<Vec<Glob>>> =
    LazyLock::new(|| NEVER.iter().flat_map(|(_, paths)| *paths).map(|path| names(path)).collect());

/// The word among the patterns that means [`USUAL`].
const DEFAULT: &str = "default";

/// The most patterns of a list.
const PATTERNS_MAX: usize = 256;

/// The problem of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// It is not a path below `/proc`.
    #[error(
        "'{0}' is not the name of a file below /proc: write it as net/tcp or pressure/*, with * and ? within names"
    )]
    NoPath(String),
    /// It selects a file that is never shown.
    #[error(
        "/proc/{0} is never shown: it belongs to a process, or holds memory, keys or addresses of the kernel"
    )]
    Never(String),
    /// There are too many patterns.
    #[error("more than {PATTERNS_MAX} patterns")]
    TooMany,
}

/// The files that a node shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    patterns: Vec<Vec<Glob>>,
}

impl AllowList {
    /// A list of these patterns; `default` means the usual files.
    ///
    /// # Errors
    /// A pattern is not valid, or selects a file that is never shown.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, AllowError> {
        let mut list = AllowList::default();
        for pattern in patterns {
            match pattern {
                DEFAULT => USUAL.iter().try_for_each(|usual| list.add(usual))?,
                pattern => list.add(pattern.strip_prefix("/proc/").unwrap_or(pattern))?,
            }
        }
        Ok(list)
    }

    /// The list of the usual files.
    pub fn usual() -> Self {
        AllowList::new([DEFAULT]).expect("BUG: the usual files are patterns")
    }

    fn add(&mut self, pattern: &str) -> Result<(), AllowError> {
        if !is_relative(pattern) {
            return Err(AllowError::NoPath(pattern.to_owned()));
        }
        if is_never(pattern) {
            return Err(AllowError::Never(pattern.to_owned()));
        }
        if self.patterns.len() == PATTERNS_MAX {
            return Err(AllowError::TooMany);
        }
        self.patterns.push(names(pattern));
        Ok(())
    }

    /// The patterns, as one glob for each name in the path.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &[Glob]> {
        self.patterns.iter().map(Vec::as_slice)
    }

    /// True for a file that is shown. `path` is the file's name after all links were followed.
    pub(super) fn allows(&self, path: &str) -> bool {
        let Some(path) = of_all_processes(path) else { return false };
        !is_never(path) && self.patterns.iter().any(|pattern| matches(pattern, path))
    }
}

/// Splits a pattern into one glob for each name in the path.
fn names(pattern: &str) -> Vec<Glob> {
    pattern.split('/').map(Glob::new).collect()
}

fn matches(pattern: &[Glob], path: &str) -> bool {
    let mut names = path.split('/');
    pattern.iter().all(|glob| names.next().is_some_and(|name| glob.matches(name))) && names.next().is_none()
}

/// True for a path of names with single slashes, without `.` and `..`.
pub(super) fn is_relative(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
    path.len() <= 255 && !path.contains(|c: char| c.is_control()) && path.split('/').all(is_name)
}

/// Removes `self/` from the files that `/proc` shows through a link into the reading process: they belong to
/// the node, not to the process. `None` if the file belongs to the process.
fn of_all_processes(path: &str) -> Option<&str> {
    let Some(own) = path.strip_prefix("self/") else { return Some(path) };
    (own == "mounts" || own.starts_with("net/")).then_some(own)
}

/// True for a path that begins with a process number.
pub(super) fn is_numbered(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    first.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for a file that is never shown.
fn is_never(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let is_of_a_process = first == "self" || first == "thread-self" || is_numbered(path);
    is_of_a_process || NEVER_PATTERNS.iter().any(|never| matches(never, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_files_and_those_that_are_named_are_shown() {
        let list = AllowList::new(["default", "/proc/net/tcp", "sys/vm/*"]).unwrap();
        for path in [
            "meminfo",
            "self/net/dev",
            "net/dev",
            "self/mounts",
            "mounts",
            "pressure/cpu",
            "net/tcp",
            "sys/vm/swappiness",
        ] {
            assert!(list.allows(path), "{path}");
        }
        for path in [
            "net/unix",
            "pressure",
            "pressure/cpu/x",
            "self/status",
            "self/environ",
            "1/net/dev",
            "sys/vm/a/b",
            "swappiness",
        ] {
            assert!(!list.allows(path), "{path}");
        }
        assert!(!AllowList::default().allows("meminfo"), "an empty list shows nothing");
    }

    #[test]
    fn no_pattern_shows_processes_memory_keys_or_addresses() {
        let list = AllowList::new(["*", "*/*", "*/*/*", "*/*/*/*/*"]).unwrap();
        for path in [
            "1/status",
            "1/net/dev",
            "4711/task/4711/environ",
            "self/maps",
            "self/environ",
            "self/root/etc",
            "thread-self/stat",
            "sys/net/ipv6/conf/lo/stable_secret",
            "bus/pci/00/00.0",
        ] {
            assert!(!list.allows(path), "{path}");
        }
        for (why, paths) in NEVER {
            for path in *paths {
                let one = path.replace('*', "x");
                assert!(!list.allows(&one), "{one}: {why}");
                assert!(matches!(AllowList::new([one.as_str()]), Err(AllowError::Never(_))), "{one}");
            }
        }
        for path in [
            "kcore",
            "kpagecount",
            "kpageflags",
            "vmcore",
            "keys",
            "key-users",
            "kallsyms",
            "iomem",
            "ioports",
            "vmallocinfo",
            "modules",
            "kmsg",
            "lockdep_chains",
            "sysrq-trigger",
        ] {
            assert!(!list.allows(path), "{path}");
        }
        for path in ["cmdline", "net/tcp", "slabinfo", "config.gz", "buddyinfo", "zoneinfo", "crypto"] {
            assert!(list.allows(path), "{path}");
        }
    }

    #[test]
    fn no_file_of_this_kernel_that_only_root_may_read_holds_addresses_and_is_shown() {
        // The kernel's own choice: files that only root may read. Those without addresses are listed here, so a new file is
        // noticed.
        let harmless = ["slabinfo", "pagetypeinfo", "allocinfo", "vmstat"];
        let list = AllowList::new(["*"]).unwrap();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let Ok(found) = entry.metadata() else { continue };
            let is_secret = found.is_file() && std::os::unix::fs::MetadataExt::mode(&found) & 0o004 == 0;
            if is_secret && !harmless.contains(&name.as_str()) {
                assert!(
                    !list.allows(&name),
                    "{name}: does it have addresses or secrets? Then it belongs in NEVER"
                );
            }
        }
    }

    #[test]
    fn patterns_that_leave_proc_or_name_what_is_never_shown_are_refused() {
        for pattern in ["", "/etc/passwd", "../etc/passwd", "a/../b", "a//b", "a/", "net/\n"] {
            assert!(matches!(AllowList::new([pattern]), Err(AllowError::NoPath(_))), "{pattern:?}");
        }
        for pattern in ["kcore", "1/status", "self/environ", "self/*", "kallsyms", "/proc/keys"] {
            assert!(matches!(AllowList::new([pattern]), Err(AllowError::Never(_))), "{pattern}");
        }
    }
}
