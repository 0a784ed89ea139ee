//! Writes JSON straight into a string: values as decimal strings, so that 64-bit counters stay exact, and
//! stamps as seconds with nanoseconds. Reads no JSON.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use khz_model::printable::{escape, is_hidden};
use khz_model::{Instance, Reading, Series, Stamp, Value, ValueFormat, ValueType};

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

/// `"name":…,"instance":…,"kind":…,"unit":…`, without braces; after the instance `"labels":{…}`, where it has
/// labels.
pub(crate) fn series(out: &mut String, series: &Series) {
    out.push_str("\"name\":");
    text(out, &series.metric.name);
    out.push_str(",\"instance\":");
    let instance = series.instance.as_ref();
    text_or_null(out, instance.and_then(Instance::primary));
    if let Some(instance) = instance.filter(|instance| instance.has_labels()) {
        out.push_str(",\"labels\":");
        pairs(out, instance.labels());
    }
    out.push_str(",\"kind\":");
    text(out, series.metric.kind.as_str());
    out.push_str(",\"unit\":");
    text(out, series.metric.unit.as_str());
}

/// Names and values as an object.
pub(crate) fn pairs<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push('{');
    for (number, (name, value)) in pairs.enumerate() {
        next(out, number);
        text(out, name);
        out.push(':');
        text(out, value);
    }
    out.push('}');
}

/// The columns of a stream or a history. `"type"` is there where values are not whole numbers or decimals from
/// 0 on.
pub(crate) fn columns(out: &mut String, columns: &[Series]) {
    list(out, columns, |out, column| {
        out.push('{');
        series(out, column);
        out.push_str(",\"places\":");
        number(out, u64::from(column.metric.places));
        if column.metric.value_type != ValueType::Unsigned {
            out.push_str(",\"type\":");
            text(out, column.metric.value_type.as_str());
        }
        out.push('}');
    });
}

/// An element of a row: `"123"`, `{"info":{…}}` for labels, `{"absent":"why"}` or `{"failed":"why"}`.
pub(crate) fn reading(out: &mut String, reading: Reading, format: ValueFormat) {
    if let Some(value) = reading.value().and_then(|bits| format.number(bits)) {
        let _ = write!(out, "\"{value}\"");
        return;
    }
    out.push('{');
    member(out, reading, format);
    out.push('}');
}

/// The same as the member of an object: `"value":"123"`, `"info":{…}`, `"absent":"why"` or `"failed":"why"`.
pub(crate) fn member(out: &mut String, reading: Reading, format: ValueFormat) {
    let _ = match format.value_or_why(reading) {
        Ok(Value::Number(value)) => write!(out, "\"value\":\"{value}\""),
        Ok(Value::Labels(labels)) => {
            out.push_str("\"info\":");
            pairs(out, labels.iter());
            Ok(())
        }
        Err(fault) if fault.is_failure() => write!(out, "\"failed\":\"{fault}\""),
        Err(why) => write!(out, "\"absent\":\"{why}\""),
    };
}

/// A row's readings; fewer than the columns where later columns did not exist yet.
pub(crate) fn readings(out: &mut String, columns: &[Series], readings: &[Reading]) {
    list(out, columns.iter().zip(readings), |out, (column, &element)| {
        reading(out, element, column.metric.format());
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
    fn each_type_of_value_has_its_form() {
        let labels = khz_model::Labels::new([("release", "6.18"), ("machine", "x86\"64")]).unwrap();
        for (value_type, shown, expected) in [
            (ValueType::Signed, Reading::Present((-52i64).cast_unsigned()), r#""-5.2""#),
            (ValueType::Float, Reading::Present(0.1f64.to_bits()), r#""0.1""#),
            (ValueType::Float, Reading::Present(f64::NAN.to_bits()), r#""NaN""#),
            (
                ValueType::Labels,
                Reading::Labels(labels.number()),
                r#"{"info":{"machine":"x86\"64","release":"6.18"}}"#,
            ),
            (ValueType::Labels, Reading::Labels(0), r#"{"absent":"not readable"}"#),
            (ValueType::Unknown, Reading::Present(7), r#"{"absent":"not readable"}"#),
        ] {
            let mut out = String::new();
            reading(&mut out, shown, ValueFormat { value_type, places: 1 });
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn unknown_is_never_a_value() {
        let mut out = String::new();
        reading(&mut out, Reading::Absent(khz_model::Absence::NoField), ValueFormat::WHOLE);
        reading(&mut out, Reading::Failed(khz_model::Fault::Malformed), ValueFormat::WHOLE);
        reading(&mut out, Reading::Present(52), ValueFormat { value_type: ValueType::Unsigned, places: 2 });
        assert_eq!(out, r#"{"absent":"this kernel does not print it"}{"failed":"malformed text"}"0.52""#);
    }
}
