//! The layout of a chart: where title, legend, panels, ticks and lines go. It decides on pixels and nothing else.

use crate::axis::{self, Axis};
use crate::chart::{Chart, Curve, Panel, Shape};
use crate::legend::colour;
use crate::picture::{Anchor, Colour, Mark, Picture};

const INK: Colour = [0x2b, 0x2b, 0x2b];
const FAINT_INK: Colour = [0x66, 0x66, 0x66];
const GRID: Colour = [0xe4, 0xe4, 0xe4];
const FRAME: Colour = [0x9a, 0x9a, 0x9a];
const GAP: Colour = [0xee, 0xec, 0xe6];

const LEFT: f32 = 74.0;
/// Right of the panels, without an axis there and with one.
const RIGHT: f32 = 24.0;
const RIGHT_AXIS: f32 = 74.0;
const TITLE_Y: f32 = 28.0;
const SUBTITLE_Y: f32 = 46.0;
const LEGEND_Y: f32 = 70.0;
const LEGEND_LINE: f32 = 18.0;
/// Between the legend's last line and the first panel.
const BELOW_LEGEND: f32 = 14.0;
/// Between two panels.
const BETWEEN: f32 = 10.0;
/// Below the last panel: the time's ticks and its title.
const BOTTOM: f32 = 48.0;
const SMALL: f32 = 11.0;
const NORMAL: f32 = 12.0;
const LARGE: f32 = 16.0;
/// Mean width of a letter, as a share of its size.
const LETTER: f32 = 0.62;
/// Least distance between two ticks of time.
const TIME_TICK: f32 = 90.0;

/// Lays out a chart.
pub fn picture(chart: &Chart, shape: Shape) -> Picture {
    let mut plane = Plane::new(chart, shape);
    plane.head();
    for (number, panel) in chart.panels.iter().enumerate() {
        plane.panel(number, panel);
    }
    plane.times();
    plane.axis_titles();
    let height = plane.panel_top(chart.panels.len()) - BETWEEN + BOTTOM;
    let title = format!("{}. {}", chart.title, chart.subtitle);
    Picture {
        width: shape.width,
        height: height.ceil() as u32,
        title,
        marks: plane.marks,
        ..Picture::default()
    }
}

struct Plane<'a> {
    chart: &'a Chart,
    width: f32,
    panel_height: f32,
    right: f32,
    /// The legend's entries: left end and line of each.
    legend: Vec<(f32, usize)>,
    /// The ticks of each axis.
    ticks: Vec<Vec<f64>>,
    marks: Vec<Mark>,
}

impl<'a> Plane<'a> {
    fn new(chart: &'a Chart, shape: Shape) -> Self {
        let width = shape.width as f32;
        let right = width - if chart.axes.len() > 1 { RIGHT_AXIS } else { RIGHT };
        let ticks = chart.axes.iter().enumerate();
        let ticks = ticks.map(|(number, axis)| axis::ticks(chart.range(number), 3, axis.scale)).collect();
        let panel_height = shape.panel_height as f32;
        let mut plane =
            Plane { chart, width, panel_height, right, legend: Vec::new(), ticks, marks: Vec::new() };
        plane.place_legend();
        plane
    }

    fn text(&mut self, at: [f32; 2], anchor: Anchor, size: f32, colour: Colour, text: impl Into<String>) {
        let text = text.into();
        self.marks.push(Mark::Text { at, anchor, size, colour, is_upwards: false, text });
    }

    fn line(&mut self, points: Vec<[f32; 2]>, colour: Colour, width: f32) {
        self.marks.push(Mark::Line { points, colour, width });
    }

    /// The words of the legend: each curve's name and axis, and last what the grey ground means.
    fn legend_words(&self) -> Vec<String> {
        let side = |axis: usize| match (self.chart.axes.len(), axis) {
            (0 | 1, _) => "",
            (_, 0) => " (left axis)",
            _ => " (right axis)",
        };
        let names = self.chart.legend.iter().map(|(name, axis)| format!("{name}{}", side(*axis)));
        let gap = self.chart.has_gaps().then(|| "no rows".to_owned());
        names.chain(gap).collect()
    }

