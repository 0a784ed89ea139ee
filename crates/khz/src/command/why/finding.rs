//! Which node is far from its peers, in what, and since when. It knows no store: a grid of numbers comes in, findings come out.

use super::grid::{Grid, Row};
use super::resources::Worse;
use crate::command::odd::{ODD_MIN, distances};

/// Nodes that there must be: of two, nobody knows which one is odd.
pub const NODES_MIN: usize = 3;
/// Parts of the time in which a node must be odd, so that one bad minute is no finding.
const PARTS_MIN: usize = 2;
/// Parts between two odd ones that belong to the same stretch.
const PAUSE_MAX: usize = 2;
/// Parts without a row, one after the other, so that a node counts as silent: rows of nodes fall on both sides of the end of a part.
const SILENT_PARTS_MIN: usize = 3;
/// A node that is far counts as this far at most: beyond, it does not matter any more.
const FAR_MAX: f64 = 20.0;

/// A node that is far from its peers in a resource, for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The place of the resource in the grid; `None`: the node sent no rows.
    pub row: Option<usize>,
    /// The place of the node in the grid.
    pub node: usize,
    /// The first part of the stretch, and the one after the last.
    pub stretch: (usize, usize),
    /// Parts of it in which the node is odd.
    pub parts: usize,
    /// How many times as far as usual it is from its neighbours, on average; below 0: it has less.
    pub far: f64,
    /// Its number there, on average, and that of the others.
    pub number: f64,
    /// The same of the others: their median.
    pub others: f64,
    /// How much this says; the highest comes first.
    pub score: f64,
}

/// All findings, the one that says most first.
pub fn findings(grid: &Grid) -> Vec<Finding> {
    let mut all = silent(grid);
    for (number, row) in grid.rows.iter().enumerate() {
        all.extend(of_row(number, row));
    }
    all.sort_by(|one, other| other.score.total_cmp(&one.score));
    all
}

fn of_row(number: usize, row: &Row) -> Vec<Finding> {
    let parts = row.numbers.first().map_or(0, Vec::len);
    let far: Vec<Vec<Option<f64>>> = (0..parts)
        .map(|part| {
            let numbers: Vec<Option<f64>> = row.numbers.iter().map(|of_node| of_node[part]).collect();
            distances(&numbers, row.least, NODES_MIN)
        })
        .collect();
    let is_odd = |far: f64| match row.worse {
        Worse::High => far >= ODD_MIN,
        Worse::Low => far <= -ODD_MIN,
        Worse::Both => far.abs() >= ODD_MIN,
    };
    let of_node = |node: usize| {
        let odd: Vec<usize> = (0..parts).filter(|part| far[*part][node].is_some_and(is_odd)).collect();
        let stretch = longest(&odd)?;
        let far = mean(stretch.iter().filter_map(|part| far[*part][node]))?;
        let own = mean(stretch.iter().filter_map(|part| row.numbers[node][*part]))?;
        let others = mean(stretch.iter().filter_map(|part| others(row, node, *part)))?;
        let length = stretch.len() as f64 / parts as f64;
        Some(Finding {
            row: Some(number),
            node,
            stretch: (*stretch.first()?, stretch.last()? + 1),
            parts: stretch.len(),
            far,
            number: own,
            others,
            score: row.weight * length * far.abs().min(FAR_MAX),
        })
    };
    (0..row.numbers.len()).filter_map(of_node).collect()
}

/// Nodes that sent nothing while most of the others did.
fn silent(grid: &Grid) -> Vec<Finding> {
    let parts = grid.sent.first().map_or(0, Vec::len);
    let is_there = |node: usize, part: usize| grid.sent[node][part];
    let count = |part: usize| (0..grid.nodes.len()).filter(|node| is_there(*node, part)).count();
    let there: Vec<usize> = (0..parts).map(count).collect();
    let of_node = |node: usize| {
        let is_away = |part: &usize| !is_there(node, *part) && there[*part] * 2 > grid.nodes.len();
        let away: Vec<usize> = (0..parts).filter(is_away).collect();
        let stretches = away.chunk_by(|one, next| next - one == 1);
        let stretch = stretches.max_by_key(|stretch| stretch.len());
        let stretch = stretch.filter(|stretch| stretch.len() >= SILENT_PARTS_MIN)?;
        let length = stretch.len() as f64 / parts as f64;
        Some(Finding {
            row: None,
            node,
            stretch: (*stretch.first()?, stretch.last()? + 1),
            parts: stretch.len(),
            far: -FAR_MAX,
            number: 0.0,
            others: 1.0,
            score: length * FAR_MAX,
        })
    };
    (0..grid.nodes.len()).filter_map(of_node).collect()
}

