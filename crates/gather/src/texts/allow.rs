//! Which files a node shows as texts: patterns that its administrator gives, and what is never shown whatever they say.
//! It judges names; which file a name really is, the door finds out first.

use std::sync::LazyLock;

use khz_model::glob::Glob;

/// Files that are shown where nobody says otherwise.
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
    "softirqs",
    "filesystems",
    "mounts",
    "partitions",
    "pressure/*",
    "net/dev",
    "net/snmp",
    "net/netstat",
    "net/sockstat",
    "sys/kernel/hostname",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
];

/// Never shown: memory, keys, addresses of the kernel, what is consumed or acts when it is read. Files of processes are
/// refused by their place.
const NEVER: &[&str] = &[
    "kcore",
    "kallsyms",
    "keys",
    "key-users",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "sysrq-trigger",
    "vmcore",
    "timer_list",
    "acpi/*",
    "bus/*",
    "bus/*/*",
    "bus/*/*/*",
    "dynamic_debug/*",
    "fs/nfsd/*",
    "sys/net/ipv4/tcp_fastopen_key",
    "sys/net/ipv6/conf/*/stable_secret",
    "sys/kernel/random/uuid",
    "sys/vm/stat_refresh",
];

/// The same as patterns, name by name: every look at a file is judged by them.
static NEVER_PATTERNS: LazyLock<Vec<Vec<Glob>>> =
    LazyLock::new(|| NEVER.iter().map(|path| names(path)).collect());

/// The word for [`USUAL`] among patterns.
const DEFAULT: &str = "default";

/// Patterns of one list.
const PATTERNS_MAX: usize = 256;

/// Why a pattern is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// Its form.
    #[error(
        "'{0}' is not the name of a file below /proc: write it as net/tcp or pressure/*, with * and ? within names"
    )]
    NoPath(String),
    /// It names what is never shown.
    #[error("/proc/{0} is never shown: it is a process's, or holds memory, keys or addresses of the kernel")]
    Never(String),
    /// There are too many.
    #[error("more than {PATTERNS_MAX} patterns")]
    TooMany,
}

/// What a node shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    patterns: Vec<Vec<Glob>>,
}

impl AllowList {
    /// These patterns; `default` stands for the usual files.
    ///
    /// # Errors
    /// One of them is none, or names what is never shown.
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

    /// The usual files.
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

    /// The patterns, name by name.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &[Glob]> {
        self.patterns.iter().map(Vec::as_slice)
    }

    /// True for a file that is shown, by the name that it has after links were followed.
    pub(super) fn allows(&self, path: &str) -> bool {
        let Some(path) = of_all_processes(path) else { return false };
        !is_never(path) && self.patterns.iter().any(|pattern| matches(pattern, path))
    }
}

/// A pattern, name by name.
fn names(pattern: &str) -> Vec<Glob> {
    pattern.split('/').map(Glob::new).collect()
}

fn matches(pattern: &[Glob], path: &str) -> bool {
    let mut names = path.split('/');
    pattern.iter().all(|glob| names.next().is_some_and(|name| glob.matches(name))) && names.next().is_none()
}

/// True for names with single slashes between them, none of which is `.` or `..`.
pub(super) fn is_relative(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
    path.len() <= 255 && !path.contains(|c: char| c.is_control()) && path.split('/').all(is_name)
}

/// The name without `self/`, for the files that `/proc` itself shows by a link into the process that looks: they are the
/// node's, not the process's. `None`: it is a process's own.
fn of_all_processes(path: &str) -> Option<&str> {
    let Some(own) = path.strip_prefix("self/") else { return Some(path) };
    (own == "mounts" || own.starts_with("net/")).then_some(own)
}

/// True for a name that begins with a process's number.
pub(super) fn is_numbered(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    first.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for what is never shown.
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
            "net/udp",
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
            "kcore",
            "kallsyms",
            "keys",
            "key-users",
            "kmsg",
            "sysrq-trigger",
            "vmcore",
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
        assert!(list.allows("cmdline") && list.allows("net/tcp"));
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
