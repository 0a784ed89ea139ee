//! From readings to primary points (PDP): rates, wraps, heartbeats, the open point; pure arithmetic on a header.
//!
//! The order of the operations is that of rrdtool, judged by its results. Another order changes last bits.

use crate::ds::{DataSource, Kind};
use crate::header::Header;
use crate::layout::LAST_DS;
use crate::number::{self, Reading, UNKNOWN};
use crate::rpn::Moment;
use crate::text;

/// Added to a falling COUNTER first: 2^32 - 1, one less than the wrap it stands for. rrdtool's choice.
const WRAP_32: f64 = 4_294_967_295.0;
/// Added when that was not enough: with the first it makes 2^64 - 1.
const WRAP_64: f64 = 18_446_744_069_414_584_320.0;

/// Integers below this are doubles without rounding.
const EXACT: u128 = 1 << 53;
/// Digits that always fit 64 bits.
const DIGITS_64: usize = 19;

/// Takes the reading `text` of source `ds` after `interval` seconds: returns what it adds to the open point
/// (rate times interval, or unknown), and keeps the text. `Err` is rrdtool's message without the file name.
pub fn take_reading(header: &mut Header, ds: usize, text: &str, interval: f64) -> Result<f64, String> {
    let source = header.sources()[ds].clone_limits();
    if (source.heartbeat as f64) < interval {
        header.set_last_reading(ds, b"U");
    }
    let mut new = UNKNOWN;
    if !text.starts_with('U') && (source.heartbeat as f64) >= interval {
        let last = header.last_reading(ds);
        let (sum, rate) = match source.kind {
            Kind::Counter | Kind::Derive => {
                integer(text, source.kind)?;
                let sum = if last.starts_with(b"U") { UNKNOWN } else { difference(text.as_bytes(), last) };
                let sum = if source.kind == Kind::Counter { unwrapped(sum) } else { sum };
                (sum, sum / interval)
            }
            Kind::Dcounter | Kind::Dderive => {
                let last = text::of(last);
                // Without a known last reading the new one is not parsed.
                let sum = match last.starts_with('U') {
                    true => UNKNOWN,
                    false => directed(float(text, source.kind)?, &last, source.kind)?,
                };
                (sum, sum / interval)
            }
            Kind::Absolute => {
                let value = float(text, source.kind)?;
                (value, value / interval)
            }
            _ => {
                let sum = float(text, source.kind)? * interval;
                (sum, sum / interval)
            }
        };
        let outside = !rate.is_nan()
            && ((!source.max.is_nan() && rate > source.max) || (!source.min.is_nan() && rate < source.min));
        new = if outside { UNKNOWN } else { sum };
    }
    header.set_last_reading(ds, &text::bytes(text));
    Ok(new)
}

/// The parts of a definition that an update needs, without its strings.
struct Limits {
    kind: Kind,
    heartbeat: u64,
    min: f64,
    max: f64,
}

impl DataSource {
    fn clone_limits(&self) -> Limits {
        Limits { kind: self.kind, heartbeat: self.heartbeat, min: self.min, max: self.max }
    }
}

fn integer(text: &str, kind: Kind) -> Result<(), String> {
    let digits = if kind == Kind::Derive { text.strip_prefix('-').unwrap_or(text) } else { text };
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    let sort = if kind == Kind::Derive { "signed" } else { "unsigned" };
    Err(format!("not a simple {sort} integer: '{text}'"))
}

fn float(text: &str, kind: Kind) -> Result<f64, String> {
    match number::read(text) {
        Reading::Whole(value) => Ok(value),
        failed => {
            Err(format!("Function update_pdp_prep, case DST_{} - {}", kind.name(), unreadable(text, failed)))
        }
    }
}

/// rrdtool's message for a text that is not, or not only, a number.
pub fn unreadable(text: &str, reading: Reading<'_>) -> String {
    match reading {
        Reading::Partly(value, rest) => {
            format!("Converted '{text}' to {value:.6}, but cannot convert '{rest}'")
        }
        _ => format!("Cannot convert '{text}' to float"),
    }
}

fn unwrapped(difference: f64) -> f64 {
    let mut value = difference;
    if value < 0.0 {
        value += WRAP_32;
    }
    if value < 0.0 {
        value += WRAP_64;
    }
    value
}

/// The difference of two floating readings; for DCOUNTER unknown when the new one lies nearer to zero on the
/// old one's side, which is a reset.
fn directed(value: f64, last: &str, kind: Kind) -> Result<f64, String> {
    // A reading that came too late was kept unread, so it may be no number.
    let old = float(last, kind)?;
    let reset = (value > 0.0 && old > value) || (value < 0.0 && old < value);
    Ok(if kind == Kind::Dcounter && reset { UNKNOWN } else { value - old })
}

/// `new` minus `old`, both decimal integers of any sign, exactly, then read as rrdtool reads numbers.
fn difference(new: &[u8], old: &[u8]) -> f64 {
    let (Some((new_minus, new)), Some((old_minus, old))) = (digits(new), digits(old)) else { return UNKNOWN };
    if new_minus != old_minus {
        return UNKNOWN;
    }
    let (larger, smaller, minus) = if new >= old { (new, old, new_minus) } else { (old, new, !new_minus) };
    if larger - smaller < EXACT {
        let value = (larger - smaller) as u64 as f64;
        return if minus { -value } else { value };
    }
    // Up to 30 digits each: 10^30 fits 128 bits. The double is made from text, digit by digit.
    let text = (larger - smaller).to_string();
    let value = number::decimal(text.as_bytes()).map_or(UNKNOWN, |(value, _)| value);
    if minus { -value } else { value }
}

