//! What can be run: suites of sections, each with the time that it takes. It refuses to know what a section measures.

use crate::error::BenchError;
use crate::record::Record;

/// A section of a suite.
pub struct Section {
    /// Its name on the command line.
    pub name: &'static str,
    /// Seconds that the full run takes, and the quick one, once everything is built: what it took on two busy processors, or what
    /// its turns add up to, rounded up. A run says at its end how long it took, and whether that is longer.
    pub seconds: (u64, u64),
    /// What it measures, in a line or two.
    pub about: &'static str,
    /// What it does.
    pub run: fn(&mut Record) -> Result<(), BenchError>,
}

/// Sections that share a name and a folder of runs.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// What all of its sections need, or have in common.
    pub about: &'static str,
    /// In the order in which they run.
    pub sections: &'static [Section],
}

impl Suite {
    /// The named sections in our order; all when none is named.
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

/// A time as a reader wants it: `40 s`, `9 min`.
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
