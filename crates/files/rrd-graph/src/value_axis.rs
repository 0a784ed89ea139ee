//! Lines and labels of the value axis.

use crate::format::{self, Format};
use crate::graph::Graph;
use crate::limits;
use crate::options::{Formatter, Options, ValueGrid};

/// Lines at most, so that an absurd grid does not hide the picture.
const LINES_MAX: usize = 1000;
/// Decades of a logarithmic axis at most.
const DECADES_MAX: i32 = 700;

/// A line across the graph.
pub struct Line {
    /// The value there.
    pub value: f64,
    /// Whether it is a strong one.
    pub is_major: bool,
    /// Texts at the left and at the right axis.
    pub labels: Option<(String, Option<String>)>,
}

/// The lines of the graph.
pub fn lines(graph: &Graph) -> Vec<Line> {
    let options = &graph.options;
    match options.value_grid {
        ValueGrid::Off => vec![],
        _ if options.is_log => decades(graph),
        ValueGrid::Every(step, every) => even(graph, step, every),
        ValueGrid::Automatic => {
            let (step, every) = chosen(graph);
            even(graph, step, every)
        }
    }
}

/// A step of 1, 2 or 5 in the unit of the labels (with a base of 1024, that of 1024) that leaves room for labels, and the lines to a
/// label.
fn chosen(graph: &Graph) -> (f64, i64) {
    let (min, max) = graph.range;
    let room = (graph.frame.height as f64 / (graph.options.size("AXIS") * 2.6)).max(1.0);
    let factor = factor(&graph.options, min, max);
    let unit = if graph.options.base != 1000.0 && factor.is_normal() { factor } else { 1.0 };
    let wanted = (max - min) / room / unit;
    if !(wanted.is_finite() && wanted > 0.0) {
        return (1.0, 1);
    }
    let decade = 10f64.powf(wanted.log10().floor());
    let (label, every) = match wanted / decade {
        part if part <= 1.0 => (decade, 2),
        part if part <= 2.0 => (2.0 * decade, 2),
        part if part <= 5.0 => (5.0 * decade, 5),
        _ => (10.0 * decade, 2),
    };
    (label * unit / every as f64, every)
}

fn even(graph: &Graph, step: f64, every: i64) -> Vec<Line> {
    let (min, max) = graph.range;
    let (first, last) = ((min / step).ceil(), (max / step).floor());
    if !(first.is_finite() && last.is_finite() && last - first < LINES_MAX as f64) {
        return vec![];
    }
    let style = Style::of(&graph.options, min, max, step * every as f64);
    let line = |index: i64| {
        let value = index as f64 * step;
        let is_major = index.rem_euclid(every) == 0;
        let labels = is_major.then(|| style.both(value));
        Line { value, is_major, labels }
    };
    (first as i64..=last as i64).map(line).collect()
}

fn decades(graph: &Graph) -> Vec<Line> {
    let (min, max) = graph.range;
    let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    let count = (last - first).clamp(1, DECADES_MAX);
    let room = (graph.frame.height as f64 / (graph.options.size("AXIS") * 2.6)).max(1.0);
    let skip = (f64::from(count) / room).ceil().max(1.0) as i32;
    let mut lines = vec![];
    for decade in first..=first + count {
        let base = 10f64.powi(decade);
        if !(min..=max).contains(&(base * 9.0)) && !(min..=max).contains(&base) && skip > 1 {
            continue;
        }
        let parts = if skip == 1 { 9 } else { 1 };
        for part in 1..=parts {
            let value = base * f64::from(part);
            if (min..=max).contains(&value) {
                let is_major = part == 1 && decade.rem_euclid(skip) == 0;
                let labels = is_major.then(|| log_label(&graph.options, value));
                lines.push(Line { value, is_major, labels });
            }
        }
    }
    lines
}

fn log_label(options: &Options, value: f64) -> (String, Option<String>) {
    let text = |value: f64| match options.is_si_log {
        true => {
            let (factor, symbol) = format::si(value, options.base);
            format!("{:.0}{symbol}", value / factor)
        }
        false => khz_rrd::number::scientific(value, 0),
    };
    (text(value), options.right.map(|(scale, shift)| text(value * scale + shift)))
}

/// How numbers beside the axis are written.
struct Style<'a> {
    options: &'a Options,
    left: Scale,
    right: Option<Scale>,
}

struct Scale {
    factor: f64,
    symbol: &'static str,
    digits: usize,
    format: Option<Format>,
    /// The format as it was given, for times and durations.
    text: Option<String>,
    formatter: Formatter,
}

impl<'a> Style<'a> {
    fn of(options: &'a Options, min: f64, max: f64, step: f64) -> Self {
        let right = options.right.map(|(scale, shift)| {
            let (a, b) = (min * scale + shift, max * scale + shift);
            let format = options.right_format.as_deref();
            Scale::of(options, a, b, (step * scale).abs(), format, options.right_formatter)
        });
        let left = options.left_format.as_deref();
        Self { options, left: Scale::of(options, min, max, step, left, options.left_formatter), right }
    }

    fn both(&self, value: f64) -> (String, Option<String>) {
        let right = self.options.right.zip(self.right.as_ref());
        let right = right.map(|((scale, shift), style)| style.text(value * scale + shift));
        (self.left.text(value), right)
    }
}

/// The power of the base that the labels of these values take.
fn power(options: &Options, min: f64, max: f64) -> i32 {
    let power = limits::power(min, max, options.base) as i32;
    // The exponent is that of ten, in threes.
    options.exponent.map_or(power, |exponent| exponent / 3)
}

fn factor(options: &Options, min: f64, max: f64) -> f64 {
    options.base.powi(power(options, min, max))
}

impl Scale {
    fn of(
        options: &Options,
        min: f64,
        max: f64,
        step: f64,
        format: Option<&str>,
        formatter: Formatter,
    ) -> Self {
        let (power, factor) = (power(options, min, max), factor(options, min, max));
        let shown = step / factor;
        let digits = if shown >= 1.0 {
            usize::from(shown.fract() > 1e-9)
        } else {
            (-shown.log10().floor()).clamp(0.0, 12.0) as usize
        };
        // Small numbers all have a fraction, so that they stand alike.
        let is_small = (min.abs().max(max.abs()) / factor) < 10.0;
        let digits = digits.max(usize::from(is_small));
        let text = format.map(str::to_string);
        let format = format.and_then(|format| Format::parse(format).ok());
        Self { factor, symbol: format::symbol(power), digits, format, text, formatter }
    }

    fn text(&self, value: f64) -> String {
        match self.formatter {
            Formatter::Timestamp => {
                let format = self.text.as_deref().unwrap_or("%Y-%m-%d %H:%M");
                let bytes = khz_rrd::local_time::format(value as i64, &khz_rrd::text::bytes(format));
                return bytes.map_or_else(String::new, |bytes| khz_rrd::text::of(&bytes).into_owned());
            }
            Formatter::Duration => {
                if let Some(format) = &self.text {
                    // The options have checked it.
                    return crate::duration::text(value, format).unwrap_or_default();
                }
                let seconds = value as i64 / 1000;
                return format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
            }
            Formatter::Numeric => {}
        }
        if let Some(format) = &self.format {
            return format.apply(value / self.factor, 1000.0, &mut None);
        }
        let number = value / self.factor;
        // No minus before zero.
        let number = if number.abs() < 1e-12 { 0.0 } else { number };
        match self.symbol {
            " " => format!("{number:.*}", self.digits),
            symbol => format!("{number:.*} {symbol}", self.digits),
        }
    }
}
