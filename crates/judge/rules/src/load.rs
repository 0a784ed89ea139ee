//! Loads rule files and directories of them, whole or not at all. It is the only file of this crate that reads files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::RulesError;
use crate::file;
use crate::finding::{Findings, Severity};
use crate::limits::{FILE_BYTES_MAX, FILES_MAX, FINDINGS_MAX, GROUPS_MAX, RULES_MAX};
use crate::records;
use crate::rule::RuleSet;

/// The endings of rule files in a directory.
const ENDINGS: [&str; 3] = ["yml", "yaml", "rules"];

impl RuleSet {
    /// Loads these files, and all files of these directories that end in `.yml`, `.yaml` or `.rules`, by name; directories within
    /// them are not searched.
    ///
    /// # Errors
    ///
    /// Returns [`RulesError::Refused`] with all errors if a file has an error or is missing. Then no file is used, and the caller
    /// keeps its rules.
    pub fn load(paths: &[PathBuf]) -> Result<Self, RulesError> {
        let mut set = RuleSet::default();
        let mut findings = Findings::default();
        let Listed { files, others, unread } = listed(paths)?;
        for path in &others {
            let problem = "it is not a regular file, and is left out: rename or remove it";
            findings.add(Severity::Warning, path, None, problem.to_owned());
        }
        // The errors of the other files are found, too.
        for (path, problem) in unread {
            findings.add(Severity::Error, &path, None, problem);
        }
        // A caller that names no files has none. A directory without any rule file is a mistake.
        if files.is_empty() && !paths.is_empty() && !findings.is_refused() {
            return Err(RulesError::NoFile);
        }
        for path in files {
            match read(&path) {
                Text::Whole(text) => set.files.push(file::parse(&path, &text, &mut findings)),
                Text::Unfit(problem) => findings.add(Severity::Error, &path, None, problem),
            }
        }
        let rules = set.groups().map(|group| group.rules.len()).sum::<usize>();
        for (noun, count, most) in [("groups", set.groups().count(), GROUPS_MAX), ("rules", rules, RULES_MAX)]
        {
            if let (true, Some(last)) = (count > most, set.files.last()) {
                let problem = format!("all files together have {count} {noun}, and may have {most}");
                findings.add(Severity::Error, &last.path, None, problem);
            }
        }
        if findings.is_refused() {
            return Err(RulesError::Refused(findings));
        }
        records::warn(&set.files, &mut findings);
        file::warn_of_same_labels(&set.files, &mut findings);
        set.warnings = findings;
        Ok(set)
    }

    /// Reads the text of one file, which is named `path` in errors.
    ///
    /// # Errors
    ///
    /// As for [`RuleSet::load`].
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, RulesError> {
        let mut warnings = Findings::default();
        let files = vec![file::parse(path, text, &mut warnings)];
        if warnings.is_refused() {
            return Err(RulesError::Refused(warnings));
        }
        records::warn(&files, &mut warnings);
        Ok(RuleSet { files, warnings })
    }
}

/// What some paths mean.
#[derive(Default)]
struct Listed {
    files: Vec<PathBuf>,
    /// Other things in directories that have the name of a rule file.
    others: Vec<PathBuf>,
    /// Paths that are missing or cannot be listed, and why.
    unread: Vec<(PathBuf, String)>,
}

/// The files that these paths mean.
fn listed(paths: &[PathBuf]) -> Result<Listed, RulesError> {
    let mut listed = Listed::default();
    for path in paths {
        match std::fs::metadata(path)
            .and_then(|about| if about.is_dir() { inside(path).map(Some) } else { Ok(None) })
        {
            Ok(None) => listed.files.push(path.clone()),
            Ok(Some((files, others))) => {
                listed.files.extend(files);
                listed.others.extend(others);
            }
            Err(error) => listed.unread.push((path.clone(), unreadable(&error))),
        }
        if listed.files.len() > FILES_MAX {
            return Err(RulesError::TooManyFiles);
        }
    }
    // A file that is named twice would be evaluated twice.
    let mut seen = std::collections::HashSet::new();
    listed.files.retain(|path| seen.insert(path.clone()));
    listed.others.sort();
    listed.others.truncate(FINDINGS_MAX);
    Ok(listed)
}

/// The rule files of a directory, by name, and other things with such a name. Of each, at most one more than the limit, so that
/// the caller notices an exceeded limit.
fn inside(directory: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory)? {
        let file = entry?.path();
        let is_hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        if is_hidden || !ENDINGS.contains(&ending) {
            continue;
        }
        // A broken link counts as a file: without that file, the set would not be complete.
        match std::fs::metadata(&file).map_or(true, |found| found.is_file()) {
            true => files.push(file),
            false if others.len() < FINDINGS_MAX => others.push(file),
            false => {}
        }
        if files.len() > FILES_MAX {
            break;
        }
    }
    files.sort();
    Ok((files, others))
}

/// Why something cannot be read, in words.
fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// What a file has.
pub(crate) enum Text {
    /// Its bytes.
    Whole(Vec<u8>),
    /// Why it cannot be used.
    Unfit(String),
}

/// Reads a file. It does not wait for the writer of a pipe.
pub(crate) fn read(path: &Path) -> Text {
    whole(path).unwrap_or_else(|error| Text::Unfit(unreadable(&error)))
}

fn whole(path: &Path) -> io::Result<Text> {
    // Opening a pipe would otherwise wait for its writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(Text::Unfit("it is not a regular file".to_owned()));
    }
    let mut text = Vec::new();
    let most = FILE_BYTES_MAX as u64;
    file.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        let bytes = about.len().max(text.len() as u64);
        return Ok(Text::Unfit(format!("the file has {bytes} bytes, and may have {most}: divide it")));
    }
    Ok(Text::Whole(text))
}

/// The files that match a path with `*` and `?` in its names, by name.
pub(crate) fn resolve(pattern: &Path) -> Result<Vec<PathBuf>, RulesError> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let part = part.as_os_str();
        let glob = part.to_str().filter(|text| text.contains(['*', '?']));
        let Some(glob) = glob else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let mut next = Vec::new();
        for folder in found {
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            // A missing folder has no matching file.
            let Ok(entries) = std::fs::read_dir(here) else { continue };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let fitting =
                names.filter(|name| fits(glob, name) && (!name.starts_with('.') || glob.starts_with('.')));
            next.extend(fitting.map(|name| folder.join(name)));
            if next.len() > FILES_MAX {
                return Err(RulesError::TooManyFiles);
            }
        }
        next.sort();
        found = next;
    }
    found.retain(|path| path.exists());
    Ok(found)
}

/// Whether a name fits a pattern of `*` and `?`.
fn fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    // The last star, and how much of the name it has taken.
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[of] => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((from, taken)) = star else { return false };
                star = Some((from, taken + 1));
                (at, of) = (from + 1, taken + 1);
            }
        }
    }
    glob[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_fit_names() {
        for (glob, name, expected) in [
            ("*.yml", "a.yml", true),
            ("*.yml", "a.yaml", false),
            ("a?c*", "abcd", true),
            ("a*b*c", "aXbXbc", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(fits(glob, name), expected, "{glob} {name}");
        }
    }
}
