//! Hostlists, as SLURM, pdsh and genders write them: `node[001-128,200]`, several brackets allowed, globs
//! between them. It matches without expanding, so `n[0-999999999]` costs nothing; expanding is bounded.

use std::fmt;

/// A hostlist may expand to at most this many names: sixteen times the largest cluster we plan for.
pub const EXPAND_MAX: usize = 65_536;

/// A compiled hostlist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hostlist {
    text: Box<str>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Text outside brackets, with `*` and `?`.
    Glob(Box<str>),
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

/// What is wrong with a hostlist, and at which byte of it.
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
        let mut parts = Vec::new();
        let mut rest = 0;
        while let Some(open) = text[rest..].find('[').map(|i| i + rest) {
            if let Some(stray) = text[rest..open].find(']') {
                return Err(HostlistError { at: rest + stray, problem: "']' without '['" });
            }
            if open > rest {
                parts.push(Part::Glob(text[rest..open].into()));
            }
            let close = text[open..].find(']').map(|i| i + open);
            let close = close.ok_or(HostlistError { at: open, problem: "'[' is never closed" })?;
            parts.push(Part::Numbers(ranges(text, open + 1, close)?));
            rest = close + 1;
        }
        if let Some(stray) = text[rest..].find(']') {
            return Err(HostlistError { at: rest + stray, problem: "']' without '['" });
        }
        if rest < text.len() || parts.is_empty() {
            parts.push(Part::Glob(text[rest..].into()));
        }
        Ok(Hostlist { text: text.into(), parts })
    }

    /// The hostlist as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when `name` is one of the hosts.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.parts, name)
    }

    /// All names, or `None` when a glob makes them uncountable or they are more than [`EXPAND_MAX`].
    pub fn expand(&self) -> Option<Vec<String>> {
        let mut names = vec![String::new()];
        for part in &self.parts {
            let mut longer = Vec::new();
            match part {
                Part::Glob(text) if text.contains(['*', '?']) => return None,
                Part::Glob(text) => longer.extend(names.iter().map(|name| format!("{name}{text}"))),
                Part::Numbers(ranges) => {
                    let count: u64 =
                        ranges.iter().fold(0, |n, r| n.saturating_add((r.last - r.first).saturating_add(1)));
                    if count.saturating_mul(names.len() as u64) > EXPAND_MAX as u64 {
                        return None;
                    }
                    for name in &names {
                        for range in ranges {
                            longer.extend(
                                (range.first..=range.last)
                                    .map(|n| format!("{name}{n:0width$}", width = range.width)),
                            );
                        }
                    }
                }
            }
            names = longer;
        }
        Some(names)
    }
}

impl fmt::Display for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
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
        ranges.push(range);
        at += item.len() + 1;
    }
    Ok(ranges)
}

impl Range {
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

fn matches(parts: &[Part], name: &str) -> bool {
    let Some((part, rest)) = parts.split_first() else { return name.is_empty() };
    match part {
        Part::Numbers(ranges) => {
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            (1..=digits).any(|n| ranges.iter().any(|r| r.contains(&name[..n])) && matches(rest, &name[n..]))
        }
        Part::Glob(text) if rest.is_empty() => crate::glob::Glob::new(text).matches(name),
        Part::Glob(text) if text.contains(['*', '?']) => {
            let glob = crate::glob::Glob::new(text);
            name.char_indices()
                .map(|(i, _)| i)
                .chain([name.len()])
                .any(|i| glob.matches(&name[..i]) && matches(rest, &name[i..]))
        }
        Part::Glob(text) => name.strip_prefix(&**text).is_some_and(|tail| matches(rest, tail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn errors_point_at_the_byte() {
        for (text, at) in [("n[1-", 1), ("n[1,x]", 4), ("n[8-1]", 2), ("n]", 1), ("n[]", 2), ("a[1]b]", 5)] {
            assert_eq!(Hostlist::new(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn expanding_is_bounded() {
        assert_eq!(Hostlist::new("n[0-99999999]").unwrap().expand(), None);
        assert_eq!(Hostlist::new("n[0-18446744073709551615]").unwrap().expand(), None);
        assert!(Hostlist::new("n[0-99999999]").unwrap().matches("n31415926"));
    }
}
