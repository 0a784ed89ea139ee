//! Checks a query without evaluating it: the type of its result, and the place that an error text names.

use crate::error::QueryError;
use crate::limits::Limits;
use crate::plan::{Build, Gives, plan};
use crate::steps::Steps;
use crate::text;

/// What a query gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// One number.
    Scalar,
    /// A text.
    Text,
    /// A sample of each series.
    Vector,
    /// Samples of each series over a time.
    Matrix,
}

/// Parses a query and says what it gives.
///
/// # Errors
///
/// Returns [`QueryError::Bad`] if the text is no query; [`place`] finds its line and column.
pub fn check(text: &str) -> Result<ResultType, QueryError> {
    let tree = text::parse(text)?;
    let node = plan(&tree, text, &Build { whole: Steps::instant(0), limits: Limits::default() })?;
    Ok(match node.gives {
        Gives::Scalar => ResultType::Scalar,
        Gives::Text => ResultType::Text,
        Gives::Vector => ResultType::Vector,
        Gives::Matrix => ResultType::Matrix,
    })
}

/// The line and column (in bytes, from 1) that an error of this crate names, and its words without them: `1:4: parse error: …` of
/// [`check`], `… (2:5); …` of [`crate::compile`]. `None`: it names no place.
pub fn place(words: &str) -> Option<((usize, usize), String)> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
    let pair = |line: &str, column: &str| Some((number(line)?, number(column)?));
    let mut parts = words.splitn(3, ':');
    if let (Some(line), Some(column), Some(rest)) = (parts.next(), parts.next(), parts.next())
        && let Some(place) = pair(line, column)
    {
        return Some((place, rest.trim_start().to_owned()));
    }
    for (at, _) in words.match_indices(" (") {
        let Some((inner, rest)) = words[at + 2..].split_once(')') else { break };
        if let Some(place) = inner.split_once(':').and_then(|(line, column)| pair(line, column)) {
            return Some((place, format!("{}{rest}", &words[..at])));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_what_it_gives_without_samples() {
        for (text, gives) in [
            ("1 + 1", ResultType::Scalar),
            ("\"a\"", ResultType::Text),
            ("up == 0", ResultType::Vector),
            ("up[5m]", ResultType::Matrix),
        ] {
            assert_eq!(check(text), Ok(gives), "{text}");
        }
        assert!(check("mad_over_time(x[1m])").is_err() && check("up ==").is_err());
    }

    #[test]
    fn the_place_of_an_error_is_found_in_its_words() {
        let error = check("a +\n  sum(b[5m)").unwrap_err().to_string();
        assert_eq!(place(&error), Some(((2, 11), String::from("parse error: unexpected ')'"))));
        let error = crate::compile("1 + max_over_time(a[1h])").unwrap_err().to_string();
        let (at, words) = place(&error).unwrap();
        assert_eq!(at, (1, 19));
        assert!(words.starts_with("a node keeps 5 minutes at most; an expression"), "{words}");
        for words in ["parse error: it has 5 bytes", "a (b) (c:d) 0:1: x", "0:1: x", ""] {
            assert_eq!(place(words), None, "{words}");
        }
    }
}
