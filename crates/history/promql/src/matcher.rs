//! A condition on one label, as a selector has it.

use crate::expression::{Expression, ExpressionError};

/// How a value is compared.
#[derive(Clone, Debug)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`: the expression fits the whole value.
    Fits(Expression),
    /// `!~`
    FitsNot(Expression),
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
    problem: ExpressionError,
}

/// Characters of a text that an error repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// The text for an error message, shortened: its writer knows a long one.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// The text as a regular expression that fits it alone.
pub fn literal(text: &str) -> String {
    regex::escape(text)
}

impl Matcher {
    /// `name="value"`
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Matcher { name: name.into(), operator: Operator::Equal, value: value.into() }
    }

    /// The label has one of these values.
    ///
    /// # Errors
    /// There are more than an expression may have.
    pub fn any_of<S: AsRef<str>>(name: &str, values: &[S]) -> Result<Self, MatcherError> {
        if let [value] = values {
            return Ok(Matcher::equal(name, value.as_ref()));
        }
        let values: Vec<String> = values.iter().map(|value| literal(value.as_ref())).collect();
        Matcher::new(name, "=~", &values.join("|")).expect("BUG: =~ is no operator")
    }

    /// A matcher with this operator (`=`, `!=`, `=~`, `!~`); `None` for another operator.
    pub fn new(name: &str, operator: &str, value: &str) -> Option<Result<Self, MatcherError>> {
        let expression = || {
            Expression::new(value).map_err(|problem| MatcherError {
                label: shortened(name),
                text: shortened(value),
                problem,
            })
        };
        let operator = match operator {
            "=" => Ok(Operator::Equal),
            "!=" => Ok(Operator::NotEqual),
            "=~" => expression().map(Operator::Fits),
            "!~" => expression().map(Operator::FitsNot),
            _ => return None,
        };
        Some(operator.map(|operator| Matcher { name: name.to_owned(), operator, value: value.to_owned() }))
    }

    /// Whether a value (empty: the label is not there) meets the condition.
    pub fn matches(&self, value: &str) -> bool {
        match &self.operator {
            Operator::Equal => value == self.value,
            Operator::NotEqual => value != self.value,
            Operator::Fits(expression) => expression.fits(value),
            Operator::FitsNot(expression) => !expression.fits(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_some_values_fits_each_of_them_and_no_other() {
        let values = ["n1.a", "n2", "job[7]+"];
        for count in 0..=values.len() {
            let matcher = Matcher::any_of("instance", &values[..count]).unwrap();
            for (at, value) in values.iter().enumerate() {
                assert_eq!(matcher.matches(value), at < count, "{value} of {count}");
            }
            assert!(!matcher.matches("n1xa") && matcher.matches("") == (count == 0));
        }
    }

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
        let long = Matcher::new("job", "=~", &format!("({}", "é".repeat(9_000))).unwrap().unwrap_err();
        assert!(long.to_string().len() < 700, "{long}");
        assert!(Matcher::new("job", "=~", "(").unwrap().is_err() && Matcher::new("job", "~", "").is_none());
        assert!(
            Matcher::new("job", "=~", "((a{100}){100}){100}").unwrap().is_err(),
            "it would take gigabytes"
        );
    }
}
