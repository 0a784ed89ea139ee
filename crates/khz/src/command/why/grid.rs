//! The numbers of a job's nodes, in parts of its time of the same length: of each resource a row for each node. It is filled by what a
//! store answers.

use std::collections::BTreeMap;

use khz_ask::PastPart;
use khz_model::Nanos;
use khz_model::fold::by_name;
use khz_view::Point;

use super::resources::{Fold, Form, PUBLISHED, RESOURCES, SERIES, Worse};
use crate::command::past::Span;
use crate::command::plot::past::curve;

/// Numbers of a programs' metrics that are compared: a program may publish thousands.
const PUBLISHED_MAX: usize = 32;

/// One resource: a number of each node in each part of the time.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// What it says.
    pub words: String,
    /// A distance from the others that is usual, at least.
    pub least: f64,
    /// In which direction it is odd.
    pub worse: Worse,
    /// How it is written.
    pub form: Form,
    /// How much it says of the reason.
    pub weight: f64,
    /// Of each node, in the order of the grid, its number in each part.
    pub numbers: Vec<Vec<Option<f64>>>,
}

/// The whole.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The nodes.
    pub nodes: Vec<String>,
    /// The resources of which something is known.
    pub rows: Vec<Row>,
    /// Of each node, whether it sent something in each part.
    pub sent: Vec<Vec<bool>>,
}

/// The numbers of one node, by series.
type Numbers = BTreeMap<String, Vec<Option<f64>>>;

/// The grid while it is filled.
pub struct Filling {
    span: Span,
    parts: usize,
    nodes: BTreeMap<String, Numbers>,
    /// Whether each of them sent something in each part.
    sent: BTreeMap<String, Vec<bool>>,
}

impl Filling {
    /// An empty one of these nodes.
    pub fn new(nodes: &[String], span: Span, parts: usize) -> Self {
        let sent = nodes.iter().map(|node| (node.clone(), vec![false; parts])).collect();
        let nodes = nodes.iter().map(|node| (node.clone(), Numbers::new())).collect();
        Filling { span, parts, nodes, sent }
    }

    /// Takes what the store has of one series.
    pub fn take(&mut self, part: &PastPart) {
        let Some(numbers) = self.nodes.get_mut(&part.node) else { return };
        let of_table =
            SERIES.iter().find(|(name, _)| name.split('[').next().is_some_and(|metric| metric == part.name));
        let (name, fold) = match of_table {
            Some((name, fold)) => ((*name).to_owned(), *fold),
            None => (part.series(), Fold::Sum),
        };
        let seconds = self.span.to.since(self.span.from).as_secs_f64();
        let drawn = curve(part, self.span.from, seconds);
        let all = numbers.entry(name).or_insert_with(|| vec![None; self.parts]);
        let width = seconds / self.parts as f64;
        if let Some(sent) = self.sent.get_mut(&part.node) {
            note_sent(sent, part, self.span.from, width);
        }
        for (at, mean) in each_part(&drawn.points, width, self.parts) {
            let known = &mut all[at];
            *known = Some(match (*known, fold) {
                (None, _) => mean,
                (Some(before), Fold::Sum) => before + mean,
                (Some(before), Fold::Max) => before.max(mean),
            });
        }
    }

    /// The numbers as resources.
    pub fn grid(mut self) -> Grid {
        for (node, numbers) in &mut self.nodes {
            let sent = &self.sent[node];
            numbers.values_mut().for_each(|numbers| bridge(numbers, sent));
        }
        let mut nodes: Vec<(String, Numbers)> = self.nodes.into_iter().collect();
        nodes.sort_by(|(one, _), (other, _)| by_name(one, other));
        let parts = self.parts;
        let mut rows: Vec<Row> = Vec::new();
        for resource in &RESOURCES {
            let of_node = |numbers: &Numbers| {
                let at = |part: usize| (resource.number)(&|name| *numbers.get(name)?.get(part)?);
                (0..parts).map(at).collect()
            };
            rows.push(Row {
                name: resource.name.to_owned(),
                words: resource.words.to_owned(),
                least: resource.least,
                worse: resource.worse,
                form: resource.form,
                weight: resource.weight,
                numbers: nodes.iter().map(|(_, numbers)| of_node(numbers)).collect(),
            });
        }
        rows.extend(published(&nodes, parts));
        rows.retain(|row| row.numbers.iter().flatten().any(Option::is_some));
        let mut sent = self.sent;
        let nodes: Vec<String> = nodes.into_iter().map(|(node, _)| node).collect();
        let sent = nodes.iter().map(|node| sent.remove(node).unwrap_or_default()).collect();
        Grid { nodes, rows, sent }
    }
}

