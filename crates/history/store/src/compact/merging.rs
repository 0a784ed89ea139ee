//! Merging the pieces of a unit, and rolling up an hour while its pieces are merged. Damaged pieces are set aside. Their intact
//! parts are in the new file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::compact::{Compactor, Step, Tick};
use crate::file::ColumnFile;
use crate::merge::{HourFiles, merged};
use crate::part_file::{PartFile, WholeFile};
use crate::shelf::listing::{DAMAGED, Piece};
use crate::shelf::{Tier, Unit};

/// The pieces of a unit, opened.
struct Opened {
    files: Vec<ColumnFile>,
    /// Pieces that cannot be opened at all.
    damage: Vec<StoreError>,
}

impl Compactor {
    /// Rolls the pieces of an hour up, and makes one piece of them.
    pub(super) fn hour(&mut self, hour: Unit, pieces: &[Piece], tick: &mut Tick) -> Result<(), StoreError> {
        let Opened { files, damage } = self.open(pieces)?;
        let Some((day, month)) = Tier::Minute.unit(hour.begin).zip(Tier::Hour.unit(hour.begin)) else {
            return Ok(());
        };
        if files.is_empty() {
            return self.nothing_is_whole(hour, damage, tick);
        }
        let create = |unit: Unit, number: u32| {
            self.disk.create_folder(&self.shelf.tier_folder(unit.tier))?;
            PartFile::create(&self.disk, &self.shelf.path(unit, number), unit.tier.resolution())
        };
        let next = |unit: Unit| create(unit, self.shelf.listing().next_number(unit));
        let mut made = HourFiles { merged: create(hour, 0)?, minutes: next(day)?, hours: next(month)? };
        let found = made.fill(&files).and_then(|mut found| {
            StoreError::refuse_failures(&mut found)?;
            Ok(found)
        });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                made.remove();
                return Err(error);
            }
        };
        // The roll-ups first: an hour whose only piece is piece 0 has them.
        let merged = made.finish_roll_ups()?;
        self.replace((hour, 0), pieces, merged, damage, found, tick)
    }

    /// Gives the merged file its name, and removes what it was made of.
    fn replace(
        &self,
        (unit, number): (Unit, u32),
        pieces: &[Piece],
        merged: WholeFile<'_>,
        mut damage: Vec<StoreError>,
        found: Vec<StoreError>,
        tick: &mut Tick,
    ) -> Result<(), StoreError> {
        damage.extend(found);
        let damaged: HashSet<PathBuf> = damage.iter().filter_map(damaged_path).collect();
        let path = self.shelf.path(unit, number);
        merged.name(|| match damaged.contains(&path) {
            // The new file takes the name of the lowest piece, so a damaged one needs another first.
            true => self.disk.link(&path, &set_aside(&path)),
            false => Ok(()),
        })?;
        // In the order of their numbers, so that after a crash no reading of an older piece lies over a newer one.
        for piece in pieces.iter().filter(|piece| piece.number != number) {
            let path = self.shelf.path(unit, piece.number);
            match damaged.contains(&path) {
                true => self.disk.rename(&path, &set_aside(&path))?,
                false => self.disk.remove(&path)?,
            }
        }
        tick.damage.extend(damage);
        tick.step = Step::Merged { unit, pieces: pieces.len() };
        Ok(())
    }

    /// Nothing can be read, so nothing is done, and this is logged once.
    fn nothing_is_whole(
        &mut self,
        unit: Unit,
        damage: Vec<StoreError>,
        tick: &mut Tick,
    ) -> Result<(), StoreError> {
        self.left_alone.add_for_good(unit);
        tick.damage.extend(damage);
        Ok(())
    }

    /// Merges pieces of a roll-up whose numbers follow each other into one. It gets the lowest of their numbers, or 0 if no
    /// other piece of the unit has a lower one.
    pub(super) fn merge(&mut self, unit: Unit, pieces: &[Piece], tick: &mut Tick) -> Result<(), StoreError> {
        let Opened { files, damage } = self.open(pieces)?;
        if files.is_empty() {
            return self.nothing_is_whole(unit, damage, tick);
        }
        let is_lowest = self.shelf.listing().of(unit).first() == pieces.first();
        let number = pieces.first().filter(|_| !is_lowest).map_or(0, |piece| piece.number);
        let (merged, mut found) = merged(&self.disk, &self.shelf.path(unit, number), &files)?;
        if let Err(error) = StoreError::refuse_failures(&mut found) {
            merged.remove();
            return Err(error);
        }
        self.replace((unit, number), pieces, merged.complete()?, damage, found, tick)
    }

    /// Opens pieces. Those that are damaged as a whole are returned as damage; of those that this program cannot read for
    /// another reason nothing may be touched.
    fn open(&self, pieces: &[Piece]) -> Result<Opened, StoreError> {
        let mut opened = Opened { files: Vec::new(), damage: Vec::new() };
        for piece in pieces {
            match self.shelf.open_piece(piece) {
                Ok(file) => opened.files.push(file),
                Err(error @ StoreError::Damaged { .. }) => opened.damage.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(opened)
    }
}

fn set_aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(DAMAGED);
    PathBuf::from(name)
}

/// The file that has the damage.
fn damaged_path(error: &StoreError) -> Option<PathBuf> {
    match error {
        StoreError::Damaged { path, .. } => Some(path.clone()),
        _ => None,
    }
}
