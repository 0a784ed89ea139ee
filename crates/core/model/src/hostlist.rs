//! Hostlists in the syntax of SLURM, pdsh and genders: `node[001-128,200],login1`. Commas separate hosts; a
//! host has any number of brackets, with globs between them. This file reads what [`crate::fold`] prints.
//! Matching does not expand, so `n[0-999999999]` costs nothing; expanding is bounded.

use std::collections::HashSet;
use std::fmt;

use crate::name::NODE_NAME_MAX;

/// A hostlist may expand to at most this many names: sixteen times the largest cluster we plan for.
pub const EXPAND_MAX: usize = 65_536;

/// A compiled hostlist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hostlist {
    text: Box<str>,
    hosts: Vec<Host>,
}

/// The text between two commas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Host {
    text: Box<str>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Text that matches itself.
    Text(Box<str>),
    /// `?`: any one character.
    One,
    /// `*`: any characters, or none.
    Any,
    /// The numbers of one bracket.
    Numbers(Vec<Range>),
}

/// `first..=last`; `width` is 0 when the numbers are not zero-padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

/// What is wrong with a hostlist, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostlistError {
    /// Byte offset, from 0.
    pub at: usize,
    /// One sentence.
    pub problem: &'static str,
}

impl Hostlist {
    /// Compiles `text`.
    pub fn new(text: &str) -> Result<Self, HostlistError> {
        let mut hosts = Vec::new();
        let mut from = 0;
        for to in commas(text).chain([text.len()]) {
            hosts.push(Host::new(text, from, to)?);
            from = to + 1;
        }
        Ok(Hostlist { text: text.into(), hosts })
    }

    /// The hostlist as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when `name` is one of the hosts.
    pub fn matches(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.matches(name))
    }

    /// All names, each once. `None` when a glob makes them uncountable, or when there are more than
    /// [`EXPAND_MAX`].
    pub fn expand(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for host in &self.hosts {
            names.extend(host.expand(EXPAND_MAX - names.len())?);
        }
        Some(each_once(names))
    }

    /// The names that the list spells out, each once. Leaves out hosts with globs, and names beyond
    /// [`EXPAND_MAX`].
    pub fn named(&self) -> Vec<String> {
        self.named_within(&mut { EXPAND_MAX })
    }

    /// The same, at most `room` names. Subtracts the number of names from `room`.
    pub fn named_within(&self, room: &mut usize) -> Vec<String> {
        let mut names = Vec::new();
        for host in &self.hosts {
            let more = host.expand(*room).unwrap_or_default();
            *room -= more.len();
            names.extend(more);
        }
        each_once(names)
    }

    /// How many hosts commas separate: the cost of comparing the list with a name.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// How many names the list has, a repeated name counted each time; `None` where a glob makes them
    /// uncountable.
    pub fn names(&self) -> Option<u64> {
        self.hosts.iter().try_fold(0u64, |names, host| Some(names.saturating_add(host.count()?)))
    }

    /// True where [`Hostlist::expand`] returns names; makes none.
    pub fn is_countable(&self) -> bool {
        self.names().is_some_and(|names| names <= EXPAND_MAX as u64)
    }

    /// The hosts for which [`Hostlist::named_within`] gives no names in this room, as they were written: hosts with globs, and hosts
    /// with more names than fit.
    pub fn beyond(&self, mut room: usize) -> Vec<Hostlist> {
        let is_whole = |host: &&Host| match host.count().and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count <= room => {
                room -= count;
                false
            }
            _ => true,
        };
        let alone = |host: &Host| Hostlist { text: host.text.clone(), hosts: vec![host.clone()] };
        self.hosts.iter().filter(is_whole).map(alone).collect()
    }
}

impl fmt::Display for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where the commas outside brackets are.
fn commas(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut is_inside = false;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        match byte {
            b'[' => is_inside = true,
            b']' => is_inside = false,
            _ => {}
        }
        (byte == b',' && !is_inside).then_some(at)
    })
}

fn each_once(mut names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|name| seen.insert(name.clone()));
    names
}

