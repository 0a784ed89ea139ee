//! A condition on one label, as a selector has it.

use regex::{Regex, RegexBuilder};

use crate::limits::REGEX_BYTES_MAX;
use crate::re2::in_words_of_the_crate;

/// How a value is compared.
#[derive(Clone, Debug)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`: the expression fits the whole value.
    Fits(Regex),
    /// `!~`
    FitsNot(Regex),
}

/// A condition on the value of a label; a label that is not there has the empty value.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// The label.
    pub name: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what, as it was written.
    pub value: String,
}

/// A regular expression that is none, or takes too much memory.
#[derive(Debug, thiserror::Error)]
#[error("the regular expression {text:?} of the label {label:?}: {problem}")]
pub struct MatcherError {
    label: String,
    text: String,
    problem: String,
}

impl Matcher {
    /// `name="value"`
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Matcher { name: name.into(), operator: Operator::Equal, value: value.into() }
    }

    /// A matcher with this operator (`=`, `!=`, `=~`, `!~`); `None` for another operator.
    pub fn new(name: &str, operator: &str, value: &str) -> Option<Result<Self, MatcherError>> {
        let regex = || {
            Self::regex(value).map_err(|error| MatcherError {
                label: name.to_owned(),
                text: value.to_owned(),
                problem: said(&error),
            })
        };
        let operator = match operator {
            "=" => Ok(Operator::Equal),
            "!=" => Ok(Operator::NotEqual),
            "=~" => regex().map(Operator::Fits),
            "!~" => regex().map(Operator::FitsNot),
            _ => return None,
        };
        Some(operator.map(|operator| Matcher { name: name.to_owned(), operator, value: value.to_owned() }))
    }

    /// An expression of Go that fits whole values. Where braces do not repeat anything, they stand for themselves, as in
    /// Prometheus.
    pub(crate) fn regex(text: &str) -> Result<Regex, regex::Error> {
        let text = &in_words_of_the_crate(text);
        let build = |text: &str| {
            RegexBuilder::new(&format!("^(?s:{text})$"))
                .size_limit(REGEX_BYTES_MAX)
                .dfa_size_limit(REGEX_BYTES_MAX)
                .build()
        };
        build(text).or_else(|error| match error {
            regex::Error::Syntax(_) => build(&plain_braces(text)).map_err(|_| error),
            _ => Err(error),
        })
    }

    /// Whether a value (empty: the label is not there) meets the condition.
    pub fn matches(&self, value: &str) -> bool {
        match &self.operator {
            Operator::Equal => value == self.value,
            Operator::NotEqual => value != self.value,
            Operator::Fits(regex) => regex.is_match(value),
            Operator::FitsNot(regex) => !regex.is_match(value),
        }
    }
}

/// What is wrong, in one line: the crate draws a picture of the expression above it.
fn said(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().next_back().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
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

    #[test]
    fn a_regular_expression_fits_the_whole_value() {
        let matcher = |operator, value| Matcher::new("job", operator, value).unwrap().unwrap();
        assert!(matcher("=~", "a|b.*").matches("bc") && !matcher("=~", "a|b").matches("bc"));
        assert!(
            matcher("=~", ".*").matches("")
                && matcher("!~", "a").matches("")
                && matcher("=~", ".").matches("\n")
        );
        assert!(matcher("=", "").matches("") && matcher("!=", "x").matches(""));
        assert!(Matcher::new("job", "=~", "(").unwrap().is_err() && Matcher::new("job", "~", "").is_none());
        assert!(
            Matcher::new("job", "=~", "((a{100}){100}){100}").unwrap().is_err(),
            "it would take gigabytes"
        );
    }
}
