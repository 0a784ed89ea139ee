//! A chart as text: a strip of block characters, two rows high, for each curve of each panel, with the numbers at its top
//! and bottom: the bottom is 0, or the lowest value, if one is below 0. For terminals, and for files that people read.

use crate::axis;
use crate::chart::{Chart, Curve};

/// Rows of a strip, and the heights that one character shows.
const ROWS: usize = 2;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Shown where nothing is known.
const UNKNOWN: char = '·';
/// In a column whose value is that at the bottom.
const LEAST: char = '_';
/// A narrower chart shows nothing useful.
const WIDTH_MIN: usize = 20;

/// The chart in lines of at most `width` characters.
pub fn strips(chart: &Chart, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut lines = vec![cut(&chart.title, width), cut(&chart.subtitle, width), String::new()];
    let ends: Vec<Ends> = (0..chart.axes.len()).map(|axis| Ends::of(chart, axis)).collect();
    let marks = ends.iter().flat_map(|ends| [&ends.top, &ends.bottom]);
    let margin = marks.map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let columns = width - margin.min(width - 10) - 1;
    for panel in &chart.panels {
        lines.push(cut(&format!("── {} {}", panel.name, "─".repeat(width)), width));
        for curve in &panel.curves {
            let name = &chart.legend.get(curve.legend).map_or(&curve.name, |(name, _)| name);
            lines.push(cut(&format!("{:margin$} {name}", ""), width).trim_end().to_owned());
            let ends = &ends[curve.axis.min(ends.len() - 1)];
            for (row, strip) in strip(curve, chart.seconds, ends, columns).into_iter().enumerate() {
                let mark = if row == 0 { &ends.top } else { &ends.bottom };
                lines.push(format!("{mark:>margin$} {}", strip.trim_end()));
            }
        }
    }
    lines.push(time_line(chart, margin, columns));
    lines.push(cut(&format!("{:margin$} {}", "", chart.time_title), width).trim_end().to_owned());
    lines.join("\n") + "\n"
}

/// The values at the top and at the bottom of a strip, and their labels.
struct Ends {
    most: f64,
    least: f64,
    top: String,
    bottom: String,
}

impl Ends {
    /// Those of an axis. A strip of values below 0 shows how they differ, since 0 may be far away from all of them.
    fn of(chart: &Chart, axis: usize) -> Self {
        let curves = chart.panels.iter().flat_map(|panel| &panel.curves).filter(|curve| curve.axis == axis);
        let values = curves.flat_map(|curve| &curve.points).map(|point| point.high);
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (value.min(low), value.max(high)));
        let (least, most) = match (low < 0.0, high > low.min(0.0)) {
            (true, true) => (low, high),
            (true, false) => (low, 0.0),
            (false, true) => (0.0, high),
            (false, false) => (0.0, 1.0),
        };
        let scale = chart.axes[axis].scale;
        Ends { most, least, top: axis::short(most, scale), bottom: axis::short(least, scale) }
    }

    /// The part of the way from the bottom to the top; the difference of two huge values is no number.
    fn part(&self, value: f64) -> f64 {
        (value / 2.0 - self.least / 2.0) / (self.most / 2.0 - self.least / 2.0)
    }
}

/// The rows of a strip: each column shows its largest value, so that a short peak is visible.
fn strip(curve: &Curve, seconds: f64, ends: &Ends, columns: usize) -> [String; ROWS] {
    let mut heights: Vec<Option<f64>> = vec![None; columns];
    let column = |at: f64| ((at / seconds.max(1e-9) * columns as f64) as usize).min(columns - 1);
    let mut before: Option<usize> = None;
    for point in &curve.points {
        let here = column(point.at);
        let height = heights[here].map_or(point.high, |height| height.max(point.high));
        // A sample that is longer than a column fills the columns since the previous sample.
        let from = before.filter(|_| !point.is_behind_gap).map_or(here, |before| (before + 1).min(here));
        heights[from..=here].iter_mut().for_each(|slot| *slot = Some(height));
        before = Some(here);
    }
    let levels = ROWS * (BLOCKS.len() - 1);
    let row = |number: usize| {
        let below = (ROWS - 1 - number) * (BLOCKS.len() - 1);
        let mark = |height: &Option<f64>| match height {
            None if number + 1 == ROWS => UNKNOWN,
            None => ' ',
            Some(height) => {
                let level = (ends.part(*height) * levels as f64).round().clamp(0.0, levels as f64) as usize;
                // Every value above the bottom is visible.
                let level = if *height > ends.least { level.max(1) } else { level };
                match level.saturating_sub(below) {
                    0 if number + 1 == ROWS => LEAST,
                    level => BLOCKS[level.min(BLOCKS.len() - 1)],
                }
            }
        };
        heights.iter().map(mark).collect::<String>()
    };
    std::array::from_fn(row)
}

