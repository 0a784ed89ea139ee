//! Selects the pieces of a roll-up to merge: consecutive ones that are small enough together. So a unit that is large compared with
//! the store stays in several pieces, and the oldest can be removed alone.

use crate::limits::{FILES_MERGED, PIECES_MAX};
use crate::shelf::listing::Piece;

/// The pieces of a unit that are merged next, if some should be. The last ones of a unit that is not over may wait for others.
pub(super) fn next(pieces: &[Piece], most: u64, is_over: bool) -> Option<&[Piece]> {
    let mut runs = runs(pieces, most).peekable();
    while let Some(run) = runs.next() {
        let further = run.iter().filter(|piece| piece.number > 0).count();
        let is_whole = is_over || runs.peek().is_some();
        if further > PIECES_MAX || (is_whole && run.len() > 1) {
            return Some(&run[..run.len().min(FILES_MERGED)]);
        }
    }
    None
}

/// The pieces in their order, grouped so that each group fits into `most` bytes. Larger pieces stay alone.
fn runs(pieces: &[Piece], most: u64) -> impl Iterator<Item = &[Piece]> {
    let mut bytes = 0u64;
    pieces.chunk_by(move |one, next| {
        // The first two of a run begin its sum.
        bytes = if bytes == 0 { one.bytes } else { bytes }.saturating_add(next.bytes);
        let fits = bytes <= most;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

#[cfg(test)]
mod tests {
    use khz_model::Nanos;

    use super::*;
    use crate::shelf::{Tier, Unit};

    fn pieces(bytes: &[u64]) -> Vec<Piece> {
        let unit = Unit { tier: Tier::Minute, begin: Nanos(0), end: Nanos(1) };
        let piece = |(number, bytes): (usize, &u64)| Piece {
            unit,
            number: number as u32,
            inode: 0,
            bytes: *bytes,
            is_set_aside: false,
        };
        bytes.iter().enumerate().map(piece).collect()
    }

    #[test]
    fn what_fits_together_is_merged_when_enough_has_come_or_the_unit_is_over() {
        let merged = |bytes: &[u64], is_over| {
            let pieces = pieces(bytes);
            next(&pieces, 100, is_over).map(|run| run.iter().map(|piece| piece.number).collect::<Vec<_>>())
        };
        assert_eq!(merged(&[], true), None);
        assert_eq!(merged(&[50], true), None);
        assert_eq!(merged(&[50, 10, 10, 10, 10], false), None, "few enough");
        assert_eq!(merged(&[50, 10, 10, 10, 10, 5], false), Some(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(merged(&[50, 10], true), Some(vec![0, 1]));
        assert_eq!(merged(&[50, 50, 50, 20, 20], false), Some(vec![0, 1]), "nothing more fits");
        assert_eq!(merged(&[100, 50, 20, 20], false), None);
        assert_eq!(merged(&[100, 50, 20, 20], true), Some(vec![1, 2, 3]));
        assert_eq!(merged(&[900, 90, 800, 20, 81], true), None);
        assert_eq!(merged(&[1; 70], false), Some((0..32).collect()), "not too many files at a time");
    }
}
