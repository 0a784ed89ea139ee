//! The tables of PROMISES.md. Each is between two marks, `<!-- promises: NAME -->` and `<!-- /promises -->`,
//! and is made from the list and the kept runs. The text around the tables is written by hand and never
//! changed.

use super::list::{Bound, Figure};
use super::run::{Run, Value};

/// The beginning of the mark before a table.
const BEGIN: &str = "<!-- promises: ";
/// The end of that mark.
const BEGIN_END: &str = " -->";
/// The mark after a table.
const END: &str = "<!-- /promises -->";

const HEADS: &str =
    "| promise | to reach | measured | kept | run, commit | code since |\n|---|---|---|---|---|---|\n";

/// Characters that identify a commit.
pub const COMMIT: usize = 9;

/// A line of a table, and its verdict.
pub struct Line {
    /// All cells except the last.
    cells: Vec<String>,
    /// Whether the promise is kept; `None` if the figure is only stated.
    pub is_kept: Option<bool>,
}

impl Line {
    /// The line of a figure, with the run of its section if there is one.
    pub fn of(figure: &Figure, run: Option<(&str, &Run)>) -> Result<Line, String> {
        let mut values = Vec::new();
        for words in &figure.values {
            let (_, run) = run.ok_or("BUG: values without a run")?;
            let Value { median, quartiles: (lower, upper) } = run.value(words)?;
            let factor = figure.factor;
            values.push(Value { median: median * factor, quartiles: (lower * factor, upper * factor) });
        }
        let bounds = figure.bounds.iter().map(|bound| Bound::read(bound)).collect::<Result<Vec<_>, _>>()?;
        let bound_of = |at: usize| bounds.get(at).or(bounds.first()).copied().unwrap_or(Bound::Stated);
        let is_promised = bounds.iter().any(|bound| *bound != Bound::Stated);
        let all = (0..).zip(&values).all(|(at, value)| bound_of(at).is_kept_by(value.median));
        let is_kept = figure.kept.or(is_promised.then_some(all));
        let mut measured: Vec<String> = values.iter().map(|value| shown(figure, *value)).collect();
        if let Some(last) = measured.last_mut().filter(|_| !figure.quartiles) {
            last.push_str(&figure.unit);
        }
        let measured = if measured.is_empty() { figure.told.clone() } else { measured.join(", ") };
        let reach = figure.reach.clone().unwrap_or_else(|| to_reach(&bounds, &figure.unit));
        let kept = match is_kept {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "stated",
        };
        let commit = match (&figure.commit, run) {
            (Some(commit), _) => commit.as_str(),
            (None, Some((_, run))) => run.commit.as_str(),
            (None, None) => return Err("BUG: a figure without a commit".into()),
        };
        let commit = commit.get(..COMMIT).unwrap_or(commit);
        let source = match (&figure.commit, run) {
            (None, Some((name, run))) if run.is_changed => format!("{name}, {commit} and changes"),
            (None, Some((name, _))) => format!("{name}, {commit}"),
            _ => format!("{}, {commit}", figure.section),
        };
        Ok(Line { cells: vec![figure.promise.clone(), reach, measured, kept.into(), source], is_kept })
    }

    /// Bound and value: `<= 1 | 1.2 µs`.
    pub fn in_words(&self) -> String {
        format!("{}: to reach {}, measured {}", self.cells[0], self.cells[1], self.cells[2])
    }

    /// The line with its last cell.
    pub fn render(&self, mark: &str) -> String {
        let mut line = format!("| {} | {mark} |", self.cells.join(" | "));
        line.push('\n');
        line
    }
}

/// The header lines of a table.
pub fn heads() -> String {
    String::from(HEADS)
}

/// The text with a table between its marks.
pub fn with_table(text: &str, name: &str, table: &str) -> Result<String, String> {
    let (before, _, after) = parts(text, name)?;
    Ok(format!("{before}\n{table}{after}"))
}

/// Compares the table in the text with the table to write, except for the last cells: those follow from the
/// history, which not every checkout has.
pub fn agrees(text: &str, name: &str, table: &str) -> Result<(), String> {
    let (_, found, _) = parts(text, name)?;
    let (found, made) = (without_marks(found), without_marks(table));
    if found == made {
        return Ok(());
    }
    let differs =
        made.iter().find(|line| !found.contains(line)).or(found.iter().find(|line| !made.contains(line)));
    Err(format!(
        "the table '{name}' differs from its runs: {}",
        differs.map_or("its order differs", String::as_str)
    ))
}

/// The names of the tables that have marks in the text.
#[cfg(test)]
pub fn places(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(BEGIN_END)).collect()
}

/// The text before a table, with its mark; the table; and the text after it.
fn parts<'a>(text: &'a str, name: &str) -> Result<(&'a str, &'a str, &'a str), String> {
    let mark = format!("{BEGIN}{name}{BEGIN_END}");
    let missing = |mark: &str| format!("PROMISES.md has no line '{mark}' for the table '{name}'");
    let begin = text.find(&mark).ok_or_else(|| missing(&mark))? + mark.len();
    let end = begin + text[begin..].find(END).ok_or_else(|| missing(END))?;
    Ok((&text[..begin], text[begin..end].trim_start_matches('\n'), &text[end..]))
}