impl Host {
    /// Compiles the host at `from..to` of `text`.
    fn new(text: &str, from: usize, to: usize) -> Result<Self, HostlistError> {
        if from == to && !text.is_empty() {
            return Err(HostlistError { at: from, problem: "there is no host beside this comma" });
        }
        let mut parts = Vec::new();
        let mut rest = from;
        while let Some(open) = text[rest..to].find('[').map(|i| i + rest) {
            globs(text, rest, open, &mut parts)?;
            let close = text[open..to].find(']').map(|i| i + open);
            let close = close.ok_or(HostlistError { at: open, problem: "'[' is never closed" })?;
            parts.push(Part::Numbers(ranges(text, open + 1, close)?));
            rest = close + 1;
        }
        globs(text, rest, to, &mut parts)?;
        Ok(Host { text: text[from..to].into(), parts })
    }

    /// True when this host matches the name. Follows all ways to read it at once, one byte of the name at a
    /// time, so that many stars cost no more than few.
    fn matches(&self, name: &str) -> bool {
        if name.len() > NODE_NAME_MAX {
            return false;
        }
        let mut at = Places::first();
        for part in &self.parts {
            at = part.behind(name, &at);
            if at.is_empty() {
                return false;
            }
        }
        at.has(name.len())
    }

    /// How many names this host has, without making them; `None` when they are uncountable.
    fn count(&self) -> Option<u64> {
        self.parts.iter().try_fold(1u64, |names, part| match part {
            Part::Any | Part::One => None,
            Part::Text(_) => Some(names),
            Part::Numbers(ranges) => {
                let count = ranges.iter().fold(0u64, |count, range| count.saturating_add(range.count()));
                Some(names.saturating_mul(count))
            }
        })
    }

    /// All names; `None` when they are uncountable or more than `names_max`.
    fn expand(&self, names_max: usize) -> Option<Vec<String>> {
        if self.count()? > names_max as u64 {
            return None;
        }
        let mut names = vec![String::new()];
        for part in &self.parts {
            match part {
                Part::Any | Part::One => return None,
                Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
                Part::Numbers(ranges) => {
                    let longer = |name: &String| {
                        let numbers = ranges.iter().flat_map(|range| range.numbers());
                        numbers.map(|number| format!("{name}{number}")).collect::<Vec<_>>()
                    };
                    names = names.iter().flat_map(longer).collect();
                }
            }
        }
        Some(names)
    }
}

/// Positions in a name, from 0 to its end: one bit each.
#[derive(Clone, Copy, Default)]
struct Places([u64; NODE_NAME_MAX / 64 + 1]);

impl Places {
    fn first() -> Self {
        let mut places = Places::default();
        places.add(0);
        places
    }

    fn add(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

impl Part {
    /// The positions after this part, given the positions before it.
    fn behind(&self, name: &str, before: &Places) -> Places {
        let mut behind = Places::default();
        for at in (0..=name.len()).filter(|&at| before.has(at)) {
            match self {
                Part::Text(text) if name.as_bytes()[at..].starts_with(text.as_bytes()) => {
                    behind.add(at + text.len());
                }
                Part::Text(_) => {}
                Part::One => {
                    if let Some(c) = name.get(at..).and_then(|rest| rest.chars().next()) {
                        behind.add(at + c.len_utf8());
                    }
                }
                Part::Any => {
                    (at..=name.len()).for_each(|at| behind.add(at));
                    return behind;
                }
                Part::Numbers(ranges) => {
                    let digits = name.as_bytes()[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let fits = |n: &usize| ranges.iter().any(|range| range.contains(&name[at..at + n]));
                    (1..=digits).filter(fits).for_each(|n| behind.add(at + n));
                }
            }
        }
        behind
    }
}

/// Reads the text outside brackets, at `from..to`.
fn globs(text: &str, from: usize, to: usize, parts: &mut Vec<Part>) -> Result<(), HostlistError> {
    let mut plain = from;
    for (at, c) in text[from..to].char_indices().map(|(at, c)| (at + from, c)) {
        let part = match c {
            ']' => return Err(HostlistError { at, problem: "']' without '['" }),
            '*' => Part::Any,
            '?' => Part::One,
            _ => continue,
        };
        if plain < at {
            parts.push(Part::Text(text[plain..at].into()));
        }
        parts.push(part);
        plain = at + 1;
    }
    if plain < to {
        parts.push(Part::Text(text[plain..to].into()));
    }
    Ok(())
}

/// Reads `001-128,200` between the brackets at `from..to`.
fn ranges(text: &str, from: usize, to: usize) -> Result<Vec<Range>, HostlistError> {
    let mut ranges = Vec::new();
    let mut at = from;
    for item in text[from..to].split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let wrong = |problem| HostlistError { at, problem };
        let number = |digits: &str| {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(wrong("brackets hold numbers and ranges, as [1-8,12]"));
            }
            digits.parse::<u64>().map_err(|_| wrong("number too large"))
        };
        let range = Range {
            first: number(first)?,
            last: number(last)?,
            width: if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 },
        };
        if range.first > range.last {
            return Err(wrong("the range runs backwards"));
        }
        if range.width > NODE_NAME_MAX {
            return Err(wrong("no node's name is as long as this number"));
        }
        ranges.push(range);
        at += item.len() + 1;
    }
    Ok(ranges)
}

