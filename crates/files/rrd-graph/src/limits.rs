//! The range of the value axis.

use crate::options::{Autoscale, Options};

/// Numbers that look well at the end of an axis, the largest first.
const NICE: [f64; 46] = [
    1000.0, 900.0, 800.0, 750.0, 700.0, 600.0, 500.0, 400.0, 300.0, 250.0, 200.0, 125.0, 100.0, 90.0, 80.0,
    75.0, 70.0, 60.0, 50.0, 40.0, 30.0, 25.0, 20.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0,
    1.8, 1.5, 1.2, 1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1,
];
/// Above and below the values on a logarithmic axis.
const LOG_ROOM: f64 = 2.0;
/// The range of a logarithmic axis without positive values, before the room.
const LOG_EMPTY: (f64, f64) = (5.1e-9, 5.1);
/// Steps of single-precision numbers between two ends that count as one.
const SAME_STEPS: i64 = 4;
/// The part of the range that the alternative scaling adds at an end.
const ALT_ROOM: f64 = 0.1;

/// The lowest and highest value of the axis. `values` are all that count for it.
pub fn range(values: impl Iterator<Item = f64>, options: &Options) -> (f64, f64) {
    let counts = |value: &f64| value.is_finite() && (!options.is_log || *value > 0.0);
    let found = values.filter(counts).fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    let empty = if options.is_log { LOG_EMPTY } else { (0.0, 1.0) };
    let (data_low, data_high) = found.unwrap_or(empty);
    let keeps = |is_wider: bool| match (options.is_rigid, options.shrinks) {
        (true, true) => !is_wider,
        (true, false) => true,
        (false, _) => is_wider,
    };
    let low = options.lower.filter(|low| keeps(*low < data_low));
    let high = options.upper.filter(|high| keeps(*high > data_high));
    let (mut min, mut max) = match options.is_log {
        true => (low.unwrap_or(data_low / LOG_ROOM), high.unwrap_or(data_high * LOG_ROOM)),
        false => (low.unwrap_or(data_low), high.unwrap_or(data_high)),
    };
    if min > max {
        // As in rrdtool; limits that exclude each other are moved by a hundredth of the upper one.
        min = max * if min > 0.0 { 0.99 } else { 1.01 };
    }
    if are_one(min, max) {
        max = one_value(max);
    }
    let is_fixed = options.is_log || (options.is_rigid && !options.shrinks);
    if is_fixed { (min, max) } else { widened(min, max, options) }
}

/// Whether both are the same value, or so near that a single-precision number hardly tells them apart.
fn are_one(a: f64, b: f64) -> bool {
    // Steps from zero to the number.
    let steps = |value: f64| {
        let bits = i64::from((value as f32).to_bits() & 0x7fff_ffff);
        if value.is_sign_negative() { -bits } else { bits }
    };
    (steps(a) - steps(b)).abs() <= SAME_STEPS
}

/// The upper end of the range of one value.
fn one_value(value: f64) -> f64 {
    let end = if value > 0.0 { value * 1.01 } else { value * 0.99 };
    // As in rrdtool, also where a single-precision number hardly tells it from 0.
    if are_one(end, 0.0) { 1.0 } else { end }
}

/// Powers of the base that make values of this size read well.
pub fn power(min: f64, max: f64, base: f64) -> f64 {
    let size = min.abs().max(max.abs());
    if size > 0.0 { (size.ln() / base.ln()).floor() } else { 0.0 }
}

fn widened(min: f64, max: f64, options: &Options) -> (f64, f64) {
    if let Some(label) = options.label_step {
        // Both ends have a label.
        return ((min / label).floor() * label, (max / label).ceil() * label);
    }
    let unit = options.base.powf(power(min, max, options.base));
    let room = (max - min) * ALT_ROOM;
    let Autoscale { both, min: below, max: above } = options.autoscale;
    if both {
        let least = 2.0 * 10f64.powf((min.abs().max(max.abs()) / unit).log10().floor() - 2.0);
        let room = if max - min < least { (least - (max - min)) * 0.55 } else { room };
        (min - room, max + room)
    } else if below {
        (min - room, max)
    } else if above {
        (min, max + room)
    } else {
        nice(min, max, unit)
    }
}

/// Both ends moved outwards to numbers that look well; an end that is small beside the other stays.
fn nice(min: f64, max: f64, unit: f64) -> (f64, f64) {
    let (low, high) = (min / unit, max / unit);
    let (mut min, mut max) = (min, max);
    for pair in NICE.windows(2) {
        let (larger, smaller) = (pair[0], pair[1]);
        if (smaller..=larger).contains(&low) {
            min = smaller * unit;
        }
        if (-larger..=-smaller).contains(&low) {
            min = -larger * unit;
        }
        if (smaller..=larger).contains(&high) {
            max = larger * unit;
        }
        if (-larger..=-smaller).contains(&high) {
            max = -smaller * unit;
        }
    }
    (min, max)
}
