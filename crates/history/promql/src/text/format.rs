//! A query written evenly: one line where that has at most 100 bytes, else a line for each part, as Prometheus writes it.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{
    AggregateExpr, AtModifier, BinModifier, Expr, LabelModifier, Offset, VectorMatchCardinality,
    VectorSelector,
};
use promql_parser::util::display_duration;

use super::durations::Numbers;
use crate::labels::METRIC_NAME;
use crate::print::{label_name, plain, quoted};

/// An expression that is longer in one line is written in several.
const LINE_BYTES_MAX: usize = 100;

/// The expression evenly, with the durations among its numbers as they stood in the text.
pub(super) fn format(expression: &Expr, numbers: Numbers) -> String {
    let part = Part::of(expression, &mut numbers.of_expression(expression));
    let mut all = String::new();
    part.write(0, &mut all);
    all
}

/// A part of a query: its one line, and how it is written in several.
struct Part {
    line: String,
    shape: Shape,
}

/// How a part that does not fit into a line is written.
enum Shape {
    /// In one line all the same.
    Whole,
    /// `OPEN(`, the parts with commas, `)`.
    Call { open: String, parts: Vec<Part> },
    /// An operator between two.
    Binary { left: Box<Part>, operator: String, right: Box<Part> },
    /// A part with something before and after it.
    Around { before: &'static str, inner: Box<Part>, after: String },
}

impl Part {
    fn whole(line: String) -> Self {
        Part { line, shape: Shape::Whole }
    }

    fn of(expression: &Expr, durations: &mut VecDeque<Option<Duration>>) -> Self {
        match expression {
            Expr::Aggregate(aggregate) => Part::aggregate(aggregate, durations),
            Expr::Unary(unary) => Part::around("-", Part::of(&unary.expr, durations), String::new()),
            Expr::Binary(binary) => {
                let left = Part::of(&binary.lhs, durations);
                let operator = format!("{}{}", binary.op, matching(binary.modifier.as_ref()));
                let right = Part::of(&binary.rhs, durations);
                let line = format!("{} {operator} {}", left.line, right.line);
                let (left, right) = (Box::new(left), Box::new(right));
                Part { line, shape: Shape::Binary { left, operator, right } }
            }
            Expr::Paren(paren) => Part::call(String::new(), vec![Part::of(&paren.expr, durations)]),
            Expr::Subquery(subquery) => {
                let step = subquery.step.as_ref().map(display_duration).unwrap_or_default();
                let range = display_duration(&subquery.range);
                let moved = moved(subquery.at.as_ref(), subquery.offset.as_ref());
                Part::around("", Part::of(&subquery.expr, durations), format!("[{range}:{step}]{moved}"))
            }
            Expr::NumberLiteral(number) => Part::whole(literal(number.val, durations.pop_front().flatten())),
            Expr::StringLiteral(text) => Part::whole(quoted(&text.val)),
            Expr::VectorSelector(selector) => Part::whole(format!(
                "{}{}",
                selected(selector),
                moved(selector.at.as_ref(), selector.offset.as_ref())
            )),
            Expr::MatrixSelector(matrix) => Part::whole(format!(
                "{}[{}]{}",
                selected(&matrix.vs),
                display_duration(&matrix.range),
                moved(matrix.vs.at.as_ref(), matrix.vs.offset.as_ref())
            )),
            Expr::Call(call) => {
                let parts = call.args.args.iter().map(|part| Part::of(part, durations)).collect();
                Part::call(call.func.name.to_owned(), parts)
            }
            other => Part::whole(other.to_string()),
        }
    }

    fn aggregate(aggregate: &AggregateExpr, durations: &mut VecDeque<Option<Duration>>) -> Self {
        let grouping = match &aggregate.modifier {
            Some(LabelModifier::Exclude(labels)) => format!(" without ({}) ", names(&labels.labels)),
            Some(LabelModifier::Include(labels)) if !labels.labels.is_empty() => {
                format!(" by ({}) ", names(&labels.labels))
            }
            _ => String::new(),
        };
        let parts = aggregate.param.iter().chain([&aggregate.expr]);
        let parts = parts.map(|part| Part::of(part, durations)).collect();
        Part::call(format!("{}{grouping}", aggregate.op), parts)
    }

