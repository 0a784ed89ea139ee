//! How much memory this process takes beyond what it had, while something happens. The store maps no files, so the peak
//! has nothing of the page cache in it.

use std::fs;
use std::path::Path;

use crate::error::BenchError;
use crate::program::failed;

/// The peak of this process's memory since a moment.
pub struct Peak {
    before: f64,
}

impl Peak {
    /// The peak counts from now on.
    pub fn begin() -> Result<Self, BenchError> {
        // Writing 5 makes the kernel count the peak from now on (proc_pid_clear_refs(5)).
        let clear = Path::new("/proc/self/clear_refs");
        fs::write(clear, "5").map_err(BenchError::file(clear))?;
        Ok(Peak { before: peak_kb()? })
    }

    /// How much higher the peak is now than the memory at the beginning, in kB.
    pub fn grown_kb(&self) -> Result<f64, BenchError> {
        Ok(peak_kb()? - self.before)
    }
}

fn peak_kb() -> Result<f64, BenchError> {
    own_kb("VmHWM")
}

/// The memory of this process that no file has, in kB: its own, and what is shared without a file, as rings are.
pub fn without_files_kb() -> Result<f64, BenchError> {
    Ok(own_kb("RssAnon")? + own_kb("RssShmem")?)
}

fn own_kb(field: &str) -> Result<f64, BenchError> {
    let path = Path::new("/proc/self/status");
    let status = fs::read_to_string(path).map_err(BenchError::file(path))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kb.ok_or_else(|| failed("/proc/self/status", format!("it has no {field}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_back_is_in_the_peak() {
        let peak = Peak::begin().unwrap();
        let room = std::hint::black_box(vec![1u8; 64 << 20]);
        drop(room);
        assert!(peak.grown_kb().unwrap() > 32e3);
    }
}
