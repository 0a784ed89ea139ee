//! A chart as it is given: panels below each other, one time for all of them, two axes of values. It holds numbers; how
//! they are laid out is `layout`'s.

use crate::axis::Axis;

/// One stretch of time of a curve, as wide as a pixel or as long as a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since the chart's start.
    pub at: f64,
    /// The smallest, the mean and the largest value in it.
    pub low: f64,
    /// See `low`.
    pub mean: f64,
    /// See `low`.
    pub high: f64,
    /// Nothing is known of the time between the point before and this one.
    pub is_behind_gap: bool,
}

/// A line in a panel.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// What it is, for legend and tooltip.
    pub name: String,
    /// Its colour: the number of its name in the legend.
    pub legend: usize,
    /// 0: the left axis, 1: the right one.
    pub axis: usize,
    /// In order of time.
    pub points: Vec<Point>,
}

/// One node's part of the picture.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What it is called.
    pub name: String,
    /// Its lines.
    pub curves: Vec<Curve>,
    /// Stretches without rows: from, to, in seconds since the start.
    pub gaps: Vec<(f64, f64)>,
}

/// Sizes, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of the whole picture.
    pub width: u32,
    /// Of one panel.
    pub panel_height: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { width: 960, panel_height: 88 }
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The first line.
    pub title: String,
    /// The second, smaller.
    pub subtitle: String,
    /// What stands below the time.
    pub time_title: String,
    /// Seconds that the time axis spans.
    pub seconds: f64,
    /// The left axis, and the right one where there is one.
    pub axes: Vec<Axis>,
    /// Names and axes of the colours.
    pub legend: Vec<(String, usize)>,
    /// From the top down.
    pub panels: Vec<Panel>,
}

impl Chart {
    /// The largest and the smallest value on an axis; 0 is always between them.
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
