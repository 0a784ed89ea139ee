//! One argument of `update`: its time and its readings. Parses; decides nothing.

use crate::at::When;
use crate::error::{Result, refused};
use crate::header::{Header, MICROS};
use crate::number::{self, Reading};
use crate::pdp::unreadable;

/// Which reading of an argument belongs to which source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Source index of each reading, in their order.
    pub order: Vec<usize>,
}

impl Template {
    /// Every source that takes readings, in the file's order.
    pub fn whole(header: &Header) -> Self {
        let takes =
            |(index, source): (usize, &crate::ds::DataSource)| source.program.is_none().then_some(index);
        Self { order: header.sources().iter().enumerate().filter_map(takes).collect() }
    }

    /// Parses `name:name:...`.
    ///
    /// # Errors
    /// A name the file does not have, or more names than sources.
    pub fn parse(header: &Header, text: &str) -> Result<Self> {
        let mut order = vec![];
        for name in text.split(':') {
            if order.len() >= header.sources().len() {
                return refused("tmplt contains more DS definitions than RRD");
            }
            match header.source(name) {
                Some(index) => order.push(index),
                None => return refused(format!("unknown DS name '{name}'")),
            }
        }
        Ok(Self { order })
    }
}

/// A moment with microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Microseconds, 0 to 999,999.
    pub usec: i64,
}

/// Splits `text` (`time:v:v...` or `when@v:v...`) and parses its time; `readings` gets a text per source, `U` where the
/// template names none. `now` serves `N` and relative times.
///
/// # Errors
/// rrdtool's messages, without the file name.
pub fn parse<'a>(
    text: &'a str,
    template: &Template,
    now: Stamp,
    readings: &mut [&'a str],
) -> std::result::Result<Stamp, String> {
    readings.fill("U");
    let (time, values, at_style) = match cut(text, b'@') {
        Some((time, values)) => (time, Some(values), true),
        None => match cut(text, b':') {
            Some((time, values)) => (time, Some(values), false),
            None => (text, None, false),
        },
    };
    let Some(mut rest) = values else {
        return Err(format!("expected timestamp not found in data source from {text}"));
    };
    let mut got = 0;
    loop {
        let (value, more) = match cut(rest, b':') {
            Some((value, more)) => (value, Some(more)),
            None => (rest, None),
        };
        let Some(&source) = template.order.get(got) else {
            return Err(format!("found extra data on update argument: {rest}"));
        };
        readings[source] = value;
        got += 1;
        match more {
            Some(more) => rest = more,
            None => break,
        }
    }
    if got < template.order.len() {
        let wanted = template.order.len();
        return Err(format!("expected {wanted} data source readings (got {got}) from {time}"));
    }
    if at_style { at_time(time, now) } else { plain_time(time, now) }
}

/// The text before and after the first `mark`; in texts this short a plain loop is the fastest search.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == mark)?;
    Some((&text[..at], &text[at + 1..]))
}

fn at_time(text: &str, now: Stamp) -> std::result::Result<Stamp, String> {
    // Before an `@` rrdtool takes `N` as the word `now`, so whole seconds.
    let when = When::parse(text, now.seconds).map_err(|error| format!("ds time: {text}: {error}"))?;
    if when.is_relative() {
        return Err(format!("specifying time relative to the 'start' or 'end' makes no sense here: {text}"));
    }
    let seconds = when.resolve(now.seconds).ok_or("specified time is out of range")?;
    Ok(Stamp { seconds, usec: 0 })
}

fn plain_time(text: &str, now: Stamp) -> std::result::Result<Stamp, String> {
    if text == "N" {
        return Ok(now);
    }
    let value = match number::read(text) {
        Reading::Whole(value) => value,
        failed => {
            let why = unreadable(text, failed);
            return Err(format!("error while parsing time in get_time_from_reading - {why}"));
        }
    };
    // rrdtool's single-precision constants decide the last microsecond.
    let mut time = value;
    if time < 0.0 {
        time += now.seconds as f64 + f64::from(now.usec as f32 * 1e-6f32);
    }
    let seconds = number::as_long(time);
    let usec = number::as_long((time - time.floor()) * 1e6);
    Ok(Stamp { seconds, usec: usec.clamp(0, MICROS - 1) })
}