    fn place_legend(&mut self) {
        let (mut x, mut line) = (LEFT, 0);
        for words in self.legend_words() {
            let width = 28.0 + words.chars().count() as f32 * NORMAL * LETTER + 22.0;
            if x > LEFT && x + width > self.right + 22.0 {
                (x, line) = (LEFT, line + 1);
            }
            self.legend.push((x, line));
            x += width;
        }
    }

    fn head(&mut self) {
        let Chart { title, subtitle, .. } = self.chart;
        self.text([LEFT, TITLE_Y], Anchor::Start, LARGE, INK, title.clone());
        self.text([LEFT, SUBTITLE_Y], Anchor::Start, NORMAL, FAINT_INK, subtitle.clone());
        let places = self.legend.clone();
        for (number, (words, (x, line))) in self.legend_words().into_iter().zip(places).enumerate() {
            let y = LEGEND_Y + line as f32 * LEGEND_LINE;
            if number < self.chart.legend.len() {
                self.line(vec![[x, y - 4.0], [x + 20.0, y - 4.0]], colour(number), 3.0);
            } else {
                self.marks.push(Mark::Box { place: [x, y - 10.0, 20.0, 12.0], colour: GAP });
            }
            self.text([x + 28.0, y], Anchor::Start, NORMAL, INK, words);
        }
    }

    /// The top of a panel.
    fn panel_top(&self, number: usize) -> f32 {
        let lines = self.legend.last().map_or(0, |(_, line)| *line);
        let first = LEGEND_Y + lines as f32 * LEGEND_LINE + BELOW_LEGEND;
        first + number as f32 * (self.panel_height + BETWEEN)
    }

    fn x(&self, seconds: f64) -> f32 {
        let share = if self.chart.seconds > 0.0 { seconds / self.chart.seconds } else { 0.0 };
        LEFT + share.clamp(0.0, 1.0) as f32 * (self.right - LEFT)
    }

    /// The distance of a value from its panel's top.
    fn y(&self, axis: usize, value: f64) -> f32 {
        let Some([low, .., high]) = self.ticks.get(axis).map(Vec::as_slice) else { return self.panel_height };
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        self.panel_height * (1.0 - share as f32)
    }

    fn panel(&mut self, number: usize, panel: &Panel) {
        let top = self.panel_top(number);
        for &(from, to) in &panel.gaps {
            let (from, to) = (self.x(from), self.x(to));
            self.marks
                .push(Mark::Box { place: [from, top, (to - from).max(1.0), self.panel_height], colour: GAP });
        }
        self.grid(top);
        for curve in &panel.curves {
            self.curve(top, curve);
        }
        self.frame(top);
        // The name has a white ground, so that lines below it do not hide it.
        let width = panel.name.chars().count() as f32 * NORMAL * LETTER + 10.0;
        self.marks.push(Mark::Box { place: [LEFT + 2.0, top + 2.0, width, 17.0], colour: [0xff; 3] });
        self.text([LEFT + 7.0, top + 15.0], Anchor::Start, NORMAL, INK, panel.name.clone());
    }

    fn grid(&mut self, top: f32) {
        for (at, _) in axis::ticks_across(self.chart.across, self.chart.seconds, self.time_ticks_wanted()) {
            let x = self.x(at);
            self.line(vec![[x, top], [x, top + self.panel_height]], GRID, 1.0);
        }
        for axis in 0..self.chart.axes.len() {
            let Axis { scale, .. } = self.chart.axes[axis];
            let ticks = self.ticks[axis].clone();
            let (step, most) = (ticks[1] - ticks[0], ticks[ticks.len() - 1].max(-ticks[0]));
            let tone = if self.chart.axes.len() > 1 { self.axis_colour(axis) } else { FAINT_INK };
            for &tick in &ticks {
                let y = top + self.y(axis, tick);
                if axis == 0 {
                    self.line(vec![[LEFT, y], [self.right, y]], GRID, 1.0);
                }
                let (x, anchor) =
                    if axis == 0 { (LEFT - 7.0, Anchor::End) } else { (self.right + 7.0, Anchor::Start) };
                // The first and the last label stay within the panel, so that those of two panels do not touch.
                let shift = 4.0
                    + if tick == ticks[0] { -3.0 } else { 0.0 }
                    + if tick == ticks[ticks.len() - 1] { 3.0 } else { 0.0 };
                self.text([x, y + shift], anchor, SMALL, tone, axis::label(tick, step, most, scale));
            }
        }
    }

