//! Selectors of the parser's tree as conditions of ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use promql_parser::label::MatchOp;
use promql_parser::parser::{AtModifier, Offset, VectorSelector};

use super::build::bad;
use super::{Moved, Selector};
use crate::error::QueryError;
use crate::labels::METRIC_NAME;
use crate::limits::MATCHERS_MAX;
use crate::matcher::{Matcher, Operator};
use crate::steps::Steps;
use crate::text::Places;

/// A duration in ms.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// `@` and `offset` of a selector or subquery; `whole` are the steps of the query.
pub(super) fn moved(
    at: Option<&AtModifier>,
    offset: Option<&Offset>,
    whole: Steps,
) -> Result<Moved, QueryError> {
    let since = |time: &SystemTime| {
        let (duration, sign) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after, 1),
            Err(before) => (before.duration(), -1),
        };
        let beyond = || bad("timestamp out of bounds for @ modifier: milliseconds since 1970 are 64 bits");
        i64::try_from(duration.as_millis()).map(|millis| sign * millis).map_err(|_| beyond())
    };
    let fixed = at.map(|at| match at {
        AtModifier::Start => Ok(whole.start),
        AtModifier::End => Ok(whole.until),
        AtModifier::At(time) => since(time),
    });
    Ok(Moved {
        fixed: fixed.transpose()?,
        offset: match offset {
            None => 0,
            Some(Offset::Pos(back)) => millis(*back),
            Some(Offset::Neg(forth)) => -millis(*forth),
        },
    })
}

/// The conditions of a selector, that on its name among them.
pub(crate) fn matchers(selector: &VectorSelector) -> Result<Vec<Matcher>, QueryError> {
    if !selector.matchers.or_matchers.is_empty() {
        return Err(bad("unexpected \"or\" in label matching, expected \",\" or \"}\""));
    }
    let count = selector.matchers.matchers.len();
    if count > MATCHERS_MAX {
        return Err(bad(format!("a selector has {count} conditions, and may have {MATCHERS_MAX}")));
    }
    let mut all: Vec<Matcher> =
        selector.name.iter().map(|name| Matcher::equal(METRIC_NAME, name.clone())).collect();
    for matcher in &selector.matchers.matchers {
        let operator = match matcher.op {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Re(_) => "=~",
            MatchOp::NotRe(_) => "!~",
        };
        let ours = Matcher::new(&matcher.name, operator, &matcher.value);
        all.push(ours.ok_or_else(|| bad(format!("unknown operator {operator}")))?.map_err(bad)?);
    }
    let names =
        |matcher: &&Matcher| matcher.name == METRIC_NAME && matches!(matcher.operator, Operator::Equal);
    if all.iter().filter(names).count() > 1 {
        return Err(bad("metric name must not be set twice"));
    }
    if all.iter().all(|matcher| matcher.matches("")) {
        return Err(bad("vector selector must contain at least one non-empty matcher"));
    }
    Ok(all)
}

/// A selector of the tree, whose parts begin at these places.
pub(super) fn selector(
    selector: &VectorSelector,
    whole: Steps,
    places: Places,
) -> Result<Selector, QueryError> {
    Ok(Selector {
        matchers: matchers(selector)?,
        moved: moved(selector.at.as_ref(), selector.offset.as_ref(), whole)?,
        places,
    })
}
