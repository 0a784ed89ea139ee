//! Ticks of an axis and their labels: round numbers, in the unit's own steps.

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Steps of 1, 2, 5, 10; thousands are k, M, G, T.
    #[default]
    Plain,
    /// Steps of 1, 2, 4, 8, ... KiB.
    Bytes,
    /// Percent.
    Percent,
}

/// An axis of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// What the values are, with their unit.
    pub title: String,
    /// How its numbers are written.
    pub scale: Scale,
}

/// What the axis across counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Across {
    /// Time, in seconds.
    #[default]
    Time,
    /// Other numbers, from 0 on.
    Number,
}

/// Ticks of an axis across that ends at `end`, each with its label.
pub(crate) fn ticks_across(across: Across, end: f64, wanted: usize) -> Vec<(f64, String)> {
    if across == Across::Time {
        return time_ticks(end, wanted);
    }
    let step = step(end, wanted, Scale::Plain);
    let count = (end / step + 1e-9).floor().max(0.0) as usize;
    let at = (0..=count.min(TICKS_MAX as usize)).map(|n| n as f64 * step);
    at.map(|at| (at, label(at, step, end, Scale::Plain))).collect()
}

/// The distance between ticks: about `wanted` of them cover `range`.
pub(crate) fn step(range: f64, wanted: usize, scale: Scale) -> f64 {
    let rough = range / wanted.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    if scale == Scale::Bytes && rough > 1.0 {
        return 2f64.powf(rough.log2().ceil());
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// Ticks of one axis: damaged numbers must not make endless ones.
const TICKS_MAX: i64 = 50;

/// Ticks from at or below `low` to at or above `high`.
pub(crate) fn ticks((low, high): (f64, f64), wanted: usize, scale: Scale) -> Vec<f64> {
    let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 0.0) };
    // The largest numbers have a difference that is none any more.
    let (parts, half) = (wanted.div_ceil(2), high / 2.0 - low / 2.0);
    let step =
        if (high - low).is_finite() { step(high - low, wanted, scale) } else { step(half, parts, scale) };
    let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
    (first..=last.clamp(first + 1, first + TICKS_MAX)).map(|n| n as f64 * step).collect()
}

const BYTES: [(f64, &str); 5] = [
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1_024.0, "KiB"),
    (1.0, "B"),
];
const PLAIN: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// The unit for values up to `most`: its size, its sign, and what separates number and sign.
fn unit(most: f64, scale: Scale) -> (f64, &'static str, &'static str) {
    let units: &[(f64, &'static str)] = match scale {
        Scale::Bytes => &BYTES,
        // Below 10,000 the plain number is clearer than a prefix.
        Scale::Plain if most < 10_000.0 => &PLAIN[PLAIN.len() - 1..],
        Scale::Plain => &PLAIN,
        Scale::Percent => &[(1.0, "%")],
    };
    let (size, sign) =
        units.iter().find(|(size, _)| most >= *size).copied().unwrap_or(units[units.len() - 1]);
    (size, sign, if scale == Scale::Plain { "" } else { " " })
}

/// Numbers from here on, and below its inverse, are written with an exponent: no prefix and no zeros make them readable.
const EXPONENT_FROM: f64 = 1e15;

/// A number with an exponent and this many digits at most: `1.5e300`.
fn with_exponent(value: f64, digits: usize, scale: Scale) -> String {
    let text = format!("{value:.*e}", digits - 1);
    let (number, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    let (_, sign, gap) = unit(0.0, scale);
    format!("{number}e{exponent}{gap}{sign}").replace('-', "\u{2212}")
}

/// The label of a tick, where ticks are `step` apart and reach up to `most`.
pub(crate) fn label(value: f64, step: f64, most: f64, scale: Scale) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if most.max(value.abs()) >= EXPONENT_FROM || step < 1.0 / EXPONENT_FROM {
        return with_exponent(value, 3, scale);
    }
    let (size, sign, gap) = unit(most, scale);
    let places = places(step / size);
    format!("{:.places$}{gap}{sign}", value / size).replace('-', "\u{2212}")
}

/// Decimal places that tell numbers apart whose distance is `step`.
fn places(step: f64) -> usize {
    (0..9)
        .find(|&places| {
            let scaled = step * 10f64.powi(places);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        })
        .unwrap_or(9) as usize
}

/// A value for people, with about three digits: `12.3k`, `1.5 MiB`, `37 %`.
pub(crate) fn short(value: f64, scale: Scale) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string().replace('-', "\u{2212}");
    }
    if !(1.0 / EXPONENT_FROM..EXPONENT_FROM).contains(&value.abs()) {
        return with_exponent(value, 3, scale);
    }
    let (size, sign, gap) = unit(value.abs(), scale);
    let scaled = value / size;
    let places = (2.0 - scaled.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{scaled:.places$}").replace('-', "\u{2212}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{gap}{sign}")
}

/// Distances between ticks of time, in seconds: parts of a minute, minutes, hours, days, a week.
const TIME_STEPS: [f64; 16] = [
    10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0,
    43_200.0, 86_400.0, 604_800.0,
];

