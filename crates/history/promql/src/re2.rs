//! Translates regular expressions of Go (RE2) for the crate `regex`. Their syntax differs only in classes: the crate has
//! differences and intersections (`&&`, `--`, `~~`) and nested classes, where Go has plain characters. It checks nothing: an
//! invalid expression stays invalid.

use std::iter::Peekable;
use std::str::Chars;

/// The same expression for the crate.
pub(crate) fn in_words_of_the_crate(text: &str) -> String {
    let mut reader = Reader { rest: text.chars().peekable(), out: String::with_capacity(text.len()) };
    while let Some(sign) = reader.rest.next() {
        match sign {
            '[' => reader.class(),
            '\\' if reader.rest.peek() == Some(&'Q') => reader.quoted(),
            '\\' => drop(reader.escape()),
            sign => reader.out.push(sign),
        }
    }
    reader.out
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
}

impl Reader<'_> {
    /// Reads a class after its bracket.
    fn class(&mut self) {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some(sign) = self.rest.next() {
            match sign {
                ']' if !is_first => {
                    self.out.push(']');
                    return;
                }
                '[' if self.named() => {}
                '\\' => {
                    if self.escape() {
                        self.end_of_range();
                    }
                }
                sign => {
                    self.sign(sign);
                    self.end_of_range();
                }
            }
            is_first = false;
        }
    }

    /// Reads a named class such as `[:alpha:]` after its first bracket. Returns false if it is a plain bracket.
    fn named(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some(':') {
            return false;
        }
        let name: String = ahead.by_ref().take_while(|sign| *sign != ':').collect();
        if ahead.next() != Some(']') {
            return false;
        }
        self.out.push_str(&format!("[:{name}:]"));
        self.rest = ahead;
        true
    }

    /// After a sign in a class: a dash and another sign, if there are some.
    fn end_of_range(&mut self) {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']')) {
            return;
        }
        self.rest.next();
        self.out.push('-');
        match self.rest.next() {
            Some('\\') => drop(self.escape()),
            Some(sign) => self.sign(sign),
            None => {}
        }
    }

    /// A sign in a class that stands for itself.
    fn sign(&mut self, sign: char) {
        if matches!(sign, '[' | ']' | '&' | '~' | '-' | '^') {
            self.out.push('\\');
        }
        self.out.push(sign);
    }

    /// Reads the text after a backslash. Returns whether it stands for one character.
    fn escape(&mut self) -> bool {
        let Some(sign) = self.rest.next() else {
            self.out.push('\\');
            return false;
        };
        let next_is_octal = self.rest.peek().is_some_and(|next| next.is_digit(8));
        if let Some(first) = sign.to_digit(8).filter(|first| *first == 0 || next_is_octal) {
            let mut value = first;
            for _ in 0..2 {
                let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(8)) else { break };
                value = value * 8 + digit;
                self.rest.next();
            }
            self.out.push_str(&format!("\\x{{{value:X}}}"));
            return true;
        }
        self.out.extend(['\\', sign]);
        if matches!(sign, 'x' | 'p' | 'P') && self.rest.peek() == Some(&'{') {
            self.braced();
        }
        !matches!(sign, 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P')
    }

    /// A name or number in braces, as it is.
    fn braced(&mut self) {
        for sign in self.rest.by_ref() {
            self.out.push(sign);
            if sign == '}' {
                return;
            }
        }
    }

    /// All up to `\E` stands for itself. The backslash is read.
    fn quoted(&mut self) {
        self.rest.next();
        let rest: String = self.rest.by_ref().collect();
        let (text, after) = rest.split_once("\\E").unwrap_or((&rest, ""));
        self.out.push_str(&regex::escape(text));
        self.out.push_str(&in_words_of_the_crate(after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_mean_what_they_mean_in_go() {
        // The expression, values that Go's regexp takes, and values that it does not take.
        let all: &[(&str, &[&str], &[&str])] = &[
            ("node[1-3&&2]", &["node1", "node2", "node3", "node&"], &["node4"]),
            ("node[0-9--2]", &["node1", "node9", "node-", "node.", "node/"], &["node:", "node,"]),
            ("node[0-9~~2]", &["node1", "node~"], &["node-"]),
            ("node[\\w--1]", &["nodex", "node-", "node0", "node."], &["node,"]),
            ("node[[1]]", &["node[]", "node1]"], &["node1", "node["]),
            ("node[[1]*", &["node", "node[", "node11"], &["node2"]),
            ("[]a]", &["]", "a"], &["b", "[]a]"]),
            ("[^]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[a-c-e]", &["a", "b", "c", "-", "e"], &["d"]),
            ("[[:alpha:]&&b]", &["x", "&"], &["1", "["]),
            ("[[:digit:]-z]", &["1", "-", "z"], &["x"]),
            ("[\\d-z]", &["1", "-", "z"], &["x"]),
            ("[\\x{41}-\\x{43}]", &["A", "B", "C"], &["D", "-", "{"]),
            ("[\\[-\\]]", &["[", "\\", "]"], &["^", "-"]),
            ("[+--]", &["+", ",", "-"], &["."]),
            ("[ab", &[], &[]),
            ("node\\061", &["node1"], &["node061"]),
            ("\\71", &["9"], &["71"]),
            ("[\\060-\\062]", &["0", "1", "2"], &["3"]),
            ("\\Qa.[b\\E.", &["a.[bx"], &["axbx"]),
            ("a{2}[^&]", &["aab"], &["aa&"]),
            ("\\p{Greek}[^\\p{Greek}]", &["βb"], &["ββ"]),
        ];
        for (text, taken, refused) in all {
            let ours = in_words_of_the_crate(text);
            let Ok(regex) = regex::Regex::new(&format!("^(?s:{ours})$")) else {
                assert!(taken.is_empty() && refused.is_empty(), "{text}: {ours}");
                continue;
            };
            taken.iter().for_each(|value| assert!(regex.is_match(value), "{text}: {ours}: {value}"));
            refused.iter().for_each(|value| assert!(!regex.is_match(value), "{text}: {ours}: {value}"));
        }
        for same in ["node.*", "a|b", "[a-z0-9_]+", "\\d+\\.\\d+", "(?i:x)[^a-c]"] {
            assert_eq!(in_words_of_the_crate(same), same);
        }
    }
}
