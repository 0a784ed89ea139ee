//! What `PRINT` and `GPRINT` print.

use khz_rrd::local_time;
use khz_rrd::number::{self, UNKNOWN};
use khz_rrd::text;
use khz_rrd::xport::{Rows, Script};

use crate::element::{Function, Print};
use crate::format;
use crate::options::Options;

/// The computed definitions.
pub struct Values<'a> {
    /// The definitions.
    pub script: &'a Script,
    /// Their rows.
    pub columns: &'a [Rows],
}

/// The text of one print. `scale` is the factor that a `%S` takes again.
pub fn print(
    of: usize,
    print: &Print,
    values: &Values<'_>,
    options: &Options,
    scale: &mut Option<(f64, &'static str)>,
) -> String {
    let rows = &values.columns[of];
    let value = || rows.values.first().copied().unwrap_or(UNKNOWN);
    let base = options.base;
    match print {
        Print::Of(function, format) => format.apply(summary(*function, &rows.values), base, scale),
        Print::Now(format) => at(options.now, format),
        Print::TimeOf(function, format) => value_as(summary(*function, &rows.values), format, at_utc),
        Print::DurationOf(function, format) => value_as(summary(*function, &rows.values), format, duration),
        Print::Value(format) => format.apply(value(), base, scale),
        Print::Time(format) => {
            values.script.moment(of, values.columns).map_or_else(|| no_time(format), |time| at(time, format))
        }
        Print::ValueTime(format) => value_as(value(), format, at_utc),
        Print::Duration(format) => value_as(value(), format, duration),
    }
}

/// A value in a format for whole numbers; one that is not finite has none.
fn value_as(value: f64, format: &str, show: fn(i64, &str) -> String) -> String {
    if value.is_finite() { show(number::as_long(value), format) } else { format::c_signed(value) }
}

/// What a format shows of a time that there is not: a dash for each digit.
fn no_time(format: &str) -> String {
    let (mut out, mut letters) = (String::new(), format.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        out.push_str(match letters.next() {
            Some('d' | 'g' | 'm' | 'y' | 'C' | 'H' | 'I' | 'M' | 'S' | 'U' | 'V' | 'W') => "--",
            Some('j') => "---",
            Some('G' | 'Y') => "----",
            Some('D') => "--/--/--",
            Some('F') => "----------",
            Some('R') => "--:--",
            Some('T') => "--:--:--",
            Some('n') => "\n",
            Some('t') => "\t",
            Some('%') => "%",
            Some('E' | 'O') => {
                letters.next();
                "-"
            }
            _ => "-",
        });
    }
    format::cut(out)
}

/// As in rrdtool, a value that is a time is shown in UTC.
fn at_utc(time: i64, format: &str) -> String {
    let shown = local_time::format_utc(time, &text::bytes(format));
    format::cut(shown.map_or_else(String::new, |bytes| text::of(&bytes).into_owned()))
}

fn at(time: i64, format: &str) -> String {
    let shown = local_time::format(time, &text::bytes(format));
    format::cut(shown.map_or_else(String::new, |bytes| text::of(&bytes).into_owned()))
}

/// The old functions.
fn summary(function: Function, values: &[f64]) -> f64 {
    let known = || values.iter().copied().filter(|value| value.is_finite());
    match function {
        Function::Average => {
            let (sum, count) = known().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
            if count > 0 { sum / f64::from(count) } else { UNKNOWN }
        }
        Function::Min => known().reduce(f64::min).unwrap_or(UNKNOWN),
        Function::Max => known().reduce(f64::max).unwrap_or(UNKNOWN),
        Function::Last => known().next_back().unwrap_or(UNKNOWN),
    }
}

/// Milliseconds as the parts that `format` names: `%W` weeks, `%d` days, `%H` hours, `%M` minutes, `%S` seconds, `%f`
/// milliseconds; the largest part named counts on.
pub fn duration(milliseconds: i64, format: &str) -> String {
    const PARTS: [(char, i64, i64); 6] = [
        ('W', 604_800_000, 0),
        ('d', 86_400_000, 7),
        ('H', 3_600_000, 24),
        ('M', 60_000, 60),
        ('S', 1000, 60),
        ('f', 1, 1000),
    ];
    let mut out = String::new();
    let mut letters = format.chars();
    let total = milliseconds.unsigned_abs() as i64;
    let largest =
        PARTS.iter().find(|(letter, ..)| format.contains(&format!("%{letter}"))).map(|(letter, ..)| *letter);
    if milliseconds < 0 {
        out.push('-');
    }
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let Some(part) = letters.next() else { break };
        match PARTS.iter().find(|(known, ..)| *known == part) {
            Some((known, size, within)) => {
                let value = match Some(*known) == largest {
                    true => total / size,
                    false => total / size % within,
                };
                let padded = match part {
                    'f' => format!("{value:03}"),
                    'H' | 'M' | 'S' if Some(part) != largest => format!("{value:02}"),
                    _ => value.to_string(),
                };
                out.push_str(&padded);
            }
            None if part == '%' => out.push('%'),
            None => out.extend(['%', part]),
        }
    }
    format::cut(out)
}