/// Ticks of a time axis that spans this many seconds, each with its label.
pub(crate) fn time_ticks(seconds: f64, wanted: usize) -> Vec<(f64, String)> {
    let rough = seconds / wanted.max(1) as f64;
    let step = if rough <= 5.0 {
        step(seconds, wanted, Scale::Plain)
    } else {
        TIME_STEPS.into_iter().find(|step| *step >= rough).unwrap_or((rough / 86_400.0).ceil() * 86_400.0)
    };
    let count = (seconds / step + 1e-9).floor() as usize;
    (0..=count.min(1_000)).map(|n| (n as f64 * step, time_label(n as f64 * step, step, seconds))).collect()
}

fn time_label(at: f64, step: f64, seconds: f64) -> String {
    if seconds <= 120.0 {
        return if seconds < 1.0 {
            format!("{:.*} ms", places(step * 1e3), at * 1e3)
        } else {
            format!("{:.*} s", places(step), at)
        };
    }
    let whole = at.round() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    if seconds < 3_600.0 {
        format!("{minutes}:{rest:02}")
    } else if step >= 86_400.0 {
        format!("{} d", whole / 86_400)
    } else if step < 60.0 {
        format!("{hours}:{minutes:02}:{rest:02}")
    } else {
        format!("{hours}:{minutes:02} h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(range: (f64, f64), scale: Scale) -> Vec<String> {
        let ticks = ticks(range, 3, scale);
        let (step, most) = (ticks[1] - ticks[0], ticks[ticks.len() - 1]);
        ticks.iter().map(|&tick| label(tick, step, most, scale)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_cover_the_data() {
        assert_eq!(labels((0.0, 873.0), Scale::Plain), ["0", "500", "1000"]);
        assert_eq!(
            labels((0.0, 1.0), Scale::Plain),
            ["0.0", "0.5", "1.0"].map(|t| if t == "0.0" { "0" } else { t })
        );
        assert_eq!(labels((0.0, 23_000.0), Scale::Plain), ["0", "10k", "20k", "30k"]);
        assert_eq!(labels((0.0, 3.2e6), Scale::Bytes), ["0", "2 MiB", "4 MiB"]);
        assert_eq!(labels((0.0, 37.0), Scale::Percent), ["0", "20 %", "40 %"]);
        assert_eq!(labels((-12.0, 8.0), Scale::Plain), ["\u{2212}20", "\u{2212}10", "0", "10"]);
    }

    #[test]
    fn the_largest_and_the_smallest_numbers_have_short_labels() {
        assert_eq!(labels((0.0, 1.4e300), Scale::Plain), ["0", "5e299", "1e300", "1.5e300"]);
        assert_eq!(labels((0.0, 2e-300), Scale::Plain), ["0", "1e\u{2212}300", "2e\u{2212}300"]);
        assert_eq!(labels((0.0, 4e18), Scale::Bytes).last().unwrap(), "4.61e18 B");
        for range in [(f64::MIN, f64::MAX), (0.0, f64::MAX), (0.0, f64::MIN_POSITIVE), (-1e300, 1e-300)] {
            let labels = labels(range, Scale::Plain);
            assert!(
                (2..=6).contains(&labels.len()) && labels.iter().all(|label| label.len() <= 12),
                "{labels:?}"
            );
        }
        for (value, text) in [(1.234_5e300, "1.23e300"), (2e-300, "2e\u{2212}300"), (f64::INFINITY, "inf")] {
            assert_eq!(short(value, Scale::Plain), text);
        }
    }

    #[test]
    fn an_empty_range_still_has_ticks() {
        assert_eq!(labels((0.0, 0.0), Scale::Plain), ["0", "1"]);
        assert_eq!(ticks((0.0, f64::INFINITY), 3, Scale::Plain).len(), 2);
    }

    #[test]
    fn time_ticks_are_clock_times() {
        let texts = |seconds, wanted| -> Vec<String> {
            time_ticks(seconds, wanted).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(32.0, 8), ["0 s", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s"]);
        assert_eq!(texts(0.02, 4), ["0 ms", "5 ms", "10 ms", "15 ms", "20 ms"]);
        assert_eq!(texts(400.0, 4), ["0:00", "2:00", "4:00", "6:00"]);
        assert_eq!(texts(432_000.0, 5), ["0 d", "1 d", "2 d", "3 d", "4 d", "5 d"]);
        let five_years = texts(5.0 * 31_536_000.0, 5);
        assert!(
            five_years.len() <= 6 && five_years.iter().all(|text| text.ends_with(" d")),
            "{five_years:?}"
        );
        assert_eq!(texts(7_200.0, 4), ["0:00 h", "0:30 h", "1:00 h", "1:30 h", "2:00 h"]);
    }

    #[test]
    fn an_axis_of_numbers_has_round_ones() {
        let texts = |end, wanted| -> Vec<String> {
            ticks_across(Across::Number, end, wanted).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(28.0, 8), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(texts(4_000_000.0, 4), ["0", "1M", "2M", "3M", "4M"]);
        assert_eq!(texts(0.0, 4), ["0"]);
        assert_eq!(ticks_across(Across::Time, 32.0, 8), time_ticks(32.0, 8));
    }

    #[test]
    fn short_values_have_three_digits() {
        for (value, scale, text) in [
            (0.0, Scale::Plain, "0"),
            (12_345.0, Scale::Plain, "12.3k"),
            (1_234.0, Scale::Plain, "1234"),
            (0.052, Scale::Plain, "0.052"),
            (37.0, Scale::Percent, "37 %"),
            (3.0 * 1_048_576.0, Scale::Bytes, "3 MiB"),
        ] {
            assert_eq!(short(value, scale), text);
        }
    }
}
