//! Suites of sections, each section with its duration. Knows nothing of what a section measures.

use crate::error::BenchError;
use crate::record::Record;

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
    /// The named sections in our order; all if none is named.
    pub fn chosen(&self, names: &[&str]) -> Result<Vec<&'static Section>, BenchError> {
        if let Some(name) = names.iter().find(|name| self.sections.iter().all(|known| known.name != **name)) {
            let known: Vec<&str> = self.sections.iter().map(|section| section.name).collect();
            return Err(BenchError::Usage(format!(
                "{} has no section called '{name}'; it has {}",
                self.name,
                known.join(", ")
            )));
        }
        Ok(self.sections.iter().filter(|one| names.is_empty() || names.contains(&one.name)).collect())
    }

    /// Its lines in the help.
    pub fn help(&self) -> String {
        let sum = |of: fn(&Section) -> u64| in_words(self.sections.iter().map(of).sum());
        let all = format!("{}, {} --quick", sum(|one| one.seconds.0), sum(|one| one.seconds.1));
        let mut text = format!("{}: {} ({all})\n", self.name, self.about);
        for section in self.sections {
            let indent = format!("\n{:33}", "");
            text.push_str(&format!(
                "  {:10} {:>7}, {:>6}   {}\n",
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
        ],
    };

    #[test]
    fn sections_run_in_our_order_and_unknown_ones_are_refused() {
        let names =
            |words: &[&str]| SUITE.chosen(words).map(|s| s.iter().map(|s| s.name).collect::<Vec<_>>());
        assert_eq!(names(&["bee", "ape"]).unwrap(), ["ape", "bee"]);
        assert_eq!(names(&[]).unwrap().len(), 2);
        let refused = names(&["cat"]).unwrap_err().to_string();
        assert_eq!(refused, "zoo has no section called 'cat'; it has ape, bee");
    }

    #[test]
    fn the_help_states_the_time_of_each_section_and_of_all() {
        let expected = "\
zoo: animals (11 min, 14 s --quick)
  ape          9 min,    9 s   one
                                 two
  bee           61 s,    5 s   hum
";
        assert_eq!(SUITE.help(), expected);
    }
}
