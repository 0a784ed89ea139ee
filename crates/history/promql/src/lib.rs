//! PromQL: the language of Prometheus 3, evaluated over anything that has samples ([`Source`]). Times are milliseconds since
//! 1970 and values are doubles, as in Prometheus. Nothing here reads files, knows nodes or starts threads.

#![forbid(unsafe_code)]

mod annotations;
mod answer;
mod budget;
mod calendar;
mod check;
mod compile;
mod each_node;
mod engine;
mod error;
mod eval;
mod expression;
mod fold;
mod functions;
mod grid;
mod labels;
pub mod limits;
mod matcher;
mod names;
mod picture;
mod plan;
mod print;
mod re2;
mod run;
mod source;
mod steps;
mod summary;
mod text;

pub use answer::{Answer, MatrixSeries, Value, VectorSample};
pub use calendar::Moment;
pub use check::{ResultType, check, place};
pub use compile::{CHAIN_MAX, FindChannel, compile, compile_channel};
pub use each_node::{EachNode, ForEachNode, compile_for_each_node};
pub use engine::Engine;
pub use error::QueryError;
pub use expression::{Expression, ExpressionError};
pub use labels::{LabelSet, METRIC_NAME};
pub use limits::Limits;
pub use matcher::{Matcher, MatcherError, Operator, literal};
pub use picture::{Bound, Picture, picture};
pub use print::{label_text, plain, put_value};
pub use run::Run;
pub use source::{Selection, SeriesId, Sink, Source, Summaries, is_stale, stale};
pub use summary::Summary;
pub use text::{format, metric_names, selector, shown_text};
