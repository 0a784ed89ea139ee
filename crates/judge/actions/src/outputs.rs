//! What diagnosing programs printed: a file for each run, `actions/RUN.txt` in the state directory, the newest ones.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::ActionError;
use crate::limits::{OUTPUT_BYTES_MAX, OUTPUTS_MAX};

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
        Ok(outputs)
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o750).create(&self.folder)
    }

    /// The highest number that there is: no later run may have it.
    pub fn last(&self) -> u64 {
        self.all().into_iter().max().unwrap_or(0)
    }

    /// Keeps an output, and removes the oldest beyond [`OUTPUTS_MAX`].
    pub fn keep(&self, run: u64, text: &str) -> io::Result<()> {
        // Somebody may have removed it.
        self.make_folder()?;
        let next = self.folder.join("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&next, self.path(run))?;
        let mut all = self.all();
        all.sort_unstable();
        for old in all.iter().take(all.len().saturating_sub(OUTPUTS_MAX)) {
            let _ = std::fs::remove_file(self.path(*old));
        }
        Ok(())
    }

    /// The output of a run; `None`: there is none, or none any more.
    pub fn read(&self, run: u64) -> Option<String> {
        let file = std::fs::File::open(self.path(run)).ok()?;
        let mut bytes = Vec::new();
        // A screen's version of the bytes may be longer than they were.
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
}
