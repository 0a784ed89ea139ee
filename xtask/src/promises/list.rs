//! The list of promises, `bench/promises.toml`. Its sections are those of the benchmark, each with its kept
//! run and the code that its figures depend on; its figures name the bounds to reach. Refuses unknown keys
//! and contradictions.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The file's path from the project's root.
pub const FILE: &str = "bench/promises.toml";

/// The whole list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Sections, `[[section]]`.
    #[serde(rename = "section")]
    pub sections: Vec<Section>,
    /// Figures, `[[figure]]`, in the order of their table.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A part of the benchmark that gives figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its arguments: `hub nodes` is `cargo xtask bench hub nodes`. `by hand` begins the name of a section
    /// without a benchmark.
    pub name: String,
    /// The folder under `bench/runs` that its figures come from. Absent if no run is kept; then the figures
    /// name their commit.
    pub run: Option<String>,
    /// The code whose changes make its figures stale: files or folders. After `!`, a path prefix that is left
    /// out.
    pub code: Vec<String>,
}

/// A line of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its table in PROMISES.md.
    pub table: String,
    /// The promise, the first cell of its line.
    pub promise: String,
    /// The section that measures it.
    pub section: String,
    /// Where its values are in the run: `verdict NAME`, or `sample SECTION|CASE|WHO|WHAT` for the median of
    /// raw samples.
    #[serde(default)]
    pub values: Vec<String>,
    /// The bound of each value: `<= 1.5`, `>= 0.95`, or `stated`. One for all values, or one for each.
    #[serde(default)]
    pub bounds: Vec<String>,
    /// Factor for shown values; bounds are in the shown measure.
    #[serde(default = "one")]
    pub factor: f64,
    /// Printed after each value and bound: ` µs`.
    #[serde(default)]
    pub unit: String,
    /// Whether the quartiles are shown.
    #[serde(default)]
    pub quartiles: bool,
    /// The result in words, if the run has no such value.
    #[serde(default)]
    pub told: String,
    /// The bound in words, if `bounds` cannot express it.
    pub reach: Option<String>,
    /// Whether it is kept, if that does not follow from values and bounds.
    pub kept: Option<bool>,
    /// The measured commit of a figure in words.
    pub commit: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// The bound of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// No bound; the figure is only stated.
    Stated,
}

impl Bound {
    /// Reads `<= 1.5`, `>= 0.95` or `stated`.
    pub fn read(text: &str) -> Result<Bound, String> {
        let number =
            |rest: &str| rest.trim().parse().map_err(|_| format!("the bound '{text}' has no number"));
        match (text.strip_prefix("<="), text.strip_prefix(">=")) {
            (Some(rest), _) => Ok(Bound::AtMost(number(rest)?)),
            (_, Some(rest)) => Ok(Bound::AtLeast(number(rest)?)),
            _ if text == "stated" => Ok(Bound::Stated),
            _ => Err(format!("'{text}' is no bound: write '<= 1.5', '>= 0.95' or 'stated'")),
        }
    }

    /// Whether a value keeps the bound.
    pub fn is_kept_by(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(limit) => value >= limit,
            Bound::AtMost(limit) => value <= limit,
            Bound::Stated => true,
        }
    }
}

impl List {
    /// Reads the file of this project.
    pub fn of_project(root: &Path) -> Result<List, String> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        List::read(&text).map_err(|problem| format!("{FILE}: {problem}"))
    }

    /// Reads a list and checks that its parts agree.
    pub fn read(text: &str) -> Result<List, String> {
        let list: List = toml::from_str(text).map_err(|error| error.to_string())?;
        list.figures.iter().try_for_each(|figure| {
            list.check(figure).map_err(|problem| format!("'{}': {problem}", figure.promise))
        })?;
        Ok(list)
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Result<&Section, String> {
        let found = self.sections.iter().find(|section| section.name == name);
        found.ok_or_else(|| format!("there is no section '{name}' in {FILE}"))
    }

    /// The tables, in the order of the file.
    pub fn tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !tables.contains(&figure.table.as_str()) {
                tables.push(&figure.table);
            }
        }
        tables
    }

    fn check(&self, figure: &Figure) -> Result<(), String> {
        let section = self.section(&figure.section)?;
        figure.bounds.iter().try_for_each(|bound| Bound::read(bound).map(drop))?;
        if figure.values.is_empty() && figure.told.is_empty() {
            return Err("it has neither values nor words ('told')".into());
        }
        if !figure.values.is_empty() && ![1, figure.values.len()].contains(&figure.bounds.len()) {
            return Err(format!("{} values, {} bounds", figure.values.len(), figure.bounds.len()));
        }
        if figure.values.is_empty() && (figure.reach.is_none() || !figure.bounds.is_empty()) {
            return Err("a figure in words has its 'reach' in words too".into());
        }
        match (figure.values.is_empty(), &figure.commit) {
            (true, None) => Err("words do not follow a run: name the commit that was measured".into()),
            (false, Some(_)) => Err("its values come from the run, which names the commit".into()),
            (false, None) if !figure.told.is_empty() => {
                Err("words beside values would stay when the run is another; write them around the table"
                    .into())
            }
            (false, None) if section.run.is_none() => {
                Err(format!("the section '{}' has no run to take values from", section.name))
            }
            _ => Ok(()),
        }
    }
}

