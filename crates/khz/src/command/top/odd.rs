//! Which nodes of the screen are odd, and in which numbers. `command/odd.rs` computes how far a number is from those of the others.

use super::node::Node;
pub use crate::command::odd::ODD_MIN;
use crate::command::odd::distances;

/// Nodes that must have a number before any of them counts as odd in it.
const NODES_MIN: usize = 5;

/// A number of a node.
type Number = fn(&Node) -> Option<f64>;

/// The compared numbers: the name, the number, and the smallest usual distance.
const COMPARED: [(&str, Number, f64); 8] = [
    ("cpu", |node| node.summary().cpu, 0.03),
    ("mem", |node| node.summary().memory, 0.03),
    ("io", |node| node.summary().io_pressure, 0.02),
    ("wait", |node| node.summary().cpu_pressure, 0.05),
    ("mem wait", |node| node.summary().memory_pressure, 0.02),
    ("steal", |node| node.summary().steal, 0.02),
    ("disk", |node| node.summary().disk, 0.05),
    ("load", |node| node.summary().load, 0.5),
];

/// In what a node differs, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// In what.
    pub what: &'static str,
    /// It has more than most.
    pub more: bool,
}

/// How a node differs in one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odd {
    /// In what.
    pub what: &'static str,
    /// The multiple of the usual distance; below 0: the node has less than most.
    pub far: f64,
}

impl Odd {
    /// In what, and in which direction.
    pub fn way(&self) -> Way {
        Way { what: self.what, more: self.far > 0.0 }
    }
}

/// For each node all its differences; none: it is like the others, or nothing is known of it.
pub fn all_odd(nodes: &[&Node]) -> Vec<Vec<Odd>> {
    let mut all = vec![Vec::new(); nodes.len()];
    for (what, number, least) in COMPARED {
        let numbers: Vec<Option<f64>> =
            nodes.iter().map(|node| (!node.is_away()).then(|| number(node)).flatten()).collect();
        for (odd, far) in all.iter_mut().zip(distances(&numbers, least, NODES_MIN)) {
            odd.extend(far.filter(|far| far.abs() >= ODD_MIN).map(|far| Odd { what, far }));
        }
    }
    all
}

/// For each node its largest difference.
pub fn odd(nodes: &[&Node]) -> Vec<Option<Odd>> {
    let largest = |odd: Vec<Odd>| odd.into_iter().rev().max_by(|a, b| a.far.abs().total_cmp(&b.far.abs()));
    all_odd(nodes).into_iter().map(largest).collect()
}
