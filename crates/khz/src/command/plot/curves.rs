//! The lines of a plot, from a recording. A line has one point for each pixel of width, however many rows there are.

use std::collections::HashMap;

use khz_model::{Nanos, Pattern, Series, ValueType};
use khz_record::{Event, Growth, Measure};
use khz_view::Point;

use crate::command::recording::{Opened, of_error};
use crate::show::outcome::Failure;

/// Lines of one plot: 64 panels of eight.
pub const CURVES_MAX: usize = 512;
/// Rows that are more than this many periods apart have a gap between them.
pub const GAP_PERIODS: f64 = 2.5;

/// A line.
pub struct Curve {
    /// The node.
    pub node: String,
    /// The panel that it is in: that of its node, if nobody chooses another one.
    pub panel: String,
    /// What is drawn.
    pub series: Series,
    /// The line's points.
    pub points: Vec<Point>,
    /// Stretches of it without rows, in seconds since the start.
    pub gaps: Vec<(f64, f64)>,
    drawn: Drawn,
}

/// A line while it is made.
#[derive(Default)]
struct Drawn {
    /// The growth of a counter. It starts again in another lane: after a restart of the agent it is another counter.
    growth: Growth,
    lane: Option<usize>,
    /// Time of the last value.
    known: Option<f64>,
    /// The point that is being made: the number of rows, the sums of their times and values.
    cell: Option<Cell>,
}

struct Cell {
    number: i64,
    rows: f64,
    times: f64,
    values: f64,
    low: f64,
    high: f64,
    is_behind_gap: bool,
}

/// The lines that the patterns select, in the order of the recording's nodes, each with about as many points as `points` says of
/// their number; and the number of lines that were left out.
pub fn curves(
    opened: &Opened,
    patterns: &[Pattern],
    measure: Measure,
    points: impl Fn(usize) -> usize,
) -> Result<(Vec<Curve>, usize), Failure> {
    let (mut curves, places, left_out) = choose(opened, patterns);
    let seconds = opened.to.since(opened.from).as_secs_f64();
    let width = seconds / points(curves.len()).max(1) as f64;
    let mut slots: Vec<Vec<(usize, usize)>> = vec![Vec::new(); opened.survey.lanes.len()];
    let read = opened.recording.read(|event| match event {
        Event::Columns(lane, series) => {
            let node = &opened.survey.lanes[lane].lane.node;
            let place = |(slot, series): (usize, &Series)| {
                Some((slot, *places.get(&(node.to_string(), series.to_string()))?))
            };
            slots[lane] = series.iter().enumerate().filter_map(place).collect();
        }
        Event::Block(block) if !slots[block.lane].is_empty() => {
            let lane = block.lane;
            let period = match opened.survey.lanes[lane].period {
                // Its rows come at any time: none is missing between two of them.
                Nanos(0) => f64::INFINITY,
                _ => block.header.period.as_secs_f64(),
            };
            block.rows(|number, row| {
                let stamp = row.stamp();
                let at = seconds_between(opened.from, stamp.real());
                let is_drawn = opened.holds(stamp.real());
                for &(slot, place) in &slots[lane] {
                    let curve = &mut curves[place];
                    if curve.drawn.lane.replace(lane) != Some(lane) {
                        curve.drawn.growth = Growth::default();
                    }
                    let reading = row.reading(slot);
                    let value = curve.drawn.growth.next(&curve.series, number, stamp.boot, reading, measure);
                    if let Some(value) = value.filter(|_| is_drawn) {
                        curve.add(at, value, width, period);
                    }
                }
            });
        }
        _ => {}
    });
    read.map_err(of_error)?;
    curves.iter_mut().for_each(|curve| curve.end(seconds));
    Ok((curves, left_out))
}

/// The place of each line, by node and series.
type Places = HashMap<(String, String), usize>;

fn choose(opened: &Opened, patterns: &[Pattern]) -> (Vec<Curve>, Places, usize) {
    let (mut curves, mut places, mut left_out) = (Vec::new(), Places::new(), 0);
    for lane in &opened.survey.lanes {
        // Labels are no number: there is nothing to draw.
        let is_number = |series: &&Series| series.metric.value_type != ValueType::Labels;
        for series in lane.series.iter().filter(|series| lane.selects(patterns, series)).filter(is_number) {
            let name = (lane.lane.node.to_string(), series.to_string());
            if places.contains_key(&name) {
                continue;
            }
            if curves.len() == CURVES_MAX {
                left_out += 1;
                continue;
            }
            curves.push(Curve::of(name.0.clone(), series.clone(), Vec::new(), Vec::new()));
            places.insert(name, curves.len() - 1);
        }
    }
    (curves, places, left_out)
}

fn seconds_between(from: Nanos, to: Nanos) -> f64 {
    (to.0 as f64 - from.0 as f64) / 1e9
}

impl Curve {
    /// A line whose points are known already.
    pub fn of(node: String, series: Series, points: Vec<Point>, gaps: Vec<(f64, f64)>) -> Self {
        Curve { panel: node.clone(), node, series, points, gaps, drawn: Drawn::default() }
    }

    fn add(&mut self, at: f64, value: f64, width: f64, period: f64) {
        let is_behind_gap = self.drawn.known.is_some_and(|known| at - known > GAP_PERIODS * period);
        if is_behind_gap {
            self.gaps.push((self.drawn.known.unwrap_or(at), at));
        }
        self.drawn.known = Some(at);
        let number = if width > 0.0 { (at / width) as i64 } else { 0 };
        if is_behind_gap || self.drawn.cell.as_ref().is_none_or(|cell| cell.number != number) {
            self.end_point();
            let cell = Cell {
                number,
                rows: 0.0,
                times: 0.0,
                values: 0.0,
                low: f64::INFINITY,
                high: f64::NEG_INFINITY,
                is_behind_gap,
            };
            self.drawn.cell = Some(cell);
        }
        if let Some(cell) = &mut self.drawn.cell {
            cell.rows += 1.0;
            cell.times += at;
            cell.values += value;
            cell.low = cell.low.min(value);
            cell.high = cell.high.max(value);
        }
    }

    fn end_point(&mut self) {
        let Some(cell) = self.drawn.cell.take() else { return };
        self.points.push(Point {
            at: cell.times / cell.rows,
            low: cell.low,
            mean: cell.values / cell.rows,
            high: cell.high,
            is_behind_gap: cell.is_behind_gap,
        });
    }

    /// Ends the last point, and adds the gaps before the first row and after the last.
    fn end(&mut self, seconds: f64) {
        self.end_point();
        self.points.sort_by(|a, b| a.at.total_cmp(&b.at));
        let (first, last) = match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => (first.at, last.at),
            _ => (seconds, seconds),
        };
        // A short gap at either end is normal for a recording.
        let edge = seconds * 0.02;
        if first > edge {
            self.gaps.insert(0, (0.0, first));
        }
        if seconds - last > edge {
            self.gaps.push((last, seconds));
        }
    }
}
