//! `cargo xtask mutants`: makes small changes in the code of the decisive crates, one at a time, and checks
//! that a test fails. If all tests pass, no test describes the changed behaviour. cargo-mutants makes the
//! changes and runs the tests. This file chooses the changes, leaves out those that are equal to the code,
//! and judges the share.

mod cargo_mutants;
mod equal;
mod mutant;
mod outcome;
mod tree;

use std::path::PathBuf;

use equal::Equals;
use mutant::Mutant;
use outcome::Outcome;

use crate::step;

/// The smallest share of mutants that the tests of a decisive crate must notice.
const SHARE_LEAST: f64 = 0.92;
/// Mutants of each crate in `cargo xtask test --slow`: with a minute for each, about an hour for all crates.
const SAMPLE_SLOW: usize = 7;

/// A crate whose tests are judged.
struct Decisive {
    /// The folder below `crates` that it is in.
    group: &'static str,
    /// The name of its own folder.
    name: &'static str,
    /// Globs of the files to change; all files of the crate if there are none.
    files: &'static [&'static str],
    /// The tests that judge a change, as arguments for cargo; all tests if there are none.
    tests: &'static [&'static str],
}

const fn whole(group: &'static str, name: &'static str) -> Decisive {
    Decisive { group, name, files: &[], tests: &[] }
}

/// The crates on the way of a row, the one that decides who may do what, and the daemon that must keep what
/// it has acknowledged.
static DECISIVE: [Decisive; 8] = [
    whole("cluster", "hub"),
    whole("cluster", "link"),
    whole("core", "model"),
    whole("core", "block"),
    whole("node", "ring"),
    whole("core", "parse"),
    whole("cluster", "trust"),
    Decisive {
        group: "files",
        name: "rrdcached",
        files: &[],
        tests: &[
            "--lib", "--test", "daemon", "--test", "faults", "--test", "images", "--test", "log_gone",
            "--test", "names", "--test", "options", "--test", "power", "--test", "recorder",
        ],
    },
];

/// `cargo xtask mutants [CRATE] [--sample N] [--seed S]`.
pub fn run(words: &[&str]) -> Result<(), String> {
    measure(&Wanted::read(words)?)
}

/// The sample that `cargo xtask test --slow` takes.
pub fn slow() -> Result<(), String> {
    measure(&Wanted { name: None, sample: Some(SAMPLE_SLOW), seed: 1 })
}

/// The arguments.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    /// One crate; `None`: all decisive crates.
    name: Option<&'a str>,
    /// The number of mutants of each crate; `None`: all.
    sample: Option<usize>,
    /// Decides which mutants a sample takes.
    seed: u64,
}

impl<'a> Wanted<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut wanted = Wanted { name: None, sample: None, seed: 1 };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut number = || {
                let value = words.next().ok_or_else(|| format!("{word} wants a number"))?;
                value.parse::<u64>().map_err(|_| format!("{word} wants a number, not '{value}'"))
            };
            match word {
                "--sample" => match number()? {
                    0 => return Err("--sample wants a number above 0".into()),
                    size => wanted.sample = Some(usize::try_from(size).unwrap_or(usize::MAX)),
                },
                "--seed" => wanted.seed = number()?,
                name if wanted.name.is_none() && !name.starts_with('-') => wanted.name = Some(name),
                other => {
                    return Err(format!("'{other}' is not of `mutants [CRATE] [--sample N] [--seed S]`"));
                }
            }
        }
        Ok(wanted)
    }

    fn crates(&self) -> Result<Vec<&'static Decisive>, String> {
        let crates: Vec<_> =
            DECISIVE.iter().filter(|one| self.name.is_none_or(|name| name == one.name)).collect();
        match crates.is_empty() {
            false => Ok(crates),
            true => Err(format!(
                "'{}' is not one of the decisive crates: {}",
                self.name.unwrap_or_default(),
                DECISIVE.each_ref().map(|one| one.name).join(", ")
            )),
        }
    }
}

fn measure(wanted: &Wanted<'_>) -> Result<(), String> {
    let crates = wanted.crates()?;
    cargo_mutants::install()?;
    let equals = Equals::of_project(step::root())?;
    tree::copy(step::root(), &tree())?;
    let (mut report, mut below) = (String::new(), Vec::new());
    for one in crates {
        let outcome = judge(one, wanted, &equals)?;
        let told = outcome.in_words(one.name);
        eprint!("\n{told}");
        report.push_str(&told);
        below.extend((outcome.share() < SHARE_LEAST).then_some(one.name));
    }
    print!("\n{report}");
    match below.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "fewer than {:.0} % of the mutants were noticed in: {}. Test the behaviour that a survivor changes, remove the \
             code if nothing needs it, or say in {} why the survivor is equal",
            SHARE_LEAST * 100.0,
            below.join(", "),
            equal::FILE
        )),
    }
}

/// Changes one crate and tests it.
fn judge(one: &Decisive, wanted: &Wanted<'_>, equals: &Equals) -> Result<Outcome, String> {
    let all = cargo_mutants::list(one, &tree())?;
    let (equal, rest): (Vec<Mutant>, Vec<Mutant>) =
        all.iter().cloned().partition(|mutant| equals.has(mutant));
    equals.all_used(&format!("crates/{}/{}/", one.group, one.name), &equal)?;
    let chosen = match wanted.sample {
        Some(size) => mutant::sample(rest, size, wanted.seed),
        None => rest,
    };
    eprintln!("\n== mutants of {}: {} of {}, {} equal", one.name, chosen.len(), all.len(), equal.len());
    let left_out: Vec<Mutant> = all.into_iter().filter(|mutant| !chosen.contains(mutant)).collect();
    let outcomes = cargo_mutants::test(one, &tree(), &left_out, &place().join(one.name))?;
    Ok(Outcome { equal: equal.len(), ..Outcome::read(&outcomes)? })
}

/// The folder of all this. It stays, so that the next run builds only what has changed.
fn place() -> PathBuf {
    step::target().join("mutants")
}

/// The copy of the project in which the code is changed.
fn tree() -> PathBuf {
    place().join("tree")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_a_crate_a_sample_and_a_seed_or_is_refused_with_a_reason() {
        let read = |text: &'static str| Wanted::read(&text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(read(""), Ok(Wanted { name: None, sample: None, seed: 1 }));
        assert_eq!(
            read("hub --sample 20 --seed 7"),
            Ok(Wanted { name: Some("hub"), sample: Some(20), seed: 7 })
        );
        for (call, reason) in [
            ("--sample", "wants a number"),
            ("--sample 0", "above 0"),
            ("--seed x", "not 'x'"),
            ("hub link", "'link'"),
        ] {
            assert!(read(call).unwrap_err().contains(reason), "{call}");
        }
        let unknown = Wanted { name: Some("mount"), sample: None, seed: 1 }.crates();
        assert!(unknown.is_err_and(|text| text.contains("'mount'") && text.contains("hub, link, model")));
    }

    #[test]
    fn each_decisive_crate_exists_and_has_its_tests() {
        for one in &DECISIVE {
            let folder = step::root().join("crates").join(one.group).join(one.name);
            assert!(folder.join("src/lib.rs").exists(), "{}", one.name);
            for test in one.tests.iter().filter(|test| !test.starts_with("--") && !test.contains('*')) {
                assert!(folder.join("tests").join(format!("{test}.rs")).exists(), "{}: {test}", one.name);
            }
        }
    }
}
