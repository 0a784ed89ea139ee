//! A metric as the body of its record, and back. Another node's texts end up on screens, in paths and in
//! expositions. So names are checked here, and control characters are refused.

use std::borrow::Cow;

use khz_model::decimal::PLACES_MAX;
use khz_model::metric::Text;
use khz_model::name::{METRIC_NAME_MAX, is_metric_name};
use khz_model::{Exposition, Kind, Metric, Nanos, Origin, Refresh, Unit, ValueType};

use super::fields::{Fields, put_text};
use super::{CONSTANT, FIXED_LABELS_MAX, TEXT_BYTES_MAX};
use crate::{BlockError, varint};

/// Appends the body of the metric's record, without its value type.
pub(super) fn put(out: &mut Vec<u8>, metric: &Metric) {
    let optional = |text: &Option<Text>| text.clone().unwrap_or_default();
    let Metric { name, flat, help, origin, instances, labels_from, exposition, .. } = metric;
    for text in [name, flat, help, &origin.file, &origin.field, &optional(instances)] {
        put_text(out, text);
    }
    out.extend_from_slice(&[kind_byte(metric.kind), unit_byte(metric.unit), metric.places]);
    varint::put(out, refresh_number(metric.refresh));
    // The largest possible number means "no limit".
    varint::put(out, metric.max.and_then(|max| max.checked_add(1)).unwrap_or(0));
    for text in [&exposition.name, &optional(&exposition.help), &optional(&exposition.instance_label)] {
        put_text(out, text);
    }
    varint::put(out, exposition.labels.len() as u64);
    for (label, value) in exposition.labels.iter() {
        put_text(out, label);
        put_text(out, value);
    }
    varint::put(out, exposition.divisor);
    out.push(u8::from(exposition.untyped));
    // Written only where there is one: a metric without it has the bytes that it always had.
    if let Some(metric) = labels_from {
        put_text(out, metric);
    }
}

/// Reads the body of a metric's record, whose values are of that type. Bytes after the known fields belong to
/// a newer version and are ignored.
pub(super) fn read(fields: &mut Fields, value_type: ValueType) -> Result<Metric, BlockError> {
    let name = fields.text(METRIC_NAME_MAX, "bytes in a metric's name")?;
    let flat = fields.text(METRIC_NAME_MAX, "bytes in a metric's flat name")?;
    if !is_metric_name(name) || !is_word(flat) {
        return Err(fields.damaged("the name is not a metric's name"));
    }
    let help = sentence(fields)?;
    let origin = Origin { file: sentence(fields)?, field: sentence(fields)? };
    let instances = word(fields)?;
    let (kind, unit) = (kind_of(fields.byte()?), unit_of(fields.byte()?));
    let places = fields.byte()?.min(PLACES_MAX);
    let refresh = refresh_of(fields.number()?);
    let max = fields.number()?.checked_sub(1);
    let exposition = read_exposition(fields)?;
    let labels_from = if fields.is_empty() { None } else { metric_name(fields)? };
    let (name, flat) = (Cow::Owned(name.to_owned()), Cow::Owned(flat.to_owned()));
    Ok(Metric {
        name,
        kind,
        unit,
        value_type,
        places,
        max,
        refresh,
        help,
        origin,
        instances,
        labels_from,
        exposition,
        flat,
    })
}

fn read_exposition(fields: &mut Fields) -> Result<Exposition, BlockError> {
    let name = word(fields)?.ok_or_else(|| fields.damaged("a metric has no name for the exposition"))?;
    let help = Some(sentence(fields)?).filter(|help| !help.is_empty());
    let instance_label = word(fields)?;
    let count = fields.number()?;
    let count = fields.within(count, FIXED_LABELS_MAX, "labels of one metric")?;
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        let label = word(fields)?.ok_or_else(|| fields.damaged("a label has no name"))?;
        labels.push((label, sentence(fields)?));
    }
    let divisor = fields.number()?.max(1);
    let untyped = fields.byte()? != 0;
    Ok(Exposition { name, help, labels: labels.into(), instance_label, divisor, untyped })
}

