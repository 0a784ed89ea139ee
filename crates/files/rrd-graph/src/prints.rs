//! What `PRINT` and `GPRINT` print.

use khz_rrd::error::Result;
use khz_rrd::local_time;
use khz_rrd::number::{self, UNKNOWN};
use khz_rrd::text;
use khz_rrd::xport::{Rows, Script};

use crate::duration;
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
///
/// # Errors
/// A format of a duration with a conversion that there is not.
pub fn print(
    of: usize,
    print: &Print,
    values: &Values<'_>,
    options: &Options,
    scale: &mut Option<(f64, &'static str)>,
) -> Result<String> {
    let rows = &values.columns[of];
    let value = || rows.values.first().copied().unwrap_or(UNKNOWN);
    let base = options.base;
    Ok(match print {
        Print::Of(function, format) => format.apply(summary(*function, &rows.values), base, scale),
        Print::Now(format) => at(options.now, format),
        Print::TimeOf(function, format) => value_as(summary(*function, &rows.values), format, at_utc),
        Print::DurationOf(function, format) => as_duration(summary(*function, &rows.values), format)?,
        Print::Value(format) => format.apply(value(), base, scale),
        Print::Time(format) => {
            values.script.moment(of, values.columns).map_or_else(|| no_time(format), |time| at(time, format))
        }
        Print::ValueTime(format) => value_as(value(), format, at_utc),
        Print::Duration(format) => as_duration(value(), format)?,
    })
}

fn as_duration(value: f64, format: &str) -> Result<String> {
    if value.is_finite() { duration::text(value, format) } else { Ok(format::c_signed(value)) }
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
            Some('n') => "\r\n",
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

/// A local time.
pub fn at(time: i64, format: &str) -> String {
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
