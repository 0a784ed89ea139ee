//! The one interface that every door reads through: what is there now, what comes, what was. A single node, a
//! hub and a recorded trace answer it alike; a door never knows which of them it talks to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::metric::Metric;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::quantity::{Nanos, Rate, Stamp};
use crate::reading::Reading;
use crate::schema::Series;

/// A future that a [`Query`] hands out.
pub type WaitFor<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that answers questions about readings.
pub trait Query: Send + Sync {
    /// The nodes it knows, in name order.
    fn nodes(&self) -> Vec<NodeName>;

    /// The metrics it knows, in catalogue order.
    fn metrics(&self) -> Vec<Arc<Metric>>;

    /// The fastest rate that a reader may ask for.
    fn rate_max(&self) -> Rate;

    /// The latest reading of every series that a pattern selects. Rows older than `age_max` are gathered anew
    /// first; all who ask within one window share one gather.
    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>>;

    /// Rows as they come, for as long as the subscription lives. Whoever drops it takes the interest back.
    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError>;

    /// Rows of the last `span`, oldest first, at most `rows_max` of them, evenly thinned; columns as in a
    /// [`Delivery`], one for each node.
    fn history(
        &self,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Vec<Delivery>, QueryError>;
}

/// What a reader wants from now on.
#[derive(Clone, Debug)]
pub struct Interest {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// How often.
    pub rate: Rate,
    /// Sample at that rate even where the kernel refreshes the number more slowly.
    pub exact: bool,
}

/// A stream of rows that the reader empties by polling.
pub trait Subscription: Send {
    /// Everything since the last call, without waiting; one delivery for each node that has something new.
    fn poll(&mut self) -> Vec<Delivery>;

    /// The rate that was granted.
    fn rate(&self) -> Rate;
}

/// Some consecutive rows of one node.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The node.
    pub node: NodeName,
    /// What the columns of the rows are; the same `Arc` until it changes.
    pub columns: Arc<Vec<Series>>,
    /// The rows, oldest first. A row may be shorter than `columns`: the rest did not exist yet.
    pub rows: Vec<Row>,
    /// Rows that were overwritten before this reader fetched them.
    pub lost: u64,
}

/// All columns at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it was gathered.
    pub stamp: Stamp,
    /// One reading a column.
    pub readings: Vec<Reading>,
}

/// A series and its latest reading.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was read.
    pub series: Series,
    /// The reading.
    pub reading: Reading,
    /// When it was gathered.
    pub stamp: Stamp,
}

/// The latest readings of some nodes.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// For each node its samples, in slot order.
    pub nodes: Vec<(NodeName, Vec<Sample>)>,
    /// Nodes that a pattern names and that did not answer.
    pub missing: Vec<String>,
}

/// Why a question was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The patterns select nothing that exists.
    #[error("nothing matches {patterns}; `khz catalog` lists every metric")]
    NothingMatches {
        /// The patterns as written.
        patterns: String,
    },
    /// Faster than the ceiling.
    #[error("{asked} is above this agent's ceiling of {ceiling}")]
    AboveCeiling {
        /// What was asked.
        asked: Rate,
        /// What is possible.
        ceiling: Rate,
    },
    /// A named limit is reached.
    #[error("the limit of {limit} {what} is reached; try again when others have gone")]
    Full {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The gatherer has ended.
    #[error("the gatherer has stopped")]
    Stopped,
}
