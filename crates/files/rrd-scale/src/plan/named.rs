//! Layouts that programs give to their files, by the programs' names.

use khz_rrd::create::Plan;
use khz_rrd::error::{Result, refused};
use khz_rrd::header::Definition;

#[cfg(test)]
use super::shape::Shape;

/// A program's layout: step, data sources of a file, functions, and for each archive points and rows.
type Named = (&'static str, u64, usize, &'static [&'static str], &'static [(u64, u64)]);

/// MRTG's archives: days, weeks, months, years.
pub(super) const MRTG: [(u64, u64); 4] = [(1, 600), (6, 700), (24, 775), (288, 797)];

/// The layouts. Each function has each of the archives.
const LAYOUTS: [Named; 4] = [
    ("mrtg", 300, 2, &["AVERAGE", "MAX"], &MRTG),
    // Munin with `graph_data_size normal`: a file for each field.
    ("munin", 300, 1, &["AVERAGE", "MIN", "MAX"], &[(1, 576), (6, 432), (24, 540), (288, 450)]),
    // Cacti's profile "5 Minute Collection", for traffic: archives as MRTG has them.
    ("cacti", 300, 2, &["AVERAGE", "MIN", "MAX", "LAST"], &MRTG),
    // collectd's plugin rrdtool: 1,200 rows for an hour, a day, a week, 31 days, 366 days of 10 s.
    (
        "collectd",
        10,
        1,
        &["AVERAGE", "MIN", "MAX"],
        &[(1, 1200), (7, 1235), (50, 1210), (223, 1202), (2635, 1201)],
    ),
];

/// The names, for messages.
pub fn names() -> String {
    LAYOUTS.map(|(name, ..)| name).join(", ")
}

/// The layout called `name`.
///
/// # Errors
/// There is none.
pub fn definition(name: &str) -> Result<Definition> {
    let Some((_, step, sources, functions, archives)) = LAYOUTS.iter().find(|(known, ..)| *known == name)
    else {
        return refused(format!(
            "--layout {name}: no such layout; known are {}. Any other is given in rrdtool's words: DS:... RRA:...",
            names()
        ));
    };
    let mut plan = Plan::default();
    for source in 0..*sources {
        plan.source(&format!("ds{source}:GAUGE:{}:U:U", 2 * step))?;
    }
    for function in *functions {
        for (points, rows) in *archives {
            plan.archive(&format!("{function}:0.5:{points}:{rows}"), *step, 0)?;
        }
    }
    plan.definition(*step)
}

/// The shape of the layout called `name`.
#[cfg(test)]
pub(super) fn shape(name: &str) -> Result<Shape> {
    Shape::of(&definition(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_is_one_that_rrdtool_would_create() {
        let sizes = LAYOUTS.map(|(name, ..)| {
            let shape = shape(name).unwrap();
            (name, shape.sources, shape.archives.len(), shape.step)
        });
        let wanted =
            [("mrtg", 2, 8, 300), ("munin", 1, 12, 300), ("cacti", 2, 16, 300), ("collectd", 1, 15, 10)];
        assert_eq!(sizes, wanted);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = definition("mrtgg").unwrap_err().to_string();
        assert!(
            error.contains("mrtg, munin, cacti, collectd") && error.contains("DS:... RRA:..."),
            "{error}"
        );
    }
}