/// The longest stretch of parts with short pauses, if it is long enough.
fn longest(odd: &[usize]) -> Option<&[usize]> {
    let stretches = odd.chunk_by(|one, next| next - one <= PAUSE_MAX);
    stretches.max_by_key(|stretch| stretch.len()).filter(|stretch| stretch.len() >= PARTS_MIN)
}

/// The median of the others.
fn others(row: &Row, node: usize, part: usize) -> Option<f64> {
    let others = row.numbers.iter().enumerate().filter(|(other, _)| *other != node);
    let mut numbers: Vec<f64> = others.filter_map(|(_, of_node)| of_node[part]).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::super::resources::Form;
    use super::*;

    fn row(name: &str, worse: Worse, weight: f64, numbers: Vec<Vec<Option<f64>>>) -> Row {
        let (words, form) = (String::new(), Form::Share);
        Row { name: name.into(), words, least: 0.02, worse, form, weight, numbers }
    }

    /// Eight nodes, of which the fourth one differs from part 20 on.
    fn numbers(usual: f64, odd: f64) -> Vec<Vec<Option<f64>>> {
        let of = |node: usize, part: usize| match node == 3 && part >= 20 {
            true => odd,
            false => usual + ((node * 7 + part * 3) % 5) as f64 / 1_000.0,
        };
        (0..8).map(|node| (0..60).map(|part| Some(of(node, part))).collect()).collect()
    }

    fn grid(rows: Vec<Row>) -> Grid {
        let sent = sent(&rows);
        Grid { nodes: (1..=8).map(|n| format!("n{n}")).collect(), rows, sent }
    }

    /// A node sent something where it has a number.
    fn sent(rows: &[Row]) -> Vec<Vec<bool>> {
        let of_node = |of_node: &Vec<Option<f64>>| of_node.iter().map(Option::is_some).collect();
        rows[0].numbers.iter().map(of_node).collect()
    }

    #[test]
    fn a_node_that_waits_for_its_disk_is_found_with_the_time_since_when() {
        let rows = vec![
            row("cpu", Worse::Both, 0.3, numbers(0.95, 0.2)),
            row("io", Worse::High, 1.0, numbers(0.01, 0.8)),
        ];
        let found = findings(&grid(rows));
        assert_eq!(
            found.iter().map(|one| (one.row, one.node)).collect::<Vec<_>>(),
            [(Some(1), 3), (Some(0), 3)]
        );
        let Finding { stretch, parts, number, others, .. } = found[0];
        assert_eq!((stretch, parts), ((20, 60), 40));
        assert!((number - 0.8).abs() < 1e-9 && (others - 0.012).abs() < 0.003, "{found:?}");
        assert!(found[1].far < 0.0, "it worked less: that follows from the disk, and comes after it");
    }

    #[test]
    fn a_better_number_a_short_peak_and_nodes_that_are_alike_are_no_finding() {
        let mut peak = numbers(0.01, 0.01);
        peak[5][30] = Some(0.9);
        let rows = vec![
            row("memory", Worse::Low, 1.0, numbers(0.5, 0.9)),
            row("io", Worse::High, 1.0, peak),
            row("cpu", Worse::Both, 0.3, numbers(0.95, 0.95)),
        ];
        assert_eq!(findings(&grid(rows)), []);
    }

    #[test]
    fn a_node_that_sends_nothing_while_others_do_is_a_finding() {
        let mut all = numbers(0.5, 0.5);
        all[6][40..].iter_mut().for_each(|number| *number = None);
        // All were away then: that is the hub, or the job.
        all.iter_mut().for_each(|of_node| of_node[..5].iter_mut().for_each(|number| *number = None));
        let found = findings(&grid(vec![row("cpu", Worse::Both, 0.3, all)]));
        assert_eq!(
            found.iter().map(|one| (one.row, one.node, one.stretch)).collect::<Vec<_>>(),
            [(None, 6, (40, 60))]
        );
    }

    #[test]
    fn two_nodes_are_not_compared() {
        let two: Vec<Vec<Option<f64>>> = numbers(0.1, 0.9).split_off(6);
        let rows = vec![row("io", Worse::High, 1.0, two)];
        let grid = Grid { nodes: vec!["a".into(), "b".into()], sent: sent(&rows), rows };
        assert_eq!(findings(&grid), []);
    }
}
