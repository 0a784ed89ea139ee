//! The lanes of an agent, and which of them each source belongs to: a tick looks only at lanes that have the source.

use std::ops::{Deref, DerefMut};

use crate::lane::{Lane, set_bits};
use crate::source::Source;
use crate::source_set::SourceSet;

/// A set of lanes: the bit of a lane's place.
pub(crate) type Places = u128;

/// The lanes, in the order in which they were opened.
pub(crate) struct LaneSet {
    all: Vec<Lane>,
    /// For each source, the lanes that have it.
    with_source: Vec<Places>,
    /// The sources among them whose rows mark what has changed.
    marked: Vec<Places>,
    /// How many slots of each source they know.
    known: Vec<usize>,
    /// Some source has other slots than when that was asked last.
    has_grown: bool,
}

impl LaneSet {
    /// A set of these lanes, for this number of sources.
    pub fn new(all: Vec<Lane>, sources: usize) -> Self {
        let (with_source, marked, known) = (vec![0; sources], vec![0; sources], vec![0; sources]);
        let mut lanes = LaneSet { all, with_source, marked, known, has_grown: false };
        lanes.index();
        lanes
    }

    /// Adds a lane at the end.
    pub fn push(&mut self, lane: Lane) {
        self.all.push(lane);
        self.index();
    }

    /// Closes a lane; the lanes after it move up.
    pub fn remove(&mut self, place: usize) {
        self.all.remove(place);
        self.index();
    }

    /// Closes the lanes of which this does not hold.
    pub fn retain_mut(&mut self, is_kept: impl FnMut(&mut Lane) -> bool) {
        self.all.retain_mut(is_kept);
        self.index();
    }

    /// Finds out again which lanes have which source.
    fn index(&mut self) {
        let LaneSet { all, with_source, marked, known, .. } = self;
        let sources = with_source.iter_mut().zip(marked).zip(known).enumerate();
        for (source, ((with_source, marked), known)) in sources {
            (*with_source, *marked, *known) = (0, 0, 0);
            for (place, lane) in all.iter().enumerate().filter(|(_, lane)| lane.refresh_of(source).is_some())
            {
                *with_source |= 1 << place;
                *marked |= Places::from(lane.needs_marks()) << place;
            }
        }
    }

    /// The lanes that have the source.
    #[inline]
    pub fn with(&self, source: usize) -> Places {
        self.with_source.get(source).copied().unwrap_or(0)
    }

    /// These sources begin with other slots, and so do the lanes that have them.
    #[cold]
    pub fn renew(&mut self, renewed: SourceSet, sources: &[Source]) {
        let renewed = || (0..sources.len()).filter(|&source| renewed.has(source));
        let meant = renewed().fold(0, |all, source| all | self.with(source));
        for place in places(meant) {
            self.all[place].renew(sources);
        }
        for source in renewed() {
            self.known[source] = 0;
        }
    }

    /// True once after a source had other slots than before.
    #[inline]
    pub fn take_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// Each lane of a set, in order.
    #[inline]
    pub fn at(&self, set: Places) -> impl Iterator<Item = &Lane> {
        places(set).map(|place| &self.all[place])
    }

    /// Notes in every lane that has the source which of its readings changed.
    #[inline]
    pub fn note(&mut self, index: usize, source: &Source) {
        if self.known[index] != source.slots() {
            self.grow(index, source);
        }
        for place in places(self.marked[index]) {
            self.all[place].mark(index, source);
        }
    }

    /// The source has other slots than before.
    #[cold]
    fn grow(&mut self, index: usize, source: &Source) {
        for place in places(self.with(index)) {
            self.all[place].know(index, source);
        }
        self.known[index] = source.slots();
        self.has_grown = true;
    }
}

impl Deref for LaneSet {
    type Target = [Lane];

    fn deref(&self) -> &[Lane] {
        &self.all
    }
}

impl DerefMut for LaneSet {
    fn deref_mut(&mut self) -> &mut [Lane] {
        &mut self.all
    }
}

/// The places of a set, in order.
#[inline]
pub(crate) fn places(set: Places) -> impl Iterator<Item = usize> {
    set_bits([set as u64, (set >> 64) as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_order() {
        assert_eq!(places(0b1001 | 1 << 127).collect::<Vec<_>>(), [0, 3, 127]);
        assert_eq!(places(0).count(), 0);
    }
}