fn time_line(chart: &Chart, margin: usize, columns: usize) -> String {
    let mut line: Vec<char> = vec![' '; margin + 1 + columns];
    for (at, text) in axis::ticks_across(chart.across, chart.seconds, columns / 12) {
        let start = margin + 1 + (at / chart.seconds.max(1e-9) * columns as f64) as usize;
        let letters: Vec<char> = text.chars().collect();
        let is_free =
            |from: usize| line[from.saturating_sub(1)..from + letters.len()].iter().all(|c| *c == ' ');
        if start + letters.len() <= line.len() && is_free(start) {
            line[start..start + letters.len()].copy_from_slice(&letters);
        }
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::chart::{Panel, Point};

    fn chart() -> Chart {
        let value = |n: usize| Point {
            at: n as f64,
            low: n as f64,
            mean: n as f64,
            high: n as f64,
            is_behind_gap: n == 20,
        };
        let points = (0..31).filter(|n| !(10..20).contains(n)).map(value).collect();
        let curve = Curve { name: "a".into(), legend: 0, axis: 0, points };
        Chart {
            title: "Title".into(),
            subtitle: "subtitle".into(),
            across: axis::Across::Time,
            time_title: "seconds since the start".into(),
            begins: None,
            seconds: 30.0,
            axes: vec![Axis { title: "a".into(), scale: axis::Scale::Plain }],
            legend: vec![("a.metric".into(), 0)],
            panels: vec![Panel { name: "node1".into(), curves: vec![curve], gaps: vec![(9.0, 20.0)] }],
        }
    }

    #[test]
    fn a_strip_shows_growth_and_where_nothing_is_known() {
        let expected = "\
Title
subtitle

── node1 ─────────────────────────
   a.metric
30                     ▃▃▄▄▅▅▆▆▇▇█
 0 _▁▁▂▂▃▃▄▄▅··········███████████
   0 s            15 s
   seconds since the start
";
        assert_eq!(strips(&chart(), 34), expected);
    }

    #[test]
    fn values_below_0_are_drawn_from_the_lowest_of_them_up() {
        let of = |values: &[f64]| {
            let mut chart = chart();
            let points = values.iter().enumerate().map(|(at, &value)| Point {
                at: at as f64 * 30.0 / (values.len() - 1) as f64,
                low: value,
                mean: value,
                high: value,
                is_behind_gap: false,
            });
            chart.panels[0].curves[0].points = points.collect();
            let lines: Vec<String> = strips(&chart, 24).lines().skip(5).take(2).map(str::to_owned).collect();
            lines
        };
        for (values, top, bottom, ends) in [
            (&[-99.9, -99.8, -99.7][..], "−99.7", "−99.9", '█'),
            (&[-5.0, 0.0, 5.0], "5", "−5", '█'),
            (&[5.0, 0.0, -5.0], "5", "−5", '_'),
            (&[-5.0, -5.0], "0", "−5", '_'),
            (&[0.0, 0.0], "1", "0", '_'),
            (&[1.0, 2.0], "2", "0", '█'),
        ] {
            let lines = of(values);
            let marks: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
            assert_eq!(marks, [top, bottom], "{values:?} {lines:?}");
            assert!(lines[1].ends_with(ends) && !lines[1].contains('·'), "{values:?} {lines:?}");
        }
        let flat = of(&[-99.8, -99.8, -99.8]);
        assert_eq!(flat[1].chars().filter(|c| *c == '_').count(), 18, "{flat:?}");
        assert_eq!(of(&[f64::MIN, f64::MAX]).len(), 2);
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        for width in 20..120 {
            let text = strips(&chart(), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}
