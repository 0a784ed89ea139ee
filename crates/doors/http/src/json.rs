//! Writes JSON straight into a string: values as decimal strings, so that 64-bit counters stay exact, and
//! stamps as seconds with nanoseconds. Reads no JSON.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use khz_model::printable::{escape, is_hidden};
use khz_model::{Decimal, Reading, Series, Stamp};

/// A JSON string.
pub(crate) fn text(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        if c != '"' && c != '\\' && !c.is_control() && !is_hidden(c) {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + c.len_utf8();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            _ => escape(out, c),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// A row's two times as members: `"t"`, the wall clock, and `"b"`, the clock that never jumps.
pub(crate) fn stamp(out: &mut String, stamp: Stamp) {
    out.push_str("\"t\":");
    text(out, &stamp.real_text());
    out.push_str(",\"b\":");
    text(out, &stamp.boot_text());
}

/// A JSON string, or `null`.
pub(crate) fn text_or_null(out: &mut String, value: Option<&str>) {
    match value {
        Some(value) => text(out, value),
        None => out.push_str("null"),
    }
}

/// A bare number: only for numbers far below 2^53.
pub(crate) fn number(out: &mut String, value: u64) {
    let _ = write!(out, "{value}");
}

/// The separator before the list element with this number.
pub(crate) fn next(out: &mut String, number: usize) {
    if number > 0 {
        out.push(',');
    }
}

/// A list; `item` writes one element.
pub(crate) fn list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut item: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (i, element) in items.into_iter().enumerate() {
        next(out, i);
        item(out, element);
    }
    out.push(']');
}

/// `"name":…,"instance":…,"kind":…,"unit":…`, without braces.
pub(crate) fn series(out: &mut String, series: &Series) {
    out.push_str("\"name\":");
    text(out, &series.metric.name);
    out.push_str(",\"instance\":");
    text_or_null(out, series.instance.as_ref().map(|i| i.as_str()));
    out.push_str(",\"kind\":");
    text(out, series.metric.kind.as_str());
    out.push_str(",\"unit\":");
    text(out, series.metric.unit.as_str());
}

/// The columns of a stream or a history.
pub(crate) fn columns(out: &mut String, columns: &[Series]) {
    list(out, columns, |out, column| {
        out.push('{');
        series(out, column);
        out.push_str(",\"places\":");
        number(out, u64::from(column.metric.places));
        out.push('}');
    });
}

/// An element of a row: `"123"`, `{"absent":"why"}` or `{"failed":"why"}`.
pub(crate) fn reading(out: &mut String, reading: Reading, places: u8) {
    match reading {
        Reading::Present(_) => value(out, reading, places),
        _ => {
            out.push('{');
            member(out, reading, places);
            out.push('}');
        }
    }
}

/// The same as the member of an object: `"value":"123"`, `"absent":"why"` or `"failed":"why"`.
pub(crate) fn member(out: &mut String, reading: Reading, places: u8) {
    let _ = match reading {
        Reading::Present(_) => {
            out.push_str("\"value\":");
            value(out, reading, places);
            Ok(())
        }
        Reading::Absent(why) => write!(out, "\"absent\":\"{why}\""),
        Reading::Failed(fault) => write!(out, "\"failed\":\"{fault}\""),
    };
}

fn value(out: &mut String, reading: Reading, places: u8) {
    let _ = write!(out, "\"{}\"", Decimal::new(reading.bits(), places));
}

/// A row's readings; fewer than the columns where later columns did not exist yet.
pub(crate) fn readings(out: &mut String, columns: &[Series], readings: &[Reading]) {
    list(out, columns.iter().zip(readings), |out, (column, &element)| {
        reading(out, element, column.metric.places);
    });
}

/// A 200 answer that must not be cached.
pub(crate) fn response(body: impl Into<Body>) -> Response {
    let body = body.into();
    let kind = HeaderValue::from_static("application/json");
    let keep = HeaderValue::from_static("no-store");
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_survives_as_a_json_string(original in "(\\PC|[\\x00-\\x1f\"\\\\\u{202e}\u{61c}\u{e0041}]){0,40}") {
            let mut out = String::new();
            text(&mut out, &original);
            prop_assert!(!out.chars().any(|c| c.is_control() || is_hidden(c)), "{}", out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), original);
        }
    }

    #[test]
    fn unknown_is_never_a_value() {
        let mut out = String::new();
        reading(&mut out, Reading::Absent(khz_model::Absence::NoField), 0);
        reading(&mut out, Reading::Failed(khz_model::Fault::Malformed), 0);
        reading(&mut out, Reading::Present(52), 2);
        assert_eq!(out, r#"{"absent":"this kernel does not print it"}{"failed":"malformed text"}"0.52""#);
    }
}
