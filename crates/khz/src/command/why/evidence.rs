//! The evidence as a chart: of each finding a panel with the node, and with its peers as a line in a band. It says nothing.

use khz_view::{Across, Axis, Chart, Curve, Panel, Point, Scale};

use super::finding::Finding;
use super::grid::{Grid, Row};
use super::resources::Form;
use crate::command::past::Span;
use khz_model::calendar::utc;

/// Findings that have a panel.
const PANELS_MAX: usize = 6;

/// The chart; `None`: there is nothing to draw.
pub fn chart(id: &str, grid: &Grid, findings: &[Finding], span: Span) -> Option<Chart> {
    let seconds = span.to.since(span.from).as_secs_f64();
    let (mut axes, mut panels): (Vec<Form>, Vec<Panel>) = (Vec::new(), Vec::new());
    for finding in findings {
        let Some(row) = finding.row.map(|row| &grid.rows[row]) else { continue };
        let axis = match axes.iter().position(|form| *form == row.form) {
            Some(axis) => axis,
            // A picture has two axes.
            None if axes.len() == 2 => continue,
            None => {
                axes.push(row.form);
                axes.len() - 1
            }
        };
        panels.push(panel(grid, row, finding, axis, seconds));
        if panels.len() == PANELS_MAX {
            break;
        }
    }
    (!panels.is_empty()).then(|| Chart {
        title: format!("why job {id} was held up"),
        subtitle: format!("{} nodes, from {}", grid.nodes.len(), utc(span.from)),
        across: Across::Time,
        time_title: format!("time since {}", utc(span.from)),
        begins: Some(span.from.as_secs_f64()),
        seconds,
        legend: ["the node", "the other nodes"]
            .iter()
            .flat_map(|name| (0..axes.len()).map(move |axis| ((*name).to_owned(), axis)))
            .collect(),
        axes: axes.iter().map(|form| axis(*form)).collect(),
        panels,
    })
}

fn axis(form: Form) -> Axis {
    match form {
        Form::Share => Axis { title: "%".to_owned(), scale: Scale::Percent },
        Form::Plain(unit) => {
            let title = if unit.is_empty() { "number" } else { unit };
            Axis { title: title.to_owned(), scale: Scale::Plain }
        }
    }
}

fn panel(grid: &Grid, row: &Row, finding: &Finding, axis: usize, seconds: f64) -> Panel {
    let parts = row.numbers.first().map_or(0, Vec::len);
    let factor = if row.form == Form::Share { 100.0 } else { 1.0 };
    let at = |part: usize| (part as f64 + 0.5) * seconds / parts as f64;
    let point = |part: usize, low: f64, mean: f64, high: f64| Point {
        at: at(part),
        low: low * factor,
        mean: mean * factor,
        high: high * factor,
        is_behind_gap: false,
    };
    let own = (0..parts).filter_map(|part| {
        let number = row.numbers[finding.node][part]?;
        Some(point(part, number, number, number))
    });
    let others = (0..parts).filter_map(|part| {
        let others = row.numbers.iter().enumerate().filter(|(node, _)| *node != finding.node);
        let mut numbers: Vec<f64> = others.filter_map(|(_, numbers)| numbers[part]).collect();
        numbers.sort_by(f64::total_cmp);
        Some(point(part, *numbers.first()?, numbers[numbers.len() / 2], *numbers.last()?))
    });
    let axes_of = |legend: usize, name: &str, points: Vec<Point>| Curve {
        name: name.to_owned(),
        legend,
        axis,
        points: behind_gaps(points, seconds / parts as f64),
    };
    let curves = vec![
        axes_of(axis, &grid.nodes[finding.node], own.collect()),
        axes_of(2 + axis, "the others", others.collect()),
    ];
    Panel { name: format!("{}: {}", grid.nodes[finding.node], row.name), curves, gaps: Vec::new() }
}

/// Marks points behind a gap.
fn behind_gaps(mut points: Vec<Point>, width: f64) -> Vec<Point> {
    let mut before: Option<f64> = None;
    for point in &mut points {
        point.is_behind_gap = before.is_some_and(|before| point.at - before > 1.5 * width);
        before = Some(point.at);
    }
    points
}
