//! Decides what is kept and what is removed, by time and by size. It names units and files, but removes none.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use khz_model::{ByteSize, Nanos};

use crate::StoreError;
use crate::disk::{Disk, failed, part_of};
use crate::limits::MERGE_DELAY;
use crate::shelf::listing::{Listing, Piece};
use crate::shelf::{BEGIN_FILE, Tier, Unit};

/// How much a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Bytes of all its files, the log included. It wins over the times.
    pub size: ByteSize,
    /// How long rows are kept as they were gathered.
    pub raw: Nanos,
    /// How long summaries of a minute are kept.
    pub minute: Nanos,
    /// How long summaries of an hour are kept.
    pub hour: Nanos,
}

impl Keep {
    /// How long a tier is kept.
    pub fn time(&self, tier: Tier) -> Nanos {
        match tier {
            Tier::Raw => self.raw,
            Tier::Minute => self.minute,
            Tier::Hour => self.hour,
        }
    }

    /// The first time that a tier still keeps.
    pub(crate) fn since(&self, tier: Tier, now: Nanos) -> Nanos {
        Nanos(now.0.saturating_sub(self.time(tier).0))
    }

    /// The units that are older than their tier keeps them, but never the newest of a tier.
    pub(crate) fn expired(&self, listing: &Listing, now: Nanos) -> Vec<Unit> {
        let of_tier = |tier: Tier| {
            let units: Vec<Unit> = listing.units(tier).collect();
            let older = units.len().saturating_sub(1);
            units.into_iter().take(older).filter(move |unit| unit.end <= self.since(tier, now))
        };
        Tier::ALL.into_iter().flat_map(of_tier).collect()
    }
}

/// The next thing to remove when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// All files of a unit.
    Unit(Unit),
    /// One file of a unit, its oldest.
    Piece(Piece),
}

/// What to remove first when there is no room; `None`: there is nothing left. The order: the hours of rows before the newest, the
/// days of minutes before the newest, the months of hours, then the newest ones. Hours that will be rolled up go last, so that
/// there is no hole in the summaries; `is_left_alone` says which will not. The lowest piece of a unit goes before the others. Its
/// version of their rows is older, so no older reading comes to light.
pub(crate) fn goes_first(
    listing: &Listing,
    now: Nanos,
    is_left_alone: impl Fn(&Unit) -> bool,
) -> Option<Going> {
    let is_needed = |unit: &Unit| {
        let is_done = is_over(*unit, now) && is_rolled_up(listing.of(*unit));
        unit.tier == Tier::Raw && !is_done && !is_left_alone(unit)
    };
    let before_newest = |tier: &Tier| {
        let newest = listing.units(*tier).last()?;
        listing.units(*tier).find(|unit| *unit != newest && !is_needed(unit))
    };
    let oldest = |tier: Tier| listing.units(tier).next();
    let larger = || {
        let oldest = [Tier::Minute, Tier::Hour].into_iter().filter_map(oldest);
        oldest.max_by_key(|unit| listing.bytes(*unit))
    };
    let unit = Tier::ALL.iter().find_map(before_newest).or_else(larger).or_else(|| oldest(Tier::Raw))?;
    let pieces = listing.of(unit);
    if unit.tier == Tier::Raw && is_over(unit, now) && (is_rolled_up(pieces) || pieces.len() == 1) {
        return Some(Going::Unit(unit));
    }
    // Files that were set aside are never read, so they go before all others.
    let lowest = pieces.iter().find(|piece| piece.is_set_aside).or(pieces.first());
    lowest.copied().map(Going::Piece)
}

/// True if all of a unit is in its files by now, as a rule.
pub(crate) fn is_over(unit: Unit, now: Nanos) -> bool {
    now.0 >= unit.end.0.saturating_add(MERGE_DELAY.0)
}

/// True if these files of an hour have been rolled up, at least once.
fn is_rolled_up(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| piece.number == 0)
}

/// Reads before which time no rows are taken, because hours up to it have been removed.
pub(crate) fn begin(folder: &Path) -> Result<Nanos, StoreError> {
    let path = folder.join(BEGIN_FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Nanos(0)),
        text => text.map_err(failed("read", &path))?,
    };
    let unit = Unit::parse(Tier::Raw, text.trim_end());
    let length = text.len() as u64;
    let problem = "it is not an hour like 2026-11-23T14";
    unit.map(|unit| unit.begin).ok_or(StoreError::Damaged { path, offset: 0, bytes: length, problem })
}

/// Writes it.
pub(crate) fn write_begin(disk: &Disk, folder: &Path, hour: Unit) -> Result<(), StoreError> {
    let path = folder.join(BEGIN_FILE);
    let part = part_of(&path);
    let mut file = disk.create(&part)?;
    writeln!(file, "{hour}").map_err(failed("write", &part))?;
    disk.sync(&part, &file)?;
    disk.rename(&part, &path)
}
