//! A mutant: one small change of the code, as cargo-mutants lists it; and samples of mutants that are the
//! same every time.

use serde::Deserialize;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Mutant {
    /// `crates/node/ring/src/writer.rs:172:26: replace > with >= in Writer::append`.
    pub name: String,
    /// The changed file's path from the project's root.
    pub file: String,
    /// The place of the change in the file.
    pub span: Span,
}

/// The changed text; only its beginning matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Span {
    /// The first changed character.
    pub start: Place,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Place {
    /// From 1.
    pub line: usize,
}

impl Mutant {
    /// The change without its place: `replace > with >= in Writer::append`.
    pub fn change(&self) -> &str {
        let place = self.name.strip_prefix(&self.file).unwrap_or(&self.name);
        place.split_once(": ").map_or(place, |(_, change)| change)
    }
}

/// `size` of the mutants. The same seed takes the same ones, if they still exist.
pub fn sample(mut mutants: Vec<Mutant>, size: usize, seed: u64) -> Vec<Mutant> {
    mutants.sort_by_cached_key(|mutant| drawn(seed, &mutant.name));
    mutants.truncate(size);
    mutants
}

/// FNV-1a over seed and name, with mixed bits: the standard library's hash may change with a release.
fn drawn(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

#[cfg(test)]
pub(super) fn named(file: &str, line: usize, change: &str) -> Mutant {
    let name = format!("{file}:{line}:5: {change}");
    Mutant { name, file: file.to_owned(), span: Span { start: Place { line } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_named_without_its_place() {
        let mutant = named("crates/a/src/b.rs", 7, "replace f -> Vec<u8> with vec![]");
        assert_eq!(mutant.change(), "replace f -> Vec<u8> with vec![]");
    }

    #[test]
    fn a_seed_draws_the_same_sample_whatever_the_order_and_another_seed_another_one() {
        let all: Vec<_> = (1..200).map(|line| named("a.rs", line, "delete !")).collect();
        let backwards: Vec<_> = all.iter().rev().cloned().collect();
        let first = sample(all.clone(), 20, 1);
        assert_eq!(first.len(), 20);
        assert_eq!(first, sample(backwards, 20, 1));
        let second = sample(all.clone(), 20, 2);
        assert!(first.iter().filter(|mutant| second.contains(mutant)).count() < 15);
        assert_eq!(sample(all, 1_000, 1).len(), 199);
    }
}
