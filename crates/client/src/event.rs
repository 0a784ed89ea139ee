//! What a subscription tells.

use std::fmt;
use std::sync::Arc;

use khz_model::{Decimal, Reading, Series, Stamp};

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The node.
    pub node: Arc<str>,
    /// Which series, with unit, kind and help.
    pub series: Series,
    /// The value, or why there is none. Exact: an integer, whose last `series.metric.places` digits stand behind the
    /// point.
    pub reading: Reading,
    /// When it was gathered, on the node's clocks.
    pub stamp: Stamp,
}

impl Value {
    /// The value with its point; `None`: there is none.
    pub fn decimal(&self) -> Option<Decimal> {
        Some(Decimal::new(self.reading.value()?, self.series.metric.places))
    }
}

/// `node7:mem.free 1024`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ", self.node, self.series)?;
        match (self.decimal(), self.reading) {
            (Some(value), _) => value.fmt(f),
            (None, Reading::Absent(why)) => write!(f, "({why})"),
            (None, Reading::Failed(fault)) => write!(f, "({fault})"),
            (None, Reading::Present(_)) => unreachable!("BUG: a present reading without a value"),
        }
    }
}

/// What a subscription tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A value that its condition lets through.
    Value(Value),
    /// Rows of a node that will not come any more: lost on the way, missed while the hub was away, or, where a node was
    /// started again, the ticks without one.
    Lost {
        /// The node.
        node: Arc<str>,
        /// How many.
        rows: u64,
    },
    /// Events that this reader was too slow for.
    Dropped {
        /// How many.
        events: u64,
    },
    /// The hub is there.
    Up,
    /// It is not, for this reason; it is looked for without end.
    Down {
        /// Why.
        problem: String,
    },
    /// The hub will not, for this reason, or gives less than was asked for.
    Told {
        /// False: nothing will come.
        granted: bool,
        /// Why.
        text: String,
    },
}
