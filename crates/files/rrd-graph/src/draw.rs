//! The picture of a graph as marks, and the marks as PNG or SVG.

use khz_rrd::error::{Result, refused};
use khz_rrd::text;
use khz_view::{Anchor, Letters, Mark, Picture, png, svg};

use crate::element::{Action, Dashes, Kind};
use crate::frame::{self, advance, line_height};
use crate::graph::Graph;
use crate::options::{Colour, Output};
use crate::pixels::Curve;
use crate::{markup, time_axis, value_axis};

/// Bytes of a PNG up to its height.
const PNG_HEAD: usize = 24;

/// The picture as a file's bytes.
///
/// # Errors
/// It cannot be encoded.
pub fn image(graph: &Graph) -> Result<Vec<u8>> {
    let picture = picture(graph);
    match graph.options.output {
        Output::Svg => Ok(enlarged(svg(&picture), graph).into_bytes()),
        _ => png(&picture, graph.options.zoom).or_else(|error| refused(error.to_string())),
    }
}

/// An SVG whose picture takes the size that `--zoom` wants.
fn enlarged(svg: String, graph: &Graph) -> String {
    let (width, height) = (graph.frame.image_width, graph.frame.image_height);
    let size = |width: i64, height: i64| format!("width=\"{width}\" height=\"{height}\"");
    let zoomed = size(graph.options.zoomed(width), graph.options.zoomed(height));
    svg.replacen(&size(width, height), &zoomed, 1)
}

/// Width and height of the picture at `path`, if it is one of this kind.
pub fn size_of(path: &str, output: Output) -> Option<(i64, i64)> {
    let bytes = std::fs::read(text::path(path)).ok()?;
    if output == Output::Svg {
        let head = String::from_utf8_lossy(bytes.get(..bytes.len().min(200))?).into_owned();
        let of = |name: &str| head.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok();
        return Some((of("width")?, of("height")?));
    }
    let head = bytes.get(..PNG_HEAD).filter(|head| head.starts_with(b"\x89PNG"))?;
    let number =
        |at: usize| head.get(at..at + 4)?.try_into().ok().map(|bytes| i64::from(u32::from_be_bytes(bytes)));
    Some((number(16)?, number(20)?))
}

struct Canvas<'a> {
    graph: &'a Graph,
    marks: Vec<Mark>,
}

fn picture(graph: &Graph) -> Picture {
    let mut canvas = Canvas { graph, marks: vec![] };
    canvas.ground();
    canvas.curves();
    if !graph.options.is_only_graph {
        canvas.grid();
    }
    canvas.rules();
    if !graph.options.is_only_graph {
        canvas.axes();
        canvas.words();
        canvas.legend();
    }
    Picture {
        width: graph.frame.image_width as u32,
        height: graph.frame.image_height as u32,
        title: graph.options.title.clone(),
        letters: Letters::Mono,
        marks: canvas.marks,
    }
}

fn split([red, green, blue, opacity]: Colour) -> ([u8; 3], f32) {
    ([red, green, blue], f32::from(opacity) / 255.0)
}

