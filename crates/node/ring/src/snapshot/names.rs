//! The names of the slots: one entry for each slot, append-only. Foreign entries give errors.

use khz_model::{Kind, Series, ValueFormat, ValueType};

/// The size of an entry's fixed part, before unit and name.
const FIXED: usize = 8;
/// The longest name in bytes: metric, and instance with labels, of which each byte may be escaped.
const NAME_MAX: usize = 16 << 10;
const UNIT_MAX: usize = 255;

/// A slot's name, and how to read its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotName {
    /// The group: slots that are gathered together.
    pub group: u8,
    /// Counter or gauge.
    pub kind: Kind,
    /// How its value is read.
    pub format: ValueFormat,
    /// The unit: `bytes`, `seconds`, `count`.
    pub unit: String,
    /// The name: `net.rx_bytes[eth0]`.
    pub name: String,
}

impl SlotName {
    /// The name of a series.
    pub fn of(series: &Series, group: u8) -> Self {
        let metric = &series.metric;
        SlotName {
            group,
            kind: metric.kind,
            format: metric.format(),
            unit: metric.unit.as_str().to_owned(),
            name: series.to_string(),
        }
    }

    /// Appends the entry. A name or unit beyond the limits is cut.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (unit, name) = (cut(&self.unit, UNIT_MAX), cut(&self.name, NAME_MAX));
        let length = (FIXED + unit.len() + name.len()).next_multiple_of(8);
        let end = out.len() + length;
        out.extend_from_slice(&(length as u16).to_le_bytes());
        let kind = match self.kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
        };
        let kind = kind | type_bits(self.format.value_type);
        out.extend_from_slice(&[self.group, kind, self.format.places, unit.len() as u8]);
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(unit.as_bytes());
        out.extend_from_slice(name.as_bytes());
        out.resize(end, 0);
    }

    /// Takes the entry at the front, and returns it with its length; `None` if no valid entry is there.
    pub(crate) fn take(bytes: &[u8]) -> Option<(Self, usize)> {
        let head: &[u8; FIXED] = bytes.first_chunk()?;
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let (unit, name) = (usize::from(head[5]), usize::from(u16::from_le_bytes([head[6], head[7]])));
        let texts = bytes.get(FIXED..length).filter(|texts| unit + name <= texts.len())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let entry = SlotName {
            group: head[2],
            kind: if head[3] & KIND_BITS == 0 { Kind::Counter } else { Kind::Gauge },
            format: ValueFormat { value_type: type_of(head[3]), places: head[4] },
            unit: text(&texts[..unit])?,
            name: text(&texts[unit..unit + name])?,
        };
        Some((entry, length))
    }
}

/// The type of a value is in the upper half of the kind's byte.
const KIND_BITS: u8 = 0x0f;

const fn type_bits(value_type: ValueType) -> u8 {
    match value_type {
        ValueType::Unsigned => 0x00,
        ValueType::Signed => 0x10,
        ValueType::Float => 0x20,
        ValueType::Labels => 0x30,
        ValueType::Unknown => 0xf0,
    }
}

const fn type_of(kind: u8) -> ValueType {
    match kind & !KIND_BITS {
        0x00 => ValueType::Unsigned,
        0x10 => ValueType::Signed,
        0x20 => ValueType::Float,
        0x30 => ValueType::Labels,
        _ => ValueType::Unknown,
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_comes_back(group in 0u8..64, gauge: bool, value_type in 0u8..5, places in 0u8..19, unit in "[a-z]{0,9}", name in ".{0,300}") {
            let kind = if gauge { Kind::Gauge } else { Kind::Counter };
            let format = ValueFormat { value_type: type_of(value_type << 4), places };
            let entry = SlotName { group, kind, format, unit, name };
            let mut bytes = Vec::new();
            entry.put(&mut bytes);
            prop_assert_eq!(bytes.len() % 8, 0);
            let length = bytes.len();
            bytes.extend_from_slice(b"more");
            prop_assert_eq!(SlotName::take(&bytes), Some((entry, length)));
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some((_, length)) = SlotName::take(&bytes) {
                prop_assert!(length >= FIXED && length <= bytes.len());
            }
        }
    }
}
