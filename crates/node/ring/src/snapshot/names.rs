//! The names of the slots: one entry for each slot, append-only. Foreign entries give errors.

use khz_model::{Kind, Series};

/// The size of an entry's fixed part, before unit and name.
const FIXED: usize = 8;
/// The longest name in bytes: metric, instance and brackets, with up to four bytes for each character.
const NAME_MAX: usize = 2_048;
const UNIT_MAX: usize = 255;

/// A slot's name, and how to read its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotName {
    /// The group: slots that are gathered together.
    pub group: u8,
    /// Counter or gauge.
    pub kind: Kind,
    /// The decimal places of its value.
    pub places: u8,
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
            places: metric.places,
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
        out.extend_from_slice(&[self.group, kind, self.places, unit.len() as u8]);
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
            kind: if head[3] == 0 { Kind::Counter } else { Kind::Gauge },
            places: head[4],
            unit: text(&texts[..unit])?,
            name: text(&texts[unit..unit + name])?,
        };
        Some((entry, length))
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
        fn every_name_comes_back(group in 0u8..64, gauge: bool, places in 0u8..19, unit in "[a-z]{0,9}", name in ".{0,300}") {
            let kind = if gauge { Kind::Gauge } else { Kind::Counter };
            let entry = SlotName { group, kind, places, unit, name };
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