/// What programs publish: how far a step is, for example.
fn published(nodes: &[(String, Numbers)], parts: usize) -> Vec<Row> {
    let prefix = PUBLISHED.trim_end_matches('*');
    let mut names: Vec<&String> = nodes
        .iter()
        .flat_map(|(_, numbers)| numbers.keys())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names.dedup();
    names.truncate(PUBLISHED_MAX);
    let row = |name: &String| {
        let of_node = |numbers: &Numbers| numbers.get(name).cloned().unwrap_or_else(|| vec![None; parts]);
        let numbers: Vec<Vec<Option<f64>>> = nodes.iter().map(|(_, numbers)| of_node(numbers)).collect();
        let mut sizes: Vec<f64> = numbers.iter().flatten().flatten().map(|number| number.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let usual = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
        Row {
            name: name.clone(),
            words: "was what its programs published".to_owned(),
            least: (usual * LEAST_OF_PUBLISHED).max(f64::MIN_POSITIVE),
            worse: Worse::Both,
            form: Form::Plain(""),
            weight: 1.0,
            numbers,
        }
    };
    names.into_iter().map(row).collect()
}

/// A usual distance of numbers of which nothing is known, as a share of a usual number.
const LEAST_OF_PUBLISHED: f64 = 0.03;

/// Notes in which parts there were readings. A point has those from its first to its last one, and may lie in several parts: its middle
/// says nothing of the others.
fn note_sent(sent: &mut [bool], part: &PastPart, from: Nanos, width: f64) {
    let at =
        |time: Nanos| ((time.since(from).as_secs_f64() / width) as usize).min(sent.len().saturating_sub(1));
    let spans: Vec<(usize, usize)> =
        part.points.iter().map(|point| (at(point.first.0), at(point.last.0))).collect();
    for (first, last) in spans {
        sent.iter_mut().take(last + 1).skip(first).for_each(|sent| *sent = true);
    }
}

/// A survey that is made as often as there are parts may miss one part, between two that have it, though the node sent rows: such a part
/// gets the mean of these two.
fn bridge(numbers: &mut [Option<f64>], sent: &[bool]) {
    for at in 1..numbers.len().saturating_sub(1) {
        if let (Some(before), None, Some(after), true) =
            (numbers[at - 1], numbers[at], numbers[at + 1], sent.get(at) == Some(&true))
        {
            numbers[at] = Some(f64::midpoint(before, after));
        }
    }
}

/// The mean of the points of each part that has some.
fn each_part(points: &[Point], width: f64, parts: usize) -> Vec<(usize, f64)> {
    let mut all: Vec<(usize, f64, f64)> = Vec::new();
    for point in points {
        let at = ((point.at / width) as usize).min(parts.saturating_sub(1));
        match all.last_mut().filter(|(last, ..)| *last == at) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + point.mean, *count + 1.0),
            None => all.push((at, point.mean, 1.0)),
        }
    }
    all.into_iter().map(|(at, sum, count)| (at, sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_a_survey_missed_is_bridged_and_one_without_rows_or_with_unknown_neighbours_is_not() {
        let sent = [true, true, true, false, true, true, true, true];
        let mut numbers = [Some(1.0), None, Some(3.0), None, Some(5.0), None, None, Some(8.0)];
        bridge(&mut numbers, &sent);
        assert_eq!(numbers, [Some(1.0), Some(2.0), Some(3.0), None, Some(5.0), None, None, Some(8.0)]);
        let mut none: [Option<f64>; 0] = [];
        bridge(&mut none, &[]);
    }

    #[test]
    fn parts_have_the_mean_of_their_points_wherever_these_begin() {
        // Four points for each part, which begin at any time.
        for begin in 0..25 {
            let point = |n: u32| {
                let at = f64::from(begin) / 10.0 + 2.5 * f64::from(n);
                Point { at, low: 7.0, mean: 7.0, high: 7.0, is_behind_gap: false }
            };
            let points: Vec<Point> = (0..60).map(point).collect();
            let parts = each_part(&points, 10.0, 15);
            assert_eq!(parts, (0..15).map(|part| (part, 7.0)).collect::<Vec<_>>(), "{begin}");
        }
    }
}
