//! For tests: surveys of one subject, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_parse::{KernelFile, KnownFiles, Parser, Subject};
use rustix::io::Errno;

use super::{Survey, SurveySettings, SurveyText};

/// The limit only ends a hanging test.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The surveys of a subject below a root.
pub(super) struct Looks {
    pub survey: Arc<Survey>,
    subject: Subject,
}

impl Looks {
    pub fn at(root: &Path, subject: Subject) -> Self {
        Looks::with(root, &SurveySettings::default(), subject)
    }

    pub fn with(root: &Path, settings: &SurveySettings, subject: Subject) -> Self {
        Looks { survey: Survey::start(root, settings, [subject]), subject }
    }

    /// What is wrong with the latest survey, for people.
    pub fn problem(&self) -> Option<String> {
        self.survey.lock().problems[0].clone()
    }

    /// Those of a source that a configuration describes.
    pub fn of_own(root: &Path, file: &'static KernelFile) -> Self {
        let settings = SurveySettings { known: KnownFiles::with([file]), ..SurveySettings::default() };
        let subject = Subject::Tree(file.name);
        Looks { survey: Survey::start(root, &settings, [subject]), subject }
    }

    /// The text of another survey.
    pub fn bytes(&self) -> Result<Vec<u8>, Errno> {
        while !self.survey.want(u64::MAX) {
            std::thread::yield_now();
        }
        assert!(self.survey.wait(PATIENCE));
        let mut text = Vec::new();
        let length = SurveyText::new(&self.survey, self.subject).read(&mut text)?;
        text.truncate(length);
        Ok(text)
    }

    /// Parses it, and returns the parser.
    pub fn parse(&self, file: &'static KernelFile) -> Parser {
        let (text, mut parser) = (self.bytes().unwrap(), Parser::new(file));
        parser.advance_with(&text);
        assert_eq!(parser.faults(), [], "{}", String::from_utf8_lossy(&text));
        parser
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        self.survey.end();
    }
}
