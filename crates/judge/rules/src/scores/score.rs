//! The score of one rule: counts, and the last lead times. It decides nothing.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::limits::LEADS_MAX;

/// The results of the warnings of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Score {
    /// How often it began to fire.
    pub fired: u64,
    /// Firings that are about no node.
    pub elsewhere: u64,
    /// Firings and warnings that came when the node was already down.
    pub late: u64,
    /// Warnings after which the node went down within the window.
    pub down: u64,
    /// Warnings after which the node was drained because of another rule.
    pub drained: u64,
    /// Warnings after which the node was drained because of this very rule. Nobody knows what would have happened.
    pub acted: u64,
    /// Warnings after which nothing happened.
    pub nothing: u64,
    /// Warnings with an unknown result: the node was away, or was not observed.
    pub unknown: u64,
    /// When it fired last (ms since 1970).
    pub last: i64,
    /// The last lead times in ms, oldest first.
    pub(super) leads: VecDeque<i64>,
    pub(super) lowest: Option<i64>,
    pub(super) highest: Option<i64>,
}

impl Score {
    /// All warnings; `open` of them have not ended.
    pub fn warnings(&self, open: u64) -> u64 {
        self.down + self.drained + self.acted + self.nothing + self.unknown + open
    }

    /// How much earlier than the failure it fired, in ms: the median of the last [`LEADS_MAX`], and the lowest and the highest of
    /// all times.
    pub fn leads(&self) -> Option<(i64, i64, i64)> {
        let mut sorted: Vec<i64> = self.leads.iter().copied().collect();
        sorted.sort_unstable();
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2,
            _ => *sorted.get(middle)?,
        };
        Some((median, self.lowest?, self.highest?))
    }

    pub(super) fn lead(&mut self, lead: i64) {
        self.leads.push_back(lead);
        let excess = self.leads.len().saturating_sub(LEADS_MAX);
        self.leads.drain(..excess);
        self.lowest = Some(self.lowest.map_or(lead, |known| known.min(lead)));
        self.highest = Some(self.highest.map_or(lead, |known| known.max(lead)));
    }
}

/// A failure that no rule foretold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unforetold {
    /// The node.
    pub node: String,
    /// When its silence began (ms since 1970).
    pub at: i64,
}
