//! A regular expression of Prometheus, which must match whole values. An expression that matches only some names, as Grafana sends
//! for the values of a variable, becomes a set of names. One that matches a prefix becomes that text. It never searches within a
//! value.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::limits::{REGEX_BYTES_MAX, REGEX_BYTES_OF_A_BYTE};
use crate::names::names;
use crate::re2::in_words_of_the_crate;

/// Why a text is no expression, in one line, or why it takes too much memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionError(String);

/// A regular expression in the syntax of Go, which is that of RE2.
#[derive(Clone, Debug)]
pub struct Expression(Form);

#[derive(Clone, Debug)]
enum Form {
    /// It fits these.
    Names(HashSet<Box<str>>),
    /// It fits what begins with this text.
    Begins(Box<str>),
    /// It fits what begins with this text and goes on.
    GoesOn(Box<str>),
    Regex(Regex),
}

impl Expression {
    /// The expression of this text.
    ///
    /// # Errors
    ///
    /// If the text is none, or if it takes more than [`REGEX_BYTES_MAX`] and [`REGEX_BYTES_OF_A_BYTE`] say.
    pub fn new(text: &str) -> Result<Self, ExpressionError> {
        let (text, tree) = read(text)?;
        let form = match plain(&tree, text.len()) {
            Some(form) => form,
            None => Form::Regex(compiled(&text)?),
        };
        Ok(Expression(form))
    }

    /// The expression of this text for those who need its groups.
    ///
    /// # Errors
    ///
    /// As [`Expression::new`].
    pub fn regex(text: &str) -> Result<Regex, ExpressionError> {
        compiled(&read(text)?.0)
    }

    /// True if it fits this value.
    pub fn fits(&self, value: &str) -> bool {
        match &self.0 {
            Form::Names(names) => names.contains(value),
            Form::Begins(begin) => value.starts_with(&**begin),
            Form::GoesOn(begin) => value.len() > begin.len() && value.starts_with(&**begin),
            Form::Regex(regex) => regex.is_match(value),
        }
    }

    /// The only values that it fits, in no order; `None`: there may be more.
    pub fn names(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.0 {
            Form::Names(names) => Some(names.iter().map(|name| &**name)),
            Form::Begins(_) | Form::GoesOn(_) | Form::Regex(_) => None,
        }
    }
}

/// The text in the words of the crate, and its tree. Where braces do not repeat anything, they stand for themselves, as in
/// Prometheus.
fn read(text: &str) -> Result<(String, Hir), ExpressionError> {
    let tree = |text: &str| {
        let tree = ParserBuilder::new().dot_matches_new_line(true).build().parse(text);
        tree.map_err(|error| said(&error.to_string()))
    };
    let text = in_words_of_the_crate(text);
    match tree(&text) {
        Ok(tree) => Ok((text, tree)),
        Err(error) => {
            let text = plain_braces(&text);
            let tree = tree(&text).map_err(|_| error)?;
            Ok((text, tree))
        }
    }
}

fn compiled(text: &str) -> Result<Regex, ExpressionError> {
    RegexBuilder::new(&format!("^(?s:{text})$"))
        .size_limit(REGEX_BYTES_MAX.max(text.len().saturating_mul(REGEX_BYTES_OF_A_BYTE)))
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| said(&error.to_string()))
}

/// The error in one line: the crate draws a picture of the expression above it.
fn said(text: &str) -> ExpressionError {
    let last = text.lines().next_back().unwrap_or_default();
    ExpressionError(last.strip_prefix("error: ").unwrap_or(last).to_owned())
}

/// A form without an automaton, if there is one.
fn plain(tree: &Hir, bytes: usize) -> Option<Form> {
    if let Some(names) = names(tree, bytes) {
        let name = |name: Vec<u8>| String::from_utf8(name).ok().map(String::into_boxed_str);
        return names.into_iter().map(name).collect::<Option<_>>().map(Form::Names);
    }
    let (begin, rest) = match tree.kind() {
        HirKind::Concat(parts) => match &parts[..] {
            [begin, rest] => match begin.kind() {
                HirKind::Literal(literal) => (std::str::from_utf8(&literal.0).ok()?, rest),
                _ => return None,
            },
            _ => return None,
        },
        _ => ("", tree),
    };
    let HirKind::Repetition(repetition) = rest.kind() else { return None };
    let HirKind::Class(Class::Unicode(class)) = repetition.sub.kind() else { return None };
    let is_any = matches!(class.ranges(), [all] if all.start() == '\0' && all.end() == char::MAX);
    match (is_any, repetition.min, repetition.max) {
        (true, 0, None) => Some(Form::Begins(begin.into())),
        (true, 1, None) => Some(Form::GoesOn(begin.into())),
        _ => None,
    }
}

