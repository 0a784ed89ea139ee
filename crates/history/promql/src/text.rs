//! The text of a query: its tokens, where expressions begin, and the parsed tree. The grammar is that of the crate
//! promql-parser; this module says first what that crate may be given.

mod bytes;
mod durations;
mod faults;
mod format;
mod guard;
mod numbers;
mod positions;
mod tokens;

use promql_parser::parser::{Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};

pub use bytes::shown_text;
pub(crate) use bytes::{byte_of, is_label_name};
pub(crate) use positions::{Places, Position, Positions};

use crate::error::QueryError;
use crate::labels::METRIC_NAME;
use crate::matcher::{Matcher, Operator};
use crate::plan;

/// Parses a query. Fails as Prometheus does for a text that is no query (`bad_data`).
pub(crate) fn parse(text: &str) -> Result<Expr, QueryError> {
    guard::check(text)?;
    parsed(text).map_err(|problem| {
        let faults::Fault { at, problem } =
            faults::fault(text, &plain(text), problem, |part| parsed(part).err());
        QueryError::Bad(format!("{}: parse error: {problem}", at.line_and_column(text)))
    })
}

/// The text as the parser's crate can read it.
fn plain(text: &str) -> String {
    durations::readable(&numbers::without_underscores(&bytes::readable(text)))
}

/// The parser's result for a text, or its error. The parser is foreign code: if it panics, only the query fails, and not the
/// process.
fn parsed(text: &str) -> Result<Expr, String> {
    std::panic::catch_unwind(|| promql_parser::parser::parse(&plain(text)))
        .unwrap_or_else(|_| Err(String::from("the text cannot be read")))
}

/// The query in the form that Prometheus' `format_query` gives it.
///
/// # Errors
///
/// If the text is no query.
pub fn format(text: &str) -> Result<String, QueryError> {
    let numbers = durations::Numbers::of(text);
    Ok(format::format(&parse(text)?, numbers))
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

/// The names of metrics in the selectors of a query, each once. A name that is a regular expression is none.
///
/// # Errors
///
/// If the text is no query.
pub fn metric_names(text: &str) -> Result<Vec<String>, QueryError> {
    let mut names = Vec::new();
    each(&parse(text)?, |part| match part {
        Expr::VectorSelector(selector) => add_name(&mut names, selector),
        Expr::MatrixSelector(range) => add_name(&mut names, &range.vs),
        _ => Ok(()),
    })?;
    Ok(names)
}

fn add_name(names: &mut Vec<String>, selector: &VectorSelector) -> Result<(), QueryError> {
    for matcher in plan::matchers(selector)? {
        let is_name = matcher.name == METRIC_NAME && matches!(matcher.operator, Operator::Equal);
        if is_name && !names.contains(&matcher.value) {
            names.push(matcher.value);
        }
    }
    Ok(())
}

/// Calls `visit` with each part of an expression, in the order of the text.
fn each<E>(expression: &Expr, visit: impl FnMut(&Expr) -> Result<(), E>) -> Result<(), E> {
    walk_expr(&mut Each(visit), expression).map(drop)
}

/// Visits parts.
struct Each<F>(F);

impl<E, F: FnMut(&Expr) -> Result<(), E>> ExprVisitor for Each<F> {
    type Error = E;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, E> {
        (self.0)(expression)?;
        // The walk leaves parameters out, as the number of `topk`.
        if let Expr::Aggregate(aggregate) = expression
            && let Some(parameter) = &aggregate.param
        {
            walk_expr(self, parameter)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_a_query_are_found_wherever_a_selector_stands() {
        let names = |text| metric_names(text).unwrap();
        assert_eq!(names("1 + 2"), [""; 0]);
        assert_eq!(
            names(
                "topk(scalar(a), -sum by (x) (rate(b[5m] offset 1h))) / on (x) (c or {\"d.e\"}) and {__name__=~\"f.*\"} \
                 == max_over_time((b + {__name__=\"g\"})[1h:1m])"
            ),
            ["a", "b", "c", "d.e", "g"]
        );
        assert!(metric_names("sum(").is_err());
    }
}
