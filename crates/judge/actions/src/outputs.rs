//! The output of diagnosing programs: a file for each of the newest runs, `actions/RUN.txt` in the state directory.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::ActionError;
use crate::limits::{OUTPUT_BYTES_MAX, OUTPUTS_MAX};

/// The ending of the name of an incomplete file.
const UNFINISHED: &str = ".new";

/// The outputs of a state directory.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    folder: PathBuf,
}

impl Outputs {
    /// Those of this directory; the folder is made.
    pub fn open(directory: &Path) -> Result<Self, ActionError> {
        let outputs = Outputs { folder: directory.join("actions") };
        let made = outputs.make_folder();
        made.map_err(|source| ActionError::Log { what: "make", path: outputs.folder.clone(), source })?;
        outputs.remove_unfinished();
        Ok(outputs)
    }

    /// Removes what a killed process has left half-written.
    fn remove_unfinished(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name == "new" || name.ends_with(UNFINISHED)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o750).create(&self.folder)
    }

    /// The highest existing number. No later run may get it.
    pub fn last(&self) -> u64 {
        self.all().into_iter().max().unwrap_or(0)
    }

    /// Keeps an output, and removes the oldest beyond [`OUTPUTS_MAX`].
    pub fn keep(&self, run: u64, text: &str) -> io::Result<()> {
        // Somebody may have removed it.
        self.make_folder()?;
        // Several runs may end at the same time, so each has its own file even while it is incomplete.
        let next = self.folder.join(format!("{run}{UNFINISHED}"));
        let written = Self::write(&next, text).and_then(|()| std::fs::rename(&next, self.path(run)));
        if written.is_err() {
            let _ = std::fs::remove_file(&next);
            return written;
        }
        let mut all = self.all();
        all.sort_unstable();
        for old in all.iter().take(all.len().saturating_sub(OUTPUTS_MAX)) {
            let _ = std::fs::remove_file(self.path(*old));
        }
        Ok(())
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// The output of a run; `None`: there is none, or none any more.
    pub fn read(&self, run: u64) -> Option<String> {
        let file = std::fs::File::open(self.path(run)).ok()?;
        let mut bytes = Vec::new();
        // This includes the line that says how much is left out. Older versions kept files of up to four times this size.
        file.take(4 * OUTPUT_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn path(&self, run: u64) -> PathBuf {
        self.folder.join(format!("{run}.txt"))
    }

    fn all(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".txt")?.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_outputs_are_kept() {
        let place = std::env::temp_dir().join(format!("khz-outputs-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let outputs = Outputs::open(&place).unwrap();
        let last = OUTPUTS_MAX as u64 + 2;
        for run in 1..=last {
            outputs.keep(run, &format!("output {run}")).unwrap();
        }
        assert_eq!((outputs.read(2), outputs.read(3).as_deref()), (None, Some("output 3")));
        assert_eq!((outputs.last(), outputs.all().len()), (last, OUTPUTS_MAX));
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn outputs_that_are_kept_at_the_same_time_stand_under_the_numbers_of_their_runs() {
        const THREADS: u64 = 8;
        const RUNS: u64 = 20;
        let place = std::env::temp_dir().join(format!("khz-outputs-together-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let outputs = Outputs::open(&place).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let outputs = &outputs;
                scope.spawn(move || {
                    for run in (1..=RUNS).map(|run| run * THREADS + thread) {
                        outputs.keep(run, &format!("output {run}")).unwrap();
                    }
                });
            }
        });
        for run in THREADS..(RUNS + 1) * THREADS {
            assert_eq!(outputs.read(run), Some(format!("output {run}")));
        }
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_a_killed_process_has_left_half_written_goes_at_the_next_start() {
        let place = std::env::temp_dir().join(format!("khz-outputs-half-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let outputs = Outputs::open(&place).unwrap();
        outputs.keep(7, "whole").unwrap();
        std::fs::write(outputs.folder.join("8.new"), "half").unwrap();
        let outputs = Outputs::open(&place).unwrap();
        assert_eq!((outputs.last(), outputs.read(7).as_deref()), (7, Some("whole")));
        let entries = std::fs::read_dir(&outputs.folder).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["7.txt"]);
        std::fs::remove_dir_all(place).unwrap();
    }
}
