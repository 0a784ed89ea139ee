//! What of the surveys is a setting.

use std::path::PathBuf;

use khz_parse::KnownFiles;
use khz_parse::textfile::FOLDER;

use super::processes::PROCESS_PLACES;

/// What of the surveys is a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveySettings {
    /// The folder with files of numbers that programs leave for node_exporter (`*.prom`), below the root.
    pub text_files: PathBuf,
    /// The places of processes: how many are shown of those that take most CPU time, memory, input and output; and of programs.
    pub places: usize,
    /// The sources that there are.
    pub known: KnownFiles,
}

impl Default for SurveySettings {
    fn default() -> Self {
        SurveySettings { text_files: FOLDER.into(), places: PROCESS_PLACES, known: KnownFiles::default() }
    }
}
