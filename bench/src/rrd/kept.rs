//! Courses that have ended are kept beside the files until the section has ended: a run that was interrupted goes on
//! with the course that is missing. Only courses of the same conditions count.

use std::fs;
use std::path::PathBuf;

use super::course::Round;
use super::drawn::Ended;
use crate::error::BenchError;
use crate::machine;
use crate::program::build_directory;
use crate::record::Record;

/// The courses of a section that were run before.
pub struct Kept {
    folder: PathBuf,
    /// What must be the same: the commit, and the section's own figures.
    conditions: String,
}

impl Kept {
    /// Those of this section under these conditions.
    pub fn open(section: &str, conditions: &str) -> Result<Self, BenchError> {
        let folder = build_directory()?.join("bench-rrd-kept").join(section);
        fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
        let described = machine::describe();
        let conditions = format!("{} {conditions}", described["commit"].as_str().unwrap_or("no commit"));
        Ok(Kept { folder, conditions })
    }

    /// The course of this name if it was run before; else runs it and keeps it.
    pub fn or_run(
        &self,
        record: &Record,
        name: &str,
        run: impl FnOnce() -> Result<Ended, BenchError>,
    ) -> Result<Ended, BenchError> {
        let path = self.folder.join(name.replace([' ', ','], "-"));
        let before = fs::read_to_string(&path).ok();
        if let Some(ended) = before.and_then(|text| parse(&text, &self.conditions, name)) {
            record.progress(&format!("{name}: its {} rounds were run before", ended.rounds.len()));
            return Ok(ended);
        }
        let ended = run()?;
        fs::write(&path, text(&ended, &self.conditions)).map_err(BenchError::file(&path))?;
        Ok(ended)
    }

    /// All are in the run's record now.
    pub fn forget(self) -> Result<(), BenchError> {
        fs::remove_dir_all(&self.folder).map_err(BenchError::file(&self.folder))
    }
}

/// A line of the conditions, one of how many lines there are, a line for each round and for each further figure.
fn text(ended: &Ended, conditions: &str) -> String {
    let round = |round: &Round| round.figures().map(|(_, value)| value.to_string()).join(",") + "\n";
    let rounds: String = ended.rounds.iter().map(round).collect();
    let figures: String = ended.figures.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    format!("{conditions}\n{},{}\n{rounds}{figures}", ended.rounds.len(), ended.figures.len())
}

/// `None`: other conditions, or it was cut short.
fn parse(text: &str, conditions: &str, name: &str) -> Option<Ended> {
    let rest = text.strip_prefix(conditions)?.strip_prefix('\n')?.strip_suffix('\n')?;
    let (counts, lines) = rest.split_once('\n').unwrap_or((rest, ""));
    let (rounds_count, figures_count) = counts.split_once(',')?;
    let (rounds_count, figures_count): (usize, usize) =
        (rounds_count.parse().ok()?, figures_count.parse().ok()?);
    let lines: Vec<&str> = lines.lines().collect();
    if lines.len() != rounds_count + figures_count {
        return None;
    }
    let (rounds, figures) = lines.split_at(rounds_count);
    let round = |line: &&str| {
        let figures: Option<Vec<f64>> = line.split(',').map(|word| word.parse().ok()).collect();
        Round::of(&figures?)
    };
    let figure = |line: &&str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let rounds: Option<Vec<Round>> = rounds.iter().map(round).collect();
    let figures: Option<Vec<(String, f64)>> = figures.iter().map(figure).collect();
    Some(Ended { name: name.to_owned(), rounds: rounds?, figures: figures? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_courses_of_the_same_conditions_count() {
        let one = Round { time: 1_700_001_300, files: 7, seconds: 0.1, memory_mb: 3.5, ..Round::default() };
        let figures = vec![("values missing".to_owned(), 0.0), ("drained s".to_owned(), 61.25)];
        let ended = Ended { name: "ours".to_owned(), rounds: vec![one, one], figures };
        let kept = text(&ended, "abc 7 files");
        assert_eq!(parse(&kept, "abc 7 files", "ours"), Some(ended));
        assert_eq!(parse(&kept, "abd 7 files", "ours"), None);
        for end in 0..kept.len() {
            assert_eq!(parse(&kept[..end], "abc 7 files", "ours"), None, "{end}");
        }
    }
}