/// The text with a backslash before each brace that does not begin a repetition such as `{2}` or `{2,3}`.
fn plain_braces(text: &str) -> String {
    let mut all = String::with_capacity(text.len() + 2);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            all.push(c);
            all.extend(characters.next().map(|(_, escaped)| escaped));
            continue;
        }
        let repeats = || {
            let inner = text[at + 1..].split_once('}').map_or("", |(inner, _)| inner);
            let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            !low.is_empty() && digits(low) && digits(high)
        };
        if c == '{' && !repeats() {
            all.push('\\');
        }
        all.push(c);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::Matcher;
    use proptest::prelude::*;

    fn names_of(text: &str) -> Option<String> {
        let expression = Expression::new(text).unwrap();
        let mut names: Vec<&str> = expression.names()?.collect();
        names.sort_unstable();
        Some(names.join(" "))
    }

    #[test]
    fn an_expression_that_fits_only_some_names_is_a_set_of_them() {
        for (text, expected) in [
            ("a", Some("a")),
            ("", Some("")),
            ("b|a|b", Some("a b")),
            (r"n1\.example|n-2", Some("n-2 n1.example")),
            ("(b|a)", Some("a b")),
            ("(?:a|b)-(1|2)", Some("a-1 a-2 b-1 b-2")),
            ("^(a|b)$", Some("a b")),
            ("^a|b$", Some("a b")),
            ("node[1-3]", Some("node1 node2 node3")),
            ("node[1&&2]", Some("node& node1 node2")),
            ("no{2}d?e", Some("noode nooe")),
            ("(?i)n1", Some("N1 n1")),
            ("\\Qa.b|c\\E", Some("a.b|c")),
            ("äö|ß", Some("ß äö")),
            ("a.b", None),
            ("a^b", None),
            ("a$|b$c", None),
            (r"a\b", None),
            ("a*", None),
            ("[a-z]{4}", None),
            (r"\d", None),
            ("a{1000}", None),
            ("(){4000000000}", Some("")),
        ] {
            assert_eq!(names_of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn hundreds_of_long_names_are_as_good_as_two() {
        let host = |n: usize| format!("a-host-with-a-very-long-name-{n}.of-a-cluster.example.com");
        let all = (0..300).map(host).collect::<Vec<_>>().join("|");
        let escaped = all.replace('.', "\\.");
        for text in [&all, &escaped, &format!("({all})"), &format!("^(?:{escaped})$")] {
            let expression = Expression::new(text).unwrap();
            assert!((0..300).step_by(50).all(|n| expression.fits(&host(n))));
            assert!(!expression.fits(&host(300)) && !expression.fits(""));
            assert_eq!(expression.names().map(Iterator::count), text.contains('\\').then_some(300));
            assert!(Matcher::new("instance", "=~", text).unwrap().unwrap().matches(&host(7)));
            // The parser of the text compiles it, too.
            crate::text::selector(&format!("up{{instance=~{text:?}}}")).unwrap();
        }
    }

    #[test]
    fn names_that_would_be_too_many_take_neither_memory_nor_time() {
        for text in ["((a{100}){100}){100}", "([a-z]{1,50}){1,50}", "(a|b|c|d){200}", "((a|b){0,100}){0,100}"]
        {
            let names = Expression::new(text).ok().and_then(|it| it.names().map(Iterator::count));
            assert_eq!(names, None, "{text}");
        }
        // The empty name repeated is one name, however often.
        assert_eq!(names_of("((()|()){250}){250}").as_deref(), Some(""));
    }

    #[test]
    fn a_text_that_is_only_an_expression_within_another_is_refused() {
        for text in ["a)|(b", "(", "a)", "[", "*"] {
            assert!(Expression::new(text).is_err() && Expression::regex(text).is_err(), "{text}");
        }
        assert_eq!(Expression::new("(").unwrap_err().to_string(), "unclosed group");
        assert!(Expression::new("a{b}").unwrap().fits("a{b}"), "these braces repeat nothing");
    }

    /// A piece of an expression: names with what else stands in alternations of users.
    fn piece() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            4 => "[ab]{0,3}",
            1 => Just(r"\.".to_owned()),
            1 => Just(".".to_owned()),
            1 => Just("[ab]".to_owned()),
            1 => Just("[^a]".to_owned()),
            1 => Just("^".to_owned()),
            1 => Just("$".to_owned()),
            1 => Just("ä".to_owned()),
            1 => Just("(?i:a)".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join("|"))),
                3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|all| all.concat()),
                1 => (inner, prop_oneof![Just("?"), Just("{2}"), Just("{0,2}"), Just("*"), Just("+?")])
                    .prop_map(|(inner, times)| format!("({inner}){times}")),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_form_fits_what_the_automaton_fits(
            all in prop::collection::vec(piece(), 1..6),
            values in prop::collection::vec("[abA.ä\n]{0,5}", 20),
        ) {
            let text = all.join("|");
            let (expression, regex) = (Expression::new(&text).unwrap(), Expression::regex(&text).unwrap());
            let own: Vec<String> = expression.names().into_iter().flatten().map(str::to_owned).collect();
            for value in values.iter().chain(&own) {
                prop_assert_eq!(expression.fits(value), regex.is_match(value), "{} {:?}", text, value);
            }
        }
    }
}