/// The name of another metric; `None` when it is empty.
fn metric_name(fields: &mut Fields) -> Result<Option<Text>, BlockError> {
    let name = fields.text(METRIC_NAME_MAX, "bytes in a metric's name")?;
    if !name.is_empty() && !is_metric_name(name) {
        return Err(fields.damaged("the name is not a metric's name"));
    }
    Ok((!name.is_empty()).then(|| Cow::Owned(name.to_owned())))
}

/// A word for paths, expositions and the text protocol; `None` when it is empty.
fn word(fields: &mut Fields) -> Result<Option<Text>, BlockError> {
    let text = fields.text(METRIC_NAME_MAX, "bytes in a word of the schema")?;
    if !text.is_empty() && !is_word(text) {
        return Err(fields.damaged(
            "a word of the schema may have letters, digits, '_' and ':', and must not begin with a digit or ':'",
        ));
    }
    Ok((!text.is_empty()).then(|| Cow::Owned(text.to_owned())))
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'))
}

/// A text for people, without line breaks.
fn sentence(fields: &mut Fields) -> Result<Text, BlockError> {
    let text = fields.text(TEXT_BYTES_MAX, "bytes in a text of the schema")?;
    if text.contains(char::is_control) {
        return Err(fields.damaged("a text of the schema contains control characters"));
    }
    Ok(Cow::Owned(text.to_owned()))
}

/// The byte before the body of a metric whose values are not plain; `None` for those of a version that this
/// one does not know.
pub(super) const fn value_type_byte(value_type: ValueType) -> Option<u8> {
    match value_type {
        ValueType::Unsigned => Some(0),
        ValueType::Signed => Some(1),
        ValueType::Float => Some(2),
        ValueType::Labels => Some(3),
        ValueType::Unknown => None,
    }
}

pub(super) const fn value_type_of(byte: u8) -> ValueType {
    match byte {
        0 => ValueType::Unsigned,
        1 => ValueType::Signed,
        2 => ValueType::Float,
        3 => ValueType::Labels,
        _ => ValueType::Unknown,
    }
}

const fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Counter => 1,
        Kind::Gauge => 2,
    }
}

/// A kind from a newer version reads as a gauge.
const fn kind_of(byte: u8) -> Kind {
    match byte {
        1 => Kind::Counter,
        _ => Kind::Gauge,
    }
}

const fn unit_byte(unit: Unit) -> u8 {
    match unit {
        Unit::Count => 1,
        Unit::Bytes => 2,
        Unit::Seconds => 3,
        Unit::Percent => 4,
        Unit::Pages => 5,
        Unit::Packets => 6,
        Unit::Hertz => 7,
        Unit::Celsius => 8,
        Unit::Volts => 9,
        Unit::Amperes => 10,
        Unit::Watts => 11,
        Unit::Joules => 12,
    }
}

/// A unit from a newer version reads as a plain count.
fn unit_of(byte: u8) -> Unit {
    Unit::ALL.iter().copied().find(|&unit| unit_byte(unit) == byte).unwrap_or(Unit::Count)
}

const fn refresh_number(refresh: Refresh) -> u64 {
    match refresh {
        Refresh::Event => 0,
        Refresh::Every(period) => period.0,
        Refresh::Constant => CONSTANT,
    }
}

const fn refresh_of(number: u64) -> Refresh {
    match number {
        0 => Refresh::Event,
        CONSTANT => Refresh::Constant,
        period => Refresh::Every(Nanos(period)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_reads_as_it_was_written_and_an_unknown_one_as_a_count() {
        for &unit in Unit::ALL {
            assert_eq!(unit_of(unit_byte(unit)), unit);
        }
        assert_eq!(unit_of(0xff), Unit::Count);
    }
}
