//! Which of many nodes is odd: it has a number that few others have. What counts is the distance to a few nearest neighbours, not to
//! the median: where half of a cluster works and half is free, neither half is odd.

use super::node::Node;

/// Nodes that must have a number before any of them counts as odd in it.
const NODES_MIN: usize = 5;
/// A node is odd that is this many times as far from its neighbours as is usual.
pub const ODD_MIN: f64 = 5.0;
/// Nodes that are alike are not odd if they are more than this share of all, or more than two.
const NEIGHBOURS: usize = 20;

/// A number of a node.
type Number = fn(&Node) -> Option<f64>;

/// What is compared: the name, the number, and the distance that is usual at least.
const COMPARED: [(&str, Number, f64); 6] = [
    ("cpu", |node| node.summary().cpu, 0.03),
    ("mem", |node| node.summary().memory, 0.03),
    ("io", |node| node.summary().io_pressure, 0.02),
    ("memory pressure", |node| node.summary().memory_pressure, 0.02),
    ("disk", |node| node.summary().disk, 0.05),
    ("load", |node| node.summary().load, 0.5),
];

/// How a node differs most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odd {
    /// In what.
    pub what: &'static str,
    /// How many times the usual distance; below 0: it has less than most.
    pub far: f64,
}

/// Of each node how it differs most; `None`: it is as the others, or nothing of it is known.
pub fn odd(nodes: &[&Node]) -> Vec<Option<Odd>> {
    let mut all = vec![None::<Odd>; nodes.len()];
    for (what, number, least) in COMPARED {
        let numbers: Vec<Option<f64>> =
            nodes.iter().map(|node| (!node.is_away()).then(|| number(node)).flatten()).collect();
        for (odd, far) in all.iter_mut().zip(distances(&numbers, least)) {
            let Some(far) = far.filter(|far| far.abs() >= ODD_MIN) else { continue };
            if odd.is_none_or(|known| known.far.abs() < far.abs()) {
                *odd = Some(Odd { what, far });
            }
        }
    }
    all
}

fn distances(numbers: &[Option<f64>], least: f64) -> Vec<Option<f64>> {
    let mut known: Vec<f64> = numbers.iter().flatten().copied().collect();
    if known.len() < NODES_MIN {
        return vec![None; numbers.len()];
    }
    known.sort_by(f64::total_cmp);
    let middle = known[known.len() / 2];
    let neighbours = (known.len() / NEIGHBOURS).max(2);
    let alone: Vec<f64> = (0..known.len()).map(|at| to_neighbour(&known, at, neighbours)).collect();
    let usual = median(alone.clone()).max(least);
    let far = |number: f64| {
        let place = known.partition_point(|other| *other < number);
        let far = alone.get(place).copied().unwrap_or(0.0) / usual;
        if number < middle { -far } else { far }
    };
    numbers.iter().map(|number| number.map(far)).collect()
}

/// The distance to the neighbour of this rank, among numbers in their order.
fn to_neighbour(known: &[f64], at: usize, rank: usize) -> f64 {
    // The nearest `rank` others and the number itself are a window of the order.
    let first = at.saturating_sub(rank);
    let windows = (first..=at).filter_map(|from| Some(known[at] - known[from]).zip(known.get(from + rank)));
    windows.map(|(below, above)| below.max(above - known[at])).fold(f64::INFINITY, f64::min)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_far_from_all_others_is_odd() {
        let mut numbers: Vec<Option<f64>> = (0..20).map(|at| Some(0.2 + f64::from(at) / 1_000.0)).collect();
        numbers.push(Some(0.9));
        numbers.push(None);
        let far = distances(&numbers, 0.03);
        assert!(far[20].is_some_and(|far| far > 20.0) && far[21].is_none(), "{far:?}");
        assert!(far[..20].iter().flatten().all(|far| far.abs() < 1.0));
    }

    #[test]
    fn two_halves_that_do_different_things_are_not_odd_and_one_between_them_is() {
        let mut numbers: Vec<Option<f64>> =
            (0..40).map(|at| Some(if at % 2 == 0 { 0.01 } else { 0.95 })).collect();
        numbers.push(Some(0.5));
        let far = distances(&numbers, 0.03);
        assert!(far[..40].iter().flatten().all(|far| far.abs() < 1.0), "{far:?}");
        assert!(far[40].is_some_and(|far| far.abs() > ODD_MIN));
    }

    #[test]
    fn among_a_few_nobody_is_odd_and_equal_ones_are_not_either() {
        assert_eq!(distances(&[Some(0.0), Some(0.0), Some(1.0)], 0.1), [None, None, None]);
        let same = vec![Some(0.5); 9];
        assert!(distances(&same, 0.03).iter().flatten().all(|far| *far == 0.0));
    }
}
