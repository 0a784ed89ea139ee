//! The events of a subscription: a value, lost rows, dropped events, a hub that is connected or not, a notice.

use std::fmt;
use std::sync::Arc;

use khz_model::{Number, Reading, Series, Stamp};

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The node.
    pub node: Arc<str>,
    /// The series, with unit, kind and help.
    pub series: Series,
    /// The value, or why there is none. Exact: an integer whose last `series.metric.places` digits come after
    /// the point.
    pub reading: Reading,
    /// When it was gathered, by the node's clocks.
    pub stamp: Stamp,
}

impl Value {
    /// The value: an exact decimal, a double where it was derived, or labels. `None`: there is none.
    pub fn value(&self) -> Option<khz_model::Value> {
        self.series.metric.format().value(self.reading)
    }

    /// The number; `None`: there is none, or the value is labels.
    pub fn number(&self) -> Option<Number> {
        self.series.metric.format().number(self.reading.value()?)
    }
}

/// `node7:mem.free 1024`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ", self.node, self.series)?;
        match self.series.metric.format().value_or_why(self.reading) {
            Ok(value) => value.fmt(f),
            Err(why) => write!(f, "({why})"),
        }
    }
}

/// An event of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A value that passes the condition.
    Value(Value),
    /// Rows of a node that will not come: lost on the way, or missed while the hub was away. If a node was
    /// restarted, the ticks for which it has no row.
    Lost {
        /// The node.
        node: Arc<str>,
        /// The number of rows.
        rows: u64,
    },
    /// Events that were dropped because the reader was too slow.
    Dropped {
        /// The number of events.
        events: u64,
    },
    /// The hub is connected.
    Up,
    /// The hub is not connected, for this reason; the client keeps trying.
    Down {
        /// Why.
        problem: String,
    },
    /// The hub refuses the subscription for this reason, or gives less than was asked for.
    Notice {
        /// False: no values will come.
        granted: bool,
        /// Why.
        text: String,
    },
}