    fn frame(&mut self, top: f32) {
        let (left, right, bottom) = (LEFT, self.right, top + self.panel_height);
        let corners = [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]];
        self.line(corners.to_vec(), FRAME, 1.0);
    }

    /// The line through the means, broken at gaps. Where a pixel holds several values, an area shows how far they reach.
    fn curve(&mut self, top: f32, curve: &Curve) {
        let colour = colour(curve.legend);
        let mut marks = Vec::new();
        for part in curve.points.chunk_by(|_, next| !next.is_behind_gap) {
            let place = |at: f64, value: f64| [self.x(at), top + self.y(curve.axis, value)];
            if part.iter().any(|point| point.low < point.high) {
                let upper = part.iter().map(|point| place(point.at, point.high));
                let lower = part.iter().rev().map(|point| place(point.at, point.low));
                let points: Vec<[f32; 2]> = upper.chain(lower).collect();
                marks.push(Mark::Area { points, colour, opacity: 0.28 });
            }
            let points: Vec<[f32; 2]> = part.iter().map(|point| place(point.at, point.mean)).collect();
            marks.push(Mark::Line { points, colour, width: 1.4 });
        }
        self.marks.append(&mut marks);
    }

    fn time_ticks_wanted(&self) -> usize {
        ((self.right - LEFT) / TIME_TICK).max(2.0) as usize
    }

    fn times(&mut self) {
        let bottom = self.panel_top(self.chart.panels.len()) - BETWEEN;
        for (at, text) in axis::ticks_across(self.chart.across, self.chart.seconds, self.time_ticks_wanted())
        {
            let x = self.x(at);
            self.line(vec![[x, bottom], [x, bottom + 4.0]], FRAME, 1.0);
            self.text([x, bottom + 17.0], Anchor::Middle, SMALL, FAINT_INK, text);
        }
        let middle = (LEFT + self.right) / 2.0;
        self.text([middle, bottom + 38.0], Anchor::Middle, NORMAL, INK, self.chart.time_title.clone());
    }

    /// The colour of an axis: that of its curve, if it has only one.
    fn axis_colour(&self, axis: usize) -> Colour {
        let mut of_axis = self.chart.legend.iter().enumerate().filter(|(_, (_, its))| *its == axis);
        match (of_axis.next(), of_axis.next()) {
            (Some((number, _)), None) => colour(number),
            _ => INK,
        }
    }

    fn axis_titles(&mut self) {
        let top = self.panel_top(0);
        let bottom = self.panel_top(self.chart.panels.len()) - BETWEEN;
        for (number, axis) in self.chart.axes.iter().enumerate() {
            let fits = |text: &str| text.chars().count() as f32 * NORMAL * LETTER <= bottom - top;
            // The legend names the series: a title that is too long keeps only its part after the comma, the unit.
            let unit = axis.title.rsplit(", ").next().unwrap_or_default();
            let text = if fits(&axis.title) { axis.title.as_str() } else { unit };
            let x = if number == 0 { 16.0 } else { self.width - 8.0 };
            self.marks.push(Mark::Text {
                at: [x, (top + bottom) / 2.0],
                anchor: Anchor::Middle,
                size: NORMAL,
                colour: if self.chart.axes.len() > 1 { self.axis_colour(number) } else { INK },
                is_upwards: true,
                text: text.to_owned(),
            });
        }
    }
}
