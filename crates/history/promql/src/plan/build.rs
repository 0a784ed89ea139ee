//! Makes the plan of a query out of the parser's tree.

use promql_parser::label::Labels;
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, SubqueryExpr, VectorMatchCardinality,
};

use super::selector::{millis, moved, selector};
use super::{Aggregate, Aggregator, Binary, Gives, Grouping, Kind, Many, Matching, Node, Subquery, operator};
use crate::error::QueryError;
use crate::functions::Function;
use crate::limits::Limits;
use crate::steps::Steps;
use crate::text::{Position, Positions};

/// Inputs of the plan that are not in the tree.
pub(crate) struct Build {
    /// The steps of the query, for `@ start()` and `@ end()`.
    pub(crate) whole: Steps,
    pub(crate) limits: Limits,
}

/// The plan of a parsed query.
pub(crate) fn plan(tree: &Expr, text: &str, build: &Build) -> Result<Node, QueryError> {
    let mut positions = Positions::new(text);
    let built = build.node(tree, &mut positions);
    built.map_err(|error| match (error, positions.refused()) {
        (QueryError::Bad(problem), Some(at)) => {
            QueryError::Bad(format!("{}: {problem}", at.line_and_column(text)))
        }
        (error, _) => error,
    })
}

/// A text that is no query.
pub(super) fn bad(problem: impl std::fmt::Display) -> QueryError {
    QueryError::Bad(format!("parse error: {problem}"))
}

/// The kind of an expression, the type of its result, and whether it is the same at all steps.
type Part = (Kind, Gives, bool);

impl Build {
    fn node(&self, tree: &Expr, positions: &mut Positions<'_>) -> Result<Node, QueryError> {
        let at = positions.begin();
        self.node_at(at, tree, positions).inspect_err(|_| positions.refuse(at))
    }

    fn node_at(&self, at: Position, tree: &Expr, positions: &mut Positions<'_>) -> Result<Node, QueryError> {
        positions.take_signs(tree);
        let (kind, gives, invariant) = match tree {
            Expr::Paren(inner) => {
                positions.take("(");
                let inner = self.node(&inner.expr, positions)?;
                positions.take(")");
                return Ok(Node { at, wrapped: true, ..inner });
            }
            Expr::NumberLiteral(number) => {
                positions.take_any();
                (Kind::Number(number.val), Gives::Scalar, true)
            }
            Expr::StringLiteral(text) => {
                positions.take_any();
                (Kind::Text(text.val.clone()), Gives::Text, true)
            }
            Expr::VectorSelector(tree) => {
                let mut places = positions.take_selector(tree.name.is_some());
                positions.take_modifiers_of(&mut places);
                let selector = selector(tree, self.whole, places)?;
                let invariant = selector.moved.fixed.is_some();
                (Kind::Selector(selector), Gives::Vector, invariant)
            }
            Expr::MatrixSelector(tree) => {
                let mut places = positions.take_selector(tree.vs.name.is_some());
                positions.take_range();
                positions.take_modifiers_of(&mut places);
                let selector = selector(&tree.vs, self.whole, places)?;
                let invariant = selector.moved.fixed.is_some();
                (Kind::Range(selector, millis(tree.range)), Gives::Matrix, invariant)
            }
            Expr::Subquery(tree) => self.subquery(tree, positions)?,
            Expr::Unary(tree) => {
                positions.take("-");
                let operand = self.node(&tree.expr, positions)?;
                let (gives, invariant) = (operand.gives, operand.invariant);
                if !matches!(gives, Gives::Scalar | Gives::Vector) {
                    return Err(bad(
                        "unary expression only allowed on expressions of type scalar or instant vector",
                    ));
                }
                (Kind::Negate(Box::new(operand)), gives, invariant)
            }
            Expr::Call(tree) => self.call(tree, positions)?,
            Expr::Aggregate(tree) => self.aggregate(tree, positions)?,
            Expr::Binary(tree) => self.binary(tree, positions)?,
            Expr::Extension(_) => return Err(bad("an unknown expression")),
        };
        Ok(Node { kind, gives, at, own: at, invariant, wrapped: false })
    }

    fn subquery(&self, tree: &SubqueryExpr, positions: &mut Positions<'_>) -> Result<Part, QueryError> {
        let inner = self.node(&tree.expr, positions)?;
        positions.take_range();
        positions.take_modifiers();
        if inner.gives != Gives::Vector {
            return Err(bad("subquery is only allowed on instant vector"));
        }
        let moved = moved(tree.at.as_ref(), tree.offset.as_ref(), self.whole)?;
        let step = tree.step.map_or(self.limits.subquery_step, millis).max(1);
        let subquery = Subquery { inner, range: millis(tree.range), step, moved };
        Ok((Kind::Subquery(Box::new(subquery)), Gives::Matrix, moved.fixed.is_some()))
    }

