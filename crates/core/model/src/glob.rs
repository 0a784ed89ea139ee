//! Globs over names: `*` matches any run of characters (dots included), `?` matches one. Not a regular
//! expression: memory is linear, and time is bounded by pattern × name.

/// A compiled glob.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: Box<str>,
    plain: bool,
}

impl Glob {
    /// Compiles `text`; every text is a valid glob.
    pub fn new(text: &str) -> Self {
        Glob { text: text.into(), plain: !text.contains(['*', '?']) }
    }

    /// The glob as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when it matches exactly one name: its own text.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// True when the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        if self.plain { &*self.text == name } else { matches(self.text.as_bytes(), name.as_bytes()) }
    }
}

/// Greedy match with one point to return to: after a mismatch the last star swallows one more byte.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g, n));
                g += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                g += 1;
                // `?` is one character, not one byte: swallow the continuation bytes of UTF-8 with it.
                n += 1;
                while c == b'?' && n < name.len() && name[n] & 0xC0 == 0x80 {
                    n += 1;
                }
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    g = star + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_question_marks() {
        for (glob, name, expected) in [
            ("cpu.*", "cpu.user", true),
            ("cpu.*", "cpu.all.user", true),
            ("cpu.*", "cpus", false),
            ("*", "", true),
            ("?", "é", true),
            ("?", "ab", false),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbxc", false),
            ("mem.free", "mem.free", true),
            ("mem.free", "mem.freed", false),
            ("**", "x", true),
        ] {
            assert_eq!(Glob::new(glob).matches(name), expected, "{glob} against {name}");
        }
    }

    /// The meaning of a glob, one character after the other.
    fn means(glob: &[char], name: &[char]) -> bool {
        match (glob, name) {
            ([], name) => name.is_empty(),
            (['*', rest @ ..], name) => (0..=name.len()).any(|n| means(rest, &name[n..])),
            (['?', rest @ ..], [_, name @ ..]) => means(rest, name),
            ([c, rest @ ..], [n, name @ ..]) => c == n && means(rest, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_matches_what_it_means(glob in "[ab*?é]{0,7}", name in "[abé]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let compiled = Glob::new(&glob);
            prop_assert_eq!(compiled.matches(&name), means(&chars(&glob), &chars(&name)), "{} against {}", glob, name);
            prop_assert_eq!((compiled.is_plain(), compiled.as_str()), (!glob.contains(['*', '?']), &*glob));
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let glob = Glob::new(&"*a".repeat(50));
        assert!(!glob.matches(&"a".repeat(2_000).replace("aa", "ab")[..49]));
    }
}
