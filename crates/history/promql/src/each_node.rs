//! Compiles an expression over the series of all nodes, if each node can compute its part by itself. Then the results of all nodes
//! together equal the result over all of them.

use khz_plan::Plan;

use crate::compile::{MAY_CONTAIN, compile};
use crate::error::QueryError;
use crate::labels::METRIC_NAME;
use crate::limits::Limits;
use crate::matcher::Operator;
use crate::plan::{
    Aggregator, Binary, Build, Grouping, Kind, Many, Node, Operator as Operation, Selector, plan,
};
use crate::steps::Steps;
use crate::text::{self, Position};

/// The label that names the node of a series.
pub(crate) const INSTANCE: &str = "instance";
/// The label that says who gathered it.
const JOB: &str = "job";
/// Labels that the hub gives to series: a node does not know them.
const OF_THE_HUB: [&str; 2] = [INSTANCE, JOB];

/// What nodes have.
pub struct EachNode<'a> {
    /// Whether nodes gather a metric of this name.
    pub gathers: &'a dyn Fn(&str) -> bool,
}

/// What each node computes.
#[derive(Clone, Debug)]
pub struct ForEachNode {
    /// By this plan.
    pub plan: Plan,
    /// Its series have the label `job` at the hub. They always have `instance`; a node gives neither.
    pub has_job: bool,
}

/// Compiles an expression over the series of all nodes for each of them.
///
/// # Errors
///
/// Returns [`QueryError::Bad`] if no node can compute its part by itself, with line and column: aggregations and operators that mix
/// nodes, series that no node has, and all that [`crate::compile`] refuses.
pub fn compile_for_each_node(text: &str, nodes: &EachNode<'_>) -> Result<ForEachNode, QueryError> {
    let tree = text::parse(text)?;
    let node = plan(&tree, text, &Build { whole: Steps::instant(0), limits: Limits::default() })?;
    // An expression that the node cannot compute at all comes first: this is the simpler reason.
    let plan = compile(text)?;
    let check = Check { text, nodes };
    match check.node(&node)? {
        Some(Labels { has_job }) => Ok(ForEachNode { plan, has_job }),
        None => check.refuse(node.at, "it has no series of a node"),
    }
}

/// Which labels of the hub series have, beside `instance`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Labels {
    has_job: bool,
}

struct Check<'a> {
    text: &'a str,
    nodes: &'a EachNode<'a>,
}

impl Check<'_> {
    fn refuse<T>(&self, at: Position, problem: &str) -> Result<T, QueryError> {
        Err(QueryError::Bad(format!("{problem} {}; {MAY_CONTAIN}", at.place(self.text))))
    }

    /// The labels of the series of an expression; `None`: it has no series of nodes.
    fn node(&self, node: &Node) -> Result<Option<Labels>, QueryError> {
        match &node.kind {
            Kind::Number(_) | Kind::Text(_) => Ok(None),
            Kind::Selector(selector) | Kind::Range(selector, _) => self.selector(selector, node.at).map(Some),
            Kind::Subquery(subquery) => self.node(&subquery.inner),
            Kind::Negate(operand) => self.node(operand),
            Kind::Call(_, arguments) => {
                let mut labels = None;
                for argument in arguments {
                    labels = labels.or(self.node(argument)?);
                }
                Ok(labels)
            }
            Kind::Aggregate(aggregate) => {
                let Some(labels) = self.node(&aggregate.operand)? else { return Ok(None) };
                if !keeps(INSTANCE, &aggregate.grouping) {
                    let problem = "this aggregation mixes the series of several nodes: keep them apart with by (instance)";
                    return self.refuse(node.at, problem);
                }
                let chooses = matches!(aggregate.aggregator, Aggregator::Topk | Aggregator::Bottomk);
                let has_job = labels.has_job && (chooses || keeps(JOB, &aggregate.grouping));
                Ok(Some(Labels { has_job }))
            }
            Kind::Binary(binary) => self.binary(binary, node.at),
        }
    }

    fn selector(&self, selector: &Selector, at: Position) -> Result<Labels, QueryError> {
        let mut name = None;
        for matcher in &selector.matchers {
            if OF_THE_HUB.contains(&&*matcher.name) {
                let problem =
                    format!("it chooses by the label {}, which the hub gives to series", matcher.name);
                return self.refuse(at, &problem);
            }
            if matcher.name == METRIC_NAME {
                match matcher.operator {
                    Operator::Equal => name = Some(&*matcher.value),
                    _ => {
                        return self.refuse(
                            at,
                            "it chooses by a pattern of names, and there may be others at the hub",
                        );
                    }
                }
            }
        }
        match name {
            // khz's own names have a point, and their series no job.
            Some(name) if (self.nodes.gathers)(name) => Ok(Labels { has_job: !name.contains('.') }),
            Some(name) => self.refuse(at, &format!("no node gathers {name}")),
            None => self.refuse(at, "it names no metric, and there may be others at the hub"),
        }
    }

    fn binary(&self, binary: &Binary, at: Position) -> Result<Option<Labels>, QueryError> {
        let (left, right) = match (self.node(&binary.left)?, self.node(&binary.right)?) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return Ok(left.or(right)),
        };
        let matching = Grouping { without: !binary.matching.on, labels: binary.matching.labels.clone() };
        if !keeps(INSTANCE, &matching) {
            return self
                .refuse(at, "this operator matches series of different nodes: match on(instance), too");
        }
        let labels = match (binary.operator, binary.matching.many) {
            (Operation::Or, _) if left != right => {
                return self.refuse(
                    at,
                    "one of its sides has the label job, which the hub gives, and the other one has not",
                );
            }
            (Operation::And | Operation::Or | Operation::Unless, _) | (_, Many::Left) => left,
            (_, Many::Right) => right,
            _ => Labels { has_job: left.has_job && keeps(JOB, &matching) },
        };
        Ok(Some(labels))
    }
}

/// True if series with different values of this label are never in one group.
fn keeps(label: &str, grouping: &Grouping) -> bool {
    let is_listed = grouping.labels.iter().any(|listed| listed == label);
    is_listed != grouping.without
}
