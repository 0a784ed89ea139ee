//! PROMISES.md: its tables come from `bench/promises.toml` and the runs under `bench/runs`. Each figure names
//! its run and its commit, and is marked if the code that it depends on has changed since.

mod list;
mod run;
mod stale;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use list::{List, Section};
use run::Run;
use stale::{Age, History};
use table::Line;

use crate::{step, test};

const FILE: &str = "PROMISES.md";
const RUNS: &str = "bench/runs";

/// The advice where tables and runs differ.
const WRITE: &str = "`cargo xtask promises write` writes the figures of the runs";

/// Lists stale figures and promises that are not kept. Fails where a figure is stale, and where the tables
/// differ from the runs.
pub fn check() -> Result<(), String> {
    let report = Report::of(step::root())?;
    let text = read(step::root())?;
    for name in report.list.tables() {
        table::agrees(&text, name, &report.table(name)).map_err(|problem| format!("{problem}; {WRITE}"))?;
    }
    let missed: Vec<&Entry> = report.entries.iter().filter(|one| one.line.is_kept == Some(false)).collect();
    for entry in &missed {
        println!("not kept ({}): {}", entry.section, entry.line.in_words());
    }
    for (section, mark) in report.marks(|age| matches!(age, Age::Unknown(_))) {
        println!("not known: {section}: {mark}");
    }
    let stale = report.marks(|age| matches!(age, Age::Stale { .. }));
    for (section, mark) in &stale {
        println!("stale: {section}: {}", mark.replace("**", ""));
    }
    println!("{} figures, {} not kept, {} sections stale", report.entries.len(), missed.len(), stale.len());
    match stale.is_empty() {
        true => Ok(()),
        false => Err(
            "figures are stale: `cargo xtask promises run stale` measures them again (on a quiet machine), \
                      `cargo xtask promises write` marks them"
                .into(),
        ),
    }
}

/// Writes the tables from the runs and the history.
pub fn write() -> Result<(), String> {
    let report = Report::of(step::root())?;
    let mut text = read(step::root())?;
    for name in report.list.tables() {
        text = table::with_table(&text, name, &report.table(name))?;
    }
    let path = step::root().join(FILE);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs sections of the benchmark (`hub/nodes`, or `stale` for all stale ones), takes the figures from their
/// runs and writes the tables.
pub fn run(words: &[&str]) -> Result<(), String> {
    let mut report = Report::of(step::root())?;
    let mut names: Vec<String> = words.iter().map(|word| word.replacen('/', " ", 1)).collect();
    if words == ["stale"] {
        names =
            report.marks(|age| matches!(age, Age::Stale { .. })).into_iter().map(|(name, _)| name).collect();
        names.retain(|name| can_be_run(name));
    }
    // Checks all names before the first run, which takes minutes.
    for name in &names {
        report.list.section(name)?;
        if !can_be_run(name) {
            return Err(format!(
                "'{name}' is no section of the benchmark; measure it by hand, then change {}",
                list::FILE
            ));
        }
    }
    for name in &names {
        let before = runs()?;
        test::bench(&name.split(' ').collect::<Vec<_>>())?;
        let new: Vec<String> = runs()?.difference(&before).cloned().collect();
        let [kept] = &new[..] else {
            return Err(format!("'{name}' has kept {} runs; one was expected", new.len()));
        };
        let path = step::root().join(list::FILE);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        fs::write(&path, list::with_run(&text, name, kept)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        write()?;
        eprintln!(
            "xtask: the figures of '{name}' are those of {RUNS}/{kept}; commit it with {} and {FILE}",
            list::FILE
        );
    }
    report = Report::of(step::root())?;
    println!("{} figures", report.entries.len());
    Ok(())
}

/// Whether `cargo xtask bench` can measure the section. A name that begins with `by hand` says no.
fn can_be_run(name: &str) -> bool {
    !name.starts_with("by hand")
}

fn runs() -> Result<BTreeSet<String>, String> {
    let path = step::root().join(RUNS);
    let entries = fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn read(root: &Path) -> Result<String, String> {
    let path = root.join(FILE);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// All figures with their table lines and ages.
struct Report {
    list: List,
    entries: Vec<Entry>,
}

struct Entry {
    table: String,
    section: String,
    line: Line,
    age: Age,
}

impl Report {
    fn of(root: &Path) -> Result<Report, String> {
        let list = List::of_project(root)?;
        let mut history = History::of(root);
        let mut entries = Vec::new();
        for figure in &list.figures {
            let section = list.section(&figure.section)?;
            let run = kept_run(root, section)?;
            let named = section.run.as_deref().zip(run.as_ref());
            let line =
                Line::of(figure, named).map_err(|problem| format!("'{}': {problem}", figure.promise))?;
            let commit = figure.commit.clone().or(run.map(|run| run.commit)).unwrap_or_default();
            let age = history.age(&commit, &section.code);
            entries.push(Entry { table: figure.table.clone(), section: section.name.clone(), line, age });
        }
        Ok(Report { list, entries })
    }

    fn table(&self, name: &str) -> String {
        let mut text = table::heads();
        for entry in self.entries.iter().filter(|entry| entry.table == name) {
            text.push_str(&entry.line.render(&entry.age.mark()));
        }
        text
    }

    /// Sections that have figures of such an age, each once, with the mark.
    fn marks(&self, is_such: impl Fn(&Age) -> bool) -> Vec<(String, String)> {
        let such = self.entries.iter().filter(|entry| is_such(&entry.age));
        let marks: BTreeSet<_> = such.map(|entry| (entry.section.clone(), entry.age.mark())).collect();
        marks.into_iter().collect()
    }
}

fn kept_run(root: &Path, section: &Section) -> Result<Option<Run>, String> {
    section.run.as_ref().map(|run| Run::read(&root.join(RUNS).join(run))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_the_kept_runs() {
        let (root, report) = (step::root(), Report::of(step::root()).unwrap());
        let text = read(root).unwrap();
        for name in report.list.tables() {
            let agreed = table::agrees(&text, name, &report.table(name));
            assert!(agreed.is_ok(), "{}; {WRITE}", agreed.unwrap_err());
        }
        let mut places = table::places(&text);
        let mut tables = report.list.tables();
        places.sort();
        tables.sort();
        assert_eq!(places, tables, "each place in {FILE} has a table, and each table a place");
    }

    #[test]
    fn code_that_figures_depend_on_exists() {
        let list = List::of_project(step::root()).unwrap();
        for section in &list.sections {
            for path in &section.code {
                let path = path.strip_prefix('!').unwrap_or(path);
                assert!(step::root().join(path).exists(), "{}: there is no {path}", section.name);
            }
        }
    }
}
