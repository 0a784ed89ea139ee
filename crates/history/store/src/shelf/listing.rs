//! The files that the folders of a store have at one moment.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use khz_model::Nanos;

use crate::StoreError;
use crate::disk::failed;
use crate::shelf::BEGIN_FILE;
use crate::shelf::tier::{Name, Tier, Unit, piece_name};

/// A file of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub unit: Unit,
    pub number: u32,
    /// The number of the file on its disk: another file of the same name has another.
    pub inode: u64,
    pub bytes: u64,
    /// It was damaged, and its whole parts are in another piece.
    pub is_set_aside: bool,
}

/// What is in the folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The pieces of each unit, in the order of their numbers; those that are set aside come last.
    units: BTreeMap<Unit, Vec<Piece>>,
    /// Files that were not finished.
    pub parts: Vec<PathBuf>,
    /// What is not ours.
    pub foreign: Vec<PathBuf>,
}

impl Listing {
    /// Lists the folders of all tiers. A folder that is missing is empty.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let mut listing = Listing::default();
        for tier in Tier::ALL {
            let folder = folder.join(tier.folder());
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed("list", &folder))?,
            };
            for entry in entries {
                let entry = entry.map_err(failed("list", &folder))?;
                listing.add(tier, &entry).map_err(failed("list", &folder))?;
            }
        }
        let order = |piece: &Piece| (piece.is_set_aside, piece.number);
        listing.units.values_mut().for_each(|pieces| pieces.sort_by_key(order));
        listing.parts.sort_unstable();
        listing.foreign.sort_unstable();
        Ok(listing)
    }

    fn add(&mut self, tier: Tier, entry: &DirEntry) -> io::Result<()> {
        let metadata = match entry.metadata() {
            // It was removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            metadata => metadata?,
        };
        let name = entry.file_name();
        let name = name.to_str().filter(|_| metadata.is_file());
        let mut piece = |unit: Unit, number, is_set_aside| {
            let piece = Piece { unit, number, inode: metadata.ino(), bytes: metadata.len(), is_set_aside };
            self.units.entry(unit).or_default().push(piece);
        };
        match name.map_or(Name::Foreign, |name| Name::of(tier, name)) {
            Name::Piece(unit, number) => piece(unit, number, false),
            Name::Damaged(unit, number) => piece(unit, number, true),
            Name::Part => self.parts.push(entry.path()),
            Name::Foreign if tier == Tier::Raw && name == Some(BEGIN_FILE) => {}
            Name::Foreign => self.foreign.push(entry.path()),
        }
        Ok(())
    }

    /// All files of a unit.
    pub fn of(&self, unit: Unit) -> &[Piece] {
        self.units.get(&unit).map_or(&[], Vec::as_slice)
    }

    /// The units of a tier, oldest first, each with the pieces that can be read.
    pub fn whole(&self, tier: Tier) -> impl Iterator<Item = (Unit, &[Piece])> {
        let units = self.units.iter().filter(move |(unit, _)| unit.tier == tier);
        units.map(|(unit, pieces)| (*unit, whole(pieces))).filter(|(_, pieces)| !pieces.is_empty())
    }

    /// Those of them that have some of this time.
    pub fn within(&self, tier: Tier, from: Nanos, to: Nanos) -> impl Iterator<Item = (Unit, &[Piece])> {
        let at = |begin| Unit { tier, begin, end: Nanos(0) };
        let since = at(Nanos(from.0.saturating_sub(tier.longest().0)));
        let units = self.units.range(since..at(to.max(since.begin)));
        let units = units.filter(move |(unit, _)| unit.overlaps(from, to));
        units.map(|(unit, pieces)| (*unit, whole(pieces))).filter(|(_, pieces)| !pieces.is_empty())
    }

    /// The units of a tier, oldest first.
    pub fn units(&self, tier: Tier) -> impl Iterator<Item = Unit> {
        self.units.keys().copied().filter(move |unit| unit.tier == tier)
    }

    /// All pieces that can be read.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.units.values().flat_map(|pieces| whole(pieces))
    }

    /// The paths, below the store's folder, of the files that are set aside.
    pub fn damaged(&self) -> impl Iterator<Item = PathBuf> {
        let damaged = self.units.values().flatten().filter(|piece| piece.is_set_aside);
        damaged.map(|piece| Path::new(piece.unit.tier.folder()).join(piece.name()))
    }

    /// True if this very file is there.
    pub fn has(&self, piece: &Piece) -> bool {
        self.of(piece.unit).contains(piece)
    }

    /// A number that is higher than those of all pieces of a unit; 0 is for merged ones.
    pub fn next_number(&self, unit: Unit) -> u32 {
        let highest = self.of(unit).iter().map(|piece| piece.number).max();
        highest.map_or(1, |highest| highest.saturating_add(1))
    }

    /// Bytes of all files of a unit.
    pub fn bytes(&self, unit: Unit) -> u64 {
        self.of(unit).iter().map(|piece| piece.bytes).sum()
    }

    /// Bytes of all files that are the store's.
    pub fn total(&self) -> u64 {
        self.units.values().flatten().map(|piece| piece.bytes).sum()
    }
}

fn whole(pieces: &[Piece]) -> &[Piece] {
    &pieces[..pieces.partition_point(|piece| !piece.is_set_aside)]
}

impl Piece {
    /// The name of the file.
    pub fn name(&self) -> String {
        let name = piece_name(self.unit, self.number);
        if self.is_set_aside { name + DAMAGED } else { name }
    }
}

/// The suffix of a damaged file's name.
pub(crate) const DAMAGED: &str = ".damaged";
