//! How many files this process has open, and how many it may have. It asks rarely, and lists nothing: since Linux 6.2, the size of
//! the folder of open files is their number.

use khz_model::Nanos;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::{Resource, getrlimit};

/// A number is valid for this long: a process opens most of its files at its start.
const STANDS: Nanos = Nanos::from_secs(5);

/// `/proc/self/fd`, kept open.
#[derive(Debug)]
pub(crate) struct OwnFiles {
    folder: Option<OwnedFd>,
    /// The limit; `None`: there is none.
    pub max: Option<u64>,
    /// The last number and its time.
    read: Option<(Nanos, Option<u64>)>,
}

impl OwnFiles {
    pub fn new() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open("/proc/self/fd", flags, Mode::empty()).ok();
        OwnFiles { folder, max: getrlimit(Resource::Nofile).current, read: None }
    }

    /// The number of open files, at most some seconds old; `None`: the kernel is too old to say it.
    pub fn count(&mut self, now: Nanos) -> Option<u64> {
        match self.read {
            Some((at, known)) if now.since(at) < STANDS => known,
            _ => self.read.insert((now, self.ask())).1,
        }
    }

    fn ask(&self) -> Option<u64> {
        let size = fstat(self.folder.as_ref()?).ok()?.st_size;
        u64::try_from(size).ok().filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_as_many_files_as_its_folder_lists() {
        let count = OwnFiles::new().count(Nanos(0));
        let Some(count) = count else { return khz_skip::skip("the kernel is older than 6.2") };
        // Other tests of this process open files meanwhile.
        let listed = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        assert!(count > 2 && count.abs_diff(listed) < 64, "{count} and {listed}");
    }
}