impl Range {
    fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    fn numbers(self) -> impl Iterator<Item = String> {
        (self.first..=self.last).map(move |n| format!("{n:0width$}", width = self.width))
    }

    fn contains(self, digits: &str) -> bool {
        let padded = digits.len() > 1 && digits.starts_with('0');
        let width_fits = if self.width > 0 {
            digits.len() == self.width.max(digits.trim_start_matches('0').len())
        } else {
            !padded
        };
        width_fits && digits.parse::<u64>().is_ok_and(|n| self.first <= n && n <= self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn padded_and_plain_numbers_are_different_names() {
        let list = Hostlist::new("node[001-128,200]").unwrap();
        for (name, expected) in [
            ("node001", true),
            ("node128", true),
            ("node1", false),
            ("node129", false),
            ("node200", true),
            ("node0200", false),
        ] {
            assert_eq!(list.matches(name), expected, "{name}");
        }
        assert_eq!(list.expand().unwrap().len(), 129);
        assert_eq!(list.expand().unwrap()[0], "node001");
    }

    #[test]
    fn several_brackets_and_globs() {
        let list = Hostlist::new("r[1-2]n[08-11]*").unwrap();
        for (name, expected) in [("r1n08", true), ("r2n11-ib", true), ("r3n08", false), ("r1n8", false)] {
            assert_eq!(list.matches(name), expected, "{name}");
        }
        assert_eq!(list.expand(), None);
        assert_eq!(
            Hostlist::new("r[1-2]n[9-10]").unwrap().expand().unwrap(),
            ["r1n9", "r1n10", "r2n9", "r2n10"]
        );
    }

    #[test]
    fn commas_separate_hosts_and_those_in_brackets_separate_numbers() {
        let list = Hostlist::new("node[001-003,7],node005,login*").unwrap();
        for (name, expected) in [
            ("node002", true),
            ("node7", true),
            ("node005", true),
            ("node004", false),
            ("login", true),
            ("login2.ib", true),
            ("node001,node005", false),
        ] {
            assert_eq!(list.matches(name), expected, "{name}");
        }
        assert_eq!(list.expand(), None, "a glob cannot be counted");
        assert_eq!(list.named(), ["node001", "node002", "node003", "node7", "node005"]);
        let texts = |lists: Vec<Hostlist>| lists.iter().map(Hostlist::to_string).collect::<Vec<_>>();
        assert_eq!(texts(list.beyond(EXPAND_MAX)), ["login*"]);
        let list = Hostlist::new("a[1-3],b[1-2],c,d").unwrap();
        assert_eq!(texts(list.beyond(4)), ["b[1-2]", "d"]);
        assert_eq!(list.named_within(&mut 4), ["a1", "a2", "a3", "c"]);
        assert_eq!(Hostlist::new("n1,n[1-2],n1").unwrap().expand().unwrap(), ["n1", "n2"]);
    }

    #[test]
    fn errors_point_at_the_byte() {
        for (text, at) in [
            ("n[1-", 1),
            ("n[1,x]", 4),
            ("n[8-1]", 2),
            ("n]", 1),
            ("n[]", 2),
            ("a[1]b]", 5),
            ("a,", 2),
            (",a", 0),
            ("a,,b", 2),
            ("a,n[1,x]", 6),
        ] {
            assert_eq!(Hostlist::new(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn many_stars_and_brackets_cost_no_more_than_few() {
        let list = Hostlist::new(&"*[0-9]".repeat(600)).unwrap();
        assert!(!list.matches(&"1".repeat(NODE_NAME_MAX)));
        let list = Hostlist::new(&"*[0-9]".repeat(100)).unwrap();
        assert!(list.matches(&"1".repeat(NODE_NAME_MAX)) && !list.matches(&"x1".repeat(90)));
    }

    #[test]
    fn question_marks_are_characters() {
        let list = Hostlist::new("n?[1-3]").unwrap();
        for (name, expected) in [("nx2", true), ("n2", false), ("n12", true), ("nä2", true), ("nxx2", false)]
        {
            assert_eq!(list.matches(name), expected, "{name}");
        }
    }

    #[test]
    fn zero_is_a_number_and_not_padding() {
        for (list, names, others) in [
            ("n[0-3]", &["n0", "n3"][..], &["n", "n00", "n4", "n03"][..]),
            ("n[00-10]", &["n00", "n09", "n10"], &["n0", "n9", "n000", "n010"]),
            ("n[000-1000]", &["n000", "n999", "n1000"], &["n0", "n0999", "n01000"]),
        ] {
            let list = Hostlist::new(list).unwrap();
            assert!(names.iter().all(|name| list.matches(name)), "{list}");
            assert!(!others.iter().any(|name| list.matches(name)), "{list}");
        }
    }

    #[test]
    fn a_glob_before_a_bracket_leaves_it_its_digits() {
        let list = Hostlist::new("*[8-12]").unwrap();
        for (name, expected) in
            [("8", true), ("n12", true), ("n1-10", true), ("n112", true), ("n13", false), ("n", false)]
        {
            assert_eq!(list.matches(name), expected, "{name}");
        }
        let list = Hostlist::new("?*n[0-1]?").unwrap();
        for (name, expected) in
            [("xn0a", true), ("xyn1n", true), ("n0a", false), ("xn0", false), ("xn2a", false)]
        {
            assert_eq!(list.matches(name), expected, "{name}");
        }
    }

    proptest! {
        /// Matching never expands, yet both must mean the same names.
        #[test]
        fn it_matches_the_names_that_it_expands_to_and_no_others(
            parts in prop::collection::vec(("[a0]{0,2}", 0u64..13, 0u64..5, 0usize..4), 1..3),
            foreign in prop::collection::vec("[a0-9]{1,6}", 10),
        ) {
            let mut text = String::new();
            for (plain, first, more, width) in &parts {
                text += &format!("{plain}[{first:0width$}-{}]", first + more);
            }
            let list = Hostlist::new(&text).unwrap();
            let names = list.expand().unwrap();
            prop_assert_eq!((list.is_countable(), list.named()), (true, names.clone()));
            for name in names.iter().chain(&foreign) {
                prop_assert_eq!(list.matches(name), names.contains(name), "{} in {}", name, list);
                // One digit more, one digit less.
                for other in [format!("{name}0"), format!("0{name}"), name[1..].to_owned()] {
                    prop_assert_eq!(list.matches(&other), names.contains(&other), "{} in {}", other, list);
                }
            }
        }
    }

    #[test]
    fn expanding_is_bounded() {
        assert_eq!(Hostlist::new("n[0-99999999]").unwrap().expand(), None);
        assert_eq!(Hostlist::new("n[0-18446744073709551615]").unwrap().expand(), None);
        assert!(Hostlist::new("n[0-99999999]").unwrap().matches("n31415926"));
    }
}
