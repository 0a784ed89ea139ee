//! Turning blocks into a bundle: each block is decoded once, and each slot of it becomes a line of that slot's sheet.

use khz_block::{Decoder, Step};
use khz_model::Nanos;
use khz_model::reading::LABELS_STATE;

use crate::limits::{BUNDLE_BYTES, BUNDLE_CELLS};
use crate::log::LoggedBlock;
use crate::log::bundle::{Bundled, put_directory};
use crate::log::sheet::{RowTimes, SheetWriter};
use crate::part::Part;

/// A bundle on its way. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Bundling {
    blocks: Vec<Bundled>,
    /// The times, then each slot.
    sheets: Vec<SheetWriter>,
    bytes: usize,
    decoder: Decoder,
    rows: Rows,
}

/// The rows of one block as columns.
#[derive(Debug, Default)]
struct Rows {
    count: usize,
    slots: Vec<Slot>,
    /// For each slot, the difference of each row but the first from the previous row.
    differences: Vec<u64>,
    times: Vec<u64>,
}

/// The content of a slot in the rows so far.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u64,
    last: u64,
    state: u8,
    /// Its state changed, so that only the block has all of it.
    is_mixed: bool,
    /// Some difference is not 0.
    has_changed: bool,
}

impl Bundling {
    /// Begins a bundle of blocks with this many slots.
    pub fn begin(&mut self, slots: usize) {
        self.blocks.clear();
        self.sheets.resize_with(slots + 1, SheetWriter::default);
        self.sheets.iter_mut().for_each(SheetWriter::clear);
        self.bytes = 0;
    }

    /// How many blocks it has.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// True when it is large enough.
    pub fn is_full(&self) -> bool {
        self.bytes >= BUNDLE_BYTES
    }

    /// Adds the block whose record is at this place; false: it is none that a bundle can have.
    pub fn add(&mut self, at: u64, block: &LoggedBlock) -> bool {
        let slots = self.sheets.len() - 1;
        let Some(real_offset) = self.rows.take(&mut self.decoder, slots, block) else { return false };
        let (rows, first_row, first) = (block.rows, block.header.first_row, Nanos(self.rows.times[0]));
        self.blocks.push(Bundled { at, first_row, rows, first });
        let times = RowTimes { at: std::mem::take(&mut self.rows.times), real_offset, shift: block.shift };
        times.put(&mut self.sheets[0]);
        self.rows.times = times.at;
        self.rows.put(&mut self.sheets[1..]);
        self.sheets.iter_mut().for_each(SheetWriter::end_line);
        self.bytes = self.sheets.iter().map(SheetWriter::length).sum();
        true
    }

    /// The bytes of the bundle; `nodes`: of how many nodes its blocks are.
    pub fn finish(&mut self, nodes: usize) -> Vec<u8> {
        let (mut sheets, mut parts) = (Vec::with_capacity(self.bytes), Vec::with_capacity(self.sheets.len()));
        for sheet in &mut self.sheets {
            let begin = sheets.len();
            sheet.finish(&mut sheets);
            parts.push(Part::of(&sheets[begin..], begin as u64));
        }
        let mut out = put_directory(nodes, &self.blocks, &parts);
        out.append(&mut sheets);
        out
    }
}

impl Rows {
    /// Takes the rows of a block. Returns corrected real time less boot time. `None`: it is damaged, its clock stands still, or it
    /// is very large.
    fn take(&mut self, decoder: &mut Decoder, slots: usize, block: &LoggedBlock) -> Option<i64> {
        self.count = block.rows as usize;
        let cells = slots.checked_mul(self.count)?;
        if cells > BUNDLE_CELLS || self.count == 0 {
            return None;
        }
        self.times.clear();
        self.differences.clear();
        self.differences.resize(cells, 0);
        let (mut bytes, mut real_offset) = (&block.bytes[..], None);
        loop {
            match decoder.step(bytes) {
                Ok(Step::Header(length)) if real_offset.is_none() => {
                    real_offset = Some(0);
                    bytes = &bytes[length..];
                }
                Ok(Step::Row(length)) if self.times.len() < self.count => {
                    bytes = &bytes[length..];
                    let stamp = decoder.stamp();
                    let offset = stamp.real_offset.saturating_add(block.shift);
                    real_offset = Some(offset);
                    let at = khz_model::Stamp { real_offset: offset, ..stamp }.real().0;
                    if self.times.last().is_some_and(|last| *last >= at) {
                        return None;
                    }
                    self.row(decoder, slots);
                    self.times.push(at);
                }
                Ok(Step::Incomplete) if bytes.is_empty() && self.times.len() == self.count => {
                    return real_offset;
                }
                _ => return None,
            }
        }
    }

    /// Takes the decoder's row.
    fn row(&mut self, decoder: &Decoder, slots: usize) {
        let (states, values) = (decoder.states(), decoder.values());
        let Some(row) = self.times.len().checked_sub(1) else {
            let slot = |slot: usize| {
                let there = states.get(slot).zip(values.get(slot));
                let (state, first) = there.map_or((LABELS_STATE, 0), |(state, value)| (*state, *value));
                // Labels are texts. Slots that the block lacks are rare.
                let is_mixed = state == LABELS_STATE;
                Slot { first, last: first, state, is_mixed, has_changed: false }
            };
            self.slots.clear();
            self.slots.extend((0..slots).map(slot));
            return;
        };
        let width = self.count - 1;
        for &changed in decoder.changed() {
            let changed = changed as usize;
            let Some(slot) = self.slots.get_mut(changed) else { continue };
            slot.is_mixed |= states[changed] != slot.state;
            slot.has_changed = true;
            self.differences[changed * width + row] = values[changed].wrapping_sub(slot.last);
            slot.last = values[changed];
        }
    }

    /// Appends each slot to its sheet.
    fn put(&self, sheets: &mut [SheetWriter]) {
        let width = self.count - 1;
        for (place, (slot, sheet)) in self.slots.iter().zip(sheets).enumerate() {
            let differences = &self.differences[place * width..(place + 1) * width];
            match slot {
                Slot { is_mixed: true, .. } => sheet.in_block(),
                Slot { state: 0, first, has_changed: true, .. } => sheet.numbers(*first, differences),
                Slot { state: 0, first, .. } => sheet.same(*first),
                Slot { state, .. } => sheet.state(*state),
            }
        }
    }
}
