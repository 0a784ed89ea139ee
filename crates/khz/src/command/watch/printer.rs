//! What is printed, row by row, and what every way of printing does.

use std::time::Duration;

use khz_ask::Column;
use khz_model::Nanos;

use super::rates::Shown;

/// A row, ready to be printed.
pub struct Line<'a> {
    /// The node.
    pub node: &'a str,
    /// When it was gathered, since 1970.
    pub time: Nanos,
    /// Its columns.
    pub columns: &'a [Column],
    /// What each column shows; may be shorter than the columns.
    pub shown: &'a [Shown],
    /// Rows of this node that were lost so far.
    pub lost: u64,
    /// The rate that was granted, as text.
    pub rate: &'a str,
}

/// A change of a node, of the server, or of the channel.
pub enum Change<'a> {
    /// A node has changed its state.
    Node {
        /// The node.
        node: &'a str,
        /// Its new state: up, down, left or missing.
        state: &'a str,
        /// Since when, in seconds since 1970.
        since: &'a str,
    },
    /// The server has fallen silent, or is back.
    Server {
        /// Its address.
        server: &'a str,
        /// It is silent; otherwise it is back.
        is_silent: bool,
        /// How long nothing came from it.
        span: Duration,
    },
    /// The channel that is watched was changed.
    Channel {
        /// Its name.
        name: &'a str,
        /// Its new definition.
        definition: &'a serde_json::Value,
    },
    /// The server was away, and rows come again.
    Outage {
        /// For how long.
        away: Duration,
        /// Rows that are missing, as far as that is known.
        missing: u64,
        /// Nodes of which nobody knows how many are missing.
        unknown: &'a [String],
    },
}

/// Prints rows: as lines or on a screen.
pub trait Printer {
    /// Rates are taken over at least this time.
    fn window_min(&self) -> Nanos;
    /// Prints one row.
    fn print(&mut self, line: &Line<'_>) -> std::io::Result<()>;
    /// Shows a change of a node or of the server. A sentence on stderr says it too.
    fn change(&mut self, change: &Change<'_>) -> std::io::Result<()>;
    /// Clears the screen for a sentence on stderr.
    fn clear(&mut self) -> std::io::Result<()>;
    /// The next row has not come yet: a moment for what waits.
    fn rest(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// Prints what has not been printed yet.
    fn finish(&mut self) -> std::io::Result<()>;
}
