//! Plans: compiled expressions that a node executes on each of its rows, so that only requested results leave the node.
//!
//! A hub compiles an expression ([`Plan`], steps that use only earlier steps) and sends it as bytes ([`Plan::put`]). The node
//! checks every limit itself ([`Plan::take`]), binds the plan to the slots of a lane ([`Bound::new`]), and executes it row by row
//! ([`Bound::row`]) without allocating. The results of a step are fixed when the plan is bound: which series, with which labels.
//! A row only fills in their values. A missing value is [`ABSENT`].
//!
//! A [`Handler`] has a plan for the values of rows, and says which rows are sent: while a condition holds, when it begins to hold,
//! when a value has changed, or one in a while ([`BoundHandler::row`]).
//!
//! Parses no text, reads no clock, and knows no nodes, lanes or channels.

#![forbid(unsafe_code)]

mod aggregate;
pub mod arithmetic;
mod bind;
mod bound;
mod combine;
mod error;
mod handler;
mod join;
mod labels;
pub mod limits;
mod math;
mod number;
mod plan;
mod select;
mod types;
mod window;
mod wire;

pub use bind::Identity;
pub use bound::Bound;
pub use error::PlanError;
pub use handler::{
    BoundHandler, Bucket, Deadband, Effect, Handler, Judged, PackedProgram, ResultSeries, RulePlan, Values,
    When, is_program,
};
pub use labels::{LabelSet, METRIC_NAME, RULE_METRIC};
pub use number::{ABSENT, is_absent};
pub use plan::{
    Aggregate, Aggregator, Combine, Condition, Form, Grouping, Many, Matching, Math, Operator, Over, Plan,
    Selector, Step, StepId, Test,
};
