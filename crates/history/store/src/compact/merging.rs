//! Merging the pieces of a unit, and rolling up an hour. What is damaged is set aside; its whole parts are in the new file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::compact::{Compactor, Stage, Step, Tick};
use crate::file::ColumnFile;
use crate::merge::{merge_on, roll_up_on};
use crate::shelf::listing::{DAMAGED, Piece};
use crate::shelf::{Tier, Unit};

/// The pieces of a unit, opened.
struct Opened {
    files: Vec<ColumnFile>,
    /// What cannot be opened at all.
    damage: Vec<StoreError>,
}

impl Compactor {
    /// Rolls the hour up by the minute.
    pub(super) fn minutes(&mut self, tick: &mut Tick) -> Result<(), StoreError> {
        let Some(rolling) = &self.rolling else { return Ok(()) };
        let (hour, pieces) = (rolling.unit, rolling.pieces.clone());
        let opened = self.open(&pieces)?;
        let day = Tier::Minute.unit(hour.begin).filter(|_| !opened.files.is_empty());
        let stage = match day {
            // Merging tells what is damaged.
            Some(day) => Stage::Hour(day, self.roll_up(day, &opened.files)?),
            None => Stage::Merge,
        };
        self.advance(stage);
        tick.step = Step::RolledUp { hour, into: Tier::Minute };
        Ok(())
    }

    /// Rolls the hour up once more, out of its minutes.
    pub(super) fn hour(&mut self, day: Unit, number: u32, tick: &mut Tick) -> Result<(), StoreError> {
        let Some(hour) = self.rolling.as_ref().map(|rolling| rolling.unit) else { return Ok(()) };
        let minutes = self.shelf.listing().of(day).iter().find(|piece| piece.number == number).copied();
        // If there was no room for it, there is none for its roll-up.
        if let (Some(minutes), Some(month)) = (minutes, Tier::Hour.unit(hour.begin)) {
            let opened = self.open(&[minutes])?;
            self.roll_up(month, &opened.files)?;
            tick.damage.extend(opened.damage);
        }
        self.advance(Stage::Merge);
        tick.step = Step::RolledUp { hour, into: Tier::Hour };
        Ok(())
    }

    fn advance(&mut self, stage: Stage) {
        if let Some(rolling) = &mut self.rolling {
            rolling.stage = stage;
        }
    }

    /// Writes a further piece of a unit out of these files. Returns its number.
    fn roll_up(&self, unit: Unit, files: &[ColumnFile]) -> Result<u32, StoreError> {
        self.disk.create_folder(&self.shelf.tier_folder(unit.tier))?;
        let number = self.shelf.listing().next_number(unit);
        let (path, resolution) = (self.shelf.path(unit, number), unit.tier.resolution());
        roll_up_on(&self.disk, &path, files, resolution, StoreError::refuse_failures)?;
        Ok(number)
    }

    /// Makes one piece of these, piece 0. They are the lowest of the unit, in their order.
    pub(super) fn merge(&mut self, unit: Unit, pieces: &[Piece], tick: &mut Tick) -> Result<(), StoreError> {
        let Opened { files, damage } = self.open(pieces)?;
        if files.is_empty() {
            // Nothing can be read, so nothing is done, and this is logged once.
            self.left_alone.add_for_good(unit);
            tick.damage.extend(damage);
            return Ok(());
        }
        let path = self.shelf.path(unit, 0);
        let mut damaged: HashSet<PathBuf> = damage.iter().filter_map(damaged_path).collect();
        if let ([piece], true) = (pieces, damage.is_empty()) {
            // It is merged already, but for its name.
            self.disk.rename(&self.shelf.path(unit, piece.number), &path)?;
            tick.step = Step::Merged { unit, pieces: 1 };
            return Ok(());
        }
        let merged = merge_on(&self.disk, &path, &files, |found| {
            StoreError::refuse_failures(found)?;
            damaged.extend(found.iter().filter_map(damaged_path));
            // The new file takes the name of piece 0, so a damaged one needs another first.
            if damaged.contains(&path) {
                self.disk.link(&path, &set_aside(&path))?;
            }
            Ok(())
        })?;
        // In the order of their numbers, so that after a crash no reading of an older piece lies over a newer one.
        for piece in pieces.iter().filter(|piece| piece.number > 0) {
            let path = self.shelf.path(unit, piece.number);
            match damaged.contains(&path) {
                true => self.disk.rename(&path, &set_aside(&path))?,
                false => self.disk.remove(&path)?,
            }
        }
        tick.damage.extend(damage);
        tick.damage.extend(merged.damage);
        tick.step = Step::Merged { unit, pieces: pieces.len() };
        Ok(())
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