fn without_marks(table: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.trim_end().strip_suffix('|').unwrap_or(line);
        line.rsplit_once('|').map_or(line, |(cells, _)| cells).trim_end().to_owned()
    };
    table.lines().filter(|line| !line.is_empty()).map(line).collect()
}

fn shown(figure: &Figure, value: Value) -> String {
    let (lower, upper) = value.quartiles;
    match figure.quartiles {
        true => format!("{}{} ({} to {})", number(value.median), figure.unit, number(lower), number(upper)),
        false => number(value.median),
    }
}

fn to_reach(bounds: &[Bound], unit: &str) -> String {
    let words: Vec<String> = bounds
        .iter()
        .map(|bound| match bound {
            Bound::AtLeast(limit) => format!("≥ {limit}{unit}"),
            Bound::AtMost(limit) => format!("≤ {limit}{unit}"),
            Bound::Stated => String::from("stated"),
        })
        .collect();
    words.join(", ")
}

/// Three significant digits, as in the benchmark; thousands with commas.
fn number(number: f64) -> String {
    match number.abs() {
        n if n >= 1_000.0 => {
            let digits = format!("{number:.0}");
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().filter_map(|g| str::from_utf8(g).ok()).collect();
            groups.join(",")
        }
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        0.0 => String::from("0"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promises::list::List;

    fn figure(more: &str) -> Figure {
        let section = "[[section]]\nname = \"hub nodes\"\nrun = \"r\"\ncode = []\n";
        let text = format!(
            "{section}[[figure]]\ntable = \"hub\"\npromise = \"a row\"\nsection = \"hub nodes\"\n{more}"
        );
        List::read(&text).unwrap().figures.remove(0)
    }

    fn run() -> Run {
        let folder = std::env::temp_dir().join(format!(
            "xtask-run-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("machine.json", "{\"commit\": \"0123456789abcdef\", \"uncommitted_changes\": false}"),
            ("samples.csv", "nodes,a,khz,0,kb,80000\n"),
            ("verdicts.csv", "nodes,<=,1,0.888,0.878,0.897,us\nnodes,<=,1,1.2,1,2,late\n"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let run = Run::read(&folder).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        run
    }

    fn rendered(more: &str) -> String {
        Line::of(&figure(more), Some(("day", &run()))).unwrap().render("")
    }

    #[test]
    fn a_line_has_bound_value_and_where_both_are_from() {
        assert_eq!(
            rendered("values = [\"verdict us\"]\nbounds = [\"<= 1\"]\nunit = \" µs\"\nquartiles = true"),
            "| a row | ≤ 1 µs | 0.888 µs (0.878 to 0.897) | yes | day, 012345678 |  |\n"
        );
        assert_eq!(
            rendered(
                "values = [\"verdict us\", \"verdict late\"]\nbounds = [\"<= 1\", \"<= 1.1\"]\nunit = \" µs\""
            ),
            "| a row | ≤ 1 µs, ≤ 1.1 µs | 0.888, 1.20 µs | **no** | day, 012345678 |  |\n"
        );
        assert_eq!(
            rendered(
                "values = [\"sample nodes|a|khz|kb\"]\nbounds = [\"stated\"]\nfactor = 0.001\nunit = \" MB\""
            ),
            "| a row | stated | 80.0 MB | stated | day, 012345678 |  |\n"
        );
        assert_eq!(
            rendered("reach = \"few\"\ntold = \"3 of 4\"\ncommit = \"abcdef\"\nkept = false"),
            "| a row | few | 3 of 4 | **no** | hub nodes, abcdef |  |\n"
        );
    }

    #[test]
    fn a_table_is_put_between_its_marks_and_nothing_else_moves() {
        let text = "# P\n\n<!-- promises: hub -->\nold\n<!-- /promises -->\nprose\n";
        let line = |mark: &str| {
            let more = "values = [\"verdict us\"]\nbounds = [\"<= 1\"]";
            heads() + &Line::of(&figure(more), Some(("day", &run()))).unwrap().render(mark)
        };
        let made = with_table(text, "hub", &line("**stale**")).unwrap();
        assert!(made.starts_with("# P\n\n<!-- promises: hub -->\n| promise"), "{made}");
        assert!(made.ends_with("| **stale** |\n<!-- /promises -->\nprose\n"), "{made}");
        assert_eq!(with_table(&made, "hub", &line("**stale**")).unwrap(), made);
        assert_eq!(places(&made), ["hub"]);
        // The mark depends on the history, which a checkout may not have.
        assert_eq!(agrees(&made, "hub", &line("")), Ok(()));
        let by_hand = made.replace("0.888", "0.777");
        assert!(agrees(&by_hand, "hub", &line("")).unwrap_err().contains("0.888"));
        assert!(with_table(text, "text", "").unwrap_err().contains("<!-- promises: text -->"));
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown: Vec<String> = [0.0, 0.0123, 1.0, 12.34, 123.4, 80_902.0, 1_234_567.0].map(number).into();
        assert_eq!(shown, ["0", "0.012", "1.00", "12.3", "123", "80,902", "1,234,567"]);
    }
}
