//! The shelf: the column files of a store. It knows which there are, and opens them; it changes none.
//!
//! Each tier has a folder, each unit of time in it a file: piece 0. Pieces with higher numbers have rows that came later,
//! or have not been merged yet; of overlapping pieces the higher number wins.

pub(crate) mod listing;
mod open;
pub(crate) mod tier;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_model::Nanos;

pub use tier::{Tier, Unit};

use crate::file::ColumnFile;
use crate::history::{Answer, History};
use crate::layout::Layouts;
use crate::limits::{FILES_IN_ANSWER, LISTING_TRIES};
use crate::range::ColumnFiles;
use crate::shelf::listing::{Listing, Piece};
use crate::shelf::open::OpenFiles;
use crate::{StoreError, shelf::tier::piece_name};

/// The file in the folder of rows that names the hour before which no rows are accepted: the older rows were removed, and only
/// their roll-ups are left.
pub(crate) const BEGIN_FILE: &str = "begin";

/// The column files of a store, from any thread.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    layouts: Arc<Layouts>,
    /// Another process may change the files.
    is_shared: bool,
    version: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    listing: Arc<Listing>,
    open: OpenFiles,
}

/// An hour with files of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHour {
    /// When it begins.
    pub begin: Nanos,
    /// All its rows are in the roll-ups, if roll-ups have the hour.
    pub is_settled: bool,
}

/// The facts of one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierFacts {
    /// The tier.
    pub tier: Tier,
    /// Files.
    pub files: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// When the oldest unit begins and the newest one ends; `None`: there is nothing.
    pub units: Option<(Nanos, Nanos)>,
    /// The times of the first and the last row, or bucket; `None`: there is none.
    pub span: Option<(Nanos, Nanos)>,
}

impl Shelf {
    /// The files in the folder of a store.
    pub(crate) fn open(folder: &Path, is_shared: bool) -> Result<Self, StoreError> {
        let shelf = Shelf {
            folder: folder.to_owned(),
            layouts: Arc::default(),
            is_shared,
            version: AtomicU64::new(1),
            known: Mutex::default(),
        };
        shelf.renew()?;
        Ok(shelf)
    }

    /// The history at this resolution, of all units that have some of this time.
    pub fn history(&self, resolution: Nanos, from: Nanos, to: Nanos) -> Result<Answer<History>, StoreError> {
        let mut damage = Vec::new();
        let files = self.files(resolution, from, to, &mut damage);
        Ok(Answer { found: History::of(files)?, damage })
    }

    /// The facts of each tier.
    pub fn facts(&self) -> Vec<TierFacts> {
        let listing = self.listing();
        let facts = |tier| {
            let units: Vec<Unit> = listing.units(tier).collect();
            let spans = |unit: &Unit| self.spans(listing.of(*unit));
            let first = units.first().and_then(|unit| spans(unit).map(|span| span.0).min());
            let last = units.last().and_then(|unit| spans(unit).map(|span| span.1).max());
            TierFacts {
                tier,
                files: units.iter().map(|unit| listing.of(*unit).len()).sum(),
                bytes: units.iter().map(|unit| listing.bytes(*unit)).sum(),
                units: units.first().zip(units.last()).map(|(first, last)| (first.begin, last.end)),
                span: first.zip(last),
            }
        };
        Tier::ALL.into_iter().map(facts).collect()
    }

    /// The times of the first and last row of each of these files; what cannot be opened is left out.
    fn spans<'a>(&'a self, pieces: &'a [Piece]) -> impl Iterator<Item = (Nanos, Nanos)> + 'a {
        pieces.iter().filter_map(|piece| Some(self.open_piece(piece).ok()?.span()))
    }

    /// Reads every byte of every file, and says what is damaged, and what does not belong here.
    pub fn check(&self) -> Vec<StoreError> {
        let listing = self.listing();
        let mut damage: Vec<StoreError> =
            listing.foreign.iter().map(|path| StoreError::Foreign { path: path.clone() }).collect();
        damage.extend(listing.damaged().map(|path| StoreError::SetAside { path: self.folder.join(path) }));
        for piece in listing.pieces() {
            match self.open_piece(piece) {
                Ok(file) => damage.extend(file.check()),
                Err(error) if error.is_missing() => {}
                Err(error) => damage.push(error),
            }
        }
        damage
    }

    /// Bytes of all files that belong to the store.
    pub fn bytes(&self) -> u64 {
        self.listing().total()
    }

