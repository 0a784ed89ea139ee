//! A value for each column of pixels: what the picture shows and what the range of the value axis comes from.

use khz_rrd::number::UNKNOWN;

use crate::element::{Action, Element, Subject};
use crate::options::Options;
use crate::prints::Values;

/// What is drawn of one element.
pub struct Curve {
    /// Which element.
    pub element: usize,
    /// The upper edge, for each column of pixels.
    pub top: Vec<f64>,
    /// What it is stacked on.
    pub bottom: Vec<f64>,
    /// Whether the range of the axis comes from it.
    pub counts: bool,
}

/// The curves and ticks of `elements`, `width` pixels wide.
pub fn curves(elements: &[Element], values: &Values<'_>, options: &Options, width: i64) -> Vec<Curve> {
    let width = usize::try_from(width).unwrap_or(0);
    let mut below = vec![UNKNOWN; width];
    let mut curves = vec![];
    for (index, element) in elements.iter().enumerate() {
        match &element.action {
            Action::Curve { of, is_stacked, skips_scale, .. } => {
                let own = columns(*of, values, options, width);
                if !is_stacked {
                    below = vec![UNKNOWN; width];
                }
                let bottom: Vec<f64> =
                    below.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
                let mut top = vec![UNKNOWN; width];
                for column in 0..width {
                    let value = own[column];
                    if !value.is_nan() {
                        top[column] = bottom[column] + value;
                        below[column] = top[column];
                    }
                }
                curves.push(Curve { element: index, top, bottom, counts: !skips_scale });
            }
            Action::Tick { of, .. } => {
                let top = columns(*of, values, options, width);
                // As in rrdtool, a curve may be stacked on ticks.
                below = top.clone();
                curves.push(Curve { element: index, top, bottom: vec![], counts: false });
            }
            _ => {}
        }
    }
    curves
}

/// The rows of `of` for each column of pixels.
fn columns(of: Subject, values: &Values<'_>, options: &Options, width: usize) -> Vec<f64> {
    match of {
        Subject::Number(value) => vec![value; width],
        Subject::Named(index) => {
            let rows = &values.columns[index];
            if values.script.is_value(index) {
                return vec![rows.values.first().copied().unwrap_or(UNKNOWN); width];
            }
            let seconds = (options.end - options.start) as f64 / width.max(1) as f64;
            let at = |column: usize| {
                let time = options.start + (seconds * column as f64) as i64;
                let row = time.saturating_sub(rows.start).div_euclid(rows.step.max(1) as i64);
                usize::try_from(row).ok().and_then(|row| rows.values.get(row)).copied().unwrap_or(UNKNOWN)
            };
            (0..width).map(at).collect()
        }
    }
}
