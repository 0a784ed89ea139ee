//! A chart as text: a strip of block characters, two rows high, for each curve of each panel, with the numbers at its top
//! and bottom. For terminals, and for files that people read.

use crate::axis;
use crate::chart::{Chart, Curve};

/// Rows of a strip, and the heights that one character shows.
const ROWS: usize = 2;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Shown where nothing is known.
const UNKNOWN: char = '·';
/// In a column whose value is 0.
const ZERO: char = '_';
/// A narrower chart shows nothing useful.
const WIDTH_MIN: usize = 20;

/// The chart in lines of at most `width` characters.
pub fn strips(chart: &Chart, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut lines = vec![cut(&chart.title, width), cut(&chart.subtitle, width), String::new()];
    let ends: Vec<(f64, String)> = (0..chart.axes.len()).map(|axis| end(chart, axis)).collect();
    let margin = ends.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0).max(1);
    let columns = width - margin.min(width - 10) - 1;
    for panel in &chart.panels {
        lines.push(cut(&format!("── {} {}", panel.name, "─".repeat(width)), width));
        for curve in &panel.curves {
            let name = &chart.legend.get(curve.legend).map_or(&curve.name, |(name, _)| name);
            lines.push(cut(&format!("{:margin$} {name}", ""), width).trim_end().to_owned());
            let (most, text) = &ends[curve.axis.min(ends.len() - 1)];
            for (row, strip) in strip(curve, chart.seconds, *most, columns).into_iter().enumerate() {
                let mark = match row {
                    0 => text.as_str(),
                    _ => "0",
                };
                lines.push(format!("{mark:>margin$} {}", strip.trim_end()));
            }
        }
    }
    lines.push(time_line(chart, margin, columns));
    lines.push(cut(&format!("{:margin$} {}", "", chart.time_title), width).trim_end().to_owned());
    lines.join("\n") + "\n"
}

/// The value at the top of a strip, and its label.
fn end(chart: &Chart, axis: usize) -> (f64, String) {
    let scale = chart.axes[axis].scale;
    let (_, high) = chart.range(axis);
    let most = if high > 0.0 { high } else { 1.0 };
    (most, axis::short(most, scale))
}

/// The rows of a strip: each column shows its largest value, so that a short peak is visible.
fn strip(curve: &Curve, seconds: f64, most: f64, columns: usize) -> [String; ROWS] {
    let mut heights: Vec<Option<f64>> = vec![None; columns];
    let column = |at: f64| ((at / seconds.max(1e-9) * columns as f64) as usize).min(columns - 1);
    let mut before: Option<usize> = None;
    for point in &curve.points {
        let here = column(point.at);
        let height = heights[here].unwrap_or(0.0).max(point.high);
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
                let level = (height / most * levels as f64).round().clamp(0.0, levels as f64) as usize;
                // Every value above 0 is visible.
                let level = if *height > 0.0 { level.max(1) } else { level };
                match level.saturating_sub(below) {
                    0 if number + 1 == ROWS => ZERO,
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
    for (at, text) in axis::time_ticks(chart.seconds, columns / 12) {
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
            time_title: "seconds since the start".into(),
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
    fn no_line_is_wider_than_asked() {
        for width in 20..120 {
            let text = strips(&chart(), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}