impl Canvas<'_> {
    fn left(&self) -> f32 {
        self.graph.frame.left as f32
    }

    fn top(&self) -> f32 {
        self.graph.frame.top as f32
    }

    fn right(&self) -> f32 {
        (self.graph.frame.left + self.graph.frame.width) as f32
    }

    fn bottom(&self) -> f32 {
        (self.graph.frame.top + self.graph.frame.height) as f32
    }

    fn colour(&self, name: &str) -> Colour {
        self.graph.options.colour(name)
    }

    fn fill(&mut self, points: Vec<[f32; 2]>, colour: Colour) {
        let (colour, opacity) = split(colour);
        if opacity > 0.0 {
            self.marks.push(Mark::Area { points, colour, opacity });
        }
    }

    fn block(&mut self, left: f32, top: f32, right: f32, bottom: f32, colour: Colour) {
        self.fill(vec![[left, top], [right, top], [right, bottom], [left, bottom]], colour);
    }

    fn line(&mut self, points: Vec<[f32; 2]>, colour: Colour, width: f32, dashes: Option<&Dashes>) {
        let (colour, opacity) = split(colour);
        let (dashes, offset) = match dashes {
            Some(dashes) => {
                (dashes.lengths.iter().map(|length| *length as f32).collect(), dashes.offset as f32)
            }
            None => (vec![], 0.0),
        };
        if opacity > 0.0 && width > 0.0 {
            self.marks.push(Mark::Stroke { points, colour, opacity, width, dashes, offset });
        }
    }

    fn words_at(&mut self, at: [f32; 2], anchor: Anchor, font: &str, text: &str, is_upwards: bool) {
        let (colour, opacity) = split(self.colour("FONT"));
        if opacity > 0.0 && !text.is_empty() {
            // So wide that a letter takes whole pixels, as the places of the legend expect.
            let size = (advance(self.graph.options.size(font)) / 0.602) as f32;
            // The legend has its letters already, and an axis has no markup.
            let text = match self.graph.options.is_markup && !matches!(font, "AXIS" | "LEGEND") {
                true => markup::shown(text),
                false => text.replace('\t', " "),
            };
            self.marks.push(Mark::Text { at, anchor, size, colour, is_upwards, text });
        }
    }

    /// Pixels down to `value`, not limited to the graph.
    fn y(&self, value: f64) -> f32 {
        let (min, max) = self.graph.range;
        let part = match self.graph.options.is_log {
            true if value <= 0.0 => -1.0,
            true => (value.log10() - min.log10()) / (max.log10() - min.log10()),
            false => (value - min) / (max - min),
        };
        let part = if part.is_nan() { 0.0 } else { part.clamp(-1e6, 1e6) };
        self.bottom() - (part * self.graph.frame.height as f64) as f32
    }

    fn x(&self, time: f64) -> f32 {
        let options = &self.graph.options;
        let part = (time - options.start as f64) / ((options.end - options.start) as f64).max(1.0);
        self.left() + (part.clamp(-1e6, 1e6) * self.graph.frame.width as f64) as f32
    }

    fn within(&self, y: f32) -> f32 {
        y.clamp(self.top(), self.bottom())
    }

    fn ground(&mut self) {
        let (width, height) = (self.graph.frame.image_width as f32, self.graph.frame.image_height as f32);
        let is_whole = !self.graph.options.is_only_graph;
        if is_whole {
            self.block(0.0, 0.0, width, height, self.colour("BACK"));
            let border = self.graph.options.border as f32;
            let (light, dark) = (self.colour("SHADEA"), self.colour("SHADEB"));
            if border > 0.0 {
                self.fill(
                    vec![
                        [0.0, 0.0],
                        [width, 0.0],
                        [width - border, border],
                        [border, border],
                        [border, height - border],
                        [0.0, height],
                    ],
                    light,
                );
                self.fill(
                    vec![
                        [width, 0.0],
                        [width, height],
                        [0.0, height],
                        [border, height - border],
                        [width - border, height - border],
                        [width - border, border],
                    ],
                    dark,
                );
            }
        }
        self.block(self.left(), self.top(), self.right(), self.bottom(), self.colour("CANVAS"));
    }

    fn curves(&mut self) {
        let graph = self.graph;
        for curve in &graph.curves {
            match &graph.elements[curve.element].action {
                Action::Curve { kind: Kind::Area(second), colour: Some(colour), .. } => {
                    self.area(curve, *colour, *second)
                }
                Action::Curve { kind: Kind::Line(width), colour: Some(colour), dashes, .. } => {
                    for points in self.strokes(curve) {
                        self.line(points, *colour, *width as f32, dashes.as_ref());
                    }
                }
                Action::Tick { colour: Some(colour), fraction, .. } => self.ticks(curve, *colour, *fraction),
                _ => {}
            }
        }
    }

    /// Columns of pixels with values, as runs without a gap.
    fn runs(curve: &Curve) -> Vec<std::ops::Range<usize>> {
        let mut runs: Vec<std::ops::Range<usize>> = vec![];
        for (column, value) in curve.top.iter().enumerate() {
            if value.is_nan() {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == column => run.end += 1,
                _ => runs.push(column..column + 1),
            }
        }
        runs
    }

    /// Points along `values` from column to column: steps, or slopes.
    fn along(&self, values: &[f64], run: &std::ops::Range<usize>) -> Vec<[f32; 2]> {
        let mut points: Vec<[f32; 2]> = vec![];
        for column in run.clone() {
            let (x, y) = (self.left() + column as f32, self.y(values[column]));
            let is_same = column > run.start && values[column] == values[column - 1];
            if self.graph.options.is_slope {
                if !is_same || column + 1 == run.end || values[column + 1] != values[column] {
                    points.push([x, y]);
                }
            } else if !is_same {
                if let Some([_, before]) = points.last().copied() {
                    points.push([x, before]);
                }
                points.push([x, y]);
            }
        }
        if let Some([_, y]) = points.last().copied() {
            points.push([self.left() + run.end as f32, y]);
        }
        points
    }

    fn area(&mut self, curve: &Curve, colour: Colour, second: Option<(Colour, f64)>) {
        for run in Self::runs(curve) {
            let mut points = self.along(&curve.top, &run);
            let bottom = self.along(&curve.bottom, &run);
            points.extend(bottom.into_iter().rev());
            points.iter_mut().for_each(|point| point[1] = self.within(point[1]));
            match second {
                None => self.fill(points, colour),
                Some((second, height)) => self.gradient(curve, &run, [colour, second], height as f32),
            }
        }
    }

    /// Columns of pixels whose colour changes from the curve down.
    fn gradient(&mut self, curve: &Curve, run: &std::ops::Range<usize>, colours: [Colour; 2], height: f32) {
        for column in run.clone() {
            let (x, top) = (self.left() + column as f32, self.within(self.y(curve.top[column])));
            let bottom = self.within(self.y(curve.bottom[column]));
            // A height of 0 or less is the whole height; below the second colour there is only that one.
            let end = if height > 0.0 { top + height.copysign(bottom - top) } else { bottom };
            let points = vec![[x, top], [x + 1.0, top], [x + 1.0, bottom], [x, bottom]];
            if end != top {
                self.marks.push(Mark::Gradient { points, colours, span: [top, end] });
            }
        }
    }

    /// The parts of a line within the graph.
    fn strokes(&self, curve: &Curve) -> Vec<Vec<[f32; 2]>> {
        let mut strokes = vec![];
        for run in Self::runs(curve) {
            let points = self.along(&curve.top, &run);
            let mut part: Vec<[f32; 2]> = vec![];
            for pair in points.windows(2) {
                match self.clipped(pair[0], pair[1]) {
                    Some((from, to)) => {
                        if part.last() != Some(&from) {
                            strokes.extend((part.len() > 1).then(|| std::mem::take(&mut part)));
                            part = vec![from];
                        }
                        part.push(to);
                    }
                    None => strokes.extend((part.len() > 1).then(|| std::mem::take(&mut part))),
                }
            }
            strokes.extend((part.len() > 1).then_some(part));
        }
        strokes
    }

    /// The part of a line between the upper and the lower edge.
    fn clipped(&self, from: [f32; 2], to: [f32; 2]) -> Option<([f32; 2], [f32; 2])> {
        let (top, bottom) = (self.top(), self.bottom());
        if from[1].max(to[1]) < top || from[1].min(to[1]) > bottom {
            return None;
        }
        let at = |y: f32| {
            let limited = y.clamp(top, bottom);
            let part = if to[1] == from[1] { 0.0 } else { (limited - from[1]) / (to[1] - from[1]) };
            [from[0] + (to[0] - from[0]) * part, limited]
        };
        let keep = |point: [f32; 2]| if (top..=bottom).contains(&point[1]) { point } else { at(point[1]) };
        Some((keep(from), keep(to)))
    }

    /// A tick at each column whose row is neither unknown nor 0.
    fn ticks(&mut self, curve: &Curve, colour: Colour, fraction: f64) {
        let height = (self.bottom() - self.top()) * fraction.abs().min(1.0) as f32;
        for column in 0..curve.top.len() {
            let value = curve.top[column];
            if value.is_nan() || value == 0.0 {
                continue;
            }
            let x = self.left() + column as f32;
            let (from, to) = match fraction < 0.0 {
                true => (self.top(), self.top() + height),
                false => (self.bottom() - height, self.bottom()),
            };
            self.block(x, from, x + 1.0, to, colour);
        }
    }

    fn rules(&mut self) {
        let graph = self.graph;
        for (element, place) in graph.elements.iter().zip(&graph.rules) {
            let Some(place) = *place else { continue };
            match &element.action {
                Action::Level { colour: Some(colour), dashes, .. }
                    if (graph.range.0..=graph.range.1).contains(&place) =>
                {
                    let y = self.y(place).round() + 0.5;
                    self.line(vec![[self.left(), y], [self.right(), y]], *colour, 1.0, dashes.as_ref());
                }
                Action::Moment { colour: Some(colour), dashes, .. }
                    if (graph.options.start as f64..=graph.options.end as f64).contains(&place) =>
                {
                    let x = self.x(place).round() + 0.5;
                    self.line(vec![[x, self.bottom()], [x, self.top()]], *colour, 1.0, dashes.as_ref());
                }
                _ => {}
            }
        }
    }

    fn grid(&mut self) {
        let (on, off) = self.graph.options.grid_dash;
        let dash = Dashes { lengths: vec![on, off], offset: 0.0 };
        let dash = (on > 0.0 && off > 0.0).then_some(&dash);
        let (thin, strong) = (self.colour("GRID"), self.colour("MGRID"));
        let size = self.graph.options.size("AXIS");
        let half = (frame::ascent(size) / 2.5) as f32;
        for line in value_axis::lines(self.graph) {
            let y = self.y(line.value).round() + 0.5;
            if line.is_major || self.graph.options.has_minor {
                self.line(
                    vec![[self.left(), y], [self.right(), y]],
                    if line.is_major { strong } else { thin },
                    1.0,
                    dash,
                );
            }
            if let Some((left, right)) = line.labels {
                self.words_at([self.left() - size as f32, y + half], Anchor::End, "AXIS", &left, false);
                if let Some(right) = right {
                    self.words_at(
                        [self.right() + size as f32, y + half],
                        Anchor::Start,
                        "AXIS",
                        &right,
                        false,
                    );
                }
            }
        }
        let times = time_axis::times(self.graph);
        for (times, colour) in [(times.minor, thin), (times.major, strong)] {
            for time in times {
                let x = self.x(time as f64).round() + 0.5;
                self.line(vec![[x, self.bottom()], [x, self.top()]], colour, 1.0, dash);
            }
        }
        let base = self.bottom() + (size * 1.4) as f32 + half;
        for (middle, text) in times.labels {
            self.words_at([self.x(middle), base], Anchor::Middle, "AXIS", &text, false);
        }
    }

    fn axes(&mut self) {
        let (left, right, bottom, top) =
            (self.left() - 0.5, self.right() + 0.5, self.bottom() + 0.5, self.top() - 0.5);
        let colour = self.colour("AXIS");
        self.line(vec![[left - 4.0, bottom], [right + 4.0, bottom]], colour, 1.0, None);
        self.line(vec![[left, bottom + 4.0], [left, top - 4.0]], colour, 1.0, None);
        let arrow = self.colour("ARROW");
        self.fill(
            vec![[right + 4.0, bottom - 3.0], [right + 9.0, bottom], [right + 4.0, bottom + 3.0]],
            arrow,
        );
        self.fill(vec![[left - 3.0, top - 4.0], [left, top - 9.0], [left + 3.0, top - 4.0]], arrow);
        if self.graph.options.right.is_some() {
            self.line(vec![[right, bottom + 4.0], [right, top - 4.0]], colour, 1.0, None);
            self.fill(vec![[right - 3.0, top - 4.0], [right, top - 9.0], [right + 3.0, top - 4.0]], arrow);
        }
    }

    fn words(&mut self) {
        let graph = self.graph;
        let options = &graph.options;
        let (width, height) = (graph.frame.image_width as f32, graph.frame.image_height as f32);
        let unit = options.size("UNIT");
        let middle = (self.top() + self.bottom()) / 2.0;
        let title = options.size("TITLE");
        for (line, text) in frame::title_lines(&options.title).iter().enumerate() {
            let top = title * (0.8 + frame::TITLE_LINE * line as f64) + frame::ascent(title);
            self.words_at([width / 2.0, top as f32], Anchor::Middle, "TITLE", text, false);
        }
        self.words_at(
            [(unit * 0.6 + frame::ascent(unit)) as f32, middle],
            Anchor::Middle,
            "UNIT",
            &options.vertical,
            true,
        );
        self.words_at(
            [width - (unit * 0.8) as f32, middle],
            Anchor::Middle,
            "UNIT",
            &options.right_label,
            true,
        );
        let mark = options.size("WATERMARK");
        self.words_at(
            [width / 2.0, height - mark as f32 * 0.8],
            Anchor::Middle,
            "WATERMARK",
            &options.watermark,
            false,
        );
    }

    fn legend(&mut self) {
        let graph = self.graph;
        let size = graph.options.size("LEGEND");
        for placed in &graph.frame.legend.texts {
            let element = &graph.elements[placed.element];
            let top = (graph.frame.legend_top + placed.top(size)) as f32;
            let first = top + frame::ascent(size) as f32;
            let tab = graph.options.tab_stop(graph.options.zoom);
            for (index, line) in frame::text_lines(&placed.shown).iter().enumerate() {
                let base = first + index as f32 * line_height(size) as f32;
                // Parts between tabs stand where the tabs say.
                let mut done = String::new();
                for part in line.split_inclusive('\t') {
                    let x = placed.x + frame::text_width(&done, size, graph.options.zoom, tab);
                    let text = part.trim_end_matches('\t');
                    self.words_at([x as f32, base], Anchor::Start, "LEGEND", text, false);
                    done.push_str(part);
                }
            }
            let colour = match &element.action {
                Action::Curve { colour, .. }
                | Action::Level { colour, .. }
                | Action::Moment { colour, .. } => *colour,
                _ => None,
            };
            if let Some(colour) = colour {
                let side = (line_height(size) * 0.65).round() as f32;
                let (x, y) = (placed.x.round() as f32, (first - side).round());
                self.block(x, y, x + side, y + side, self.colour("BACK"));
                self.block(x, y, x + side, y + side, colour);
                let (left, up, right, down) = (x + 0.5, y + 0.5, x + side - 0.5, y + side - 0.5);
                let outline = vec![[left, up], [right, up], [right, down], [left, down], [left, up]];
                self.line(outline, self.colour("FRAME"), 1.0, None);
            }
        }
    }
}
