//! Counts the rows of each column file of rows, so that the rows of a file that somebody removes can be counted as lost. It removes
//! nothing, and keeps nothing on the disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Disk;
use crate::limits::FILES_COUNTED;
use crate::shelf::listing::Piece;
use crate::shelf::{Shelf, Tier};

/// The files of rows that the last look has found.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// The rows of each; `None`: not counted yet.
    known: BTreeMap<Piece, Option<Rows>>,
}

/// The rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Counted(u64),
    /// The file cannot be read.
    Unknown,
}

impl Census {
    /// Checks the current files, and counts the rows of some new ones, the newest first. Returns the number of rows in files that
    /// are gone although compaction has not removed them. For a file without a count, it assumes the other files' average number of
    /// rows per byte.
    pub fn look(&mut self, shelf: &Shelf, disk: &Disk) -> u64 {
        let (listing, removed) = (shelf.listing(), disk.take_removed());
        let here: BTreeMap<Piece, Option<Rows>> = listing
            .pieces()
            .filter(|piece| piece.unit.tier == Tier::Raw)
            .map(|piece| (*piece, self.known.get(piece).copied().flatten()))
            .collect();
        let before = std::mem::replace(&mut self.known, here);
        let path = |piece: &Piece| shelf.tier_folder(Tier::Raw).join(piece.name());
        // Somebody who replaces a file has perhaps only copied it.
        let names: BTreeSet<_> = self.known.keys().map(|piece| (piece.unit, piece.number)).collect();
        let is_lost =
            |piece: &Piece| !names.contains(&(piece.unit, piece.number)) && !removed.contains(&path(piece));
        let lost = before.iter().filter(|(piece, _)| is_lost(piece));
        let lost = lost.map(|(piece, rows)| of_file(piece, *rows, &before)).sum();
        self.count(shelf);
        lost
    }

    fn count(&mut self, shelf: &Shelf) {
        let uncounted = self.known.iter_mut().rev().filter(|(_, rows)| rows.is_none());
        for (piece, rows) in uncounted.take(FILES_COUNTED) {
            let counted = shelf.open_piece(piece).and_then(|file| file.rows());
            *rows = Some(counted.map_or(Rows::Unknown, Rows::Counted));
        }
    }
}

/// The rows of a file, or an estimate by its bytes; a file of rows has at least one.
fn of_file(piece: &Piece, rows: Option<Rows>, all: &BTreeMap<Piece, Option<Rows>>) -> u64 {
    if let Some(Rows::Counted(rows)) = rows {
        return rows;
    }
    let counted = all.iter().filter_map(|(piece, rows)| match rows {
        Some(Rows::Counted(rows)) => Some((u128::from(piece.bytes), u128::from(*rows))),
        _ => None,
    });
    let (bytes, rows) = counted.fold((0, 0), |(bytes, rows), one| (bytes + one.0, rows + one.1));
    let estimate = (u128::from(piece.bytes) * rows).checked_div(bytes).unwrap_or(0);
    u64::try_from(estimate).unwrap_or(u64::MAX).max(1)
}
