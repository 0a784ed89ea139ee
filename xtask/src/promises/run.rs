//! A run that is kept under `bench/runs`: its verdicts, raw samples and commit. Older runs have no
//! `verdicts.csv`; their verdicts come from the table at the end of `summary.md`, where names are cut off and
//! figures rounded.

use std::fs;
use std::path::{Path, PathBuf};

/// Narrow tables cut names off after at least this many characters.
const CUT_OFF_FROM: usize = 34;

/// A kept run.
pub struct Run {
    folder: PathBuf,
    /// The commit that was measured.
    pub commit: String,
    /// Whether the program had changes beyond the commit.
    pub is_changed: bool,
    verdicts: Vec<Verdict>,
    samples: String,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Half of the measurements are below.
    pub median: f64,
    /// The first and third quartile; the median if there is only one measurement.
    pub quartiles: (f64, f64),
}

struct Verdict {
    name: String,
    value: Value,
}

impl Run {
    /// Reads the run in this folder.
    pub fn read(folder: &Path) -> Result<Run, String> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let machine: serde_json::Value = serde_json::from_str(&text("machine.json")?)
            .map_err(|error| format!("{}/machine.json: {error}", folder.display()))?;
        let commit = machine["commit"].as_str().filter(|commit| commit.len() >= 12);
        let commit = commit.ok_or_else(|| format!("{}/machine.json names no commit", folder.display()))?;
        let verdicts = match folder.join("verdicts.csv").exists() {
            true => verdicts_of_lines(&text("verdicts.csv")?),
            false => verdicts_of_summary(&text("summary.md")?),
        };
        Ok(Run {
            folder: folder.to_owned(),
            commit: commit.to_owned(),
            is_changed: machine["uncommitted_changes"] == true,
            verdicts,
            samples: text("samples.csv")?,
        })
    }

    /// A value, named as in `bench/promises.toml`.
    pub fn value(&self, words: &str) -> Result<Value, String> {
        let missing = || format!("the run {} has no '{words}'", self.folder.display());
        match words.split_once(' ') {
            Some(("verdict", name)) => self.verdict(name).ok_or_else(missing),
            Some(("sample", place)) => self.median(place).ok_or_else(missing),
            _ => Err(format!("'{words}' is neither 'verdict NAME' nor 'sample SECTION|CASE|WHO|WHAT'")),
        }
    }

    /// A verdict by its name. `NAME #2` is the second of those that an old table has cut off to the same
    /// name.
    fn verdict(&self, name: &str) -> Option<Value> {
        let (name, number) = match name.rsplit_once(" #") {
            Some((name, number)) => (name, number.parse::<usize>().ok()?),
            None => (name, 1),
        };
        let whole = self.verdicts.iter().filter(|verdict| verdict.name == name);
        let is_cut = |one: &&Verdict| one.name.len() >= CUT_OFF_FROM && name.starts_with(&one.name);
        let found: Vec<&Verdict> =
            whole.chain(self.verdicts.iter().filter(|one| one.name != name).filter(is_cut)).collect();
        found.get(number.checked_sub(1)?).map(|verdict| verdict.value)
    }

    /// The median of raw samples.
    fn median(&self, place: &str) -> Option<Value> {
        let parts: Vec<&str> = place.split('|').collect();
        let [section, case, who, what] = parts[..] else { return None };
        let (front, behind) = (format!("{section},{case},{who},"), format!(",{what},"));
        let numbers = self.samples.lines().filter_map(|line| {
            let (turn, number) = line.strip_prefix(&front)?.split_once(&behind)?;
            (!turn.contains(',')).then_some(number.parse::<f64>().ok()?)
        });
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (numbers.len() - 1) as f64;
            let (below, above) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        (!numbers.is_empty()).then(|| Value { median: at(0.5), quartiles: (at(0.25), at(0.75)) })
    }
}

