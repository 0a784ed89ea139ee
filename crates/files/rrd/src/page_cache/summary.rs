//! A histogram of how many pages each file of a directory has resident: figure 12 of the LISA'07 paper.

use std::path::Path;

use super::{residency, rrd_files};
use crate::error::{Error, Result};
use crate::lines;

/// How many pages the files of a directory have resident.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files by resident pages: index 0 for none, and so on; the last index holds all that have more.
    pub files: Vec<u64>,
    /// Files examined.
    pub count: u64,
    /// Resident pages in all.
    pub resident: u64,
    /// Pages in all.
    pub pages: u64,
    /// Files and directories that could not be examined.
    pub failed: u64,
    /// Why the first of these files could not.
    pub first_failure: Option<String>,
}

/// Bars of a histogram; a file with more resident pages counts in the last.
const BARS: usize = 65;

/// Examines every `.rrd` file below `directory`.
///
/// # Errors
/// The directory itself cannot be read; failures below it are counted.
pub fn summarise(directory: &Path) -> Result<Summary> {
    let mut summary = Summary { files: vec![0; BARS], ..Summary::default() };
    std::fs::read_dir(directory).map_err(|error| Error::io("reading", directory, error))?;
    for path in rrd_files(directory, &mut summary.failed) {
        match residency(&path) {
            Ok(residency) => {
                let resident = residency.count();
                summary.files[resident.min(BARS as u64 - 1) as usize] += 1;
                summary.count += 1;
                summary.resident += resident;
                summary.pages += residency.pages();
            }
            Err(error) => {
                summary.failed += 1;
                summary.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
    Ok(summary)
}

impl Summary {
    /// The histogram as text, empty bars left out.
    pub fn text(&self) -> String {
        let most = self.files.iter().copied().max().unwrap_or(0).max(1);
        let mut text = String::from("pages   files\n");
        for (pages, &files) in self.files.iter().enumerate().filter(|(_, files)| **files > 0) {
            let label = if pages == BARS - 1 { format!("{pages}+") } else { pages.to_string() };
            let bar = "#".repeat((files * 50).div_ceil(most) as usize);
            text.push_str(&format!("{label:>5} {files:>7} {bar}\n"));
        }
        let mean = self.resident as f64 / (self.count.max(1)) as f64;
        text.push_str(&format!(
            "{} files, {} of {} pages resident, {mean:.2} a file\n",
            self.count, self.resident, self.pages
        ));
        if self.failed > 0 {
            let first =
                self.first_failure.as_ref().map_or(String::new(), |why| format!("; the first: {why}"));
            let failed = format!("{} files or directories could not be examined{first}", self.failed);
            text.push_str(&lines::wrapped("", "  ", &failed));
        }
        text
    }
}
