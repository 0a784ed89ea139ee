//! What to draw for the expression of an alert: the series that it compares, and the number to which it compares them. It evaluates
//! nothing.

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::token::{T_LAND, T_LUNLESS, TokenType};
use promql_parser::parser::{Expr, VectorSelector};

use crate::each_node::{EachNode, INSTANCE, compile_for_each_node};
use crate::error::QueryError;
use crate::text;

/// The drawing of an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The series to draw, as a query.
    pub query: String,
    /// With which number they are compared; `None`: they are not.
    pub bound: Option<Bound>,
}

/// The number that series are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The operator, with the series on its left: `>`.
    pub operator: &'static str,
    /// The number on its right.
    pub value: f64,
}

/// The picture of an expression: of `X > 5` it is X, with 5 as its bound; of `X > 5 and Y` too, since an alert has the series of X.
/// With an instance it has this instance's series only.
///
/// # Errors
///
/// If the text is no query.
pub fn picture(text: &str, instance: Option<&str>) -> Result<Picture, QueryError> {
    let whole = text::parse(text)?;
    let (series, bound) = compared(&whole);
    // If the printed text cannot be parsed back to the same meaning, the whole expression is drawn instead.
    let (query, bound) = match printed(series) {
        Some(query) => (query, bound),
        None => (text.to_owned(), None),
    };
    let query = match instance {
        Some(instance) => of_instance(&query, instance),
        None => query,
    };
    Ok(Picture { query, bound })
}

/// The series of a comparison with a number, and the number.
fn compared(expression: &Expr) -> (&Expr, Option<Bound>) {
    match expression {
        Expr::Paren(paren) => compared(&paren.expr),
        Expr::Binary(binary) if [T_LAND, T_LUNLESS].contains(&binary.op.id()) => compared(&binary.lhs),
        Expr::Binary(binary) if !binary.return_bool() => {
            let bound = |side: &Expr, operator| Some(Bound { operator, value: number(side)? });
            let (left, right) = (&*binary.lhs, &*binary.rhs);
            let Some((operator, turned)) = comparison(binary.op) else { return (expression, None) };
            match (bound(right, operator), bound(left, turned)) {
                // Two numbers have no series.
                (Some(_), Some(_)) | (None, None) => (expression, None),
                (Some(bound), None) => (left, Some(bound)),
                (None, Some(bound)) => (right, Some(bound)),
            }
        }
        _ => (expression, None),
    }
}

/// The sign of a comparison, and its sign with the sides exchanged.
fn comparison(operator: TokenType) -> Option<(&'static str, &'static str)> {
    const SIGNS: [(&str, &str); 6] =
        [("==", "=="), ("!=", "!="), (">", "<"), ("<", ">"), (">=", "<="), ("<=", ">=")];
    let sign = operator.to_string();
    SIGNS.into_iter().find(|(one, _)| operator.is_comparison_operator() && *one == sign)
}

/// The number that an expression is, without evaluating anything.
fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::NumberLiteral(literal) => Some(literal.val),
        Expr::Paren(paren) => number(&paren.expr),
        Expr::Unary(unary) => number(&unary.expr).map(|value| -value),
        _ => None,
    }
}

/// The expression as text, if the text is read back as the same expression.
fn printed(expression: &Expr) -> Option<String> {
    let text = expression.to_string();
    (text::parse(&text).ok()? == *expression).then_some(text)
}

/// The series of one instance. If each node could compute the expression for itself, the selectors choose the instance; otherwise
/// series of other instances may be part of it, and only the results are chosen.
fn of_instance(query: &str, instance: &str) -> String {
    let is_of_one = compile_for_each_node(query, &EachNode { gathers: &|_| true }).is_ok();
    let narrowed = || {
        let mut tree = text::parse(query).ok()?;
        is_of_one.then(|| narrow(&mut tree, instance))?;
        printed(&tree)
    };
    narrowed().unwrap_or_else(|| {
        let instance = instance.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        // A label_replace inserts groups of its regular expression for a $.
        let instance = instance.replace('$', "$$");
        format!(
            "({query}) and on (instance) label_replace(vector(1), \"instance\", \"{instance}\", \"\", \"\")"
        )
    })
}

