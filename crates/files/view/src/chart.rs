//! A chart: panels below each other, one axis across (of time, or of other numbers) for all of them, and up to two axes of
//! values. It holds the numbers; `layout` decides where they go.

use crate::axis::{Across, Axis};

/// One stretch of time of a curve: a pixel or a sample, whichever is longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since the chart's start; without time, the number itself.
    pub at: f64,
    /// The smallest value in it.
    pub low: f64,
    /// The mean of its values.
    pub mean: f64,
    /// The largest value in it.
    pub high: f64,
    /// Nothing is known of the time between the previous point and this one.
    pub is_behind_gap: bool,
}

/// A line in a panel.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name, where the legend has none.
    pub name: String,
    /// The number of its entry in the legend, which gives its colour.
    pub legend: usize,
    /// 0: the left axis, 1: the right one.
    pub axis: usize,
    /// Its points, in order of time.
    pub points: Vec<Point>,
}

/// One node's part of the picture.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub curves: Vec<Curve>,
    /// Stretches without rows: from, to, in seconds since the start.
    pub gaps: Vec<(f64, f64)>,
}

/// The size of a picture, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Width of the whole picture.
    pub width: u32,
    /// Height of one panel.
    pub panel_height: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { width: 960, panel_height: 88 }
    }
}

/// A chart.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The first line.
    pub title: String,
    /// The second line, in smaller letters.
    pub subtitle: String,
    /// What the axis across counts.
    pub across: Across,
    /// The title of the axis across.
    pub time_title: String,
    /// When it begins, in seconds since 1970, if it is a chart over time and that is known.
    pub begins: Option<f64>,
    /// Seconds that the axis across spans; without time, the largest number.
    pub seconds: f64,
    /// The left axis, and the right one where there is one.
    pub axes: Vec<Axis>,
    /// One entry for each colour: its name, and the axis of its curves.
    pub legend: Vec<(String, usize)>,
    /// The panels, from the top down.
    pub panels: Vec<Panel>,
}

impl Chart {
    /// The smallest and the largest value on an axis; the range always includes 0.
    pub fn range(&self, axis: usize) -> (f64, f64) {
        let curves = self.panels.iter().flat_map(|panel| &panel.curves).filter(|curve| curve.axis == axis);
        let points = curves.flat_map(|curve| &curve.points);
        points.fold((0.0, 0.0), |(low, high), point| (point.low.min(low), point.high.max(high)))
    }

    /// True when some panel has a stretch without rows.
    pub fn has_gaps(&self) -> bool {
        self.panels.iter().any(|panel| !panel.gaps.is_empty())
    }
}
