//! The labels of the slots whose readings are labels, as a row has them.

use std::collections::BTreeMap;

use khz_model::{Absence, Fault, Labels};

use crate::{ROW_LABELS_MAX, varint};

/// Labels by slot; all together have at most [`ROW_LABELS_MAX`] bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelCells {
    labels: BTreeMap<u32, Labels>,
    /// The bytes of a row that restates all labels.
    bytes: usize,
}

impl LabelCells {
    fn get(&self, slot: usize) -> Option<&Labels> {
        self.labels.get(&u32::try_from(slot).ok()?)
    }

    /// Replaces the labels of a slot; false, and nothing has changed, if a row has no room for them.
    fn set(&mut self, slot: usize, labels: Labels) -> bool {
        let Ok(slot) = u32::try_from(slot) else { return false };
        let before = self.labels.get(&slot).map_or(0, length);
        let bytes = self.bytes - before + length(&labels);
        if bytes > ROW_LABELS_MAX {
            return false;
        }
        self.labels.insert(slot, labels);
        self.bytes = bytes;
        true
    }

    /// Keeps the labels of a cell that is about to be written. Returns the cell, or the reason why it cannot be
    /// written.
    #[cold]
    pub fn keep(&mut self, slot: usize, cell: (u8, u64)) -> (u8, u64) {
        match Labels::numbered(cell.1) {
            None => (Absence::NotYet as u8, 0),
            Some(labels) => {
                if self.set(slot, labels) {
                    cell
                } else {
                    (Fault::OutOfRange as u8, 0)
                }
            }
        }
    }

    /// Forgets the labels of other slots.
    pub fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.labels.retain(|&slot, _| is_kept(slot as usize));
        self.bytes = self.labels.values().map(length).sum();
    }

    /// Appends the labels of a slot to a row: a length, and the text that [`Labels::as_marked`] gives.
    pub fn put(&self, slot: usize, row: &mut Vec<u8>) {
        let text = self.get(slot).map_or("", Labels::as_marked);
        varint::put(row, text.len() as u64);
        row.extend_from_slice(text.as_bytes());
    }

    /// Reads what [`LabelCells::put`] has written and keeps it. Returns the labels' number and the bytes after
    /// them.
    #[cold]
    pub fn take<'a>(&mut self, slot: usize, row: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (length, rest) = varint::get(row)?;
        let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let text = std::str::from_utf8(text).ok()?;
        if let Some(known) = self.get(slot).filter(|known| known.as_marked() == text) {
            return Some((known.number(), rest));
        }
        let labels = Labels::from_marked(text)?;
        let number = labels.number();
        self.set(slot, labels).then_some((number, rest))
    }
}

/// What a row takes for these labels: their text, and its length in one or two bytes.
fn length(labels: &Labels) -> usize {
    let text = labels.as_marked().len();
    text + varint::length(text as u64)
}
