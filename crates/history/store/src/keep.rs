//! What is kept, and what must go: by time and by size. It names units, and removes none.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use khz_model::{ByteSize, Nanos};

use crate::StoreError;
use crate::disk::{Disk, failed, part_of};
use crate::shelf::listing::Listing;
use crate::shelf::{BEGIN_FILE, Tier, Unit};

/// How much a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Bytes of all its files, the log included.
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

/// The unit that goes first when there is no room: the oldest unit of the finest tier that has more than one unit.
pub(crate) fn oldest(listing: &Listing) -> Option<Unit> {
    Tier::ALL.into_iter().find_map(|tier| {
        let mut units = listing.units(tier);
        let oldest = units.next()?;
        units.next().map(|_| oldest)
    })
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
