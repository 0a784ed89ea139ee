//! Suites of sections, each section with its duration. Knows nothing of what a section measures.

use crate::error::BenchError;
use crate::record::Record;

/// A section that takes longer (seconds) runs only if it is named: nobody expects hours from a suite.
const UNNAMED_MAX: u64 = 3_600;

/// A section of a suite.
pub struct Section {
    /// Its name on the command line.
    pub name: &'static str,
    /// Seconds of a full run and of a quick one, after everything is built: measured on two busy processors,
    /// or summed over its turns, rounded up. At its end a run prints how long it took, and whether that is
    /// longer.
    pub seconds: (u64, u64),
    /// Its subject, in a line or two.
    pub about: &'static str,
    /// The function that runs it.
    pub run: fn(&mut Record) -> Result<(), BenchError>,
}

impl Section {
    fn is_long(&self) -> bool {
        self.seconds.0 > UNNAMED_MAX
    }
}

/// Sections that share a name and a folder of runs.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// The needs or the subject of all its sections.
    pub about: &'static str,
    /// Its sections, in the order in which they run.
    pub sections: &'static [Section],
}

impl Suite {
    /// The named sections in our order. If none is named, all but those that take very long.
    pub fn chosen(&self, names: &[&str]) -> Result<Vec<&'static Section>, BenchError> {
        if let Some(name) = names.iter().find(|name| self.sections.iter().all(|known| known.name != **name)) {
            let known: Vec<&str> = self.sections.iter().map(|section| section.name).collect();
            return Err(BenchError::Usage(format!(
                "{} has no section called '{name}'; it has {}",
                self.name,
                known.join(", ")
            )));
        }
        let is_wanted = |one: &&Section| match names.is_empty() {
            true => !one.is_long(),
            false => names.contains(&one.name),
        };
        Ok(self.sections.iter().filter(is_wanted).collect())
    }

    /// Its lines in the help.
    pub fn help(&self) -> String {
        let unnamed = || self.sections.iter().filter(|one| !one.is_long());
        let sum = |of: fn(&Section) -> u64| in_words(unnamed().map(of).sum());
        let all = format!("{}, {} --quick", sum(|one| one.seconds.0), sum(|one| one.seconds.1));
        let mut text = format!("{}: {} ({all})\n", self.name, self.about);
        for section in self.sections {
            let indent = format!("\n{:33}", "");
            let alone = if section.is_long() { "; runs only if it is named" } else { "" };
            text.push_str(&format!(
                "  {:10} {:>7}, {:>6}   {}{alone}\n",
                section.name,
                in_words(section.seconds.0),
                in_words(section.seconds.1),
                section.about.replace('\n', &indent)
            ));
        }
        text
    }
}

/// A duration for people: `40 s`, `9 min`.
pub fn in_words(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &mut Record) -> Result<(), BenchError> {
        Ok(())
    }

    static SUITE: Suite = Suite {
        name: "zoo",
        about: "animals",
        sections: &[
            Section { name: "ape", seconds: (540, 9), about: "one\ntwo", run: nothing },
            Section { name: "bee", seconds: (61, 5), about: "hum", run: nothing },
            Section { name: "elk", seconds: (7_200, 5), about: "three", run: nothing },
        ],
    };

    #[test]
    fn sections_run_in_our_order_and_unknown_ones_are_refused() {
        let names =
            |words: &[&str]| SUITE.chosen(words).map(|s| s.iter().map(|s| s.name).collect::<Vec<_>>());
        assert_eq!(names(&["bee", "ape"]).unwrap(), ["ape", "bee"]);
        assert_eq!(names(&[]).unwrap(), ["ape", "bee"], "a long one runs only if it is named");
        assert_eq!(names(&["elk"]).unwrap(), ["elk"]);
        let refused = names(&["cat"]).unwrap_err().to_string();
        assert_eq!(refused, "zoo has no section called 'cat'; it has ape, bee, elk");
    }

    #[test]
    fn the_help_states_the_time_of_each_section_and_of_all_that_run_unnamed() {
        let expected = "\
zoo: animals (11 min, 14 s --quick)
  ape          9 min,    9 s   one
                                 two
  bee           61 s,    5 s   hum
  elk        120 min,    5 s   three; runs only if it is named
";
        assert_eq!(SUITE.help(), expected);
    }
}
