//! Courses beside each other: a table, and plots of their rounds over the simulated time. Together they are the
//! paper's figures of a day (how long a round takes) and of its growing run (processors, waiting, disk).

use super::course::Round;
use crate::error::BenchError;
use crate::plot::{Line, Plot, Scale};
use crate::record::Record;
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Labels below a plot, about.
const LABELS: usize = 8;

/// A course that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its name.
    pub name: String,
    /// Its rounds.
    pub rounds: Vec<Round>,
    /// What else was measured, by name.
    pub figures: Vec<(String, f64)>,
}

impl Ended {
    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// What a plot shows of a round.
type Show = (&'static str, &'static str, fn(&Round) -> f64);

const SHOWN: [Show; 6] = [
    ("seconds", "seconds until a round is complete", |one| one.seconds),
    ("cpu", "CPU of the updater, % of a core", |one| 100.0 * one.cpu_s / one.lasted_s),
    ("waiting", "processors that only wait for the disk, % of a core", |one| {
        100.0 * one.waited_s / one.lasted_s
    }),
    ("reads", "reads of the disk a second", |one| one.reads / one.lasted_s),
    ("writes", "writes to the disk a second", |one| one.writes / one.lasted_s),
    ("megabytes", "MB read from the disk in a round", |one| one.read_mb),
];

/// Keeps all figures of a course.
pub fn keep(record: &mut Record, section: &str, course: &Ended) {
    for (number, round) in course.rounds.iter().enumerate() {
        for (what, value) in round.figures().into_iter().filter(|(_, value)| value.is_finite()) {
            record.sample([section, &round.files.to_string(), &course.name], number, what, value);
        }
    }
    for (what, value) in &course.figures {
        record.sample([section, "whole", &course.name], 0, what, *value);
    }
}

/// The table of all courses.
pub fn table(record: &mut Record, title: &str, courses: &[Ended]) {
    let heads = ["way", "rounds", "median s", "longest s", "CPU s", "read MB", "written MB"];
    let mut table = Table::new(&heads);
    for course in courses {
        let of = |figure: fn(&Round) -> f64| Spread::of(course.rounds.iter().map(figure));
        let Some(seconds) = of(|one| one.seconds) else { continue };
        let median = |spread: Option<Spread>| spread.map_or(String::new(), |one| figure(one.median));
        table.row([
            course.name.clone(),
            course.rounds.len().to_string(),
            figure(seconds.median),
            figure(seconds.max),
            median(of(|one| one.cpu_s)),
            median(of(|one| one.read_mb)),
            median(of(|one| one.written_mb)),
        ]);
    }
    record.show(title, &table);
}

/// Plots over the rounds, `PREFIX-seconds.svg` and others. `label` says what a round is called below.
pub fn plots(
    record: &Record,
    prefix: &str,
    title: &str,
    below: &str,
    courses: &[Ended],
    label: fn(&Round) -> String,
) -> Result<(), BenchError> {
    let Some(longest) = courses.iter().max_by_key(|course| course.rounds.len()) else { return Ok(()) };
    let every = longest.rounds.len().div_ceil(LABELS).max(1);
    for (name, axis, of) in SHOWN {
        let labels = longest.rounds.iter().enumerate();
        let labels =
            labels.map(|(at, one)| if at % every == 0 { label(one) } else { String::new() }).collect();
        let line = |course: &Ended| Line {
            name: course.name.clone(),
            values: course.rounds.iter().map(of).collect(),
        };
        let lines: Vec<Line> = courses.iter().map(line).collect();
        let plot = Plot { title, axis, below, scale: Scale::Even, labels, lines: &lines };
        record.store(&format!("{prefix}-{name}.svg"), &plot.svg())?;
    }
    Ok(())
}
