//! The text of a query: its tokens, where expressions begin, and the parsed tree. The grammar is that of the crate
//! promql-parser; this module says first what that crate may be given.

mod bytes;
mod faults;
mod guard;
mod numbers;
mod positions;
mod tokens;

use promql_parser::parser::Expr;

pub(crate) use bytes::{byte_of, is_label_name};
pub(crate) use positions::{Position, Positions};

use crate::error::QueryError;
use crate::matcher::Matcher;
use crate::plan;

/// Parses a query. Fails as Prometheus does for a text that is no query (`bad_data`).
pub(crate) fn parse(text: &str) -> Result<Expr, QueryError> {
    guard::check(text)?;
    // The parser is foreign code: should it panic, then the query fails, not the process.
    let parsed = numbers::without_underscores(&bytes::without_escaped_bytes(text));
    std::panic::catch_unwind(|| promql_parser::parser::parse(&parsed))
        .unwrap_or_else(|_| Err(String::from("the text cannot be read")))
        .map_err(|problem| {
            let faults::Fault { at, problem } = faults::fault(text, &parsed, problem);
            let place = at.map_or_else(String::new, |at| format!("{}: ", at.line_and_column(text)));
            QueryError::Bad(format!("{place}parse error: {problem}"))
        })
}

/// The query in the form that Prometheus' `format_query` gives it.
///
/// # Errors
///
/// If the text is no query.
pub fn format(text: &str) -> Result<String, QueryError> {
    Ok(parse(text)?.prettify())
}

/// The conditions of a selector such as `up{job="node"}`, as `match[]` of Prometheus' HTTP API has them.
///
/// # Errors
///
/// If the text is no selector, or one with a range or an offset.
pub fn selector(text: &str) -> Result<Vec<Matcher>, QueryError> {
    match parse(text)? {
        Expr::VectorSelector(selector) if selector.offset.is_none() && selector.at.is_none() => {
            plan::matchers(&selector)
        }
        _ => Err(QueryError::Bad(format!("{text:?} is no selector; write NAME{{LABEL=\"VALUE\"}}"))),
    }
}
