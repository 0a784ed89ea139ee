//! What of the surveys is a setting.

use std::path::PathBuf;

use khz_model::Nanos;
use khz_parse::KnownFiles;
use khz_parse::textfile::FOLDER;

use super::SURVEY_STUCK_AFTER;
use super::processes::PROCESS_PLACES;

/// Most surveys take some milliseconds; a daemon goes on while one takes long.
const FIRST_WAIT: Nanos = Nanos::from_millis(500);

/// A caller that reads once waits until each text is there, or is known to be stuck.
pub const SURVEYS_PATIENCE: Nanos = Nanos(2 * SURVEY_STUCK_AFTER.0);

/// What of the surveys is a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveySettings {
    /// The folder with files of numbers that programs leave for node_exporter (`*.prom`), below the root.
    pub text_files: PathBuf,
    /// A setting named the folder: then a missing folder is an error.
    pub expects_text_files: bool,
    /// The places of processes: how many are shown of the processes that use most CPU time, memory, input and output; also for
    /// programs.
    pub places: usize,
    /// The sources that there are.
    pub known: KnownFiles,
    /// A start waits for the first texts, so that the first row has them, but not for longer than this.
    pub first_wait: Nanos,
}

impl Default for SurveySettings {
    fn default() -> Self {
        SurveySettings {
            text_files: FOLDER.into(),
            expects_text_files: false,
            places: PROCESS_PLACES,
            known: KnownFiles::default(),
            first_wait: FIRST_WAIT,
        }
    }
}
