//! The list of mutants that no test can notice, `xtask/mutants.toml`: each changes the text of the code but
//! not its behaviour, and the list gives the reason. An entry that fits no mutant is refused, since its code
//! has changed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::mutant::Mutant;

/// The list's path from the project's root.
pub const FILE: &str = "xtask/mutants.toml";

/// All entries, and the lines that they name.
#[derive(Debug, Default)]
pub struct Equals {
    entries: Vec<Entry>,
    /// The files that entries name, line by line.
    files: HashMap<String, Vec<String>>,
}

/// The format of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    equal: Vec<Entry>,
}

/// One mutant, or several that change the same line in the same way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The file that it changes.
    file: String,
    /// The change, as the list of survivors names it, without the place.
    change: String,
    /// The line where it begins, without the blanks around it; line numbers change too often.
    line: String,
    /// Why no test can notice it.
    reason: String,
}

impl Equals {
    /// Reads the list, and the files that it names.
    pub fn of_project(root: &Path) -> Result<Self, String> {
        let read = |file: &str| {
            let path = root.join(file);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Self::new(&read(FILE)?, read)
    }

    fn new(list: &str, read: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        let List { equal: entries } = toml::from_str(list).map_err(|error| format!("{FILE}: {error}"))?;
        let mut files = HashMap::new();
        for entry in &entries {
            if entry.reason.trim().is_empty() {
                return Err(format!("{FILE}: '{}' has no reason", entry.change));
            }
            let lines = read(&entry.file)?.lines().map(|line| line.trim().to_owned()).collect();
            files.insert(entry.file.clone(), lines);
        }
        Ok(Equals { entries, files })
    }

    /// True where the list has this mutant.
    pub fn has(&self, mutant: &Mutant) -> bool {
        self.entries.iter().any(|entry| self.fits(entry, mutant))
    }

    fn fits(&self, entry: &Entry, mutant: &Mutant) -> bool {
        let lines = self.files.get(&mutant.file);
        let line = lines.and_then(|lines| lines.get(mutant.span.start.line.checked_sub(1)?));
        entry.file == mutant.file
            && entry.change == mutant.change()
            && line.is_some_and(|line| *line == entry.line)
    }

    /// Refuses entries for files in `folder` that fit none of these mutants.
    pub fn all_used(&self, folder: &str, mutants: &[Mutant]) -> Result<(), String> {
        let unused = |entry: &&Entry| !mutants.iter().any(|mutant| self.fits(entry, mutant));
        match self.entries.iter().filter(|entry| entry.file.starts_with(folder)).find(unused) {
            None => Ok(()),
            Some(entry) => Err(format!(
                "{FILE}: no mutant fits '{}' at `{}` in {} any more: correct the entry or remove it",
                entry.change, entry.line, entry.file
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mutant::named;
    use super::*;
    use crate::step;

    const LIST: &str = r#"
[[equal]]
file = "crates/a/src/b.rs"
change = "replace < with <= in f"
line = "if at < end {"
reason = "At the end nothing is left to do."
"#;

    #[test]
    fn an_entry_fits_by_file_change_and_line_wherever_the_line_has_moved_to() {
        let read = |_: &str| Ok("fn f() {\n    if at < end {\n    if at < other {\n".to_owned());
        let equals = Equals::new(LIST, read).unwrap();
        assert!(equals.has(&named("crates/a/src/b.rs", 2, "replace < with <= in f")));
        for other in [
            named("crates/a/src/b.rs", 3, "replace < with <= in f"),
            named("crates/a/src/b.rs", 2, "replace < with == in f"),
            named("crates/a/src/c.rs", 2, "replace < with <= in f"),
            named("crates/a/src/b.rs", 9, "replace < with <= in f"),
        ] {
            assert!(!equals.has(&other), "{}", other.name);
        }
    }

    #[test]
    fn an_entry_that_fits_nothing_any_more_is_refused() {
        let equals = Equals::new(LIST, |_| Ok("if at < end {".to_owned())).unwrap();
        let fits = [named("crates/a/src/b.rs", 1, "replace < with <= in f")];
        assert_eq!(equals.all_used("crates/a/", &fits), Ok(()));
        assert_eq!(equals.all_used("crates/z/", &[]), Ok(()), "another crate's");
        assert!(equals.all_used("crates/a/", &[]).unwrap_err().contains("no mutant fits"));
        let silent = LIST.replace("At the end nothing is left to do.", " ");
        assert!(Equals::new(&silent, |_| Ok(String::new())).unwrap_err().contains("no reason"));
    }

    #[test]
    fn the_projects_list_speaks_of_lines_that_are_there() {
        let equals = Equals::of_project(step::root()).unwrap();
        for entry in &equals.entries {
            assert!(equals.files[&entry.file].contains(&entry.line), "{}: {}", entry.file, entry.line);
        }
    }
}