/// The text of the list with another run for a section; everything else unchanged.
pub fn with_run(text: &str, section: &str, run: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let name = format!("name = \"{section}\"");
    let at = lines.iter().position(|line| *line == name);
    let at = at.ok_or_else(|| format!("{FILE} has no line '{name}'"))?;
    let is_own = |line: &String| !line.starts_with("[[");
    let end = at + lines[at..].iter().take_while(|line| is_own(line)).count();
    let line = format!("run = \"{run}\"");
    match lines[at..end].iter().position(|line| line.starts_with("run = ")) {
        Some(offset) => lines[at + offset] = line,
        None => lines.insert(at + 1, line),
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
[[section]]
name = \"hub nodes\"
run = \"day-hub-nodes\"
code = [\"crates/cluster/hub\"]

[[section]]
name = \"by hand\"
code = []

[[figure]]
table = \"hub\"
promise = \"a row\"
section = \"hub nodes\"
values = [\"verdict us per row\"]
bounds = [\"<= 1\"]
";

    #[test]
    fn a_list_is_read_and_knows_its_tables() {
        let list = List::read(LIST).unwrap();
        assert_eq!((list.tables(), list.figures[0].factor), (vec!["hub"], 1.0));
    }

    #[test]
    fn contradictions_are_refused_and_name_the_promise() {
        for (from, to, problem) in [
            ("section = \"hub nodes\"", "section = \"hub\"", "there is no section 'hub'"),
            ("[\"<= 1\"]", "[\"<= 1\"]\ntold = \"x\"", "words beside values"),
            ("[\"<= 1\"]", "[\"< 1\"]", "'< 1' is no bound"),
            ("[\"<= 1\"]", "[\"<= 1\", \"<= 2\"]", "1 values, 2 bounds"),
            ("values = [\"verdict us per row\"]\n", "", "neither values nor words"),
            ("bounds = [\"<= 1\"]", "bounds = [\"<= 1\"]\ncommit = \"abc\"", "names the commit"),
            ("table", "tabel", "unknown field"),
        ] {
            let refused = List::read(&LIST.replacen(from, to, 1)).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
        let by_hand = LIST
            .replace("values = [\"verdict us per row\"]\nbounds = [\"<= 1\"]", "told = \"3\"\nreach = \"4\"");
        let by_hand = by_hand.replace("section = \"hub nodes\"", "section = \"by hand\"");
        assert!(List::read(&by_hand).unwrap_err().contains("name the commit that was measured"));
    }

    #[test]
    fn bounds_are_kept_at_their_limit() {
        assert!(Bound::read("<= 1.5").unwrap().is_kept_by(1.5) && !Bound::AtMost(1.5).is_kept_by(1.51));
        assert!(Bound::read(">= 5").unwrap().is_kept_by(5.0) && !Bound::AtLeast(5.0).is_kept_by(4.9));
        assert!(Bound::read("stated").unwrap().is_kept_by(f64::NAN));
        assert!(!Bound::AtMost(1.0).is_kept_by(f64::NAN), "what was not measured is not kept");
    }

    #[test]
    fn another_run_changes_one_line() {
        let other = with_run(LIST, "hub nodes", "later").unwrap();
        assert_eq!(other, LIST.replace("day-hub-nodes", "later"));
        let first = with_run(LIST, "by hand", "later").unwrap();
        assert_eq!(first, LIST.replace("name = \"by hand\"\n", "name = \"by hand\"\nrun = \"later\"\n"));
        assert!(with_run(LIST, "nobody", "later").is_err());
    }
}
