//! A row on its way into the ring, and which slots it has. It does not decide whether there is a row.

use khz_block::Encoder;
use khz_model::Stamp;
use khz_ring::Writer;

use crate::readings::Cell;
use crate::source::Source;

/// What a row on its way into the ring needs of a lane.
pub(super) struct RowWriter<'a> {
    pub stamp: Stamp,
    pub width: usize,
    pub encoder: &'a mut Encoder,
    pub bytes: &'a mut Vec<u8>,
    pub ring: &'a mut Writer,
}

impl RowWriter<'_> {
    /// Writes the row: all slots in the first row of a block, only changed slots in other rows, in ascending order.
    /// `false`: there is no room.
    #[inline]
    pub fn write(&mut self, changed: impl Iterator<Item = usize>, reading: impl Fn(usize) -> Cell) -> bool {
        let RowWriter { stamp, width, encoder, bytes, ring } = self;
        bytes.clear();
        if encoder.rows_open() == 0 {
            encoder.key_row(*stamp, *width, reading, bytes);
            ring.begin(bytes)
        } else {
            encoder.delta_row(*stamp, changed, reading, bytes);
            ring.append(bytes)
        }
    }
}

/// State and bits of a source's slot.
#[inline]
pub(super) fn reading_at(sources: &[Source], (source, slot): (u16, u32)) -> Cell {
    let source = &sources[source as usize];
    (source.states()[slot as usize], source.values()[slot as usize])
}

/// The positions of the bits that are set, in order.
#[inline]
pub(crate) fn set_bits(words: impl IntoIterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(word, bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                word * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        assert_eq!(set_bits([0b1001, 0, 1 << 63]).collect::<Vec<_>>(), [0, 3, 191]);
    }
}