/// `section,sign,limit,median,lower,upper,promise`: the promise comes last, since it may contain commas.
fn verdicts_of_lines(text: &str) -> Vec<Verdict> {
    let verdict = |line: &str| {
        let parts: Vec<&str> = line.splitn(7, ',').collect();
        let [_, _, _, median, lower, upper, name] = parts[..] else { return None };
        let quartiles = (lower.parse().ok()?, upper.parse().ok()?);
        Some(Verdict { name: name.to_owned(), value: Value { median: median.parse().ok()?, quartiles } })
    };
    text.lines().filter_map(verdict).collect()
}

/// The last table of a summary: `NAME  >= 0.950  0.970  0.969..0.971  yes`.
fn verdicts_of_summary(text: &str) -> Vec<Verdict> {
    let Some((_, table)) = text.rsplit_once("## What was to be reached") else { return Vec::new() };
    let verdict = |line: &str| {
        let mut words = line.rsplit(' ').filter(|word| !word.is_empty());
        let _kept = words.next()?;
        let (lower, upper) = words.next()?.split_once("..")?;
        let median = number(words.next()?)?;
        let signed = line.find(" >= ").or_else(|| line.find(" <= "))?;
        let name = line[..signed].trim().to_owned();
        Some(Verdict { name, value: Value { median, quartiles: (number(lower)?, number(upper)?) } })
    };
    table.lines().filter_map(verdict).collect()
}

/// A number as the benchmark writes it: `1,492`.
fn number(text: &str) -> Option<f64> {
    text.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(verdicts: Vec<Verdict>, samples: &str) -> Run {
        let (folder, commit) = (PathBuf::from("day-x"), String::from("0123456789ab"));
        Run { folder, commit, is_changed: false, verdicts, samples: samples.into() }
    }

    #[test]
    fn verdicts_are_read_out_of_lines_whatever_their_name_holds() {
        let text = "section,sign,limit,median,lower,upper,promise\nnodes,<=,1,0.888,0.878,0.897,4096 x 100, decoded: us\n\
                    nodes,stated,,,,,nobody measured it\n";
        let run = run(verdicts_of_lines(text), "");
        let expected = Value { median: 0.888, quartiles: (0.878, 0.897) };
        assert_eq!(run.value("verdict 4096 x 100, decoded: us"), Ok(expected));
        assert_eq!(
            run.value("verdict nobody measured it").unwrap_err(),
            "the run day-x has no 'verdict nobody measured it'"
        );
    }

    #[test]
    fn verdicts_of_old_runs_are_read_out_of_the_summary_also_where_names_are_cut_off() {
        let text = "# x\n\n## What was to be reached\n\n```\npromise  to reach  reached  quartiles  kept\n-----\n\
                    agent's RssAnon in kB                     <= 4,000    1,492  1,492..1,500   yes\n\
                    job's lost time, agent and mount / bare l   <= 1.30    1,840  1,840..1,840    NO\n\
                    job's lost time, agent and mount / bare l   <= 1.30     1.14    1.14..1.14   yes\n```\n\nLoad: 1\n";
        let run = run(verdicts_of_summary(text), "");
        let memory = Value { median: 1_492.0, quartiles: (1_492.0, 1_500.0) };
        assert_eq!(run.value("verdict agent's RssAnon in kB"), Ok(memory));
        let fourth = run.value("verdict job's lost time, agent and mount / bare loop, 1000 Hz #2").unwrap();
        assert_eq!(fourth.median, 1.14);
        assert!(run.value("verdict job's lost time").is_err(), "a name that is not the whole one is another");
    }

    #[test]
    fn samples_give_their_median_also_where_the_case_has_a_comma() {
        let run = run(
            Vec::new(),
            "nodes,4 x 1, TLS,khz,0,us,3\nnodes,4 x 1, TLS,khz,1,us,1\nnodes,4 x 1, TLS,khz,2,us,2\nnodes,4 x 1,khz,0,us,9\n",
        );
        let value = run.value("sample nodes|4 x 1, TLS|khz|us").unwrap();
        assert_eq!(value, Value { median: 2.0, quartiles: (1.5, 2.5) });
        assert!(run.value("sample nodes|4 x 1|khz|ms").is_err());
    }
}
