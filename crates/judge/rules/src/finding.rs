//! An error or a probable error in a file: its place, and what to do. It does not decide what follows.

use std::fmt;
use std::path::{Path, PathBuf};

use khz_model::printable::printable;

use crate::limits::FINDINGS_MAX;

/// A place in a file. Both count from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not mean what was intended.
    Warning,
}

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub path: PathBuf,
    /// Where in it; `None`: it is about the whole file.
    pub place: Option<Place>,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.path.to_string_lossy()))?;
        if let Some(place) = self.place {
            write!(f, ":{place}")?;
        }
        let severity = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, ": {severity}{}", printable(&self.problem))
    }
}

/// All that was found in some files, in the order in which it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    found: Vec<Finding>,
    /// How many were not kept.
    pub more: usize,
}

impl Findings {
    pub(crate) fn add(&mut self, severity: Severity, path: &Path, place: Option<Place>, problem: String) {
        self.push(Finding { severity, path: path.to_owned(), place, problem });
    }

    fn push(&mut self, finding: Finding) {
        let is_full = self.found.len() >= FINDINGS_MAX;
        // An error always finds room, since it decides.
        if is_full && (finding.severity == Severity::Warning || self.is_refused()) {
            self.more += 1;
        } else {
            self.found.push(finding);
        }
    }

    /// Whether this problem is known at this place of this file.
    pub(crate) fn has(&self, path: &Path, place: Place, problem: &str) -> bool {
        self.found.iter().any(|one| one.path == path && one.place == Some(place) && one.problem == problem)
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Sorts the findings after the first `from` by their places.
    pub(crate) fn sort_from(&mut self, from: usize) {
        self.found[from..].sort_by_key(|finding| finding.place);
    }

    /// All findings that were kept.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.found.iter()
    }

    /// Those of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.found.iter().filter(move |finding| finding.severity == severity)
    }

    /// True if there is an error among them.
    pub fn is_refused(&self) -> bool {
        self.of(Severity::Error).next().is_some()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.found.iter().enumerate() {
            let between = if at > 0 { "\n" } else { "" };
            write!(f, "{between}{finding}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_bounded_and_an_error_always_finds_room() {
        let mut findings = Findings::default();
        let mut add = |severity| findings.add(severity, Path::new("a.yml"), None, String::from("x"));
        (0..FINDINGS_MAX + 5).for_each(|_| add(Severity::Warning));
        add(Severity::Error);
        add(Severity::Error);
        assert!(findings.is_refused());
        assert_eq!((findings.iter().count(), findings.more), (FINDINGS_MAX + 1, 6));
        assert!(findings.to_string().ends_with("\na.yml: x\n6 more"));
    }
}