/// Has all selectors choose this instance.
fn narrow(expression: &mut Expr, instance: &str) {
    match expression {
        Expr::VectorSelector(selector) => choose(selector, instance),
        Expr::MatrixSelector(range) => choose(&mut range.vs, instance),
        Expr::Aggregate(aggregate) => {
            narrow(&mut aggregate.expr, instance);
            if let Some(parameter) = &mut aggregate.param {
                narrow(parameter, instance);
            }
        }
        Expr::Unary(unary) => narrow(&mut unary.expr, instance),
        Expr::Binary(binary) => {
            narrow(&mut binary.lhs, instance);
            narrow(&mut binary.rhs, instance);
        }
        Expr::Paren(paren) => narrow(&mut paren.expr, instance),
        Expr::Subquery(subquery) => narrow(&mut subquery.expr, instance),
        Expr::Call(call) => call.args.args.iter_mut().for_each(|argument| narrow(argument, instance)),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

fn choose(selector: &mut VectorSelector, instance: &str) {
    let matcher = Matcher::new(MatchOp::Equal, INSTANCE, instance);
    selector.matchers.matchers.push(matcher.clone());
    selector.matchers.or_matchers.iter_mut().for_each(|all| all.push(matcher.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, instance: Option<&str>) -> (String, Option<(&'static str, f64)>) {
        let picture = picture(text, instance).unwrap();
        (picture.query, picture.bound.map(|bound| (bound.operator, bound.value)))
    }

    #[test]
    fn the_picture_of_a_comparison_is_what_it_compares_and_its_number() {
        for (text, query, bound) in [
            ("up == 0", "up", Some(("==", 0.0))),
            ("(node_load1 > 5)", "node_load1", Some((">", 5.0))),
            ("-0.5 >= (node_x)", "(node_x)", Some(("<=", -0.5))),
            ("a / b < 0.05", "a / b", Some(("<", 0.05))),
            ("rate(a[5m]) > 1e3 and b < 2", "rate(a[5m])", Some((">", 1e3))),
            ("a > 1 unless on (x) b", "a", Some((">", 1.0))),
            ("a > b", "a > b", None),
            ("a > bool 1", "a > bool 1", None),
            ("a > 1 or b > 2", "a > 1 or b > 2", None),
            ("{\"mem.free\"} < 100", "{__name__=\"mem.free\"}", Some(("<", 100.0))),
            ("absent(up)", "absent(up)", None),
        ] {
            let (got, got_bound) = drawn(text, None);
            assert_eq!(
                (text::parse(&got).unwrap(), got_bound),
                (text::parse(query).unwrap(), bound),
                "{text}"
            );
        }
        assert!(picture("sum(", None).is_err());
    }

    #[test]
    fn of_one_instance_selectors_choose_it_where_no_other_is_part_of_the_result() {
        for (text, query) in [
            ("node_load1 > 5", "node_load1{instance=\"n\\\"1\"}"),
            (
                "sum by (instance) (rate(node_x{a=~\"1|2\"}[5m])) > 1",
                "sum by (instance) (rate(node_x{a=~\"1|2\",instance=\"n\\\"1\"}[5m]))",
            ),
            ("a / on (instance) b > 1", "a{instance=\"n\\\"1\"} / on (instance) b{instance=\"n\\\"1\"}"),
        ] {
            assert_eq!(text::parse(&drawn(text, Some("n\"1")).0), text::parse(query), "{text}");
        }
        for text in [
            "sum(node_x) > 1",
            "a > on () group_left () quantile(0.5, a)",
            "up{job=\"x\"} == 0",
            "a{b=\"$\"}",
        ] {
            let (query, _) = drawn(text, Some("n\"$1"));
            let chosen = if text.starts_with("a{") {
                "instance=\"n\\\"$1\"}"
            } else {
                ") and on (instance) label_replace(vector(1), \"instance\", \"n\\\"$$1\", \"\", \"\")"
            };
            assert!(query.ends_with(chosen), "{text}: {query}");
            assert!(text::parse(&query).is_ok(), "{query}");
        }
    }
}
