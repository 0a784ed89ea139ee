//! Node names folded into a short hostlist, `node[3,7-9]`, and their natural order, in which node9 comes
//! before node10. [`crate::hostlist`] expands what this file folds.

use std::cmp::Ordering;
use std::collections::HashMap;

/// The names as a hostlist. [`crate::hostlist::Hostlist`] reads it back to the same names.
pub fn fold<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut names: Vec<S> = names.into_iter().collect();
    names.sort_by(|a, b| by_name(a.as_ref(), b.as_ref()));
    names.dedup_by(|a, b| a.as_ref() == b.as_ref());
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for name in &names {
        let parts = Parts::of(name.as_ref());
        // A name without a number is a host by itself: brackets cannot hold an empty word.
        let place = places.get(&(parts.before, parts.behind)).filter(|_| !parts.digits.is_empty());
        match place {
            Some(&place) => groups[place].add(parts.digits),
            None => {
                if !parts.digits.is_empty() {
                    places.insert((parts.before, parts.behind), groups.len());
                }
                groups.push(Group::of(parts));
            }
        }
    }
    groups.iter().map(Group::text).collect::<Vec<_>>().join(",")
}

/// Digits compare as numbers, everything else as text.
pub fn by_name(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    loop {
        let (a_text, b_text) = (take(&mut a_rest, false), take(&mut b_rest, false));
        let (a_digits, b_digits) = (take(&mut a_rest, true), take(&mut b_rest, true));
        let (a_number, b_number) = (a_digits.trim_start_matches('0'), b_digits.trim_start_matches('0'));
        let order = a_text
            .cmp(b_text)
            .then(a_number.len().cmp(&b_number.len()))
            .then(a_number.cmp(b_number))
            .then(a_digits.len().cmp(&b_digits.len()));
        if order != Ordering::Equal || (a_rest.is_empty() && b_rest.is_empty()) {
            return order;
        }
    }
}

/// Takes the leading digits, or the leading characters that are no digits, off the front.
fn take<'a>(rest: &mut &'a str, digits: bool) -> &'a str {
    let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
    let (front, behind) = rest.split_at(end);
    *rest = behind;
    front
}

/// A name around its last number.
#[derive(Clone, Copy)]
struct Parts<'a> {
    before: &'a str,
    digits: &'a str,
    behind: &'a str,
}

impl<'a> Parts<'a> {
    fn of(name: &'a str) -> Self {
        let end = name.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let before = name[..end].trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[before.len()..end];
        // A number that brackets cannot hold is text.
        if digits.parse::<u64>().is_err() {
            return Parts { before: name, digits: "", behind: "" };
        }
        Parts { before, digits, behind: &name[end..] }
    }
}

/// Names that differ only in their last number.
struct Group<'a> {
    before: &'a str,
    behind: &'a str,
    ranges: Vec<(&'a str, &'a str)>,
}

impl<'a> Group<'a> {
    fn of(parts: Parts<'a>) -> Self {
        Group { before: parts.before, behind: parts.behind, ranges: vec![(parts.digits, parts.digits)] }
    }

    /// Adds a number that is larger than all before.
    fn add(&mut self, digits: &'a str) {
        match self.ranges.last_mut() {
            Some((_, last)) if follows(last, digits) => *last = digits,
            _ => self.ranges.push((digits, digits)),
        }
    }

    fn text(&self) -> String {
        let range = |(first, last): &(&str, &str)| match first == last {
            true => (*first).to_owned(),
            false => format!("{first}-{last}"),
        };
        match self.ranges.as_slice() {
            [(first, last)] if first == last => format!("{}{first}{}", self.before, self.behind),
            ranges => {
                let ranges: Vec<String> = ranges.iter().map(range).collect();
                format!("{}[{}]{}", self.before, ranges.join(","), self.behind)
            }
        }
    }
}

/// True when `next` is the number after `last`, written in the same way.
fn follows(last: &str, next: &str) -> bool {
    let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    let same_width = last.len() == next.len() || !(is_padded(last) || is_padded(next));
    let number = |digits: &str| digits.parse::<u64>().ok();
    same_width && number(last).and_then(|n| n.checked_add(1)).is_some_and(|n| number(next) == Some(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostlist::Hostlist;
    use crate::pattern::Pattern;
    use proptest::prelude::*;

    #[test]
    fn names_fold_as_people_of_clusters_write_them() {
        for (names, folded) in [
            (vec!["node9", "node3", "node8", "node7", "node7"], "node[3,7-9]"),
            (vec!["n09", "n10", "login", "n11"], "login,n[09-11]"),
            (vec!["n9", "n10", "n010"], "n[9-10,010]"),
            (vec!["rack1-n2.ib", "rack1-n1.ib", "rack2-n1.ib"], "rack1-n[1-2].ib,rack2-n1.ib"),
            (
                vec!["n99999999999999999999998", "n99999999999999999999999"],
                "n99999999999999999999998,n99999999999999999999999",
            ),
            (vec![], ""),
        ] {
            assert_eq!(fold(&names), folded);
        }
    }

    #[test]
    fn what_is_folded_expands_to_the_same_names() {
        let names = ["n1", "n2", "n3", "n10", "n098", "n099", "n100", "n101"];
        let folded = fold(names);
        assert_eq!(folded, "n[1-3,10,098-101]");
        let pattern = Pattern::new(&format!("{folded}:*")).unwrap();
        let mut expanded = pattern.nodes().unwrap().expand().unwrap();
        expanded.sort();
        let mut names = names.to_vec();
        names.sort();
        assert_eq!(expanded, names);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            names in prop::collection::vec("(n|gpu|r1-n|a2b)[0-9]{0,3}(-ib|[.]x[0-9]{1,2})?|[0-9]{1,25}", 1..40)
        ) {
            let folded = fold(&names);
            let mut read = Hostlist::new(&folded).unwrap().expand().unwrap();
            let mut names = names;
            names.sort();
            names.dedup();
            read.sort();
            prop_assert_eq!(&read, &names, "{}", &folded);
            prop_assert_eq!(fold(&read), folded.clone());
            let pattern = Pattern::new(&format!("{folded}:load.1m")).unwrap();
            for name in &names {
                prop_assert!(pattern.matches_node(name), "{} in {}", name, &folded);
            }
            prop_assert_eq!(pattern.to_string(), format!("{folded}:load.1m"));
        }
    }

    #[test]
    fn nine_comes_before_ten() {
        let mut names = vec!["n10", "n9", "a2b10", "a2b9", "n", "n09"];
        names.sort_by(|a, b| by_name(a, b));
        assert_eq!(names, ["a2b9", "a2b10", "n", "n9", "n09", "n10"]);
    }
}
