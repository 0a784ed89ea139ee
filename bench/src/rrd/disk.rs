//! What the disk of a directory has done, and how long processors waited for disks: the kernel's counts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// Bytes of a sector in the kernel's counts, whatever the disk has.
const SECTOR: f64 = 512.0;

/// The disk that holds a directory.
pub struct Disk {
    stat: PathBuf,
}

/// What it has done since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests.
    pub reads: f64,
    /// Requests.
    pub writes: f64,
    /// Megabytes.
    pub read_mb: f64,
    /// Megabytes.
    pub written_mb: f64,
    /// Seconds of all processors together, with nothing to do but wait for disks.
    pub waited_s: f64,
}

impl Disk {
    /// The disk below `directory`.
    pub fn of(directory: &Path) -> Result<Self, BenchError> {
        let device = fs::metadata(directory).map_err(BenchError::file(directory))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Ok(Disk { stat: PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")) })
    }

    /// Its counts until now.
    pub fn counts(&self) -> Result<Counts, BenchError> {
        let of_disk = fs::read_to_string(&self.stat).map_err(BenchError::file(&self.stat))?;
        let of_cpus = fs::read_to_string("/proc/stat").map_err(BenchError::file("/proc/stat"))?;
        counts(&of_disk, &of_cpus)
            .ok_or_else(|| BenchError::Reply(format!("{}: '{}'", self.stat.display(), of_disk.trim())))
    }
}

impl Counts {
    /// What was done between `earlier` and these.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            read_mb: self.read_mb - earlier.read_mb,
            written_mb: self.written_mb - earlier.written_mb,
            waited_s: self.waited_s - earlier.waited_s,
        }
    }
}

fn counts(of_disk: &str, of_cpus: &str) -> Option<Counts> {
    let numbers: Vec<f64> = of_disk.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[reads, _, read_sectors, _, writes, _, written_sectors, ..] = &numbers[..] else { return None };
    // cpu user nice system idle iowait, in hundredths of a second.
    let waited: f64 = of_cpus.lines().next()?.split_whitespace().nth(5)?.parse().ok()?;
    let (read_mb, written_mb) = (read_sectors * SECTOR / 1e6, written_sectors * SECTOR / 1e6);
    Some(Counts { reads, writes, read_mb, written_mb, waited_s: waited / 100.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_read_by_their_places() {
        let disk = "  100 1 2000 30 40 5 6000 70 0 80 90 0 0 0 0\n";
        let cpus = "cpu  1 2 3 4 567 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        let expected =
            Counts { reads: 100.0, writes: 40.0, read_mb: 1.024, written_mb: 3.072, waited_s: 5.67 };
        assert_eq!(counts(disk, cpus), Some(expected));
        assert_eq!(counts("1 2 3\n", cpus), None);
        assert_eq!(expected.since(expected), Counts::default());
    }
}
