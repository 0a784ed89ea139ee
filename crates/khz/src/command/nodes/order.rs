//! The order of the nodes in a list, and how many of them are printed: `--sort` and `--top`. What is unknown comes last.

use clap::{Args, ValueEnum};
use khz_ask::NodeStatus;
use serde_json::Value;

use crate::show::order::largest_first;

/// `--sort` and `--top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct Order {
    /// Order by the name of the node; by its state (missing and down first); or by a number, the largest first. What is
    /// unknown comes last.
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<Sort>,
    /// Only the first N of this order. The exit code is about all of them.
    #[arg(long, value_name = "N", requires = "sort", value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,
}

/// What decides the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The name.
    Node,
    /// Missing, down, left, up.
    State,
    /// Rows that came.
    Rows,
    /// Rows that were lost.
    Lost,
    /// Rows that came late.
    Late,
    /// How far its clock is off, in either direction.
    Offset,
    /// The time to the node and back.
    Rtt,
}

/// States, the worst first.
const STATES: [&str; 4] = ["missing", "down", "left", "up"];

impl Order {
    /// Puts nodes, which are in the order of their names, into this order, and drops all but the first ones.
    pub fn arrange(&self, nodes: &mut Vec<(NodeStatus, &Value)>) {
        match self.sort {
            None | Some(Sort::Node) => {}
            Some(Sort::State) => nodes.sort_by_key(|(status, _)| {
                STATES.iter().position(|state| status.is(state)).unwrap_or(STATES.len())
            }),
            Some(by) => nodes.sort_by(|(a, _), (b, _)| largest_first(by.number(a), by.number(b))),
        }
        if let Some(top) = self.top {
            nodes.truncate(usize::try_from(top).unwrap_or(usize::MAX));
        }
    }
}

impl Sort {
    /// `None`: it is not known, or the order has no number.
    fn number(self, status: &NodeStatus) -> Option<f64> {
        let seconds = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok().map(f64::abs);
        let mut lanes = status.lanes.iter();
        let sum = match self {
            Sort::Node | Sort::State => return None,
            Sort::Offset => return seconds(&status.clock_offset),
            Sort::Rtt => return seconds(&status.round_trip),
            Sort::Rows => lanes.try_fold(0u64, |sum, lane| sum.checked_add(lane.rows)),
            Sort::Lost => lanes.try_fold(0u64, |sum, lane| sum.checked_add(lane.lost)),
            Sort::Late => lanes.try_fold(0u64, |sum, lane| sum.checked_add(lane.late)),
        };
        sum.filter(|_| !status.lanes.is_empty()).map(|sum| sum as f64)
    }
}