    fn call(&self, tree: &Call, positions: &mut Positions<'_>) -> Result<Part, QueryError> {
        let name = tree.func.name;
        let function = Function::named(name).ok_or_else(|| {
            bad(if tree.func.experimental {
                format!("function {name:?} is experimental in Prometheus and is not there")
            } else {
                format!("unknown function with name {name:?}")
            })
        })?;
        positions.take_any();
        positions.take("(");
        let mut arguments = Vec::with_capacity(tree.args.len());
        for tree in &tree.args.args {
            arguments.push(self.node(tree, positions)?);
            positions.take(",");
        }
        positions.take(")");
        function.check(name, &arguments).map_err(bad)?;
        let invariant =
            !function.needs_time(arguments.len()) && arguments.iter().all(|argument| argument.invariant);
        Ok((Kind::Call(function, arguments), function.gives(), invariant))
    }

    fn aggregate(&self, tree: &AggregateExpr, positions: &mut Positions<'_>) -> Result<Part, QueryError> {
        let name = tree.op.to_string();
        let aggregator = Aggregator::named(&name)
            .ok_or_else(|| bad(format!("{name}() is experimental in Prometheus and is not there")))?;
        positions.take_any();
        positions.take_grouping();
        positions.take("(");
        let mut parameter = None;
        if let Some(tree) = &tree.param {
            parameter = Some(self.node(tree, positions)?);
            positions.take(",");
        }
        let operand = self.node(&tree.expr, positions)?;
        positions.take(")");
        positions.take_grouping();
        let wanted = match aggregator {
            Aggregator::Quantile | Aggregator::Topk | Aggregator::Bottomk => Some(Gives::Scalar),
            Aggregator::CountValues => Some(Gives::Text),
            _ => None,
        };
        if operand.gives != Gives::Vector || parameter.as_ref().map(|node: &Node| node.gives) != wanted {
            return Err(bad(format!("wrong type of an argument of {name}()")));
        }
        let (without, labels) = match &tree.modifier {
            Some(LabelModifier::Exclude(labels)) => (true, sorted(labels)),
            Some(LabelModifier::Include(labels)) => (false, sorted(labels)),
            None => (false, Vec::new()),
        };
        let invariant = operand.invariant && parameter.as_ref().is_none_or(|parameter| parameter.invariant);
        let grouping = Grouping { without, labels };
        let aggregate = Aggregate { aggregator, grouping, parameter, operand };
        Ok((Kind::Aggregate(Box::new(aggregate)), Gives::Vector, invariant))
    }

    fn binary(&self, tree: &BinaryExpr, positions: &mut Positions<'_>) -> Result<Part, QueryError> {
        let name = tree.op.to_string();
        let operator = operator(&name).ok_or_else(|| bad(format!("unknown operator {name:?}")))?;
        let left = self.node(&tree.lhs, positions)?;
        positions.take_operator(tree);
        let right = self.node(&tree.rhs, positions)?;
        let known = |node: &Node| matches!(node.gives, Gives::Scalar | Gives::Vector);
        if !known(&left) || !known(&right) {
            return Err(bad("binary expression must contain only scalar and instant vector types"));
        }
        let scalars = left.gives == Gives::Scalar && right.gives == Gives::Scalar;
        if scalars && operator.compares() && !tree.return_bool() {
            return Err(bad("comparisons between scalars must use BOOL modifier"));
        }
        if operator.is_of_sets() && (left.gives == Gives::Scalar || right.gives == Gives::Scalar) {
            return Err(bad(format!("set operator {name:?} not allowed in binary scalar expression")));
        }
        let matching = matching(tree)?;
        if operator.is_of_sets() && matching.many != Many::Neither {
            return Err(bad(format!("no grouping allowed for {name:?} operation")));
        }
        let gives = if scalars { Gives::Scalar } else { Gives::Vector };
        let invariant = left.invariant && right.invariant;
        let binary = Binary { operator, bool: tree.return_bool(), matching, left, right };
        Ok((Kind::Binary(Box::new(binary)), gives, invariant))
    }
}

/// Labels of the tree, each once.
fn sorted(labels: &Labels) -> Vec<String> {
    let mut names = labels.labels.clone();
    names.sort();
    names.dedup();
    names
}

/// Which series belong together, as the tree says it.
fn matching(tree: &BinaryExpr) -> Result<Matching, QueryError> {
    let mut matching = Matching { on: false, labels: Vec::new(), many: Many::Neither, include: Vec::new() };
    let Some(modifier) = &tree.modifier else { return Ok(matching) };
    if modifier.fill_values.lhs.is_some() || modifier.fill_values.rhs.is_some() {
        return Err(bad("fill modifiers are experimental in Prometheus and are not there"));
    }
    if let Some(labels) = &modifier.matching {
        (matching.on, matching.labels) = (labels.is_include(), sorted(labels.labels()));
    }
    let many = match &modifier.card {
        VectorMatchCardinality::ManyToOne(labels) => Some((Many::Left, labels)),
        VectorMatchCardinality::OneToMany(labels) => Some((Many::Right, labels)),
        _ => None,
    };
    if let Some((many, include)) = many {
        (matching.many, matching.include) = (many, include.labels.clone());
    }
    Ok(matching)
}
