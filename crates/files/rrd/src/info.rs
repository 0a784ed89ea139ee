//! The output of `rrdtool info` for a header: keys and typed values. Formats; reads nothing.

use std::fmt;

use crate::header::{CDP_UNKNOWN, CDP_VALUE, Header};
use crate::holt_winters::{GAP, INTERCEPT, SEASONAL, SLOPE};
use crate::number;
use crate::rra::{Function, PAR_ALPHA, PAR_BETA, PAR_SMOOTH, PAR_THRESHOLD, PAR_XFF};
use crate::spec::WINDOW_MAX;
use crate::text;

/// A value of the kinds rrdtool distinguishes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A double.
    Number(f64),
    /// A count or time.
    Count(u64),
    /// A signed number.
    Integer(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => out.write_str(&number_text(*value)),
            Self::Count(count) => write!(out, "{count}"),
            Self::Integer(value) => write!(out, "{value}"),
            Self::Text(text) => write!(out, "\"{text}\""),
        }
    }
}

/// A double with ten digits, unknown as `NaN`.
pub fn number_text(value: f64) -> String {
    if value.is_nan() { "NaN".into() } else { number::scientific(value, 10) }
}

/// The lines of `info`, in order. `name` is the file's name as the caller gave it.
pub fn describe(header: &Header, name: &str) -> Vec<(String, Value)> {
    let mut list = vec![];
    let mut say = |key: String, value: Value| list.push((key, value));
    say("filename".into(), Value::Text(name.into()));
    say("rrd_version".into(), Value::Text(format!("{:04}", header.version())));
    say("step".into(), Value::Count(header.step()));
    say("last_update".into(), Value::Count(header.last_update() as u64));
    say("header_size".into(), Value::Count(header.layout().header_len as u64));
    for (index, source) in header.sources().iter().enumerate() {
        let key = |what: &str| format!("ds[{}].{what}", source.name);
        say(key("index"), Value::Count(index as u64));
        say(key("type"), Value::Text(source.kind.name().into()));
        match &source.program {
            Some(_) => say(key("cdef"), Value::Text(expression(header, index))),
            None => {
                say(key("minimal_heartbeat"), Value::Count(source.heartbeat));
                say(key("min"), Value::Number(source.min));
                say(key("max"), Value::Number(source.max));
            }
        }
        let last = text::of(header.last_reading(index)).into_owned();
        say(key("last_ds"), Value::Text(last));
        say(key("value"), Value::Number(header.point_value(index)));
        say(key("unknown_sec"), Value::Count(header.unknown_seconds(index)));
    }
    for (rra, archive) in header.archives().iter().enumerate() {
        let key = |what: &str| format!("rra[{rra}].{what}");
        say(key("cf"), Value::Text(archive.function.name().into()));
        say(key("rows"), Value::Count(archive.rows));
        say(key("cur_row"), Value::Count(header.current_row(rra)));
        say(key("pdp_per_row"), Value::Count(archive.points));
        match archive.function {
            Function::HwPredict | Function::MhwPredict => {
                say(key("alpha"), Value::Number(archive.f64(PAR_ALPHA)));
                say(key("beta"), Value::Number(archive.f64(PAR_BETA)));
            }
            Function::Seasonal | Function::DevSeasonal => {
                say(key("gamma"), Value::Number(archive.f64(PAR_ALPHA)));
                if header.version() >= 4 {
                    say(key("smoothing_window"), Value::Number(archive.f64(PAR_BETA)));
                }
            }
            Function::Failures => {
                say(key("delta_pos"), Value::Number(archive.f64(PAR_ALPHA)));
                say(key("delta_neg"), Value::Number(archive.f64(PAR_BETA)));
                say(key("failure_threshold"), Value::Count(archive.par[PAR_THRESHOLD]));
                say(key("window_length"), Value::Count(archive.par[PAR_SMOOTH]));
            }
            Function::DevPredict => {}
            _ => say(key("xff"), Value::Number(archive.f64(PAR_XFF))),
        }
        for ds in 0..header.sources().len() {
            let key = |what: &str| format!("rra[{rra}].cdp_prep[{ds}].{what}");
            let cdp = |slot| Value::Number(header.cdp(rra, ds, slot));
            match archive.function {
                Function::HwPredict | Function::MhwPredict => {
                    say(key("intercept"), cdp(INTERCEPT));
                    say(key("slope"), cdp(SLOPE));
                    say(key("NaN_count"), Value::Count(header.cdp_count(rra, ds, GAP)));
                }
                Function::Seasonal => say(key("seasonal"), cdp(SEASONAL)),
                Function::DevSeasonal => say(key("deviation"), cdp(SEASONAL)),
                Function::DevPredict => {}
                Function::Failures => say(key("history"), Value::Text(history(header, rra, ds))),
                _ => {
                    say(key("value"), cdp(CDP_VALUE));
                    say(key("unknown_datapoints"), Value::Count(header.cdp_count(rra, ds, CDP_UNKNOWN)));
                }
            }
        }
    }
    list
}

/// The expression of a COMPUTE source with the names of its variables.
pub fn expression(header: &Header, ds: usize) -> String {
    let name = |index: usize| header.sources().get(index).map_or("?".into(), |source| source.name.clone());
    header.sources()[ds].program.as_ref().map_or(String::new(), |program| program.text(name))
}

/// The violations a FAILURES archive remembers, the newest first.
pub fn history(header: &Header, rra: usize, ds: usize) -> String {
    let window = header.archives()[rra].par[PAR_SMOOTH].min(WINDOW_MAX) as usize;
    header.cdp_bytes(rra, ds)[..window].iter().map(|mark| if *mark == 1 { '1' } else { '0' }).collect()
}
