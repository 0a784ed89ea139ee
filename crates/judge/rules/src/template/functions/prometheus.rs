//! The functions that Prometheus adds to those of Go.

use std::net::IpAddr;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use super::{Arguments, Function as F, Result, args, escape, humanize, letters};
use crate::duration::parse_duration;
use crate::template::run::Run;
use crate::template::value::{Sample, Value, map};

/// Bytes that a compiled regular expression may take: one that explodes is refused.
const REGEX_BYTES_MAX: usize = 1 << 20;

pub(super) fn call(a: &Arguments<'_>, run: &Run<'_>) -> Result {
    let arguments = a.all;
    let number = |take: fn(f64) -> String| {
        a.count(1)?;
        humanize::number(&arguments[0]).map(|number| Value::text(take(number)))
    };
    match a.function {
        F::Query => {
            a.count(1)?;
            let vector = run.query(a.text(0)?)?;
            let sample = |sample: &khz_promql::VectorSample| {
                Rc::new(Sample { labels: map(&sample.labels), value: sample.value })
            };
            Ok(Value::Samples(Rc::new(vector.iter().map(sample).collect())))
        }
        F::First => {
            a.count(1)?;
            let first = a.samples(0)?.first().cloned();
            first.map(Value::Sample).ok_or_else(|| String::from("first() called on vector with no elements"))
        }
        F::Label => {
            a.count(2)?;
            let name = a.text(0)?;
            Ok(Value::text(a.sample(1)?.labels.get(name).map_or("", String::as_str)))
        }
        F::ValueOf => {
            a.count(1)?;
            Ok(Value::Float(a.sample(0)?.value))
        }
        F::StrValue => {
            a.count(1)?;
            Ok(Value::text(a.sample(0)?.labels.get("__value__").map_or("", String::as_str)))
        }
        F::Args => Ok(args(arguments)),
        F::SortByLabel => {
            a.count(2)?;
            let name = a.text(0)?;
            let mut sorted = a.samples(1)?.to_vec();
            let of = |sample: &Rc<Sample>| sample.labels.get(name).cloned().unwrap_or_default();
            sorted.sort_by_cached_key(of);
            Ok(Value::Samples(Rc::new(sorted)))
        }
        F::ReReplaceAll => {
            a.count(3)?;
            let regex = regex(a.text(0)?, run)?;
            run.made(regex.replace_all(a.text(2)?, a.text(1)?).into_owned())
        }
        F::Match => {
            a.count(2)?;
            Ok(Value::Bool(regex(a.text(0)?, run)?.is_match(a.text(1)?)))
        }
        F::Humanize => number(humanize::humanize),
        F::Humanize1024 => number(humanize::humanize1024),
        F::HumanizeDuration => number(humanize::duration),
        F::HumanizePercentage => number(humanize::percentage),
        F::HumanizeTimestamp => {
            a.count(1)?;
            humanize::timestamp(humanize::number(&arguments[0])?).map(Value::text)
        }
        F::ToTime => {
            a.count(1)?;
            humanize::time(humanize::number(&arguments[0])?).map(Value::Time)
        }
        F::ToDuration => {
            a.count(1)?;
            let ns = humanize::number(&arguments[0])? * 1e9;
            // As Go converts: what does not fit becomes the lowest number.
            Ok(Value::Duration(if ns.abs() < 9_223_372_036_854_775_808.0 { ns as i64 } else { i64::MIN }))
        }
        F::Now => a.count(0).map(|()| Value::Float(run.data.now as f64 / 1_000.0)),
        F::PathPrefix => a.count(0).map(|()| Value::text(path(run.data.external_url))),
        F::ExternalUrl => a.count(0).map(|()| Value::text(run.data.external_url)),
        F::ParseDuration => {
            a.count(1)?;
            let (sign, text) = match a.text(0)?.strip_prefix('-') {
                Some(text) => (-1.0, text),
                None => (1.0, a.text(0)?),
            };
            parse_duration(text).map(|ms| Value::Float(sign * ms as f64 / 1_000.0))
        }
        _ => {
            a.count(1)?;
            text_function(a.function, a.text(0)?, run)
        }
    }
}

/// Functions of one text.
fn text_function(function: F, text: &str, run: &Run<'_>) -> Result {
    let made = match function {
        F::SafeHtml => return Ok(Value::Html(text.into())),
        F::Title => title(text),
        F::ToUpper => text.chars().map(letters::upper).collect(),
        F::ToLower => text.chars().map(letters::lower).collect(),
        F::GraphLink => format!("/graph?g0.expr={}&g0.tab=0", escape::query(text)),
        F::TableLink => format!("/graph?g0.expr={}&g0.tab=1", escape::query(text)),
        F::UrlQueryEscape => escape::query(text),
        F::StripPort => split(text).map_or(text, |(host, _)| host).to_owned(),
        F::StripDomain => strip_domain(text),
        other => return Err(format!("{} cannot be called here", other.name())),
    };
    run.made(made)
}

fn regex(text: &str, run: &Run<'_>) -> std::result::Result<Regex, String> {
    run.regex()?;
    let built = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        let words = error.to_string();
        let last = words.lines().next_back().unwrap_or_default();
        format!("the regular expression {text:?}: {}", last.trim_start_matches("error: "))
    })
}

/// The path of a URL.
fn path(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let path = after.find('/').map_or("", |at| &after[at..]);
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Each word with its first letter large. Digits belong to words, and so do an apostrophe or a dot within them.
fn title(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    let is_part = |at: usize| all.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let mut titled = String::with_capacity(text.len());
    let mut has_letter = false;
    for (at, c) in all.iter().enumerate() {
        let joins = matches!(c, '\'' | '.' | ':' | '\u{b7}' | '\u{2019}')
            && at > 0
            && is_part(at - 1)
            && is_part(at + 1);
        if !is_part(at) && !joins {
            has_letter = false;
        }
        match letters::is_cased(*c) && !has_letter {
            true => titled.push_str(&letters::title(*c)),
            false => titled.push(*c),
        }
        has_letter |= letters::is_cased(*c);
    }
    titled
}

/// Host and port, as Go's `net.SplitHostPort` divides them.
fn split(text: &str) -> Option<(&str, &str)> {
    let colon = text.rfind(':')?;
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!host.contains(['[', ']']) && !port.contains(['[', ']'])).then_some((host, port))
}

fn strip_domain(text: &str) -> String {
    let (host, port) = split(text).unwrap_or((text, ""));
    let is_address = match host.split_once('%') {
        Some((address, zone)) => !zone.is_empty() && address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.parse::<IpAddr>().is_ok(),
    };
    if is_address {
        return text.to_owned();
    }
    let host = host.split('.').next().unwrap_or_default();
    match (port.is_empty(), host.contains(':')) {
        (true, _) => host.to_owned(),
        (false, true) => format!("[{host}]:{port}"),
        (false, false) => format!("{host}:{port}"),
    }
}