    /// Lists the files again. True: something has changed.
    pub(crate) fn renew(&self) -> Result<bool, StoreError> {
        let mut listing = Listing::read(&self.folder)?;
        // While files are renamed and removed, a list may have neither the old nor the new ones. Two that are equal have not
        // been made in such a moment.
        for _ in 0..LISTING_TRIES {
            let again = Listing::read(&self.folder)?;
            if again == listing {
                break;
            }
            listing = again;
        }
        let mut known = self.known();
        let is_new = *known.listing != listing;
        if is_new {
            known.open.retain(|piece| listing.has(piece));
            known.listing = Arc::new(listing);
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(is_new)
    }

    pub(crate) fn listing(&self) -> Arc<Listing> {
        self.known().listing.clone()
    }

    /// The path of a piece.
    pub(crate) fn path(&self, unit: Unit, number: u32) -> PathBuf {
        self.folder.join(unit.tier.folder()).join(piece_name(unit, number))
    }

    /// The folder of a tier.
    pub(crate) fn tier_folder(&self, tier: Tier) -> PathBuf {
        self.folder.join(tier.folder())
    }

    /// Opens a piece, which must be one of its tier.
    pub(crate) fn open_piece(&self, piece: &Piece) -> Result<ColumnFile, StoreError> {
        let file = ColumnFile::open(&self.path(piece.unit, piece.number), &self.layouts)?;
        let expected = piece.unit.tier.resolution();
        if file.resolution() != expected {
            let (path, found) = (file.path().to_owned(), file.resolution());
            return Err(StoreError::OtherResolution { path, found, expected });
        }
        Ok(file)
    }

    /// Opens all files of this time; `None`: they are not those of the list any more.
    fn open_all(
        &self,
        tier: Tier,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Option<Vec<Arc<ColumnFile>>> {
        let listing = self.listing();
        let units = listing.within(tier, from, to);
        let pieces: Vec<&Piece> = units.flat_map(|(_, pieces)| pieces).collect();
        if pieces.len() > FILES_IN_ANSWER {
            damage.push(StoreError::TooMuch {
                what: "files of history in one answer: ask for a shorter time",
                limit: FILES_IN_ANSWER,
            });
            return Some(Vec::new());
        }
        let mut files = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let kept = self.known().open.get(piece);
            let opened = match kept {
                Some(file) => Ok(file),
                None => self.open_piece(piece).map(Arc::new),
            };
            match opened {
                Ok(file) if file.inode() != piece.inode => return None,
                Ok(file) => {
                    self.known().open.keep(piece, &file);
                    files.push(file);
                }
                Err(error) if error.is_missing() => return None,
                Err(error) => damage.push(error),
            }
        }
        Some(files)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ColumnFiles for Shelf {
    fn resolutions(&self) -> Vec<Nanos> {
        Tier::ALL.into_iter().map(Tier::resolution).filter(|resolution| resolution.0 > 0).collect()
    }

    fn first(&self, resolution: Nanos) -> Option<Nanos> {
        let tier = Tier::ALL.into_iter().find(|tier| tier.resolution() == resolution)?;
        self.listing().whole(tier).next().map(|(unit, _)| unit.begin)
    }

    fn hours(&self, from: Nanos, to: Nanos) -> Vec<StoredHour> {
        let listing = self.listing();
        let hours = listing.within(Tier::Raw, from, to);
        let is_settled = |pieces: &[Piece]| matches!(pieces, [Piece { number: 0, .. }]);
        hours.map(|(unit, pieces)| StoredHour { begin: unit.begin, is_settled: is_settled(pieces) }).collect()
    }

    fn files(
        &self,
        resolution: Nanos,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Arc<ColumnFile>> {
        let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.resolution() == resolution) else {
            return Vec::new();
        };
        for _ in 0..LISTING_TRIES {
            let mut problems = Vec::new();
            match self.open_all(tier, from, to, &mut problems) {
                Some(files) => {
                    damage.append(&mut problems);
                    return files;
                }
                // A merge has removed a file in between.
                None => match self.renew() {
                    Ok(_) => {}
                    Err(error) => {
                        damage.push(error);
                        return Vec::new();
                    }
                },
            }
        }
        damage.push(StoreError::Restless { path: self.folder.join(tier.folder()) });
        Vec::new()
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn list_again(&self) {
        if self.is_shared {
            // If the folder cannot be read, opening the files will say so.
            let _ = self.renew();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_process_are_listed_when_a_question_begins_and_not_before() {
        let folder = std::env::temp_dir().join(format!("khz-shelf-{}", std::process::id()));
        let hours = folder.join(Tier::Hour.folder());
        std::fs::create_dir_all(&hours).unwrap();
        let (shared, own) = (Shelf::open(&folder, true).unwrap(), Shelf::open(&folder, false).unwrap());
        let before = [shared.version(), own.version()];
        std::fs::write(hours.join("2026-11.0.col"), b"a month").unwrap();
        assert_eq!([shared.version(), own.version()], before);
        shared.list_again();
        own.list_again();
        assert!(shared.version() > before[0] && shared.bytes() == 7);
        assert!(own.version() == before[1] && own.bytes() == 0, "the writer says what has changed");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
