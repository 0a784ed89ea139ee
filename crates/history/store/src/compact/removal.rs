//! Removing what is too old or too much, and noting which hours are gone.

use std::fmt;

use khz_model::Nanos;

use crate::StoreError;
use crate::compact::{Compactor, SharedLog, StoreCounts, Tick};
use crate::keep::{self, Going};
use crate::shelf::listing::Piece;
use crate::shelf::{Tier, Unit};

/// The column files that were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// A unit.
    Unit(Unit),
    /// The oldest part of a unit: one of its files.
    Part(Unit),
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Removed::Unit(unit) => unit.fmt(f),
            Removed::Part(unit) => write!(f, "the oldest part of {unit}"),
        }
    }
}

impl Compactor {
    /// Bytes that are free.
    fn free(&self, log: &SharedLog) -> u64 {
        self.keep.size.0.saturating_sub(self.shelf.listing().total() + log.lock().bytes())
    }

    /// Removes the oldest until there is room for some bytes more, or nothing is left to remove.
    pub(super) fn make_room(
        &mut self,
        log: &SharedLog,
        room: u64,
        now: Nanos,
        tick: &mut Tick,
    ) -> Result<(), StoreError> {
        loop {
            let listing = self.shelf.listing();
            let taken = listing.total() + log.lock().bytes();
            if taken.saturating_add(room) <= self.keep.size.0 {
                return Ok(());
            }
            match keep::goes_first(&listing, now, |unit| self.left_alone.has(unit, now)) {
                Some(Going::Unit(unit)) => self.remove_unit(unit, tick)?,
                Some(Going::Piece(piece)) => self.remove_piece(&piece, tick)?,
                None => return Ok(()),
            }
        }
    }

    /// The next step may take what is free. If the log has all the room, so that nothing could be removed for it, the step may
    /// take as much as it needs: it makes the log shorter.
    pub(super) fn set_room(&self, log: &SharedLog, needed: u64) {
        let free = self.free(log);
        self.room.set(if free < needed { u64::MAX } else { free });
    }

    /// Removes a unit.
    pub(super) fn remove_unit(&mut self, unit: Unit, tick: &mut Tick) -> Result<(), StoreError> {
        if unit.tier == Tier::Raw && self.begin < unit.end {
            // Late rows must not make a new piece of that hour, since its roll-up would replace the complete one. If the disk is
            // too full for this file, the next step writes it.
            self.begin = unit.end;
            self.unwritten = Tier::Raw.unit(unit.end);
            let _ = self.write_begin();
        }
        for piece in self.shelf.listing().of(unit) {
            self.disk.remove(&self.shelf.tier_folder(unit.tier).join(piece.name()))?;
        }
        self.is_removed(Removed::Unit(unit), tick)
    }

    /// Removes a file of a unit.
    fn remove_piece(&mut self, piece: &Piece, tick: &mut Tick) -> Result<(), StoreError> {
        self.disk.remove(&self.shelf.tier_folder(piece.unit.tier).join(piece.name()))?;
        let is_last = self.shelf.listing().of(piece.unit).len() == 1;
        self.is_removed(if is_last { Removed::Unit(piece.unit) } else { Removed::Part(piece.unit) }, tick)
    }

    fn is_removed(&self, removed: Removed, tick: &mut Tick) -> Result<(), StoreError> {
        self.shelf.renew()?;
        StoreCounts::add(&self.counts.removed, 1);
        tick.removed.push(removed);
        Ok(())
    }

    pub(super) fn write_begin(&mut self) -> Result<(), StoreError> {
        if let Some(hour) = self.unwritten {
            keep::write_begin(&self.disk, &self.shelf.tier_folder(Tier::Raw), hour)?;
            self.unwritten = None;
        }
        Ok(())
    }
}