/// Sign and value of the first run of digits; `None` for none or more than 30.
fn digits(text: &[u8]) -> Option<(bool, u128)> {
    let minus = text.first() == Some(&b'-');
    let start = text.iter().position(u8::is_ascii_digit)?;
    let run = &text[start..];
    let len = run.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(run.len());
    if len > LAST_DS {
        return None;
    }
    // Most readings fit 64 bits, where adding up is cheaper.
    let (head, tail) = run[..len].split_at(len.min(DIGITS_64));
    let head = head.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some((minus, tail.iter().fold(u128::from(head), |sum, digit| sum * 10 + u128::from(digit - b'0'))))
}

/// Time between two updates, split at the last step boundary before the new one.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Seconds since the last update.
    pub interval: f64,
    /// The part before the boundary.
    pub before: f64,
    /// The part after it.
    pub after: f64,
    /// Boundaries crossed.
    pub steps: u64,
    /// Step number of the last update (its boundary divided by the step).
    pub first_step: u64,
}

impl Span {
    /// The span from the header's last update to `seconds`.`usec`.
    pub fn new(header: &Header, seconds: i64, usec: i64) -> Self {
        let step = header.step();
        let (last, last_usec) = (header.last_update() as u64, header.last_update_usec());
        let interval = seconds.wrapping_sub(last as i64) as f64 + usec.wrapping_sub(last_usec) as f64 / 1e6;
        let now = seconds as u64;
        let (open, boundary) = (last - last % step, now - now % step);
        let (before, after) = if boundary > open {
            let before = boundary.wrapping_sub(last) as i64 as f64;
            (before - last_usec as f64 / 1e6, (now % step) as f64 + usec as f64 / 1e6)
        } else {
            (interval, 0.0)
        };
        let steps = boundary.wrapping_sub(open) / step;
        Self { interval, before, after, steps, first_step: open / step }
    }
}

/// No boundary was crossed: adds `new` to the open points.
pub fn accumulate(header: &mut Header, new: &[f64], interval: f64) {
    for (ds, &new) in new.iter().enumerate() {
        if new.is_nan() {
            let seconds = header.unknown_seconds(ds).wrapping_add(number::as_unsigned_long(interval.floor()));
            header.set_unknown_seconds(ds, seconds);
        } else {
            let old = header.point_value(ds);
            header.set_point_value(ds, if old.is_nan() { new } else { old + new });
        }
    }
}

/// Closes the open point of every source over the steps of `span`, and starts the next one. The seconds before the boundary count
/// for the closed point, those after it for the next one. `points` gets the closed points. `Err` is rrdtool's message without the
/// file name.
pub fn close(
    header: &mut Header,
    new: &[f64],
    span: &Span,
    now: i64,
    points: &mut [f64],
) -> Result<(), String> {
    let definition = header.definition().clone();
    let (half_step, seconds) = (header.step() as f64 / 2.0, span.steps.wrapping_mul(header.step()));
    for (ds, source) in definition.sources.iter().enumerate() {
        let (rate, known) = (new[ds] / span.interval, !new[ds].is_nan());
        if let Some(program) = &source.program {
            // Only sources before this one have their points yet.
            let moment = Moment { variables: &points[..ds], now, series: None };
            points[ds] = program.evaluate(&moment)?;
        } else {
            let unknown = header.unknown_seconds(ds);
            let late = span.interval > source.heartbeat as f64 || unknown as f64 > half_step;
            points[ds] = match late {
                true => UNKNOWN,
                false => closed(header.point_value(ds), unknown, known.then_some(rate), span.before, seconds),
            };
        }
        // The rest of the reading goes to the next point.
        header.set_unknown_seconds(ds, if known { 0 } else { number::as_unsigned_long(span.after.floor()) });
        header.set_point_value(ds, if known { rate * span.after } else { UNKNOWN });
    }
    Ok(())
}

/// The mean of an open point of `seconds`, `unknown` of them unknown, that had gathered `value` and gets `rate` for its
/// last `before` seconds.
fn closed(value: f64, unknown: u64, rate: Option<f64>, before: f64, seconds: u64) -> f64 {
    // The subtraction of whole seconds wraps as unsigned arithmetic does.
    let known = seconds.wrapping_sub(unknown) as f64;
    match rate {
        None => value / (known - before),
        Some(rate) => ((if value.is_nan() { 0.0 } else { value }) + rate * before) / known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_counter_gets_rrdtools_wrap() {
        assert_eq!(unwrapped(difference(b"5", b"4294967295")), 5.0);
        assert_eq!(unwrapped(difference(b"5", b"18446744073709551615")), 0.0);
    }

    #[test]
    fn digits_differ_exactly_beyond_64_bits() {
        assert_eq!(difference(b"100000000000000000000000000003", b"100000000000000000000000000001"), 2.0);
        assert!(difference(b"-5", b"5").is_nan());
        assert_eq!(difference(b"-7", b"-5"), -2.0);
        assert_eq!(difference(b"9", b"x4y"), 5.0);
    }
}