    fn call(open: String, parts: Vec<Part>) -> Self {
        let lines: Vec<&str> = parts.iter().map(|part| part.line.as_str()).collect();
        let line = format!("{open}({})", lines.join(", "));
        Part { line, shape: Shape::Call { open, parts } }
    }

    fn around(before: &'static str, inner: Part, after: String) -> Self {
        let line = format!("{before}{}{after}", inner.line);
        Part { line, shape: Shape::Around { before, inner: Box::new(inner), after } }
    }

    /// Writes it, indented by this many steps.
    fn write(&self, level: usize, all: &mut String) {
        let indent = "  ".repeat(level);
        if self.line.len() <= LINE_BYTES_MAX {
            all.push_str(&indent);
            all.push_str(&self.line);
            return;
        }
        match &self.shape {
            Shape::Whole => {
                all.push_str(&indent);
                all.push_str(&self.line);
            }
            Shape::Call { open, parts } => {
                all.push_str(&format!("{indent}{open}(\n"));
                for (at, part) in parts.iter().enumerate() {
                    all.push_str(if at > 0 { ",\n" } else { "" });
                    part.write(level + 1, all);
                }
                all.push_str(&format!("\n{indent})"));
            }
            Shape::Binary { left, operator, right } => {
                left.write(level + 1, all);
                all.push_str(&format!("\n{indent}{operator}\n"));
                right.write(level + 1, all);
            }
            Shape::Around { before, inner, after } => {
                let mut text = String::new();
                inner.write(level, &mut text);
                all.push_str(&format!("{indent}{before}{}{after}", text.trim_start()));
            }
        }
    }
}

/// A number: with a duration, as that.
fn literal(value: f64, duration: Option<Duration>) -> String {
    let mut text = String::new();
    match duration {
        Some(duration) => {
            text.push_str(if value < 0.0 { "-" } else { "" });
            text.push_str(&display_duration(&duration));
        }
        None => text.push_str(&plain(value)),
    }
    text
}

/// The name and the conditions of a selector, in the order of their texts.
fn selected(selector: &VectorSelector) -> String {
    let name = selector.name.as_deref().unwrap_or_default();
    let is_name = |matcher: &&Matcher| {
        matcher.name == METRIC_NAME
            && matcher.op == MatchOp::Equal
            && matcher.value == name
            && !name.is_empty()
    };
    let mut matchers: Vec<String> = selector
        .matchers
        .matchers
        .iter()
        .filter(|matcher| !is_name(matcher))
        .map(|matcher| format!("{}{}{}", label_name(&matcher.name), matcher.op, quoted(&matcher.value)))
        .collect();
    matchers.sort();
    if matchers.is_empty() && !name.is_empty() {
        return name.to_owned();
    }
    format!("{name}{{{}}}", matchers.join(","))
}

/// `@` and `offset`, each after a blank.
fn moved(at: Option<&AtModifier>, offset: Option<&Offset>) -> String {
    let mut all = match at {
        Some(AtModifier::At(time)) => format!(" @ {:.3}", seconds(*time)),
        Some(word) => format!(" {word}"),
        None => String::new(),
    };
    match offset {
        Some(Offset::Pos(Duration::ZERO) | Offset::Neg(Duration::ZERO)) | None => {}
        Some(offset) => all.push_str(&format!(" offset {offset}")),
    }
    all
}

/// Seconds since 1970, also of times before it.
fn seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// `bool`, and how series are matched, each after a blank.
fn matching(modifier: Option<&BinModifier>) -> String {
    let Some(modifier) = modifier else { return String::new() };
    let mut all = String::from(if modifier.return_bool { " bool" } else { "" });
    match &modifier.matching {
        Some(LabelModifier::Include(labels)) => all.push_str(&format!(" on ({})", names(&labels.labels))),
        Some(LabelModifier::Exclude(labels)) if !labels.labels.is_empty() => {
            all.push_str(&format!(" ignoring ({})", names(&labels.labels)));
        }
        _ => {}
    }
    match &modifier.card {
        VectorMatchCardinality::ManyToOne(labels) => {
            all.push_str(&format!(" group_left ({})", names(&labels.labels)));
        }
        VectorMatchCardinality::OneToMany(labels) => {
            all.push_str(&format!(" group_right ({})", names(&labels.labels)));
        }
        VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany => {}
    }
    all
}

fn names(labels: &[String]) -> String {
    labels.iter().map(|name| label_name(name)).collect::<Vec<_>>().join(", ")
}
