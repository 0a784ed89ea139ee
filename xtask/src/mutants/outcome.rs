//! The outcomes for the mutants of one crate, read from cargo-mutants' file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::mutant::Mutant;

/// The counts, and the survivors.
#[derive(Debug, Default)]
pub struct Outcome {
    /// A test failed, or waited for ever.
    pub noticed: usize,
    /// All tests passed.
    pub survivors: Vec<String>,
    /// The compiler refused them: nobody can make that mistake.
    pub unbuilt: usize,
    /// Left out, since no test can notice them.
    pub equal: usize,
}

#[derive(Deserialize)]
struct Written {
    outcomes: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    scenario: Scenario,
    summary: String,
}

/// The unchanged code comes first.
#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

impl Outcome {
    /// Reads `outcomes.json`.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::of(&text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    fn of(text: &str) -> Result<Self, String> {
        let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut outcome = Outcome::default();
        for one in written.outcomes {
            let Scenario::Mutant(mutant) = one.scenario else { continue };
            match one.summary.as_str() {
                "CaughtMutant" | "Timeout" => outcome.noticed += 1,
                "MissedMutant" => outcome.survivors.push(mutant.name),
                "Unviable" => outcome.unbuilt += 1,
                other => return Err(format!("'{other}' became of {}: that is not known here", mutant.name)),
            }
        }
        outcome.survivors.sort();
        Ok(outcome)
    }

    /// Mutants that could have been noticed.
    fn tried(&self) -> usize {
        self.noticed + self.survivors.len()
    }

    /// The share that was noticed; 1 if none was tried.
    pub fn share(&self) -> f64 {
        match self.tried() {
            0 => 1.0,
            tried => self.noticed as f64 / tried as f64,
        }
    }

    /// A line with the share, and one for each survivor.
    pub fn in_words(&self, name: &str) -> String {
        let mut text = format!(
            "{name}: {} of {} noticed ({:.0} %); {} not built, {} equal\n",
            self.noticed,
            self.tried(),
            (self.share() * 100.0).floor(),
            self.unbuilt,
            self.equal
        );
        for survivor in &self.survivors {
            let _ = writeln!(text, "  survived: {survivor}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(line: usize, summary: &str) -> String {
        let name = format!("a.rs:{line}:1: delete !");
        format!(
            r#"{{"scenario":{{"Mutant":{{"name":"{name}","file":"a.rs","span":{{"start":{{"line":{line},"column":1}}}}}}}},"summary":"{summary}"}}"#
        )
    }

    #[test]
    fn noticed_mutants_and_survivors_are_counted_and_unbuilt_ones_are_not() {
        let ones = ["Unviable", "CaughtMutant", "MissedMutant", "Timeout", "CaughtMutant", "MissedMutant"];
        let mutants: Vec<String> =
            ones.iter().enumerate().map(|(line, summary)| mutant(line, summary)).collect();
        let text = format!(
            r#"{{"outcomes":[{{"scenario":"Baseline","summary":"Success"}},{}],"missed":2}}"#,
            mutants.join(",")
        );
        let outcome = Outcome { equal: 4, ..Outcome::of(&text).unwrap() };
        assert_eq!(
            outcome.in_words("ring"),
            "ring: 3 of 5 noticed (60 %); 1 not built, 4 equal\n  survived: a.rs:2:1: delete !\n  survived: a.rs:5:1: delete !\n"
        );
        assert!(outcome.share() < 0.92 && Outcome::default().share() == 1.0);
        let strange = text.replace("Unviable", "Eaten");
        assert!(Outcome::of(&strange).unwrap_err().contains("'Eaten' became of a.rs:0:1"));
    }
}
